"""What the tests of the LoadGen reader share: its fixtures, and an independent reading of a detail log."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from gate.model import Requests, Run
from gate.readers import mlperf, runs_of
from gate.readers.source import Source
from tests.conftest import FIXTURES

CASES = FIXTURES / "mlperf"
SUMMARY, DETAIL, TRACE = "mlperf_log_summary.txt", "mlperf_log_detail.txt", "mlperf_log_trace.json"
EVERY = {"ttft", "tpot", "itl", "e2e", "error_rate", "throughput"}
VALUE = re.compile(r'"key": "([^"]+)", "value": ?(.*?), "time_ms"')


def source(path: Path) -> Source:
    return Source(path, path.name)


def read(path: Path) -> Run:
    (run,) = runs_of(mlperf, source(path))
    return run


def rows_of(run: Run) -> Requests:
    assert isinstance(run.evidence, Requests)
    return run.evidence


def said_by(detail: Path) -> dict[str, Any]:
    """Every key of a detail log by an independent, line-wise reading; the first counts."""
    said: dict[str, Any] = {}
    for line in detail.read_text(encoding="utf-8").splitlines():
        if (found := VALUE.search(line)) and not found[2].startswith(("{", "[")):
            said.setdefault(found[1], json.loads(found[2]))
    return said


def copy(case: str, folder: Path, *names: str) -> None:
    for name in names:
        for path in (CASES / case).glob(name + "*"):
            shutil.copy(path, folder)


def edited(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    """A log of `typical` with texts replaced, alone in its folder."""
    text = (CASES / "typical" / name).read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path
