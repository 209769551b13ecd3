"""What is run in which order, and when it is looked at."""

from __future__ import annotations

from datetime import date
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gate import stats
from gate.bench.plan import (
    BASELINE,
    CANDIDATE,
    CLUSTERS,
    Budget,
    Plan,
    Point,
    Side,
    Slot,
    Spent,
    check_command,
    fill,
    groups,
    look_due,
    points,
    redacted,
    used,
)
from gate.bench.stopping import hopeless, settled
from gate.errors import UsageError
from gate.evaluate import evaluate
from gate.model import Level, Load, Workload
from tests.runs import goodput, latency, make_policy, make_requests, make_run, rule

TARGET = Point("8", Load(concurrency=8), True)
ONE = (Side(CANDIDATE, ("bench", "--out", "{out}")),)
TWO = (Side(BASELINE, ("bench", "--out", "{out}")), *ONE)


def plan(runs: int = 30, **facts: Any) -> Plan:
    budget = Budget(runs, facts.pop("requests", None), facts.pop("wall_s", None))
    return Plan(facts.pop("sides", ONE), facts.pop("points", (TARGET,)), budget, **facts)


def looks(asked: Plan, per_round: int = 300, each_s: float = 10.0) -> list[tuple[int, int]]:
    """(look, rounds) of every look when nothing is ever decided."""
    found: list[tuple[int, int]] = []
    for rounds in range(1, asked.budget.runs + 1):
        spent = Spent(rounds, rounds * per_round, rounds * each_s, each_s)
        if number := look_due(asked, spent, found[-1][0] if found else 0):
            found.append((number, rounds))
        if used(asked, spent) >= 1:
            break
    return found


# ---- looks --------------------------------------------------------------------------------


def test_thirty_rounds_are_looked_at_after_every_fifth_of_them() -> None:
    assert looks(plan()) == [(1, 6), (2, 12), (3, 18), (4, 24), (5, 30)]


def test_a_budget_of_requests_sets_the_looks_where_it_is_used_up_first() -> None:
    assert looks(plan(100, requests=3000)) == [(1, 2), (2, 4), (3, 6), (4, 8), (5, 10)]


def test_no_run_is_begun_that_may_not_end_within_the_time() -> None:
    # ten seconds a round: 9 rounds fit into 95 s, a tenth would end at 100 s
    assert looks(plan(100, wall_s=95.0))[-1] == (5, 9)


@given(
    runs=st.integers(1, 60),
    number=st.integers(1, 10),
    requests=st.one_of(st.none(), st.integers(1, 20_000)),
    wall_s=st.one_of(st.none(), st.floats(1, 500)),
)
def test_there_are_never_more_looks_than_alpha_was_divided_for(
    runs: int, number: int, requests: int | None, wall_s: float | None
) -> None:
    asked = plan(runs, looks=number, requests=requests, wall_s=wall_s)
    found = looks(asked)
    assert len(found) <= asked.planned_looks
    assert found[-1][0] == asked.planned_looks, "the last look is when the budget is spent"


def test_a_benchmark_is_looked_at_from_as_many_runs_as_make_an_interval() -> None:
    """The room that repeats commands knows no statistics; its number is theirs."""
    assert CLUSTERS == stats.MIN_RUNS


def test_a_look_of_five_is_judged_at_a_fifth_of_alpha() -> None:
    ttft = np.where(np.random.default_rng(3).random(2000) < 0.01, 1.0, 0.1)
    runs = [make_run(make_requests(part, part + 1)) for part in np.split(ttft, 5)]
    rules = goodput(0.95), latency("ttft", 90, 0.5)
    fifth = evaluate(make_policy(*rules, bounds={"ttft": 0.5}), runs, date(2027, 1, 1), looks=5)
    strict = make_policy(*rules, bounds={"ttft": 0.5}, evidence={"confidence": 0.99})
    alone = evaluate(strict, runs, date(2027, 1, 1))
    assert [one.interval for one in fifth.checks] == [one.interval for one in alone.checks]
    assert "99.5%" in fifth.checks[0].reason, "one-sided 1 - 0.05 / 5 / 2"


# ---- stopping -------------------------------------------------------------------------------


def report(*objectives: Any, misses: float, n: int = 3000, **facts: Any) -> Any:
    ttft = np.where(np.arange(n) % 1000 < misses * 1000, 1.0, 0.1)
    np.random.default_rng(1).shuffle(ttft)
    policy = make_policy(*objectives, bounds={"ttft": 0.5}, **facts)
    return evaluate(policy, [make_run(make_requests(ttft, ttft + 1))], date(2027, 1, 1), looks=5)


def test_a_failed_blocking_objective_makes_the_verdict_certain() -> None:
    found = report(goodput(0.95), latency("ttft", 99.9, 2.0), misses=0.2)
    assert settled(found, "verdict", spread=False).startswith("goodput fails")
    assert settled(found, "all", spread=True) == "", "P99.9 of 3000 requests is not decided"


def test_nothing_passes_before_there_are_runs_enough_to_see_their_spread() -> None:
    found = report(goodput(0.95), misses=0.001)
    assert settled(found, "verdict", spread=True) == "every blocking objective is decided"
    assert settled(found, "verdict", spread=False) == ""


def test_an_undecided_warning_does_not_hold_up_the_verdict() -> None:
    found = report(goodput(0.95), latency("ttft", 99.9, 0.5, level=Level.WARN), misses=0.001)
    assert settled(found, "verdict", spread=True)
    assert settled(found, "all", spread=True) == ""


def test_a_benchmark_of_another_model_is_beyond_help() -> None:
    facts = {"workload": Workload(model="llama-*")}
    assert "workload.model" in hopeless(
        report(goodput(0.95), rule("workload.model"), misses=0, **facts), False
    )
    warned = report(goodput(0.95), rule("workload.model", Level.WARN), misses=0, **facts)
    assert hopeless(warned, False) == ""


def test_too_few_runs_so_far_are_not_beyond_help() -> None:
    found = report(goodput(0.95), rule("evidence.runs"), misses=0, evidence={"runs_min": 5})
    assert hopeless(found, False) == ""
    assert settled(found, "verdict", spread=True) == ""


# ---- order, seeds, loads ----------------------------------------------------------------------


def test_the_sides_are_run_in_turn_with_the_same_seed() -> None:
    slots = [slot for group in groups(plan(3, sides=TWO, seed=10)) for slot in group]
    assert [(slot.side, slot.seed) for slot in slots] == [
        (BASELINE, 10),
        (CANDIDATE, 10),
        (BASELINE, 11),
        (CANDIDATE, 11),
        (BASELINE, 12),
        (CANDIDATE, 12),
    ]


@given(runs=st.integers(1, 40), loads=st.integers(1, 5), seed=st.integers(0, 100))
def test_no_server_gets_the_same_seed_twice_and_no_two_runs_share_a_folder(
    runs: int, loads: int, seed: int
) -> None:
    sweep = tuple(Point(str(n + 1), Load(concurrency=n + 1), n == 0) for n in range(loads))
    slots = [slot for group in groups(plan(runs, points=sweep, seed=seed, sides=TWO)) for slot in group]
    assert len({slot.key for slot in slots}) == len(slots)
    mine = [slot.seed for slot in slots if slot.side == CANDIDATE]
    assert len(set(mine)) == len(mine)
    assert mine == [slot.seed for slot in slots if slot.side == BASELINE]


def test_a_sweep_is_measured_in_the_first_five_rounds_and_the_target_in_all() -> None:
    policy = make_policy(
        goodput(0.95), workload=Workload(target=Load(concurrency=64), sweep=(0.25, 0.5, 1.0, 1.5))
    )
    found = points(policy, [["bench", "-c", "{load}", "{out}"]])
    assert [point.text for point in found] == ["64", "16", "32", "96"]
    slots = [slot for group in groups(plan(8, points=found)) for slot in group]
    assert sum(slot.point.text == "64" for slot in slots) == 8
    assert sum(slot.point.text == "96" for slot in slots) == 5


def test_a_rate_is_written_without_an_exponent_or_rounding() -> None:
    policy = make_policy(goodput(0.95), workload=Workload(target=Load(request_rate=2.5), sweep=(0.25,)))
    assert [point.text for point in points(policy, [["{load}", "{out}"]])] == ["2.5", "0.625"]


def test_a_load_that_the_policy_does_not_declare_is_refused() -> None:
    with pytest.raises(UsageError, match="declares none"):
        points(make_policy(goodput(0.95)), [["bench", "{load}", "{out}"]])


# ---- the command ------------------------------------------------------------------------------


def test_placeholders_are_filled_and_other_braces_left_alone() -> None:
    slot = Slot(3, CANDIDATE, TARGET, 17)
    words = ["--c={load}", "--seed", "{seed}", "{run}", '{"a": {"b": 1}}', "{out}", "{dir}/x", "{nothing}"]
    folder = Path("s") / "candidate"
    assert fill(words, slot, folder) == [
        "--c=8",
        "--seed",
        "17",
        "3",
        '{"a": {"b": 1}}',
        str(folder / "result.json"),
        f"{folder}/x",
        "{nothing}",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bench", "--seed", "{seed}"], "where its result goes"),
        (["bench", "{out}", "{laod}"], "{laod} is no placeholder"),
    ],
)
def test_a_command_that_cannot_work_is_refused_before_it_is_run(words: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_command(words, "COMMAND")
    assert said in str(caught.value)


def test_no_budget_is_ever_used_up_by_nothing() -> None:
    assert used(plan(5, requests=10, wall_s=inf), Spent()) == 0


@pytest.mark.parametrize(
    ("words", "stored"),
    [
        (["--api-key", "sk-1", "-c", "4"], ["--api-key", "***", "-c", "4"]),
        (["--api-key=sk-1"], ["--api-key=***"]),
        (["OPENAI_API_KEY=sk-1", "bench"], ["OPENAI_API_KEY=***", "bench"]),
        (["--header", "Authorization: Bearer sk-1"], ["--header", "Authorization: ***"]),
        (["--url", "https://u:pw@host/v1"], ["--url", "https://u:***@host/v1"]),
        (["--hf-token", "hf_1"], ["--hf-token", "***"]),
        (["--tokenizer", "t", "--input-tokens", "8"], ["--tokenizer", "t", "--input-tokens", "8"]),
        (
            ["--extra", '{"max_tokens": 8}', "https://host/v1"],
            ["--extra", '{"max_tokens": 8}', "https://host/v1"],
        ),
    ],
    ids=range(8),
)
def test_keys_are_not_stored_with_the_command(words: list[str], stored: list[str]) -> None:
    assert redacted(words) == stored
