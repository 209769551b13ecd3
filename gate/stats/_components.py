"""How much of a spread is between groups and how much within them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from ._beta import t_quantile
from ._counting import Floats


class Components(Struct, frozen=True):
    """Standard deviations in the unit of the figures, and what they are known from."""

    within: float  # between figures of a group
    between: float  # between groups, beyond what their figures explain
    groups: int
    figures: int

    def of_mean(self, number: int) -> float:
        """Standard deviation of the mean of `number` figures of one further group."""
        return math.sqrt(self.between**2 + self.within**2 / number)


def variance_components(groups: Sequence[Floats], starts: Sequence[int] = ()) -> Components | None:
    """One-way random effects by analysis of variance of unweighted means (Searle, Casella, McCulloch 1992).

    `groups` are figures of each group in their order; a new level starts at each of `starts` and is no
    spread. The variance between is that of the group means around their level, less what the variance within
    gives it; one below 0 is 0. None for fewer than two groups beyond the levels, or no group of two figures.
    """
    edges = [0, *starts, len(groups)]
    free = len(groups) - (len(edges) - 1)
    inside = sum(group.size - 1 for group in groups)
    if free < 1 or inside < 1:
        return None
    within = sum(float(((group - group.mean()) ** 2).sum()) for group in groups) / inside
    means = np.array([float(group.mean()) for group in groups])
    around = sum(float(((means[a:b] - means[a:b].mean()) ** 2).sum()) for a, b in pairwise(edges) if b > a)
    explained = within * sum(1 / group.size for group in groups) / len(groups)
    between = max(around / free - explained, 0.0)
    return Components(math.sqrt(within), math.sqrt(between), len(groups), sum(group.size for group in groups))


def detectable(error: float, df: float, alpha: float, power: float) -> float:
    """The shift that a one-sided t test at `alpha` with this standard error shows with chance `power`.

    The sum of the two quantiles times the error: the usual approximation to the noncentral t.
    """
    return (t_quantile(1.0 - alpha, df) + t_quantile(power, df)) * error
