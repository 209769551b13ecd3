"""Native histograms in a JSON answer -> the counts up to an edge that classic ones have.

https://prometheus.io/docs/prometheus/latest/querying/api/#native-histograms: a bucket is [boundary rule,
left, right, count], not cumulative, and empty ones are left out. What lies below an edge is exact where no
bucket of any look and any process reaches across it, which is so for every edge of the coarsest of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from math import inf, isfinite

from msgspec import Struct

from .engines import Labels, Series

_COUNT_MAX = 2.0**53
_MOST = 10_000  # edges: a histogram has some hundreds


class Native(Struct, frozen=True):
    """One look at one histogram; numbers are texts, as the API has them."""

    count: str
    sum: str
    buckets: list[tuple[int, str, str, str]] = []


class _Look(Struct, frozen=True):
    at_s: float
    labels: Labels
    count: float
    total: float
    buckets: list[tuple[float, float, float]]  # left, right, count; by their right end


def classic(
    name: str, found: Sequence[tuple[Labels, Sequence[tuple[float, Native]]]]
) -> Iterator[tuple[float, Series, float]]:
    """(time in s, series, value) as of a classic histogram, for all processes that export `name`.

    Raises ValueError, in words, for buckets that contradict one another.
    """
    looks = [_look(at_s, labels, one) for labels, steps in found for at_s, one in steps]
    edges = _edges(looks)
    for look in looks:
        ends = [right for _, right, _ in look.buckets]
        below = [0.0, *accumulate(count for _, _, count in look.buckets)]
        for edge in edges:
            value = below[bisect_right(ends, edge)]
            yield look.at_s, Series(f"{name}_bucket", edge, look.labels), value
        yield look.at_s, Series(f"{name}_bucket", inf, look.labels), look.count
        yield look.at_s, Series(f"{name}_count", None, look.labels), look.count
        yield look.at_s, Series(f"{name}_sum", None, look.labels), look.total


def _look(at_s: float, labels: Labels, one: Native) -> _Look:
    try:
        buckets = [(float(left), float(right), float(count)) for _, left, right, count in one.buckets]
        count, total = float(one.count), float(one.sum)
    except ValueError:
        raise ValueError("a bucket of the native histogram holds no number") from None
    buckets.sort(key=lambda bucket: bucket[1])
    whole = (n for *_, n in buckets)
    if not isfinite(at_s) or not all(0 <= n <= _COUNT_MAX and n == int(n) for n in (count, *whole)):
        raise ValueError("the native histogram holds no counts: ask for the raw series, without rate()")
    if any(not left < right for left, right, _ in buckets) or any(
        left < before for (_, before, _), (left, _, _) in pairwise(buckets)
    ):
        raise ValueError("the buckets of the native histogram overlap")
    if sum(n for *_, n in buckets) > count:
        raise ValueError("the buckets of the native histogram hold more than its count")
    return _Look(at_s, labels, count, total, buckets)


def _edges(looks: Sequence[_Look]) -> list[float]:
    """Right ends that no bucket reaches across."""
    ends = sorted({right for look in looks for _, right, _ in look.buckets if isfinite(right)})
    if len(ends) > _MOST:
        raise ValueError(f"the native histogram has more than {_MOST:,} edges")
    across: set[float] = set()
    for span in {(left, right) for look in looks for left, right, _ in look.buckets}:
        across.update(ends[bisect_right(ends, span[0]) : bisect_left(ends, span[1])])
    return [edge for edge in ends if edge not in across]
