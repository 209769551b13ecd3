"""Goodput at moved bounds against counts by plain numpy, and suggested bounds against the judge itself."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from gate.advise.whatif import span, whatif
from gate.errors import InputError, UsageError
from gate.evaluate import evaluate
from gate.model import (
    Condition,
    Counts,
    Load,
    Policy,
    RequestBound,
    Requests,
    Run,
    Status,
    Verdict,
    When,
    Workload,
)
from tests.runs import goodput, latency, make_aggregate, make_policy, make_requests, make_run

TODAY = date(2026, 1, 1)
BOUNDS = {"ttft": 0.5, "tpot": 0.02, "e2e": 3.0}
TIGHT = {"ttft": 0.2, "tpot": 0.013, "e2e": 1.5}  # about the medians of `sample`
LOOSE = {"ttft": 1.0, "tpot": 0.03, "e2e": 6.0}  # beyond nearly all of it
POINT = {"decide": "point"}


def sample(n: int = 3000, seed: int = 2, failures: float = 0.01) -> Requests:
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1, 200, n).astype(float)
    ttft = rng.lognormal(-1.6, 0.5, n)
    e2e = ttft + (tokens - 1) * rng.lognormal(-4.3, 0.2, n)
    status = np.where(rng.random(n) < failures, Status.FAILED, Status.COMPLETED)
    return make_requests(ttft, e2e, tokens, status=status, n=n)


def good(rows: Requests, ttft: float, tpot: float, e2e: float) -> np.ndarray:
    """By the definitions alone; a single token has no TPOT to miss."""
    assert rows.ttft_s is not None
    assert rows.e2e_s is not None
    assert rows.output_tokens is not None
    several = rows.output_tokens > 1
    gaps = np.divide(rows.e2e_s - rows.ttft_s, rows.output_tokens - 1, out=np.zeros(len(rows)), where=several)
    return (rows.status == Status.COMPLETED) & (rows.ttft_s <= ttft) & (gaps <= tpot) & (rows.e2e_s <= e2e)


def moved(policy: Policy, metric: str, max_s: float) -> Policy:
    bounds = tuple(
        replace(bound, max_s=max_s) if bound.metric == metric else bound for bound in policy.goodput_bounds
    )
    return replace(policy, goodput_bounds=bounds)


# ---- goodput as one bound moves -----------------------------------------------------------


@pytest.mark.parametrize("metric", BOUNDS)
def test_goodput_at_each_bound_is_what_a_recount_gives_with_the_others_as_they_are(metric: str) -> None:
    rows = sample()
    found = whatif(make_policy(goodput(0.9), bounds=BOUNDS), [make_run(rows)])
    (move,) = [one for one in found.moves if one.metric == metric]
    assert len(move.points) == 11
    for point in move.points:
        count = int(good(rows, **{**BOUNDS, metric: point.max_s}).sum())
        assert (point.good, point.fraction) == (count, count / 3000)
    assert found.good == int(good(rows, **BOUNDS).sum())
    assert found.attempted == 3000


@pytest.mark.parametrize("decide", ["confident", "point"])
@pytest.mark.parametrize("metric", BOUNDS)
def test_the_verdict_at_each_bound_is_the_judge_s_own_at_that_bound(metric: str, decide: str) -> None:
    runs = [make_run(sample(400, seed), input=str(seed)) for seed in range(6)]
    policy = make_policy(goodput(0.9), bounds=BOUNDS, evidence={"decide": decide})
    (move,) = [one for one in whatif(policy, runs).moves if one.metric == metric]
    words = {Verdict.PASS: "pass", Verdict.FAIL: "fail", Verdict.INCONCLUSIVE: "undecided"}
    for point in move.points:
        (check,) = evaluate(moved(policy, metric, point.max_s), runs, TODAY).checks
        assert point.verdict == words[check.verdict], point


def clustered(slow: float = 1.0, n: int = 1000, seed: int = 4) -> Requests:
    """TPOT about 50 ms that wanders: neighbours are alike, so counting misses decides little."""
    rng = np.random.default_rng(seed)
    wander = np.zeros(n)
    for row in range(1, n):
        wander[row] = 0.98 * wander[row - 1] + np.sqrt(1 - 0.98**2) * rng.normal()
    return make_requests(0.05, 0.05 + 99 * 0.05 * np.exp(slow * wander))


@pytest.mark.parametrize("runs", [1, 6])
def test_where_room_decides_the_check_it_decides_what_if_too(runs: int) -> None:
    measured = [make_run(clustered(seed=4 + seed), input=str(seed)) for seed in range(runs)]
    policy = make_policy(latency("tpot", 90, 0.8), goodput(0.9), bounds={"tpot": 0.8})
    report = evaluate(policy, measured, TODAY)
    assert any("within the bound /" in check.reason for check in report.checks) or runs > 1
    found = whatif(policy, measured)
    words = {Verdict.PASS: "pass", Verdict.FAIL: "fail", Verdict.INCONCLUSIVE: "undecided"}
    for point in found.moves[0].points:
        trial = replace(moved(policy, "tpot", point.max_s), objectives=policy.objectives[1:])
        assert point.verdict == words[evaluate(trial, measured, TODAY).verdict], point
    assert found.verdict == words[next(c for c in report.checks if c.id == "goodput").verdict]
    for needed in (found.objectives[0].needed,):
        assert needed.confident is not None
        assert needed.point is not None
        assert needed.confident >= needed.point
        for bound, passes in ((needed.confident, True), (0.98 * needed.confident, False)):
            alone = (replace(policy.objectives[0], bound=bound),)
            trial = replace(policy, objectives=alone, goodput_bounds=())
            assert (evaluate(trial, measured, TODAY).verdict is Verdict.PASS) == passes, bound


def test_a_bound_beyond_every_value_passes_by_its_room_alone() -> None:
    # TPOT that creeps from 100 to 110 ms: 1000 requests worth about ten, so that no count of misses
    # decides, not even none of 1000; but P90 is surely far inside 200 ms.
    run = make_run(make_requests(0.05, 0.05 + 99 * np.linspace(0.100, 0.110, 1000)))
    policy = make_policy(latency("tpot", 90, 0.8))
    needed = whatif(policy, [run]).objectives[0].needed
    assert needed.confident is not None
    assert needed.confident > 0.110
    for bound, passes in ((needed.confident, True), (0.98 * needed.confident, False)):
        trial = make_policy(latency("tpot", 90, bound))
        assert (evaluate(trial, [run], TODAY).verdict is Verdict.PASS) == passes


def test_a_pass_that_check_would_not_believe_is_said() -> None:
    run = make_run(sample(400), doubts={"attempted": "failures have no row"})
    found = whatif(make_policy(goodput(0.5), bounds=LOOSE), [run])
    assert "check would not believe a pass here: run.json: failures have no row" in found.notes


def test_gains_are_counted_and_the_bound_that_most_miss_alone_binds() -> None:
    rows = sample()
    found = whatif(make_policy(goodput(0.9), bounds=BOUNDS), [make_run(rows)])
    now = good(rows, **BOUNDS).sum()
    alone = {}
    for move in found.moves:
        alone[move.id] = int(good(rows, **{**BOUNDS, move.metric: 1e9}).sum() - now)
        looser = good(rows, **{**BOUNDS, move.metric: 1.1 * BOUNDS[move.metric]}).sum() - now
        assert (move.only, move.gain_at_most) == (alone[move.id], alone[move.id] / 3000)
        assert move.gain_at_10_percent == looser / 3000
    assert found.binding == max(alone, key=lambda name: alone[name])


def test_no_bound_binds_where_every_miss_is_a_failure() -> None:
    rows = make_requests(0.1, 1.0, status=[Status.COMPLETED] * 90 + [Status.FAILED] * 10)
    found = whatif(make_policy(goodput(0.99), bounds=BOUNDS), [make_run(rows)])
    assert found.binding is None
    assert all(move.needed.point is None and "at most 90%" in move.needed.why for move in found.moves)


def test_a_bound_of_some_requests_moves_for_those_only() -> None:
    when = When((Condition("output_tokens", "<", 100),), "output_tokens<100")
    policy = replace(
        make_policy(goodput(0.5)), goodput_bounds=(RequestBound("e2e", 1.0, when), RequestBound("ttft", 0.5))
    )
    rows = make_requests(0.1, [0.9, 2.0, 2.0], [50, 50, 150])
    found = whatif(policy, [make_run(rows)], {"e2e": [0.5, 1.0, 2.5]})
    move = found.moves[0]
    assert move.id == "e2e[output_tokens<100]"
    assert [(point.max_s, point.good) for point in move.points] == [(0.5, 1), (1.0, 2), (2.5, 3)]


def test_a_range_is_tried_as_given_with_the_policy_s_own_bound_where_it_lies_in_it() -> None:
    found = whatif(make_policy(goodput(0.9), bounds=BOUNDS), [make_run(sample())], {"ttft": [0.3, 0.4, 0.6]})
    assert [point.max_s for point in found.moves[0].points] == [0.3, 0.4, 0.5, 0.6]
    outside = whatif(make_policy(goodput(0.9), bounds=BOUNDS), [make_run(sample())], {"ttft": [0.6, 0.8]})
    assert [point.max_s for point in outside.moves[0].points] == [0.6, 0.8]


# ---- the bound at which the target would be met -------------------------------------------


def test_the_estimate_is_the_order_statistic_rounded_up_to_three_digits() -> None:
    """1000 requests at TTFT 1, 2, ... 1000 ms: 95 % are good from 950 ms on, 123 of 1000 from 123 ms on."""
    run = make_run(make_requests(np.arange(1, 1001) / 1000))
    for share, wanted in ((0.95, 0.95), (0.123, 0.123), (1.0, 1.0)):
        found = whatif(make_policy(goodput(share), bounds={"ttft": 0.5}, evidence=POINT), [run])
        assert found.moves[0].needed.point == wanted
        assert found.moves[0].needed.confident is None
    exact = make_run(make_requests(np.arange(1, 1001) * 1.00037e-3))
    found = whatif(make_policy(goodput(0.95), bounds={"ttft": 0.5}, evidence=POINT), [exact])
    assert found.moves[0].needed.point == 0.951  # 950.35 ms, never rounded down


@pytest.mark.parametrize("metric", BOUNDS)
@pytest.mark.parametrize("runs", [1, 6])
def test_with_confidence_the_judge_passes_at_the_suggested_bound_and_not_well_below_it(
    metric: str, runs: int
) -> None:
    measured = [make_run(sample(3000 // runs, seed, 0.0), input=str(seed)) for seed in range(runs)]
    policy = make_policy(goodput(0.9), bounds={**LOOSE, metric: TIGHT[metric]})
    (move,) = [one for one in whatif(policy, measured).moves if one.metric == metric]
    suggested, estimate = move.needed.confident, move.needed.point
    assert suggested is not None
    assert estimate is not None
    assert estimate <= suggested

    def verdict(max_s: float) -> Verdict:
        (check,) = evaluate(moved(policy, metric, max_s), measured, TODAY).checks
        return check.verdict

    assert verdict(suggested) is Verdict.PASS
    assert verdict(0.985 * suggested) is not Verdict.PASS


def test_few_requests_show_nothing_at_any_bound_though_the_estimate_would_do() -> None:
    found = whatif(make_policy(goodput(0.99), bounds={"ttft": 0.5}), [make_run(make_requests([0.4] * 60))])
    needed = found.moves[0].needed
    assert needed.point == 0.4
    assert needed.confident is None
    assert "none is enough to show it: at most 100% of 60 can meet it" in needed.why


@pytest.mark.parametrize("decide", ["confident", "point"])
def test_a_percentile_would_pass_at_its_suggested_bound_by_the_judge_s_own_word(decide: str) -> None:
    runs = [make_run(sample(4000, 5, 0.0))]
    policy = make_policy(latency("ttft", 90, 0.3), latency("e2e", 99, 9.0), evidence={"decide": decide})
    found = whatif(policy, runs)
    assert found.good is None
    assert found.moves == ()
    assert [one.id for one in found.objectives] == ["ttft.p90", "e2e.p99"]
    values = np.sort(runs[0].evidence.ttft_s)  # type: ignore[union-attr]
    assert found.objectives[0].needed.point == pytest.approx(values[3599], rel=0.006)
    for objective, one in zip(policy.objectives, found.objectives, strict=True):
        suggested = one.needed.point if decide == "point" else one.needed.confident
        assert suggested is not None
        for bound, passes in ((suggested, True), (0.98 * suggested, False)):
            trial = replace(policy, objectives=(replace(objective, bound=bound),))
            (check,) = evaluate(trial, runs, TODAY).checks
            assert (check.verdict is Verdict.PASS) == passes


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0.01, 2.0), min_size=1, max_size=60),
    st.floats(0.0, 0.3),
    st.sampled_from([0.5, 0.9, 0.99, 1.0]),
)
def test_the_estimate_meets_the_target_and_nothing_a_hundredth_below_does(
    ttft: list[float], failed: float, share: float
) -> None:
    status = np.where(np.arange(len(ttft)) < failed * len(ttft), Status.FAILED, Status.COMPLETED)
    rows = make_requests(ttft, 5.0, status=status)
    found = whatif(make_policy(goodput(share), bounds={"ttft": 0.5}, evidence=POINT), [make_run(rows)])
    bound = found.moves[0].needed.point
    done = rows.status == Status.COMPLETED

    def met(max_s: float) -> bool:
        count = int((done & (np.array(ttft) <= max_s)).sum())
        return count * 100 >= round(share * 100) * len(ttft)

    if bound is None:
        assert not met(np.inf)
    else:
        assert met(bound)
        assert not met(0.98 * bound)


# ---- two bounds at once -------------------------------------------------------------------


def test_each_cell_of_the_grid_is_a_recount_at_its_two_bounds() -> None:
    rows = sample()
    ranges = {"ttft": [0.2, 0.3, 0.5, 0.9], "tpot": [0.012, 0.02, 0.03]}
    grid = whatif(make_policy(goodput(0.9), bounds=BOUNDS), [make_run(rows)], ranges).grid
    assert grid is not None
    assert (grid.x, grid.y) == ("ttft", "tpot")
    assert (grid.x_max_s, grid.y_max_s) == ((0.2, 0.3, 0.5, 0.9), (0.012, 0.02, 0.03))
    for y, line in zip(grid.y_max_s, grid.fraction, strict=True):
        for x, cell in zip(grid.x_max_s, line, strict=True):
            assert cell == good(rows, ttft=x, tpot=y, e2e=3.0).sum() / 3000


def test_without_ranges_the_grid_is_of_the_two_bounds_that_bind_most() -> None:
    rows = make_requests([0.1] * 85 + [0.9] * 5 + [0.1] * 10, [1.0] * 90 + [4.0] * 10, [400.0] * 100)
    grid = whatif(make_policy(goodput(0.9), bounds=BOUNDS), [make_run(rows)]).grid
    assert grid is not None
    assert (grid.x, grid.y) == ("ttft", "e2e")
    assert whatif(make_policy(goodput(0.9), bounds={"ttft": 0.5}), [make_run(rows)]).grid is None


# ---- what cannot be asked -----------------------------------------------------------------


def facts_of(error: pytest.ExceptionInfo[Any]) -> str:
    return f"{error.value.where}: {error.value.message}; {error.value.hint}"


def test_what_has_no_bound_cannot_move() -> None:
    run = make_run(sample(200))
    with pytest.raises(UsageError, match="no per-request bound on E2E"):
        whatif(make_policy(goodput(0.9), bounds={"ttft": 0.5}), [run], {"e2e": [1.0, 2.0]})
    with pytest.raises(UsageError, match="neither goodput nor a percentile"):
        whatif(make_policy(), [run])


def test_percentiles_alone_and_several_loads_are_refused_with_what_to_do() -> None:
    policy = make_policy(goodput(0.9), bounds={"ttft": 0.5})
    aggregate = make_run(make_aggregate(n=100, ttft={99.0: 0.4}), counts=Counts(100, 100, 0))
    with pytest.raises(InputError) as error:
        whatif(policy, [aggregate])
    assert "what-if counts requests; `--save-detailed`" in facts_of(error)
    loads = [make_run(sample(200), load=Load(concurrency=c)) for c in (4, 8)]
    with pytest.raises(InputError, match="2 loads"):
        whatif(policy, loads)
    target = replace(policy, workload=Workload(target=Load(concurrency=8)))
    assert whatif(target, loads).attempted == 200


def test_a_metric_that_must_not_be_judged_is_refused_with_its_reason() -> None:
    run: Run = make_run(sample(200), doubts={"tpot": "in one piece"})
    with pytest.raises(InputError, match="in one piece"):
        whatif(make_policy(goodput(0.9), bounds=BOUNDS), [run])
    found = whatif(make_policy(latency("tpot", 90, 0.1)), [run])
    assert found.objectives[0].needed.why == "in one piece"


def test_a_range_has_ten_steps_or_its_own_and_both_ends() -> None:
    assert span(0.01, 0.03) == (0.01, 0.012, 0.014, 0.016, 0.018, 0.02, 0.022, 0.024, 0.026, 0.028, 0.03)
    assert span(0.1, 0.35, 0.1) == (0.1, 0.2, 0.3, 0.35)
    for wrong in ((0.0, 1.0), (2.0, 1.0), (1.0, 1.0)):
        with pytest.raises(UsageError, match="from a lower bound above 0 to a higher one"):
            span(*wrong)
    with pytest.raises(UsageError, match="too fine"):
        span(0.001, 10.0, 0.001)
