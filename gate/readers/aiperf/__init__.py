"""AIPerf: profile_export.jsonl with its aggregate beside it; the aggregate alone as JSON or CSV.

Known from 0.13.0 back to 2025-10 (credit_phase, {records: {...}}). What it calls ITL is our TPOT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...model import Run
from ..card import Format
from ..source import Doc, Source

NAME = "aiperf"
TITLE = "AIPerf"
SIDE_FILES: Mapping[str, str] = {
    "inputs.json": "the prompts AIPerf or GenAI-Perf sent",
    "run_config.json": "AIPerf's resolved configuration",
    "phase_manifest.json": "AIPerf's list of phases",
    ".aiperf_results_ready.json": "AIPerf's marker of a finished run",
    "profile_export_raw.jsonl": "AIPerf's raw responses",
    "profile_export*_records.csv": "AIPerf's per-request records once more, as CSV",
    "profile_export*_timeslices.*": "AIPerf's time slices",
    "profile_export*_aggregate.*": "AIPerf's summary over several runs",
    "profile_export_console.*": "AIPerf's console output",
    "server_metrics_export*": "Prometheus metrics AIPerf scraped",
    "profile_export*_server_metrics.*": "Prometheus metrics AIPerf scraped",
    "gpu_telemetry_export*": "GPU metrics AIPerf scraped",
    "profile_export*_gpu_telemetry.*": "GPU metrics AIPerf scraped",
}
FORMATS: Sequence[Format] = (
    Format(
        files="`profile_export.jsonl` (any prefix) with its aggregate beside it",
        evidence="requests",
        reads=(
            "TTFT, E2E, tokens (server usage first), gaps, start; version, model, load and window from "
            "the aggregate"
        ),
        cannot="TTFT, TPOT, ITL without `--streaming`; TPOT, ITL when most answers are one chunk",
        traps=(
            "warm-up and cancelled rows are in the file; its ITL means TPOT; epoch ns exceed a double; "
            "the unit stands with each value"
        ),
    ),
    Format(
        files="`profile_export_aiperf.json` or `.csv` alone",
        evidence="aggregate",
        reads="percentiles, counts, error kinds",
        cannot="joint goodput except by bounds",
        traps=(
            "the error count is absent when 0; `adj_*` drop infinities; `phases/*`, time slices and "
            "multi-run aggregates are not results; CSV rounds to 2 decimals"
        ),
    ),
)
DEFINITIONS: Mapping[str, str] = {
    "ttft": "time_to_first_token = first response with content or reasoning - request start",
    "tpot": "inter_token_latency = (request_latency - time_to_first_token) / (output_sequence_length - 1)",
    "itl": "inter_chunk_latency = gaps between content chunks, pooled over requests",
    "e2e": "request_latency = last response with content - request start",
}
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


def sniff(source: Source, /) -> bool:
    """Whether AIPerf wrote it: records, aggregate, CSV, or a side file under another name."""
    return kind(source) is not None


def read(source: Source, /) -> Sequence[Run]:
    """One Run a measured phase. Raises InputError for a file that is broken or contradicts itself."""
    from . import records, summary

    found = kind(source)
    if found == "records":
        return records.read(source)
    if found in ("aggregate", "csv"):
        return [summary.read(source)]
    if fault := source.fault():
        raise fault
    what = f"holds AIPerf's {NOT_RESULTS[found]}, not a result" if found else "is not a result of AIPerf"
    raise source.fail(what, hint=f"give {summary.RECORDS} or profile_export_aiperf.json")


def companions(sources: Sequence[Source], /) -> Mapping[Source, str]:
    """Aggregates of records that are there too, phase copies, time slices, raw responses."""
    from . import files

    return files.companions(sources)


def kind(source: Source) -> str | None:
    """records, aggregate, csv, or one of NOT_RESULTS; None for another tool's file."""
    if source.shape not in ("object", "objects"):
        head = source.header
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
