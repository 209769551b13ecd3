"""Verdicts on simulated servers that queue: ours beside its rivals, on the same benchmarks.

Each family is a kind of server (simulator.py) under five loads: a closed loop of a third of its slots and one
of half more than all, an open loop at 50, 70 and 90 % of its capacity. Long simulations give the
truth: the bounds that exactly the allowed share of requests misses, a quarter of it, or five times. Goodput
has a bound each on TTFT, TPOT and E2E, at one rank of their own column. Then benchmarks are judged: one run
of 500, 1500 or 3000 requests (warm), and five or ten runs of 300, each on a node of its own (speeds differ by
3 or 4 %), cold or warm by family.

Single runs are cut from one long trace with 2000 requests between them, several times what a queue lasts in
all but the loads at 90 %; where nodes differ, each is a trace of its own. A run of 500 is the begin of one of
1500, that of one of 3000. Repeated runs are simulated one by one.

The rules were chosen on CHOOSING, servers written by hand, and are reported on TESTING: servers drawn at
random, so that nobody could choose them, and with other seeds. Nothing was changed after a look at the second
but what docs/statistics.md says.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import verdicts
from numpy.typing import NDArray
from simulator import Engine, Load, Work, capacity, simulate

Floats = NDArray[np.float64]


class Family(NamedTuple):
    """A kind of server."""

    name: str
    engine: Engine
    work: Work
    node_sigma: float = 0.0  # of the logarithm of the speed, between single runs; repeated have 3 % at least
    burst: float = 1.0  # rate in a burst over the mean one, of open loops
    burst_s: float = 5.0
    cold: bool = True  # whether repeated runs are


CHOOSING = (
    Family("plain", Engine(), Work()),
    Family(
        "cache",
        Engine(slots=128, kv_tokens=45_000, per_cached_token_s=1e-7),
        Work(long_share=0.1, prefixes=20),
        burst=1.8,
        cold=False,
    ),
    Family("slow phases", Engine(chunk_tokens=0, slow_every_s=40.0), Work(output_sigma=1.0), node_sigma=0.03),
    Family(
        "large",
        Engine(15e-3, 5e-5, 4e-8, 2.5e-5, slots=256, chunk_tokens=2048, kv_tokens=180_000),
        Work(900.0, 0.6, output=250.0, output_sigma=0.9, prefixes=50),
        node_sigma=0.03,
        cold=False,
    ),
    Family(
        "small",
        Engine(5e-3, 2e-4, slots=24, chunk_tokens=256, kv_tokens=16_000),
        Work(250.0, long_share=0.2, long_prompt=2500.0, output=100.0, output_sigma=0.5),
    ),
    Family(
        "bursts",
        Engine(10e-3, slots=96, chunk_tokens=1024, kv_tokens=60_000),
        Work(long_share=0.05, output=200.0, prefixes=10),
        burst=2.0,
        burst_s=8.0,
    ),
    Family(
        "rough",
        Engine(
            per_prefill_token_s=2e-5,
            slots=48,
            chunk_tokens=0,
            slow_every_s=60.0,
            slow_for_s=6.0,
            slow_factor=1.6,
        ),
        Work(400.0, output=120.0, output_sigma=1.2),
        node_sigma=0.04,
        cold=False,
    ),
)


def drawn(seed: int, number: int) -> tuple[Family, ...]:
    """Servers of random sizes, each feature that is hard on a verdict in about half of them."""
    rng = np.random.default_rng(seed)

    def some(low: float, high: float, share: float = 0.5) -> float:
        return float(rng.uniform(low, high)) if rng.random() < share else 0.0

    families = []
    for i in range(number):
        slots = int(rng.choice([24, 48, 64, 96, 128, 256]))
        engine = Engine(
            step_s=float(rng.uniform(5e-3, 15e-3)),
            per_sequence_s=float(np.exp(rng.uniform(np.log(3e-5), np.log(2e-4)))),
            per_cached_token_s=some(2e-8, 1e-7),
            per_prefill_token_s=float(rng.uniform(2e-5, 6e-5)),
            slots=slots,
            chunk_tokens=int(rng.choice([0, 256, 512, 1024, 2048])),
            kv_tokens=int(max(some(350.0, 750.0) * slots, 0.0)),
            slow_every_s=some(30.0, 90.0),
            slow_for_s=float(rng.uniform(3.0, 8.0)),
            slow_factor=float(rng.uniform(1.4, 2.0)),
        )
        work = Work(
            prompt=float(rng.uniform(250.0, 900.0)),
            prompt_sigma=float(rng.uniform(0.6, 0.9)),
            long_share=some(0.05, 0.2),
            long_prompt=float(rng.uniform(2000.0, 4000.0)),
            output=float(rng.uniform(100.0, 250.0)),
            output_sigma=float(rng.uniform(0.5, 1.2)),
            prefixes=int(some(10.0, 50.0)),
        )
        node_sigma, burst = some(0.02, 0.04), 1.0 + some(0.5, 1.2)
        families.append(
            Family(
                "ABCDEFGHIJ"[i],
                engine,
                work,
                node_sigma,
                burst,
                float(rng.uniform(4, 10)),
                bool(rng.random() < 0.5),
            )
        )
    return tuple(families)


def described(family: Family) -> str:
    """Its features, for a table."""
    engine, work = family.engine, family.work
    return ", ".join(
        text
        for text, has in (
            (f"{engine.slots} slots", True),
            (f"chunks of {engine.chunk_tokens}" if engine.chunk_tokens else "whole prompts", True),
            (f"KV {engine.kv_tokens:,}", engine.kv_tokens),
            (f"{work.long_share:.0%} long prompts", work.long_share),
            (f"prompt {work.prompt:.0f}, output {work.output:.0f} (sigma {work.output_sigma:.1f})", True),
            (f"{work.prefixes} prefixes", work.prefixes),
            (f"slow x{engine.slow_factor:.1f} every {engine.slow_every_s:.0f} s", engine.slow_every_s),
            (f"bursts x{family.burst:.1f}", family.burst > 1.0),
            (f"nodes {family.node_sigma:.1%}", family.node_sigma),
            ("cold" if family.cold else "warm", True),
        )
        if has
    )


TESTING = drawn(20261201, 6)
LOADS = ("closed", "closed, queue", "open 50 %", "open 70 %", "open 90 %")
LIGHT = ("closed", "open 50 %")


class Rule(NamedTuple):
    """What is judged: a percentile of one column, or the goodput of all three."""

    name: str
    columns: tuple[int, ...]
    share: float


RULES = tuple(
    Rule(f"P{100 * share:g} {name}", (column,), share)
    for column, name in enumerate(("TTFT", "TPOT", "E2E"))
    for share in (0.5, 0.9, 0.99)
) + tuple(Rule(f"goodput {100 * share:g} %", (0, 1, 2), share) for share in (0.95, 0.99))
MULTIPLES = (1.0, 0.25, 5.0)  # of the odds of a miss that the bound allows; 1 is the boundary
DESIGNS = ((1, 500), (1, 1500), (1, 3000), (5, 300), (10, 300))
METHODS = ("point", "independent", "LoadGen", "batch means", "before", "ours", "ours, no run_spread")
GAP, WARMUP, RUN_WARMUP, MOST = 2000, 3000, 600, 3000
NOTE, NEAR_CAPACITY = "near capacity", 20.0  # from this deff of the P90 TTFT on a report says so
SEEDS = {"choosing": 10_000_000, "testing": 20_000_000}


class Plan(NamedTuple):
    """How much is simulated."""

    families: tuple[Family, ...]
    loads: tuple[str, ...]
    repetitions: int
    designs: tuple[tuple[int, int], ...] = DESIGNS
    seed: int = SEEDS["testing"]


FULL = Plan(TESTING, LOADS, 100)
QUICK = Plan(CHOOSING[4:5], ("closed", "open 90 %"), 60, ((1, 1500), (10, 300)))

Key = tuple[str, str, str, str, float, str]  # design, family, load, rule, multiple, method
Rates = dict[Key, tuple[float, float]]  # false or right PASS and FAIL, %


def load_of(family: Family, load: str) -> Load:
    if load.startswith("closed"):
        return Load(in_flight=family.engine.slots // 3 if load == "closed" else 3 * family.engine.slots // 2)
    share = float(load.split()[1]) / 100
    rate = share * capacity(family.engine, family.work)
    return Load(rate=rate, burst_factor=family.burst, burst_s=family.burst_s)


def single(family: Family, load: Load, repetitions: int, seed: int) -> tuple[Floats, Floats]:
    """(repetitions, 3000, 3) of TTFT, TPOT and E2E in s, and all requests of the same servers."""
    if not family.node_sigma:
        n = repetitions * (GAP + MOST)
        rows = np.stack(simulate(family.engine, family.work, load, n, seed, warmup=WARMUP), 1)
        return rows.reshape(repetitions, GAP + MOST, 3)[:, GAP:], rows
    rng = np.random.default_rng(seed)
    traces = [
        np.stack(
            simulate(family.engine, family.work, load, MOST, seed + 1 + i, warmup=GAP, speed=float(speed)), 1
        )
        for i, speed in enumerate(np.exp(family.node_sigma * rng.standard_normal(repetitions)))
    ]
    return np.stack(traces), np.concatenate(traces)


def repeated(family: Family, load: Load, repetitions: int, seed: int, runs: int = 10, n: int = 300) -> Floats:
    """(repetitions, runs, n, 3), each run on a node of its own."""
    rng = np.random.default_rng(seed)
    sigma, warmup = family.node_sigma or 0.03, 0 if family.cold else RUN_WARMUP
    speeds = np.exp(sigma * rng.standard_normal(repetitions * runs))
    traces = [
        np.stack(
            simulate(family.engine, family.work, load, n, seed + 1 + i, warmup=warmup, speed=float(speed)), 1
        )
        for i, speed in enumerate(speeds)
    ]
    return np.stack(traces).reshape(repetitions, runs, n, 3)


def bounds(truth: Floats) -> dict[tuple[str, float], list[float]]:
    """In s, by rule and multiple: one for each column of the rule."""
    ordered = np.sort(truth, axis=0)
    ranks = [np.searchsorted(ordered[:, c], truth[:, c], side="right") for c in range(3)]
    joint = np.sort(np.max(ranks, axis=0))  # a request is within rank r of all three, or it is not
    last = [int(np.searchsorted(ordered[:, c], np.inf)) - 1 for c in range(3)]  # the failed have no bound
    found = {}
    for rule in RULES:
        for multiple in MULTIPLES:
            odds = multiple * (1.0 - rule.share) / rule.share
            position = math.ceil(len(truth) / (1.0 + odds)) - 1
            rank = position if len(rule.columns) == 1 else int(joint[position]) - 1
            found[rule.name, multiple] = [float(ordered[min(rank, last[c]), c]) for c in rule.columns]
    return found


def study(job: tuple[Plan, int, str]) -> Rates:
    """All designs of one family under one load."""
    plan, number, load = job
    family = plan.families[number]
    seed = plan.seed + (5 * number + LOADS.index(load)) * 1_000_000
    asked = load_of(family, load)
    rates: Rates = {}
    warm, truth = single(family, asked, plan.repetitions, seed)
    ttft_s = np.ascontiguousarray(warm[:, :, 0])
    queued = verdicts.Benchmarks((ttft_s,) * 3, 1, {}).deff(0, verdicts.QUEUE) >= NEAR_CAPACITY
    rates[f"1 x {MOST}", family.name, load, "", 1.0, NOTE] = 100 * float(queued.mean()), 0.0
    own = bounds(truth)
    for runs, n in plan.designs:
        if runs == 1:
            judge(rates, (f"1 x {n}", family.name, load), warm[:, :n], 1, own)
    if any(runs > 1 for runs, _ in plan.designs):
        many = repeated(family, asked, plan.repetitions, seed + 500_000)
        own = bounds(many.reshape(-1, 3))
        for runs, n in plan.designs:
            if runs > 1:
                rows = many[:, :runs].reshape(plan.repetitions, runs * n, 3)
                judge(rates, (f"{runs} x {n}", family.name, load), rows, runs, own)
    return rates


def judge(
    rates: Rates,
    where: tuple[str, str, str],
    rows: Floats,
    runs: int,
    at: dict[tuple[str, float], list[float]],
) -> None:
    """Every rule and method on the benchmarks of one cell."""
    columns = tuple(np.ascontiguousarray(rows[:, :, c]) for c in range(3))
    many = verdicts.Benchmarks(columns, runs, {})  # type: ignore[arg-type]
    for rule in RULES:
        for multiple in MULTIPLES:
            limits = at[rule.name, multiple]
            scores, bound = columns[rule.columns[0]], limits[0]
            if len(limits) > 1:
                scores = np.maximum.reduce(
                    [columns[c] / limit for c, limit in zip(rule.columns, limits, strict=True)]
                )
                bound = 1.0
            for method, (passed, failed) in said(many, rule, scores, bound, rivals=multiple == 1.0).items():
                rates[(*where, rule.name, multiple, method)] = (
                    100 * float(passed.mean()),
                    100 * float(failed.mean()),
                )


def said(
    many: verdicts.Benchmarks, rule: Rule, scores: Floats, bound: float, *, rivals: bool
) -> dict[str, verdicts.Said]:
    found = {
        "before": verdicts.before(scores, bound, rule.share, many.runs),
        "ours": verdicts.ours(many, rule.columns, scores, bound, rule.share),
    }
    if rivals:
        hit = scores <= bound
        found["point"] = verdicts.point(hit, rule.share)
        found["independent"] = verdicts.independent(hit, rule.share, verdicts.ALPHA)
        found["LoadGen"] = verdicts.independent(hit, rule.share, verdicts.LOADGEN)
        found["batch means"] = verdicts.batch_means(hit, rule.share, many.runs)
    if many.runs < verdicts.MIN_RUNS:
        found["ours, no run_spread"] = verdicts.ours(
            many, rule.columns, scores, bound, rule.share, run_spread=0.0
        )
    return found


# ---- tables and limits ----------------------------------------------------------------------------

GROUPS = {
    "TTFT": lambda rule: rule.endswith("TTFT"),
    "TPOT": lambda rule: rule.endswith("TPOT"),
    "E2E": lambda rule: rule.endswith("E2E"),
    "goodput": lambda rule: rule.startswith("goodput"),
}
# % of the cells of a design. The worst TTFTs in open loops that queue are shown and held by no limit.
MEAN_MOST, FAIL_MEAN_MOST = 5.0, 5.0
CONTROL_LEAST = 15.0  # mean false PASS of requests taken for independent


def cells(
    rates: Rates, design: str, method: str, multiple: float = 1.0
) -> dict[tuple[str, str, str], tuple[float, float]]:
    """(family, load, rule) -> PASS and FAIL in %."""
    return {
        key[1:4]: rate
        for key, rate in rates.items()
        if (key[0], key[4], key[5]) == (design, multiple, method)
    }


def _line(*values: str) -> str:
    return "| " + " | ".join(values) + " |"


def _head(*names: str) -> str:
    return _line(*names) + "\n" + "|---" * len(names) + "|"


def error_table(rates: Rates, designs: list[str]) -> str:
    """False PASS and false FAIL by design and method."""
    lines = [
        _head(
            "design",
            "method",
            "false PASS: mean",
            "nine of ten",
            "worst",
            *GROUPS,
            "false FAIL: mean",
            "worst",
        )
    ]
    for design in designs:
        for method in METHODS:
            found = cells(rates, design, method)
            if not found:
                continue
            passed, failed = (np.array([rate[i] for rate in found.values()]) for i in (0, 1))
            groups = [
                [rate[0] for (_, _, rule), rate in found.items() if has(rule)] for has in GROUPS.values()
            ]
            name = f"**{method}**" if method == "ours" else method
            lines.append(
                _line(
                    *(
                        design,
                        name,
                        f"{passed.mean():.1f}",
                        f"{np.quantile(passed, 0.9):.1f}",
                        f"{passed.max():.0f}",
                    ),
                    *(f"{np.mean(group):.1f} / {max(group):.0f}" for group in groups),
                    *(f"{failed.mean():.1f}", f"{failed.max():.0f}"),
                )
            )
    return "\n".join(lines)


def power_table(rates: Rates, designs: list[str]) -> str:
    """Right verdicts in closed loops and at 50 % load."""
    rules = ("P90 TTFT", "P90 TPOT", "P99 TTFT", "P99 E2E", "goodput 95 %", "goodput 99 %")
    lines = [
        _head(
            "design",
            "method",
            *(f"{rule} x1/4" for rule in rules),
            *(f"{rule} x5" for rule in rules[-2:]),
            "all x5",
        )
    ]
    for design in designs:
        for method in ("before", "ours", "ours, no run_spread"):
            if not (quarter := cells(rates, design, method, 0.25)):
                continue
            five = cells(rates, design, method, 5.0)
            passes = [_light(quarter, rule, 0) for rule in rules]
            fails = [_light(five, rule, 1) for rule in (*rules[-2:], "")]
            lines.append(_line(design, f"**{method}**" if method == "ours" else method, *passes, *fails))
    return "\n".join(lines)


def _light(found: dict[tuple[str, str, str], tuple[float, float]], rule: str, which: int) -> str:
    rates = [rate[which] for (_, load, name), rate in found.items() if load in LIGHT and rule in ("", name)]
    return f"{np.mean(rates):.0f}"


def worst_table(rates: Rates, designs: list[str], most: int = 6) -> str:
    """The cells in which ours errs most."""
    lines = []
    for design in designs:
        for what, which in (("PASS", 0), ("FAIL", 1)):
            found = sorted(cells(rates, design, "ours").items(), key=lambda cell: -cell[1][which])[:most]
            named = [f"{rate[which]:.0f} {family}, {load}, {rule}" for (family, load, rule), rate in found]
            lines.append(f"- {design}, false {what}: {'; '.join(named)}")
    return "\n".join(lines)


def note_table(rates: Rates) -> str:
    """In how many runs of 3000 the report says that the server is near capacity, by load: least to most."""
    found = cells(rates, f"1 x {MOST}", NOTE)
    lines = []
    for load in LOADS:
        seen = sorted((rate[0], family) for (family, at, _), rate in found.items() if at == load)
        lines.append(f"- {load}: " + ", ".join(f"{share:.0f} {family}" for share, family in seen))
    return "\n".join(lines)


def complaints(rates: Rates, designs: list[str], most: float = 0.0) -> list[str]:
    """What a design misses; `most` is added to each limit where few benchmarks were made."""
    found = []
    for design in designs:
        for which, what, limit in ((0, "PASS", MEAN_MOST), (1, "FAIL", FAIL_MEAN_MOST)):
            mean = float(np.mean([rate[which] for rate in cells(rates, design, "ours").values()]))
            if mean > limit + most:
                found.append(f"{design}: mean false {what} {mean:.1f} %, more than {limit + most:.1f} %")
        control = float(np.mean([rate[0] for rate in cells(rates, design, "independent").values()]))
        if control < CONTROL_LEAST:
            found.append(f"{design}: the control passes only {control:.1f} %, less than {CONTROL_LEAST} %")
    return found
