"""inference-perf's configuration, which its own folder holds and reports of llm-d repeat.

It is hostile like every file: any value may be of any type.
"""

from __future__ import annotations

from typing import Any

from ..model import Load
from . import loads

_MOST = 1e12


def at(value: Any, *path: str) -> Any:
    """The value at a path of keys, None where there is no such path."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def number(value: Any) -> float | None:
    """The value as a number, None where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def text(value: Any) -> str | None:
    """The value as a text, None where it is none."""
    return value if isinstance(value, str) else None


def whole_number(value: Any) -> int | None:
    """The value as a number of requests or tokens, None where it is none."""
    known = number(value)
    return int(known) if known is not None and 0 <= known <= _MOST else None


def declared(config: Any) -> list[Any]:
    """Its stages; none where a sweep chose them, or a trace says how many requests there are."""
    stages = at(config, "load", "stages")
    return stages if isinstance(stages, list) and not _chosen(config) else []


def _chosen(config: Any) -> bool:
    return bool(at(config, "load", "sweep") or at(config, "load", "trace") or at(config, "data", "trace"))


def asked_with(config: Any) -> str:
    """The remedy where a configuration does not say how many requests a stage was to send."""
    return (
        ""
        if config is None or _chosen(config)
        else "keep inference-perf's configuration with it, and its `load.stages`"
    )


def asked(stage: Any) -> int | None:
    """How many requests a stage was to send."""
    rate, duration_s, requests = (number(at(stage, key)) for key in ("rate", "duration", "num_requests"))
    if requests is None and rate is not None and duration_s is not None:
        requests = rate * duration_s
    return whole_number(requests) or None


def load(stage: Any) -> Load | None:
    """By concurrency where there is one: the rate of such a stage is its number of requests."""
    users, rate = number(at(stage, "concurrency_level")), number(at(stage, "rate"))
    return loads.load(slots=users) or loads.load(rate=rate)


def retries(config: Any) -> int | None:
    """How often a request that failed is repeated; None where there is no configuration of a load."""
    section = at(config, "load")
    return whole_number(section.get("request_retries", 0)) if isinstance(section, dict) else None
