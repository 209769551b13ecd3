"""The report as JSON: the published contract of DESIGN section 5 and schemas/report.schema.json.

Pure ASCII, fixed key order, base units. NaN and infinity are null, enums their words. A character
that is no Unicode (half a surrogate pair, from a file name that is not UTF-8) is U+FFFD, because
strict parsers refuse it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from numbers import Integral, Real
from typing import Any

from ..model import (
    REQUEST_METRICS,
    AnyReport,
    Attribution,
    Capacity,
    Check,
    Comparison,
    Counts,
    ErrorReport,
    Goodput,
    InputFile,
    Inspection,
    LengthBucket,
    Load,
    LoadReport,
    MetricStats,
    Report,
    RunReport,
)

SCHEMA_VERSION = 1
_METRICS = ("ttft_s", "tpot_s", "itl_s", "e2e_s")
_CAUSES = (*REQUEST_METRICS, "several", "failed")
_PARTS = ("client_queue", "server_queue", "rest")
_SURROGATE = re.compile("[\ud800-\udfff]")


def emit(report: AnyReport) -> str:
    """The whole report, or the error that kept it from being made, as one JSON object."""
    return _text(_error(report) if isinstance(report, ErrorReport) else _report(report))


def comparisons(by_load: Sequence[Comparison]) -> str:
    """What `slo-gate compare --json` prints: one comparison a load, as `baseline` of a report."""
    return _text({"schema_version": SCHEMA_VERSION, "comparisons": [comparison(one) for one in by_load]})


def inspections(runs: Sequence[Inspection]) -> str:
    """What runs hold, as a JSON array."""
    return _text([_inspection(one) for one in runs])


def _inspection(inspection: Inspection) -> dict[str, Any]:
    reported = {
        metric: {
            **{f"p{percent:g}": value for percent, value in own.percentiles},
            **_fields(own, "mean", "method"),
        }
        for metric, own in inspection.tool_reported.items()
    }
    told = _fields(inspection, "judged", "unjudged", "definitions")
    return {**_run(inspection.run), **told, "tool_reported": reported}


def _text(document: object) -> str:
    text = json.dumps(_plain(document), indent=2, allow_nan=False) + "\n"
    # A CI runner obeys `##[command]` anywhere in a line; inside a JSON string \u0023 is the same #.
    return text.replace("##", "#\\u0023")


def _plain(value: object) -> Any:
    """Only what JSON has: numpy scalars as numbers, non-finite ones as null, enums as their words."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    raise TypeError(f"a report holds a {type(value).__name__}, which JSON cannot")


def _fields(noun: object, *names: str) -> dict[str, Any]:
    return {name: getattr(noun, name) for name in names}


def _error(report: ErrorReport) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": "error",
        "exit_code": report.exit_code,
        "headline": report.headline,
        "error": _fields(report, "message", "where", "hint"),
        "policy": report.policy and _fields(report.policy, "name", "path", "profile"),
    }


def _report(report: Report) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        **_fields(report, "verdict", "exit_code", "headline", "next_action", "change", "report_only"),
        "policy": _fields(report.policy, "name", "path", "repository_path", "sha256", "profile", "undecided"),
        "inputs": [_input(file) for file in report.inputs],
        "runs": [_run(run) for run in report.runs],
        "loads": [_load_point(point) for point in report.loads],
        "objectives": [_objective(check) for check in report.checks],
        "goodput": _goodput(report.goodput),
        "metrics": _metrics(report.metrics),
        "baseline": comparison(report.baseline),
        "attribution": _attribution(report.attribution),
        "capacity": _capacity(report.capacity),
        "measure_next": report.measure_next,
        "notes": report.notes,
        "provenance": _fields(report.provenance, "line", "reproduce"),
    }


def _input(file: InputFile) -> dict[str, Any]:
    return _fields(file, "path", "sha256", "format", "tool", "tool_version")


def _run(run: RunReport) -> dict[str, Any]:
    return {
        **_fields(run, "input", "format", "tool", "tool_version", "model", "hardware", "session"),
        "load": _load(run.load),
        **_fields(run, "evidence", "at_target"),
        "counts": _counts(run.counts),
        "duration_s": run.duration_s,
        "goodput": _goodput(run.goodput),
        "metrics": _metrics(run.metrics),
        "notes": run.notes,
        "doubts": [_fields(doubt, "code", "of", "why", "requests") for doubt in run.doubts],
        **_fields(run, "input_tokens", "output_tokens"),
    }


def _counts(counts: Counts | None) -> dict[str, int | None]:
    """Nulls where the file does not state them, which is not zero."""
    return {name: getattr(counts, name) if counts else None for name in Counts.__struct_fields__}


def comparison(baseline: Comparison | None) -> dict[str, Any] | None:
    """The baseline and how every percentile moved against it."""
    if baseline is None:
        return None
    names = ("metric", "statistic", "baseline_s", "candidate_s", "growth", "interval", "method")
    return {
        "name": baseline.name,
        "load": _load(baseline.load),
        **_fields(baseline, "kind", "sessions"),
        "runs": dict(zip(("baseline", "candidate"), baseline.runs, strict=True)),
        "inputs": [_input(file) for file in baseline.inputs],
        "changes": [_fields(change, *names) for change in baseline.changes],
        "notes": baseline.notes,
    }


def _load_point(point: LoadReport) -> dict[str, Any]:
    return {
        "load": _load(point.load),
        **_fields(point, "at_target", "runs"),
        "counts": _counts(point.counts),
        "goodput": _goodput(point.goodput),
        "metrics": _metrics(point.metrics),
        "verdict": point.verdict,
    }


def _capacity(capacity: Capacity | None) -> dict[str, Any] | None:
    if capacity is None:
        return None
    loads = {"load": _load(capacity.load), "fails": _load(capacity.fails)}
    return {**loads, **_fields(capacity, "monotone", "text")}


def _load(load: Load | None) -> dict[str, Any] | None:
    """Exactly one of concurrency, request_rate and burst; a client cap or real traffic beside a rate."""
    if load is None:
        return None
    if load.concurrency is not None:
        return {"concurrency": load.concurrency}
    if load.request_rate is not None:
        cap = {} if load.cap is None else {"cap": load.cap}
        real = {"production": True} if load.production else {}
        return {"request_rate": load.request_rate, **cap, **real}
    return {"burst": True}


def _objective(check: Check) -> dict[str, Any]:
    return _fields(
        check,
        *("id", "metric", "statistic", "level", "expected", "operator", "bound", "unit"),
        *("observed", "observed_text", "share", "interval", "interval_of"),
        *("n", "misses", "misses_range", "n_eff", "deff"),
        *(
            "verdict",
            "cause",
            "doubts",
            "blocks",
            "reason",
            "more_requests",
            "headroom",
            "policy_line",
            "waived",
        ),
    )


def _goodput(goodput: Goodput | None) -> dict[str, Any] | None:
    if goodput is None:
        return None
    missed = goodput.misses
    return {
        **_fields(goodput, "fraction", "interval", "range", "good", "attempted"),
        **_fields(goodput, "requests_per_s", "tokens_per_s"),
        "misses": missed and _fields(missed, *_CAUSES),
    }


def _attribution(attribution: Attribution | None) -> dict[str, Any] | None:
    if attribution is None:
        return None
    return {
        "by_input_length": [_bucket(bucket) for bucket in attribution.by_input],
        "by_output_length": [_bucket(bucket) for bucket in attribution.by_output],
        "ttft_parts": [
            {
                **_fields(parts, "of", "n"),
                **{f"{name}_s": _mean_p99(getattr(parts, name)) for name in _PARTS},
            }
            for parts in attribution.ttft_parts
        ],
        "worst_runs": [
            _fields(run, "input", "good", "attempted", "share_of_misses") for run in attribution.worst_runs
        ],
        "worst_requests": [
            _fields(
                one,
                *("input", "row", "id", "ttft_s", "tpot_s", "e2e_s"),
                *("input_tokens", "output_tokens", "broke", "times_bound"),
            )
            for one in attribution.worst_requests
        ],
    }


def _bucket(bucket: LengthBucket) -> dict[str, Any]:
    return {
        **_fields(bucket, "low", "high", "n", "good"),
        "misses": bucket.misses and _fields(bucket.misses, *_CAUSES),
        **{
            name: stats and _fields(stats, "p50", "p90", "p99")
            for name in ("ttft_s", "e2e_s")
            for stats in (getattr(bucket, name),)
        },
    }


def _mean_p99(pair: tuple[float, float] | None) -> dict[str, float] | None:
    return None if pair is None else dict(zip(("mean", "p99"), pair, strict=True))


def _metrics(metrics: Mapping[str, MetricStats | None]) -> dict[str, Any]:
    names = ("n", "p50", "p90", "p99", "mean", "min", "max", "tool_reported", "doubt")
    return {name: stats and _fields(stats, *names) for name in _METRICS for stats in (metrics.get(name),)}
