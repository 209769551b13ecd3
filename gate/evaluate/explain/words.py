"""The sentences at the top and bottom of every output: headline, next action, provenance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import astuple

from ... import units
from ...model import Check, Goodput, Level, Policy, Verdict
from ..prepare import Prepared

# As Misses has them.
_CAUSES = ("TTFT alone", "TPOT alone", "E2E alone", "several bounds at once", "failed requests")


def headline(
    verdict: Verdict,
    exit_code: int,
    policy: Policy,
    checks: Sequence[Check],
    reached: Goodput | None,
    report_only: bool,
) -> str:
    """`FAIL chat-70b (blocked): goodput 91.8% < 99% (...); TTFT alone causes 71% of misses`."""
    state = "report only, exit 0" if report_only else "blocked" if exit_code else ""
    if verdict is Verdict.INCONCLUSIVE and not exit_code and not report_only:
        state = "unproven, let through by the policy"
    state = ", ".join(filter(None, (f"profile {policy.profile}" if policy.profile else "", state)))
    first = _first(verdict, checks)
    said = f": {_short(first)}" if first else ""
    others = sum(1 for one in checks if one.verdict is (first.verdict if first else None)) - 1
    if verdict is Verdict.PASS:
        passed = sum(1 for one in checks if one.verdict is Verdict.PASS)
        said += f"; {passed} of {len(checks)} objectives pass"
    elif others > 0:
        said += f"; and {others} more"
    if verdict is Verdict.FAIL:
        said += _main_cause(reached)
    return f"{verdict.value.upper()} {policy.name}{f' ({state})' if state else ''}{said}"


def _first(verdict: Verdict, checks: Sequence[Check]) -> Check | None:
    """The check the headline is about: goodput where it is one of those that decide."""
    deciding = [one for one in checks if _decides(one, verdict)]
    deciding.sort(key=lambda one: (not one.blocks, one.id != "goodput"))
    return deciding[0] if deciding else None


def _decides(one: Check, verdict: Verdict) -> bool:
    if verdict is Verdict.WARN:
        return one.verdict is not Verdict.PASS and (one.level is Level.WARN or one.waived is not None)
    return one.verdict is verdict and one.level is Level.BLOCK and not one.waived


def _short(one: Check) -> str:
    if one.verdict is Verdict.INCONCLUSIVE or not one.observed_text or one.n is None:
        return f"{one.expected or one.id}: {one.reason}"
    if one.unit == units.RATIO:  # growth against a baseline
        name, most = f"{one.statistic.upper()} {one.metric.upper()}", units.show(one.bound, units.SHARE)
        return f"{name} {one.observed_text} against the baseline, at most {most} allowed"
    sign = (
        one.operator
        if one.verdict is Verdict.PASS
        else {"<=": ">", ">=": "<"}.get(one.operator, one.operator)
    )
    bound = units.show(one.bound, one.unit)
    name = (
        one.id
        if one.id in ("goodput", "error_rate", "throughput")
        else f"{one.statistic.upper()} {one.metric.upper()}"
    )
    return f"{name.replace('_', ' ')} {one.observed_text} {sign} {bound}{_evidence(one)}"


def _evidence(one: Check) -> str:
    if one.misses is None or one.n is None:
        return ""
    # Of an error rate the failures are counted, of every other rule what met it.
    count = f"{one.misses if one.metric == 'error_rate' else one.n - one.misses:,} of {one.n:,}"
    if one.interval is None or one.interval_of != "share":
        return f" ({count})"
    low = one.verdict is Verdict.PASS
    edge = one.interval[0] if low else one.interval[1]
    against = one.bound if one.unit == units.SHARE else None
    return f" ({count}, {'lower' if low else 'upper'} bound {units.show(edge, units.SHARE, against)})"


def _main_cause(found: Goodput | None) -> str:
    if found is None or found.misses is None:
        return ""
    number = astuple(found.misses)
    if not any(number):
        return ""
    most, name = max(zip(number, _CAUSES, strict=True), key=lambda pair: pair[0])
    verb = "causes" if name.endswith("alone") else "cause"
    return f"; {name} {verb} {most / sum(number):.0%} of misses"


def next_action(verdict: Verdict, checks: Sequence[Check], runs: Sequence[Prepared]) -> str:
    """What to do now, with its cost where it can be told."""
    blocking = [one for one in checks if one.level is Level.BLOCK and not one.waived]
    failed = [one for one in blocking if one.verdict is Verdict.FAIL]
    if failed:
        return "; ".join(_gap(one) for one in failed[:2])
    open_ones = [one for one in blocking if one.verdict is Verdict.INCONCLUSIVE]
    evidence = [one for one in open_ones if one.cause == "evidence"]
    if evidence:
        return f"{evidence[0].id}: {evidence[0].reason}"
    more = [one.more_requests for one in open_ones if one.more_requests]
    if more:
        return f"{_cost(max(more), runs)}"
    if open_ones:
        return f"{open_ones[0].id}: {open_ones[0].reason}"
    warned = [
        one
        for one in checks
        if one.verdict not in (Verdict.PASS, Verdict.SKIPPED) and one.level is not Level.INFO
    ]
    if warned:
        return f"nothing blocks; {warned[0].id}: {warned[0].reason}"
    tight = [
        one for one in checks if one.headroom and one.verdict is Verdict.PASS and one.unit == units.SECONDS
    ]
    if tight:
        least = min(tight, key=lambda one: one.headroom or 0)
        room = f"{least.headroom:.2f} x its observed {least.observed_text}"
        return f"nothing to do; least headroom: {least.id}, {room}"
    return "nothing to do"


def _gap(one: Check) -> str:
    if one.observed is None or one.bound is None:
        return f"{one.id}: {one.reason}"
    if one.unit == units.RATIO:
        return f"bring {one.id} from {one.observed_text} to at most {units.show(one.bound, units.SHARE)}"
    return f"bring {one.id} from {one.observed_text} to {one.operator} {units.show(one.bound, one.unit)}"


def _cost(more: int, runs: Sequence[Prepared]) -> str:
    seconds = sum(one.run.duration_s or 0 for one in runs)
    attempted = sum(one.run.counts.attempted for one in runs)
    cost = f", {more / attempted * seconds:.0f} s at this rate," if seconds and attempted else ""
    return f"at least about {units.about(more)} more requests{cost} would decide"


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
        f"measured {_dates(runs)}",
    ]
    return "; ".join(facts)


def _dates(runs: Sequence[Prepared]) -> str:
    days = sorted({one.run.date for one in runs if one.run.date})
    if not days:
        return "on a day not stated"
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


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
