"""A fork says what an interpreter says: every command, every exit code, stdin, environment, what is left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gate.cli import COMMANDS
from tests.conftest import Process, environment
from tests.forked import forks
from tests.test_cli import POLICY, rows

CODES = {
    "--version": 0,
    "check good.jsonl": 0,
    "check bad.jsonl --json out.json": 1,
    "check good.jsonl --policy none.yaml": 2,
    "check cut.json --junit out.xml": 3,
    "check good.jsonl --policy p99.yaml": 4,
    "check warn.jsonl --policy warn.yaml --fail-on warn": 5,
    "comment --report none.json": 3,
    "compare bad.jsonl good.jsonl": 0,
    "completion bash": 0,
    "explain goodput": 0,
    "export good.jsonl -o out.csv": 0,
    "history": 0,
    "init --for chat": 2,
    "inspect good.jsonl --html page.html": 2,
    "plan good.jsonl": 0,
    "pull": 2,
    "policy show": 0,
    "recipe --tool vllm": 2,
    "run --no-such-option": 2,
    "schema report": 0,
    "synth --help": 0,
    "tools": 0,
    "trend none": 3,
    "whatif bad.jsonl": 0,
}


def lay_out(folder: Path) -> Path:
    folder.mkdir()
    (folder / "slo.yaml").write_text(POLICY, encoding="utf-8")
    (folder / "p99.yaml").write_text("version: 1\nname: p\nslo: {ttft: {p99: 500ms}}\n", encoding="utf-8")
    warned = POLICY.replace("{p90: 500ms}", "{p90: {max: 50ms, level: warn}}")
    (folder / "warn.yaml").write_text(warned, encoding="utf-8")
    (folder / "good.jsonl").write_text(rows(), encoding="utf-8")
    (folder / "warn.jsonl").write_text(rows(), encoding="utf-8")
    (folder / "bad.jsonl").write_text(rows(ttft_s=0.9), encoding="utf-8")
    (folder / "cut.json").write_text('{"ttfts": [0.1, 0.2', encoding="utf-8")
    return folder


def seen(done: subprocess.CompletedProcess[str], folder: Path) -> tuple[object, ...]:
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    return done.returncode, done.stdout, done.stderr, files


def test_every_command_is_tried() -> None:
    assert {line.split()[0] for line in CODES} - {"--version"} == set(COMMANDS)


@pytest.mark.parametrize("line", CODES)
def test_a_fork_and_an_interpreter_print_write_and_exit_alike(
    line: str, tmp_path: Path, slo_gate: Process, interpreter: Process
) -> None:
    both = [
        seen(run(*line.split(), cwd=lay_out(tmp_path / name), NO_COLOR="1"), tmp_path / name)
        for name, run in (("fork", slo_gate), ("real", interpreter))
    ]
    assert both[0] == both[1]
    assert both[0][0] == CODES[line]


def test_stdin_and_the_environment_reach_a_fork(
    tmp_path: Path, slo_gate: Process, interpreter: Process
) -> None:
    folder = lay_out(tmp_path / "here")
    how = {"cwd": folder, "input": rows(ttft_s=0.9) + "é\r\n" * 100_000, "FORCE_COLOR": "1", "COLUMNS": "61"}
    assert seen(slo_gate("check", "-", **how), folder) == seen(interpreter("check", "-", **how), folder)
    how["input"] = rows(ttft_s=0.9)
    done = slo_gate("check", "-", **how)
    assert seen(done, folder) == seen(interpreter("check", "-", **how), folder)
    assert "\x1b[" in done.stdout


def test_a_run_leaves_nothing_for_the_next(tmp_path: Path, slo_gate: Process) -> None:
    """What is remembered of files, paths and words ends with each process."""
    folder = lay_out(tmp_path / "here")
    first = slo_gate("check", "bad.jsonl", cwd=folder)
    (folder / "bad.jsonl").write_text(rows(), encoding="utf-8")
    assert slo_gate("check", "bad.jsonl", "--debug", cwd=folder).returncode == 0
    (folder / "bad.jsonl").write_text(rows(ttft_s=0.9), encoding="utf-8")
    assert slo_gate("check", "bad.jsonl", cwd=folder).stdout == first.stdout


def test_variables_of_the_start_get_an_interpreter(tmp_path: Path, slo_gate: Process) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.stderr.write('started')", encoding="utf-8")
    path = f"{tmp_path}:{environment()['PYTHONPATH']}"
    assert slo_gate("--version", PYTHONPATH=path).stderr == "started"
    assert slo_gate("--version").stderr == ""


def test_a_fork_that_takes_too_long_is_killed_and_one_can_be_interrupted(tmp_path: Path) -> None:
    words = ["run", "--preset", "chat", "--", sys.executable, "-S", "-c"]
    sleep = "import time; time.sleep(20)"
    how = {"cwd": tmp_path, "env": environment(), "input": None}
    with pytest.raises(subprocess.TimeoutExpired):
        forks().run([*words, sleep, "{out}"], **how, timeout_s=2)
    kill = f"import os; os.kill(os.getppid(), {int(signal.SIGINT)}); {sleep}"
    done = forks().run(["run", "--dir", "other", *words[1:], kill, "{out}"], **how, timeout_s=60)
    assert done.returncode == 130


def test_forks_run_beside_each_other(tmp_path: Path, slo_gate: Process) -> None:
    from concurrent.futures import ThreadPoolExecutor

    lay_out(tmp_path / "here")
    with ThreadPoolExecutor(8) as pool:
        work = [pool.submit(slo_gate, "check", f"{name}.jsonl", "--format", "json", cwd=tmp_path / "here")
                for name in ("good", "bad") * 8]  # fmt: skip
        codes = [one.result().returncode for one in work]
    assert codes == [0, 1] * 8
    assert json.loads(work[1].result().stdout)["verdict"] == "fail"
