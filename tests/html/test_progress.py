"""Long reads show how far they are, on a terminal and nowhere else."""

from __future__ import annotations

import gzip
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from gate import readers
from tests.conftest import ROOT, Process
from tests.html import results

LINE = '{"ttft_s": 0.1, "e2e_s": 1.0, "output_tokens": 50, "padding": "%s"}\n'
POLICY = "version: 1\nname: long\nslo: {ttft: {p90: 1s}}\n"


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 213 MB of results and a policy: a little more than what gets a bar."""
    folder = tmp_path_factory.mktemp("long")
    (folder / "slo.yaml").write_text(POLICY, encoding="utf-8")
    lines = LINE % ("x" * 1000) * 10_000
    with (folder / "long.jsonl").open("w", encoding="ascii") as file:
        for _ in range(20):
            file.write(lines)
    return folder


def on_a_terminal(folder: Path, name: str, **env: str) -> str:
    """What a terminal on stderr shows of a check."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "gate", "check", name, "--policy", "slo.yaml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "100", **env},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert child.wait() in (0, 1, 4)
    return seen.decode("utf-8")


def test_a_long_read_on_a_terminal_shows_share_rate_and_remaining_time(long: Path) -> None:
    seen = on_a_terminal(long, "long.jsonl")
    assert "reading" in seen
    assert "%" in seen
    assert "B/s" in seen
    assert ":" in seen
    assert "\x1b[" not in on_a_terminal(long, "long.jsonl", TERM="dumb")


def test_a_short_read_and_a_log_show_nothing(long: Path, slo_gate: Process) -> None:
    (long / "short.jsonl").write_text(LINE % "x" * 200, encoding="ascii")
    assert on_a_terminal(long, "short.jsonl") == ""
    assert slo_gate("check", "long.jsonl", "--policy", "slo.yaml", cwd=long).stderr == ""


@pytest.mark.parametrize("packed", [False, True])
def test_every_byte_is_told_once_as_it_is_read(tmp_path: Path, packed: bool) -> None:
    path = results.write(tmp_path, per_run=3000)
    if packed:
        path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
        path = path.with_suffix(".jsonl.gz")
    totals: list[int] = []
    told: list[int] = []

    def watch(total: int) -> object:
        totals.append(total)
        return told.append

    readers.read([str(path)], watch=watch)  # type: ignore[arg-type]
    assert totals == [path.stat().st_size] == [sum(told)]
    assert min(told) >= 0
    assert len(told) > 2


def test_gaps_are_decoded_unasked_only_where_the_files_are_small(shared: Path) -> None:
    path = shared / "results" / "vllm-0.33.0" / "sweep" / "c016_run01.json.gz"
    size = path.stat().st_size

    def has_gaps(gaps_up_to: int) -> bool:
        evidence = readers.read([str(path)], gaps_up_to=gaps_up_to).runs[0].evidence
        return getattr(evidence, "gaps", None) is not None

    assert has_gaps(size)
    assert not has_gaps(size - 1)
    assert not has_gaps(0)
