"""GuideLLM results for the tests: where they lie, and small ones made by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from gate.model import Requests, Run
from gate.readers import guidellm, runs_of
from gate.readers.source import Source
from tests.conftest import FIXTURES

HERE = FIXTURES / "guidellm"
CASES = ["typical", "failures", "warmup", "rate", "old"]
SHARED = ["clean", "errors", "duration_warmup", "rate_poisson", "old_0.5.4_errors"]
START_S = 1795961313.0


def source(path: Path) -> Source:
    return Source(path, path.name)


def read(path: Path) -> list[Run]:
    return list(runs_of(guidellm, source(path)))


def one(path: Path) -> Run:
    (run,) = read(path)
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


def row(number: int = 0, **changes: Any) -> dict[str, Any]:
    """TTFT 100 ms, E2E 1.1 s, the last token at 1.09 s, 100 tokens: its ITL is 10 ms, our TPOT 1000/99."""
    start = START_S + number
    timings = {
        "targeted_start": start,
        "request_start": start,
        "first_token_iteration": start + 0.1,
        "last_token_iteration": start + 1.09,
        "token_iterations": 100,
        "request_end": start + 1.1,
        "resolve_end": start + 1.1,
    }
    timings |= {key: changes.pop(key) for key in list(changes) if key in timings}
    usage = {"total_tokens": changes.pop("usage", 100)}
    made = {
        "info": {"status": "completed", "timings": timings, "error": changes.pop("error", None)},
        "output_metrics": usage,
        "request_start_time": start,
        "request_end_time": start + 1.1,
        "request_latency": 1.1,
        "prompt_tokens": 50,
        "output_tokens": 100,
        "time_to_first_token_ms": 100.0,
        "inter_token_latency_ms": 10.0,
    }
    return made | changes


def stat(value: float, count: int, spread: float = 0.0) -> dict[str, Any]:
    """The successful of one metric, all of them `value`."""
    keys = ("p001", "p01", "p05", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p999")
    summary = {"mean": value, "median": value, "std_dev": spread, "min": value, "max": value, "count": count}
    zeros = {**dict.fromkeys(summary, 0.0), "count": 0, "percentiles": dict.fromkeys(keys, 0.0)}
    return {"successful": summary | {"percentiles": dict.fromkeys(keys, value)}, "errored": zeros}


def benchmark(
    good: list[Any], bad: list[Any] | None = None, cut: list[Any] | None = None, **changes: Any
) -> dict[str, Any]:
    """A benchmark of 0.8 whose aggregates are those of `row`."""
    totals = {"successful": len(good), "errored": len(bad or []), "incomplete": len(cut or [])}
    totals |= changes.pop("totals", {})
    n = totals["successful"]
    metrics = {
        "request_totals": totals,
        "request_latency": stat(1.1, n),
        "time_to_first_token_ms": stat(100.0, n),
        "inter_token_latency_ms": stat(10.0, 99 * n),
        "output_token_count": stat(100.0, n),
    }
    metrics |= changes.pop("metrics", {})
    strategy = changes.pop("strategy", {"type_": "concurrent", "streams": 6})
    backend = {"model": "m", "stream": True}
    made = {
        "type_": "generative_benchmark",
        "config": {"run_id": "r1", "strategy": strategy, "backend": backend, "slo": changes.pop("slo", None)},
        "scheduler_metrics": {
            "measure_start_time": START_S,
            "measure_end_time": START_S + 100,
            "requests_made": totals,
        },
        "metrics": metrics,
        "requests": {"successful": good, "errored": bad or [], "incomplete": cut or [], "total": None},
        "start_time": START_S,
        "duration": 100.0,
    }
    return {key: value for key, value in (made | changes).items() if value is not ...}


def report(*benchmarks: Any, **changes: Any) -> dict[str, Any]:
    """A file of 0.8."""
    made = {"metadata": {"version": 2, "guidellm_version": "0.8.1"}, "benchmarks": list(benchmarks)}
    return {key: value for key, value in (made | changes).items() if value is not ...}


def of(tmp_path: Path, *benchmarks: Any, **changes: Any) -> Run:
    return one(written(tmp_path / "benchmarks.json", report(*benchmarks, **changes)))


def said(run: Run) -> str:
    return "\n".join(run.notes)
