"""What charts draw, against numpy and counts by hand."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
from msgspec.structs import replace

from gate.advise.whatif import whatif
from gate.evaluate import evaluate
from gate.model import (
    Buckets,
    Charts,
    Condition,
    Counts,
    Gaps,
    Histogram,
    Load,
    Policy,
    Run,
    Status,
    When,
    Workload,
)
from tests.runs import goodput, latency, make_aggregate, make_policy, make_requests, make_run

TODAY = date(2027, 1, 12)


def drawn(policy: Policy, *runs: Run) -> Charts:
    charts = evaluate(policy, runs, TODAY, charts=whatif).charts
    assert charts is not None
    return charts


def test_charts_are_made_only_where_they_are_asked_for() -> None:
    report = evaluate(make_policy(latency("ttft", 90, 1.0)), [make_run(make_requests(0.5, n=200))], TODAY)
    assert report.charts is None


def test_a_curve_gives_the_exact_share_of_attempted_requests_at_every_point() -> None:
    rng = np.random.default_rng(1)
    ttft = rng.gamma(4, 0.1, 5000)
    status = np.where(rng.random(5000) < 0.03, Status.FAILED, Status.COMPLETED)
    charts = drawn(make_policy(latency("ttft", 90, 0.7)), make_run(make_requests(ttft, status=status)))
    (curve,) = [one for one in charts.curves if one.metric == "ttft"]
    done = ttft[status == Status.COMPLETED]
    assert (curve.n, curve.failed) == (5000, int((status == Status.FAILED).sum()))
    expected = [(done <= value).sum() / 5000 for value in curve.values_s]
    assert curve.shares == pytest.approx(expected, abs=1e-12)
    assert curve.values_s[0] == done.min()
    assert curve.values_s[-1] == done.max()
    assert len(curve.values_s) <= 240
    with_failed = np.where(status == Status.FAILED, np.inf, ttft)
    for percent, value in curve.percentiles:
        exact = np.percentile(with_failed, percent, method="inverted_cdf")
        assert value == (exact if np.isfinite(exact) else None)
    assert curve.percentiles[-1] == (99.0, None)  # 3 % failed: out of reach


def test_the_points_of_a_curve_leave_no_gap_in_the_body_or_the_tail() -> None:
    ttft = np.random.default_rng(2).gamma(4, 0.1, 100_000)
    charts = drawn(make_policy(latency("ttft", 90, 0.7)), make_run(make_requests(ttft)))
    shares = np.array(charts.curves[0].shares)
    assert np.diff(shares).max() < 0.012
    above = 1 - shares[:-1]
    tail = above[above < 0.1]
    assert (tail[:-1] / tail[1:]).max() < 2.1  # never more than half of what is left in one step


def test_counting_many_gaps_in_narrow_buckets_gives_exact_shares_and_close_quantiles() -> None:
    gaps = np.random.default_rng(3).gamma(9, 0.001, 2_000_001)
    offsets = np.linspace(0, gaps.size, 101).astype(np.int64)
    run = make_run(replace(make_requests(0.1, n=100), gaps=Gaps(gaps, offsets)))
    charts = drawn(make_policy(latency("itl", 99, 0.03)), run)
    (curve,) = [one for one in charts.curves if one.metric == "itl"]
    assert (curve.of, curve.n) == ("gaps", gaps.size)
    ordered = np.sort(gaps)
    exact = np.searchsorted(ordered, curve.values_s, "right") / gaps.size
    assert curve.shares == pytest.approx(exact.tolist(), abs=2e-6)
    for percent, value in curve.percentiles:
        assert value == pytest.approx(np.percentile(gaps, percent, method="inverted_cdf"), rel=2**-8)
    assert curve.values_s[-1] == gaps.max()


def test_a_bound_stands_with_the_quantile_that_the_verdict_compares_with_it() -> None:
    policy = make_policy(latency("ttft", 90, 0.7), goodput(0.9), bounds={"ttft": 0.9})
    report = evaluate(policy, [make_run(make_requests(np.linspace(0.1, 1.0, 1000)))], TODAY, charts=whatif)
    assert report.charts is not None
    own, whole = report.charts.curves[0].bounds
    check = next(one for one in report.checks if one.id == "ttft.p90")
    assert (own.id, own.bound_s, own.share) == ("ttft.p90", 0.7, 0.9)
    assert (own.value_s, own.verdict) == (check.observed, check.verdict)
    assert (whole.id, whole.bound_s, whole.share) == ("goodput", 0.9, None)


def test_a_bound_of_some_requests_is_not_drawn_on_the_curve_of_all() -> None:
    when = When((Condition("output_tokens", "<", 300),), "output_tokens<300")
    policy = make_policy(latency("ttft", 90, 0.7, when=when))
    assert drawn(policy, make_run(make_requests(0.5, n=200))).curves[0].bounds == ()


def test_buckets_of_a_histogram_are_points_of_its_curve() -> None:
    edges = np.array([0.1, 0.5, 1.0, np.inf])
    evidence = Histogram({"ttft": Buckets(edges, np.array([60, 30, 5, 5]))})
    run = Run("a.prom", "0" * 64, "prometheus", "vllm", evidence, Counts(110, 100, 10))
    (curve,) = drawn(make_policy(latency("ttft", 90, 0.5)), run).curves
    assert (curve.of, curve.n, curve.failed) == ("buckets", 110, 10)
    assert curve.values_s == (0.1, 0.5, 1.0)
    assert curve.shares == pytest.approx((60 / 110, 90 / 110, 95 / 110))


def test_stated_percentiles_are_scaled_to_the_attempted() -> None:
    run = make_run(make_aggregate(ttft={50: 0.2, 90: 0.4, 99: 0.9}), counts=Counts(200, 190, 10))
    (curve,) = drawn(make_policy(latency("ttft", 90, 0.5)), run).curves
    assert (curve.of, curve.values_s) == ("percentiles", (0.2, 0.4, 0.9))
    assert curve.shares == pytest.approx((0.475, 0.855, 0.9405))


def test_misses_are_counted_by_exactly_the_bounds_they_broke() -> None:
    ttft = [0.1] * 90 + [2.0] * 4 + [2.0] * 3 + [0.1] * 3
    e2e = [1.0] * 90 + [1.0 + 2.0] * 4 + [9.0] * 3 + [1.0] * 3
    status = [Status.COMPLETED] * 97 + [Status.FAILED] * 3
    policy = make_policy(goodput(0.9), bounds={"ttft": 1.0, "e2e": 5.0})
    charts = drawn(policy, make_run(make_requests(ttft, e2e, status=status)))
    assert {one.broke: one.number for one in charts.misses} == {
        ("ttft",): 4,
        ("ttft", "e2e"): 3,
        ("failed",): 3,
    }


def test_a_scatter_keeps_the_slowest_requests_and_counts_every_failure() -> None:
    rng = np.random.default_rng(4)
    ttft = rng.gamma(4, 0.1, 20_000)
    status = np.where(rng.random(20_000) < 0.05, Status.FAILED, Status.COMPLETED)
    start = np.sort(rng.uniform(50, 1050, 20_000))
    run = make_run(
        make_requests(ttft, status=status, start_s=start, input_tokens=rng.integers(1, 999, 20_000))
    )
    charts = drawn(make_policy(latency("ttft", 90, 0.7)), run)
    for scatter in (charts.over_time[0], charts.by_length[0]):
        assert scatter.metric == "ttft"
        assert len(scatter.dots) == 400
        slowest = np.sort(ttft[status == Status.COMPLETED])[-100:]
        assert set(slowest) <= {dot.value_s for dot in scatter.dots}
        assert sum(one.number for one in scatter.failed) == (status == Status.FAILED).sum()
    for dot in charts.over_time[0].dots:
        assert (ttft[dot.row], start[dot.row] - start[0]) == (dot.value_s, pytest.approx(dot.x))


def test_windows_hold_every_request_once_with_its_own_percentiles() -> None:
    rng = np.random.default_rng(5)
    start, ttft = np.sort(rng.uniform(0, 100, 1000)), rng.gamma(4, 0.1, 1000)
    status = np.where((start > 40) & (start < 45), Status.FAILED, Status.COMPLETED)
    run = make_run(make_requests(ttft, status=status, start_s=start))
    scatter = drawn(make_policy(latency("ttft", 90, 0.7)), run).over_time[0]
    assert sum(window.n for window in scatter.windows) == 1000
    assert sum(window.failed for window in scatter.windows) == (status == Status.FAILED).sum()
    began = start - start[0]
    for window in scatter.windows[:-1]:
        inside = (began >= window.low) & (began < window.high)
        done = ttft[inside & (status == Status.COMPLETED)]
        assert window.n == inside.sum()
        if done.size == 0:
            assert (window.p50_s, window.p99_s) == (None, None)
            continue
        assert window.p50_s == np.percentile(done, 50, method="inverted_cdf")
        assert window.p99_s == np.percentile(done, 99, method="inverted_cdf")


def test_warm_up_is_drawn_as_such_and_is_in_no_window() -> None:
    start = np.arange(400.0)
    policy = make_policy(latency("ttft", 90, 1.0), evidence={"warmup": 20})
    scatter = drawn(policy, make_run(make_requests(np.full(400, 0.5), start_s=start))).over_time[0]
    assert {dot.row for dot in scatter.dots if dot.kind == "warm-up"} == set(range(20))
    assert sum(window.n for window in scatter.windows) == 380


def test_each_load_has_the_interval_that_judging_it_alone_would_give() -> None:
    rng = np.random.default_rng(6)
    policy = make_policy(goodput(0.9), bounds={"ttft": 1.0}, workload=Workload(target=Load(concurrency=8)))

    def run(load: int, seed: int) -> Run:
        ttft = rng.gamma(4, 0.02 * load, 300)
        return make_run(make_requests(ttft), load=Load(concurrency=load), input=f"{load}-{seed}.json")

    files = [run(load, seed) for load in (4, 8, 16) for seed in range(6)]
    points = drawn(policy, *files).loads
    assert [(one.load.concurrency, one.at_target, one.runs) for one in points] == [
        (4, False, 6), (8, True, 6), (16, False, 6),
    ]  # fmt: skip
    for point in points:
        alone = make_policy(goodput(0.9), bounds={"ttft": 1.0}, workload=Workload(target=point.load))
        judged = [one for one in files if one.load == point.load]
        check = evaluate(alone, judged, TODAY).checks[0]
        assert (point.fraction, point.interval) == (check.observed, check.interval)


def test_requests_of_one_length_have_no_picture_by_length() -> None:
    run = make_run(make_requests(np.linspace(0.1, 0.5, 200), input_tokens=np.full(200, 64)))
    assert drawn(make_policy(latency("ttft", 90, 0.7)), run).by_length == ()


def test_a_run_without_completed_requests_has_no_curve_and_all_its_failures() -> None:
    run = make_run(make_requests(np.nan, np.nan, np.nan, n=150, status=Status.FAILED))
    charts = drawn(make_policy(goodput(0.9), bounds={"ttft": 1.0}), run)
    assert charts.curves == ()
    assert [(one.broke, one.number) for one in charts.misses] == [(("failed",), 150)]


def test_what_must_not_be_judged_is_not_drawn() -> None:
    run = make_run(make_requests(0.5, n=200), doubts={"ttft": "it does not stream"})
    charts = drawn(make_policy(latency("e2e", 90, 2.0)), run)
    assert "ttft" not in {one.metric for one in charts.curves}
    assert [one.metric for one in charts.over_time] == ["e2e"]
