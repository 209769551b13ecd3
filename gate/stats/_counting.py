"""From scores to counts: exact order statistics, and who met a bound by run or by block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

MIN_RUNS = 5  # from here on runs are the independent units; with fewer, blocks are
BLOCKS = 10  # longer blocks beat more blocks; the t-correction pays for the lost degrees of freedom
FINE = 3  # lugsail compares BLOCKS with FINE * BLOCKS blocks
SECOND_LEVEL_MISSES = 30  # dependence is also measured where the sample has at least this many misses


@lru_cache(maxsize=256)
def _exact(share: float) -> Fraction:
    # 0.99 is meant as 99/100, and so is a float a rounding or two away from it that a caller computed.
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"a share lies between 0 and 1, got {share:g}")
    simple = Fraction(share).limit_denominator(10**6)
    return simple if abs(float(simple) - share) < 4e-16 else Fraction(repr(float(share)))


def needed(n: int, share: float) -> int:
    """How many of `n` requests must meet a bound so that at least `share` do: ceil(n share), exactly.

    The share is taken as the fraction it stands for (0.99 is 99/100), so that no rounding of
    n * share moves the count. Raises ValueError for n < 0 and a share outside [0, 1].
    """
    if n < 0:
        raise ValueError(f"a number of requests is not negative, got {n}")
    exact = _exact(share)
    return -(-int(n) * exact.numerator // exact.denominator)


def share_met(n: int, met: int, share: float) -> bool:
    """Whether at least `share` of `n` met the bound, by `needed`; nothing is met by no requests.

    Raises ValueError as `needed` does.
    """
    return n > 0 and met >= needed(n, share)


def nearest_rank(values: Floats, share: float) -> float:
    """The order statistic x_(ceil(n share)), in the unit of `values` (numpy `inverted_cdf`).

    It is <= a bound exactly if `share_met` holds for the count of values <= that bound. Infinity (a
    failed request) is a value. Raises ValueError for no values, NaN or a share outside [0, 1].
    """
    return nearest_ranks(values, (share,))[0]


def nearest_ranks(values: Floats, shares: Sequence[float], *, own: bool = False) -> tuple[float, ...]:
    """The same at several shares, ascending: one copy, and of it only what lies above the last rank is moved.

    `own` values need not be copied: their order is of no use to the caller.
    """
    if values.size == 0:
        raise ValueError("a percentile of no values does not exist")
    _refuse_nan(values)
    left, below, found = values if own else values.copy(), 0, []
    for share in shares:
        index = max(needed(values.size, share), 1) - 1 - below
        # One rank at a time: numpy partitions for a single one with vector instructions, five times faster.
        left.partition(index)
        found.append(float(left[index]))
        left, below = left[index:], below + index
    return tuple(found)


class Series(Struct, frozen=True):
    """One division of the requests: how many each unit holds, and how many of them met a level."""

    n: tuple[int, ...]
    met: tuple[int, ...]


class Level(Struct, frozen=True):
    """The requests at or below one score, in total and by unit."""

    met: int  # of all requests, those outside every block included
    series: tuple[Series, ...]  # by run; or by block, coarse and (from 30 requests on) fine


class Units(Struct, frozen=True):
    """All a verdict needs: counts by run, or by block of one sequence of requests.

    `inner` and `outer` count a bound that is tighter and one that is looser by what runs may differ: a pass
    is asked of the tighter, a fail of the looser. `beside` counts other figures of the same requests, whose
    dependence a pass must bear as well, `against` those whose dependence a fail must bear. Of what the lower
    levels and `beside` show beyond independence, a pass bears the share `borne`.

    Counts of runs can be taken on many machines and joined: agree on the second level
    (`second_level`), let each machine `count_runs` its runs, `merge` the parts anywhere, in any order.
    Blocks belong to one sequence and do not merge.
    """

    kind: Literal["runs", "blocks"]
    n: int  # attempted requests
    levels: tuple[Level, ...]  # the bound; then, where scores were there to count, lower ones
    inner: Level | None = None
    outer: Level | None = None
    beside: tuple[Units, ...] = ()
    against: tuple[Units, ...] = ()
    borne: float = 1.0

    @property
    def met(self) -> int:
        """Requests that met the bound."""
        return self.levels[0].met


def second_level(scores: Sequence[Floats], share: float) -> float:
    """The score that leaves max(1 - share, min(30 / n, 1/2)) of the sample above it, exactly.

    Near the bound a lucky sample has few misses and, from the same luck, a small estimate of their
    dependence. Measured a second time where there are at least 30 misses, it cannot hide.
    Raises ValueError for no scores, NaN or a share outside [0, 1].
    """
    return _second_level(_joined(scores), share)


def units(
    scores: Sequence[Floats],
    share: float,
    threshold: float = 1.0,
    *,
    also: Sequence[float] = (),
    run_spread: float = 0.0,
    beside: Sequence[Units] = (),
    against: Sequence[Units] = (),
    borne: float = 1.0,
) -> Units:
    """Count the requests that met a bound, by run (five or more) or by block.

    `scores` has one array a run in order of submission, infinity for a failed request: value / bound
    with `threshold` 1, or plain values with the bound as `threshold` (one rounding less). Runs
    without a request tell nothing and are left out. Fewer than five runs do not show how runs differ: there
    the bound is also counted at `threshold` / and x (1 + `run_spread`). `also` are lower shares at which
    dependence is measured too, `beside` and `against` are from `dependence`, `borne` as in Units. O(n).
    Raises ValueError for NaN.
    """
    runs = [run for run in scores if run.size]
    if not runs:
        return Units("blocks", 0, (Level(0, ()),))
    column = _joined(runs)
    limits = [threshold, *(_second_level(column, one) for one in (share, *also))]
    levels, inner, outer = _levels(runs, column, limits), None, None
    if len(runs) < MIN_RUNS and run_spread > 0.0:
        inner, outer = _levels(runs, column, (threshold / (1.0 + run_spread), threshold * (1.0 + run_spread)))
    return Units(_kind(runs), column.size, levels, inner, outer, tuple(beside), tuple(against), borne)


def dependence(scores: Sequence[Floats], *shares: float) -> Units:
    """Counts of a figure at its own second levels of `shares`: how much neighbours agree, and no more.

    For `units(beside=..., against=...)`. O(n). Raises ValueError for NaN or no share.
    """
    runs = [run for run in scores if run.size]
    if not runs or not shares:
        raise ValueError("dependence is measured on requests, at one share or more")
    column = _joined(runs)
    return Units(
        _kind(runs), column.size, _levels(runs, column, [_second_level(column, share) for share in shares])
    )


def _kind(runs: Sequence[Floats]) -> Literal["runs", "blocks"]:
    return "runs" if len(runs) >= MIN_RUNS else "blocks"


def _levels(runs: Sequence[Floats], column: Floats, limits: Sequence[float]) -> tuple[Level, ...]:
    if len(runs) < MIN_RUNS:
        return tuple(_block_level(column <= limit) for limit in limits)
    sizes = tuple(run.size for run in runs)
    hits = [tuple(int(np.count_nonzero(run <= limit)) for run in runs) for limit in limits]
    return tuple(Level(sum(hit), (Series(sizes, hit),)) for hit in hits)


def count_runs(scores: Sequence[Floats], threshold: float = 1.0, second: float | None = None) -> Units:
    """Count by run, however few: one machine's part of a larger sample, for `merge`.

    `second` is the second level of the whole sample. Raises ValueError for NaN.
    """
    runs = [run for run in scores if run.size]
    for run in runs:
        _refuse_nan(run)
    limits = (threshold,) if second is None else (threshold, second)
    hits = [[int(np.count_nonzero(run <= limit)) for run in runs] for limit in limits]
    return units_from_counts([run.size for run in runs], *hits)


def units_from_counts(n: Sequence[int], met: Sequence[int], second: Sequence[int] | None = None) -> Units:
    """Runs of which only counts are known (histograms, aggregates): requests, and how many met the bound.

    `second` counts each run's requests at or below a second, lower level (a bucket edge) that leaves at
    least max((1 - share) n, 30) above it. Give it where you can: without it, runs that show no miss show
    no dependence either, and the test takes their requests for independent ones.
    Raises ValueError for lengths that differ and for counts outside 0 <= met <= n.
    """
    columns = [list(map(int, column)) for column in (n, met, *([] if second is None else [second]))]
    if len({len(column) for column in columns}) != 1:
        raise ValueError("each run needs one count of requests and one of those that met the level")
    if any(not 0 <= count <= size for column in columns[1:] for count, size in zip(column, n, strict=True)):
        raise ValueError("no run can have more requests that met a level than requests, nor fewer than 0")
    used = [i for i, size in enumerate(columns[0]) if size]
    sizes, *counts = [tuple(column[i] for i in used) for column in columns]
    return Units("runs", sum(sizes), tuple(Level(sum(hits), (Series(sizes, hits),)) for hits in counts))


def merge(parts: Iterable[Units]) -> Units:
    """The counts of all parts as one sample, the same as if counted at once.

    Raises ValueError for no parts, for blocks, and for parts of which only some have a second level.
    """
    parts = [part for part in parts if part.kind == "blocks" or part.n]
    if not parts or any(part.kind != "runs" for part in parts):
        raise ValueError("only counts of runs can be merged: blocks belong to one sequence of requests")
    if len({len(part.levels) for part in parts}) != 1:
        raise ValueError("either every part has counts at the second level or none has")
    columns = [
        [unit for part in parts for unit in part.levels[level].series[0].met]
        for level in range(len(parts[0].levels))
    ]
    sizes = [size for part in parts for size in part.levels[0].series[0].n]
    return units_from_counts(sizes, *columns)


def _refuse_nan(values: Floats) -> None:
    if values.size and np.isnan(values.max()):
        raise ValueError("a value is NaN; a request that failed or lacks the metric counts as infinity")


def _joined(scores: Sequence[Floats]) -> Floats:
    column = scores[0] if len(scores) == 1 else np.concatenate(scores) if scores else np.empty(0)
    _refuse_nan(column)
    return column


def _second_level(column: Floats, share: float) -> float:
    n = column.size
    if n == 0:
        raise ValueError("the second level of no scores does not exist")
    above = max(math.ceil(n * (1 - _exact(share))), min(SECOND_LEVEL_MISSES, math.ceil(n / 2)))
    index = min(max(n - above, 1), max(n - 1, 1)) - 1
    return float(np.partition(column, index)[index])


def _block_level(hit: Bools) -> Level:
    series = []
    for blocks in (BLOCKS, FINE * BLOCKS):
        size = hit.size // blocks
        if size:
            counts = np.count_nonzero(hit[: size * blocks].reshape(blocks, size), axis=1)
            series.append(Series((size,) * blocks, tuple(counts.tolist())))
    return Level(int(np.count_nonzero(hit)), tuple(series))
