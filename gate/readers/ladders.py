"""Percentiles as tools state them: checked once, for every tool."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import isfinite

from msgspec import Struct

from ..model import Summary
from .stored import AGAIN, Stored

_ROUNDING = 1e-9  # relative: two ways of computing one percentile


class Stat(Struct, frozen=True):
    """Statistics of one metric as many tools name them, in a unit of their own."""

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

    @property
    def points(self) -> list[tuple[float, float]]:
        """(percent, value) of the percentiles that are there, ascending."""
        names = (name for name in self.__struct_fields__ if name[1:2].isdecimal())
        cells = ((float(name[1:].replace("p", ".")), getattr(self, name)) for name in names)
        return [(percent, value) for percent, value in cells if value is not None]


def ladder(
    points: Iterable[tuple[float, float | None]],
    *,
    per_second: float = 1.0,
    mean: float | None = None,
    low: float | None = None,
    high: float | None = None,
    n: int | None = None,
) -> Summary:
    """(percent, value) pairs and the moments beside them in seconds, ascending.

    Left out is what is None or no finite number.
    """
    cells = ((percent, _seconds(value, per_second)) for percent, value in points)
    known = sorted((percent, value) for percent, value in cells if value is not None)
    mean, low, high = (_seconds(value, per_second) for value in (mean, low, high))
    return Summary(tuple(known), mean, low, high, n)


def _seconds(value: float | None, per_second: float) -> float | None:
    return None if value is None or not isfinite(value) else value / per_second


def check(
    source: Stored, metric: str, summary: Summary, rounding_s: float = 0.0, *, negative: bool = False
) -> None:
    """Raises InputError where percentiles fall, are beyond 0 to 100, or a value is negative.

    `rounding_s`: values are known to within this. `negative`: they may be, because the tool's formula is.
    """
    named = metric.upper()
    if any(not 0 <= percent <= 100 for percent, _ in summary.percentiles):
        raise source.fail(f"states a percentile of {named} that is not between 0 and 100", hint=AGAIN)
    rising = [v for v in (summary.min, *(v for _, v in summary.percentiles), summary.max) if v is not None]
    if not negative and any(value < 0 for value in (*rising, summary.mean or 0.0)):
        raise source.fail(f"states a negative time for {named}", hint=AGAIN)
    if any(
        later < earlier - abs(earlier) * _ROUNDING - 2 * rounding_s for earlier, later in pairwise(rising)
    ):
        raise source.fail(f"contradicts itself: a higher percentile of {named} is lower", hint=AGAIN)


def least(summary: Summary) -> float | None:
    """The smallest value that is stated."""
    values = (summary.min, *(value for _, value in summary.percentiles))
    return min((value for value in values if value is not None), default=None)


def has_zero(metric: str, summary: Summary) -> bool:
    """Whether a percentile is exactly 0. A gap of 0 is one: two chunks at once; their median is not."""
    least = 50.0 if metric == "itl" else 0.0
    return any(value == 0 and percent >= least for percent, value in summary.percentiles)
