"""A saved report JSON, back as the Report it was written from: what `slo-gate comment` renders again.

The file may come from a job that ran a stranger's code, so it is held to the published schema first
and nothing in it is trusted to be text that can be shown: the emitters escape every value.
"""

from __future__ import annotations

import json
from typing import Any

from .errors import InputError
from .model import AnyReport, ErrorReport, PolicyName, Report

MOST_BYTES = 64 * 1024 * 1024  # a report of 10,000 runs has about 10 MB
_HINT = "give the file that `slo-gate check RESULTS --json FILE` wrote"


def load(data: bytes, path: str) -> AnyReport:
    """The report in `data`; `path` is what messages call it.

    Raises InputError when it is too large, no JSON, or not valid against schemas/report.schema.json.
    """
    if len(data) > MOST_BYTES:
        raise InputError(f"more than {MOST_BYTES:,} bytes are too many for a report", path, _HINT)
    try:
        document = json.loads(data, parse_int=_whole, parse_float=_finite, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", path, _HINT) from None
    _validate(document, path)
    if document["verdict"] == "error":
        about = document.get("policy")
        return ErrorReport(
            document["exit_code"],
            document["headline"],
            **{name: document["error"][name] for name in ("message", "where", "hint")},
            policy=PolicyName(*(about[name] for name in ("name", "path", "profile"))) if about else None,
        )
    return _report(document, path)


def _whole(text: str) -> int:
    if len(text) > 18:
        raise ValueError("a number with more than 18 digits counts nothing")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if abs(number) > 1e18:  # and twice or a hundred times that must still be a number
        raise ValueError("a number above 1e18 measures nothing")
    return number


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _validate(document: Any, path: str) -> None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    from ._schemas import load as schema

    fault = best_match(Draft202012Validator(schema("report")).iter_errors(document))
    if fault is not None:
        where = f"{path}: {fault.json_path}"
        raise InputError(f"not a report of slo-gate: {fault.message[:200]}", where, _HINT)


def _report(document: dict[str, Any], path: str) -> Report:
    import msgspec

    try:
        return msgspec.convert(_renamed(document), Report)
    except (msgspec.ValidationError, OverflowError, KeyError, TypeError) as error:
        raise InputError(f"not a report of slo-gate: {error}", path, _HINT) from None


def _renamed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the names and shapes of `model`; keys that nobody knows fall away later."""
    base, parts = document.get("baseline"), document.get("attribution")
    return {
        **document,
        "policy": {**document["policy"], "workload": _workload(document["policy"]), "objectives": []},
        "checks": document["objectives"],
        "metrics": _metrics(document["metrics"]),
        "runs": [_shown(run) for run in document["runs"]],
        "loads": [_shown(load) for load in document["loads"]],
        "baseline": base and {**base, "runs": [base["runs"]["baseline"], base["runs"]["candidate"]]},
        "attribution": parts and {**parts, "ttft_parts": [_parts(one) for one in parts["ttft_parts"]]},
    }


def _workload(policy: dict[str, Any]) -> dict[str, Any]:
    """What was promised; a report of an older slo-gate does not say it."""
    promised = dict(policy.get("workload", {}))
    return {**promised, "target": promised.pop("load", None)}


def _shown(run: dict[str, Any]) -> dict[str, Any]:
    """A run or a load; counts that are null are not stated."""
    counts = run["counts"] if run["counts"]["attempted"] is not None else None
    return {**run, "counts": counts, "metrics": _metrics(run["metrics"])}


def _metrics(metrics: dict[str, Any]) -> dict[str, Any]:
    """Without the percentiles a tool could not state."""
    return {name: stats and {**stats, "tool_reported": _stated(stats)} for name, stats in metrics.items()}


def _stated(stats: dict[str, Any]) -> dict[str, Any] | None:
    own = stats["tool_reported"]
    return own and {name: value for name, value in own.items() if value is not None}


def _parts(one: dict[str, Any]) -> dict[str, Any]:
    """Pairs of mean and P99, without the unit in the name."""
    pairs = {name: one[f"{name}_s"] for name in ("client_queue", "server_queue", "rest")}
    return {**one, **{name: pair and [pair["mean"], pair["p99"]] for name, pair in pairs.items()}}
