"""Regularised incomplete beta, and the beta, t and normal quantiles on it (no scipy at run time)."""

from __future__ import annotations

import math
from functools import lru_cache


def betainc(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta I_x(a, b) in [0, 1]; x outside [0, 1] is clamped.

    Continued fraction 26.5.8 of Abramowitz and Stegun by Lentz's method. Raises ValueError unless
    a and b are positive.
    """
    if not (a > 0 and b > 0):
        raise ValueError(f"the incomplete beta needs a and b above 0, got {a:g} and {b:g}")
    if x <= 0.0:
        return 0.0
    return 1.0 if x >= 1.0 else _incomplete(a, b, x, 1.0 - x)


def beta_quantile(p: float, a: float, b: float) -> float:
    """The x with I_x(a, b) = p. Raises ValueError unless a, b > 0 and p is in [0, 1]."""
    if not (a > 0 and b > 0 and 0.0 <= p <= 1.0):
        raise ValueError(f"a beta quantile needs a, b > 0 and 0 <= p <= 1, got {a:g}, {b:g}, {p:g}")
    return p if p in (0.0, 1.0) else _logistic(_beta_log_odds(p, a, b))


@lru_cache(maxsize=1024)
def t_quantile(p: float, df: float) -> float:
    """Student's t quantile; df may be fractional. Raises ValueError unless 0 < p < 1 and df > 0."""
    if not (0.0 < p < 1.0 and df > 0):
        raise ValueError(f"a t quantile needs 0 < p < 1 and df > 0, got p {p:g}, df {df:g}")
    tails = 2.0 * min(p, 1.0 - p)
    if tails >= 1.0:
        return 0.0
    # df / (df + t^2) is Beta(df/2, 1/2), so its log-odds are log(df / t^2): no cancellation near t = 0.
    t = math.sqrt(df * math.exp(-_beta_log_odds(tails, df / 2.0, 0.5)))
    return math.copysign(t, p - 0.5)


@lru_cache(maxsize=64)
def normal_quantile(p: float) -> float:
    """Standard normal quantile, by bisection on erfc: importing `statistics` would cost 2 ms at every start.

    Raises ValueError unless 0 < p < 1.
    """
    if not 0.0 < p < 1.0:
        raise ValueError(f"a normal quantile needs 0 < p < 1, got {p:g}")
    if p > 0.5:  # the other tail keeps its digits
        return -normal_quantile(1.0 - p)
    low, high = -40.0, 0.0  # P(Z < -40) is below the smallest float
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if 0.5 * math.erfc(-middle / math.sqrt(2.0)) < p else (low, middle)
    return high


def _incomplete(a: float, b: float, x: float, y: float) -> float:
    # y = 1 - x comes along because near x = 1 it cannot be had from x.
    if x > (a + 1.0) / (a + b + 2.0):  # beyond it the fraction converges slowly: take the other tail
        return max(0.0, 1.0 - _incomplete_tail(b, a, y, x))
    return min(1.0, _incomplete_tail(a, b, x, y))


def _incomplete_tail(a: float, b: float, x: float, y: float) -> float:
    front = _beta_kernel(a, b, x, y) / a
    return front * _beta_fraction(a, b, x) if front else 0.0


def _beta_kernel(a: float, b: float, x: float, y: float) -> float:
    """x^a (1-x)^b / B(a, b), written around its mode so that nothing large cancels at a = 1e7."""
    off = x * b - y * a
    u, v = off / a, -off / b  # x and y relative to their means, minus 1: a u + b v = 0
    log_x = math.log1p(u) if u > -0.5 else math.log(x) - math.log(a / (a + b))
    log_y = math.log1p(v) if v > -0.5 else math.log(y) - math.log(b / (a + b))
    rest = _stirling_rest(a + b) - _stirling_rest(a) - _stirling_rest(b)
    exponent = a * (log_x - u) + b * (log_y - v) + rest
    return math.sqrt(a / (a + b) * b / (2.0 * math.pi)) * math.exp(exponent)


def _stirling_rest(a: float) -> float:
    """log Gamma(a) minus Stirling's formula (Abramowitz and Stegun 6.1.41)."""
    if a < 16.0:
        return math.lgamma(a) - (a - 0.5) * math.log(a) + a - 0.5 * math.log(2.0 * math.pi)
    square = a * a
    return (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / square) / square) / square) / a


def _beta_fraction(a: float, b: float, x: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1.0 / ((1.0 - (a + b) * x / (a + 1.0)) or tiny)
    value = d
    for m in range(1, 1_000_000):  # about sqrt(max(a, b)) rounds are needed
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        d = 1.0 / ((1.0 + even * d) or tiny)
        c = (1.0 + even / c) or tiny
        value *= c * d
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d = 1.0 / ((1.0 + odd * d) or tiny)
        c = (1.0 + odd / c) or tiny
        value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            return value
    raise ArithmeticError(f"the incomplete beta of a {a:g}, b {b:g}, x {x:g} does not converge")


def _logistic(w: float) -> float:
    return 1.0 / (1.0 + math.exp(-w)) if w > -700.0 else math.exp(w)


def _beta_log_odds(p: float, a: float, b: float) -> float:
    """log(x / (1 - x)) of the quantile, 0 < p < 1: keeps its digits where x is next to 0 or to 1."""
    return _lower_log_odds(p, a, b) if p <= 0.5 else -_lower_log_odds(1.0 - p, b, a)


def _lower_log_odds(p: float, a: float, b: float) -> float:
    # log I is concave and increasing in the log-odds w, with slope kernel / I: Newton's method lands
    # left of the root and climbs to it, about five rounds. The bracket is for underflow in far tails.
    low, high = -745.0, 745.0
    w = math.log(a) - math.log(b) + normal_quantile(p) * math.sqrt(1.0 / a + 1.0 / b)
    w = min(max(w, low), high)
    for _ in range(200):
        x, y = _logistic(w), _logistic(-w)
        value, slope = _incomplete(a, b, x, y), _beta_kernel(a, b, x, y)
        low, high = (w, high) if value < p else (low, w)
        step = value * math.log(value / p) / slope if value > 0.0 and slope > 0.0 else math.inf
        following = w - step if low <= w - step <= high else 0.5 * (low + high)
        if abs(step) < 1e-11 or high - low < 1e-14 * (1.0 + abs(w)):
            return following
        w = following
    return w
