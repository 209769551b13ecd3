"""Verdicts on the simulated servers of simulator.py, and the second way to a PASS.

For each scenario a long trace gives the truth: the bound that each share of requests meets, exactly on it and
with 0.1 to 5 times the misses it allows. Then short benchmarks of the same server are judged by ours (and, on
the bound, by the point estimate, by Clopper-Pearson on requests taken for independent, and by the rule of
MLPerf LoadGen, which is the same at 99 %). A single run is warm; repeated runs start cold, each at a speed of
its own.

The second way to a PASS under study (`headroom_pass`) asks for a quantile far inside its bound instead of for
few misses. `main` of calibrate.py prints the tables and holds the limits.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

import numpy as np
import simulator
from numpy.typing import NDArray
from scipy.special import betainc

from gate import stats

Floats = NDArray[np.float64]
Key = tuple[str, str, str, str, str]  # design, rule, method, at (multiple or headroom), verdict

ALPHA = 0.05
LOADGEN = 0.01  # 1 - the confidence of its early stopping
SPEED_SIGMA = 0.03  # of the logarithm, between runs
WARMUP = 2000  # requests before a single run
MULTIPLES = (1.0, 0.1, 0.5, 2.0, 5.0)  # of the misses the bound allows; 1 is the boundary
ROOM = 1.25  # the second way asks for a quantile below bound / ROOM
FARTHER = (1.5, 2.0, 10.0)  # bound / true quantile, where only the second way may see the room
SECOND_SHARES = (0.5, 0.9, 0.95)  # never P99


class Rule(NamedTuple):
    """What is judged: a percentile of one column, or the goodput of both."""

    name: str
    columns: tuple[str, ...]
    share: float


class Design(NamedTuple):
    """A benchmark: runs of n requests."""

    runs: int
    n: int
    repetitions: int

    @property
    def name(self) -> str:
        return f"{self.runs} x {self.n}"


RULES = tuple(
    Rule(f"P{100 * share:g} {column.upper()}", (column,), share)
    for column in ("ttft", "tpot")
    for share in (0.5, 0.9, 0.99)
) + tuple(Rule(f"goodput {100 * share:g} %", ("ttft", "tpot"), share) for share in (0.9, 0.95, 0.99))


class Plan(NamedTuple):
    """How much is simulated."""

    truth: int  # requests of the long trace
    truth_runs: int
    designs: tuple[Design, ...]
    scenarios: tuple[str, ...]


FULL = Plan(
    8_000_000,
    6000,
    (
        *(Design(1, 1000, 200), Design(1, 3000, 200), Design(1, 10000, 100)),
        *(Design(5, 300, 200), Design(10, 300, 200), Design(30, 300, 200)),
    ),
    tuple(simulator.SCENARIOS),
)
QUICK = Plan(
    1_000_000,
    1000,
    (Design(1, 1000, 40), Design(10, 300, 40)),
    ("open, 65 %", "open, 90 %", "closed, 32"),
)

Columns = dict[str, Floats]


def columns(trace: simulator.Trace) -> Columns:
    return {"ttft": trace.ttft_s, "tpot": trace.tpot_s}


def benchmark(name: str, design: Design, seed: int) -> list[Columns]:
    """One benchmark: columns of each run."""
    scenario = simulator.SCENARIOS[name]
    if design.runs == 1:
        return [columns(simulator.simulate(scenario, design.n, seed, WARMUP))]
    speeds = np.exp(SPEED_SIGMA * np.random.default_rng(seed).standard_normal(design.runs))
    return [
        columns(simulator.simulate(scenario.at_speed(float(speed)), design.n, seed * 1000 + run))
        for run, speed in enumerate(speeds)
    ]


def truth(name: str, repeated: bool, plan: Plan) -> Columns:
    """The long trace: one warm run, or what infinitely many cold runs of 300 would give."""
    if not repeated:
        return benchmark(name, Design(1, plan.truth, 1), seed=4242)[0]
    runs = benchmark(name, Design(plan.truth_runs, 300, 1), seed=4243)
    return {column: np.concatenate([run[column] for run in runs]) for column in runs[0]}


class Bounds:
    """The true bounds of one scenario, by rule and share of misses."""

    def __init__(self, trace: Columns) -> None:
        self.sorted = {name: np.sort(column) for name, column in trace.items()}
        ranks = [np.searchsorted(self.sorted[name], trace[name], side="right") for name in trace]
        self.joint = np.sort(np.maximum(*ranks))  # a request is within rank r of both, or it is not

    def of(self, rule: Rule, multiple: float) -> Columns:
        """Bounds in s that `multiple` times the allowed odds of a miss break."""
        odds = multiple * (1.0 - rule.share) / rule.share
        position = math.ceil(self.joint.size / (1.0 + odds)) - 1
        rank = position if len(rule.columns) == 1 else int(self.joint[position]) - 1
        # Goodput: both bounds at one rank of their own column, where the joint share is the one asked for.
        return {name: self.sorted[name][min(rank, self._last(name))] for name in rule.columns}

    def _last(self, name: str) -> int:
        return int(np.searchsorted(self.sorted[name], np.inf)) - 1  # the failed have no bound


def scores(runs: list[Columns], bounds: Columns) -> list[Floats]:
    """Value / bound of each request, the larger where there are two: at most 1 is good."""
    return [
        np.max([run[name] / bound for name, bound in bounds.items()], axis=0)
        if len(bounds) > 1
        else next(run[name] / bound for name, bound in bounds.items())
        for run in runs
    ]


def headroom_pass(runs: list[Floats], share: float, alpha: float = ALPHA) -> bool:
    """The second way: the 1 - alpha/2 upper t bound of the logarithm of the quantile is at most bound / ROOM.

    Over runs, or ten blocks of one sequence. The estimate is no better than the quantile of all requests: a
    quantile of short blocks is too low where a few of them hold the whole tail.
    """
    column = np.concatenate(runs)
    units = runs if len(runs) >= stats.MIN_RUNS else np.array_split(column, 10)
    logs = np.array([stats.nearest_rank(unit, share) for unit in units])
    if not np.isfinite(logs).all():
        return False
    logs = np.log(logs)
    error = float(logs.std(ddof=1)) / math.sqrt(len(logs))
    estimate = max(float(logs.mean()), math.log(stats.nearest_rank(column, share)))
    upper = estimate + stats.t_quantile(1.0 - alpha / 2.0, len(logs) - 1) * error
    return upper <= -math.log(ROOM)


def independent(n: int, met: int, share: float, alpha: float) -> str:
    """Clopper-Pearson as if requests were independent, by scipy: ours at 95 %, LoadGen's at 99 %."""
    if stats.share_met(n, met, share):
        return "pass" if betainc(met, n - met + 1, share) <= alpha else "undecided"
    return "fail" if met == n or betainc(met + 1, n - met, share) >= 1.0 - alpha else "undecided"


def study(job: tuple[str, bool, Plan]) -> tuple[str, Counter[Key]]:
    """All designs of one scenario, single or repeated, and how often each method said what."""
    name, repeated, plan = job
    bounds = Bounds(truth(name, repeated, plan))
    at = {(rule, m): bounds.of(rule, m) for rule in RULES for m in MULTIPLES}
    counts: Counter[Key] = Counter()
    for number, design in enumerate(plan.designs):
        if (design.runs > 1) != repeated:
            continue
        for repetition in range(design.repetitions):
            runs = benchmark(name, design, seed=(number + 1) * 1_000_000 + repetition)
            for rule in RULES:
                judge(counts, design, rule, runs, at)
    return name, counts


def judge(
    counts: Counter[Key],
    design: Design,
    rule: Rule,
    runs: list[Columns],
    at: dict[tuple[Rule, float], Columns],
) -> None:
    """Count the verdicts of every method on one benchmark and rule."""
    for multiple in MULTIPLES:
        scored = scores(runs, at[rule, multiple])
        test = stats.test_share(stats.units(scored, rule.share), rule.share, alpha=ALPHA)
        where = f"x{multiple:g}"
        counts[design.name, rule.name, "ours", where, test.verdict] += 1
        if multiple == 1.0:
            for method, alpha in (("iid", ALPHA), ("loadgen", LOADGEN)):
                said = independent(test.n, test.met, rule.share, alpha)
                counts[design.name, rule.name, method, where, said] += 1
            said = "pass" if stats.share_met(test.n, test.met, rule.share) else "fail"
            counts[design.name, rule.name, "point", where, said] += 1
        if rule.share in SECOND_SHARES and multiple >= 1.0:
            second = test.verdict == "pass" or headroom_pass(scored, rule.share)
            counts[design.name, rule.name, "second", where, "pass" if second else "other"] += 1
    for room in FARTHER if rule.share in SECOND_SHARES else ():
        scored = [score / room for score in scores(runs, at[rule, 1.0])]
        test = stats.test_share(stats.units(scored, rule.share), rule.share, alpha=ALPHA)
        where = f"bound x{room:g}"
        counts[design.name, rule.name, "ours", where, test.verdict] += 1
        second = test.verdict == "pass" or headroom_pass(scored, rule.share)
        counts[design.name, rule.name, "second", where, "pass" if second else "other"] += 1
