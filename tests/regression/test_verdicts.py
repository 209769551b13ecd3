"""Regression verdicts on runs whose growth is known, and on real runs of two builds."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate import policy, readers
from gate.errors import InputError
from gate.evaluate import compare_loads, evaluate
from gate.model import (
    Aggregate,
    Baseline,
    Check,
    Counts,
    EvidenceRules,
    Level,
    Load,
    Policy,
    Report,
    Run,
    Status,
    Summary,
    Verdict,
)
from tests.conftest import ROOT
from tests.regression.builds import build, growth
from tests.runs import make_policy, make_requests, make_run

scipy_stats = pytest.importorskip("scipy.stats")

TODAY = date(2026, 11, 29)
CHAT = ROOT / "examples" / "chat"
JITTER = (0.99, 1.01, 1.0, 1.02, 0.98)  # of the runs of a build, geometric mean 0.9999
OTHER = (1.01, 0.99, 1.0, 0.98, 1.02)


def judge(asked: Policy, candidate: list[Run], base: list[Run] | None, **facts: Any) -> Report:
    baseline = None if base is None else Baseline(tuple(base), **facts)
    return evaluate(asked, candidate, TODAY, baseline=baseline)


def only(report: Report) -> Check:
    (found,) = (one for one in report.checks if one.id.startswith("regression."))
    return found


def slower(factor: float, jitter: tuple[float, ...] = OTHER) -> list[float]:
    return [factor * one for one in jitter]


# ---- the three ways to compare ------------------------------------------------------------


def test_five_pairs_of_one_session_have_the_growth_and_interval_of_a_paired_t_on_logarithms() -> None:
    base = build(JITTER, name="a")
    candidate = build(slower(1.2), name="b")
    found = only(judge(make_policy(growth("ttft", 50, 0.05)), candidate, base, same_session=True))
    d = np.log(np.array(slower(1.2)) / np.array(JITTER))
    error, t = d.std(ddof=1) / np.sqrt(5), scipy_stats.t.ppf(0.95, 4)
    assert found.verdict is Verdict.FAIL
    assert found.observed == pytest.approx(np.exp(d.mean()) - 1, abs=1e-9)
    assert found.interval is not None
    assert found.interval == pytest.approx(np.expm1([d.mean() - t * error, d.mean() + t * error]), abs=1e-9)
    assert (found.n, found.interval_of, "5 paired runs" in found.reason) == (5, "ratio", True)


def test_other_workloads_of_one_session_are_compared_by_welch() -> None:
    base, candidate = build(JITTER, name="a"), build(slower(1.2), name="b", works=50)
    found = only(judge(make_policy(growth("ttft", 50, 0.05)), candidate, base, same_session=True))
    theirs = scipy_stats.ttest_ind(np.log(slower(1.2)), np.log(JITTER), equal_var=False)
    assert found.interval is not None
    assert found.interval[0] == pytest.approx(np.expm1(theirs.confidence_interval(0.9).low), abs=1e-9)
    assert "5 runs against 5" in found.reason


def test_runs_pair_by_their_prompts_whatever_their_order() -> None:
    base, candidate = build(JITTER, name="a"), build(slower(1.2, JITTER), name="b")
    found = only(judge(make_policy(growth("ttft", 50, 0.05)), candidate[::-1], base, same_session=True))
    assert found.interval == pytest.approx((0.2, 0.2), abs=1e-9)  # 20 % in every pair: no spread at all


def test_a_failed_request_without_its_length_does_not_break_a_pair() -> None:
    base, candidate = build(JITTER, name="a"), build(slower(1.2), name="b")
    rows = candidate[0].evidence
    rows.status[7], rows.input_tokens[7] = Status.FAILED, 0.0
    report = judge(make_policy(growth("ttft", 50, 0.05)), candidate, base, same_session=True)
    assert "5 paired runs" in only(report).reason


def test_sessions_named_by_both_sides_are_one_session_without_being_told() -> None:
    base, candidate = (
        build(runs, name=name, session="job-7") for name, runs in (("a", JITTER), ("b", slower(1.2)))
    )
    report = judge(make_policy(growth("ttft", 50, 0.05)), candidate, base)
    assert (report.verdict, report.baseline and report.baseline.kind) == (Verdict.FAIL, "same session")


def test_a_stored_baseline_of_one_session_shows_the_difference_and_only_warns() -> None:
    report = judge(make_policy(growth("ttft", 50, 0.05)), build(slower(1.2), name="b"), build(JITTER))
    found = only(report)
    assert (found.verdict, found.level, found.blocks) == (Verdict.FAIL, Level.WARN, False)
    assert (report.verdict, report.exit_code) == (Verdict.WARN, 0)
    assert "only warns" in report.change


def stored(factors: np.ndarray) -> list[Run]:
    return [
        run
        for number, factor in enumerate(factors)
        for run in build(
            slower(float(factor), JITTER), name=f"s{number}", session=f"night-{number}", works=100 * number
        )
    ]


def test_ten_stored_sessions_give_a_prediction_band_that_blocks() -> None:
    factors = np.exp(np.random.default_rng(3).normal(0, 0.03, 10))
    report = judge(make_policy(growth("ttft", 50, 0.05)), build(slower(1.3), name="b"), stored(factors))
    found = only(report)
    logs = np.log(factors)
    estimate = np.log(slower(1.3)).mean() - (logs + np.log(JITTER).mean()).mean()
    band = scipy_stats.t.ppf(0.95, 9) * logs.std(ddof=1) * np.sqrt(1 + 1 / 10)
    assert (found.verdict, found.level, report.exit_code) == (Verdict.FAIL, Level.BLOCK, 1)
    assert found.interval == pytest.approx(np.expm1([estimate - band, estimate + band]), abs=1e-9)
    assert report.baseline is not None
    assert (report.baseline.kind, report.baseline.sessions) == ("stored sessions", 10)


def test_nine_stored_sessions_are_too_few_to_block() -> None:
    factors = np.exp(np.random.default_rng(3).normal(0, 0.03, 9))
    report = judge(make_policy(growth("ttft", 50, 0.05)), build(slower(1.3), name="b"), stored(factors))
    assert (only(report).level, report.exit_code) == (Level.WARN, 0)


# ---- margin, floor, direction ---------------------------------------------------------------


def test_an_unchanged_build_passes_within_its_margin() -> None:
    found = only(
        judge(make_policy(growth("ttft", 50, 0.1)), build(OTHER, name="b"), build(JITTER), same_session=True)
    )
    assert found.verdict is Verdict.PASS


def test_an_improvement_is_shown_and_never_alarmed() -> None:
    report = judge(
        make_policy(growth("ttft", 50, 0.0)), build(slower(0.7), name="b"), build(JITTER), same_session=True
    )
    assert (only(report).verdict, report.exit_code) == (Verdict.PASS, 0)
    assert "Faster than the baseline" in only(report).reason
    assert report.change.startswith("P50 TTFT -30%")


@pytest.mark.parametrize(
    ("floor_s", "verdict"), [(0.005, Verdict.FAIL), (0.05, Verdict.PASS), (0.0200, Verdict.INCONCLUSIVE)]
)
def test_growth_fails_only_if_share_and_time_are_both_exceeded_for_sure(
    floor_s: float, verdict: Verdict
) -> None:
    # P50 TTFT 100 ms -> 120 ms: 20 % against 5 %, 20 ms against the floor
    asked = make_policy(growth("ttft", 50, 0.05, floor_s=floor_s))
    found = only(judge(asked, build(slower(1.2), name="b"), build(JITTER), same_session=True))
    assert found.verdict is verdict
    assert found.bound == pytest.approx(max(0.05, floor_s / 0.1), rel=0.01)


def test_a_lean_policy_compares_growth_with_the_larger_of_margin_and_floor() -> None:
    wide = (0.8, 1.25, 1.0, 0.85, 1.2)
    asked = make_policy(growth("ttft", 50, 0.02, floor_s=0.02), undecided="lean")
    report = judge(asked, build(slower(1.1, wide), name="b"), build(JITTER, name="a"), same_session=True)
    found = only(report)  # about +10 %: more than 2 %, less than 20 ms of 100 ms
    assert (found.verdict, found.cause, found.blocks) == (Verdict.INCONCLUSIVE, "undecided", False)


def test_several_rules_share_alpha_step_by_step() -> None:
    asked = make_policy(*(growth("ttft", p, 0.05) for p in (50, 90)), growth("e2e", 50, 0.05))
    report = judge(asked, build(slower(1.2), name="b"), build(JITTER), same_session=True)
    levels = sorted(one.reason.split("; ")[1].split(" lower")[0] for one in report.checks)
    assert levels == ["95%", "97.5%", "98.33%"]


def test_a_point_estimate_has_no_interval_and_says_so() -> None:
    asked = make_policy(growth("ttft", 50, 0.05), evidence={"decide": "point"})
    found = only(judge(asked, build([1.2], name="b"), build([1.0]), same_session=True))
    assert (found.verdict, found.interval, "point estimate" in found.reason) == (Verdict.FAIL, None, True)


# ---- nothing missing turns green -----------------------------------------------------------


def test_without_a_baseline_the_objective_is_skipped_and_shown() -> None:
    report = judge(make_policy(growth("ttft", 50, 0.05)), build(JITTER), None)
    assert (only(report).verdict, report.exit_code) == (Verdict.SKIPPED, 0)
    assert "--baseline" in only(report).reason


def test_without_a_required_baseline_the_gate_is_inconclusive_and_blocks() -> None:
    report = judge(make_policy(growth("ttft", 50, 0.05, required=True)), build(JITTER), None)
    assert (only(report).cause, report.exit_code) == ("evidence", 4)


def test_short_runs_can_fail_a_p99_and_clear_it_where_both_sides_are_as_short() -> None:
    asked = make_policy(growth("ttft", 99, 0.1))
    for factor, verdict in ((1.3, Verdict.FAIL), (1.0, Verdict.PASS)):
        runs = build(slower(factor), name="b", n=100), build(JITTER, n=100)
        found = only(judge(asked, *runs, same_session=True))
        assert found.verdict is verdict
    assert "practically equivalent within 10%" in found.reason
    # 99 requests show their maximum, 100 the second largest: another percentile, and no comparison
    longer = build(JITTER, n=99, works=50)
    found = only(judge(asked, build(OTHER, name="b", n=100), longer, same_session=True))
    assert (found.verdict, found.cause) == (Verdict.INCONCLUSIVE, "undecided")
    assert "compare at P99 only with as many on both sides" in found.reason
    # 40 requests have no P99 at all
    found = only(judge(asked, build(OTHER, name="b", n=40), build(JITTER, n=40), same_session=True))
    assert (found.verdict, "runs of 50 requests" in found.reason) == (Verdict.INCONCLUSIVE, True)


def test_failures_that_push_a_percentile_out_of_reach_are_a_fact() -> None:
    status = [Status.FAILED] * 9 + [Status.COMPLETED] * 291  # 3 %
    report = judge(
        make_policy(growth("ttft", 99, 0.5)),
        build(JITTER, name="b", status=status),
        build(JITTER),
        same_session=True,
    )
    assert only(report).verdict is Verdict.FAIL
    assert "unbounded: 3% of 1,500 requests failed" in only(report).reason


def test_a_candidate_that_answers_nothing_is_a_fact_too() -> None:
    lost = build(JITTER, name="b", status=[Status.FAILED] * 300)
    report = judge(make_policy(growth("ttft", 99, 0.5)), lost, build(JITTER), same_session=True)
    assert only(report).verdict is Verdict.FAIL
    assert "none of 1,500 requests completed" in only(report).reason


def test_a_baseline_that_failed_itself_proves_nothing() -> None:
    status = [Status.FAILED] * 9 + [Status.COMPLETED] * 291
    report = judge(
        make_policy(growth("ttft", 99, 0.5)),
        build(JITTER, name="b"),
        build(JITTER, status=status),
        same_session=True,
    )
    assert (only(report).verdict, only(report).cause) == (Verdict.INCONCLUSIVE, "evidence")


def test_a_few_failures_do_not_hide_behind_faster_answers() -> None:
    status = [Status.FAILED] * 2 + [Status.COMPLETED] * 298  # below 1 %: P99 is the 297th of 300
    base, candidate = build(JITTER), build(OTHER, name="b", status=status)
    report = judge(make_policy(growth("ttft", 99, 0.05)), candidate, base, same_session=True)
    change = next(one for one in report.baseline.changes if (one.metric, one.statistic) == ("ttft", "p99"))
    values = [
        np.percentile(
            np.where(np.arange(300) < 2, np.inf, np.linspace(0.08, 0.12, 300) * f),
            99,
            method="inverted_cdf",
        )
        for f in OTHER
    ]
    assert change.candidate_s == pytest.approx(np.exp(np.log(values).mean()))


def test_outputs_cut_short_do_not_prove_that_e2e_did_not_grow() -> None:
    base, candidate = build(JITTER), build(slower(0.8), name="b")
    for run in candidate:
        run.evidence.output_tokens[:] = 61.0
    report = judge(make_policy(growth("e2e", 50, 0.05)), candidate, base, same_session=True)
    assert (only(report).verdict, only(report).cause) == (Verdict.INCONCLUSIVE, "evidence")
    assert "39.6% shorter" in only(report).reason
    allowed = judge(
        make_policy(growth("e2e", 50, 0.05)),
        candidate,
        base,
        same_session=True,
        allowed=frozenset({"output_tokens"}),
    )
    assert only(allowed).verdict is Verdict.PASS


def test_an_aggregate_gives_its_stated_percentile_and_no_other() -> None:
    def runs(factors: Any, name: str) -> list[Run]:
        return [
            make_run(
                Aggregate({"ttft": Summary(((50.0, 0.1 * f), (99.0, 0.3 * f)))}),
                counts=Counts(300, 300, 0),
                input=f"{name}{i}",
                sha256=f"{name}{i}",
            )
            for i, f in enumerate(factors)
        ]

    asked = make_policy(growth("ttft", 99, 0.05), growth("ttft", 90, 0.05))
    report = judge(asked, runs(slower(1.2), "b"), runs(JITTER, "a"), same_session=True)
    assert [(one.verdict, one.cause) for one in report.checks] == [
        (Verdict.FAIL, None),
        (Verdict.INCONCLUSIVE, "evidence"),
    ]


# ---- another benchmark -------------------------------------------------------------------------


REFUSED = [
    ({"tool": "aiperf"}, "tool", "another tool: tool is aiperf in the baseline and vllm in the results"),
    ({"model": "other"}, "model", "another model"),
    ({"hardware": "L4"}, "hardware", "another hardware"),
    ({"load": Load(concurrency=4)}, "load", "holds no run at concurrency 8"),
    ({"interaction": "voice"}, "interaction", "another interaction"),
]


@pytest.mark.parametrize(("facts", "key", "said"), REFUSED)
def test_a_baseline_of_another_benchmark_is_refused_unless_allowed_by_name(
    facts: dict[str, Any], key: str, said: str
) -> None:
    asked = make_policy(growth("ttft", 50, 0.05))
    candidate = build(JITTER, name="b", hardware="H100", interaction="agent")
    base = build(JITTER, name="a", **{"hardware": "H100", "interaction": "agent", **facts})
    with pytest.raises(InputError, match=said) as error:
        judge(asked, candidate, base, same_session=True)
    assert error.value.exit == 3
    assert f"--allow-baseline {key}" in error.value.hint
    report = judge(asked, candidate, base, same_session=True, allowed=frozenset({key}))
    assert only(report).observed == pytest.approx(0.0)


@pytest.mark.parametrize("prompts", ["other", "flat"])
def test_other_prompts_are_another_workload(prompts: str) -> None:
    base, candidate = build(JITTER), build(JITTER, name="b")
    for run in base:
        tokens = run.evidence.input_tokens
        tokens[:] = tokens * 2 if prompts == "other" else tokens.mean()
    with pytest.raises(InputError, match="another workload: prompts are") as error:
        judge(make_policy(growth("ttft", 50, 0.05)), candidate, base, same_session=True)
    assert "--allow-baseline input_tokens" in error.value.hint


def test_a_fact_that_one_side_does_not_state_is_said() -> None:
    report = judge(
        make_policy(growth("ttft", 50, 0.1)),
        build(JITTER, name="b", hardware="H100"),
        build(OTHER),
        same_session=True,
    )
    assert any("hardware is not stated in the baseline" in note for note in report.notes)


def test_a_build_is_not_compared_with_itself() -> None:
    runs = build(JITTER)
    with pytest.raises(InputError, match="holds what is among the results"):
        judge(make_policy(growth("ttft", 50, 0.05)), runs, runs, same_session=True)


def test_one_session_cannot_be_stated_of_files_that_name_two() -> None:
    base, candidate = build(JITTER, session="a"), build(JITTER, name="b", session="b")
    with pytest.raises(InputError, match="name 2 sessions"):
        judge(make_policy(growth("ttft", 50, 0.05)), candidate, base, same_session=True)


def test_loads_of_a_sweep_are_compared_one_by_one() -> None:
    base = build(JITTER) + build(JITTER, name="c", load=Load(concurrency=16))
    candidate = build(slower(1.2), name="b") + build(slower(1.4), name="d", load=Load(concurrency=16))
    found = compare_loads(candidate, Baseline(tuple(base), True), EvidenceRules())
    assert [(str(one.load), round(one.changes[0].growth, 6)) for one in found] == [
        ("concurrency 8", pytest.approx(0.2, abs=1e-3)),
        ("concurrency 16", pytest.approx(0.4, abs=1e-3)),
    ]


# ---- real runs ------------------------------------------------------------------------------


RULES = [(metric, percent) for metric in ("ttft", "tpot", "e2e") for percent in (50, 90, 99)]


def real(folder: str, first: int, last: int) -> list[Run]:
    files = [str(CHAT / folder / f"c016_run{i:02d}.json.gz") for i in range(first, last + 1)]
    return list(readers.read(files).runs)


@pytest.fixture(scope="module")
def nine() -> Policy:
    return make_policy(*(growth(m, p, 0.05) for m, p in RULES), evidence={"warmup": "auto"})


def test_three_runs_of_a_build_15_percent_slower_fail_all_nine_percentiles(nine: Policy) -> None:
    report = judge(nine, real("regressed", 1, 3), real("good", 1, 3), same_session=True)
    assert [one.verdict for one in report.checks] == [Verdict.FAIL] * 9
    assert (report.exit_code, "3 paired runs" in report.change) == (1, True)


def test_ten_runs_against_ten_of_the_same_build_fail_none(nine: Policy) -> None:
    report = judge(nine, real("good", 11, 20), real("good", 1, 10), same_session=True)
    assert all(one.verdict in (Verdict.PASS, Verdict.INCONCLUSIVE) for one in report.checks)


def test_the_same_difference_without_one_session_is_shown_and_only_warns(nine: Policy) -> None:
    report = judge(nine, real("regressed", 1, 3), real("good", 1, 3))
    assert [(one.verdict, one.level) for one in report.checks] == [(Verdict.FAIL, Level.WARN)] * 9
    assert (report.verdict, report.exit_code) == (Verdict.WARN, 0)


def test_the_shared_sweep_and_regression_say_the_same(shared: Path, nine: Policy) -> None:
    folder = shared / "results" / "vllm-0.33.0"
    base, candidate = (
        list(readers.read([str(folder / name / f"c016_run0{i}.json.gz") for i in (1, 2, 3)]).runs)
        for name in ("sweep", "regressed")
    )
    report = judge(nine, candidate, base, same_session=True)
    assert [one.verdict for one in report.checks] == [Verdict.FAIL] * 9


def test_a_policy_file_asks_for_growth_with_its_floor() -> None:
    text = b"version: 1\nslo: {ttft: {p99: 9s}}\nregression:\n"
    text += b"  ttft: {p50: {max: 5%, and_at_least: 1s}}\n  required: true\n"
    asked = policy.parse(text, "slo.yaml")
    rule = next(one for one in asked.objectives if one.id == "regression.ttft.p50")
    assert (rule.bound, rule.floor_s, rule.required, rule.share) == (0.05, 1.0, True, 0.5)
    report = judge(asked, real("regressed", 1, 3), real("good", 1, 3), same_session=True)
    assert only(report).verdict is Verdict.PASS  # 15 % slower, and far less than a second


def test_one_long_run_a_side_is_judged_by_its_blocks_and_what_one_run_cannot_show() -> None:
    rng = np.random.default_rng(5)
    runs = []
    for name, factor in (("a", 1.0), ("b", 1.3)):
        ttft = rng.lognormal(-2, 0.3, 3000) * factor
        runs.append([make_run(make_requests(ttft, ttft + 1, 100), input=name, sha256=name)])
    found = only(judge(make_policy(growth("ttft", 50, 0.05)), runs[1], runs[0], same_session=True))
    # even without any spread of its requests, a run of 3 % leaves 1.83 (t, 9 df) x 3 % x sqrt(2) = 7.8 %
    assert found.verdict is Verdict.FAIL
    assert found.interval is not None
    assert found.interval[0] < 1.3 * np.exp(-1.83 * 0.03 * np.sqrt(2)) - 1 + 0.02
