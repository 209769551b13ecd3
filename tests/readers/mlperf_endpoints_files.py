"""What the tests of the MLPerf Endpoints reader share: its fixtures and small hand-made sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gate.model import Requests, Run
from gate.readers import mlperf_endpoints as reader, runs_of
from gate.readers.source import Source
from tests.conftest import FIXTURES

CASES = FIXTURES / "mlperf-endpoints"
EVENTS = "events.jsonl"
EVERY = {"ttft", "tpot", "itl", "e2e", "error_rate"}
MS = 1_000_000


def source(path: Path, *, gaps: bool = False) -> Source:
    return Source(path, path.name, gaps=gaps)


def read(path: Path, *, gaps: bool = False) -> Run:
    (run,) = runs_of(reader, source(path, gaps=gaps))
    return run


def rows_of(run: Run) -> Requests:
    assert isinstance(run.evidence, Requests)
    return run.evidence


def summary_of(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def typical() -> dict[str, Any]:
    return summary_of(CASES / "typical" / "performance" / "result_summary.json")


def write(folder: Path, content: Any, name: str = "result_summary.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def event(kind: str, at_ms: float, uuid: str = "", data: Any = None) -> str:
    return json.dumps(
        {"event_type": kind, "timestamp_ns": int(at_ms * MS), "sample_uuid": uuid, "data": data},
        separators=(",", ":"),
    )


def session(*events: str, ended: bool = True) -> str:
    lines = [event("session.started", 0), event("session.start_performance_tracking", 1), *events]
    return "\n".join([*lines, event("session.ended", 9000)] if ended else lines) + "\n"


def answer(uuid: str, first_ms: float = 50, complete_ms: float = 150) -> list[str]:
    text = ["TextModelOutput", ["a", "b"], None, None]
    return [
        event("sample.issued", 10, uuid, ["PromptData", "w"]),
        event("sample.recv_first", first_ms, uuid),
        event("sample.complete", complete_ms, uuid, text),
    ]
