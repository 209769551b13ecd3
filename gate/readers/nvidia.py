"""What AIPerf and GenAI-Perf summaries share: statistics with their unit, as JSON objects or CSV blocks.

AIPerf's aggregate was built to look like GenAI-Perf's (same metric keys, percentiles by numpy linear).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from itertools import pairwise

import msgspec

from ..model import Summary, ToolReported
from .source import Source

METHOD = "numpy linear over completed requests"
_PER_SECOND = {"ns": 1e9, "us": 1e6, "µs": 1e6, "ms": 1e3, "s": 1.0, "sec": 1.0, "seconds": 1.0}
_PERCENTS = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_HEADER = re.compile(r"(.*?)\s*(?:\(([^()]*)\))?")  # "Time to First Token (ms)"
_WHOLE = "run the benchmark again, or copy the file whole"


class Stat(msgspec.Struct, frozen=True):
    """One metric of a summary, in its own unit; a scalar's value is in `avg`."""

    unit: str = ""
    avg: float | None = None
    min: float | None = None
    max: float | None = None
    sum: float | None = None
    count: float | None = None
    p1: float | None = None
    p5: float | None = None
    p10: float | None = None
    p25: float | None = None
    p50: float | None = None
    p75: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None

    def percentiles(self) -> tuple[tuple[float, float], ...]:
        """(percent, value in the metric's own unit) of those that are there, ascending."""
        found = ((float(p), getattr(self, f"p{p}")) for p in _PERCENTS)
        return tuple((p, value) for p, value in found if value is not None)


Stats = Mapping[str, Stat]  # by the tool's metric tag


def per_second(source: Source, unit: str, metric: str) -> float:
    """How many of `unit` make a second. Raises InputError for a unit that is not a time."""
    try:
        return _PER_SECOND[unit]
    except KeyError:
        shown = f'has the unit "{unit}"' if unit else "has no unit"
        raise source.fail(f"{metric} {shown}; expected ns, us, ms or sec", metric) from None


def summary(source: Source, stat: Stat, metric: str) -> Summary:
    """`stat` in seconds. Raises InputError where its values are negative or out of order."""
    scale = per_second(source, stat.unit, metric)
    percentiles = tuple((p, value / scale) for p, value in stat.percentiles())
    low, mean, high = (None if v is None else v / scale for v in (stat.min, stat.avg, stat.max))
    ordered = [v for v in (low, *(value for _, value in percentiles), high) if v is not None]
    if any(after < before for before, after in pairwise(ordered)):
        raise source.fail("contradicts itself: minimum, percentiles and maximum do not ascend", metric)
    if any(value < 0 for value in ordered) or (mean is not None and mean < 0):
        raise source.fail("expected a time, got a negative number", metric)
    return Summary(percentiles, mean, low, high, count(source, stat.count, f"{metric}.count"))


def reported(of: Summary) -> ToolReported:
    """The tool's own percentiles, as both tools compute them."""
    return ToolReported(of.percentiles, METHOD, of.mean)


def count(source: Source, value: float | None, at: str) -> int | None:
    """A whole number of things. Raises InputError for a negative or a broken one."""
    if value is not None and not (value >= 0 and value == int(value)):
        raise source.fail(f"expected a count, got {value:g}", at)
    return None if value is None else int(value)


def stem(name: str, *endings: str) -> str | None:
    """The file name without the first of `endings` (and without .gz) it ends in, else None."""
    name = name.removesuffix(".gz")
    return next((name.removesuffix(e) for e in endings if name.endswith(e)), None)


def beside(source: Source, *names: str) -> list[Source]:
    """The files of those names in the same folder, compressed or not."""
    found = (source.beside(name + zipped) for name in names for zipped in ("", ".gz"))
    return [other for other in found if other is not None]


def table(source: Source) -> dict[str, Stat]:
    """A CSV summary by metric tag ("time_to_first_token"), thousands separators taken out.

    Raises InputError when it is cut short or holds something other than numbers.
    """
    try:
        text = bytes(source.data).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise source.fail("is not text in UTF-8") from None
    if not text.endswith("\n"):
        raise source.fail("ends in the middle of a line", hint=_WHOLE)
    stats: dict[str, Stat] = {}
    columns: list[str] = []
    try:
        for number, row in enumerate(csv.reader(io.StringIO(text, newline="")), 1):
            if not row or row[0] == "Metric" or len(row) == 1:
                columns = row[1:]
            elif columns:
                tag, stat = _row(source, columns, row, f"line {number}")
                stats[tag] = stat
    except csv.Error as error:
        raise source.fail(f"is not CSV: {error}", hint=_WHOLE) from None
    return stats


def _row(source: Source, columns: list[str], row: list[str], at: str) -> tuple[str, Stat]:
    if len(row) != len(columns) + 1:
        raise source.fail(f"has {len(row)} cells where the header has {len(columns) + 1}", at)
    name = _HEADER.fullmatch(row[0])
    title, unit = (name[1], name[2] or "") if name else (row[0], "")
    values: dict[str, float] = {}
    for column, cell in zip(columns, row[1:], strict=True):
        if cell:
            values["avg" if column == "Value" else column] = _number(source, cell, at)
    known = {key: value for key, value in values.items() if key in Stat.__struct_fields__}
    return title.lower().replace(" ", "_"), Stat(unit, **known)


def _number(source: Source, cell: str, at: str) -> float:
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        value = float("nan")
    if value - value != 0:  # NaN or infinite
        raise source.fail(f'expected a number, got "{cell}"', at)
    return value
