"""Exact binomial intervals on the sample a dependent one is worth (Korn and Graubard 1998)."""

from __future__ import annotations

import math

from ._beta import beta_quantile, betainc, normal_quantile, t_quantile


def effective(n_eff: float, df: float, alpha: float) -> float:
    """`n_eff` independent requests, less what estimating the dependence from df + 1 units costs.

    n_eff (z / t)^2 at one-sided level `alpha` <= 0.5 (Korn and Graubard 1998).
    """
    level = 1.0 - min(alpha, 0.5 - 1e-6)  # at 0.5 both quantiles are 0 and their ratio is a limit
    return n_eff * (normal_quantile(level) / t_quantile(level, df)) ** 2


def mid_p(p: float, n: float, share: float) -> float:
    """P(share of `n` above `p`) + P(it is `p`) / 2 where the true one is `share` (Lancaster 1961).

    The binomial tail as an incomplete beta, so that `n` need not be whole.
    """
    met, missed = p * n, n - p * n
    if met <= 0.0:
        return 1.0
    beyond = betainc(met + 1.0, missed, share) if missed > 0.0 else 0.0
    return 0.5 * (betainc(met, missed + 1.0, share) + beyond)


def lower_bound(p: float, n: float, alpha: float) -> float:
    """One-sided 1 - alpha lower bound of a share observed as `p` in `n` (mid-P)."""
    if p <= 0.0:
        return 0.0
    if p >= 1.0:
        return float(min(1.0, 2.0 * alpha) ** (1.0 / n))
    met, missed = p * n, n - p * n
    # Between the exact bounds that count `p` itself and that do not; the root by Illinois' false position.
    low, high = beta_quantile(alpha, met, missed + 1.0), beta_quantile(alpha, met + 1.0, missed)
    at_low, at_high = (math.log(mid_p(p, n, x) / alpha) for x in (low, high))
    was = 0.0
    for _ in range(100):
        middle = low - at_low * (high - low) / (at_high - at_low) if at_low < 0.0 < at_high else low
        at = math.log(mid_p(p, n, middle) / alpha)
        if abs(at) < 1e-11 or not low < middle < high:
            return middle
        if at < 0.0:
            low, at_low, at_high = middle, at, at_high * (0.5 if was < 0.0 else 1.0)
        else:
            high, at_high, at_low = middle, at, at_low * (0.5 if was > 0.0 else 1.0)
        was = at
    return low


def upper_bound(p: float, n: float, alpha: float) -> float:
    """One-sided 1 - alpha upper bound of a share observed as `p` in `n` (Clopper-Pearson)."""
    return 1.0 if p >= 1.0 else beta_quantile(1.0 - alpha, p * n + 1.0, n - p * n)


def decides(p: float, n: float, share: float, alpha: float) -> bool:
    """Whether the bound on the far side of `share` clears it: two betainc instead of a quantile."""
    if p >= share:
        return mid_p(p, n, share) <= alpha
    return betainc(p * n + 1.0, n - p * n, share) >= 1.0 - alpha
