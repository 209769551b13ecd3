"""A third way to a PASS: a goodput of more than 95 % whose tail ends far inside the bounds.

Fifteen misses in 1500 requests are few to count, but how fast the scores above them thin out is seen in ten
times as many. Above the highest tenth the tail is taken for a Pareto one (Hill 1975, Weissman 1978):
P(score > b) = P(failed) + k / n (b / c)^(-1 / gamma). Its logarithm is jackknifed over blocks or runs, since
neighbours agree. Only for goodput: its score has the independent lengths of outputs in its tail, where the
tail of a TTFT near capacity is one queue. benchmarks/server_study.py measures it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from ._beta import t_quantile
from ._counting import BLOCKS, MIN_RUNS, Floats, nearest_rank
from ._room import MOST_SHARE

TAIL_MOST = 0.99  # beyond it a tenth of the requests is too far from the bound
TAIL_LEAST = 1000  # requests, as far down as it was measured
TAIL_EFFECTIVE = 50  # independent ones: a queue that comes and goes has no one tail
TAIL_SHARE = 0.1  # of the requests, those with the highest finite scores
TAIL_ROOM = {False: 1.25, True: 1.15}  # bound / sample quantile that a PASS asks for; whether by runs


class TailTest(Struct, frozen=True):
    """Whether little enough lies beyond the bound; `lower` bounds the share within it, 1 - alpha/2."""

    passed: bool
    lower: float
    units: int  # runs or blocks behind it


def tail_test(
    scores: Sequence[Floats], share: float, *, alpha: float = 0.05, run_spread: float = 0.0
) -> TailTest | None:
    """Extrapolate the tail of value / bound, infinity for a failed request; runs as for `units`.

    Below five runs the tail must end within 1 / (1 + `run_spread`). None for a share of 95 % or less or above
    99 %, fewer than 1000 requests, and where scores do not vary. O(n). Raises ValueError for NaN.
    """
    runs = [run for run in scores if run.size]
    column = np.concatenate(runs) if runs else np.empty(0)
    if not MOST_SHARE < share <= TAIL_MOST or column.size < TAIL_LEAST:
        return None
    parts = runs if len(runs) >= MIN_RUNS else np.array_split(column, BLOCKS)
    bound = 1.0 if len(runs) >= MIN_RUNS else 1.0 / (1.0 + run_spread)
    start = nearest_rank(column, 1.0 - TAIL_SHARE)
    if not 0.0 < start < bound:
        return None
    sums = np.array([_tail(part, start) for part in parts])  # by unit: n, failed, beyond, their logarithms
    total = sums.sum(axis=0)
    if not total[2] or not total[3]:
        return None
    far = math.log(bound / start)
    whole = float(_log_missed(total, far))
    left = _log_missed((total - sums).T, far)
    k = len(parts)
    error = float(np.std(k * whole - (k - 1) * left, ddof=1)) / math.sqrt(k)
    error = max(error, _independent_error(total, far)) if math.isfinite(error) else math.inf
    missed = math.exp(min(whole + t_quantile(1.0 - alpha / 2.0, k - 1) * error, 0.0))
    roomy = nearest_rank(column, share) * TAIL_ROOM[len(runs) >= MIN_RUNS] <= 1.0
    return TailTest(roomy and missed <= 1.0 - share, 1.0 - missed, k)


def _tail(part: Floats, start: float) -> tuple[float, float, float, float]:
    beyond = part[(part > start) & np.isfinite(part)]
    failed = int(np.count_nonzero(np.isinf(part)))
    return float(part.size), float(failed), float(beyond.size), float(np.log(beyond / start).sum())


def _log_missed(sums: Floats, far: float) -> Floats:
    n, failed, beyond, logs = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.log(failed / n + beyond / n * np.exp(-far * beyond / logs))
    return found


def _independent_error(total: Floats, far: float) -> float:
    """Of the logarithm, by the delta method, were requests independent: never below it."""
    n, failed, beyond, logs = map(float, total)
    tail = beyond / n * math.exp(-far * beyond / logs)
    variance = failed / n / n + tail * tail * (1.0 + (far * beyond / logs) ** 2) / beyond
    return math.sqrt(variance) / (failed / n + tail)
