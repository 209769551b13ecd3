"""Sample sizes against the exact binomial bound (scipy) and the formula of the design."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gate import stats
from tests.stats.samples import SHARES, benchmark

scipy_stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize(("share", "df"), [(0.9, 9), (0.95, 9), (0.99, 9), (0.99, 4), (0.99, 29), (0.999, 9)])
def test_the_zero_miss_minimum_is_the_first_size_that_passes(share, df):
    def lower(n):  # with no miss the mid-P bound of n is (2 alpha)^(1/n): half of share^n is alpha
        worth = n * (scipy_stats.norm.ppf(0.975) / scipy_stats.t.ppf(0.975, df)) ** 2
        return 0.05 ** (1 / worth)

    n = stats.zero_miss_minimum(share, df=df)
    assert n == 100 or lower(n - 1) < share
    assert lower(n) >= share
    runs = [n // (df + 1)] * df + [n - n // (df + 1) * df]
    assert stats.test_share(stats.units_from_counts(runs, runs), share).verdict == "pass"


def test_the_minimum_never_goes_below_the_sizes_that_may_decide():
    assert stats.zero_miss_minimum(0.5) == 100
    assert stats.zero_miss_minimum(0.5, deff=10) == 300
    # ln 0.05 / ln 0.99 x (2.262157 / 1.959964)^2 x 10 = 298.0729 x 13.32140
    assert stats.zero_miss_minimum(0.99, deff=10) == pytest.approx(3971, abs=1)
    assert (stats.zero_miss_minimum(1.0), stats.zero_miss_minimum(0.0)) == (1, 1)


def test_the_plan_is_the_formula_of_the_design():
    # q 0.95, p 0.97, deff 4, df 9: (1.959964 sqrt(.95 .05) + .841621 sqrt(.97 .03))^2 / .02^2 * 4 * 1.332140
    spread = 1.959964 * math.sqrt(0.0475) + 0.841621 * math.sqrt(0.0291)
    expected = (spread / 0.02) ** 2 * 4 * (2.262157 / 1.959964) ** 2 - 1000
    assert stats.more_requests(1000, 970, 0.95, deff=4.0, df=9) == pytest.approx(expected, rel=1e-5, abs=1)


def test_an_undecided_test_names_a_size_that_decides_if_nothing_changes():
    rng = np.random.default_rng(9)
    tried = 0
    for _ in range(60):
        share = rng.choice(SHARES)
        (scores,) = benchmark(rng, [1000], share, rng.choice([0.3, 3.0]))
        result = stats.test_share(stats.units([scores], share), share)
        if result.verdict != "undecided" or result.more_requests is None:
            continue
        tried += 1
        assert result.more_requests >= 1
        times = (result.n + result.more_requests) / result.n
        alpha = 0.025 if result.share_met > share else 0.05
        worth = times * result.n_eff * (scipy_stats.norm.ppf(alpha) / scipy_stats.t.ppf(alpha, 9)) ** 2
        hits, p = result.share_met * worth, result.share_met
        lower = 0 if p == 0 else scipy_stats.beta.ppf(0.025, hits, worth - hits + 1)
        upper = 1 if p == 1 else scipy_stats.beta.ppf(0.95, hits + 1, worth - hits)
        assert lower >= share if p > share else upper < share
    assert tried >= 15


def test_the_plan_is_not_below_what_a_skewed_share_takes():
    # Near 100 % the normal formula is short: at its own 3726 requests the exact bound is still undecided.
    more = stats.more_requests(3121, 2935, 0.999, deff=43.43747, df=4, alpha=0.01, m=3)
    a, p = 0.01 / 3, 2935 / 3121

    def upper(n):
        worth = n / 43.43747 * (scipy_stats.norm.ppf(a) / scipy_stats.t.ppf(a, 4)) ** 2
        return scipy_stats.beta.ppf(1 - a, p * worth + 1, worth - p * worth)

    assert upper(3726) > 0.999 > upper(3121 + more)
    assert upper((3121 + more) / 1.06) > 0.999  # and not far above it


def test_a_share_on_its_bound_has_no_plan_and_the_extremes_have_one():
    assert stats.more_requests(1000, 990, 0.99, deff=1.0, df=9) is None
    assert stats.more_requests(10**6, 989_999, 0.99, deff=100.0, df=9) is None  # over a billion
    assert stats.more_requests(0, 0, 0.99, deff=1.0, df=9) == stats.zero_miss_minimum(0.99)
    assert stats.more_requests(0, 0, 1.0, deff=1.0, df=9) == 1
    assert stats.more_requests(200, 200, 0.99, deff=1.0, df=9) > 200
    assert stats.more_requests(40, 0, 0.99, deff=1.0, df=9) == 60


def test_a_confidence_of_half_is_a_limit_and_still_a_test():
    # With t(4) and the normal density at 0, (z/t)^2 tends to (3/8)^2 * 2 pi.
    result = stats.test_share(stats.units_from_counts([100] * 5, [100, 99, 98, 97, 96]), 0.9, alpha=0.5)
    worth = 392 * (3 / 8) ** 2 * 2 * math.pi
    upper = scipy_stats.beta.ppf(0.5, 0.98 * worth + 1, 0.02 * worth)
    assert (result.verdict, result.upper) == ("pass", pytest.approx(upper, abs=1e-6))
