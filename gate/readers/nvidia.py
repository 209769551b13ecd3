"""What AIPerf and GenAI-Perf summaries share: statistics with their unit, as JSON objects or CSV blocks.

AIPerf's aggregate was built to look like GenAI-Perf's (same metric keys, percentiles by numpy linear).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
import numpy as np

from ..model import Aggregate, Floats, Summary
from . import ladders, tables
from .doc import Doc
from .nvidia_config import settings
from .source import Source
from .stored import Stored
from .told import Told

T = TypeVar("T")
Infinite: TypeAlias = Literal["inf", "-inf"]  # how Source spells an infinity
Ns = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # epoch: a double would lose 200 ns
STREAM_WITH = "run it with --streaming"
BOTH = "copy both files of one run whole, or take the other one away"
ROUNDED = ("a CSV: values are rounded to two decimals; model and load are not stated",)
_SAME = 1e-3  # relative: a mean further from the summary's is of another run
_PER_SECOND = {"ns": 1e9, "us": 1e6, "µs": 1e6, "ms": 1e3, "s": 1.0, "sec": 1.0, "seconds": 1.0}
_HEADER = re.compile(r"(.*?)\s*(?:\(([^()]*)\))?")  # "Time to First Token (ms)"
_WHOLE = "run the benchmark again, or copy the file whole"


class Stat(ladders.Stat, frozen=True):
    """One metric of a summary, in its own unit; a scalar's value is in `avg`."""

    unit: str = ""
    avg: float | None = None
    count: float | None = None


def per_second(source: Stored, unit: str, metric: str) -> float:
    """How many of `unit` make a second. Raises InputError for a unit that is not a time."""
    try:
        return _PER_SECOND[unit]
    except KeyError:
        shown = f'has the unit "{unit}"' if unit else "has no unit"
        raise source.fail(f"{metric} {shown}; expected ns, us, ms or sec", metric) from None


class Cell(msgspec.Struct, gc=False):
    """One value of a record."""

    value: float | Infinite | None = None
    unit: str = ""


class Amount(msgspec.Struct, gc=False):
    """One number of things of a record."""

    value: Annotated[float, msgspec.Meta(ge=0)] | Infinite | None = None


class Times(msgspec.Struct, gc=False):
    """The gaps of a record."""

    value: list[float]
    unit: str = ""


def values(cells: Iterable[Cell | Amount | None]) -> Floats:
    """A column of n records; NaN where there is none, or an infinity."""
    return tables.column(None if cell is None else cell.value for cell in cells)


def seconds(source: Stored, cells: Sequence[Cell | None], metric: str) -> Floats:
    """A column of n records in seconds. Raises InputError for a unit that is not a time."""
    scales = {unit: per_second(source, unit, metric) for unit in {cell.unit for cell in cells if cell}}
    return values(cells) / [scales[cell.unit] if cell else 1.0 for cell in cells]


class Stats(msgspec.Struct, frozen=True):
    """What a summary states, by the tool's metric tag. Raises InputError for a metric of another type."""

    source: Stored
    find: Callable[[str], Stat | None]
    former: Mapping[str, str] = {}  # tag -> what it was called before, or is in the CSV
    rounded: bool = False  # to two decimals, as a CSV is

    def get(self, tag: str) -> Stat | None:
        """All that is stated of a metric."""
        return self.find(tag) or self.find(self.former.get(tag, tag))

    def value(self, tag: str) -> float | None:
        """A scalar, or a mean, in its own unit."""
        return (self.get(tag) or Stat()).avg

    def count(self, tag: str) -> int | None:
        """A whole number of things. Raises InputError for a negative or a broken one."""
        return _count(self.source, self.value(tag), tag)

    def latencies(self, tags: Mapping[str, str]) -> dict[str, Summary]:
        """In seconds, by our metric -> their tag. Raises InputError for a unit that is not a time."""
        found = ((metric, tag, self.get(tag)) for metric, tag in tags.items())
        return {metric: self._summary(stat, tag) for metric, tag, stat in found if stat}

    def _summary(self, stat: Stat, tag: str) -> Summary:
        scale, n = per_second(self.source, stat.unit, tag), _count(self.source, stat.count, f"{tag}.count")
        return ladders.ladder(stat.points, per_second=scale, mean=stat.avg, low=stat.min, high=stat.max, n=n)

    @property
    def window_s(self) -> float | None:
        """The window of the tool's throughput; where its rates are rounded, what is stated comes first."""
        number, rate = self.value("request_count") or 0.0, self.value("request_throughput") or 0.0
        length, token_rate = self.value("output_sequence_length"), self.value("output_token_throughput")
        lasted, stated = self.get("benchmark_duration") or Stat(), None
        if lasted.avg is not None:
            stated = lasted.avg / per_second(self.source, lasted.unit, "benchmark_duration")
        if number <= 0 or rate <= 0 or (self.rounded and stated is not None):
            return stated
        ways = [(1 / rate, number / rate)]  # share that is lost to rounding, and the window
        if self.rounded and length and token_rate and min(length, token_rate) > 0:
            ways.append((1 / length + 1 / token_rate, number * length / token_rate))
        return min(ways)[1]


def _count(source: Stored, value: float | None, at: str) -> int | None:
    if value is not None and not (value >= 0 and value == int(value)):
        raise source.fail(f"expected a count, got {value:g}", at)
    return None if value is None else int(value)


def aggregate_run(
    stats: Stats, tags: Mapping[str, str], tool: str, word: str, settled_by: str, **more: Any
) -> Told:
    """A summary as a run of its own: `tags` of its latencies, the tool's word for it, and the richer file."""
    latencies, length = stats.latencies(tags), stats.get("output_sequence_length") or Stat()
    return Told(
        format=f"{tool} {'csv' if stats.rounded else word}",
        evidence=Aggregate(latencies, "linear", 5e-6 if stats.rounded else 0.0, settled_by),
        retries=0,  # neither client repeats a request
        duration_s=stats.window_s,
        lengths=ladders.ladder(length.points, mean=length.avg, low=length.min),
        stream_with=STREAM_WITH,
        stated=latencies,
        method="numpy linear over completed requests",
        **more,
    )


def refuse_another_run(source: Source, e2e_s: Floats, summary: Told, name: str) -> None:
    """Raises InputError where completed rows have another mean E2E than the summary beside them."""
    mean, e2e_s = summary.stated.get("e2e", Summary()).mean, e2e_s[np.isfinite(e2e_s)]
    if mean and len(e2e_s) and abs(e2e_s.mean() - mean) > _SAME * mean:
        why = f"has a mean request latency of {e2e_s.mean():.6g} s, but {name} says {mean:.6g} s"
        raise source.fail(why, hint=BOTH)


def statement(
    source: Source, former: Mapping[str, str], kind: type[T]
) -> tuple[Stats, T, Doc, tuple[str, ...]]:
    """Statistics, configuration, other fields (a CSV has none), notes. Raises InputError for a wrong type."""
    if source.shape == "text":
        return table(source, former), kind(), Doc(source, {}), ROUNDED
    doc = source.doc
    metrics = doc.part("records") or doc  # of AIPerf until 2025-10
    config, notes = settings(doc, kind)
    return Stats(source, lambda tag: metrics.get(tag, Stat), former), config, doc, notes


def bounds(slos: Mapping[str, float] | None) -> str:
    """The bounds that were asked for with --goodput."""
    return ", ".join(f"{tag} {bound:g}" for tag, bound in (slos or {}).items()) or "not stated"


def table(source: Source, former: Mapping[str, str]) -> Stats:
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
    return Stats(source, stats.get, former, rounded=True)


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
    return title.lower().replace(" ", "_"), Stat(unit=unit, **known)


def _number(source: Source, cell: str, at: str) -> float:
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        value = float("nan")
    if value - value != 0:  # NaN or infinite
        raise source.fail(f'expected a number, got "{cell}"', at)
    return value
