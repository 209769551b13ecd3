"""Paired t, Welch and the band against scipy; Holm by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gate.stats import Shift, band_shift, holm_levels, paired_shift, sturdier, welch_shift

scipy_stats = pytest.importorskip("scipy.stats")

RNG = np.random.default_rng(11)
BASE, CANDIDATE = RNG.normal(0.0, 0.05, 9), RNG.normal(0.08, 0.02, 9)


def test_the_paired_shift_has_the_interval_and_the_p_value_of_scipys_paired_t() -> None:
    shift = paired_shift(BASE, CANDIDATE)
    theirs = scipy_stats.ttest_rel(CANDIDATE, BASE, alternative="greater")
    interval = theirs.confidence_interval(0.95)
    assert shift.lower(0.05) == pytest.approx(interval.low, abs=1e-12)
    assert shift.p_above(0.0) == pytest.approx(theirs.pvalue, rel=1e-9)
    assert shift.df == theirs.df


def test_welch_has_the_interval_and_the_p_value_of_scipys_unequal_t() -> None:
    shift = welch_shift(BASE[:6], CANDIDATE)
    theirs = scipy_stats.ttest_ind(CANDIDATE, BASE[:6], equal_var=False, alternative="greater")
    assert shift.lower(0.05) == pytest.approx(theirs.confidence_interval(0.95).low, abs=1e-12)
    assert shift.p_above(0.0) == pytest.approx(theirs.pvalue, rel=1e-9)
    assert shift.df == pytest.approx(theirs.df, rel=1e-12)


def test_the_band_is_students_prediction_interval_by_hand() -> None:
    stored = np.array([1.0, 2.0, 3.0, 4.0])  # mean 2.5, s sqrt(5/3)
    shift = band_shift(stored, np.array([5.0]))
    assert shift.estimate == pytest.approx(2.5)
    assert shift.error == pytest.approx(math.sqrt(5 / 3) * math.sqrt(1 / 4 + 1))
    assert shift.df == 3
    assert shift.lower(0.05) == pytest.approx(2.5 - scipy_stats.t.ppf(0.95, 3) * math.sqrt(25 / 12))


@given(st.floats(-3, 3), st.floats(0.01, 3), st.floats(1, 60), st.floats(0.001, 0.4), st.floats(-3, 3))
def test_a_p_value_is_below_its_level_exactly_where_the_lower_bound_is_above_the_limit(
    estimate: float, error: float, df: float, alpha: float, limit: float
) -> None:
    shift = Shift(estimate, error, df)
    gap = shift.lower(alpha) - limit
    if abs(gap) > 1e-9:
        assert (shift.p_above(limit) < alpha) == (gap > 0)


def test_equal_figures_have_no_spread_and_decide_alone() -> None:
    shift = paired_shift(np.log(np.full(5, 0.1)), np.log(np.full(5, 0.12)))
    assert shift.error == 0
    assert (shift.p_above(math.log(1.19)), shift.p_above(math.log(1.21))) == (0.0, 1.0)


def test_a_wider_error_of_the_runs_is_never_hidden_by_blocks() -> None:
    assert sturdier(Shift(0.1, 0.05, 2), Shift(0.3, 0.01, 9)) == Shift(0.1, 0.05, 9)
    assert sturdier(Shift(0.1, 0.01, 2), Shift(0.3, 0.05, 9)) == Shift(0.1, 0.05, 9)


def test_holm_steps_down_until_one_test_is_not_rejected() -> None:
    # 0.001 < .05/4; 0.015 < .05/3; 0.04 is not below .05/2, so that 0.045 stays at .05/2 too
    assert holm_levels([0.04, 0.001, 0.045, 0.015], 0.05) == [0.025, 0.0125, 0.025, 0.05 / 3]
    assert holm_levels([0.5, 0.6], 0.05) == [0.025, 0.025]
    assert holm_levels([], 0.05) == []


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: paired_shift(np.ones(2), np.ones(3)), "do not make pairs"),
        (lambda: paired_shift(np.ones(1), np.ones(1)), "two pairs or more"),
        (lambda: welch_shift(np.ones(1), np.ones(3)), "two figures or more"),
        (lambda: welch_shift(np.array([1.0, np.inf]), np.ones(3)), "all finite"),
        (lambda: band_shift(np.ones(1), np.ones(1)), "two sessions or more"),
        (lambda: band_shift(np.ones(3), np.array([np.nan])), "all figures finite"),
        (lambda: holm_levels([0.1], 1.0), "0 < alpha < 1"),
    ],
)
def test_what_gives_no_shift_is_refused_in_words(call, said) -> None:
    with pytest.raises(ValueError, match=said):
        call()
