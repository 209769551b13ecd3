"""evaluate(policy, runs, today) -> Report: pure. No file, clock, network or environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date

from msgspec import Struct
from msgspec.structs import replace

from .. import units
from ..errors import Exit
from ..model import (
    Baseline,
    Capacity,
    Charts,
    Check,
    Comparison,
    Kind,
    Level,
    Objective,
    Policy,
    Provenance,
    Report,
    Run,
    Verdict,
    Waiver,
    WhatIf,
)
from . import loads
from .burden import burden_notes, with_burden
from .checks import CLUSTERS, Setting, expected as describe
from .compare import regression
from .compare.baseline import ALLOWABLE
from .compare.regression import compare_loads
from .compare.remembered import choose_sessions
from .explain import lines, summary, words
from .explain.attribution import attribute
from .explain.change import sentence
from .explain.effort import effort, with_range
from .explain.inspection import inspect as inspect_runs
from .explain.next import measure_next
from .judge import objectives, sweep
from .prepare import Prepared, prepare
from .sound import validity

Moved = Callable[[Policy, Sequence[Run]], WhatIf]  # goodput as its bounds move
FAIL_ON = ("fail", "inconclusive", "warn")


def evaluate(
    policy: Policy,
    runs: Sequence[Run],
    today: date,
    *,
    baseline: Baseline | None = None,
    notes: Sequence[str] = (),
    fail_on: str = "fail",
    report_only: bool = False,
    looks: int = 1,
    again: tuple[Sequence[Run], Baseline] | None = None,
    charts: Moved | None = None,
) -> Report:
    """Judge runs by a policy.

    `today` decides whether a waiver has expired. `fail_on` (fail, inconclusive, warn) may only
    tighten what the policy lets through; `report_only` exits 0 and says so. `looks` is how often a
    sequence of runs is judged, planned in advance: each look gets that part of alpha (docs/statistics.md).
    `again` is a second measurement of both builds, planned as one more look: a regression that blocks and
    fails is judged by it alone too, and fails if both fail.
    `charts` asks for the data of pictures: it is gate.advise.whatif.whatif, whose picture is one of them.
    Raises InputError for a `baseline` of another benchmark.
    """
    setting = _setting(policy, runs, looks)
    chosen, prepared = loads.Selection(tuple(setting.runs), setting.unselected), setting.everything
    seen = validity.findings(chosen.runs, policy, baseline)
    grown, compared = regression.judge(policy, setting, baseline)
    if again is not None:
        grown |= regression.confirmed(grown, _setting(policy, again[0], looks), again[1])
    checks = [grown.get(one.id) or objectives.judge(one, setting) for one in policy.objectives]
    checks = validity.doubted(_coherent(policy, _by_percentile(policy, checks)), seen.doubts, policy)
    capacity, met = sweep.capacity(setting, lambda runs: _at_load(setting, runs, checks))
    checks = [with_burden(_waived(one, policy.waivers, today), policy) for one in checks]
    checks = lines.summarised([with_range(one, setting) for one in checks], policy, chosen.runs, today)
    verdict = _verdict(checks)
    code = Exit.PASS if report_only else _exit(verdict, checks, fail_on)
    judged = _Judged(tuple(checks), verdict, code, capacity, met, compared)
    report = _assembled(setting, runs, judged, report_only)
    notes = (
        *policy.notes,
        *_top_notes(policy, chosen, prepared, today),
        *seen.notes,
        *report.notes,
        *notes,
        *burden_notes(checks, policy),
        *_alone(verdict, checks),
        *_compared_notes(compared),
    )
    return replace(report, notes=notes, charts=_pictures(setting, runs, checks, charts) if charts else None)


def _setting(policy: Policy, runs: Sequence[Run], looks: int) -> Setting:
    prepared = [prepare(run, policy) for run in runs]
    chosen = loads.select(prepared, policy)
    alpha = round((1 - policy.evidence.confidence) / looks, 12)
    return Setting(policy, alpha, objectives.family(policy), chosen.runs, chosen.reason, prepared)


class _Judged(Struct, frozen=True):
    """What was decided, before it is laid out."""

    checks: tuple[Check, ...]
    verdict: Verdict
    code: Exit
    capacity: Capacity | None
    met: Mapping[int, Verdict]  # of each load, by the id of its first run
    compared: Comparison | None


def _assembled(setting: Setting, runs: Sequence[Run], judged: _Judged, report_only: bool) -> Report:
    """The report of what was decided; its notes say which metrics are not shown."""
    policy, chosen, checks = setting.policy, setting.runs, judged.checks
    found = summary.goodput_of(chosen, policy) if chosen else None
    found = summary.with_interval(found, checks)
    metrics, absent = summary.metrics(chosen)
    checks = summary.beside(checks, metrics)
    attribution = attribute(chosen, policy)
    more = effort(policy, checks, chosen)
    return Report(
        judged.verdict,
        int(judged.code),
        words.headline(judged.verdict, int(judged.code), policy, checks, chosen, found, report_only),
        words.next_action(checks, policy, chosen, more),
        policy,
        loads.inputs(runs),
        tuple(summary.run_report(one, policy, one in chosen) for one in setting.everything),
        checks,
        found,
        metrics,
        tuple(absent),
        Provenance(words.provenance(chosen or setting.everything)),
        change=sentence(judged.compared, checks),
        baseline=judged.compared,
        report_only=report_only,
        loads=tuple(
            summary.load_report(group, policy, group[0] in chosen, judged.met.get(id(group[0])))
            for group in loads.grouped(setting.everything).values()
        ),
        capacity=judged.capacity,
        attribution=attribution,
        effort=more,
        measure_next=measure_next(policy, setting.everything, chosen, metrics, attribution),
    )


def _at_load(setting: Setting, runs: Sequence[Prepared], at_target: Sequence[Check]) -> Sequence[Check]:
    """The policy's verdicts as if the load of these runs were the target."""
    if runs[0] in setting.runs:
        return at_target
    policy, here = setting.policy, replace(setting, runs=runs, unselected="")
    asked = [one for one in policy.objectives if sweep.decides(one)]
    checks = _coherent(policy, [objectives.judge(one, here) for one in asked])
    return validity.doubted(checks, validity.findings(runs, policy).doubts, policy)


def _pictures(setting: Setting, runs: Sequence[Run], checks: Sequence[Check], moved: Moved) -> Charts:
    from .explain.charts import charts  # only where a page is wanted: costs start-up time

    return charts(runs, setting, checks, moved)


def _coherent(policy: Policy, checks: Sequence[Check]) -> list[Check]:
    """A goodput PASS passes the percentiles it contains; a contained FAIL fails goodput."""
    asked = {one.id: one for one in policy.objectives}
    whole = next((one for one in checks if one.id == "goodput"), None)
    if whole is None or whole.n is None:
        return list(checks)
    contained = {
        one.id
        for one in checks
        if objectives.contains(policy, asked["goodput"], asked[one.id]) and one.n == whole.n
    }
    if whole.verdict is Verdict.PASS:
        return [_implied(one, whole) if one.id in contained else one for one in checks]
    failed = next(
        (
            one
            for one in checks
            if one.id in contained and one.verdict is Verdict.FAIL and _strict(asked, one)
        ),
        None,
    )
    if failed is None or whole.verdict is Verdict.FAIL:
        return list(checks)
    return [_implied(whole, failed) if one is whole else one for one in checks]


def _by_percentile(policy: Policy, checks: Sequence[Check]) -> list[Check]:
    """What another percentile of the same metric and requests already decides, at an equal or stricter bound.

    "P99 TTFT <= 1 s" holds "P90 TTFT <= 1 s"; where the weaker one fails, so does the stricter.
    """
    asked = {one.id: one for one in policy.objectives if one.kind is Kind.LATENCY}
    decided = [one for one in checks if one.id in asked and one.verdict in (Verdict.PASS, Verdict.FAIL)]

    def by(one: Check) -> Check | None:
        if one.id not in asked or one.cause != "undecided":
            return None
        for other in decided:
            pair = (asked[other.id], asked[one.id])
            strict, weak = pair if other.verdict is Verdict.PASS else pair[::-1]
            if one.n == other.n and objectives.holds(strict, weak):
                return other
        return None

    return [_implied(one, other) if (other := by(one)) is not None else one for one in checks]


def _strict(asked: dict[str, Objective], one: Check) -> bool:
    share, goodput = asked[one.id].share, asked["goodput"].share
    return share is not None and goodput is not None and goodput >= share


def _implied(one: Check, by: Check) -> Check:
    if one.verdict is by.verdict:
        return one
    goodput = "goodput" in (one.id, by.id)
    if by.verdict is Verdict.PASS:
        outcome = "passes: every good request meets it" if goodput else "passes at an equal or stricter bound"
    else:
        outcome = "fails: what misses it is not good" if goodput else "fails at an equal or looser bound"
    reason = f"follows from {by.id}, which {outcome}"
    return replace(
        one,
        verdict=by.verdict,
        reason=reason,
        implied_by=by.id,
        cause=None,
        more_requests=None,
        more_range=None,
        interval=None,
        interval_of=None,
        n_eff=None,
        deff=None,
    )


def _waived(one: Check, waivers: Sequence[Waiver], today: date) -> Check:
    """A waiver covers a FAIL until its day; an expired one covers nothing and is said."""
    for waiver in waivers:
        if waiver.objective == one.id and one.verdict is Verdict.FAIL and today <= waiver.until:
            return replace(one, waived=f"until {waiver.until}, {waiver.owner}: {waiver.reason}")
    return one


def _verdict(checks: Sequence[Check]) -> Verdict:
    blocking = [one for one in checks if one.level is Level.BLOCK]
    if any(one.verdict is Verdict.FAIL and not one.waived for one in blocking):
        return Verdict.FAIL
    if any(one.verdict is Verdict.INCONCLUSIVE for one in blocking):
        return Verdict.INCONCLUSIVE
    warned = [
        one
        for one in checks
        if one.level is Level.WARN and one.verdict not in (Verdict.PASS, Verdict.SKIPPED)
    ]
    return Verdict.WARN if warned or any(one.waived for one in blocking) else Verdict.PASS


def _exit(verdict: Verdict, checks: Sequence[Check], fail_on: str) -> Exit:
    if verdict is Verdict.FAIL:
        return Exit.FAIL
    if verdict is Verdict.INCONCLUSIVE:
        return Exit.INCONCLUSIVE if fail_on != "fail" or any(one.blocks for one in checks) else Exit.PASS
    return Exit.WARN if verdict is Verdict.WARN and fail_on == "warn" else Exit.PASS


def _top_notes(
    policy: Policy, chosen: loads.Selection, prepared: Sequence[Prepared], today: date
) -> list[str]:
    notes = []
    if policy.evidence.decide == "point":
        notes.append("decide: point: verdicts are naked estimates, their error rate is not controlled")
    if 0 < (number := len(chosen.runs)) < CLUSTERS:
        notes.append(_spread_note(number, policy))
    notes += [
        f"the waiver of {waiver.objective} expired on {waiver.until} ({waiver.owner})"
        for waiver in policy.waivers
        if waiver.until < today
    ]
    judged = [one.run for one in chosen.runs]
    if any(one.counts.failed for one in chosen.runs):
        notes.append(_failure_note(chosen.runs))
    notes += _shared_notes(chosen.runs)
    definitions = judged[0].definitions if judged else {}
    used = {objective.metric for objective in policy.objectives} | {b.metric for b in policy.goodput_bounds}
    notes += [f"{m.upper()} in {judged[0].tool}: {text}" for m, text in definitions.items() if m in used]
    notes += dict.fromkeys(text for run in judged for of, text in run.caveats.items() if of in used)
    elsewhere = [one for one in prepared if one not in chosen.runs]
    if chosen.runs and elsewhere:
        one = len(elsewhere) == 1
        where = f"{len(elsewhere)} run{'s' * (not one)} at other loads {'is' if one else 'are'}"
        notes.append(f"{where} shown but not judged: {loads.loads(elsewhere)}")
    return notes


def _failure_note(runs: Sequence[Prepared]) -> str:
    """How many requests failed, in how many runs, and with what."""
    hit, kinds = sum(1 for one in runs if one.counts.failed), lines.failures(runs)
    where = f" in {hit} of {len(runs)} runs" if len(runs) > 1 else ""
    return lines.failed(runs, 0) + where + (f": {kinds}" if kinds else "")


def _spread_note(number: int, policy: Policy) -> str:
    """How far fewer than five runs cover differences between runs: node, clocks, warm caches."""
    runs = f"{number} run{'s' * (number > 1)}"
    spread = 0.0 if policy.evidence.decide == "point" else policy.evidence.run_spread
    if not spread:
        return f"{runs}: differences between runs (node, clocks, warm caches) are not covered"
    margin = units.show(spread, units.SHARE)
    return (
        f"{runs}: differences between runs are covered up to {margin} of a latency (run_spread), not those of"
        " a queue near capacity; five or more runs show both"
    )


def _compared_notes(found: Comparison | None) -> list[str]:
    return [f"baseline: {note}" for note in found.notes] if found is not None else []


def _alone(verdict: Verdict, checks: Sequence[Check]) -> list[str]:
    """The one objective that keeps the gate open, where there is one, and what it would take."""
    blocking = [one for one in checks if one.blocks]
    if verdict is not Verdict.INCONCLUSIVE or len(blocking) != 1 or blocking[0].cause != "undecided":
        return []
    (one,) = blocking
    need = "its reason says what would decide it"
    if one.more_requests is not None:
        need = f"about {units.about(one.more_requests)} more requests would decide it"
    return [f"{one.id} alone keeps the gate open, everything else that blocks passes; {need}"]


def _shared_notes(runs: Sequence[Prepared]) -> list[str]:
    """Each note of the judged runs once, with how many runs say it."""
    number: dict[str, int] = {}
    for one in runs:
        # The first note of a run with failures says what they are: that is said of all runs together.
        for note in (*one.run.notes[bool(one.run.failures) :], *one.notes):
            number[note] = number.get(note, 0) + 1
    several = len(runs) > 1
    return [note + (f" ({n} of {len(runs)} runs)" if several else "") for note, n in number.items()]


__all__ = ["ALLOWABLE", "FAIL_ON", "choose_sessions", "compare_loads", "describe", "evaluate", "inspect_runs"]
