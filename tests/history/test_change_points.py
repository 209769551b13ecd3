"""Change points: the method by Apache Otava's own answers, what is added by hand and by simulation."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate import stats

ANSWERS = json.loads(Path(__file__).with_name("otava.json").read_bytes())
LEVEL = 0.001  # Otava's default


def noise(seed: int, sigma: float, size: int = 60) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.random.default_rng((seed, 15)).normal(0.0, sigma, size)


@pytest.mark.parametrize("row", ANSWERS, ids=lambda row: row["kind"])
def test_a_split_and_its_test_are_those_of_otava(row: dict[str, Any]) -> None:
    values = np.array(row["values"])
    at, score = stats.best_split(values)
    assert score == pytest.approx(row["qhat"], rel=1e-9, abs=1e-12)
    if row["kind"] != "equal":  # of splits that are equally good rounding chooses
        assert at == row["at"]
        p_value = stats.p_split(values[:at], values[at:])
        assert p_value == pytest.approx(row["p_mended"], rel=1e-6)


@pytest.mark.parametrize("row", ANSWERS, ids=lambda row: row["kind"])
def test_change_points_are_those_of_otava_with_its_two_faults_mended(row: dict[str, Any]) -> None:
    assert stats.change_points(np.array(row["values"]), LEVEL) == row["mended"]


def test_change_points_are_mostly_those_of_otava_as_it_is() -> None:
    same = [stats.change_points(np.array(row["values"]), LEVEL) == row["otava"] for row in ANSWERS]
    assert sum(same) >= 0.9 * len(same)


def test_a_split_by_hand() -> None:
    # x = 0, 0 and y = 1, 1: 2 * 2 / 4 * (2 * 1 - 0 - 0) = 2
    assert stats.best_split(np.array([0.0, 0.0, 1.0, 1.0])) == (2, 2.0)


def test_nothing_is_found_in_nothing() -> None:
    for values in ([], [1.0], [1.0, 2.0], [0.0] * 30, [math.nan] * 30, [1.0] * 30):
        assert stats.find_changes([np.array(values)]) == []
    assert stats.find_changes([]) == []


def test_a_step_of_several_series_is_one_change_with_its_size() -> None:
    step = np.r_[np.zeros(30), np.full(30, math.log(1.08))]
    found = stats.find_changes([noise(seed, 0.01) + step for seed in range(6)])
    assert [(one.at, one.first, one.last, len(one.moved)) for one in found] == [(30, 30, 30, 6)]
    for moved in found[0].moved:
        assert moved.shift.lower(0.001) < math.log(1.08) < moved.shift.upper(0.001)
        assert moved.shift.estimate == pytest.approx(moved.after - moved.before)


def test_a_session_without_the_figure_keeps_its_place() -> None:
    values = noise(1, 0.01) + np.r_[np.zeros(30), np.full(30, 0.2)]
    values[[3, 10, 11, 40, 59]] = math.nan
    assert [one.at for one in stats.find_changes([values])] == [30]
    values[30:33] = math.nan  # the change is at one of the sessions that nobody measured, or the next
    (found,) = stats.find_changes([values])
    assert (found.first, found.last) == (30, 33)


def test_two_bad_sessions_are_no_change() -> None:
    for seed in range(20):
        values = noise(seed, 0.01)
        values[40:42] += 0.5
        assert stats.find_changes([values]) == []


def test_a_change_is_where_another_commit_begins_if_it_can_be() -> None:
    step = np.r_[np.zeros(30), np.full(30, math.log(1.08))]
    sets = [noise(seed, 0.03) + step for seed in range(40)]
    starts = range(0, 60, 3)  # three sessions a commit
    anywhere, begun = (
        [[one.at for one in stats.find_changes([values], starts=places)] for values in sets]
        for places in (None, starts)
    )
    assert anywhere.count([30]) < begun.count([30])
    assert begun.count([30]) >= 38


def test_counts_have_a_spread_though_three_are_equal() -> None:
    errors = np.array([0] * 57 + [1] * 3)  # of 1,000 requests a session
    shares = np.arcsin(np.sqrt(errors / 1000))
    assert stats.find_changes([shares]) != []
    assert stats.find_changes([shares], [1 / math.sqrt(4 * 1000)]) == []


def test_a_step_is_found_in_its_range_and_no_other_is() -> None:
    # docs/trend.md has the table by benchmarks/change_points.py; these are other seeds.
    step = np.r_[np.zeros(30), np.full(30, math.log(1.08))]
    right = exact = 0
    for seed in range(100):
        common = noise(seed, 0.03)
        sets = [common + noise(1000 + 10 * seed + one, 0.01) + step for one in range(9)]
        found = stats.find_changes(sets)
        right += len(found) == 1 and found[0].first <= 30 <= found[0].last
        exact += [one.at for one in found] == [30]
    assert right >= 95
    assert exact >= 70  # the maximum likelihood of Gaussian noise of 3 % finds the very place in 77 of 100


def test_without_a_change_none_is_found() -> None:
    wrong = 0
    for seed in range(100):
        common = noise(5000 + seed, 0.04)
        sets = [common + noise(9000 + 10 * seed + one, 0.01) for one in range(9)]
        wrong += stats.find_changes(sets) != []
    assert wrong <= 5
