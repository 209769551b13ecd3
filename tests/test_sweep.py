"""Several loads: the sweep that was promised, goodput above the target, and where the policy ends."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from gate import policy as policies, readers
from gate.evaluate import evaluate
from gate.model import Check, Kind, Level, Load, Objective, Policy, Report, Run, Verdict, Workload
from gate.units import POINTS
from tests.runs import (
    error_rate,
    goodput,
    latency,
    make_aggregate,
    make_policy,
    make_requests,
    make_run,
    rule,
    throughput,
)

TODAY = date(2026, 11, 29)
BOUND_S = 0.5
FULL = (0.25, 0.5, 1.0, 1.5)


def load_run(concurrency: int, bad: int = 0, *, n: int = 300, name: str = "", **facts: Any) -> Run:
    """A run of n requests, `bad` of them spread evenly over it with a TTFT above the bound."""
    ttft = np.full(n, 0.1)
    if bad:
        ttft[np.linspace(0, n - 1, bad).astype(int)] = 2.0
    facts.setdefault("load", Load(concurrency=concurrency))
    return make_run(make_requests(ttft, ttft + 1), input=name or f"c{concurrency}.json", **facts)


def headroom(drop: float = 0.05, level: Level = Level.BLOCK, to: float = 1.5) -> Objective:
    return Objective(
        "headroom",
        Kind.HEADROOM,
        level,
        "headroom",
        "max_drop",
        bound=drop,
        unit=POINTS,
        expected="goodput drops by at most 5 pt",
        between=(1.0, to),
    )


def policy_at(
    concurrency: int, *objectives: Objective, sweep: tuple[float, ...] = (), **facts: Any
) -> Policy:
    facts.setdefault("bounds", {"ttft": BOUND_S})
    target = Load(concurrency=concurrency)
    return make_policy(*objectives, workload=Workload(target=target, sweep=sweep), **facts)


def judge(policy: Policy, *runs: Run) -> Report:
    return evaluate(policy, runs, TODAY)


def only(report: Report, name: str) -> Check:
    return next(check for check in report.checks if check.id == name)


# ---- the target -----------------------------------------------------------------------------------


def test_results_at_32_never_pass_a_policy_at_64() -> None:
    policy = policy_at(
        64, latency("ttft", 90, BOUND_S), goodput(0.9), error_rate(0.01), rule("workload.load")
    )
    report = judge(policy, *[load_run(32) for _ in range(10)])
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report.exit_code == 4
    assert {check.verdict for check in report.checks} == {Verdict.INCONCLUSIVE}
    assert report.goodput is None


# ---- the sweep ------------------------------------------------------------------------------------


def test_a_sweep_is_covered_by_a_run_at_each_share_of_the_target() -> None:
    policy = policy_at(64, rule("workload.sweep"), sweep=FULL)
    found = only(judge(policy, *[load_run(c) for c in (16, 32, 64, 96)]), "workload.sweep")
    assert found.verdict is Verdict.PASS
    assert "1 at concurrency 96" in found.reason


@pytest.mark.parametrize("absent", [16, 32, 96])
def test_a_load_that_is_missing_from_the_sweep_is_named_and_does_not_pass(absent: int) -> None:
    policy = policy_at(64, rule("workload.sweep"), sweep=FULL)
    runs = [load_run(c) for c in (16, 32, 64, 96) if c != absent]
    found = only(judge(policy, *runs), "workload.sweep")
    assert (found.verdict, found.cause) == (Verdict.INCONCLUSIVE, "evidence")
    assert f"no run at concurrency {absent} ({absent / 64:.0%})" in found.reason


@pytest.mark.parametrize(
    "other", [{"tool": "sglang"}, {"tool_version": "2"}, {"model": "other"}, {"hardware": "1xL4"}]
)
def test_a_load_measured_with_another_tool_model_or_machine_covers_nothing(other: dict[str, str]) -> None:
    policy = policy_at(64, rule("workload.sweep"), sweep=(1.0, 1.5))
    found = only(judge(policy, load_run(64), load_run(96, **other)), "workload.sweep")
    assert found.verdict is Verdict.INCONCLUSIVE


def test_a_load_where_nothing_was_attempted_covers_nothing() -> None:
    policy = policy_at(64, rule("workload.sweep"), sweep=(1.0, 1.5))
    empty = make_run(make_requests(0.1, 1.0, n=5, status=2), load=Load(concurrency=96))
    assert only(judge(policy, load_run(64), empty), "workload.sweep").verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("measured", "verdict"), [(2, "pass"), (3, "pass"), (1, "inconclusive")])
def test_a_quarter_of_ten_is_two_or_three(measured: int, verdict: str) -> None:
    policy = policy_at(10, rule("workload.sweep"), sweep=(0.25, 1.0))
    found = only(judge(policy, load_run(measured), load_run(10)), "workload.sweep")
    assert found.verdict.value == verdict


def test_a_sweep_of_rates_is_matched_by_rate() -> None:
    workload = Workload(target=Load(request_rate=20.0), sweep=(0.5, 1.0))
    policy = make_policy(rule("workload.sweep"), workload=workload)
    at = [load_run(0, load=Load(request_rate=rate)) for rate in (20.0, 10.0)]
    assert only(judge(policy, *at), "workload.sweep").verdict is Verdict.PASS
    other = load_run(0, load=Load(request_rate=11.0))
    assert only(judge(policy, at[0], other), "workload.sweep").verdict is Verdict.INCONCLUSIVE


# ---- headroom -------------------------------------------------------------------------------------


def test_headroom_is_welchs_interval_over_the_runs_goodput() -> None:
    low, high = [0, 12, 1, 9, 2, 6], [30, 5, 22, 2, 40, 14]
    policy = policy_at(64, goodput(0.9), headroom(0.2))
    runs = [load_run(64, bad) for bad in low] + [load_run(96, bad) for bad in high]
    found = only(judge(policy, *runs), "headroom")
    a, b = 1 - np.array(low) / 300, 1 - np.array(high) / 300
    assert found.observed == pytest.approx(a.mean() - b.mean())
    # alpha/m below (goodput and headroom both block), alpha above; scipy's Welch
    lower = scipy_stats.ttest_ind(a, b, equal_var=False).confidence_interval(1 - 2 * 0.05 / 2).low
    upper = scipy_stats.ttest_ind(a, b, equal_var=False).confidence_interval(1 - 2 * 0.05).high
    assert found.interval == pytest.approx((lower, upper), rel=1e-9)
    assert found.interval_of == "points"
    assert found.verdict is Verdict.PASS


@pytest.mark.parametrize(("bad", "verdict"), [(5, "pass"), (15, "inconclusive"), (60, "fail")])
def test_a_drop_of_more_than_five_points_fails_and_one_at_the_edge_is_open(bad: int, verdict: str) -> None:
    policy = policy_at(64, goodput(0.7), headroom())
    spread = (-3, -1, 0, 1, 3)
    runs = [load_run(64, 3) for _ in spread] + [load_run(96, bad + more) for more in spread]
    found = only(judge(policy, *runs), "headroom")
    assert found.verdict.value == verdict
    assert found.observed == pytest.approx((bad - 3) / 300)


def test_two_loads_without_a_miss_still_leave_the_sampling_error_of_their_requests() -> None:
    policy = policy_at(64, goodput(0.9), headroom())
    runs = [load_run(c, 0, n=100) for c in (64, 96) for _ in range(5)]
    found = only(judge(policy, *runs), "headroom")
    share = 502 / 504  # Agresti and Caffo: two more of each
    error = math.sqrt(2 * share * (1 - share) / 504)
    assert found.interval is not None
    assert found.interval[1] == pytest.approx(scipy_stats.t.ppf(0.95, 8) * error)
    assert found.verdict is Verdict.PASS


def test_single_runs_are_cut_into_ten_blocks() -> None:
    policy = policy_at(64, goodput(0.7), headroom())
    bad = np.zeros(1000, dtype=bool)
    bad[::4] = True  # a quarter misses in every block
    ttft = np.where(bad, 2.0, 0.1)
    high = make_run(make_requests(ttft, ttft + 1), load=Load(concurrency=96))
    found = only(judge(policy, load_run(64, n=1000), high), "headroom")
    assert found.verdict is Verdict.FAIL
    assert "10 blocks of 1 run" in found.reason
    few = only(judge(policy, load_run(64, n=900), high), "headroom")
    assert (few.verdict, few.cause) == (Verdict.INCONCLUSIVE, "undecided")


@pytest.mark.parametrize("blind", [64, 96])
@pytest.mark.parametrize(("bad", "known"), [(0, Verdict.PASS), (150, Verdict.FAIL)])
def test_headroom_does_not_pass_on_files_that_may_lack_failures(blind: int, bad: int, known: Verdict) -> None:
    why = {"attempted": "no row is written for a failure"}
    policy = policy_at(64, goodput(0.7), headroom(0.2))
    for unsuitable in ({}, why):
        runs = [
            load_run(c, bad * (c == 96), name=f"{c}-{i}.json", doubts=unsuitable if c == blind else {})
            for c in (64, 96)
            for i in range(5)
        ]
        found = only(judge(policy, *runs), "headroom")
        doubted = bool(unsuitable) and known is Verdict.PASS
        assert found.verdict is (Verdict.INCONCLUSIVE if doubted else known)
        assert (why["attempted"] in found.reason) is doubted


def test_a_load_has_no_headroom_above_itself() -> None:
    """150 % of one request in flight may be one or two: where two were never tried, nothing is known."""
    policy = policy_at(1, goodput(0.9), headroom())
    runs = [load_run(1, bad=at, name=f"{at}") for at in range(5)]
    found = only(judge(policy, *runs), "headroom")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "both loads are concurrency 1: nothing was measured above it" in found.summary


def test_fewer_than_a_hundred_requests_at_a_load_decide_no_headroom() -> None:
    policy = policy_at(64, goodput(0.7), headroom())
    runs = [load_run(c, n=15) for c in (64, 96) for _ in range(5)]
    found = only(judge(policy, *runs), "headroom")
    assert (found.verdict, found.cause) == (Verdict.INCONCLUSIVE, "undecided")


def test_headroom_without_the_higher_load_is_missing_evidence() -> None:
    found = only(judge(policy_at(64, goodput(0.9), headroom()), load_run(64)), "headroom")
    assert (found.verdict, found.cause) == (Verdict.INCONCLUSIVE, "evidence")
    assert "no run at concurrency 96 (150% of the target)" in found.reason


def test_headroom_without_goodput_or_a_target_is_missing_evidence() -> None:
    runs = [load_run(64), load_run(96)]
    bare = policy_at(64, latency("ttft", 90, BOUND_S), headroom(), bounds={})
    assert only(judge(bare, *runs), "headroom").cause == "evidence"
    untargeted = make_policy(goodput(0.9), headroom(), bounds={"ttft": BOUND_S})
    assert only(judge(untargeted, runs[0]), "headroom").cause == "evidence"


def test_headroom_of_percentiles_alone_is_missing_evidence() -> None:
    runs = [
        make_run(
            make_aggregate(300, ttft={50.0: 0.1, 99.0: 0.9}),
            counts=load_run(c).counts,
            load=Load(concurrency=c),
        )
        for c in (64, 96)
        for _ in range(5)
    ]
    found = only(judge(policy_at(64, goodput(0.9), headroom()), *runs), "headroom")
    assert (found.verdict, found.cause) == (Verdict.INCONCLUSIVE, "evidence")
    assert "--save-detailed" in found.reason


def test_a_point_policy_compares_the_plain_shares() -> None:
    policy = policy_at(64, goodput(0.7), headroom(), evidence={"decide": "point"})
    for bad, verdict in ((15, Verdict.PASS), (16, Verdict.FAIL)):
        found = only(judge(policy, load_run(64), load_run(96, bad)), "headroom")
        assert (found.verdict, found.interval) == (verdict, None)


def test_a_blocking_headroom_is_one_more_rule_that_can_fail() -> None:
    runs = [load_run(c, bad) for c in (64, 96) for bad in (2, 4, 1, 3, 5)]
    alone = only(judge(policy_at(64, goodput(0.99)), *runs), "goodput")
    beside = only(judge(policy_at(64, goodput(0.99), headroom()), *runs), "goodput")
    assert alone.interval is not None
    assert beside.interval is not None
    assert beside.interval[1] > alone.interval[1]  # alpha / 2 instead of alpha


# ---- capacity -------------------------------------------------------------------------------------


def curve(**bad_at: int) -> list[Run]:
    """Five runs a load; names like c64=3 give the misses of each."""
    return [
        load_run(int(name[1:]), bad, name=f"{name}-{number}.json")
        for name, bad in bad_at.items()
        for number in range(5)
    ]


STRICT = (latency("ttft", 90, BOUND_S), goodput(0.9), error_rate(0.01))


def test_capacity_is_the_highest_load_that_passes_below_the_first_that_fails() -> None:
    report = judge(policy_at(64, *STRICT), *curve(c16=0, c32=3, c64=5, c96=90))
    found = report.capacity
    assert found is not None
    assert (found.load, found.fails, found.monotone) == (Load(concurrency=64), Load(concurrency=96), True)
    assert found.text == "at least concurrency 64; concurrency 96 fails (ttft.p90)"
    assert [point.verdict for point in report.loads] == [Verdict.PASS] * 3 + [Verdict.FAIL]


def test_the_highest_load_measured_is_only_a_lower_limit() -> None:
    found = judge(policy_at(64, *STRICT), *curve(c32=0, c64=1)).capacity
    assert found is not None
    assert found.fails is None
    assert found.text == "at least concurrency 64, the highest that was measured"


def test_a_load_that_passes_above_one_that_fails_is_called_not_monotone_and_does_not_count() -> None:
    found = judge(policy_at(64, *STRICT), *curve(c16=0, c32=90, c64=2)).capacity
    assert found is not None
    assert (found.load, found.monotone) == (Load(concurrency=16), False)
    assert "not monotone: concurrency 64 passes above it" in found.text


def test_goodput_that_rises_with_load_beyond_its_interval_is_called_not_monotone() -> None:
    policy = policy_at(64, goodput(0.5))
    found = judge(policy, *curve(c32=90, c64=3)).capacity
    assert found is not None
    assert (found.load, found.monotone) == (Load(concurrency=64), False)
    assert "goodput at concurrency 64 is above that at concurrency 32" in found.text


def test_an_undecided_load_neither_ends_the_curve_nor_extends_it() -> None:
    found = judge(policy_at(64, *STRICT), *curve(c16=0, c32=28, c64=21, c96=31)).capacity
    assert found is not None
    assert (found.load, found.fails) == (Load(concurrency=64), None)
    assert found.text == "at least concurrency 64; concurrency 96 undecided"


def test_no_load_that_passes_is_said_so() -> None:
    found = judge(policy_at(64, *STRICT), *curve(c32=90, c64=100)).capacity
    assert found is not None
    assert found.load is None
    assert found.text == "no measured load is shown to meet the policy; concurrency 32 fails (ttft.p90)"


def test_capacity_is_known_even_where_the_target_was_not_measured() -> None:
    report = judge(policy_at(128, *STRICT), *curve(c32=0, c64=2))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report.capacity is not None
    assert report.capacity.load == Load(concurrency=64)


def test_a_throughput_floor_is_meant_for_the_target_and_says_nothing_of_lower_loads() -> None:
    report = judge(policy_at(64, *STRICT, throughput(10_000.0)), *curve(c32=0, c64=2))
    assert report.verdict is Verdict.FAIL
    assert report.capacity is not None
    assert report.capacity.load == Load(concurrency=64)


def test_one_load_or_nothing_that_blocks_has_no_capacity() -> None:
    assert judge(policy_at(64, *STRICT), *curve(c64=2)).capacity is None
    warn = policy_at(64, latency("ttft", 90, BOUND_S, level=Level.WARN))
    assert judge(warn, *curve(c32=0, c64=2)).capacity is None


def test_rates_and_concurrencies_are_not_one_curve() -> None:
    open_loop = [load_run(0, load=Load(request_rate=rate)) for rate in (5.0, 10.0)]
    report = judge(policy_at(64, *STRICT), *curve(c32=0, c64=2), *open_loop)
    assert report.capacity is not None
    assert report.capacity.load == Load(concurrency=64)
    assert [point.verdict for point in report.loads] == [Verdict.PASS, Verdict.PASS, None, None]


POLICY = b"""\
version: 1
name: sweep
workload: {load: {concurrency: 16, sweep: [25%, 50%, 100%, 150%]}}
slo: {ttft: {p90: 200ms}}
goodput: {min: 90%}
limits: {headroom: {max_drop: 5pt, to: 150%}}
evidence: {prompts: varied, warmup: auto}
"""


def test_a_real_sweep_is_covered_and_ends_where_its_server_has_no_slot_left(shared: Any) -> None:
    # The server of shared/results/vllm-0.33.0 holds 16 sequences: at 24, eight of them always queue.
    folder = shared / "results" / "vllm-0.33.0" / "sweep"
    report = evaluate(policies.parse(POLICY, "slo.yaml"), readers.read([str(folder)]).runs, TODAY)
    assert only(report, "workload.sweep").verdict is Verdict.PASS
    assert only(report, "evidence.prompts").verdict is Verdict.PASS
    assert only(report, "headroom").verdict is Verdict.FAIL
    assert report.capacity is not None
    assert (report.capacity.load, report.capacity.fails) == (Load(concurrency=16), Load(concurrency=24))
