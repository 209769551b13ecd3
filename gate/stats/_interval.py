"""The Korn-Graubard interval: an exact binomial interval on the sample a dependent one is worth."""

from __future__ import annotations

from ._beta import beta_quantile, betainc, normal_quantile, t_quantile


def effective(n_eff: float, df: float, alpha: float) -> float:
    """`n_eff` independent requests, less what estimating the dependence from df + 1 units costs.

    n_eff (z / t)^2 at one-sided level `alpha` <= 0.5 (Korn and Graubard 1998).
    """
    level = 1.0 - min(alpha, 0.5 - 1e-6)  # at 0.5 both quantiles are 0 and their ratio is a limit
    return n_eff * (normal_quantile(level) / t_quantile(level, df)) ** 2


def lower_bound(p: float, n: float, alpha: float) -> float:
    """One-sided 1 - alpha lower bound of a share observed as `p` in `n` (Clopper-Pearson)."""
    return 0.0 if p <= 0.0 else beta_quantile(alpha, p * n, n - p * n + 1.0)


def upper_bound(p: float, n: float, alpha: float) -> float:
    """One-sided 1 - alpha upper bound of a share observed as `p` in `n` (Clopper-Pearson)."""
    return 1.0 if p >= 1.0 else beta_quantile(1.0 - alpha, p * n + 1.0, n - p * n)


def decides(p: float, n: float, share: float, alpha: float) -> bool:
    """Whether the bound on the far side of `share` clears it: one betainc instead of a quantile."""
    if p >= share:
        return p > 0.0 and betainc(p * n, n - p * n + 1.0, share) <= alpha
    return betainc(p * n + 1.0, n - p * n, share) >= 1.0 - alpha
