"""The verdict on a share and its rivals, over many benchmarks at once: numpy and scipy, none of gate's code.

Scores have the shape (benchmarks, runs x requests), infinity for a failed request. tests/test_calibration.py
holds `ours` to gate.stats, benchmark by benchmark.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Said = tuple[Bools, Bools]  # pass, fail

ALPHA, LOADGEN = 0.05, 0.01
RUN_SPREAD = 0.05
BLOCKS, MIN_RUNS = 10, 5
QUEUE = 0.9
BORNE, BORNE_FROM = 0.5, 1000


class Benchmarks(NamedTuple):
    """Many benchmarks of `runs` runs: the columns TTFT, TPOT and E2E in s, and what was measured of them."""

    columns: tuple[Floats, Floats, Floats]
    runs: int
    memo: dict[tuple[int, float], Floats]

    def deff(self, column: int, share: float) -> Floats:
        """Of one column at its own second level."""
        if (column, share) not in self.memo:
            values = self.columns[column]
            self.memo[column, share] = deff(values <= second(values, share)[:, None], self.runs)
        return self.memo[column, share]


def needed(n: int, share: float) -> int:
    return math.ceil(n * Fraction(share).limit_denominator(10**6))


def quantile(values: Floats, share: float) -> Floats:
    at = max(needed(values.shape[1], share), 1) - 1
    return np.partition(values, at, axis=1)[:, at]


def second(values: Floats, share: float) -> Floats:
    n = values.shape[1]
    above = max(math.ceil(n * (1 - Fraction(share).limit_denominator(10**6))), min(30, math.ceil(n / 2)))
    at = min(max(n - above, 1), n - 1) - 1
    return np.partition(values, at, axis=1)[:, at]


def deff(hit: Bools, runs: int) -> Floats:
    """From runs, else from ten blocks with the lugsail correction; 0 where all or none met the level."""
    many, n = hit.shape
    p = hit.mean(axis=1)
    known = (p > 0) & (p < 1)
    spread = np.where(known, p * (1 - p), 1.0)

    def variance(units: int) -> Floats:
        size = n // units
        counts = hit[:, : size * units].reshape(many, units, size).sum(axis=2, dtype=np.int32)
        return size * (counts / size).var(axis=1, ddof=1) / spread

    if runs >= MIN_RUNS:
        return np.where(known, variance(runs), 0.0)
    coarse = variance(BLOCKS)
    return np.where(known, np.maximum(coarse, 2 * coarse - variance(3 * BLOCKS)), 0.0)


def shrunk(n_eff: Floats, df: int, alpha: float) -> Floats:
    return n_eff * (stats.norm.ppf(1 - alpha) / stats.t.ppf(1 - alpha, df)) ** 2


def above(p: Floats, n: Floats, share: float, *, half: bool) -> Floats:
    """P(at least p n) at `share`, the observed itself by half."""
    met, missed = np.maximum(p * n, 1e-12), np.maximum(n - p * n, 0.0)
    tail = special.betainc(met, missed + 1, share)
    if half:
        beyond = np.where(missed > 0, special.betainc(met + 1, np.maximum(missed, 1e-12), share), 0.0)
        tail = 0.5 * (tail + beyond)
    return np.where(p > 0, tail, 1.0)


def below(p: Floats, n: Floats, share: float, alpha: float) -> Bools:
    """Whether the Clopper-Pearson upper bound is below `share`."""
    return (p < share) & (special.betainc(p * n + 1, np.maximum(n - p * n, 1e-12), share) >= 1 - alpha)


# ---- the rivals -----------------------------------------------------------------------------------


def point(hit: Bools, share: float) -> Said:
    passed = hit.sum(axis=1) >= needed(hit.shape[1], share)
    return passed, ~passed


def independent(hit: Bools, share: float, alpha: float) -> Said:
    """Clopper-Pearson as if requests were independent; at 1 % it is LoadGen's early stopping."""
    p, n = hit.mean(axis=1), np.full(len(hit), float(hit.shape[1]))
    return (p >= share) & (above(p, n, share, half=False) <= alpha), below(p, n, share, alpha)


def batch_means(hit: Bools, share: float, runs: int) -> Said:
    """Student's t on the shares of runs or blocks."""
    units = runs if runs >= MIN_RUNS else BLOCKS
    size = hit.shape[1] // units
    shares = hit[:, : size * units].reshape(len(hit), units, size).mean(axis=2)
    mean, error = shares.mean(axis=1), shares.std(axis=1, ddof=1) / math.sqrt(units)
    t = stats.t.ppf(1 - ALPHA, units - 1)
    return mean - t * error >= share, mean + t * error < share


def before(scores: Floats, bound: float, share: float, runs: int) -> Said:
    """The rule of the first release: two levels of one score, Clopper-Pearson, and room up to P95."""
    hit = scores <= bound
    p, n = hit.mean(axis=1), hit.shape[1]
    own = np.maximum(deff(hit, runs), deff(scores <= second(scores, share)[:, None], runs))
    n_eff, df = n / np.maximum(own, 1.0), _df(runs)
    sure = n_eff >= 30
    worth = shrunk(n_eff, df, ALPHA / 2)
    passed = sure & (p >= share) & (above(p, worth, share, half=False) <= ALPHA / 2)
    failed = sure & below(p, shrunk(n_eff, df, ALPHA), share, ALPHA)
    return passed | (roomy(scores, bound, share, runs) & ~failed), failed


# ---- ours -----------------------------------------------------------------------------------------


def ours(
    many: Benchmarks,
    columns: tuple[int, ...],
    scores: Floats,
    bound: float,
    share: float,
    *,
    run_spread: float = RUN_SPREAD,
) -> Said:
    """As gate/stats decides: `columns` are those behind the score, more than one for goodput."""
    runs, n = many.runs, scores.shape[1]
    goodput, spread = len(columns) > 1, run_spread if runs < MIN_RUNS else 0.0
    own = [deff(scores <= second(scores, share)[:, None], runs)]
    if columns == (0,) and share > QUEUE:
        own.append(many.deff(0, QUEUE))
    beside = []
    if goodput or columns == (2,):
        beside = [many.deff(0, share), *([many.deff(0, QUEUE)] if share > QUEUE else [])]
        beside += [many.deff(1, share)] if goodput else []
    inner, outer = (scores <= bound / (1 + spread), scores <= bound * (1 + spread))
    half = (goodput or (beside and runs >= MIN_RUNS)) and n >= BORNE_FROM
    ones = np.ones(len(scores))
    elsewhere = np.maximum.reduce([ones, *own, *beside]) - 1
    n_eff = n / np.maximum.reduce([ones, deff(inner, runs), 1 + (BORNE if half else 1) * elsewhere])
    p = inner.mean(axis=1)
    eased = bool(beside) and spread > 0
    worth, alpha = (n_eff, ALPHA) if eased else (shrunk(n_eff, _df(runs), ALPHA / 2), ALPHA / 2)
    passed = (n_eff >= 30) & (p >= share) & (above(p, worth, share, half=True) <= alpha)
    queue = [many.deff(0, share)] if columns in ((1,), (2,)) and share <= QUEUE and runs < MIN_RUNS else []
    n_fail = n / np.maximum.reduce([ones, deff(outer, runs), *own, *queue])
    q = outer.mean(axis=1)
    failed = (n_fail >= 10) & below(q, shrunk(n_fail, _df(runs), ALPHA), share, ALPHA)
    if columns == (1,):
        passed |= roomy(scores, bound, share, runs) & ~failed
    if goodput:
        # undecided by the side that is nearer says how many independent requests there are
        side = np.where(p >= share, n_eff, np.where(q < share, n_fail, n_eff))
        passed |= thinning(scores / bound, share, runs, spread) & (side >= 50) & ~failed
    return passed, failed


def roomy(scores: Floats, bound: float, share: float, runs: int) -> Bools:
    """The quantile far inside its bound: t on its logarithm over runs or blocks."""
    n = scores.shape[1]
    by_run = runs >= MIN_RUNS
    if not 0.5 <= share <= 0.95 or (n // runs < 200 if by_run else n // BLOCKS < 100):
        return np.zeros(len(scores), bool)
    parts = np.array_split(scores, runs if by_run else BLOCKS, axis=1)
    each, whole = np.stack([quantile(part, share) for part in parts], 1), quantile(scores, share)
    with np.errstate(all="ignore"):
        logs = np.log(each)
        error = logs.std(axis=1, ddof=1) / math.sqrt(len(parts))
        centre = np.maximum(logs.mean(axis=1), np.log(whole))
        upper = np.exp(centre + stats.t.ppf(1 - ALPHA / 2, len(parts) - 1) * error)
    known = np.isfinite(each).all(axis=1) & (each > 0).all(axis=1) & np.isfinite(whole)
    return known & (upper <= bound / (1.25 if by_run else 1.5))


def thinning(scores: Floats, share: float, runs: int, spread: float) -> Bools:
    """A Pareto tail above the highest tenth, jackknifed over runs or blocks; scores are value / bound."""
    n = scores.shape[1]
    if not 0.95 < share <= 0.99 or n < 1000:
        return np.zeros(len(scores), bool)
    start = quantile(scores, 0.9)[:, None]
    parts = np.array_split(scores, runs if runs >= MIN_RUNS else BLOCKS, axis=1)
    with np.errstate(all="ignore"):
        beyond = [(part > start) & np.isfinite(part) for part in parts]
        sums = np.array(
            [
                [
                    np.full(len(scores), float(part.shape[1])),
                    np.isinf(part).sum(axis=1),
                    over.sum(axis=1),
                    np.where(over, np.log(np.where(over, part, 1.0) / start), 0.0).sum(axis=1),
                ]
                for part, over in zip(parts, beyond, strict=True)
            ]
        )  # units, figures, benchmarks
        far = np.log(1 / (1 + spread) / start[:, 0])

        def log_missed(figures: Floats) -> tuple[Floats, Floats]:
            size, failed, number, logs = figures
            tail = number / size * np.exp(-far * number / logs)
            return np.log(failed / size + tail), tail

        total, k = sums.sum(axis=0), len(parts)
        whole, tail = log_missed(total)
        left = np.array([log_missed(total - unit)[0] for unit in sums])
        error = (k * whole - (k - 1) * left).std(axis=0, ddof=1) / math.sqrt(k)
        size, failed, number, logs = total
        least = failed / size**2 + tail**2 * (1 + (far * number / logs) ** 2) / number
        error = np.maximum(error, np.sqrt(least) / np.exp(whole))
        upper = np.exp(whole + stats.t.ppf(1 - ALPHA / 2, k - 1) * error)
    room = quantile(scores, share) * (1.15 if runs >= MIN_RUNS else 1.25) <= 1.0
    return (start[:, 0] > 0) & (far > 0) & np.isfinite(error) & (upper <= 1 - share) & room


def _df(runs: int) -> int:
    return runs - 1 if runs >= MIN_RUNS else BLOCKS - 1
