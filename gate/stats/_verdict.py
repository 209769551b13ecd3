"""Pass, fail or undecided: one share against its bound, and an interval for a mean over runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ._beta import t_quantile
from ._counting import BLOCKS, MIN_RUNS, Floats, Level, Series, Units, needed
from ._interval import effective, lower_bound, upper_bound
from ._planning import MIN_EFFECTIVE, MIN_FAILING, MIN_REQUESTS, more_requests

Verdict: TypeAlias = Literal["pass", "fail", "undecided"]
Why: TypeAlias = Literal["", "few_requests", "few_runs", "few_effective", "run_spread", "interval"]


class ShareTest(Struct, frozen=True):
    """The answer to "do at least `share` of the requests meet the bound?".

    [lower, upper] are one-sided `sure` and 1 - alpha/m bounds of the true share; with a run-to-run spread,
    `lower` is of the tighter bound and `upper` of the looser. Where the size allows a decision, pass is
    lower >= share and fail is upper < share.
    """

    verdict: Verdict
    n: int
    met: int
    share_met: float  # NaN for no requests
    lower: float
    upper: float
    deff: float  # how many dependent requests are worth one independent one, >= 1; of the side that decides
    n_eff: float  # n / deff
    df: float  # degrees of freedom of deff; 0 where none was estimated
    unit: Literal["runs", "blocks", "requests"]  # what counted as independent
    sure: float  # confidence of `lower`
    passing: bool  # whether deff and n_eff are those of a pass: it is one, or nearer to one
    eased: bool = False  # whether a pass was asked at alpha, without the t correction
    more_requests: int | None = None  # about, of an undecided test; None if it cannot be said
    why: Why = ""  # undecided because of


class _Side(Struct, frozen=True):
    """What a pass, or a fail, is asked of."""

    met: int
    deff: float
    n_eff: float
    worth: float  # n_eff less what estimating deff costs
    least: int  # independent requests it takes


def test_share(units: Units, share: float, *, alpha: float = 0.05, m: int = 1) -> ShareTest:  # noqa: PT028
    """Whether at least `share` of the requests meet the bound, with both errors at `alpha`.

    Pass is tested at alpha / 2 (the other half pays for congestion the sample did not happen to
    contain), fail at alpha / m, where any of `m` rules fails the gate. Where both a run-to-run spread and
    the figures `beside` already make a pass harder, it is tested at alpha and without the t correction.
    A share of 0 or 1 is decided by count: one miss fails it, and no miss of 100 requests or more passes it.
    Fewer than 100 requests never decide, fewer than 30 independent ones never pass and fewer than 10 never
    fail; nor do counts of fewer than five runs. O(units). Raises ValueError for alpha outside (0, 0.5],
    m < 1 or a share outside [0, 1].
    """
    if not (0.0 < alpha <= 0.5 and m >= 1):
        raise ValueError(f"a test needs 0 < alpha <= 0.5 and m >= 1, got alpha {alpha:g}, m {m}")
    n, met = units.n, units.met
    least = needed(n, share)
    if n and share in (0.0, 1.0) and (met < least or n >= MIN_REQUESTS):
        p, by_count = met / n, met >= least
        verdict: Verdict = "pass" if by_count else "fail"
        return ShareTest(verdict, n, met, p, p, p, 1.0, n, 0, "requests", 1.0 - alpha / 2.0, by_count)
    few_runs = units.kind == "runs" and len(units.levels[0].series[0].n) < MIN_RUNS
    if n < MIN_REQUESTS or few_runs:
        return _too_few(units, share, alpha, m)
    eased = units.inner is not None and bool(units.beside)
    a = alpha if eased else alpha / 2.0
    passing = _side(units, units.inner, units.beside, units.borne, MIN_EFFECTIVE, None if eased else a)
    failing = _side(units, units.outer, units.against, 1.0, MIN_FAILING, alpha / m)
    lower = lower_bound(passing.met / n, passing.worth, a)
    upper = upper_bound(failing.met / n, failing.worth, alpha / m)
    side, more, verdict = passing, None, "undecided"
    why: Why = "interval"
    if passing.n_eff >= passing.least and lower >= share:
        verdict, why = "pass", ""
    elif failing.n_eff >= failing.least and upper < share:
        side, verdict, why = failing, "fail", ""
    elif passing.met < least <= failing.met:
        why = "run_spread"  # a run on another node may keep the bound, or break it
    else:
        side = passing if passing.met >= least else failing
        why = "few_effective" if side.n_eff < side.least else "interval"
        more = more_requests(n, side.met, share, deff=side.deff, df=_df(units), alpha=alpha, m=m, eased=eased)
    sizes = (side.deff, side.n_eff, _df(units))
    return ShareTest(
        verdict, n, met, met / n, lower, upper, *sizes, units.kind, 1.0 - a, side is passing, eased, more, why
    )


def _side(
    units: Units, moved: Level | None, others: Sequence[Units], borne: float, least: int, alpha: float | None
) -> _Side:
    """The counts at the bound, or at where the run-to-run spread moved it, and what they are worth."""
    bound = units.levels[0] if moved is None else moved
    elsewhere = max(_deff(replace(units, levels=units.levels[1:])), *map(_deff, others), 1.0)
    deff = max(_deff(replace(units, levels=(bound,))), 1.0 + borne * (elsewhere - 1.0))
    n_eff = units.n / deff
    return _Side(
        bound.met, deff, n_eff, n_eff if alpha is None else effective(n_eff, _df(units), alpha), least
    )


def _too_few(units: Units, share: float, alpha: float, m: int) -> ShareTest:
    # No dependence is estimated from so little, so nothing is claimed: the interval is [0, 1].
    n, met = units.n, units.met
    runs = len(units.levels[0].series[0].n) if units.kind == "runs" else MIN_RUNS
    df = MIN_RUNS - 1 if units.kind == "runs" else BLOCKS - 1
    more = more_requests(n, met, share, deff=1.0, df=df, alpha=alpha, m=m)
    if more is not None and 0 < runs < MIN_RUNS:
        more = max(more, math.ceil(n / runs * (MIN_RUNS - runs)))
    why: Why = "few_requests" if n < MIN_REQUESTS else "few_runs"
    p, sure = met / n if n else math.nan, 1.0 - alpha / 2.0
    return ShareTest("undecided", n, met, p, 0.0, 1.0, 1.0, n, 0, "requests", sure, False, False, more, why)


def design_effect(units: Units) -> float:
    """How many requests make one independent one: the largest that was counted, at least 1 (Kish 1965)."""
    return max(_deff(units), *map(_deff, units.beside), 1.0)


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
