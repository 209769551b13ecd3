"""`slo-gate synth` through real processes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.conftest import Process

SMALL = ("--requests", "30", "--concurrency", "4", "--input-tokens", "60:20", "--output-tokens", "8:3")


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("shape", ["generic", "vllm"])
def test_a_seed_gives_the_same_bytes_and_a_check_reads_every_run(
    shape: str, slo_gate: Process, tmp_path: Path
) -> None:
    for folder in ("a", "b"):
        done = slo_gate("synth", folder, "--format", shape, "--runs", "2", "--seed", "9", *SMALL)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("30 requests, 0 failed, seed ") == 2
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    checked = slo_gate("check", "a", "--preset", "chat", "--format", "json")
    assert '"runs": [' in checked.stdout
    assert checked.stdout.count('"at_target": true') >= 2
    assert checked.returncode in (1, 4)  # sixty requests prove nothing


def test_nothing_is_overwritten_unasked(slo_gate: Process) -> None:
    assert slo_gate("synth", "out", *SMALL).returncode == 0
    again = slo_gate("synth", "out", *SMALL)
    assert again.returncode == 2
    assert "the file is there already" in again.stderr
    assert slo_gate("synth", "out", "--force", *SMALL).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--request-rate", "8"), "the bare number 8 has no unit"),
        (("--request-rate", "8/s", "--concurrency", "4"), "exclude each other"),
        (("--request-rate", "0/s"), "sends nothing"),
        (("--cap", "4"), "--cap is of an open loop"),
        (("--failures", "120%"), "more than all requests"),
        (("--input-tokens", "many"), "no length in tokens"),
        (("--output-tokens", "nan"), "no length in tokens"),
        (("--format", "genai-perf"), "is not one of"),
        (("--requests", "0"), "0 is not in the range"),
    ],
)
def test_what_cannot_be_simulated_exits_2_with_a_sentence(
    arguments: tuple[str, ...], said: str, slo_gate: Process, tmp_path: Path
) -> None:
    done = slo_gate("synth", "out", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("shape", ["generic", "vllm"])
def test_no_row_is_written_that_check_calls_repeated(shape: str, slo_gate: Process, tmp_path: Path) -> None:
    """Requests of one length that are sent and end together still differ, as a client's clock has them."""
    words = ("--format", shape, "--concurrency", "4", "--input-tokens", "5:1", "--output-tokens", "2:0")
    assert slo_gate("synth", "out", *words, "--runs", "2").returncode == 0
    (tmp_path / "slo.yaml").write_text("version: 1\nslo: {ttft: {p99: 800ms}}\n")
    report = json.loads(slo_gate("check", "out", "--format", "json").stdout)
    said = " ".join([*report["notes"], *(one["reason"] for one in report["objectives"])])
    assert "same start" not in said
    assert "to the last digit" not in said
