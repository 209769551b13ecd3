"""The recipe as one page of Markdown: what is promised, how it is measured, how it is judged."""

from __future__ import annotations

from collections.abc import Sequence

from .. import units
from ..emit import format as inert
from ..model import REQUEST_METRICS, Kind, Level, Objective, Policy, RequestBound
from ._ci import compares
from ._plan import Plan
from ._script import until_certain
from ._tools import Tool

_METRICS = REQUEST_METRICS
_STATISTICS = ("p50", "p90", "p99")


def page(
    policy: Policy,
    tool: Tool,
    plan: Plan,
    asked: Sequence[tuple[Objective, str]],
    files: Sequence[tuple[str, str]],
    gate: str,
    notes: Sequence[str],
) -> str:
    """`asked` are the objectives with their rule in words, `files` the script and the CI file."""
    profile = f", profile {policy.profile}" if policy.profile else ""
    title = f"# Benchmark recipe: {inert.markdown(policy.name)}{profile} with {tool.title} {tool.version}"
    parts = [
        title,
        _slo(asked),
        _goodput(policy, asked),
        _percentiles(policy),
        _measured(tool, plan, notes),
        _files(files),
        _trap(tool),
        _rule(policy, gate),
        _next(policy, plan),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _slo(asked: Sequence[tuple[Objective, str]]) -> str:
    rows = [
        f"| {inert.markdown(one.id)} | {one.level.value} | {inert.markdown(words)} |"
        for one, words in asked
        if one.kind is not Kind.RULE
    ]
    return "\n".join(["## SLO", "", "| id | level | rule |", "|---|---|---|", *rows])


def _goodput(policy: Policy, asked: Sequence[tuple[Objective, str]]) -> str:
    if not policy.goodput_bounds:
        return ""
    terms = " and ".join(_term(bound) for bound in policy.goodput_bounds)
    target = next((units.show(one.bound, units.SHARE) for one, _ in asked if one.kind is Kind.GOODPUT), "")
    least = f", and at least {target} is asked for" if target else ""
    return (
        "## Goodput\n\n"
        f"goodput = requests completed with {terms}, all at once, / (completed + failed){least}.\n"
        "A failed request is in the denominator and never good; warm-up and cancelled ones are in neither."
    )


def _term(bound: RequestBound) -> str:
    when = f" (where {inert.markdown(bound.when.text)})" if bound.when else ""
    return f"{bound.metric.upper()} <= {units.show(bound.max_s, units.SECONDS)}{when}"


def _percentiles(policy: Policy) -> str:
    rows = []
    for metric in _METRICS:
        cells = [_cell(policy, metric, statistic) for statistic in _STATISTICS]
        rows.append(f"| {metric.upper()} | {' | '.join(cells)} |")
    head = ["## Percentiles", "", "| | P50 | P90 | P99 |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, "", "All nine are reported; those with a bound are judged by it."])


def _cell(policy: Policy, metric: str, statistic: str) -> str:
    bounds = [
        f"<= {units.show(one.bound, units.SECONDS)}"
        + (f" where {inert.markdown(one.when.text)}" if one.when else "")
        + (f" ({one.level.value})" if one.level is not Level.BLOCK else "")
        for one in policy.objectives
        if one.kind is Kind.LATENCY and (one.metric, one.statistic) == (metric, statistic)
    ]
    return "; ".join(bounds) or "shown"


def _measured(tool: Tool, plan: Plan, notes: Sequence[str]) -> str:
    unit = "req/s" if plan.open_loop else "concurrency"
    rows = [
        f"| {point.share:.0%} | {point.text} | {point.runs} | {point.requests} |" for point in plan.points
    ]
    lengths = " and ".join(
        f"{name} of {one.mean:g} tokens (stddev {one.stddev:g}{'' if one.declared else ', assumed'})"
        for name, one in (("prompts", plan.input_tokens), ("outputs", plan.output_tokens))
    )
    lines = [
        "## Measured like this",
        "",
        f"With {tool.title} {tool.version}, because {tool.why}.",
        "",
        f"| of the target | {unit} | runs | requests a run |",
        "|---|---|---|---|",
        *rows,
        "",
        f"- {lengths[0].upper()}{lengths[1:]}.",
        "- Seeds differ between runs and loads and are the same for baseline and candidate, which are"
        " measured in turn.",
        "- One warm-up run is thrown away; of each run, the start-up burst and the ramp-down are dropped too"
        " where the policy says `warmup: auto`.",
        "- Output per request is switched on: joint goodput needs it.",
        *(f"- {inert.markdown(note[0].upper() + note[1:])}." for note in (*plan.notes, *notes)),
    ]
    return "\n".join(lines)


_LANGUAGES = {".sh": "bash", ".yml": "yaml"}


def _files(files: Sequence[tuple[str, str]]) -> str:
    parts = []
    for name, text in files:
        language = next((word for end, word in _LANGUAGES.items() if name.endswith(end)), "groovy")
        parts.append(f"### `{name}`\n\n````{language}\n{text}````")
    return "\n\n".join(parts)


def _trap(tool: Tool) -> str:
    lines = [
        "## Tool trap",
        "",
        f"In {tool.title}: {tool.definition}.",
        f"Against ours: {tool.differs}.",
        "",
        "One trace, two numbers: TTFT 500 ms, 100 output tokens, 700 ms of decode are a TPOT of"
        " 700 / 99 = **7.07 ms**, and 1200 / 100 = **12.00 ms** where a tool leaves the TTFT inside. The gate"
        " always judges the first.",
        "",
        *(f"- {trap[0].upper()}{trap[1:]}." for trap in tool.traps),
    ]
    return "\n".join(lines).rstrip()


def _rule(policy: Policy, gate: str) -> str:
    undecided = {
        "block": "blocks (exit 4)",
        "lean": "blocks only where the observed value misses its bound (exit 4), else exits 0",
        "allow": "exits 0, and stays INCONCLUSIVE in every output",
    }[policy.undecided]
    return (
        "## Pass or fail\n\n"
        f"```console\n$ {gate}\n```\n\n"
        "Or stop as soon as the verdict is certain, which five planned looks allow:\n\n"
        f"```console\n$ {until_certain(policy)}\n```\n\n"
        "- FAIL, exit 1: a blocking rule is missed with confidence.\n"
        "- PASS, exit 0: every blocking rule is met with confidence, on the promised workload.\n"
        f"- INCONCLUSIVE: good data, too little of it: this policy {undecided}. Missing data: exit 4.\n"
        "- Throughput and means never decide: throughput rises while users wait, a mean hides its tail."
    )


def _next(policy: Policy, plan: Plan) -> str:
    first = (
        "the goodput-load curve: goodput at each load of the sweep, and the highest load that still meets the"
        " policy"
        if len(plan.points) > 1
        else "a sweep (25 %, 50 %, 100 %, 150 % of the target): this profile says nothing about headroom"
    )
    lines = [
        f"- {first[0].upper()}{first[1:]}.",
        "- Sensitivity to prompt length: the same load with twice the mean input.",
        "- Chunked prefill on and off: it guards the P99 of TPOT, hardly its mean.",
        "- Traffic with shared prefixes, if yours has them: random prompts never hit a prefix cache.",
    ]
    if not compares(policy):
        lines.append("- A baseline in the same session: the policy has no `regression` yet.")
    return "\n".join(["## What to measure next", "", *lines])
