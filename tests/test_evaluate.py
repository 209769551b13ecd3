"""Verdicts on runs whose every number is known."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from gate.evaluate import evaluate
from gate.model import (
    Aggregate,
    Buckets,
    Check,
    Condition,
    Counts,
    Gaps,
    Histogram,
    Level,
    Load,
    Policy,
    Report,
    Run,
    Status,
    Summary,
    TokenRule,
    Verdict,
    Waiver,
    When,
    Workload,
)
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
POINT = {"evidence": {"decide": "point"}}
SHORT = When((Condition("output_tokens", "<", 300),), "output_tokens<300")


def judge(policy: Policy, *runs: Run, **options: Any) -> Report:
    return evaluate(policy, runs, TODAY, **options)


def only(report: Report, name: str) -> Check:
    return next(check for check in report.checks if check.id == name)


# ---- the tool trap ------------------------------------------------------------------------


def test_the_tool_trap_shows_tpot_of_700_over_99_ms() -> None:
    rows = make_requests(0.5, 1.2, 100, n=20)
    report = judge(make_policy(latency("tpot", 50, 0.025), **POINT), make_run(rows))
    stats = report.metrics["tpot_s"]
    assert stats is not None
    assert stats.p50 == pytest.approx(0.7 / 99, abs=1e-12)
    assert f"{stats.p50 * 1e3:.2f}" == "7.07"


# ---- counting -----------------------------------------------------------------------------


def test_the_percentile_shown_is_numpy_inverted_cdf() -> None:
    ttft = np.random.default_rng(1).lognormal(-2, 0.5, 1500)
    report = judge(make_policy(latency("ttft", 99, 1.0), **POINT), make_run(make_requests(ttft, ttft + 1)))
    stats = report.metrics["ttft_s"]
    assert stats is not None
    for shown, percent in ((stats.p50, 50), (stats.p90, 90), (stats.p99, 99)):
        assert shown == np.percentile(ttft, percent, method="inverted_cdf")
    assert only(report, "ttft.p99").observed == np.percentile(ttft, 99, method="inverted_cdf")


def test_a_failed_request_misses_every_objective() -> None:
    status = [Status.COMPLETED] * 98 + [Status.FAILED] * 2
    rows = make_requests(0.1, 1.0, 100, status=status)
    report = judge(make_policy(latency("ttft", 99, 1.0), latency("ttft", 98, 1.0), **POINT), make_run(rows))
    assert only(report, "ttft.p99").verdict is Verdict.FAIL
    assert only(report, "ttft.p99").observed is None
    assert only(report, "ttft.p99").observed_text == "unbounded"
    assert only(report, "ttft.p98").verdict is Verdict.PASS
    assert only(report, "ttft.p99").misses == 2


def test_a_failed_request_is_a_miss_whatever_the_when() -> None:
    rows = make_requests(0.1, 1.0, [100.0] * 9 + [0.0], status=[0] * 9 + [Status.FAILED])
    report = judge(make_policy(latency("e2e", 90, 2.0, when=SHORT), **POINT), make_run(rows))
    assert (
        only(report, "e2e.p90[output_tokens<300]").n,
        only(report, "e2e.p90[output_tokens<300]").misses,
    ) == (10, 1)


def test_a_condition_leaves_long_outputs_out() -> None:
    rows = make_requests(0.1, [1.0] * 5 + [9.0] * 5, [100.0] * 5 + [400.0] * 5)
    report = judge(make_policy(latency("e2e", 99, 2.0, when=SHORT), **POINT), make_run(rows))
    check = only(report, "e2e.p99[output_tokens<300]")
    assert (check.verdict, check.n, check.misses) == (Verdict.PASS, 5, 0)


def test_a_completed_row_without_the_metric_is_a_miss() -> None:
    rows = make_requests([0.1] * 9 + [np.nan], 1.0, 100)
    check = only(judge(make_policy(latency("ttft", 95, 1.0), **POINT), make_run(rows)), "ttft.p95")
    assert (check.n, check.misses, check.verdict) == (10, 1, Verdict.FAIL)


@pytest.mark.parametrize(("rule_", "n", "misses"), [("ignore", 8, 0), ("miss", 10, 2)])
def test_single_token_tpot_is_ignored_or_a_miss_as_the_policy_says(rule_: str, n: int, misses: int) -> None:
    rows = make_requests(0.1, 1.0, [100.0] * 8 + [1.0] * 2)
    policy = make_policy(latency("tpot", 90, 0.1), single_token_tpot=rule_, **POINT)
    check = only(judge(policy, make_run(rows)), "tpot.p90")
    assert (check.n, check.misses) == (n, misses)


def test_warmup_and_cancelled_rows_are_never_attempted() -> None:
    rows = make_requests(0.1, 1.0, 100, status=[0] * 5 + [Status.CANCELLED] * 2 + [Status.WARMUP] * 3)
    report = judge(make_policy(latency("ttft", 50, 1.0), **POINT), make_run(rows))
    assert report.runs[0].counts == Counts(5, 5, 0, 2, 3)
    assert only(report, "ttft.p50").n == 5


def test_cancelled_rows_are_misses_when_the_policy_says_so() -> None:
    rows = make_requests(0.1, 1.0, 100, status=[0] * 5 + [Status.CANCELLED] * 5)
    report = judge(make_policy(latency("ttft", 90, 1.0), cancelled="miss", **POINT), make_run(rows))
    assert (only(report, "ttft.p90").n, only(report, "ttft.p90").misses) == (10, 5)


def test_a_value_one_ulp_above_its_bound_is_not_good() -> None:
    bound = 0.025
    rows = make_requests(0.1, [0.1 + 99 * bound] * 3, 100)
    tpot = rows.tpot_s
    assert tpot is not None
    value = float(tpot[0])
    for limit, good in ((value, 3), (np.nextafter(value, 0), 0)):
        report = judge(make_policy(goodput(0.5), bounds={"tpot": limit}, **POINT), make_run(rows))
        assert report.goodput is not None
        assert report.goodput.good == good


def test_itl_counts_gaps_and_a_failed_request_adds_one_missed_gap() -> None:
    gaps = Gaps(np.array([0.01, 0.02, 0.05, 0.01, 0.01]), np.array([0, 3, 3, 5]))
    rows = make_requests(0.1, 1.0, 10, status=[0, Status.FAILED, 0])
    rows = type(rows)(rows.status, rows.ttft_s, rows.e2e_s, rows.output_tokens, gaps=gaps, order="submission")
    check = only(judge(make_policy(latency("itl", 50, 0.02), **POINT), make_run(rows)), "itl.p50")
    assert (check.n, check.misses, check.verdict) == (6, 2, Verdict.PASS)


# ---- goodput ------------------------------------------------------------------------------


def test_one_run_has_one_goodput_of_attempted_with_single_tokens_by_their_ttft() -> None:
    # PEERS section 3.1: 1000 sent, 50 failed, 100 one-token answers, 800 of 850 longer ones within both.
    status = [Status.FAILED] * 50 + [Status.COMPLETED] * 950
    tokens = [0.0] * 50 + [1.0] * 100 + [101.0] * 850
    e2e = [0.0] * 50 + [0.1] * 100 + [1.1] * 800 + [9.1] * 50
    rows = make_requests(0.1, e2e, tokens, status=status)
    found = {}
    for how in ("ignore", "miss"):
        policy = make_policy(goodput(0.9), bounds={"ttft": 0.5, "tpot": 0.02}, single_token_tpot=how, **POINT)
        report = judge(policy, make_run(rows))
        assert report.goodput is not None
        found[how] = report.goodput.fraction
    assert found == {"ignore": 0.9, "miss": 0.8}


def test_misses_are_attributed_to_the_only_bound_they_broke() -> None:
    ttft = [0.1, 0.9, 0.1, 0.9, 0.1, 0.1]
    e2e = [1.0, 1.8, 9.0, 9.0, 1.0, 3.5]
    tokens = [100, 100, 100, 100, 0, 1000]
    status = [0, 0, 0, 0, Status.FAILED, 0]
    rows = make_requests(ttft, e2e, tokens, status=status)
    report = judge(
        make_policy(goodput(0.5), bounds={"ttft": 0.5, "tpot": 0.05, "e2e": 3.0}, **POINT), make_run(rows)
    )
    assert report.goodput is not None
    misses = report.goodput.misses
    assert misses is not None
    # row 1: TTFT alone; rows 2 and 3: TPOT 90/82 ms and E2E (several); row 4 failed; row 5: E2E alone
    assert (misses.ttft, misses.tpot, misses.e2e, misses.several, misses.failed) == (1, 0, 1, 2, 1)
    assert report.goodput.good == 1


def test_a_goodput_pass_passes_the_percentiles_it_contains() -> None:
    # 1100 rows, 2 misses: goodput at 95 % passes; P90 TTFT with the same bound then cannot be open.
    ttft = np.full(1100, 0.1)
    ttft[[100, 900]] = 2.0
    policy = make_policy(latency("ttft", 90, 0.8), goodput(0.95), bounds={"ttft": 0.8})
    report = judge(policy, make_run(make_requests(ttft, ttft + 1)))
    assert only(report, "goodput").verdict is Verdict.PASS
    assert only(report, "ttft.p90").verdict is Verdict.PASS


def test_a_failed_percentile_fails_the_goodput_that_contains_it() -> None:
    rng = np.random.default_rng(3)
    ttft = np.where(rng.random(3000) < 0.03, 2.0, 0.1)
    policy = make_policy(latency("ttft", 99, 0.8), goodput(0.99), bounds={"ttft": 0.8})
    report = judge(policy, make_run(make_requests(ttft, ttft + 1)))
    assert only(report, "ttft.p99").verdict is Verdict.FAIL
    assert only(report, "goodput").verdict is Verdict.FAIL


# ---- certainty ----------------------------------------------------------------------------


def test_a_short_clean_run_cannot_prove_p99_and_says_how_many_requests_would() -> None:
    report = judge(make_policy(latency("ttft", 99, 1.0)), make_run(make_requests(0.1, n=150)))
    check = only(report, "ttft.p99")
    assert (check.verdict, check.cause, report.exit_code) == (Verdict.INCONCLUSIVE, "undecided", 4)
    assert "needs at least 398 requests" in check.reason  # ln 0.05 / ln 0.99 x (t_9 / z)^2 = 298.07 x 1.3321


@pytest.mark.parametrize(
    ("undecided", "share_late", "code"),
    [("block", 0.0, 4), ("lean", 0.0, 0), ("lean", 0.02, 4), ("allow", 0.02, 0)],
)
def test_undecided_follows_the_burden_of_proof(undecided: str, share_late: float, code: int) -> None:
    ttft = np.full(150, 0.1)
    ttft[:: int(1 / share_late) if share_late else 1000] = 2.0 if share_late else 0.1
    policy = make_policy(latency("ttft", 99, 1.0), undecided=undecided)
    report = judge(policy, make_run(make_requests(ttft, ttft + 1)))
    assert (report.verdict, report.exit_code) == (Verdict.INCONCLUSIVE, code)
    assert report.headline.startswith("INCONCLUSIVE")


def test_fewer_than_a_hundred_requests_never_decide() -> None:
    report = judge(make_policy(latency("ttft", 50, 1.0)), make_run(make_requests(0.1, n=99)))
    assert only(report, "ttft.p50").verdict is Verdict.INCONCLUSIVE


def test_point_is_the_naked_estimate_and_shown_as_such() -> None:
    report = judge(make_policy(latency("ttft", 99, 1.0), **POINT), make_run(make_requests(0.1, n=50)))
    check = only(report, "ttft.p99")
    assert (check.verdict, check.interval) == (Verdict.PASS, None)
    assert "decide: point" in check.reason
    assert any("point" in note for note in report.notes)


def test_clean_runs_pass_and_bad_runs_fail_with_thirty_runs() -> None:
    policy = make_policy(latency("ttft", 99, 0.8), goodput(0.99), bounds={"ttft": 0.8})
    good = [make_run(make_requests(0.1, n=100), input=f"{i}.json") for i in range(30)]
    bad = [make_run(make_requests([0.1] * 90 + [2.0] * 10), input=f"{i}.json") for i in range(30)]
    assert judge(policy, *good).verdict is Verdict.PASS
    report = judge(policy, *bad)
    assert (report.verdict, report.exit_code) == (Verdict.FAIL, 1)
    assert report.headline.startswith("FAIL chat (blocked): goodput 90% < 99% (2,700 of 3,000 good, upper")
    assert report.headline.endswith("every miss is TTFT alone")


# ---- failures are facts -------------------------------------------------------------------


@pytest.mark.parametrize(("failed", "verdict"), [(1, Verdict.PASS), (2, Verdict.FAIL)])
def test_error_rate_is_judged_on_the_count(failed: int, verdict: Verdict) -> None:
    rows = make_requests(0.1, n=100, status=[Status.FAILED] * failed + [0] * (100 - failed))
    check = only(judge(make_policy(error_rate(0.01)), make_run(rows)), "error_rate")
    assert (check.verdict, check.interval) == (verdict, None)


@pytest.mark.parametrize(("n", "verdict", "code"), [(100, Verdict.FAIL, 1), (99, Verdict.INCONCLUSIVE, 4)])
def test_zero_completed_fails_from_a_hundred_attempted(n: int, verdict: Verdict, code: int) -> None:
    rows = make_requests(np.nan, np.nan, 0.0, n=n, status=Status.FAILED)
    policy = make_policy(latency("ttft", 99, 1.0), goodput(0.9), bounds={"ttft": 1.0})
    report = judge(policy, make_run(rows))
    assert [check.verdict for check in report.checks] == [verdict, verdict]
    assert report.exit_code == code


def test_nothing_attempted_is_never_green() -> None:
    rows = make_requests(0.1, n=10, status=Status.WARMUP)
    policy = make_policy(
        latency("ttft", 99, 1.0), error_rate(0.01), goodput(0.5), bounds={"ttft": 1.0}, **POINT
    )
    report = judge(policy, make_run(rows))
    assert {(check.verdict, check.cause) for check in report.checks} == {(Verdict.INCONCLUSIVE, "evidence")}
    assert report.exit_code == 4


@pytest.mark.parametrize("undecided", ["block", "lean", "allow"])
def test_missing_evidence_blocks_whatever_the_burden_of_proof(undecided: str) -> None:
    run = make_run(make_requests(0.1, n=500), doubts={"ttft": "the run was not streaming"})
    report = judge(make_policy(latency("ttft", 99, 1.0), undecided=undecided), run)
    check = only(report, "ttft.p99")
    assert (check.verdict, check.cause, report.exit_code) == (Verdict.INCONCLUSIVE, "evidence", 4)
    assert "not streaming" in check.reason


# ---- aggregates ---------------------------------------------------------------------------


def aggregate_run(n: int, failed: int = 0, **metrics: dict[float, float]) -> Run:
    return make_run(make_aggregate(**metrics), counts=Counts(n, n - failed, failed))


def test_an_aggregate_percentile_decides_a_point_rule_only_on_its_own_side() -> None:
    run = aggregate_run(1000, ttft={50: 0.2, 99: 0.7})
    for bound, verdict in ((0.8, Verdict.PASS), (0.6, Verdict.FAIL)):
        check = only(judge(make_policy(latency("ttft", 99, bound), **POINT), run), "ttft.p99")
        assert (check.verdict, check.misses) == (verdict, None)
    between = only(judge(make_policy(latency("ttft", 90, 0.5), **POINT), run), "ttft.p90")
    assert (between.verdict, between.cause) == (Verdict.INCONCLUSIVE, "evidence")
    assert "--save-detailed" in between.reason
    # linear P50 of 1000 lies between the 500th and 501st value, P99 at (n - 1) x 0.99 = 989.01
    assert between.misses_range == (1000 - 990, 1000 - 500)


def test_a_rounded_maximum_proves_no_bound_it_may_break() -> None:
    summary = Summary(((50.0, 0.2),), max=0.80)  # printed with two decimals: 0.804 is possible
    for bound, misses in ((0.80, (0, 500)), (0.81, (0, 0)), (0.79, (1, 500))):
        evidence = Aggregate({"ttft": summary}, rounding_s=0.005)
        run = make_run(evidence, counts=Counts(1000, 1000, 0))
        check = only(judge(make_policy(latency("ttft", 99, bound), **POINT), run), "ttft.p99")
        assert check.misses_range == misses


def test_mixed_aggregates_do_not_decide_a_point_rule() -> None:
    runs = [aggregate_run(1000, ttft={99: p99}) for p99 in (0.7, 0.9)]
    check = only(judge(make_policy(latency("ttft", 99, 0.8), **POINT), *runs), "ttft.p99")
    assert check.verdict is Verdict.INCONCLUSIVE


def test_aggregates_of_runs_that_differ_widely_say_how_little_they_are_worth() -> None:
    """Three runs of 300 wholly within the bound, three beyond it: six clusters and no more."""
    fast, slow = {1: 0.05, 50: 0.1, 99: 0.3}, {1: 1.5, 50: 2.0, 99: 3.0}
    runs = [
        replace(aggregate_run(300, ttft=at), sha256=f"{number}", input=f"{number}.json")
        for number, at in enumerate([fast, slow] * 3)
    ]
    check = only(judge(make_policy(latency("ttft", 50, 1.0)), *runs), "ttft.p50")
    # at most 300 and 3 of 300 met it: deff = 6/5 x 6 x 148.5^2 / (1800 x 909/1800 x 891/1800)
    deff = 1.2 * 6 * 148.5**2 / (1800 * (909 / 1800) * (891 / 1800))
    assert round(1800 / deff) == 5
    assert check.verdict is Verdict.INCONCLUSIVE
    assert "worth only 5 requests that do not wait for each other (30 needed to pass)" in check.reason
    assert "the interval contains" not in check.reason


def test_failures_scale_an_aggregate_percentile_of_successes() -> None:
    run = aggregate_run(1000, failed=50, ttft={99: 0.7})
    check = only(judge(make_policy(latency("ttft", 99, 0.8), **POINT), run), "ttft.p99")
    assert check.verdict is Verdict.FAIL  # at most 950 of 1000 met it


def test_joint_goodput_of_marginals_is_known_only_by_its_bounds() -> None:
    run = aggregate_run(1000, ttft={95: 0.5}, e2e={97: 2.0})
    report = judge(make_policy(goodput(0.9), bounds={"ttft": 0.5, "e2e": 2.0}, **POINT), run)
    # linear: at least 950 met TTFT, at least 970 met E2E; so at least 920 both, at most 1000
    assert only(report, "goodput").misses_range == (0, 80)
    assert only(report, "goodput").verdict is Verdict.PASS
    assert report.goodput is not None
    assert (report.goodput.fraction, report.goodput.range) == (None, (0.92, 1.0))


def test_one_aggregate_is_inconclusive_where_certainty_is_asked() -> None:
    run = aggregate_run(100_000, ttft={99: 0.1})
    check = only(judge(make_policy(latency("ttft", 99, 0.8)), run), "ttft.p99")
    assert (check.verdict, check.cause) == (Verdict.INCONCLUSIVE, "evidence")


def test_five_aggregates_are_clusters() -> None:
    runs = [aggregate_run(1000, ttft={50: 0.1, 99.9: 0.2}) for _ in range(5)]
    assert only(judge(make_policy(latency("ttft", 90, 0.8)), *runs), "ttft.p90").verdict is Verdict.PASS
    assert only(judge(make_policy(latency("ttft", 90, 0.05)), *runs), "ttft.p90").verdict is Verdict.FAIL


def test_aggregates_without_a_miss_are_not_taken_for_independent_requests() -> None:
    # All of 5 x 300 within the bound, but the runs' P90 swing: 0.1 s in two runs, 0.5 s in three.
    calm = {50: 0.08, 90: 0.1, 99: 0.2, 99.9: 0.7}
    wild = {50: 0.4, 90: 0.5, 99: 0.6, 99.9: 0.7}
    even = [aggregate_run(300, ttft=calm) for _ in range(5)]
    mixed = [aggregate_run(300, ttft=at) for at in (calm, calm, wild, wild, wild)]
    policy = make_policy(latency("ttft", 95, 0.8))
    assert only(judge(policy, *even), "ttft.p95").verdict is Verdict.PASS
    assert only(judge(policy, *mixed), "ttft.p95").verdict is Verdict.INCONCLUSIVE


def test_aggregates_that_state_one_percentile_show_no_spread_and_prove_nothing() -> None:
    runs = [aggregate_run(1000, ttft={99.9: 0.2}) for _ in range(5)]
    check = only(judge(make_policy(latency("ttft", 90, 0.8)), *runs), "ttft.p90")
    assert (check.verdict, check.cause) == (Verdict.INCONCLUSIVE, "evidence")


def test_a_condition_on_an_aggregate_is_inconclusive() -> None:
    run = aggregate_run(1000, e2e={99: 1.0})
    check = only(
        judge(make_policy(latency("e2e", 99, 2.0, when=SHORT), **POINT), run), "e2e.p99[output_tokens<300]"
    )
    assert (check.verdict, check.cause) == (Verdict.INCONCLUSIVE, "evidence")


# ---- loads --------------------------------------------------------------------------------


def sweep() -> list[Run]:
    return [
        make_run(make_requests(0.1, n=200), load=Load(concurrency=c), input=f"{c}.json") for c in (4, 8, 16)
    ]


def test_several_loads_without_a_target_are_inconclusive_and_never_pooled() -> None:
    report = judge(make_policy(latency("ttft", 50, 1.0), **POINT), *sweep())
    assert (report.verdict, report.exit_code) == (Verdict.INCONCLUSIVE, 4)
    assert report.goodput is None
    assert set(report.metrics.values()) == {None}
    assert [run.at_target for run in report.runs] == [False] * 3
    assert "3 loads (concurrency 4, 8 and 16)" in report.checks[0].reason


def test_objectives_are_judged_at_the_declared_target_only() -> None:
    runs = sweep()
    runs[2] = make_run(make_requests(5.0, 6.0, n=200), load=Load(concurrency=16))
    policy = make_policy(latency("ttft", 50, 1.0), workload=Workload(target=Load(concurrency=8)), **POINT)
    report = judge(policy, *runs)
    assert (report.verdict, only(report, "ttft.p50").n) == (Verdict.PASS, 200)
    assert [run.at_target for run in report.runs] == [False, True, False]


def test_results_at_another_load_never_pass() -> None:
    policy = make_policy(
        latency("ttft", 50, 1.0),
        rule("workload.load"),
        workload=Workload(target=Load(concurrency=64)),
        **POINT,
    )
    report = judge(policy, make_run(make_requests(0.1, n=500), load=Load(concurrency=32)))
    assert {check.verdict for check in report.checks} == {Verdict.INCONCLUSIVE}
    assert "concurrency 64" in report.checks[0].reason


@pytest.mark.parametrize("load", [None, Load(burst=True), Load(request_rate=8.0)])
def test_a_burst_or_unknown_load_matches_no_target(load: Load | None) -> None:
    policy = make_policy(latency("ttft", 50, 1.0), workload=Workload(target=Load(concurrency=8)), **POINT)
    assert judge(policy, make_run(make_requests(0.1, n=200), load=load)).verdict is Verdict.INCONCLUSIVE


def test_an_open_loop_is_matched_by_its_rate_whatever_the_client_cap() -> None:
    policy = make_policy(latency("ttft", 50, 1.0), workload=Workload(target=Load(request_rate=20.0)), **POINT)
    run = make_run(make_requests(0.1, n=200), load=Load(request_rate=20.0, cap=4))
    assert judge(policy, run).verdict is Verdict.PASS


def test_runs_of_two_models_are_never_pooled() -> None:
    runs = [make_run(make_requests(0.1, n=200), model=name) for name in ("a", "b")]
    report = judge(make_policy(latency("ttft", 50, 1.0), **POINT), *runs)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "model is a and b" in report.checks[0].reason


def test_runs_of_two_scenarios_at_one_load_are_never_pooled() -> None:
    runs = [make_run(make_requests(0.1, n=200), scenario=name) for name in ("D(100,100)", "D(2000,200)")]
    report = judge(make_policy(latency("ttft", 50, 1.0), **POINT), *runs)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "scenario is D(100,100) and D(2000,200)" in report.checks[0].reason


# ---- warm-up ------------------------------------------------------------------------------


def test_warmup_auto_drops_both_ends_of_a_closed_loop_by_start_time() -> None:
    start = np.arange(100.0)[::-1].copy()  # file order is the reverse of start order
    ttft = np.where(start < 8, 9.0, 0.1)
    ttft[start >= 92] = 5.0
    run = make_run(make_requests(ttft, ttft + 1, start_s=start))
    report = judge(make_policy(latency("ttft", 99, 1.0), evidence={"warmup": "auto", "decide": "point"}), run)
    assert report.runs[0].counts == Counts(84, 84, 0, 0, 16)
    assert report.verdict is Verdict.PASS


@pytest.mark.parametrize(("n", "dropped"), [(300, 50), (2000, 100)])
def test_warmup_auto_drops_the_start_of_an_open_loop(n: int, dropped: int) -> None:
    run = make_run(make_requests(0.1, n=n), load=Load(request_rate=20.0))
    report = judge(make_policy(latency("ttft", 99, 1.0), evidence={"warmup": "auto", "decide": "point"}), run)
    assert report.runs[0].counts.warmup == dropped


@pytest.mark.parametrize(("order", "load"), [("completion", Load(concurrency=8)), ("submission", None)])
def test_warmup_auto_drops_nothing_without_order_or_load_and_says_so(order: str, load: Load | None) -> None:
    run = make_run(make_requests(0.1, n=100, order=order), load=load)
    report = judge(make_policy(latency("ttft", 50, 1.0), evidence={"warmup": "auto", "decide": "point"}), run)
    assert report.runs[0].counts.warmup == 0
    assert any("nothing dropped" in note for note in report.runs[0].notes)


@pytest.mark.parametrize("where", ["start", "end", "both"])
@pytest.mark.parametrize("rule", ["auto", 100])
def test_an_outage_at_an_end_of_a_run_is_no_warmup(rule: int | str, where: str) -> None:
    """The row a refused connection leaves: neither times nor tokens. Concurrency 100, 1200 requests."""
    down = np.zeros(1200, dtype=bool)
    down[:100] |= where in ("start", "both")
    down[-100:] |= where in ("end", "both")
    times = np.where(down, np.nan, 0.1)
    status = np.where(down, Status.FAILED, Status.COMPLETED)
    start = np.arange(1200) * 0.0105
    rows = make_requests(times, times + 1, status=status, start_s=start)
    policy = make_policy(error_rate(0.01), goodput(0.95), bounds={"ttft": 0.8}, evidence={"warmup": rule})
    report = judge(policy, make_run(rows, load=Load(concurrency=100)))
    failed = int(down.sum())
    ends = np.arange(1200) < 100
    if rule == "auto":
        ends |= np.arange(1200) >= 1100
    dropped = int((ends & ~down).sum())  # by hand: of the rows at the ends, those that were answered
    assert report.runs[0].counts == Counts(1200 - dropped, 1200 - dropped - failed, failed, 0, dropped)
    assert (only(report, "error_rate").misses, only(report, "goodput").misses) == (failed, failed)
    assert only(report, "goodput").verdict is not Verdict.PASS
    assert report.verdict is Verdict.FAIL
    kept = int((ends & down).sum())
    said = next(note for note in report.runs[0].notes if note.startswith("warm-up: dropped"))
    assert (f"but the {kept} of these that failed" in said) is (kept > 0)


def test_warmup_moves_no_request_out_of_sight() -> None:
    kinds = [Status.COMPLETED, Status.FAILED, Status.CANCELLED]
    status = np.random.default_rng(7).choice(kinds, 400, p=[0.7, 0.2, 0.1])
    rows = make_requests(0.1, status=status.tolist())
    for dropped in (0, 30, 500, "auto"):
        found = (
            judge(make_policy(error_rate(0.5), evidence={"warmup": dropped}), make_run(rows)).runs[0].counts
        )
        assert found.failed == int((status == Status.FAILED).sum())
        assert found.cancelled == int((status == Status.CANCELLED).sum())
        assert found.attempted + found.warmup + found.cancelled == 400


def test_a_run_that_is_all_warmup_is_never_green() -> None:
    policy = make_policy(latency("ttft", 50, 1.0), evidence={"warmup": "auto", "decide": "point"})
    assert judge(policy, make_run(make_requests(0.1, n=12))).exit_code == 4


# ---- rules, levels, waivers ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "workload", "evidence", "facts", "met"),
    [
        ("workload.model", {"model": "meta/*-70B"}, {}, {"model": "meta/L-70B"}, True),
        ("workload.model", {"model": "meta/*-70B"}, {}, {"model": "meta/L-8B"}, False),
        ("workload.model", {"model": "meta/*-70B"}, {}, {"model": None}, False),
        ("workload.hardware", {"hardware": "8xH100"}, {}, {"hardware": "8xh100"}, True),
        ("workload.hardware", {"hardware": "8xH100"}, {}, {"hardware": "8xA100"}, False),
        ("workload.interaction", {"interaction": "voice"}, {}, {}, False),
        ("evidence.runs", {}, {"runs_min": 1}, {}, True),
        ("evidence.runs", {}, {"runs_min": 2}, {}, False),
        ("evidence.requests_per_run", {}, {"requests_per_run_min": 200}, {}, True),
        ("evidence.requests_per_run", {}, {"requests_per_run_min": 201}, {}, False),
        ("evidence.tool", {}, {"tool_version_required": True}, {}, False),
        ("evidence.tool", {}, {"tool_version_required": True}, {"tool_version": "0.33.0"}, True),
        ("workload.output_tokens", {"output_tokens": TokenRule(100, None, 0.1)}, {}, {}, True),
        ("workload.output_tokens", {"output_tokens": TokenRule(150, None, 0.1)}, {}, {}, False),
        ("workload.output_tokens", {"output_tokens": TokenRule(100, 30, 0.1)}, {}, {}, False),
        ("workload.input_tokens", {"input_tokens": TokenRule(100, None, 0.1)}, {}, {}, False),
    ],
)
def test_a_rule_passes_or_is_inconclusive_never_fails(
    name: str, workload: dict[str, Any], evidence: dict[str, Any], facts: dict[str, Any], met: bool
) -> None:
    policy = make_policy(rule(name), workload=Workload(**workload), evidence=evidence)
    check = only(judge(policy, make_run(make_requests(0.1, n=200), **facts)), name)
    assert check.verdict is (Verdict.PASS if met else Verdict.INCONCLUSIVE)
    assert check.cause == (None if met else "evidence")


def test_a_warn_level_failure_warns_and_exits_5_only_when_asked() -> None:
    policy = make_policy(latency("ttft", 50, 1.0), latency("ttft", 90, 0.05, level=Level.WARN), **POINT)
    run = make_run(make_requests(0.1, n=200))
    assert (judge(policy, run).verdict, judge(policy, run).exit_code) == (Verdict.WARN, 0)
    assert judge(policy, run, fail_on="warn").exit_code == 5


def test_an_info_objective_never_moves_the_verdict() -> None:
    policy = make_policy(latency("ttft", 50, 1.0), latency("ttft", 90, 0.05, level=Level.INFO), **POINT)
    assert judge(policy, make_run(make_requests(0.1, n=200)), fail_on="warn").exit_code == 0


@pytest.mark.parametrize(("until", "verdict"), [(TODAY, Verdict.WARN), (date(2026, 11, 28), Verdict.FAIL)])
def test_a_waiver_turns_a_blocking_failure_into_a_warning_until_its_day(
    until: date, verdict: Verdict
) -> None:
    waiver = Waiver("ttft.p50", until, "serving", "kernel fix in flight")
    policy = make_policy(latency("ttft", 50, 0.05), waivers=(waiver,), **POINT)
    report = judge(policy, make_run(make_requests(0.1, n=200)))
    assert report.verdict is verdict
    assert (only(report, "ttft.p50").waived is None) == (verdict is Verdict.FAIL)
    assert any("expired" in note for note in report.notes) == (verdict is Verdict.FAIL)


def test_fail_on_inconclusive_tightens_what_the_policy_lets_through() -> None:
    policy = make_policy(latency("ttft", 99, 1.0), undecided="allow")
    run = make_run(make_requests(0.1, n=150))
    assert judge(policy, run).exit_code == 0
    assert judge(policy, run, fail_on="inconclusive").exit_code == 4


def test_report_only_exits_0_and_says_so() -> None:
    report = judge(
        make_policy(latency("ttft", 50, 0.05), **POINT), make_run(make_requests(0.1, n=200)), report_only=True
    )
    assert (report.verdict, report.exit_code, report.report_only) == (Verdict.FAIL, 0, True)
    assert "report only" in report.headline


# ---- throughput ---------------------------------------------------------------------------


def test_throughput_is_a_t_interval_over_five_runs_or_more() -> None:
    # 5 runs of 200 x 100 tokens in 10 s +- a little: about 2000 tok/s
    runs = [make_run(make_requests(0.1, n=200), duration_s=s) for s in (9.9, 10.0, 10.1, 10.0, 10.05)]
    for floor, verdict in ((1900, Verdict.PASS), (2100, Verdict.FAIL), (1998, Verdict.INCONCLUSIVE)):
        check = only(judge(make_policy(throughput(floor)), *runs), "throughput")
        assert (check.verdict, check.interval_of) == (verdict, "tok_per_s")
    assert only(judge(make_policy(throughput(1900)), *runs[:4]), "throughput").verdict is Verdict.INCONCLUSIVE


# ---- outputs ------------------------------------------------------------------------------


def test_the_same_inputs_give_the_same_report() -> None:
    policy = make_policy(latency("ttft", 99, 1.0), goodput(0.9), bounds={"ttft": 1.0})
    assert repr(judge(policy, *sweep())) == repr(judge(policy, *sweep()))


def test_two_to_four_runs_are_judged_with_the_warning_that_their_spread_is_not_covered() -> None:
    runs = [make_run(make_requests(0.1, n=1000), input=f"{i}.json") for i in range(3)]
    report = judge(make_policy(latency("ttft", 90, 1.0)), *runs)
    assert report.verdict is Verdict.PASS
    assert any("3 runs" in note and "spread" in note for note in report.notes)


# ---- histograms ---------------------------------------------------------------------------


def histogram_run(
    counts: list[int], failed: int = 0, edges: tuple[float, ...] = (0.1, 0.5, 1.0, np.inf)
) -> Run:
    buckets = Buckets(np.array(edges), np.array(counts))
    n = sum(counts)
    return make_run(
        Histogram({"ttft": buckets}, "a bound on a bucket edge"), counts=Counts(n + failed, n, failed)
    )


@pytest.mark.parametrize(
    ("bound", "misses", "verdict"),
    [
        (0.5, (10, 10), Verdict.PASS),  # an edge: both ends agree
        (0.7, (5, 10), Verdict.PASS),  # 990 or 995 of 1000
        (0.3, (10, 110), Verdict.INCONCLUSIVE),
        (0.1, (110, 110), Verdict.FAIL),
    ],
)
def test_a_histogram_decides_only_where_both_edges_agree(
    bound: float, misses: tuple[int, int], verdict: Verdict
) -> None:
    run = histogram_run([890, 100, 5, 5])
    check = only(judge(make_policy(latency("ttft", 99, bound), **POINT), run), "ttft.p99")
    assert (check.misses_range, check.verdict) == (misses, verdict)


def test_values_beyond_the_completed_requests_may_all_be_their_misses() -> None:
    # 1,000 completed, but the engine observed 1,050 TTFTs (some in flight), 50 of them late.
    buckets = Buckets(np.array([0.1, 0.5, np.inf]), np.array([1000, 0, 50]))
    run = make_run(Histogram({"ttft": buckets}), counts=Counts(1000, 1000, 0))
    report = judge(make_policy(goodput(0.99), bounds={"ttft": 0.5}, **POINT), run)
    assert only(report, "goodput").misses_range == (0, 50)
    assert only(report, "goodput").verdict is Verdict.INCONCLUSIVE


def test_completed_requests_without_a_value_may_be_anything() -> None:
    buckets = Buckets(np.array([0.1, 0.5, np.inf]), np.array([900, 0, 50]))
    run = make_run(Histogram({"ttft": buckets}), counts=Counts(1000, 1000, 0))
    report = judge(make_policy(goodput(0.99), bounds={"ttft": 0.5}, **POINT), run)
    assert only(report, "goodput").misses_range == (50, 100)


def test_one_blind_run_among_others_hides_an_error_rate() -> None:
    seen = make_run(make_requests(0.1, n=1000, status=[Status.FAILED] + [0] * 999))
    blind = make_run(make_requests(0.1, n=10), doubts={"error_rate": "the server restarted"})
    assert (
        only(judge(make_policy(error_rate(0.01)), seen, blind), "error_rate").verdict is Verdict.INCONCLUSIVE
    )
    many = make_run(make_requests(0.1, n=1000, status=[Status.FAILED] * 50 + [0] * 950))
    assert only(judge(make_policy(error_rate(0.01)), many, blind), "error_rate").verdict is Verdict.FAIL


def test_failures_beside_a_histogram_are_misses() -> None:
    check = only(
        judge(make_policy(latency("ttft", 99, 1.0), **POINT), histogram_run([900, 80, 5, 0], failed=15)),
        "ttft.p99",
    )
    assert (check.n, check.misses_range, check.verdict) == (1000, (15, 15), Verdict.FAIL)


def test_ten_windows_of_a_histogram_are_clusters_and_decide_p99() -> None:
    runs = [histogram_run([200, 99, 1, 0]) for _ in range(10)]
    assert only(judge(make_policy(latency("ttft", 99, 1.0)), *runs), "ttft.p99").verdict is Verdict.PASS
    assert only(judge(make_policy(latency("ttft", 99, 0.1)), *runs), "ttft.p99").verdict is Verdict.FAIL


def test_traffic_below_the_declared_minimum_is_not_the_declared_load() -> None:
    target = Workload(target=Load(request_rate=5.0, production=True))
    policy = make_policy(latency("ttft", 50, 1.0), workload=target, **POINT)
    for rate, verdict in ((7.0, Verdict.PASS), (4.0, Verdict.INCONCLUSIVE)):
        run = make_run(make_requests(0.1, n=200), load=Load(request_rate=rate, production=True))
        assert judge(policy, run).verdict is verdict


def test_an_error_rate_nobody_could_see_is_inconclusive() -> None:
    run = make_run(make_requests(0.1, n=200), doubts={"error_rate": "failed requests are in no row"})
    check = only(judge(make_policy(error_rate(0.01)), run), "error_rate")
    assert (check.verdict, check.cause) == (Verdict.INCONCLUSIVE, "evidence")
