"""The tail of goodput's scores, held to Weissman's formula by numpy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gate.stats import tail_test


def pareto(n: int, at_99: float, gamma: float = 0.2) -> NDArray[np.float64]:
    """Scores in any order whose quantiles are those of a Pareto tail, P99 at `at_99`."""
    beyond = (np.arange(n) + 0.5) / n
    scores: NDArray[np.float64] = at_99 * (0.01 / beyond) ** gamma
    return np.random.default_rng(1).permutation(scores)


def weissman(scores: NDArray[np.float64]) -> float:
    """The share beyond 1 by the highest tenth alone."""
    start = np.sort(scores)[int(0.9 * len(scores)) - 1]
    tail = scores[scores > start]
    return float(len(tail) / len(scores) * start ** (1 / np.log(tail / start).mean()))


def test_the_bound_on_the_share_within_is_below_weissman_s_estimate_and_near_it() -> None:
    scores = pareto(3000, 0.7)
    found = tail_test([scores], 0.99)
    assert found is not None
    missed = weissman(scores)
    assert missed == pytest.approx(0.01 * 0.7**5, rel=0.1)  # what a Pareto tail of gamma 0.2 has beyond 1
    assert 1 - 4 * missed < found.lower < 1 - missed
    assert found.passed


@pytest.mark.parametrize(
    ("runs", "at_99", "passed"), [(1, 0.79, True), (1, 0.81, False), (10, 0.86, True), (10, 0.88, False)]
)
def test_few_runs_ask_for_more_room(runs: int, at_99: float, passed: bool) -> None:
    found = tail_test(np.array_split(pareto(30_000, at_99, 0.05), runs), 0.99)
    assert found is not None
    assert found.passed is passed


def test_a_failed_request_is_missed_whatever_the_tail_is() -> None:
    scores = pareto(2000, 0.5, 0.05)
    scores[::50] = np.inf  # 2 % failed, 1 % may
    found = tail_test([scores], 0.99)
    assert found is not None
    assert not found.passed
    assert found.lower < 0.98


@pytest.mark.parametrize(("n", "share"), [(999, 0.99), (2000, 0.95), (2000, 0.995)])
def test_it_is_asked_only_where_it_was_measured(n: int, share: float) -> None:
    assert tail_test([pareto(n, 0.5)], share) is None
