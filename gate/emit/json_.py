"""The report as JSON: the published contract of DESIGN section 5 and schemas/report.schema.json.

Pure ASCII, fixed key order, base units. NaN and infinity are null, enums their words. A character
that is no Unicode (half a surrogate pair, from a file name that is not UTF-8) is U+FFFD, because
strict parsers refuse it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from numbers import Integral, Real
from typing import Any

from msgspec import Struct

from ..model import (
    METRICS,
    AnyReport,
    Comparison,
    Counts,
    ErrorReport,
    Goodput,
    Inspection,
    Load,
    LoadReport,
    MetricStats,
    Report,
    RunReport,
    TtftParts,
    Workload,
)

SCHEMA_VERSION = 1
_SURROGATE = re.compile("[\ud800-\udfff]")


def emit(report: AnyReport) -> str:
    """The whole report, or the error that kept it from being made, as one JSON object."""
    return _text(report)


def comparisons(by_load: Sequence[Comparison]) -> str:
    """What `slo-gate compare --json` prints: one comparison a load, as `baseline` of a report."""
    return _text({"schema_version": SCHEMA_VERSION, "comparisons": list(by_load)})


def inspections(runs: Sequence[Inspection]) -> str:
    """What runs hold, as a JSON array."""
    return _text(list(runs))


def _inspection(inspection: Inspection) -> dict[str, Any]:
    reported = {
        metric: {
            **{f"p{percent:g}": value for percent, value in own.percentiles},
            **_fields(own, "mean", "method"),
        }
        for metric, own in inspection.tool_reported.items()
    }
    told = _fields(inspection, "judged", "unjudged", "definitions")
    return {**_measured(inspection.run), **told, "tool_reported": reported}


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
    if isinstance(value, Struct):
        return _plain(_SHAPES.get(type(value), _all)(value))
    raise TypeError(f"a report holds a {type(value).__name__}, which JSON cannot")


def _fields(noun: object, *names: str) -> dict[str, Any]:
    return {name: getattr(noun, name) for name in names}


# ---- nouns of another shape than in the model -------------------------------------------------


def _all(noun: Any) -> dict[str, Any]:
    return _fields(noun, *noun.__struct_fields__)


def _error(report: ErrorReport) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": "error",
        **_fields(report, "exit_code", "headline"),
        "error": _fields(report, "message", "where", "hint"),
        "policy": report.policy,
    }


def _report(report: Report) -> dict[str, Any]:
    policy = ("name", "path", "repository_path", "sha256", "profile", "undecided", "workload")
    return {
        "schema_version": SCHEMA_VERSION,
        **_fields(report, "verdict", "exit_code", "headline", "next_action", "change", "report_only"),
        "policy": _fields(report.policy, *policy),
        **_fields(report, "inputs", "runs", "loads"),
        "objectives": report.checks,
        "goodput": report.goodput,
        "metrics": _metrics(report.metrics),
        **_fields(
            report, "baseline", "attribution", "capacity", "effort", "measure_next", "notes", "provenance"
        ),
    }


def _measured(part: RunReport | LoadReport) -> dict[str, Any]:
    """Counts are nulls where the file does not state them, which is not zero."""
    counts = part.counts or dict.fromkeys(Counts.__struct_fields__)
    return {**_all(part), "counts": counts, "metrics": _metrics(part.metrics)}


def _metrics(metrics: Mapping[str, MetricStats | None]) -> dict[str, MetricStats | None]:
    return {f"{metric}_s": metrics.get(f"{metric}_s") for metric in METRICS}


def _comparison(baseline: Comparison) -> dict[str, Any]:
    """The baseline and how every percentile moved against it."""
    return {
        **_fields(baseline, "name", "load", "kind", "sessions"),
        "runs": dict(zip(("baseline", "candidate"), baseline.runs, strict=True)),
        **_fields(baseline, "inputs", "changes", "notes"),
    }


def _workload(workload: Workload) -> dict[str, Any]:
    """What is promised and nothing else; `load` as a policy calls it."""
    names = ("model", "hardware", "interaction", "input_tokens", "output_tokens")
    promised = {**_fields(workload, *names), "load": workload.target}
    return {name: value for name, value in promised.items() if value is not None}


def _load(load: Load) -> dict[str, Any]:
    """Exactly one of concurrency, request_rate and burst; a client cap or real traffic beside a rate."""
    if load.concurrency is not None:
        return {"concurrency": load.concurrency}
    if load.request_rate is not None:
        cap = {} if load.cap is None else {"cap": load.cap}
        real = {"production": True} if load.production else {}
        return {"request_rate": load.request_rate, **cap, **real}
    return {"burst": True}


def _goodput(goodput: Goodput) -> dict[str, Any]:
    names = ("fraction", "interval", "range", "good", "attempted", "requests_per_s", "tokens_per_s", "misses")
    return _fields(goodput, *names)


def _parts(parts: TtftParts) -> dict[str, Any]:
    pairs = _fields(parts, "client_queue", "server_queue", "rest")
    named = {
        f"{name}_s": pair and dict(zip(("mean", "p99"), pair, strict=True)) for name, pair in pairs.items()
    }
    return {**_fields(parts, "of", "n"), **named}


_SHAPES: dict[type[Struct], Callable[[Any], dict[str, Any]]] = {
    ErrorReport: _error,
    Report: _report,
    RunReport: _measured,
    LoadReport: _measured,
    Inspection: _inspection,
    Comparison: _comparison,
    Load: _load,
    Goodput: _goodput,
    TtftParts: _parts,
    Workload: _workload,
}
