"""What an llm-d benchmark report says: both generations, YAML or JSON, in one shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, timezone
from math import isfinite
from typing import Any

import msgspec
from msgspec import Struct

from ...model import Load
from ..source import BROKEN, Source
from . import NAME

WHOLE = "convert the tool's own result again, and keep the report as llm-d-benchmark wrote it"
_ISO = re.compile(r"PT(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?")


class Stat(Struct):
    """One metric, in the unit it names."""

    units: str | None = None
    mean: float | None = None
    min: float | None = None
    max: float | None = None
    p0p1: float | None = None
    p1: float | None = None
    p5: float | None = None
    p10: float | None = None
    p25: float | None = None
    p50: float | None = None
    p75: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    p99p9: float | None = None


class RequestCounts(Struct):
    """How many requests there were, as the tool's converter counts them."""

    total: float | None = None
    failures: float | None = None
    incomplete: float | None = None
    output_length: Stat | None = None


class _Throughput(Struct):
    requests_per_sec: float | None = None  # v0.1
    request_rate: Stat | None = None  # v0.2


class _Performance(Struct):
    requests: RequestCounts | None = None
    latency: dict[str, Stat | None] | None = None
    throughput: _Throughput | None = None


class Told(Struct, frozen=True):
    """Both generations in one shape."""

    version: str
    tool: str
    requests: RequestCounts
    latency: Mapping[str, Stat]
    request_rate: float | None
    tool_version: str | None
    load: Load | None
    model: str | None
    hardware: str | None
    duration_s: float | None
    date: str | None


def document(source: Source) -> dict[str, Any]:
    """The whole report. Raises InputError when it is neither YAML nor JSON."""
    if source.shape != "text":
        return {key: source.doc.any(key) for key in source.doc.fields}
    import yaml  # only here: no other format of results needs it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        found = yaml.load(bytes(source.data), Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f"line {mark.line + 1}" if mark else ""
        raise source.fail(f"is not YAML: {getattr(error, 'problem', error)}", at, WHOLE) from None
    except (ValueError, RecursionError, OverflowError) as error:
        raise source.fail(f"holds a value that is none: {error}", hint=WHOLE) from None
    if not isinstance(found, dict):
        raise source.fail("holds no report", hint=WHOLE)
    return found


def told(source: Source, document: dict[str, Any]) -> Told:
    """What it says. Raises InputError for another version, or a value of the wrong type."""
    version = _text(document.get("version")) or ""
    if re.fullmatch(r"0\.1(\.\d+)?", version):
        return _first(source, document, version)
    if re.fullmatch(r"0\.2(\.\d+)?", version):
        return _second(source, document, version)
    if not version:
        raise source.fail("has no version: it was cut short, or edited", hint=WHOLE)
    raise source.fail(f"is a report of version {version}; 0.1, 0.2 and 0.2.1 are read", "version", WHOLE)


def _first(source: Source, document: dict[str, Any], version: str) -> Told:
    metrics, time = document.get("metrics"), _at(document, "metrics", "time")
    performance = _convert(source, metrics, "metrics")
    load = _at(document, "scenario", "load")
    start = _number(_at(time, "start"))
    return Told(
        version,
        _text(_at(load, "name")) or NAME,
        performance.requests or RequestCounts(),
        _stats(performance),
        performance.throughput.requests_per_sec if performance.throughput else None,
        None,
        _load_of_args(_at(load, "args"), _at(load, "metadata", "stage")),
        _named(_at(document, "scenario", "model", "name")),
        _hardware(_at(document, "scenario", "host", "accelerator")),
        _seconds(_at(time, "duration")),
        _day(start) if start is not None else None,
    )


def _second(source: Source, document: dict[str, Any], version: str) -> Told:
    performance = _convert(
        source, _at(document, "results", "request_performance", "aggregate"),
        "results.request_performance.aggregate",
    )  # fmt: skip
    said = _at(document, "scenario", "load", "standardized")
    stack = _at(document, "scenario", "stack")
    engines = [_at(part, "standardized") for part in stack] if isinstance(stack, list) else []
    serving = [one for one in engines if _at(one, "kind") == "inference_engine"]
    time = _at(document, "run", "time")
    stamp = _text(_at(time, "start")) or _text(_at(time, "end")) or ""
    rate = performance.throughput.request_rate if performance.throughput else None
    return Told(
        version,
        _text(_at(said, "tool")) or NAME,
        performance.requests or RequestCounts(),
        _stats(performance),
        rate.mean if rate is not None else None,
        _named(_at(said, "tool_version")),
        _load(_number(_at(said, "rate_qps")), _number(_at(said, "concurrency"))),
        _named(" + ".join(dict.fromkeys(_text(_at(one, "model", "name")) or "" for one in serving))),
        _hardware([_replicated(one) for one in serving]),
        _seconds(_at(time, "duration")),
        found[0] if (found := re.match(r"\d{4}-\d\d-\d\d", stamp)) else None,
    )


def _convert(source: Source, value: Any, at: str) -> _Performance:
    if not isinstance(value, dict):
        raise source.fail(f"has no {at}: it was cut short, or holds no request metrics", hint=WHOLE)
    try:
        # YAML reads 1e-05, without a dot, as text: not strict.
        return msgspec.convert(value, _Performance, strict=False)
    except BROKEN as error:
        why = str(error)
        raise source.fail(why[:1].lower() + why[1:], at, WHOLE) from None


def _stats(performance: _Performance) -> dict[str, Stat]:
    return {name: stat for name, stat in (performance.latency or {}).items() if stat is not None}


def _at(value: Any, *path: str) -> Any:
    """The value at a path of keys, None where there is no such path."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str | None:
    """A scalar as text; None for what is nested, which aliases can make too large to print."""
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return str(value) if isinstance(value, (str, int, float)) else None


def _named(value: Any) -> str | None:
    text = _text(value)
    return None if text in ("", "unknown", "None") else text


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _seconds(value: Any) -> float | None:
    """A number of seconds, or an ISO 8601 duration of hours, minutes and seconds."""
    seconds = _number(value)
    if seconds is None and isinstance(value, str) and (found := _ISO.fullmatch(value)):
        hours, minutes, rest = (float(part or 0) for part in found.groups())
        seconds = 3600 * hours + 60 * minutes + rest
    return seconds if seconds is not None and isfinite(seconds) and seconds > 0 else None


def _day(epoch_s: float) -> str | None:
    try:
        return datetime.fromtimestamp(epoch_s, timezone.utc).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return None


def _replicated(engine: Any) -> dict[str, Any]:
    count, replicas = _number(_at(engine, "accelerator", "count")), _number(_at(engine, "replicas"))
    total = count * (replicas or 1) if count is not None else None
    return {"model": _at(engine, "accelerator", "model"), "count": total}


def _hardware(accelerators: Any) -> str | None:
    """Like 8xH100, or a sum of such where prefill and decode differ."""
    parts = []
    for one in accelerators if isinstance(accelerators, list) else []:
        name, count = _named(_at(one, "model")), _number(_at(one, "count"))
        if name is not None:
            parts.append(f"{count:g}x{name}" if count else name)
    return " + ".join(parts) or None


def _load(rate: float | None, concurrency: float | None) -> Load | None:
    """An infinite rate with a concurrency is closed loop; neither is a burst."""
    slots = int(concurrency) if concurrency and isfinite(concurrency) and concurrency >= 1 else None
    if rate is not None and isfinite(rate) and rate > 0:
        return Load(request_rate=rate, cap=slots)
    if slots is not None:
        return Load(concurrency=slots)
    return Load(burst=True) if rate == float("inf") else None


def _load_of_args(args: Any, stage: Any) -> Load | None:
    """v0.1 keeps the tool's own arguments: inference-perf's stages, or vLLM's flags."""
    stages = _at(args, "load", "stages")
    if isinstance(stages, list) and isinstance(stage, int) and 0 <= stage < len(stages):
        one = stages[stage]
        return _load(_number(_at(one, "rate")), _number(_at(one, "concurrency_level")))
    return _load(_number(_at(args, "request_rate")), _number(_at(args, "max_concurrency")))
