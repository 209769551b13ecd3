"""The command line helps: alone it says what there is, a near miss is answered, a shell completes names."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gate import policy
from gate.readers import READERS
from tests.conftest import ROOT, Process


@pytest.mark.parametrize("words", [(), ("policy",)])
def test_a_group_alone_prints_its_help_and_exits_0(words: tuple[str, ...], slo_gate: Process) -> None:
    done = slo_gate(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Commands:" in done.stdout


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (("chek",), 'did you mean "check"? see `slo-gate check --help`'),
        (("explian", "4"), "slo-gate explain --help"),
        (("policy", "sho"), "slo-gate policy show"),
        (("check", "x", "--preset", "cht"), '"chat"'),
        (("check", "x", "--preset", "chat", "--profile", "relase"), '"release"'),
        (("inspect", "x", "--tool", "vlm"), "vllm"),
        (("tools", "guidelm"), "guidellm"),
        (("check", "--basline", "x"), "--baseline"),
    ],
)
def test_a_near_miss_is_answered_with_the_name(
    words: tuple[str, ...], near: str, slo_gate: Process, tmp_path: Path
) -> None:
    (tmp_path / "x").write_text("x")
    done = slo_gate(*words)
    assert done.returncode == 2
    assert near in done.stderr


def test_what_click_refuses_names_the_help_of_its_command(slo_gate: Process) -> None:
    assert "see `slo-gate synth --help`" in slo_gate("synth", "--nope").stderr
    assert "see `slo-gate policy show --help`" in slo_gate("policy", "show", "--nope").stderr
    assert "see `slo-gate --help`" in slo_gate("--nope").stderr


def completions(folder: Path, *words: str) -> set[str]:
    """What bash is offered for the last word."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "_SLO_GATE_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("slo-gate", *words)),
        "COMP_CWORD": str(len(words)),
    }
    run = "import sys; sys.argv[0] = 'slo-gate'; from gate.cli import cli; cli(prog_name='slo-gate')"
    done = subprocess.run(
        [sys.executable, "-c", run], cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )
    return {line.partition(",")[2] for line in done.stdout.splitlines()} - {""}


def test_a_shell_completes_presets_profiles_tools_formats_and_what_explain_knows(tmp_path: Path) -> None:
    assert completions(tmp_path, "check", "--preset", "") == set(policy.PRESETS)
    assert completions(tmp_path, "check", "--tool", "v") == {"vllm"}
    assert completions(tmp_path, "tools", "") == {reader.NAME for reader in READERS}
    assert "junit" in completions(tmp_path, "check", "--format", "j")
    assert completions(tmp_path, "explain", "not_") == {"not_streamed"}
    assert completions(tmp_path, "check", "--profile", "") == set()  # there is no policy
    offered = {"none", "pr", "nightly", "release", "canary"}
    assert completions(tmp_path, "check", "--preset", "chat", "--profile", "") == offered
    (tmp_path / "slo.yaml").write_text(
        "version: 1\nslo: {ttft: {p99: 1s}}\nprofiles: {own: {undecided: lean}}\n"
    )
    assert completions(tmp_path, "check", "--profile", "") == {"none", "own"}


def test_the_presets_are_listed_with_their_bounds(slo_gate: Process) -> None:
    text = slo_gate("policy", "presets").stdout
    for name in policy.PRESETS:
        assert f"{name}: " in text
    assert "voice: TTFT 300 ms, TPOT 50 ms" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_bar_is_shown_after_a_second_of_reading(tmp_path: Path) -> None:
    """On a terminal, however few bytes there are: what counts is the time."""
    row = '{"start_s": 0, "ttft_s": 0.1, "e2e_s": 1.0, "output_tokens": 50}\n'

    def stderr(wait_s: float) -> str:
        outer, inner = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "gate", "check", "-", "--preset", "chat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=inner,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"},
        )
        os.close(inner)
        assert process.stdin
        process.stdin.write(row.encode())
        process.stdin.flush()
        time.sleep(wait_s)
        process.stdin.close()
        seen = b""
        while True:
            try:
                part = os.read(outer, 4096)
            except OSError:
                break
            if not part:
                break
            seen += part
        process.wait(timeout=60)
        os.close(outer)
        return seen.decode(errors="replace")

    assert "reading" in stderr(4.0)


def test_an_error_names_the_gate_of_a_policy_without_its_profile_alike(
    slo_gate: Process, tmp_path: Path
) -> None:
    """A comment is found again by policy and profile: `none` is no profile, there as in a verdict."""
    (tmp_path / "slo.yaml").write_text("version: 1\nslo: {ttft: {p99: 1s}}\nbad: 1\n")
    assert slo_gate("check", "x", "--profile", "none", "--json", "r.json").returncode == 2
    assert json.loads((tmp_path / "r.json").read_text())["policy"]["profile"] is None


def test_the_default_profile_is_named_wherever_its_verdict_is(slo_gate: Process, tmp_path: Path) -> None:
    rows = [f"0.1{n % 9},1.{n % 7},50" for n in range(150)]
    (tmp_path / "r.csv").write_text("\n".join(("ttft_s,e2e_s,output_tokens", *rows)))
    (tmp_path / "slo.yaml").write_text(
        "version: 1\nslo: {ttft: {p99: 1s}}\ndefault_profile: pr\nprofiles: {pr: {undecided: lean}}\n"
    )
    words = ("--markdown", "r.md", "--junit", "r.xml", "--json", "r.json", "--summary", "r.txt")
    done = slo_gate("check", "r.csv", *words)
    assert done.returncode == 0  # lean: too few for a P99, and none misses
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["policy"]["profile"] == "pr"
    for text in (
        done.stdout,
        report["headline"],
        *((tmp_path / f"r.{end}").read_text() for end in ("md", "txt")),
    ):
        assert "profile pr" in text
    assert "profile pr" in (tmp_path / "r.xml").read_text()
    assert slo_gate("check", "r.csv", "--profile", "none").returncode == 4
