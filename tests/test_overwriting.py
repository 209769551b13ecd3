"""No output lands on what is read, however either is named: exit 2, every input as it was. Real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gate.cli._shared import FILES
from tests.conftest import ROOT, Process

POLICY = (
    "version: 1\nname: p\ngoodput: {min: 95%, request: {ttft: 800ms}}\nevidence: {decide: point, warmup: 0}\n"
)


def rows(ttft_s: float) -> str:
    row = {"model": "m", "concurrency": 8, "e2e_s": 1.0, "output_tokens": 50, "input_tokens": 60}
    return "".join(
        json.dumps({"start_s": n * 0.05, **row, "ttft_s": ttft_s + n / 1e4}) + "\n" for n in range(400)
    )


def aiperf(n: int) -> str:
    """A row of AIPerf, whose aggregate lies beside it and is read without being named."""
    start = 1_795_960_774_000_000_000 + n * 10**8
    times = {"request_start_ns": start, "request_end_ns": start + 6 * 10**8}
    metadata = {"session_num": n, "x_request_id": f"r{n}", "benchmark_phase": "profiling", **times}
    values = {
        "time_to_first_token": {"value": 80.0 + n / 100, "unit": "ms"},
        "request_latency": {"value": 600.0, "unit": "ms"},
        "output_sequence_length": {"value": 40, "unit": "tokens"},
        "input_sequence_length": {"value": 60 + n, "unit": "tokens"},
    }
    return json.dumps({"metadata": {**metadata, "was_cancelled": False}, "metrics": values}) + "\n"


AGGREGATE = {
    "schema_version": "1.4",
    "aiperf_version": "0.13.0",
    "request_count": {"unit": "requests", "avg": 400.0},
    "input_config": {"phases": [{"name": "profiling", "type": "concurrency", "concurrency": 8}]},
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A report that an earlier check saved."""
    place = tmp_path_factory.mktemp("stored")
    (place / "c.jsonl").write_text(rows(0.15))
    (place / "p.yaml").write_text(POLICY)
    assert (
        process(
            ["check", "c.jsonl", "-p", "p.yaml", "--json", "old.json"], place, stdout=subprocess.DEVNULL
        ).returncode
        == 0
    )
    return (place / "old.json").read_bytes()


@pytest.fixture
def place(tmp_path: Path, stored: bytes) -> Path:
    """Results, a baseline of files and one of a report, a policy, and other names of some of them."""
    for folder in ("r", "base", "stored", "ai", "other"):
        (tmp_path / folder).mkdir()
    (tmp_path / "r/a.jsonl").write_text(rows(0.1))
    (tmp_path / "r/b.jsonl").write_text(rows(0.2))
    (tmp_path / "r/a.jsonl.slo.json").write_text('{"model": "m"}')
    (tmp_path / "base/c.jsonl").write_text(rows(0.15))
    (tmp_path / "ai/profile_export.jsonl").write_text("".join(aiperf(n) for n in range(400)))
    (tmp_path / "ai/profile_export_aiperf.json").write_text(json.dumps(AGGREGATE))
    (tmp_path / "p.yaml").write_text(POLICY)
    (tmp_path / "prompts.txt").write_text("one\ntwo\n")
    (tmp_path / "stored/old.json").write_bytes(stored)
    (tmp_path / "linked").symlink_to("r")
    (tmp_path / "soft.json").symlink_to("r/a.jsonl")
    for name, target in (("hard", "r/b.jsonl"), ("policy", "p.yaml"), ("old", "stored/old.json")):
        os.link(tmp_path / target, tmp_path / f"{name}.json")
    return tmp_path


def content(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


# What is read -> where an output goes; none of it is to change.
NAMINGS = {
    "itself": (["r/a.jsonl"], "r/a.jsonl"),
    "spelt otherwise": (["r/a.jsonl"], "./other/../r/a.jsonl"),
    "in a folder": (["r"], "r/a.jsonl"),
    "in a glob": (["r/*.jsonl"], "r/b.jsonl"),
    "in a deep glob": (["**/r/*.jsonl"], "r/b.jsonl"),
    "behind a linked folder": (["linked"], "r/a.jsonl"),
    "through a link": (["r"], "soft.json"),
    "through a hard link": (["r"], "hard.json"),
    "as stdin": (["-"], "r/a.jsonl"),
    "a sidecar": (["r/a.jsonl"], "r/a.jsonl.slo.json"),
    "a companion": (["ai/profile_export.jsonl"], "ai/profile_export_aiperf.json"),
    "a baseline's folder": (["r", "--baseline", "base"], "base/c.jsonl"),
    "a baseline's glob": (["r", "--baseline", "base/*"], "base/c.jsonl"),
    "a stored report": (["r", "--baseline", "stored/old.json"], "stored/old.json"),
    "a folder of stored reports": (["r", "--baseline", "stored"], "old.json"),
    "the policy": (["r"], "p.yaml"),
    "the policy by another name": (["r"], "policy.json"),
    "what is read after an error": (["no-such.jsonl", "r"], "r/a.jsonl"),
}


@pytest.mark.parametrize("naming", NAMINGS)
def test_a_file_that_is_read_is_never_written(naming: str, place: Path, slo_gate: Process) -> None:
    words, target = NAMINGS[naming]
    before = content(place)
    command = ["check", *words, "-p", "p.yaml", "--json", target, "--junit", "ok.xml"]
    with (place / "r/a.jsonl").open("rb") as stdin:
        done = process(command, place, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith(f"error: {target}: the output would overwrite what is read")
    assert "the output would overwrite what is read" in (place / "ok.xml").read_text()
    after = content(place)
    del after[str(place / "ok.xml")]
    assert after == before


@pytest.mark.parametrize("fault", [[], ["--preset", "chat"], ["--bogus"]], ids=["", "policy", "usage"])
def test_no_format_and_no_error_writes_over_a_result(
    fault: list[str], place: Path, slo_gate: Process
) -> None:
    before = content(place)
    outputs = [f"--{option}=hard.json" for option in FILES]
    assert slo_gate("check", "r", "-p", "p.yaml", *outputs, *fault).returncode == 2
    assert content(place) == before


REDIRECTED = {
    "check": ["check", "r", "-p", "p.yaml"],
    "check --format json": ["check", "r/*.jsonl", "-p", "p.yaml", "--format", "json"],
    "inspect": ["inspect", "linked"],
    "inspect --json": ["inspect", "r/b.jsonl", "--json"],
    "plan": ["plan", "r", "-p", "p.yaml"],
    "whatif": ["whatif", "r", "-p", "p.yaml"],
    "compare": ["compare", "base", "r"],
    "compare as baseline": ["compare", "r", "base"],
    "init": ["init", "--for", "chat", "--from", "r", "--concurrency", "8", "-o", "-"],
    "run": ["run", "-p", "p.yaml", "--dataset", "r/b.jsonl", "--", "false"],
    "policy show": ["policy", "show", "-p", "hard.json"],
    "policy validate": ["policy", "validate", "hard.json"],
    "policy diff": ["policy", "diff", "p.yaml", "hard.json"],
    "recipe": ["recipe", "--for", "vllm", "-p", "hard.json"],
    "comment": ["comment", "--report", "hard.json", "--mode", "never"],
}


@pytest.mark.parametrize("name", REDIRECTED)
def test_a_stdout_that_is_appended_to_what_is_read_is_refused(
    name: str, place: Path, slo_gate: Process
) -> None:
    before = content(place)
    with (place / "r/b.jsonl").open("ab") as file:
        done = slo_gate(*REDIRECTED[name], cwd=place, stdout=file)
    assert done.returncode == 2
    assert "stdout is redirected to a file that is read" in done.stderr
    assert content(place) == before


def process(words: list[str], place: Path, **streams: Any) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-m", "gate", *words], cwd=place, text=True, env=env, **streams)


def test_an_error_is_not_said_into_what_is_read(place: Path) -> None:
    before = content(place)
    with (place / "r/b.jsonl").open("ab") as file:
        words = ["check", "r", "-p", "p.yaml", "--junit", "/dev/stderr"]
        done = process(words, place, stdout=subprocess.PIPE, stderr=file)
        both = process(["inspect", "r"], place, stdout=file, stderr=file)
    assert (done.returncode, both.returncode) == (2, 2)
    assert "stderr is redirected to a file that is read" in done.stdout
    assert content(place) == before


@pytest.mark.parametrize("words", [["check", "r", "-p", "p.yaml", "--junit", "ok.xml"], ["inspect", "r/*"]])
def test_a_result_that_the_shell_emptied_is_said_to_be_so(words: list[str], place: Path) -> None:
    with (place / "r/a.jsonl").open("wb") as file:
        done = process(words, place, stdout=file, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert "with > the shell has emptied it already" in done.stderr
    assert (place / "r/a.jsonl").read_bytes() == b""


@pytest.mark.parametrize(
    "words",
    [
        ["init", "--for", "chat", "--from", "r", "--concurrency", "8", "--force", "-o", "r/a.jsonl"],
        ["init", "--for", "chat", "--from", "r", "--concurrency", "8", "--force", "-o", "hard.json"],
        ["recipe", "-p", "p.yaml", "--for", "vllm", "--force", "--peak", "4", "-o", "out"],
        ["run", "-p", "p.yaml", "--dataset", "prompts.txt", "--json", "prompts.txt", "--", "false"],
        ["run", "-p", "p.yaml", "--dir", "s", "--json", "s/candidate/x.json", "--", "false"],
        ["run", "-p", "p.yaml", "--dir", "s", "--json", "s/baseline/1/x.json", "--", "false"],
        ["run", "-p", "p.yaml", "--dir", "s", "--junit", "s/logs/x.xml", "--", "false"],
        ["run", "-p", "p.yaml", "--dir", "s", "--json", "./s/../s/journal.slo.jsonl", "--", "false"],
        ["run", "-p", "p.yaml", "--dir", "s", "--json", "via/x.json", "--", "false"],
    ],
    ids=" ".join,
)
def test_no_other_command_writes_over_what_it_reads(words: list[str], place: Path, slo_gate: Process) -> None:
    (place / "out").mkdir()
    (place / "s/candidate").mkdir(parents=True)
    (place / "via").symlink_to("s/candidate")
    os.link(place / "p.yaml", place / "out/bench.sh")
    before = content(place)
    done = slo_gate(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "would overwrite" in done.stderr
    assert content(place) == before


@pytest.mark.parametrize(
    "words",
    [
        ["check", "r", "-p", "p.yaml", "--ignore", "b.jsonl", "--json", "r/b.jsonl"],
        [
            "check",
            "r/a.jsonl",
            "-p",
            "p.yaml",
            "--baseline",
            "r/b.jsonl",
            "--ignore",
            "b.jsonl",
            "--junit",
            "r/b.jsonl",
        ],
    ],
)
def test_what_is_left_out_is_not_written_over_either(
    words: list[str], place: Path, slo_gate: Process
) -> None:
    (place / "r/b.jsonl").write_text(rows(0.2))
    before = content(place)
    assert slo_gate(*words).returncode == 2
    assert content(place) == before


@pytest.mark.parametrize(
    "words",
    [
        ["check", "r", "-p", "p.yaml", "--json", "pipe"],
        ["init", "--from", "r", "--force", "-o", "pipe"],
    ],
)
def test_a_pipe_that_nobody_reads_is_no_output(words: list[str], place: Path, slo_gate: Process) -> None:
    os.mkfifo(place / "pipe")
    done = slo_gate(*words, cwd=place)
    assert done.returncode == 2, done.stderr


def test_a_pipe_that_is_read_gets_the_whole_report(place: Path, slo_gate: Process) -> None:
    os.mkfifo(place / "pipe")
    with subprocess.Popen(["cat", place / "pipe"], stdout=subprocess.PIPE) as reader:
        assert slo_gate("check", "r", "-p", "p.yaml", "--json", "pipe").returncode == 0
        assert json.loads(reader.communicate(timeout=60)[0])["verdict"] == "pass"


def test_a_report_within_the_results_is_known_by_the_next_check(place: Path, slo_gate: Process) -> None:
    """Its other outputs too, and a report may be replaced by the next, also where the shell names it."""
    endings = {
        "junit": ".xml",
        "markdown": ".md",
        "codequality": "-code-quality.json",
        "metrics": ".txt",
        "summary": ".txt",
        "sarif": ".json",
    }
    words = [word for name in FILES for word in (f"--{name}", f"r/{name}{endings.get(name, '.' + name)}")]
    first = slo_gate("check", "r", "-p", "p.yaml", *words)
    assert first.returncode == 0, first.stderr
    (place / "r/said.txt").write_text(first.stdout)
    for name in ("junit.xml", "markdown.md", "html.html"):  # and by any other name
        (place / f"r/{name}.txt").write_bytes((place / "r" / name).read_bytes())
    for names in (["r"], ["r/*"], [str(path) for path in sorted((place / "r").iterdir())]):
        again = slo_gate("check", *names, "-p", "p.yaml", *words)
        assert again.returncode == 0, again.stderr
        report = json.loads((place / "r/json.json").read_text())
        assert {Path(one["input"]).name for one in report["runs"]} == {"a.jsonl", "b.jsonl"}
        said = "\n".join(report["notes"])
        for name in (
            "json.json",
            "codequality-code-quality.json",
            "sarif.json",
            "metrics.txt",
            "summary.txt",
        ):
            assert f"{name}: skipped, " in said
        for name in ("said.txt", "junit.xml.txt", "markdown.md.txt", "html.html.txt"):
            assert f"{name}: skipped, " in said


@pytest.mark.parametrize(
    "words",
    [
        ["check", "r", "-p", "p.yaml", "--json", "r/b.jsonl.slo.json"],
        ["check", "none", "-p", "p.yaml", "--json", "r/b.jsonl.slo.json"],
        ["check", "r", "-p", "p.yaml", "--nope", "--json", "r/b.jsonl.slo.json"],
        ["init", "--for", "chat", "-o", "r/b.jsonl.slo.json"],
    ],
)
def test_no_output_becomes_the_sidecar_of_a_result(words: list[str], place: Path, slo_gate: Process) -> None:
    before = content(place)
    done = slo_gate(*words)
    assert (done.returncode, content(place)) == (2, before), done.stderr
    assert "the sidecar of r/b.jsonl" in done.stderr or "--nope" in done.stderr


@pytest.mark.parametrize("name", ["report.sarif", "page.html", "junit.xml", "notes.md"])
def test_a_result_with_the_ending_of_a_report_is_read(name: str, place: Path, slo_gate: Process) -> None:
    (place / "r/a.jsonl").rename(place / name)
    done = slo_gate("check", name, "-p", "p.yaml")
    assert [one["input"] for one in json.loads(slo_gate("inspect", name, "--json").stdout)] == [name]
    assert done.returncode == 0, done.stderr


def test_a_step_summary_that_is_the_report_stays_as_it_is(place: Path, slo_gate: Process) -> None:
    before = content(place)
    words = ["comment", "--report", "stored/old.json", "--mode", "never", "--step-summary"]
    done = slo_gate(*words, GITHUB_STEP_SUMMARY=str(place / "old.json"))
    assert (done.returncode, content(place)) == (0, before)
    assert "is the report that is read" in done.stderr


def test_an_empty_list_is_a_code_quality_report_by_its_name_alone(place: Path, slo_gate: Process) -> None:
    words = ["check", "r", "-p", "p.yaml", "--codequality", "r/findings.json"]
    assert slo_gate(*words).returncode == 0
    assert (place / "r/findings.json").read_text().split() == ["[]"]
    again = slo_gate(*words)
    assert again.returncode == 3  # it may as well be a benchmark that measured nothing
    assert "--ignore r/findings.json" in again.stderr
    assert slo_gate(*words, "--ignore", "r/findings.json").returncode == 0
