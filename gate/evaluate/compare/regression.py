"""Regression: how much a percentile grew against a baseline, and whether that is more than it may.

docs/regression.md, DESIGN section 4: logarithms of one percentile a run, paired where both sides did the
same work, otherwise Welch; a band over ten stored sessions or more; fewer stored sessions only warn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ... import stats, units
from ...model import (
    METRICS,
    Baseline,
    Change,
    Check,
    Comparison,
    EvidenceRules,
    Kind,
    Level,
    Objective,
    Policy,
    Run,
    Verdict,
)
from .. import loads
from ..checks import SURE_FROM, Setting, check, missing, not_believed, percent
from ..judge.counting import Unknown
from ..prepare import Prepared, prepare
from .baseline import BAND_FROM, STORED, Sides, choose_sides
from .doubted import at_worst, partial_doubts
from .growth import FEWEST, Growth, Unbounded, grown, signed

_MEND = "check the name of the baseline, or the step that writes it"
POWER = 0.8  # chance that the number of runs it names decides


class _Asked(Struct, frozen=True, eq=False):
    """An objective with what was measured for it."""

    objective: Objective
    growth: Growth
    limit: float  # growth that is still fine: the margin, or more where the floor in seconds is more
    p_value: float  # of "it grew by no more than that"


def judge(
    policy: Policy, setting: Setting, baseline: Baseline | None
) -> tuple[dict[str, Check], Comparison | None]:
    """Every regression objective by id, and the comparison behind them.

    Raises InputError for a baseline of another benchmark.
    """
    asked = [one for one in policy.objectives if one.kind is Kind.REGRESSION]
    if baseline is None:
        return {one.id: _without(one, policy) for one in asked}, None
    if baseline.fault:
        fault = f"the baseline cannot be used: {baseline.fault}"
        return {one.id: replace(missing(one, fault), remedy=_MEND) for one in asked}, None
    if setting.unselected:
        return {one.id: missing(one, setting.unselected) for one in asked}, None
    sides = choose_sides(setting.runs, baseline, policy)
    return judge_sides(sides, asked, setting), compare(setting.runs, sides, policy, setting.alpha)


def confirmed(found: Mapping[str, Check], setting: Setting, baseline: Baseline) -> dict[str, Check]:
    """What blocks and fails, after a second measurement that is judged alone: it fails if both fail.

    Where the second passes, so does the rule, with the figures of the second; else it is undecided.
    Raises InputError for a second measurement of another benchmark.
    """
    failed = [one for one in setting.policy.objectives if _blocked(found.get(one.id))]
    if not failed:
        return {}
    if setting.unselected:
        second = {one.id: missing(one, setting.unselected) for one in failed}
    else:
        second = judge_sides(choose_sides(setting.runs, baseline, setting.policy), failed, setting)
    return {id_: _both(found[id_], again) for id_, again in second.items()}


def _blocked(one: Check | None) -> bool:
    return one is not None and one.level is Level.BLOCK and one.verdict is Verdict.FAIL


def _both(first: Check, again: Check) -> Check:
    if again.verdict is Verdict.FAIL:
        return replace(first, reason=f"{first.reason} Confirmed: measured once more, {again.reason}")
    return replace(again, reason=f"{again.reason} Not confirmed: at first it failed, {first.reason}")


def judge_sides(sides: Sides, asked: Sequence[Objective], setting: Setting) -> dict[str, Check]:
    """The regression objectives of a comparison by id."""
    policy = setting.policy
    found: dict[str, Check] = {}
    measured: list[_Asked] = []
    for objective in asked:
        lowered = _lowered(objective, sides)
        # What is no question of how much sessions differ blocks where the policy requires a comparison.
        whole = objective if objective.required else lowered
        try:
            measured.append(_asked(lowered, grown(sides, lowered, policy)))
        except Unknown as why:
            found[objective.id] = missing(whole, str(why))
        except Unbounded as why:
            found[objective.id] = check(whole, Verdict.FAIL, str(why), observed_text="unbounded")
    for family in (
        [one for one in measured if one.objective.level is Level.BLOCK],
        [one for one in measured if one.objective.level is not Level.BLOCK],
    ):
        found |= {id_: _believed(one, setting, sides) for id_, one in _family(family, setting, sides).items()}
    return found


def _believed(one: Check, setting: Setting, sides: Sides) -> Check:
    """A PASS stands where it does so also with every doubted request against the candidate."""
    doubts = partial_doubts(sides, one.metric) if one.verdict is Verdict.PASS else []
    if not doubts:
        return one
    objective = next(asked for asked in setting.policy.objectives if asked.id == one.id)
    worst = at_worst(sides, one.metric)
    try:
        again = worst and _asked(objective, grown(worst, objective, setting.policy))
    except (Unknown, Unbounded):
        again = None
    if not again or _family([again], setting, sides)[one.id].verdict is not Verdict.PASS:
        return not_believed(one, doubts[0])
    number = sum(doubt.requests or 0 for doubt in doubts)
    return replace(one, reason=f"{one.reason} It holds with the {number:,} doubted requests against it too.")


def _without(objective: Objective, policy: Policy) -> Check:
    where = "the history gave none, the notes say why" if policy.history else "give one with --baseline"
    if objective.required:
        return missing(objective, f"the policy requires a baseline and there is none: {where}")
    return check(objective, Verdict.SKIPPED, f"there is no baseline: {where}")


def _lowered(objective: Objective, sides: Sides) -> Objective:
    """Too few stored sessions never block: their spread alone gives 20 to 40 % false alarms."""
    if sides.kind != STORED or objective.level is not Level.BLOCK:
        return objective
    return replace(objective, level=Level.WARN)


def _asked(objective: Objective, growth: Growth) -> _Asked:
    margin, floor_s = objective.bound or 0.0, objective.floor_s
    limit = margin if floor_s is None else max(margin, floor_s / growth.baseline_s)
    if growth.log.more is None or growth.seconds.more is None:
        return _Asked(objective, growth, limit, 1.0)
    p_value = growth.log.more.p_above(math.log1p(margin))
    if floor_s is not None:  # both must be exceeded for sure, each tested at the full level
        p_value = max(p_value, growth.seconds.more.p_above(floor_s))
    return _Asked(objective, growth, limit, p_value)


def _family(asked: Sequence[_Asked], setting: Setting, sides: Sides) -> dict[str, Check]:
    """Any FAIL fails the gate, so all of a level share alpha (Holm, step down)."""
    if setting.policy.evidence.decide == "point":
        return {one.objective.id: _point(one, sides) for one in asked}
    levels = stats.holm_levels([one.p_value for one in asked], setting.alpha) if asked else []
    return {
        one.objective.id: _judged(one, level, setting, sides)
        for one, level in zip(asked, levels, strict=True)
    }


def _point(one: _Asked, sides: Sides) -> Check:
    growth = one.growth
    reason = f"{_seen(one)}; point estimate over {growth.method}, without an interval"
    if min(growth.growth, growth.measured) > one.limit:
        return _check(one, Verdict.FAIL, reason)
    if growth.unreached:
        return _open(one, f"{reason}; {growth.unfit_to_pass}", sides)
    if max(growth.growth, growth.measured) > one.limit:
        return _open(one, reason, sides)
    return _open(one, reason, sides) if _other_outputs(one, sides) else _check(one, Verdict.PASS, reason)


def _judged(one: _Asked, level: float, setting: Setting, sides: Sides) -> Check:
    growth, margin = one.growth, one.objective.bound or 0.0
    if growth.log.more is None or growth.seconds.more is None:
        held = _held(sides)
        if min(held) < SURE_FROM:
            why = (
                f"the baseline has {held[0]:,} requests and the results {held[1]:,}: too few for an interval"
            )
        else:
            why = f"{growth.runs} short run{'s' * (growth.runs != 1)} a side give no interval"
        return _open(one, f"{_seen(one)}; {'; '.join(filter(None, (why, growth.unfit_to_pass)))}", sides)
    clear, clear_s = growth.log.clear, growth.seconds.clear
    upper = clear or growth.log.more
    low, high = math.expm1(growth.log.more.lower(level)), math.expm1(upper.upper(setting.alpha))
    facts = {"interval": (min(low, high), high), "interval_of": "ratio"}
    limit, floor_s = percent(margin), one.objective.floor_s
    tail = _tail(one, sides)
    agreed = (growth.measured > margin) == (growth.growth > margin)
    if one.p_value < level and agreed:
        lower = f"{percent(1 - level)} lower bound {signed(low, margin)}"
        both = f", and surely by more than {units.show(floor_s, units.SECONDS)}" if floor_s else ""
        return _check(one, Verdict.FAIL, f"{_seen(one)}; {lower} > {limit}{both}. {tail}", **facts)
    small = floor_s is not None and (clear_s or growth.seconds.more).upper(setting.alpha) <= floor_s
    if max(high, growth.measured) <= margin or (small and growth.measured <= one.limit):
        if clear is None or _other_outputs(one, sides):
            return _open(one, "; ".join(filter(None, (_seen(one), growth.unfit_to_pass))), sides, **facts)
        why = f"{percent(1 - setting.alpha)} upper bound {signed(high, margin)} <= {limit}"
        if high > margin:
            why = "surely by less than the floor"
        elif high < 0:
            why += ". Faster than the baseline"
        elif math.expm1(clear.lower(setting.alpha)) >= -margin:
            why = f"practically equivalent within {limit}: {why}"
        return _check(one, Verdict.PASS, f"{_seen(one)}; {why}. {tail}", **facts)
    span = f"interval {signed(low)} to {signed(high)} contains {signed(one.limit)}"
    if not agreed:
        span = f"as measured and at equal lengths lie on both sides of {limit}"
    return _open(one, f"{_seen(one)}; {span}. {_more(one, level)}{tail}", sides, **facts)


def _held(sides: Sides) -> tuple[int, int]:
    """Attempted requests of the baseline and of the candidate."""
    base, candidate = (sum(run.counts.attempted for run in side) for side in (sides.base, sides.candidate))
    return base, candidate


def _other_outputs(one: _Asked, sides: Sides) -> str:
    return sides.other_outputs if one.objective.metric == "e2e" else ""


def _open(one: _Asked, reason: str, sides: Sides, **facts: object) -> Check:
    """Neither a PASS nor a FAIL, by one cause however small the growth: no faster build may be blocked

    where a slower one is not. That is `undecided`; outputs of another length are another workload: evidence.
    """
    if outputs := _other_outputs(one, sides):
        return _check(one, Verdict.INCONCLUSIVE, f"{reason}; {outputs}", cause="evidence", **facts)
    short = [
        (n, who) for n, who in zip(_held(sides), ("baseline", "new build"), strict=True) if n < SURE_FROM
    ]
    if short:
        number, who = min(short)
        facts["remedy"] = (
            f"measure the {who} with {SURE_FROM} requests or more after warm-up: it has {number:,}"
        )
    return _check(one, Verdict.INCONCLUSIVE, reason, cause="undecided", **facts)


def _check(one: _Asked, verdict: Verdict, reason: str, **facts: object) -> Check:
    # The bound shown is the one that counts at this baseline, so that it can be compared with the growth.
    return check(
        replace(one.objective, bound=one.limit),
        verdict,
        " ".join(reason.split()),
        observed=None if one.growth.unreached else one.growth.growth,
        observed_text=signed(one.growth.growth, one.limit),
        n=one.growth.units,
        requests=one.growth.requests,
        **facts,
    )


def _seen(one: _Asked) -> str:
    growth = one.growth
    values = (units.show(growth.candidate_s, units.SECONDS), units.show(growth.baseline_s, units.SECONDS))
    raw = f"; as measured {signed(growth.measured)}" if growth.measured != growth.growth else ""
    return f"{signed(growth.growth, one.limit)} ({values[0]} against {values[1]}{raw})"


def _tail(one: _Asked, sides: Sides) -> str:
    said = [f"From {one.growth.method}."]
    if sides.kind == STORED:
        said.append(
            f"This only warns: the baseline is {_sessions(len(sides.sessions[0]))}, stored, and sessions"
            " differ by 3 to 5% with no change of the build. It blocks with --same-session (one job measured"
            f" both), `slo-gate run --baseline-command COMMAND`, or {BAND_FROM} stored sessions."
        )
    elif 0 < one.growth.runs < FEWEST:
        said.append("Fewer than three runs a side: how much runs differ is assumed, not measured.")
    if one.growth.note:
        said.append(one.growth.note)
    return " ".join(said)


def _more(one: _Asked, level: float) -> str:
    """About how many runs would decide, if growth and spread persist: an order of magnitude."""
    growth, limit = one.growth, math.log1p(one.limit)
    better = growth.growth <= one.limit
    shift = (growth.log.clear if better else None) or growth.log.more
    if shift is None or shift.error == 0 or growth.runs == 0:
        return ""
    gap = abs(shift.estimate - limit)
    z = stats.normal_quantile(1 - level) + stats.normal_quantile(POWER)
    runs = math.ceil(growth.runs * (z * shift.error / gap) ** 2) if gap > 1e-9 else 0
    each = ""
    if better and growth.wanted[0]:
        runs, each = max(runs, growth.runs, growth.wanted[0]), f" of {growth.wanted[1]:,} requests"
    elif runs <= growth.runs:
        return ""
    if runs > 1000:
        return ""
    return f"At least {units.about(runs)} runs{each} a side would decide (estimate). "


def _sessions(number: int) -> str:
    return f"{number} session{'s' * (number != 1)}"


# ---- without a policy ----------------------------------------------------------------------------


def compare_loads(runs: Sequence[Run], baseline: Baseline, evidence: EvidenceRules) -> tuple[Comparison, ...]:
    """Every load that both sides hold, in ascending order; loads of the results alone are named in a note.

    `evidence` gives the confidence and the warm-up rule. Raises InputError for a baseline of another
    benchmark, or one without any of these loads.
    """
    policy = Policy("compare", "", "", (), evidence=evidence)
    groups = loads.grouped([prepare(run, policy) for run in runs]).values()
    held = [run.load for run in baseline.runs]
    shared = [g for g in groups if "load" in baseline.allowed or g[0].run.load in held]
    left = [one for group in groups if group not in shared for one in group]
    alpha = round(1 - evidence.confidence, 12)
    found = []
    for group in shared or list(groups)[:1]:  # no load in common: the first says what the baseline holds
        sides = choose_sides(group, baseline, policy)
        one = compare(group, sides, policy, alpha)
        found.append(
            replace(one, notes=(*one.notes, f"not in the baseline: {loads.loads(left)}")) if left else one
        )
    return tuple(found)


# ---- the comparison ------------------------------------------------------------------------------


def compare(candidate: Sequence[Prepared], sides: Sides, policy: Policy, alpha: float) -> Comparison:
    """P50, P90 and P99 of every metric, and the policy's own percentiles, with intervals at `alpha`."""
    asked = {(m, p): None for m in METRICS for p in (0.5, 0.9, 0.99)}
    asked |= {(o.metric, o.share or 0.0): None for o in policy.objectives if o.kind is Kind.REGRESSION}
    changes: list[Change] = []
    notes = list(sides.notes)
    for metric, share in sorted(asked, key=lambda key: (_ORDER.index(key[0]), key[1])):
        statistic = f"p{share * 100:.10g}"
        objective = Objective(
            f"regression.{metric}.{statistic}", Kind.REGRESSION, Level.INFO, metric, statistic, share=share
        )
        try:
            changes.append(_change(grown(sides, objective, policy), metric, statistic, alpha))
        except (Unknown, Unbounded) as why:
            if metric != "itl" or any(o.metric == "itl" for o in policy.objectives):
                notes.append(f"{statistic.upper()} {metric.upper()} is not compared: {why}")
    base = [one.run for one in sides.base]
    return Comparison(
        _name(sides),
        candidate[0].run.load,
        loads.inputs(base),
        f"{sides.kind} (advisory)" if sides.kind == STORED else sides.kind,
        len(sides.sessions[0]),
        (len(sides.base), len(sides.candidate)),
        tuple(changes),
        tuple(notes),
    )


_ORDER = METRICS


def _change(growth: Growth, metric: str, statistic: str, alpha: float) -> Change:
    interval = None
    if growth.log.more is not None:
        low, high = growth.log.more.lower(alpha), (growth.log.clear or growth.log.more).upper(alpha)
        interval = math.expm1(min(low, high)), math.expm1(high)
    return Change(
        metric,
        statistic,
        growth.baseline_s,
        growth.candidate_s,
        growth.growth,
        interval,
        growth.method,
        growth.past_s,
    )


def _name(sides: Sides) -> str:
    """The baseline for people: its one file, or the folder that holds its files and how many."""
    files = list(dict.fromkeys(one.run.input for one in sides.base))
    if len(files) == 1:
        return files[0]
    folders = [file.replace("\\", "/").split("/")[:-1] for file in files]
    shared = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    where = "/".join(shared)
    return f"{where} ({len(files)} files)" if where else f"{len(files)} files"
