"""The second way to a PASS: a quantile far inside its bound."""

from __future__ import annotations

import math
from datetime import date

import numpy as np
import pytest
from scipy import stats as scipy_stats

from gate import stats
from gate.evaluate import evaluate
from gate.model import Report, Run, Verdict
from tests.runs import latency, make_policy, make_requests, make_run


def noisy(seed: int, n: int, median: float = 0.1, slow: float = 1.0) -> np.ndarray:
    """Latencies that come in long waves: neighbours are alike, so few requests are independent."""
    rng = np.random.default_rng(seed)
    wave = np.repeat(rng.normal(0.0, 0.25, -(-n // 50)), 50)[:n]
    return median * slow * np.exp(wave + rng.normal(0.0, 0.2, n))


def test_five_runs_are_judged_by_students_t_on_the_logarithms_of_their_quantiles() -> None:
    runs = [noisy(seed, 300) for seed in range(6)]
    found = stats.room_test(runs, 0.9)
    assert found is not None
    logs = np.log([np.percentile(run, 90, method="inverted_cdf") for run in runs])
    whole = math.log(np.percentile(np.concatenate(runs), 90, method="inverted_cdf"))
    margin = scipy_stats.t.ppf(0.975, 5) * scipy_stats.sem(logs)
    assert math.log(found.upper) == pytest.approx(max(logs.mean(), whole) + margin, abs=1e-12)
    assert math.log(found.lower) == pytest.approx(min(logs.mean(), whole) - margin, abs=1e-12)
    assert (found.units, found.room) == (6, 1.25)


def test_one_run_is_judged_by_ten_blocks_and_needs_more_room() -> None:
    run = noisy(1, 3000)
    found = stats.room_test([run], 0.95)
    assert found is not None
    logs = np.log([np.percentile(part, 95, method="inverted_cdf") for part in np.array_split(run, 10)])
    whole = math.log(np.percentile(run, 95, method="inverted_cdf"))
    margin = scipy_stats.t.ppf(0.975, 9) * scipy_stats.sem(logs)
    assert math.log(found.upper) == pytest.approx(max(logs.mean(), whole) + margin, abs=1e-12)
    assert (found.units, found.room) == (10, 1.5)


@pytest.mark.parametrize("runs", [1, 6])
def test_it_passes_exactly_when_the_upper_bound_has_the_room(runs: int) -> None:
    scores = [noisy(seed, 1200) for seed in range(runs)]
    found = stats.room_test(scores, 0.9)
    assert found is not None
    edge = found.upper * found.room
    for threshold, passed in ((edge * 1.0001, True), (edge * 0.9999, False)):
        again = stats.room_test(scores, 0.9, threshold=threshold)
        assert again is not None
        assert again.passed is passed


@pytest.mark.parametrize(
    ("sizes", "share"),
    [
        ([3000], 0.99),
        ([3000], 0.96),
        ([3000], 0.4),
        ([999], 0.9),
        ([300] * 5, 0.99),
        ([199] + [300] * 5, 0.9),
        ([], 0.9),
    ],
)
def test_it_says_nothing_of_tails_and_of_units_it_was_not_measured_on(sizes: list[int], share: float) -> None:
    runs = [noisy(seed, size) for seed, size in enumerate(sizes)]
    assert stats.room_test(runs, share, threshold=1e9) is None


def test_a_unit_whose_quantile_is_a_failure_or_zero_says_nothing() -> None:
    for value in (np.inf, 0.0):
        run = noisy(1, 1000)
        run[:30] = value  # 30 % of the first block
        if value == 0.0:
            run[:100] = 0.0
        assert stats.room_test([run], 0.9, threshold=1e9) is None


def test_nan_is_refused() -> None:
    run = noisy(1, 1000)
    run[5] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        stats.room_test([run], 0.9)


# ---- in a report ----------------------------------------------------------------------------------


def judged(bound_s: float, percent: float = 90.0, n: int = 1000, metric: str = "tpot") -> Report:
    # Long waves beyond a low level: counting finds few independent requests, far inside the bound.
    values = noisy(3, n)
    values[: n // 10] *= 3.0
    rows = make_requests(0.05, 0.05 + 99 * values) if metric == "tpot" else make_requests(values, values + 1)
    run: Run = make_run(rows)
    return evaluate(make_policy(latency(metric, percent, bound_s)), [run], date(2026, 11, 29))


def test_what_counting_leaves_open_passes_far_inside_its_bound_and_says_how() -> None:
    (check,) = judged(3.0).checks
    assert check.verdict is Verdict.PASS
    assert "is at most" in check.reason
    assert "Holds also where runs differ by 5%" in check.reason
    assert check.interval_of == "quantile"
    assert check.interval is not None
    assert check.interval[1] <= 3.0 / 1.5
    assert check.n_eff is not None
    assert check.n_eff < 100


def test_close_to_the_bound_it_stays_undecided() -> None:
    assert judged(0.36).checks[0].verdict is Verdict.INCONCLUSIVE


def test_a_p99_never_passes_this_way_nor_does_a_ttft() -> None:
    for report in (judged(30.0, percent=99.0), judged(3.0, metric="ttft")):
        assert {check.verdict for check in report.checks} == {Verdict.INCONCLUSIVE}
