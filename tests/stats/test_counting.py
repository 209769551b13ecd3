"""Counts and order statistics against numpy, exact fractions and plain counting."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from gate import stats
from tests.stats.samples import RUNS, SHARES, benchmark


@pytest.mark.parametrize("share", SHARES)
def test_the_percentile_is_numpys_and_the_count_is_exact(share):
    exact = Fraction(str(share))
    values = np.arange(1.0, 5001.0)
    for n in range(1, 5001):
        count = stats.needed(n, share)
        assert Fraction(count, n) >= exact > Fraction(count - 1, n)
        if n % 10 in (0, 3):
            rank = np.quantile(values[:n], share, method="inverted_cdf")
            assert stats.nearest_rank(values[:n][::-1], share) == rank == max(count, 1)


def test_a_share_one_rounding_off_still_means_its_decimal():
    assert stats.needed(1000, 99.9 / 100) == 999  # 99.9 / 100 is 0.9990000000000001
    assert stats.needed(100, math.nextafter(0.99, 1)) == 99
    assert stats.needed(10**7, 0.9999999) == 9999999
    assert stats.needed(3, 2 / 3) == 2


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 10) | st.just(math.inf), min_size=1, max_size=60),
    st.floats(0, 10),
    st.sampled_from((*SHARES, 1.0)),
)
def test_the_percentile_meets_a_bound_exactly_if_enough_requests_do(values, bound, share):
    column = np.array(values)
    met = int((column <= bound).sum())
    assert (stats.nearest_rank(column, share) <= bound) == stats.share_met(len(values), met, share)


def test_a_percentile_beyond_the_completed_requests_is_unbounded():
    column = np.array([0.1] * 98 + [math.inf] * 2)
    assert stats.nearest_rank(column, 0.98) == 0.1
    assert stats.nearest_rank(column, 0.99) == math.inf


def test_no_requests_meet_nothing():
    assert not stats.share_met(0, 0, 0.0)
    assert stats.needed(0, 0.99) == 0


def test_the_second_level_leaves_thirty_misses_or_those_allowed():
    column = np.random.default_rng(3).permutation(np.arange(1.0, 1001.0))
    assert stats.second_level([column[:400], column[400:]], 0.99) == 970  # 30 above
    assert stats.second_level([column], 0.9) == 900  # 100 above
    assert stats.second_level([column[column <= 40]], 0.99) == 20  # half above
    assert stats.second_level([np.array([7.0])], 0.99) == 7


def test_scores_are_values_over_the_bound_or_values_with_the_bound():
    values = np.random.default_rng(4).lognormal(size=3000)
    assert stats.units([values], 0.9, threshold=4.0) == stats.units([values / 4.0], 0.9)  # 4: exact


def test_five_runs_are_clusters_and_four_are_cut_into_blocks():
    runs = [np.linspace(0, 1.01, 77) for _ in range(5)]
    assert (stats.units(runs, 0.9).kind, stats.units(runs[:4], 0.9).kind) == ("runs", "blocks")
    assert stats.units([*runs[:4], np.array([])], 0.9).kind == "blocks"  # an empty run tells nothing
    first = stats.units(runs[:4], 0.9).levels[0]
    assert [(len(s.n), s.n[0]) for s in first.series] == [(10, 30), (30, 10)]
    assert first.met == sum(int((run <= 1).sum()) for run in runs[:4])  # the rest of 308 / 10 counts too


def test_merged_parts_equal_the_whole():
    runs = benchmark(np.random.default_rng(5), [200, 150, 90, 300, 120, 77], 0.95)
    second = stats.second_level(runs, 0.95)
    parts = [stats.count_runs(part, second=second) for part in (runs[:1], runs[1:4], runs[4:])]
    assert stats.merge(parts) == stats.units(runs, 0.95)
    assert stats.merge([stats.merge(parts[:2]), parts[2]]) == stats.units(runs, 0.95)


def test_blocks_and_unlike_parts_do_not_merge():
    runs = [np.linspace(0, 2, 200)] * 5
    with pytest.raises(ValueError, match="only counts of runs"):
        stats.merge([stats.units(runs[:1], 0.9), stats.units(runs, 0.9)])
    with pytest.raises(ValueError, match="second level"):
        stats.merge([stats.count_runs(runs, second=0.5), stats.count_runs(runs)])


def test_counts_alone_are_the_scores_first_level():
    runs = benchmark(np.random.default_rng(6), [300] * 6, 0.95)
    counts = [int((run <= 1).sum()) for run in runs]
    assert stats.units_from_counts([300] * 6, counts) == stats.count_runs(runs)
    level = stats.second_level(runs, 0.95)
    lower = [int((run <= level).sum()) for run in runs]
    assert stats.units_from_counts([300] * 6, counts, lower) == stats.units(runs, 0.95)


@settings(deadline=None)
@given(RUNS, st.data())
def test_a_failed_request_never_raises_the_share(runs, data):
    run = data.draw(st.integers(0, len(runs) - 1))
    failed = [column.copy() for column in runs]
    failed[run][data.draw(st.integers(0, len(runs[run]) - 1))] = math.inf
    before, after = stats.units(runs, 0.9), stats.units(failed, 0.9)
    assert (after.n, after.met <= before.met) == (before.n, True)


@settings(deadline=None)
@given(RUNS, st.floats(0, 2), st.floats(0, 2))
def test_a_tighter_bound_never_raises_the_share(runs, one, other):
    tight, loose = sorted((one, other))
    assert stats.units(runs, 0.9, threshold=tight).met <= stats.units(runs, 0.9, threshold=loose).met


@settings(deadline=None)
@given(RUNS, st.integers(1, 4), st.sampled_from(SHARES))
def test_counts_merge_wherever_they_are_split(runs, at, share):
    second = stats.second_level(runs, share)
    parts = [stats.count_runs(part, second=second) for part in (runs[:at], runs[at:])]
    assert stats.merge(parts) == stats.units(runs, share)
