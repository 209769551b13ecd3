"""Pass, fail or undecided: one share against its bound, and an interval for a mean over runs."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct

from ._beta import t_quantile
from ._counting import BLOCKS, MIN_RUNS, Floats, Level, Series, Units, needed
from ._interval import effective, lower_bound, upper_bound
from ._planning import MIN_EFFECTIVE, MIN_REQUESTS, more_requests

Verdict: TypeAlias = Literal["pass", "fail", "undecided"]
Why: TypeAlias = Literal["", "few_requests", "few_runs", "few_effective", "interval"]


class ShareTest(Struct, frozen=True):
    """The answer to "do at least `share` of the requests meet the bound?".

    [lower, upper] are the one-sided 1 - alpha/2 and 1 - alpha/m bounds of the true share. Where the
    size allows a decision, pass is lower >= share and fail is upper < share.
    """

    verdict: Verdict
    n: int
    met: int
    share_met: float  # NaN for no requests
    lower: float
    upper: float
    deff: float  # how many dependent requests are worth one independent one, >= 1
    n_eff: float  # n / deff
    df: float  # degrees of freedom of deff; 0 where none was estimated
    unit: Literal["runs", "blocks", "requests"]  # what counted as independent
    more_requests: int | None = None  # about, of an undecided test; None if it cannot be said
    why: Why = ""  # undecided because of


def test_share(units: Units, share: float, *, alpha: float = 0.05, m: int = 1) -> ShareTest:  # noqa: PT028
    """Whether at least `share` of the requests meet the bound, with both errors at `alpha`.

    Pass is tested at alpha / 2 (the other half pays for congestion the sample did not happen to
    contain), fail at alpha / m, where any of `m` rules fails the gate. A share of 0 or 1 is decided by
    count: one miss fails it, and no miss of 100 requests or more passes it. Fewer than 100 requests or
    30 independent ones never decide, nor do counts of fewer than five
    runs. O(units). Raises ValueError for alpha outside (0, 0.5], m < 1 or a share outside [0, 1].
    """
    if not (0.0 < alpha <= 0.5 and m >= 1):
        raise ValueError(f"a test needs 0 < alpha <= 0.5 and m >= 1, got alpha {alpha:g}, m {m}")
    n, met = units.n, units.met
    least = needed(n, share)
    if n and share in (0.0, 1.0) and (met < least or n >= MIN_REQUESTS):
        p = met / n
        return ShareTest("pass" if met >= least else "fail", n, met, p, p, p, 1.0, n, 0, "requests")
    few_runs = units.kind == "runs" and len(units.levels[0].series[0].n) < MIN_RUNS
    if n < MIN_REQUESTS or few_runs:
        return _too_few(units, share, alpha, m)
    p, deff, df = met / n, _deff(units), _df(units)
    n_eff = n / deff
    lower = lower_bound(p, effective(n_eff, df, alpha / 2.0), alpha / 2.0)
    upper = upper_bound(p, effective(n_eff, df, alpha / m), alpha / m)
    verdict: Verdict = "undecided"
    why: Why = "few_effective" if n_eff < MIN_EFFECTIVE else "interval"
    if why == "interval" and (lower >= share or upper < share):
        verdict, why = "pass" if lower >= share else "fail", ""
    more = more_requests(n, met, share, deff=deff, df=df, alpha=alpha, m=m) if why else None
    return ShareTest(verdict, n, met, p, lower, upper, deff, n_eff, df, units.kind, more, why)


def _too_few(units: Units, share: float, alpha: float, m: int) -> ShareTest:
    # No dependence is estimated from so little, so nothing is claimed: the interval is [0, 1].
    n, met = units.n, units.met
    runs = len(units.levels[0].series[0].n) if units.kind == "runs" else MIN_RUNS
    df = MIN_RUNS - 1 if units.kind == "runs" else BLOCKS - 1
    more = more_requests(n, met, share, deff=1.0, df=df, alpha=alpha, m=m)
    if more is not None and 0 < runs < MIN_RUNS:
        more = max(more, math.ceil(n / runs * (MIN_RUNS - runs)))
    why: Why = "few_requests" if n < MIN_REQUESTS else "few_runs"
    p = met / n if n else math.nan
    return ShareTest("undecided", n, met, p, 0.0, 1.0, 1.0, n, 0, "requests", more, why)


def _df(units: Units) -> int:
    return len(units.levels[0].series[0].n) - 1


def _deff(units: Units) -> float:
    """The design effect: the larger of those at the levels counted, at least 1 (Kish 1965)."""
    of_level = _deff_runs if units.kind == "runs" else _deff_blocks
    # A level that all or none met says nothing about dependence.
    seen = [of_level(level, units.n) for level in units.levels if 0 < level.met < units.n]
    return max([1.0, *seen])


def _deff_runs(level: Level, n: int) -> float:
    """Ratio estimator over runs of any size: R/(R-1) sum_r (met_r - n_r p)^2 / (n p (1-p))."""
    (runs,) = level.series
    count, met = len(runs.n), level.met
    # In whole numbers: neither rounding nor the order of the runs can move a verdict.
    squares = sum((hit * n - size * met) ** 2 for hit, size in zip(runs.met, runs.n, strict=True))
    return count * squares / ((count - 1) * n * met * (n - met))


def _deff_blocks(level: Level, n: int) -> float:
    """Batch means with the lugsail correction of Vats and Flegal: max(D_10, 2 D_10 - D_30).

    Short blocks understate dependence; how much D falls from 10 to 30 blocks says by how much.
    """
    coarse, *fine = (_block_variance(series, level, n) for series in level.series)
    return max(coarse, 2 * coarse - fine[0]) if fine else coarse


def _block_variance(blocks: Series, level: Level, n: int) -> float:
    # size * var(shares of the blocks) / (p (1 - p)), again in whole numbers
    count, size = len(blocks.n), blocks.n[0]
    squares = count * sum(hit * hit for hit in blocks.met) - sum(blocks.met) ** 2
    return squares * n * n / (count * (count - 1) * size * level.met * (n - level.met))


def t_interval(values: Floats, *, alpha_lower: float, alpha_upper: float) -> tuple[float, float]:
    """One-sided 1 - alpha_lower and 1 - alpha_upper bounds of a mean over runs, in the unit of `values`.

    mean -+ t s / sqrt(n) with n - 1 degrees of freedom (Student). Raises ValueError for fewer than two
    values, a value that is not finite, or an alpha outside (0, 1).
    """
    if values.size < 2 or not np.isfinite(values).all():
        raise ValueError("an interval for a mean needs two values or more, all finite")
    mean, df = float(values.mean()), values.size - 1
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    return mean - t_quantile(1.0 - alpha_lower, df) * error, mean + t_quantile(1.0 - alpha_upper, df) * error
