"""Special functions against scipy, printed tables and closed forms; what every function refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from gate import stats

scipy_stats = pytest.importorskip("scipy.stats")
special = pytest.importorskip("scipy.special")


def test_betainc_agrees_with_scipy_from_a_tenth_to_ten_thousand():
    rng = np.random.default_rng(1)
    for _ in range(3000):
        a, b = 10 ** rng.uniform(-1, 4, 2)
        mean, spread = a / (a + b), math.sqrt(a * b / (a + b + 1)) / (a + b)
        for x in (rng.random(), min(max(mean + rng.normal() * 3 * spread, 0.0), 1.0)):
            assert stats.betainc(a, b, x) == pytest.approx(special.betainc(a, b, x), abs=1e-10)


@pytest.mark.parametrize(("a", "b"), [(1e7, 1e7), (9.9e6, 1e5), (1e7, 0.5), (0.1, 1e7), (1e-3, 1e-3)])
def test_betainc_stays_right_for_ten_million_requests_and_for_next_to_none(a, b):
    mean, spread = a / (a + b), math.sqrt(a * b / (a + b + 1)) / (a + b)
    for z in (-4, -1, 0, 1, 4):
        x = min(max(mean + z * spread, 0.0), 1.0)
        assert stats.betainc(a, b, x) == pytest.approx(special.betainc(a, b, x), abs=1e-9)


@settings(deadline=None)
@given(st.floats(0.1, 1e4), st.floats(0.1, 1e4), st.floats(0, 1), st.floats(0, 1))
def test_betainc_is_a_share_and_grows_with_x(a, b, x, y):
    low, high = sorted((x, y))
    assert 0 <= stats.betainc(a, b, low) <= stats.betainc(a, b, high) + 1e-13 <= 1 + 1e-13


def test_betainc_is_whole_at_the_edges():
    assert [stats.betainc(2, 3, x) for x in (-1, 0, 1, 2)] == [0, 0, 1, 1]
    assert stats.betainc(1e4, 1e4, 5e-324) == 0
    assert stats.betainc(0.1, 0.1, math.nextafter(1, 0)) == pytest.approx(
        special.betainc(0.1, 0.1, math.nextafter(1, 0)), abs=1e-10
    )


def test_beta_quantiles_agree_with_scipy():
    rng = np.random.default_rng(2)
    for _ in range(1000):
        a, b = 10 ** rng.uniform(-1, 4, 2)
        for p in (1e-6, 0.025, 0.5, 0.975, rng.random()):
            assert stats.beta_quantile(p, a, b) == pytest.approx(special.betaincinv(a, b, p), abs=1e-9)


def test_beta_quantiles_in_far_tails_do_not_underflow():
    # I_x(a, 1) = x^a, so the quantile is p^(1/a): below the smallest float it is 0.
    for p, a in [(1e-300, 1.0), (1e-100, 1e4), (1e-300, 0.9), (0.25, 1e-2), (0.5, 1e-4)]:
        assert stats.beta_quantile(p, a, 1.0) == pytest.approx(p ** (1 / a), rel=1e-9)
    assert (stats.beta_quantile(0, 2, 3), stats.beta_quantile(1, 2, 3)) == (0, 1)


@pytest.mark.parametrize("df", [0.5, 1, 2, 4, 7.3, 9, 29, 1e4, 1e6])
def test_t_quantiles_agree_with_scipy(df):
    for p in (1e-10, 0.025, 0.4, 0.6, 0.9, 0.95, 0.975, 0.999, 1 - 1e-9):
        assert stats.t_quantile(p, df) == pytest.approx(scipy_stats.t.ppf(p, df), rel=1e-9)


def test_t_and_normal_quantiles_agree_with_the_printed_tables():
    assert stats.t_quantile(0.975, 9) == pytest.approx(2.262157, abs=5e-7)
    assert stats.t_quantile(0.95, 4) == pytest.approx(2.131847, abs=5e-7)
    assert stats.t_quantile(0.75, 1) == pytest.approx(1, rel=1e-12)  # Cauchy: tan(pi/4)
    assert stats.t_quantile(0.5, 3) == 0
    assert stats.normal_quantile(0.975) == pytest.approx(1.959964, abs=5e-7)


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (stats.betainc, (0.0, 1.0, 0.5)),
        (stats.betainc, (1.0, math.nan, 0.5)),
        (stats.beta_quantile, (1.1, 1.0, 1.0)),
        (stats.beta_quantile, (0.5, -1.0, 1.0)),
        (stats.t_quantile, (1.0, 9)),
        (stats.t_quantile, (0.9, 0)),
        (stats.normal_quantile, (0.0,)),
        (stats.needed, (10, 1.01)),
        (stats.needed, (-1, 0.5)),
        (stats.needed, (10, math.nan)),
        (stats.nearest_rank, (np.array([]), 0.5)),
        (stats.nearest_rank, (np.array([1.0, math.nan]), 0.5)),
        (stats.second_level, ([], 0.99)),
        (stats.units, ([np.array([0.5, math.nan])], 0.99)),
        (stats.count_runs, ([np.array([0.5, math.nan])],)),
        (stats.units_from_counts, ([10, 10], [9])),
        (stats.units_from_counts, ([10], [11])),
        (stats.merge, ([],)),
        (stats.zero_miss_minimum, (1.5,)),
    ],
)
def test_what_means_nothing_is_refused(call, arguments):
    with pytest.raises(ValueError, match=" "):
        call(*arguments)
