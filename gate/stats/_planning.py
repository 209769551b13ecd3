"""How many requests a verdict takes: before the benchmark, and after one that did not decide."""

from __future__ import annotations

import math

from ._beta import normal_quantile
from ._interval import decides, effective

MIN_REQUESTS = 100  # fewer never decide
MIN_EFFECTIVE = 30  # fewer independent requests never pass
MIN_FAILING = 10  # and fewer than this never fail: what misses by far shows in few
POWER = 0.8  # chance that the planned number of requests decides
_MOST = 1e9  # a plan beyond this many requests is no plan


def zero_miss_minimum(
    share: float, *, alpha: float = 0.05, df: float = 9, deff: float = 1.0, eased: bool = False
) -> int:
    """The fewest requests that can show `share` if not one of them misses its bound.

    (t / z)^2 deff ln(alpha) / ln(share), by mid-P at alpha / 2, and never fewer than the sizes that may
    decide at all. df is runs - 1, or 9 for the blocks of one run. `eased` is for a pass that is tested at
    alpha and without (t / z)^2. Shares of 0 and 1 are decided by count: 1.
    Raises ValueError for a share outside [0, 1].
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"a share lies between 0 and 1, got {share:g}")
    if share in (0.0, 1.0):
        return 1
    independent = math.log(min(2.0 * alpha if eased else alpha, 1.0)) / math.log(share)
    floor = max(MIN_REQUESTS, MIN_EFFECTIVE * deff)
    worth = 1.0 if eased else effective(1.0, df, alpha / 2.0)
    return math.ceil(max(floor, deff * independent / worth))


def more_requests(
    n: int,
    met: int,
    share: float,
    *,
    deff: float,
    df: float,
    alpha: float = 0.05,
    m: int = 1,
    power: float = POWER,
    eased: bool = False,
) -> int | None:
    """About how many more requests would decide with chance `power`, if share and dependence persist.

    ((z_alpha sqrt(q(1-q)) + z_power sqrt(p(1-p))) / |p - q|)^2 independent requests, times (t / z)^2 and
    deff, less those there are. An order of magnitude: say "about", and "at least" for tails. At least
    1; None where the observed share sits on `share`, or a billion requests would not do.
    Raises ValueError for a share outside [0, 1].
    """
    floor = zero_miss_minimum(share, alpha=alpha, df=df, deff=deff, eased=eased)
    if n == 0 or share in (0.0, 1.0):
        return max(floor - n, 1)
    p = met / n
    if abs(p - share) < 1e-12:
        return None
    a = alpha / m if p < share else alpha if eased else alpha / 2.0
    if p < share:  # a clear miss needs no sample that could prove the opposite
        floor = math.ceil(max(MIN_REQUESTS, MIN_FAILING * deff))
    z = normal_quantile(1.0 - a)
    spread = z * math.sqrt(share * (1.0 - share)) + normal_quantile(power) * math.sqrt(p * (1.0 - p))
    worth = (1.0 if eased and p > share else effective(1.0, df, a)) / deff  # what one request counts
    size = max(floor, (spread / (p - share)) ** 2 / worth, n + 1.0)
    # The formula is a normal approximation: near 0 and 1 it may name a size that still cannot decide.
    while size < _MOST and not decides(p, size * worth, share, a):
        size *= 1.05
    return math.ceil(size - n) if size < _MOST else None
