"""Rules that span several keys: what the JSON Schema cannot say. tests/test_schemas_policy.py lists them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..model import Kind, Level, Objective, RequestBound, Waiver
from ._problems import Problems, suggest

# What is judged from the results at the target alone. A regression without a baseline is skipped, and
# headroom compares two loads, which may be equally bad: a gate made of them alone would promise nothing.
_GATES = (Kind.LATENCY, Kind.GOODPUT, Kind.ERROR_RATE)
_CONDITIONS = ("workload.", "evidence.")


def check(objectives: Sequence[Objective], top_line: int, problems: Problems) -> None:
    """Note when nothing would be gated, or a mean stands alone."""
    promises = [o for o in objectives if not o.id.startswith(_CONDITIONS)]
    if not promises:
        problems.add(
            top_line,
            "the policy has no objective: nothing in it says what users get",
            "add `slo:`, such as {ttft: {p99: 800ms}}, or `goodput:`",
        )
        return
    gating = [o for o in promises if o.level is not Level.INFO]
    if not any(o.kind in _GATES for o in gating):
        _nothing_gates(promises, gating, problems)
    _means(promises, problems)


def _nothing_gates(promises: Sequence[Objective], gating: Sequence[Objective], problems: Problems) -> None:
    line = (gating or promises)[0].line
    hint = "add a goodput, a percentile or an error rate at level block or warn"
    if not gating:
        message = "nothing in the policy can block or warn: every objective is at level info"
    elif all(o.kind is Kind.THROUGHPUT for o in gating):
        message = "throughput alone is no gate: it rises while users wait"
    else:
        names = ", ".join(o.id for o in gating)
        message = f"{names} alone would be no gate: without a baseline or other loads nothing is judged"
    problems.add(line, message, hint)


def _means(objectives: Sequence[Objective], problems: Problems) -> None:
    tails = {o.metric for o in objectives if o.kind is Kind.LATENCY and (o.share or 0) >= 0.99}
    for o in objectives:
        if o.kind is Kind.MEAN and o.metric not in tails:
            problems.add(
                o.line,
                f"{o.id} stands without the P99 of {o.metric}: a mean hides its tail",
                f"add slo.{o.metric}.p99",
            )


def check_goodput(bounds: Collection[RequestBound], line: int, problems: Problems) -> None:
    """Note a goodput that no request could miss."""
    if not bounds:
        problems.add(
            line,
            "goodput has no bound: no blocking percentile of ttft, tpot or e2e, and no goodput.request",
            "add goodput.request, such as {ttft: 800ms}",
        )


_WITHOUT_TOKENS = {  # what an endpoint lacks that makes no tokens, by metric
    "ttft": "no first token to wait for",
    "tpot": "no time per output token",
    "itl": "no gaps between tokens",
    "throughput": "no output tokens to count",
}


def check_tokenless(
    objectives: Sequence[Objective], bounds: Collection[RequestBound], problems: Problems
) -> None:
    """Note what cannot be asked of an endpoint that makes no tokens."""
    asked = [(o.id, o.metric, o.when, o.line) for o in objectives]
    named = {(o.metric, o.line) for o in objectives}  # where goodput's default bounds come from
    asked += [
        (f"goodput.request.{b.metric}", b.metric, b.when, b.line)
        for b in bounds
        if (b.metric, b.line) not in named
    ]
    for name, metric, when, line in asked:
        lacks, hint = _WITHOUT_TOKENS.get(metric), "ask for e2e, goodput on e2e or error_rate instead"
        if lacks is None and when and any(c.column == "output_tokens" for c in when.conditions):
            lacks, hint = (
                "no output_tokens to choose requests by",
                "choose requests by input_tokens, or by none",
            )
        if lacks:
            message = f"{name} cannot be judged: `output_tokens: none` states an endpoint that has {lacks}"
            problems.add(line, message, hint)


def check_waivers(waivers: Sequence[Waiver], ids: Sequence[str], problems: Problems) -> None:
    """Note waivers of objectives that are not there, or of one objective twice."""
    seen: dict[str, int] = {}
    for waiver in waivers:
        if waiver.objective not in ids:
            message = f'the waiver names "{waiver.objective}", which is no objective of this policy'
            problems.add(waiver.line, message, suggest(waiver.objective, ids))
        elif waiver.objective in seen:
            first = seen[waiver.objective]
            message = f"{waiver.objective} is waived twice, here and in line {first}"
            problems.add(waiver.line, message, "keep one waiver")
        seen.setdefault(waiver.objective, waiver.line)


def notes(objectives: Sequence[Objective], has_load: bool) -> tuple[str, ...]:
    """What a reader of the report should know about the policy itself."""
    ids = {o.id for o in objectives}
    if "headroom" in ids and not (has_load and "goodput" in ids):
        return ("headroom compares goodput at two loads: it needs goodput and workload.load",)
    return ()
