"""Percentiles as tools state them: checked once, for every tool."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from ..model import Summary
from .stored import Stored

_ROUNDING = 1e-9  # relative: two ways of computing one percentile
_AGAIN = "run the benchmark again, or use the file as the tool wrote it"


def ladder(
    points: Iterable[tuple[float, float | None]],
    *,
    per_second: float = 1.0,
    mean: float | None = None,
    low: float | None = None,
    high: float | None = None,
    n: int | None = None,
) -> Summary:
    """(percent, value) pairs and the moments beside them in seconds, ascending; None cells left out."""
    known = tuple(sorted((percent, value / per_second) for percent, value in points if value is not None))
    mean, low, high = (None if value is None else value / per_second for value in (mean, low, high))
    return Summary(known, mean, low, high, n)


def check(
    source: Stored, metric: str, summary: Summary, rounding_s: float = 0.0, *, negative: bool = False
) -> None:
    """Raises InputError where percentiles fall, are beyond 0 to 100, or a value is negative.

    `rounding_s`: values are known to within this. `negative`: they may be, because the tool's formula is.
    """
    named = metric.upper()
    if any(not 0 <= percent <= 100 for percent, _ in summary.percentiles):
        raise source.fail(f"states a percentile of {named} that is not between 0 and 100", hint=_AGAIN)
    rising = [v for v in (summary.min, *(v for _, v in summary.percentiles), summary.max) if v is not None]
    if not negative and any(value < 0 for value in (*rising, summary.mean or 0.0)):
        raise source.fail(f"states a negative time for {named}", hint=_AGAIN)
    if any(
        later < earlier - abs(earlier) * _ROUNDING - 2 * rounding_s for earlier, later in pairwise(rising)
    ):
        raise source.fail(f"contradicts itself: a higher percentile of {named} is lower", hint=_AGAIN)


def has_zero(metric: str, summary: Summary) -> bool:
    """Whether a percentile is exactly 0. A gap of 0 is one: two chunks at once; their median is not."""
    least = 50.0 if metric == "itl" else 0.0
    return any(value == 0 and percent >= least for percent, value in summary.percentiles)
