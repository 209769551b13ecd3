"""GuideLLM's benchmarks.csv: three header rows (group, name, unit or statistic), one row a benchmark."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..source import BROKEN, Source
from .report import (
    Backend,
    Benchmark,
    Config,
    Group,
    Metadata,
    Metrics,
    Number,
    Report,
    Scheduled,
    Stat,
    Strategy,
    Totals,
)

# The order of the 11 numbers in a percentile cell (outputs/csv.py): neither p50 nor p999 is among them.
PERCENTILES = ("min", "p001", "p01", "p05", "p10", "p25", "p75", "p90", "p95", "p99", "max")

_STRATEGY = re.compile(r"([a-z]+)(?:@(?:([0-9.]+)|unlimited))?")
_Cells = Mapping[tuple[str, str, str], str]


class _Profile(msgspec.Struct):
    completed_strategies: list[Strategy] = []  # until 0.6


def is_csv(source: Source) -> bool:
    """By the first two header rows."""
    if source.shape != "text" or not source.head.startswith("Run Info,"):
        return False
    second = source.head.partition("\n")[2].partition("\n")[0]
    return second.startswith("Run ID,")


def load(source: Source) -> Report:
    """The table as a report without requests. Raises InputError for what is no such table."""
    groups, names, stats, *rows = _lines(source)
    if not rows:
        raise source.fail("has headers and no benchmark", hint="run the benchmark again")
    benchmarks, version = [], None
    for number, row in enumerate(rows, 4):
        if len(row) != len(groups):
            why = f"has {len(row)} cells where its headers have {len(groups)}"
            raise source.fail(why, f"line {number}", "copy the file whole")
        cells = dict(zip(zip(groups, names, stats, strict=True), row, strict=True))
        benchmarks.append(_benchmark(source, cells, f"line {number}"))
        stated = _json(source, cells.get(("Runtime Info", "Metadata", "")), Metadata, f"line {number}")
        version = version or (stated.guidellm_version if stated else None)
    return Report(Metadata(version), benchmarks)


def run_id(source: Source) -> str | None:
    """The run's own id, the first cell of the first benchmark."""
    lines = _lines(source)
    return lines[3][0] if len(lines) > 3 and lines[3] else None


def start(cell: str) -> str | None:
    """The day of a time as the table prints it (2026-11-29 14:09:32)."""
    return cell[:10] if re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", cell) else None


def dates(source: Source) -> list[str | None]:
    """The day each benchmark started, in the client's local time."""
    groups, names, _, *rows = _lines(source)
    keys = list(zip(groups, names, strict=True))
    at = keys.index(("Timings", "Start Time")) if ("Timings", "Start Time") in keys else -1
    return [start(row[at]) if at >= 0 else None for row in rows]


def _lines(source: Source) -> list[list[str]]:
    text = bytes(source.data).decode("utf-8-sig", "replace")
    try:
        lines = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as error:
        raise source.fail(f"is not CSV: {error}", hint="copy the file whole") from None
    if len(lines) < 3 or not len(lines[0]) == len(lines[1]) == len(lines[2]):
        raise source.fail("has no three header rows of one length", hint="copy the file whole")
    return lines


def _benchmark(source: Source, cells: _Cells, at: str) -> Benchmark:
    def stat(group: str, name: str) -> Group:
        found = {key: cells.get((group, name, key), "") for key in ("Mean", "Median", "Std Dev")}
        mean, median, deviation = (_number(source, text, f"{at}, {name}") for text in found.values())
        listed = _json(source, cells.get((group, name, "Percentiles")), list[Number], f"{at}, {name}")
        if listed is not None and len(listed) != len(PERCENTILES):
            raise source.fail(f"{name} lists {len(listed)} percentiles, not {len(PERCENTILES)}", at)
        if listed is None:
            return Group(Stat(mean, median, deviation))
        named = dict(zip(PERCENTILES, listed, strict=True))
        return Group(Stat(mean, median, deviation, named.pop("min"), named.pop("max"), percentiles=named))

    def totals(group: str, prefix: str = "") -> Totals:
        number = [
            _count(source, cells.get((group, prefix + name, "")), f"{at}, {group} {name}")
            for name in ("Successful", "Errored", "Incomplete")
        ]
        return Totals(*number)

    backend = _json(source, cells.get(("Run Info", "Backend", "")), Backend, at)
    return Benchmark(
        type_=cells.get(("Benchmark", "Type", ""), ""),
        config=Config(cells.get(("Run Info", "Run ID", "")), _strategy(source, cells, at), backend),
        metrics=Metrics(
            totals("Request Counts"),
            stat("Request Latency", "Successful Sec"),
            stat("Time to First Token", "Successful ms"),
            stat("Inter Token Latency", "Successful ms"),
            stat("Token Metrics", "Successful Output Tokens"),
            stat("Token Throughput", "Successful Output Tokens/Sec"),
        ),
        scheduler_metrics=Scheduled(requests_made=totals("Scheduler Metrics", "Requests Made ")),
        duration=_number(source, cells.get(("Timings", "Duration", "Sec"), ""), f"{at}, Duration"),
    )


def _strategy(source: Source, cells: _Cells, at: str) -> Strategy | None:
    """`concurrent@6` since 0.7; before, only the kind, and the numbers in the profile."""
    found = _STRATEGY.fullmatch(cells.get(("Benchmark", "Strategy", ""), ""))
    if not found:
        return None
    kind, number = found[1], None if found[2] is None else _number(source, found[2], f"{at}, Strategy")
    if number is None:
        index = _number(source, cells.get(("Run Info", "Run Index", ""), ""), at)
        profile = _json(source, cells.get(("Run Info", "Profile", "")), _Profile, at)
        done: Sequence[Strategy] = profile.completed_strategies if profile else []
        if index is not None and 0 <= index < len(done) and done[int(index)].type_ == kind:
            return done[int(index)]
        return Strategy(kind)
    if kind == "concurrent":
        return Strategy(kind, streams=int(number))
    return (
        Strategy(kind, rate=number) if kind != "throughput" else Strategy(kind, max_concurrency=int(number))
    )


def _json(source: Source, cell: str | None, kind: Any, at: str) -> Any:
    if not cell:
        return None
    try:
        return msgspec.json.decode(cell, type=kind)
    except BROKEN as error:
        raise source.fail(f"a cell is not what GuideLLM writes: {error}", at) from None


def _number(source: Source, cell: str, at: str) -> float | None:
    if not cell:
        return None
    value: float = _json(source, cell, Number, at)
    return value


def _count(source: Source, cell: str | None, at: str) -> int:
    value = _number(source, cell or "", at)
    if value is None or value < 0 or value != int(value):
        raise source.fail(f'expected a count, got "{cell or ""}"', at)
    return int(value)
