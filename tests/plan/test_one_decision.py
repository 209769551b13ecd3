"""Where one objective decides another, and which one alone keeps the gate open."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
from scipy import stats as scipy_stats

from gate.evaluate import evaluate
from gate.model import Level, Report, Verdict
from gate.units import about
from tests.runs import latency, make_policy, make_requests, make_run

TODAY = date(2026, 11, 29)


def judged(values: np.ndarray, *asked: object, runs: int = 10) -> Report:
    rng = np.random.default_rng(3)
    made = [
        make_run(make_requests(rng.permutation(values), 1.0), input=f"{i}.json", sha256=f"{i}")
        for i in range(runs)
    ]
    return evaluate(make_policy(*asked), made, TODAY)


def verdicts(report: Report) -> dict[str, Verdict]:
    return {one.id: one.verdict for one in report.checks}


def test_a_percentile_that_passes_decides_the_lower_ones_at_an_equal_or_looser_bound() -> None:
    """A P99 far inside its bound holds any P90 above that bound; none is left to be judged twice."""
    values = np.full(300, 0.1)
    report = judged(values, latency("ttft", 99, 0.2), latency("ttft", 95, 0.2), latency("ttft", 90, 0.3))
    assert set(verdicts(report).values()) == {Verdict.PASS}


@pytest.mark.parametrize(("bound", "implied"), [(0.30, True), (0.45, False)])
def test_a_weaker_percentile_that_fails_fails_the_stricter_one(bound: float, implied: bool) -> None:
    values = np.r_[np.full(30, 0.1), np.full(90, 0.4)]  # three of four are late at 300 ms, none at 450
    report = judged(values, latency("ttft", 50, bound), latency("ttft", 99, 0.30))
    found = verdicts(report)
    assert (found["ttft.p50"] is Verdict.FAIL) == implied
    assert found["ttft.p99"] is Verdict.FAIL


def test_the_one_objective_that_keeps_the_gate_open_is_named_with_what_it_takes() -> None:
    late = np.r_[np.full(92, 0.1), np.full(8, 0.25)]
    report = judged(late, latency("ttft", 90, 0.2), latency("ttft", 50, 0.3), runs=3)
    open_one = report.checks[0]
    assert open_one.verdict is Verdict.INCONCLUSIVE
    assert report.checks[1].verdict is Verdict.PASS
    (note,) = (one for one in report.notes if "alone keeps the gate open" in one)
    assert open_one.more_requests is not None
    assert note == (
        f"ttft.p90 alone keeps the gate open, everything else that blocks passes; about"
        f" {about(open_one.more_requests)} more requests would decide it"
    )


def test_two_open_objectives_are_no_single_one() -> None:
    late = np.r_[np.full(92, 0.1), np.full(8, 0.25)]
    report = judged(late, latency("ttft", 90, 0.2), latency("ttft", 91, 0.2), runs=3)
    assert [one.verdict for one in report.checks] == [Verdict.INCONCLUSIVE] * 2
    assert not any("alone keeps the gate open" in one for one in report.notes)


def test_an_open_warning_keeps_nothing_open() -> None:
    late = np.r_[np.full(92, 0.1), np.full(8, 0.25)]
    report = judged(late, latency("ttft", 90, 0.2, level=Level.WARN), latency("ttft", 50, 0.3), runs=3)
    assert not any("alone keeps the gate open" in one for one in report.notes)


@pytest.mark.parametrize(
    ("share", "bound", "implied"), [(0.95, 0.2, True), (0.8, 0.2, False), (0.95, 0.4, False)]
)
def test_an_open_percentile_passes_by_one_that_holds_it(share: float, bound: float, implied: bool) -> None:
    """Checks as they could stand: P90 <= 300 ms is open, another percentile of the same requests passes."""
    from msgspec.structs import replace

    from gate.evaluate import _by_percentile

    policy = make_policy(latency("ttft", 90, 0.3), latency("ttft", 100 * share, bound))
    late = np.r_[np.full(92, 0.1), np.full(8, 0.35)]
    report = evaluate(policy, [make_run(make_requests(late, 1.0), input="a", sha256="a")], TODAY)
    first, second = report.checks
    assert first.verdict is Verdict.INCONCLUSIVE
    second = replace(second, verdict=Verdict.PASS, cause=None)
    found = _by_percentile(policy, [first, second])[0]
    assert (found.verdict is Verdict.PASS) == implied
    assert (found.implied_by is not None) == implied
    assert ("passes at an equal or stricter bound" in found.reason) == implied


@pytest.mark.parametrize(
    ("asked", "m"),
    [
        ([("ttft", 90, 1.0)], 1),
        ([("ttft", 90, 0.5), ("ttft", 99, 1.0)], 2),
        ([("ttft", 90, 1.0), ("ttft", 99, 1.0)], 1),  # P99 within 1 s holds P90 within 1 s
        ([("ttft", 90, 2.0), ("ttft", 99, 1.0), ("e2e", 90, 2.0)], 2),
        ([("ttft", 50, 1.0), ("ttft", 90, 1.0), ("ttft", 99, 1.0)], 1),
    ],
)
def test_the_error_of_a_fail_is_divided_among_what_no_other_rule_implies(
    asked: list[tuple[str, float, float]], m: int
) -> None:
    """Measured by the interval: alpha / m is 5 % over m, so the upper bound is scipy's at that level."""
    met, n = 900, 1000
    ttft = np.where(np.arange(n) % 10 == 0, 3.0, 0.1)  # every tenth misses: as even as can be, deff 1
    policy = make_policy(*(latency(*one) for one in asked))
    (found, *_) = evaluate(policy, [make_run(make_requests(ttft, ttft + 0.5))], TODAY).checks
    worth = n * (scipy_stats.norm.ppf(1 - 0.05 / m) / scipy_stats.t.ppf(1 - 0.05 / m, 9)) ** 2
    share = met / n
    expected = scipy_stats.beta.ppf(1 - 0.05 / m, share * worth + 1, worth - share * worth)
    assert found.interval is not None
    assert found.interval[1] == pytest.approx(expected, abs=1e-9)
