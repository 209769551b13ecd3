"""The sentences at the top and bottom of every output: headline, next action, provenance."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import astuple

from ... import units
from ...model import Check, Effort, Goodput, Kind, Level, Policy, Verdict
from ..prepare import Prepared
from . import lines
from .effort import EACH, RUNS, hardly, sentences

WORDS = 25  # of a headline and of a next action, at most
PULL_REQUEST = "pr"  # the profile that a pull request is judged by
# As Misses has them.
_CAUSES = ("TTFT alone", "TPOT alone", "E2E alone", "several bounds at once", "failed requests")
_MORE = {
    Verdict.FAIL: "{} more fail{}",
    Verdict.INCONCLUSIVE: "{} more undecided",
    Verdict.WARN: "{} more warning{}",
}


def fit(choices: Iterable[str]) -> str:
    """The first of these that has at most WORDS words, else the last one cut."""
    said = ""
    for said in choices:
        if len(said.split()) <= WORDS:
            return said
    return " ".join(said.split()[: WORDS - 1]).rstrip(",;:") + " ..."


# ---- the headline -------------------------------------------------------------------------


def headline(
    verdict: Verdict,
    exit_code: int,
    policy: Policy,
    checks: Sequence[Check],
    runs: Sequence[Prepared],
    reached: Goodput | None,
    report_only: bool,
) -> str:
    """`FAIL chat-70b (blocked): goodput 91.8% < 99% (2,754 of 3,000 good, ...); TTFT alone causes ...`."""
    state = "report only, exit 0" if report_only else "blocked" if exit_code else ""
    if verdict is Verdict.INCONCLUSIVE and not exit_code and not report_only:
        state = f"unproven, not blocked: undecided is {policy.undecided}"
    state = ", ".join(filter(None, (f"profile {policy.profile}" if policy.profile else "", state)))
    lead = f"{verdict.value.upper()} {policy.name}{f' ({state})' if state else ''}"
    deciding = _deciding(verdict, checks)
    if verdict is Verdict.PASS:
        passed = sum(1 for one in checks if one.verdict is Verdict.PASS)
        whole = f"{passed} of {len(checks)} objectives pass"
        said = [[_short(deciding[0], policy)[0], whole]] if deciding else [[whole]]
    elif verdict is Verdict.FAIL:
        said = list(_failing(deciding, policy, runs, reached))
    elif verdict is Verdict.INCONCLUSIVE:
        said = list(_unproven(deciding, policy, runs))
    else:
        others = _others(verdict, len(deciding) - 1)
        said = [[short, *others] for short in _short(deciding[0], policy)]
    return fit(f"{lead}: {'; '.join(filter(None, parts))}" for parts in said)


def _deciding(verdict: Verdict, checks: Sequence[Check]) -> list[Check]:
    """What the headline is about; goodput first where it is one of those that decide."""
    found = [one for one in checks if _decides(one, verdict)]
    return sorted(found, key=lambda one: (not one.blocks, one.implied_by is not None, one.id != "goodput"))


def _decides(one: Check, verdict: Verdict) -> bool:
    if verdict is Verdict.WARN:
        open_ones = (Verdict.FAIL, Verdict.INCONCLUSIVE)
        return one.verdict in open_ones and (one.level is Level.WARN or one.waived is not None)
    return one.verdict is verdict and lines.weighs(one)


def _others(verdict: Verdict, number: int) -> list[str]:
    many = number != 1
    ending = {Verdict.FAIL: "" if many else "s", Verdict.WARN: "s" if many else ""}.get(verdict, "")
    return [_MORE[verdict].format(number, ending)] if number > 0 else []


def _failing(
    deciding: Sequence[Check], policy: Policy, runs: Sequence[Prepared], reached: Goodput | None
) -> Iterable[list[str]]:
    """Failed requests are said where they decide, first where they are most of it."""
    blamed = [one for one in deciding if lines.by_failures(one, runs)]
    rest = [one for one in deciding if one not in blamed]
    first = rest[0] if rest else blamed[0]
    cause, by_failing = _main_cause(reached)
    others = _others(Verdict.FAIL, len(deciding) - 1 - bool(blamed and rest))
    long, short = _short(first, policy)
    if not blamed:
        yield [long, *others, cause]
        yield [short, *others, cause]
        yield [short, *others]
        return
    briefer = ((lines.NAMED, long), (lines.NAMED, short), (1, short), (0, long), (0, short))
    for kinds, said, why in ((kinds, said, why) for why in (cause, "") for kinds, said in briefer):
        facts = [lines.failed(runs, kinds), said] if rest else [lines.failed(runs, kinds)]
        if not by_failing:
            facts.reverse()
        yield [*facts, *others, "" if by_failing else why]


def _unproven(deciding: Sequence[Check], policy: Policy, runs: Sequence[Prepared]) -> Iterable[list[str]]:
    """What cannot be judged first: more data does not help it. Checks of one cause are said together."""
    evidence = [one for one in deciding if one.cause == "evidence" and one.id not in (RUNS, EACH)]
    if not evidence:
        long, short = _short(min(deciding, key=lambda one: one.id in (RUNS, EACH)), policy)
        others = _others(Verdict.INCONCLUSIVE, len(deciding) - 1)
        yield [long, *others]
        yield [short, *others]
        return
    asked = {one.id: one for one in policy.objectives}
    of_rules = [one for one in evidence if asked[one.id].kind is Kind.RULE]
    first = next((one for one in evidence if one not in of_rules), evidence[0])
    fact = _fact(first)
    alike = [one for one in evidence if _fact(one) == fact]
    for run in runs:  # a headline has no room for a path
        fact = fact.replace(run.run.input, re.split(r"[/\\]", run.run.input)[-1])
    left = len(deciding) - len(alike)
    others = [f"{left} more unproven" if left else ""]
    names = [lines.subject(one, asked[one.id]) for one in alike]
    whole = len(alike) == len(policy.objectives) or first in of_rules or first.misses_range is not None
    # A path in front says less than what follows it.
    facts = re.sub(r" \([^()]*\)", "", fact).split("; ")[0].split(": ")
    brief = next((part for part in facts if " " in part), facts[0])
    for why in (fact, brief, brief.split(", ")[0]):
        if whole:
            yield [why, *others]
        elif len(names) <= lines.NAMED:
            yield [f"{_listed(names)} cannot be judged: {why}", *others]
        else:
            yield [f"{len(names)} objectives cannot be judged: {why}", *others]
    yield [why, *others]


def _fact(one: Check) -> str:
    """Why it cannot be judged, without what it would be otherwise."""
    judged = one.summary.startswith(lines.UNJUDGED)
    return one.summary.removeprefix(lines.UNJUDGED) if judged else one.summary.split("; ")[0]


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _short(one: Check, policy: Policy) -> tuple[str, str]:
    """What is said of one check, with its bracket and without what is most easily left out."""
    asked = next(objective for objective in policy.objectives if objective.id == one.id)
    waived = f", waived {lines.waiver(one)}" if one.waived else ""
    if one.verdict is Verdict.INCONCLUSIVE or asked.kind is Kind.RULE or one.observed is None:
        brief = one.summary.split("; ")[0]
        return (brief if one.cause == "undecided" else one.summary), brief
    said = lines.compared(one, asked)
    if one.misses is None or one.n is None:
        return said + waived, said + waived
    count = f"{one.misses:,} of {one.n:,} {'failed' if one.metric == 'error_rate' else 'missed'}"
    if asked.kind is Kind.GOODPUT:
        count = f"{one.n - one.misses:,} of {one.n:,} good"
    if one.interval is None or one.interval_of != "share":
        return f"{said} ({count}){waived}", f"{said} ({count}){waived}"
    low = one.verdict is Verdict.PASS
    edge = one.interval[0] if low else one.interval[1]
    shown = units.show(edge, units.SHARE, one.bound if one.unit == units.SHARE else None)
    bound = f"{'lower' if low else 'upper'} bound {shown}"
    return f"{said} ({count}, {bound}){waived}", f"{said} ({count}){waived}"


def _main_cause(found: Goodput | None) -> tuple[str, bool]:
    """Which kind of miss is the most frequent, in words, and whether it is failed requests."""
    if found is None or found.misses is None or not any(astuple(found.misses)):
        return "", True
    number = astuple(found.misses)
    most, name = max(zip(number, _CAUSES, strict=True), key=lambda pair: pair[0])
    failing = name == _CAUSES[-1]
    if most == sum(number):
        return ("every miss is a failed request" if failing else f"every miss is {name}"), failing
    verb = "causes" if name.endswith("alone") else "cause"
    return f"{name} {verb} {most / sum(number):.0%} of misses", failing


# ---- what to do ---------------------------------------------------------------------------


def next_action(
    checks: Sequence[Check], policy: Policy, runs: Sequence[Prepared], more: Effort | None
) -> str:
    """What a person does now, with its cost where it can be told: every blocker, in one line."""
    failing = [one for one in checks if one.verdict is Verdict.FAIL and lines.weighs(one)]
    if failing:
        return fit(_mend(failing, policy, runs))
    open_ones = [one for one in checks if one.verdict is Verdict.INCONCLUSIVE and lines.weighs(one)]
    if open_ones:
        return fit(_prove(open_ones, policy, more))
    warned = [one for one in checks if _decides(one, Verdict.WARN)]
    if warned:
        first = warned[0]
        remedy = first.remedy or sentences(more)[0] or first.summary.split("; ")[0]
        return fit((f"nothing blocks; to clear the warning, {remedy}", f"nothing blocks; {first.summary}"))
    tight = [
        one for one in checks if one.headroom and one.verdict is Verdict.PASS and one.unit == units.SECONDS
    ]
    if tight:
        least = min(tight, key=lambda one: one.headroom or 0)
        asked = next(objective for objective in policy.objectives if objective.id == least.id)
        room = f"{least.observed_text} of {units.show(least.bound, least.unit)}"
        ratio = units.show(least.headroom, units.RATIO)
        return f"nothing to do; tightest: {lines.subject(least, asked)} at {room} ({ratio}x headroom)"
    return "nothing to do"


def _mend(failing: Sequence[Check], policy: Policy, runs: Sequence[Prepared]) -> Iterable[str]:
    """Failed requests first, then the bounds that were missed, without those that only follow from them."""
    asked = {one.id: one for one in policy.objectives}
    blamed = any(lines.by_failures(one, runs) for one in failing)
    rest = [one for one in failing if not lines.by_failures(one, runs)]
    bounds = [one for one in rest if asked[one.id].kind is not Kind.GOODPUT] or ([] if blamed else rest)
    gaps: list[str] = []
    for one in bounds:
        gap = _gap(one, policy)
        if gaps and gap.startswith("lower ") and gaps[-1].startswith("lower "):
            gap = "and " + gap.removeprefix("lower ")
        gaps.append(gap)
    for number in range(min(len(gaps), 3), -1, -1):
        for kinds in (lines.NAMED, 1, 0) if blamed else (0,):
            first = [f"find out why {lines.failed(runs, kinds)}"] if blamed else []
            if first or number:
                yield "; ".join((*first, *gaps[:number])).replace("; and ", ", and ")


def _gap(one: Check, policy: Policy) -> str:
    """From what was seen to what is allowed."""
    asked = next(objective for objective in policy.objectives if objective.id == one.id)
    name, bound = lines.subject(one, asked), units.show(one.bound, one.unit)
    if one.observed is None:
        return f"find out why {one.summary.split('; ')[0]}"
    if asked.kind is Kind.HEADROOM:
        return f"cut the goodput drop from {one.observed_text} to {bound}"
    if asked.kind is Kind.REGRESSION:
        most = units.show(one.bound, units.SHARE)
        return f"bring the growth of {name} from {one.observed_text} down to {most}"
    return f"{'lower' if one.operator == '<=' else 'raise'} {name} from {one.observed_text} to {bound}"


def _prove(open_ones: Sequence[Check], policy: Policy, more: Effort | None) -> Iterable[str]:
    """Wrong data first, then more of it; a profile only where more data is all it takes."""
    remedies = list(dict.fromkeys(_stated(open_ones)))
    lacking = [one for one in open_ones if one.remedy == "" and one.id not in (RUNS, EACH)]
    if more is None and not remedies:
        yield f"measure again: {open_ones[0].summary}"
        yield f"measure again: {open_ones[0].summary.split('; ')[0]}"
        return
    other = ""
    if not remedies and PULL_REQUEST in policy.profiles and policy.profile != PULL_REQUEST:
        other = f"; or judge as a pull request: --profile {PULL_REQUEST}"
    if lacking and all(map(hardly, lacking)) and not remedies:
        names = _listed([one.id for one in lacking[: lines.NAMED]])
        where = f"{names} on the bound"
        yield f"more data will hardly decide: {where}; improve the build, or measure at another load"
    runs = sentences(more)
    brief = [re.sub(r", (?:or|such as) .*| \([^)]*\)$", "", remedy) for remedy in remedies]
    for kept, number in ((k, n) for n in range(len(remedies), -1, -1) for k in (remedies, brief)):
        left = len(remedies) - number
        rest = f"; and {left} more" if left else ""
        for run in runs:
            parts = [*kept[:number], run]
            if run and number and parts[-2].startswith("run "):  # run it with --streaming: 5 x 300 requests
                parts[-2:] = [f"{parts[-2]}: {run.removeprefix('run ')}"]
            if said := "; ".join(filter(None, parts)):
                yield said + rest + other


def _stated(open_ones: Sequence[Check]) -> Iterable[str]:
    """The remedies; facts that are to be stated in one."""
    facts = [
        one.remedy.partition("--set ")[2] for one in open_ones if one.remedy.startswith("state it: --set ")
    ]
    if facts:
        yield f"state {' '.join(f'--set {fact}' for fact in dict.fromkeys(facts))}"
    for one in open_ones:
        if one.remedy and not one.remedy.startswith("state it: --set "):
            yield one.remedy


# ---- where it comes from ------------------------------------------------------------------


def provenance(runs: Sequence[Prepared]) -> str:
    """Tool, version, model, hardware, load, lengths, runs, requests: one line; unknown is "not stated"."""
    if not runs:
        return "no run is judged"
    first = runs[0].run
    facts = [
        f"tool {first.tool} {_said(first.tool_version, 'tool_version' in first.stated, 'version ')}",
        f"model {_said(first.model, 'model' in first.stated)}",
        f"hardware {_said(first.hardware, 'hardware' in first.stated)}",
        f"load {_said(str(first.load) if first.load else None, 'load' in first.stated)}",
        f"prompt {_tokens(runs, 'input_tokens')}",
        f"output {_tokens(runs, 'output_tokens')}",
        *(f"{ours} from {theirs} (stated by the caller)" for ours, theirs in sorted(first.columns.items())),
        f"{len(runs)} run{'s' * (len(runs) > 1)}",
        f"{sum(one.counts.attempted for one in runs):,} requests"
        if all(one.stated_counts for one in runs)
        else "requests not stated",
        _dates(runs),
    ]
    return "; ".join(facts)


def _dates(runs: Sequence[Prepared]) -> str:
    days = sorted({one.run.date for one in runs if one.run.date})
    if not days:
        return "date not stated"
    return f"measured {days[0]}" + ("" if len(days) == 1 else f" to {days[-1]}")


def _said(value: str | None, by_caller: bool, what: str = "") -> str:
    if value is None:
        return f"{what}not stated"
    return f"{value} (stated by the caller)" if by_caller else value


def _tokens(runs: Sequence[Prepared], column: str) -> str:
    known = [cell for one in runs if (cell := one.lengths(column)) is not None]
    if len(known) < len(runs) or not any(map(len, known)):
        return "tokens not stated"
    lengths = np.concatenate(known)
    return f"{lengths.mean():.0f} tokens (stddev {lengths.std():.0f})"
