"""A quantile that is far inside its bound: a second way to a PASS, where counts of misses cannot decide.

With 1000 dependent requests a count of misses leaves a P90 open even ten times inside its bound, because it
does not see how far inside. The logarithm of the quantile does. It is trusted only up to P95 and only with
room to spare, since near capacity a quantile moves more from run to run than ten blocks of one run show:
benchmarks/calibrate.py measures both, docs/statistics.md has the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from ._beta import t_quantile
from ._counting import BLOCKS, MIN_RUNS, Floats, nearest_rank

LEAST_SHARE, MOST_SHARE = 0.5, 0.95  # a quantile of a block of 100 is no P99
RUNS_ROOM, BLOCKS_ROOM = 1.25, 1.5  # bound / upper bound of the quantile that a PASS asks for
RUN_LEAST, BLOCK_LEAST = 200, 100  # requests a unit, as far down as it was measured


class RoomTest(Struct, frozen=True):
    """How far a quantile is inside its bound; [lower, upper] in the unit of the scores."""

    passed: bool  # upper <= threshold / room
    quantile: float
    lower: float  # one-sided 1 - alpha/2 each
    upper: float
    room: float
    units: int  # runs or blocks behind the interval


def room_test(
    scores: Sequence[Floats], share: float, *, threshold: float = 1.0, alpha: float = 0.05
) -> RoomTest | None:
    """Student's t interval of the logarithm of the quantile over runs (five or more), else over ten blocks.

    Its centre is the larger of the units' mean and of the quantile of all: short units put a quantile too
    low where a few of them hold the whole tail. None outside P50 to P95, for units of too few requests, and
    where a unit's quantile is 0 or infinite (failures). O(n). Raises ValueError for NaN.
    """
    runs = [run for run in scores if run.size]
    by_run = len(runs) >= MIN_RUNS
    least = min((run.size for run in runs), default=0) if by_run else sum(run.size for run in runs) // BLOCKS
    if not LEAST_SHARE <= share <= MOST_SHARE or least < (RUN_LEAST if by_run else BLOCK_LEAST):
        return None
    column = np.concatenate(runs)
    parts = runs if by_run else np.array_split(column, BLOCKS)
    quantiles = np.array([nearest_rank(part, share) for part in (*parts, column)])
    if not (np.isfinite(quantiles) & (quantiles > 0)).all():
        return None
    *logs, whole = np.log(quantiles).tolist()
    error = float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    margin = t_quantile(1.0 - alpha / 2.0, len(logs) - 1) * error
    centre = max(float(np.mean(logs)), whole)
    upper, room = math.exp(centre + margin), RUNS_ROOM if by_run else BLOCKS_ROOM
    lower = math.exp(min(float(np.mean(logs)), whole) - margin)
    return RoomTest(upper <= threshold / room, float(quantiles[-1]), lower, upper, room, len(logs))
