"""inference-perf results for the tests: where they lie, and small ones made by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from gate.model import Requests, Run
from gate.readers import inference_perf, runs_of
from gate.readers.source import Source
from tests.conftest import FIXTURES

HERE = FIXTURES / "inference-perf"
REQUESTS = "per_request_lifecycle_metrics.json"
STAGE = "stage_{}_lifecycle_metrics.json"
SUMMARY = "summary_lifecycle_metrics.json"


def source(path: Path, *, gaps: bool = False) -> Source:
    return Source(path, path.name, gaps=gaps)


def read(path: Path, *, gaps: bool = False) -> list[Run]:
    return list(runs_of(inference_perf, source(path, gaps=gaps)))


def one(path: Path, *, gaps: bool = False) -> Run:
    (run,) = read(path, gaps=gaps)
    return run


def rows(run: Run) -> Requests:
    assert isinstance(run.evidence, Requests)
    return run.evidence


def raw(path: Path) -> Any:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def written(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


def said(run: Run) -> str:
    return "\n".join(run.notes)


def row(start: float = 0.0, **changes: Any) -> dict[str, Any]:
    """TTFT 100 ms, ten tokens 100 ms apart in chunks of their own, E2E 1.01 s."""
    times = changes.pop("times", [start + 0.1 * n for n in range(1, 11)])
    response = {"output_tokens": len(times), "server_usage": None, "chunk_times": times}
    response |= changes.pop("response", {})
    sent = {"text": {"input_tokens": 50}}
    made = {
        "start_time": start,
        "end_time": start + 1.01,
        "info": {"request_metrics": sent, "response_metrics": response},
        "error": None,
    }
    return {key: value for key, value in (made | changes).items() if value is not ...}


def failed(start: float = 0.0) -> dict[str, Any]:
    """An HTTP 500: no response, and no token was sent."""
    sent = {"request_metrics": {"text": {"input_tokens": 0}}, "response_metrics": None}
    return row(start, info=sent, error={"error_type": "HTTP Error 500", "error_msg": "boom"})


def spread(value: float) -> dict[str, float]:
    """Statistics of one value."""
    names = ("mean", "min", "max", "p0.1", "p1", "p5", "p10", "median", "p90", "p99")
    return dict.fromkeys(names, value)


def aggregate(completed: int = 3, bad: int = 0, **changes: Any) -> dict[str, Any]:
    """A stage at 1 req/s of `row`s."""
    load = {"count": completed + bad, "requested_rate": 1.0, "achieved_rate": 1.0}
    latency = {
        "request_latency": spread(1.01),
        "time_to_first_token": spread(0.1),
        "time_per_output_token": spread(0.1),
        "inter_token_latency": spread(0.1),
    }
    successes = {
        "count": completed,
        "latency": latency | changes.pop("latency", {}),
        "output_len": spread(10),
        "output_tokens": spread(10),
    }
    return {
        "benchmark_time_seconds": changes.pop("seconds", 4.0),
        "load_summary": load | changes.pop("load", {}),
        "successes": successes | changes.pop("successes", {}),
        "failures": {"count": bad, "by_label": {"500 - x": {"count": bad}} if bad else {}},
    } | changes
