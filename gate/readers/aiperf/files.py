"""Which of AIPerf's files a source is, by content, and which files belong to one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import _nvidia
from .._source import Doc, Source

NOT_RESULTS = {
    "slices": "time slices",
    "several": "summary over several runs",
    "raw": "raw responses",
}
LATENCIES = {
    "ttft": "time_to_first_token",
    "tpot": "inter_token_latency",
    "itl": "inter_chunk_latency",
    "e2e": "request_latency",
}


def kind(source: Source) -> str | None:
    """records, aggregate, csv, or one of NOT_RESULTS; None for another tool's file."""
    if source.shape not in ("object", "objects"):
        head = _nvidia.csv_header(source)
        ours = head[:4] == ["Metric", "avg", "min", "max"] and head[4:5] in (["sum"], ["p1"])
        return "csv" if ours else None  # GenAI-Perf goes on with p99
    keys = source.keys
    metadata = _mapping(source.doc, "metadata")
    if "aggregation_type" in metadata and ("aiperf_version" in keys or "metrics" in keys):
        return "several"
    if "aiperf_version" in keys:
        return "aggregate"
    if metadata.keys() & {"benchmark_phase", "credit_phase"}:
        return "records" if "metrics" in keys else "raw"
    if "timeslices" in keys:
        return "slices"
    # Before versions were written; GenAI-Perf's input_config has neither of these keys.
    config = _mapping(source.doc, "input_config")
    ours = bool(config.keys() & {"loadgen", "phases"} and keys & {"records", *LATENCIES.values()})
    return "aggregate" if ours else None


def _mapping(doc: Doc, key: str) -> dict[str, Any]:
    value = doc.any(key)
    return value if isinstance(value, dict) else {}


def place(source: Source) -> tuple[Path, str]:
    """Folder and prefix that the files of one run share, whatever --profile-export-prefix was."""
    path = source.path or Path(source.name)
    name = _nvidia.stem(path.name, ".jsonl", ".json", ".csv") or path.name
    return path.parent, name.removesuffix("_aiperf")


def aggregate_beside(source: Source) -> Source | None:
    """The aggregate of the run whose records `source` holds."""
    prefix = place(source)[1]
    names = (f"{prefix}_aiperf.json", f"{prefix}.json")
    return next((s for s in _nvidia.beside(source, *names) if kind(s) == "aggregate"), None)
