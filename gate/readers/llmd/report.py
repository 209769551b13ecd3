"""What an llm-d benchmark report says: both generations, YAML or JSON, in one shape."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from math import isfinite
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from .. import clocks, ladders, stages
from ..loads import load
from ..source import BROKEN, Source
from ..stages import at, number
from . import NAME

WHOLE = "convert the tool's own result again, and keep the report as llm-d-benchmark wrote it"
Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
_ISO = re.compile(r"PT(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?")


class Stat(ladders.Stat, frozen=True):
    """One metric, in the unit it names."""

    units: str | None = None
    mean: float | None = None


class Requests(Struct):
    """How many there were, as the tool's converter counts them."""

    total: Count | None = None
    failures: Count | None = None
    incomplete: Count | None = None
    output_length: Stat | None = None


class _Throughput(Struct):
    requests_per_sec: float | None = None  # v0.1
    request_rate: Stat | None = None  # v0.2


class Performance(Struct):
    """What was measured."""

    requests: Requests | None = None
    latency: dict[str, Stat | None] | None = None
    throughput: _Throughput | None = None

    @property
    def request_rate(self) -> float | None:
        """Requests/s, in either generation's place."""
        rates = self.throughput or _Throughput()
        return rates.request_rate.mean if rates.request_rate else rates.requests_per_sec


class Report(Struct, frozen=True):
    """Both generations in one shape."""

    version: str
    tool: str  # "" where nothing names it
    measured: Performance
    settings: Any  # the tool's own arguments or configuration
    stage: Any  # the part of them that says what this stage was to send, of inference-perf
    facts: Mapping[str, Any]  # as `Told` names them


def read(source: Source) -> Report:
    """What it says. Raises InputError for another version, or a value of the wrong type."""
    fields = source.doc.fields if source.shape != "text" else ()
    document = {key: source.doc.any(key) for key in fields} if fields else source.yaml()
    if not isinstance(document, dict):
        raise source.fail("holds no report", hint=WHOLE)
    version = _text(document.get("version")) or ""
    if re.fullmatch(r"0\.1(\.\d+)?", version):
        return _first(source, document, version)
    if re.fullmatch(r"0\.2(\.\d+)?", version):
        return _second(source, document, version)
    if not version:
        raise source.fail("has no version: it was cut short, or edited", hint=WHOLE)
    raise source.fail(f"is a report of version {version}; 0.1, 0.2 and 0.2.1 are read", "version", WHOLE)


def _first(source: Source, document: dict[str, Any], version: str) -> Report:
    time, asked = at(document, "metrics", "time"), at(document, "scenario", "load")
    settings = at(asked, "args")
    stage = _stage(settings, at(asked, "metadata", "stage"))
    rate, slots = number(at(settings, "request_rate")), number(at(settings, "max_concurrency"))
    facts = {
        "load": stages.load(stage) if stage else load(rate=rate, slots=slots),
        "model": _named(at(document, "scenario", "model", "name")),
        "hardware": _hardware(at(document, "scenario", "host", "accelerator")),
        "duration_s": _seconds(at(time, "duration")),
        "date": clocks.day(number(at(time, "start"))),
    }
    measured = _performance(source, document.get("metrics"), "metrics")
    return Report(version, _text(at(asked, "name")) or "", measured, settings, stage, facts)


def _second(source: Source, document: dict[str, Any], version: str) -> Report:
    where = ("results", "request_performance", "aggregate")
    asked, stack = at(document, "scenario", "load", "standardized"), at(document, "scenario", "stack")
    engines = [at(part, "standardized") for part in stack] if isinstance(stack, list) else []
    serving = [engine for engine in engines if at(engine, "kind") == "inference_engine"]
    time = at(document, "run", "time")
    facts = {
        "version": _named(at(asked, "tool_version")),
        "load": load(rate=number(at(asked, "rate_qps")), slots=number(at(asked, "concurrency"))),
        "model": _named(" + ".join(dict.fromkeys(_text(at(e, "model", "name")) or "" for e in serving))),
        "hardware": _hardware([at(e, "accelerator") for e in serving], [at(e, "replicas") for e in serving]),
        "duration_s": _seconds(at(time, "duration")),
        "date": clocks.day_of(_text(at(time, "start")) or _text(at(time, "end"))),
    }
    measured = _performance(source, at(document, *where), ".".join(where))
    settings = at(document, "scenario", "load", "native", "config")
    stage = _stage(settings, at(asked, "stage"))
    # inference-perf writes such reports itself, without a scenario: they are named by their run.
    own = NAME if (_text(at(document, "run", "uid")) or "").startswith("inference-perf-") else ""
    return Report(version, _text(at(asked, "tool")) or own, measured, settings, stage, facts)


def _performance(source: Source, value: Any, where: str) -> Performance:
    if not isinstance(value, dict):
        raise source.fail(f"has no {where}: it was cut short, or holds no request metrics", hint=WHOLE)
    try:
        # YAML reads 1e-05, without a dot, as text: not strict.
        return msgspec.convert(value, Performance, strict=False)
    except BROKEN as error:
        why = str(error)
        raise source.fail(why[:1].lower() + why[1:], where, WHOLE) from None


# ---- values -------------------------------------------------------------------------------


def _stage(settings: Any, number_of: Any) -> Any:
    known = stages.declared(settings)
    return known[number_of] if isinstance(number_of, int) and 0 <= number_of < len(known) else None


def _text(value: Any) -> str | None:
    """A scalar as text; None for what is nested, which aliases can make too large to print."""
    return str(value) if isinstance(value, (str, int, float, date)) else None


def _named(value: Any) -> str | None:
    text = _text(value)
    return None if text in ("", "unknown", "None") else text


def _seconds(value: Any) -> float | None:
    """A number of seconds, or an ISO 8601 duration of hours, minutes and seconds."""
    seconds = number(value)
    if seconds is None and isinstance(value, str) and (match := _ISO.fullmatch(value)):
        hours, minutes, rest = (float(part or 0) for part in match.groups())
        seconds = 3600 * hours + 60 * minutes + rest
    return seconds if seconds is not None and isfinite(seconds) and seconds > 0 else None


def _hardware(accelerators: Any, replicas: Sequence[Any] = ()) -> str | None:
    """Like 8xH100, or a sum of such where prefill and decode differ."""
    parts = []
    for index, accelerator in enumerate(accelerators if isinstance(accelerators, list) else ()):
        name, count = _named(at(accelerator, "model")), number(at(accelerator, "count"))
        times = number(replicas[index]) if replicas else None
        if name is not None:
            parts.append(f"{count * (times or 1):g}x{name}" if count else name)
    return " + ".join(parts) or None
