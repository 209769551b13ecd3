"""How far a figure moved between two builds: paired t, Welch, and a band over stored sessions.

docs/regression.md: the figures are natural logarithms of one quantile a run (or plain seconds), so that a
difference is a ratio. Requests of a run depend on each other; runs of one session, sessions of one
machine much less, so they are the units. docs/regression.md shows the error rates measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ._beta import betainc, t_quantile
from ._counting import Floats, nearest_rank

TRIM = 0.2  # of the runs at either end, where one stall would decide
EXPLAINED = 0.5  # of the variance of requests, from which their lengths are worth adjusting for
_SPREAD, _MOST = 50, 200  # quantiles that stand for all residuals, and for the requests of a run


class Shift(Struct, frozen=True):
    """Candidate minus baseline, in the unit of the figures, and how well it is known."""

    estimate: float
    error: float  # standard error; 0 where the figures do not vary at all
    df: float  # degrees of freedom of the error

    def lower(self, alpha: float) -> float:
        """One-sided 1 - alpha lower bound (Student). Raises ValueError unless 0 < alpha < 1."""
        return self.estimate - t_quantile(1.0 - alpha, self.df) * self.error

    def upper(self, alpha: float) -> float:
        """One-sided 1 - alpha upper bound (Student). Raises ValueError unless 0 < alpha < 1."""
        return self.estimate + t_quantile(1.0 - alpha, self.df) * self.error

    def p_above(self, limit: float) -> float:
        """P value of "the true shift is at most `limit`": small where it is surely more.

        Student's t: lower(alpha) > limit exactly where this is below alpha.
        """
        if self.error == 0.0:
            return 0.0 if self.estimate > limit else 1.0
        t = (self.estimate - limit) / self.error
        tail = 0.5 * betainc(self.df / 2.0, 0.5, self.df / (self.df + t * t))
        return tail if t > 0 else 1.0 - tail


def paired_shift(base: Floats, candidate: Floats) -> Shift:
    """Run i of both sides did the same work: what varies between workloads cancels (paired t, df n - 1).

    Raises ValueError for fewer than two pairs, sides of different length, or a figure that is not finite.
    """
    if base.size != candidate.size:
        raise ValueError(f"{base.size} and {candidate.size} figures do not make pairs")
    return _mean(candidate - base, "pairs")


def welch_shift(base: Floats, candidate: Floats) -> Shift:
    """Two independent samples of unequal spread (Welch 1947, df by Satterthwaite).

    Raises ValueError for fewer than two figures a side or one that is not finite.
    """
    left, right = _mean(base, "figures"), _mean(candidate, "figures")
    a, b = left.error**2, right.error**2
    if a + b == 0.0:
        return Shift(right.estimate - left.estimate, 0.0, left.df + right.df)
    df = (a + b) ** 2 / (a**2 / left.df + b**2 / right.df)
    return Shift(right.estimate - left.estimate, math.sqrt(a + b), df)


def trimmed_shift(base: Floats, candidate: Floats, trim: float = 0.0) -> Shift:
    """Two independent samples of like spread; with `trim`, of each without its floor(n trim) ends.

    Trimmed means with the errors of the Winsorized samples (Yuen 1974); `trim` 0 is the t test. Of equal
    numbers df is that of the pooled variance, which keeps its level there also for unequal spreads
    (Welch 1938), else Satterthwaite's.
    Raises ValueError for fewer than two figures left a side or one that is not finite.
    """
    (left, a, few), (right, b, many) = (_trimmed(side, trim) for side in (base, candidate))
    error = math.sqrt(a + b)
    df = float(few + many - 2)
    if error and base.size != candidate.size:
        df = (a + b) ** 2 / (a**2 / (few - 1) + b**2 / (many - 1))
    return Shift(right - left, error, df)


def expected_quantiles(
    values: Sequence[Sequence[Floats]], lengths: Sequence[Sequence[Floats]], share: float
) -> tuple[Floats, Floats] | None:
    """What each run's quantile would be expected to be from the lengths of its requests alone.

    `values` holds for both sides the requests of each run, `lengths` a row of covariates for each of them
    (requests x covariates). One linear model for both sides (least squares), each at its own level, so that
    a slower side is not explained away. The result is in factors of the runs' geometric mean: divide by it
    to compare at equal lengths.
    None where lengths explain less than half of the variance, or differ between the sides by more than
    three standard errors: that is another workload and no chance.
    """
    sides = [np.concatenate(side) for side in values]
    known = [np.concatenate(side) for side in lengths]
    gap = np.abs(known[0].mean(axis=0) - known[1].mean(axis=0))
    chance = np.sqrt(sum(side.var(axis=0) / len(side) for side in known))
    if min(map(len, known)) < 2 or (gap > 3 * chance + 1e-12).any():
        return None
    designs = [np.column_stack((np.ones(len(side)), side)) for side in known]
    x = np.concatenate(designs)
    levels = [float(x.mean(axis=0) @ _slopes(one, y)) for one, y in zip(designs, sides, strict=True)]
    if min(levels) <= 0:
        return None
    y = np.concatenate([side / level for side, level in zip(sides, levels, strict=True)])
    slopes = _slopes(x, y)
    left = y - x @ slopes
    if left.var() > (1 - EXPLAINED) * y.var():
        return None
    spread = np.quantile(left, (np.arange(_SPREAD) + 0.5) / _SPREAD)
    found = []
    for side in lengths:
        logs = []
        for rows in side:
            fitted = slopes[0] + rows @ slopes[1:]
            if fitted.size > _MOST:
                fitted = np.quantile(fitted, (np.arange(_MOST) + 0.5) / _MOST)
            value = nearest_rank((fitted[:, None] + spread).ravel(), share)
            logs.append(math.log(value) if value > 0 else math.nan)
        found.append(np.array(logs))
    mean = float(np.concatenate(found).mean())
    return None if math.isnan(mean) else (np.exp(found[0] - mean), np.exp(found[1] - mean))


def band_shift(base: Floats, candidate: Floats) -> Shift:
    """Figures of stored sessions against those of new ones: is this more than sessions differ anyway?

    The prediction interval of the mean of k further sessions, s sqrt(1/n + 1/k) with df n - 1: the spread
    comes from the stored sessions alone, because one new session shows none.
    Raises ValueError for fewer than two stored sessions, no new one, or a figure that is not finite.
    """
    stored = _mean(base, "sessions")
    if candidate.size < 1 or not np.isfinite(candidate).all():
        raise ValueError("a band needs one new session or more, all figures finite")
    spread = stored.error * math.sqrt(base.size)
    error = spread * math.sqrt(1.0 / base.size + 1.0 / candidate.size)
    return Shift(float(candidate.mean()) - stored.estimate, error, stored.df)


def sturdier(shift: Shift, blocks: Shift) -> Shift:
    """A shift of few runs with an error from blocks of their requests, never below that of the runs.

    The estimate stays that of the runs: a quantile of a short block is another one's neighbour, but its
    spread says how much the requests vary.
    """
    return replace(blocks, estimate=shift.estimate, error=max(shift.error, blocks.error))


def holm_levels(p_values: list[float], alpha: float) -> list[float]:
    """The level at which each of m tests is made so that any false rejection has at most chance `alpha`.

    Step down (Holm 1979): the smallest p value is tested at alpha / m, the next at alpha / (m - 1), and so
    on until one is not rejected; the rest share its level. In the order given; a test is rejected where its
    p value is below its level. Raises ValueError for alpha outside (0, 1).
    """
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"a family of tests needs 0 < alpha < 1, got {alpha:g}")
    levels = [alpha] * len(p_values)
    left, open_ = len(p_values), True
    for index in sorted(range(len(p_values)), key=lambda i: p_values[i]):
        levels[index] = alpha / left
        open_ = open_ and p_values[index] < levels[index]
        left -= open_
    return levels


def _slopes(x: Floats, y: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(x, y, rcond=None)[0], np.float64)


def _trimmed(values: Floats, trim: float) -> tuple[float, float, int]:
    """Trimmed mean, its squared error from the Winsorized sample, and how many figures are left."""
    cut = int(values.size * trim)
    left = values.size - 2 * cut
    if left < 2 or not np.isfinite(values).all():
        raise ValueError("a trimmed mean needs two figures or more, all finite")
    ordered = np.sort(values)
    kept = ordered[cut : values.size - cut]
    pulled = np.clip(ordered, kept[0], kept[-1])
    square = float(((pulled - pulled.mean()) ** 2).sum()) / (left * (left - 1))
    scale = float(np.abs(values).max())
    return float(kept.mean()), square if square > (1e-12 * scale) ** 2 else 0.0, left


def _mean(values: Floats, what: str) -> Shift:
    if values.size < 2 or not np.isfinite(values).all():
        raise ValueError(f"a shift needs two {what} or more, all finite")
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    # A spread below rounding is none: equal figures must not differ by their last bit.
    scale = float(np.abs(values).max())
    return Shift(float(values.mean()), error if error > 1e-12 * scale else 0.0, values.size - 1)
