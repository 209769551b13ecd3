"""What has to be measured for a policy: loads, runs, requests, lengths. Policy in, numbers out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ..advise.plan import Need, never
from ..errors import PolicyError
from ..model import Kind, Level, Load, Policy, TokenRule

SWEEP = (0.25, 0.5, 1.0, 1.5)  # of the target: below it, at it, and where it must not fall off a cliff
RUNS = 30  # at the target; with the t-correction a PASS of P99 then needs deff <= 22 at 300 requests a run
SWEEP_RUNS = 5  # the fewest that count as clusters (gate.stats.MIN_RUNS)
LEAST_REQUESTS = 100  # a run; fewer never decide
SHORT_MIN, SHORT_PER_SLOT = 300, 10  # a run shorter than max(300, 10 x concurrency) has biased tails
MOST_REQUESTS, MOST_RUNS = 100_000, 100  # of a run and of a side: what is not decided by them is named
LOOKS = 5  # of `slo-gate run`, each at its own part of alpha
OPEN_LOOP_SHARE, OPEN_LOOP_MIN = 0.05, 50  # what `warmup: auto` drops of an open loop


class Lengths(Struct, frozen=True):
    """Token lengths of prompts or outputs."""

    mean: float
    stddev: float
    declared: bool = True  # False: the policy has none, these are assumed


# Assumed where a policy declares no lengths: (input, output). Orders of magnitude, to be replaced by
# those of real traffic; every output says that they are assumed.
TYPICAL: dict[str, tuple[Lengths, Lengths]] = {
    "streaming-chat": (Lengths(500, 200, False), Lengths(150, 60, False)),
    "one-shot": (Lengths(1000, 400, False), Lengths(200, 80, False)),
    "voice": (Lengths(300, 120, False), Lengths(60, 25, False)),
    "agent": (Lengths(2000, 800, False), Lengths(150, 60, False)),
    "code-completion": (Lengths(1500, 600, False), Lengths(40, 16, False)),
    "batch": (Lengths(1500, 600, False), Lengths(300, 120, False)),
}


class Point(Struct, frozen=True):
    """One load of the sweep."""

    load: Load
    share: float  # of the target
    runs: int
    requests: int  # sent in each run, with those that are dropped as warm-up

    @property
    def text(self) -> str:
        """The load as a command line writes it."""
        return self.load.number

    @property
    def percent(self) -> str:
        """The share of the target."""
        return f"{self.share:.0%}"


class Plan(Struct, frozen=True):
    """The benchmark that a policy asks for."""

    open_loop: bool  # loads are requests/s, else requests in flight
    points: tuple[Point, ...]  # ascending
    input_tokens: Lengths
    output_tokens: Lengths
    notes: tuple[str, ...]
    until_certain: int  # runs a side that can pass although `slo-gate run` looks at them several times
    never: tuple[Need, ...]  # blocking objectives that no number of requests decides

    @property
    def target(self) -> Point:
        """Where objectives are judged."""
        return next(point for point in self.points if point.share == 1.0)

    @property
    def total_requests(self) -> int:
        """Of all runs at all loads, on one side."""
        return sum(point.runs * point.requests for point in self.points)


def plan(policy: Policy, *, peak: int | None = None) -> Plan:
    """The benchmark for a policy; `peak` (requests in flight) stands in for a load it does not declare.

    The target is twice the peak, as `workload.load: {peak: N}` reads it (DESIGN section 3).
    Raises PolicyError when there is no load to measure at, or an endpoint that the commands do not drive.
    """
    if policy.tokenless:
        message = "is about an endpoint without tokens; recipes write chat benchmarks"
        hint = "run your tool's benchmark of embeddings or rerank, and pass its results to `slo-gate check`"
        raise PolicyError(message, policy.path, hint)
    load = _target(policy, peak)
    open_loop = load.concurrency is None
    said = policy.evidence.runs_min or 0
    # A profile states how little it may do; a policy without one promises the full evidence.
    runs = (
        max(said, SWEEP_RUNS * (not _demands(policy, "runs"))) if policy.profile and said else max(said, RUNS)
    )
    each, fewest = _judged(policy, load), runs
    if any(one.between and one.level is Level.BLOCK for one in policy.objectives):
        runs = max(runs, SWEEP_RUNS)  # fewer at each load give no interval of a drop
    runs, enough, hopeless = _sizes(policy, runs, each)
    shares = _shares(policy)
    # Of a small target several shares are one load, which is measured once: that of the target is its own.
    loads = {load.at(share): share for share in (*shares, 1.0)}
    points = [
        Point(at, share, runs, _sent(policy, at, enough))
        if share == 1.0
        else Point(at, share, min(runs, SWEEP_RUNS), _sent(policy, at, _judged(policy, at)))
        for at, share in sorted(loads.items(), key=lambda item: item[1])
    ]
    inputs, outputs = _lengths(policy)
    notes = [*_merged(load, shares), *_notes(policy, points, inputs, outputs)]
    if (runs, enough) != (fewest, each):
        notes.append(
            f"with {fewest} runs of {each:,} requests something that blocks could never pass (`slo-gate plan`"
            f" says what): here are {runs} of {enough:,}, after warm-up"
        )
    certain = _until_certain(policy, runs, enough)
    return Plan(open_loop, tuple(points), inputs, outputs, tuple(notes), certain, hopeless)


def _target(policy: Policy, peak: int | None) -> Load:
    declared = policy.workload.target
    if declared is None and peak is not None:
        return Load(concurrency=2 * peak)
    if declared is None:
        hint = "add workload.load, such as {peak: 32}, or pass --peak 32"
        raise PolicyError("declares no load, so no benchmark can be written for it", policy.path, hint)
    if declared.production or declared.burst:
        hint = "write the recipe from a policy with a concurrency or a request_rate"
        raise PolicyError("is about production traffic, which no benchmark command makes", policy.path, hint)
    if peak is not None:
        hint = "leave out --peak: the policy fixes the target"
        raise PolicyError(f"declares its load already: {declared}", policy.path, hint)
    return declared


def _shares(policy: Policy) -> tuple[float, ...]:
    """The declared sweep with the target in it; the usual one where nothing says otherwise."""
    declared = policy.workload.sweep
    if not declared and policy.profile is None:
        return SWEEP
    asked = {share for one in policy.objectives if one.level is Level.BLOCK for share in one.between or ()}
    return tuple(sorted({*declared, *asked, 1.0}))


def _merged(target: Load, shares: Sequence[float]) -> Iterator[str]:
    """What is said of shares of the target that are one load."""
    together: dict[Load, list[str]] = {}
    for share in shares:
        together.setdefault(target.at(share), []).append(f"{share:.0%}")
    for load, same in together.items():
        if len(same) > 1:
            yield f"{', '.join(same)} of the target are one load, {load}: it is measured once"


def _judged(policy: Policy, load: Load) -> int:
    """The requests that a run leaves after warm-up: the policy's minimum, or what its load needs."""
    slots = load.concurrency or 0
    unbiased, said = max(SHORT_MIN, SHORT_PER_SLOT * slots), policy.evidence.requests_per_run_min or 0
    short = policy.profile and said and _demands(policy, "requests_per_run")
    return max(said, LEAST_REQUESTS if short else unbiased)


def _sent(policy: Policy, load: Load, least: int) -> int:
    """So many that these are left after the warm-up is dropped."""
    drop = policy.evidence.warmup
    if drop != "auto":
        return least + int(drop)
    if load.concurrency:
        return least + 2 * load.concurrency  # the start-up burst and the ramp-down
    return max(least + OPEN_LOOP_MIN, math.ceil(least / (1 - OPEN_LOOP_SHARE)) + 1)


def _sizes(policy: Policy, runs: int, each: int) -> tuple[int, int, tuple[Need, ...]]:
    """Runs, and requests of each, with which whatever blocks can pass; and what no size decides."""
    if not _never(policy, runs, each):
        return runs, each, ()
    hopeless = _never(policy, runs, MOST_REQUESTS)
    if hopeless and runs < SWEEP_RUNS and (fewer := _never(policy, SWEEP_RUNS, MOST_REQUESTS)) != hopeless:
        runs, hopeless = SWEEP_RUNS, fewer
    low, high = each - 1, MOST_REQUESTS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _never(policy, runs, middle) == hopeless else (middle, high)
    return runs, high, hopeless


def _never(policy: Policy, runs: int, each: int, confidence: float | None = None) -> tuple[Need, ...]:
    """What blocks and can never pass with that evidence: `plan` is asked."""
    evidence = replace(
        policy.evidence,
        runs_min=runs,
        requests_per_run_min=each,
        confidence=confidence or policy.evidence.confidence,
    )
    return never(replace(policy, evidence=evidence))


def _until_certain(policy: Policy, runs: int, each: int) -> int:
    """The runs with which a session can pass, each of whose looks has its own part of alpha."""
    compared = any(one.kind is Kind.REGRESSION for one in policy.objectives)
    alpha = (1 - policy.evidence.confidence) / (LOOKS + compared)  # a red is confirmed in a look of its own
    hopeless = {one.id for one in _never(policy, runs, each)}
    for more in range(runs, max(runs, MOST_RUNS) + 1):
        if {one.id for one in _never(policy, more, each, 1 - alpha)} <= hopeless:
            return more
    return runs


def _demands(policy: Policy, size: str) -> bool:
    """Whether a size blocks: then it is all that is asked; one that only warns is what there was."""
    return any(one.id == f"evidence.{size}" and one.level is Level.BLOCK for one in policy.objectives)


def _lengths(policy: Policy) -> tuple[Lengths, Lengths]:
    """Declared lengths; where a spread is not declared, 40 % of the mean, so that prompts are varied."""
    assumed = TYPICAL[policy.workload.interaction or "streaming-chat"]
    rules = (policy.workload.input_tokens, policy.workload.output_tokens)
    first, second = (_length(rule, typical) for rule, typical in zip(rules, assumed, strict=True))
    return first, second


def _length(rule: TokenRule | None, typical: Lengths) -> Lengths:
    if rule is None:
        return typical
    if rule.stddev is None:
        return Lengths(rule.mean, round(0.4 * rule.mean))
    return Lengths(rule.mean, rule.stddev)


def _notes(policy: Policy, points: list[Point], inputs: Lengths, outputs: Lengths) -> tuple[str, ...]:
    notes = []
    for name, lengths in (("input", inputs), ("output", outputs)):
        if not lengths.declared:
            notes.append(
                f"the policy declares no {name} lengths: a mean of {lengths.mean:g} tokens is assumed;"
                f" declare workload.{name}_tokens as your traffic has them"
            )
    if len(points) == 1:
        notes.append(
            "this profile measures the target load alone: that shows a regression, and not that there is"
            " headroom; a deploy needs a profile with a sweep as well"
        )
    if policy.evidence.runs_min and policy.evidence.runs_min < SWEEP_RUNS:
        notes.append("fewer than five runs do not show the spread between runs")
    return tuple(notes)
