"""Rules that span several keys: what the JSON Schema cannot say. tests/test_schemas_policy.py lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from ..model import Kind, Level, Objective, Policy
from ._objectives import BASELINE_REQUIRED
from ._problems import suggest

Broken: TypeAlias = "Iterator[tuple[int, str, str]]"  # line, message, hint

# What is judged from the results at the target alone. Headroom compares two loads, which may be equally
# bad: a gate made of it alone would promise nothing. Regressions need a baseline (`with_required`).
_GATES = (Kind.LATENCY, Kind.GOODPUT, Kind.ERROR_RATE)
_WITHOUT_TOKENS = {  # what an endpoint lacks that makes no tokens, by metric
    "ttft": "no first token to wait for",
    "tpot": "no time per output token",
    "itl": "no gaps between tokens",
    "throughput": "no output tokens to count",
}


def broken(policy: Policy, base: Policy | None, line_of: Callable[[str], int]) -> Broken:
    """What is wrong with a policy as a whole; `base` is the one without its profile."""
    promises = [o for o in policy.objectives if o.kind is not Kind.RULE]
    if promises:
        yield from _nothing_gates(promises)
        yield from _means(promises)
    else:
        message = "the policy has no objective: nothing in it says what users get"
        yield line_of(""), message, "add `slo:`, such as {ttft: {p99: 800ms}}, or `goodput:`"
    if any(o.kind is Kind.GOODPUT for o in promises) and not policy.goodput_bounds:
        message = "goodput has no bound: no blocking percentile of ttft, tpot or e2e, and no goodput.request"
        yield line_of("goodput"), message, "add goodput.request, such as {ttft: 800ms}"
    if policy.tokenless:
        yield from _tokenless(policy)
    yield from _waivers(policy, base)


def _nothing_gates(promises: Sequence[Objective]) -> Broken:
    gating = [o for o in promises if o.level is not Level.INFO]
    if any(o.kind in _GATES or o.required for o in gating):
        return
    if not gating:
        message = "nothing in the policy can block or warn: every objective is at level info"
    elif all(o.kind is Kind.THROUGHPUT for o in gating):
        message = "throughput cannot be the only gate: it rises while users wait"
    else:
        names = ", ".join(o.id for o in gating)
        message = f"{names} cannot be the only gate: it compares two loads, and both may be bad"
    hint = "add a goodput, a percentile or an error rate at level block or warn"
    yield (gating or promises)[0].line, message, hint


def with_required(objectives: Sequence[Objective]) -> tuple[Objective, ...]:
    """Regressions that are the only gate need their baseline: without one they would pass anything."""
    gating = [one for one in objectives if one.level is not Level.INFO]
    if any(one.kind in _GATES for one in gating):
        return tuple(objectives)
    asked = f"; {BASELINE_REQUIRED}"
    return tuple(
        replace(one, required=True, expected=one.expected.removesuffix(asked) + asked)
        if one.kind is Kind.REGRESSION
        else one
        for one in objectives
    )


def _means(promises: Sequence[Objective]) -> Broken:
    tails = {o.metric for o in promises if o.kind is Kind.LATENCY and (o.share or 0) >= 0.99}
    for o in promises:
        if o.kind is Kind.MEAN and o.metric not in tails:
            message = f"{o.id} stands without the P99 of {o.metric}: a mean hides the tail"
            yield o.line, message, f"add slo.{o.metric}.p99"


def _tokenless(policy: Policy) -> Broken:
    """What cannot be asked of an endpoint that makes no tokens."""
    asked = {(o.metric, o.line, o.id): o.when for o in policy.objectives}
    lines = {key[:2] for key in asked}  # where goodput's default bounds come from
    for b in policy.goodput_bounds:
        if (b.metric, b.line) not in lines:
            asked[b.metric, b.line, f"goodput.request.{b.metric}"] = b.when
    for (metric, line, name), when in asked.items():
        lacks, hint = _WITHOUT_TOKENS.get(metric), "ask for e2e, goodput on e2e or error_rate instead"
        if lacks is None and when and any(c.column == "output_tokens" for c in when.conditions):
            lacks, hint = "no output_tokens to choose requests by", "choose by input_tokens, or not at all"
        if lacks:
            message = f"{name} cannot be judged: `output_tokens: none` states an endpoint that has {lacks}"
            yield line, message, hint


def _waivers(policy: Policy, base: Policy | None) -> Broken:
    """Waivers of objectives that are not there, or of one objective twice."""
    ids = [o.id for o in (*policy.objectives, *(base.objectives if base else ()))]
    lines: dict[str, int] = {}
    for waiver in policy.waivers:
        name = waiver.objective
        if name not in ids:
            message = f'the waiver names "{name}", which is no objective of this policy'
            yield waiver.line, message, suggest(name, ids)
        elif name in lines:
            yield waiver.line, f"{name} is waived twice, here and in line {lines[name]}", "keep one waiver"
        lines.setdefault(name, waiver.line)


def notes(objectives: Sequence[Objective], has_load: bool) -> tuple[str, ...]:
    """What a reader of the report should know about the policy itself."""
    ids = {o.id for o in objectives}
    if "headroom" in ids and not (has_load and "goodput" in ids):
        return ("headroom compares goodput at two loads: it needs goodput and workload.load",)
    return ()
