"""One objective and the runs at the target -> one Check, with its reason in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from ... import stats, units
from ...model import Check, Doubt, Floats, Kind, Level, Objective, Policy, Verdict
from ..checks import (
    CLUSTERS,
    SURE_FROM,
    Setting,
    check,
    few,
    missing,
    none_completed,
    not_believed,
    percent,
    share_of,
)
from ..worst import worst_case
from .aggregates import from_counts
from .counting import Exact, Good, Part, Unknown, goodput, latency
from .rules import rule
from .shares import share_rule
from .sweep import headroom, sweep


def judge(objective: Objective, setting: Setting) -> Check:
    """Judge one objective. A PASS stands where it does so also with every doubted request as a miss."""
    found = _as_measured(objective, setting)
    if found.requests is None and setting.runs:
        attempted = sum(one.counts.attempted for one in setting.runs)
        in_scope = attempted if found.n is None or objective.kind is Kind.THROUGHPUT else found.n
        found = replace(found, requests=min(attempted, in_scope))
    if found.verdict is not Verdict.PASS or objective.kind is Kind.RULE:
        return found
    doubts = [
        doubt
        for one in setting.runs
        for doubt in one.run.doubts
        if doubt.requests and _touches(doubt, objective, setting.policy)
    ]
    if not doubts:
        return found
    runs = [worst_case(one) or one for one in setting.runs]
    if _as_measured(objective, replace(setting, runs=runs)).verdict is not Verdict.PASS:
        return not_believed(found, doubts[0])
    number = sum(doubt.requests or 0 for doubt in doubts)
    reason = f"{found.reason.rstrip('.')}. It holds with the {number:,} doubted requests as misses too."
    return replace(found, reason=reason)


def _touches(doubt: Doubt, objective: Objective, policy: Policy) -> bool:
    about = {objective.metric, "attempted"}
    if objective.metric == "goodput":
        about |= {bound.metric for bound in policy.goodput_bounds}
    return bool(about.intersection(doubt.of))


def _as_measured(objective: Objective, setting: Setting) -> Check:
    """The objective by what the runs hold."""
    if objective.id == "workload.sweep":
        return sweep(objective, setting)
    if objective.kind is Kind.RULE:
        return rule(objective, setting.policy, setting.runs, setting.unselected)
    if setting.unselected:
        return missing(objective, setting.unselected)
    try:
        return _JUDGES[objective.kind](objective, setting)
    except Unknown as why:
        return missing(objective, str(why), why.doubt)


# ---- shares: percentiles and goodput ------------------------------------------------------


def _latency(objective: Objective, setting: Setting) -> Check:
    parts = [latency(one, objective, setting.policy) for one in setting.runs]
    return _share_check(objective, parts, setting)


def _goodput(objective: Objective, setting: Setting) -> Check:
    parts: list[Part] = []
    applied = not any(one.counts.completed for one in setting.runs)
    for one in setting.runs:
        found = goodput(one, setting.policy.goodput_bounds, setting.policy)
        parts.append(Exact(found.score, 1.0) if isinstance(found, Good) else found)
        applied = applied or not isinstance(found, Good) or found.applied
    if not applied:
        raise Unknown("no completed request is in the scope of a bound of goodput")
    return _share_check(objective, parts, setting)


def _share_check(objective: Objective, parts: Sequence[Part], setting: Setting) -> Check:
    exact = [part for part in parts if isinstance(part, Exact)]
    if sum(part.n for part in parts) == 0:
        return missing(objective, "no request is in scope")
    if len(exact) < len(parts):
        return from_counts(objective, parts, setting)
    values = [part.values for part in exact]
    bound, share = exact[0].bound, share_of(objective)
    n, met = sum(part.n for part in exact), sum(part.met for part in exact)
    facts = _observed(objective, np.concatenate(values), n, met)
    about = objective.metric, share, setting.runs, setting.policy
    decided = share_rule(*about, alpha=setting.alpha, m=setting.m, when=objective.when).decide(values, bound)
    if decided.test is None:
        return _point(objective, n, met, facts, decided.verdict == "pass")
    if decided.room is not None:
        return _roomy(objective, (decided.test, decided.room), facts, setting)
    if decided.tail is not None:
        return _by_tail(objective, (decided.test, decided.tail), facts, setting)
    return _confident(objective, decided.test, facts, setting)


def _observed(objective: Objective, values: Floats, n: int, met: int) -> dict[str, object]:
    """What the objective saw: the percentile (or the share), n and misses."""
    facts: dict[str, object] = {"n": n, "misses": n - met, "share": met / n}
    if objective.kind is Kind.GOODPUT:
        facts["observed"] = met / n
        facts["observed_text"] = units.show(met / n, units.SHARE, objective.bound)
        return facts
    value = stats.nearest_rank(values, share_of(objective))
    facts["observed"] = value if math.isfinite(value) else None
    facts["observed_text"] = units.show(value, objective.unit, objective.bound)
    if math.isfinite(value) and objective.bound:
        facts["headroom"] = objective.bound / value if value > 0 else None
    return facts


def _point(objective: Objective, n: int, met: int, facts: dict[str, object], passed: bool) -> Check:
    reason = f"{_count(objective, n, met)}. Compared without an interval (decide: point){_few(objective, n)}."
    if not passed:
        facts.pop("headroom", None)
    return check(objective, Verdict.PASS if passed else Verdict.FAIL, reason, **facts)


def _few(objective: Objective, n: int) -> str:
    expected_misses = n * (1 - share_of(objective))
    if expected_misses >= 1:
        return ""
    return f"; of {n} requests {objective.statistic.upper() or 'this share'} is the slowest one"


def _confident(
    objective: Objective, test: stats.ShareTest, facts: dict[str, object], setting: Setting
) -> Check:
    n, met, share = test.n, test.met, share_of(objective)
    facts |= {
        "interval": (test.lower, test.upper),
        "interval_of": "share",
        "n_eff": test.n_eff,
        "deff": test.deff,
    }
    if met == 0 and not any(one.counts.completed for one in setting.runs):
        return none_completed(objective, n, facts)
    counted = _count(objective, n, met)
    if test.unit == "requests" and test.verdict != "undecided":  # a share of 100 %: there is no interval
        facts |= {"interval": None, "interval_of": None, "n_eff": None, "deff": None}
        verdict = Verdict.PASS if test.verdict == "pass" else Verdict.FAIL
        return check(
            objective, verdict, f"{counted}. A target of 100% allows no miss: decided by count.", **facts
        )
    source = f"from {len(setting.runs)} runs" if test.unit == "runs" else "from ten blocks of them"
    worth = "" if test.unit == "runs" else f" {spread(len(setting.runs), setting.policy)}"
    if test.verdict == "pass":
        met_it = f"at least {percent(test.lower, share)} met it ({percent(test.sure)} confidence, {source})"
        reason = f"{counted}: {met_it}; {percent(share)} is needed.{worth}"
        return check(objective, Verdict.PASS, reason, **facts)
    facts.pop("headroom", None)
    if test.why == "run_spread":
        facts["remedy"] = "measure five runs or more: one cannot say how runs differ"
    if test.verdict == "fail":
        sure = percent(1 - setting.alpha / setting.m)
        met_it = f"at most {percent(test.upper, share)} met it ({sure} confidence, {source})"
        reason = f"{counted}: {met_it}; {percent(share)} is needed.{worth}"
        return check(objective, Verdict.FAIL, reason, **facts)
    reason = f"{counted}; {_why(objective, test, share, setting)}"
    return check(
        objective, Verdict.INCONCLUSIVE, reason, cause="undecided", more_requests=test.more_requests, **facts
    )


def _roomy(
    objective: Objective,
    tests: tuple[stats.ShareTest, stats.RoomTest],
    facts: dict[str, object],
    setting: Setting,
) -> Check:
    """Too few independent requests to count misses, but the quantile is far inside its bound."""
    test, room = tests
    facts |= {"n_eff": test.n_eff, "deff": test.deff}
    facts |= {"interval": (room.lower, room.upper), "interval_of": "quantile"}
    upper = units.show(room.upper, objective.unit, objective.bound)
    what = f"{objective.statistic.upper()} is at most {upper}, within the bound / {room.room:g}"
    return check(objective, Verdict.PASS, _otherwise(objective, test, what, room.units, setting), **facts)


def _by_tail(
    objective: Objective,
    tests: tuple[stats.ShareTest, stats.TailTest],
    facts: dict[str, object],
    setting: Setting,
) -> Check:
    """Too few independent misses to count, but the scores thin out well inside the bounds."""
    test, tail = tests
    share = share_of(objective)
    facts |= {"n_eff": test.n_eff, "deff": test.deff}
    facts |= {"interval": (tail.lower, max(test.upper, test.share_met)), "interval_of": "share"}
    met_it = f"at least {percent(tail.lower, share)} met it, {percent(share)} is needed"
    what = f"by the tail of value / bound {met_it}"
    return check(objective, Verdict.PASS, _otherwise(objective, test, what, tail.units, setting), **facts)


def _otherwise(objective: Objective, test: stats.ShareTest, what: str, units_: int, setting: Setting) -> str:
    runs = len(setting.runs)
    source = f"from {units_} {'runs' if units_ == runs else 'blocks'}"
    sure = percent(1 - setting.alpha / 2)
    worth = "" if runs >= CLUSTERS else f" {spread(runs, setting.policy)}"
    return f"{_count(objective, test.n, test.met)}: {what} ({sure} confidence, {source}).{worth}"


def _why(objective: Objective, test: stats.ShareTest, share: float, setting: Setting) -> str:
    """Why it is undecided; what would decide it is said in runs and requests to send (`explain.effort`)."""
    if too_few := few(test):
        return too_few
    if test.why == "run_spread":
        margin = percent(setting.policy.evidence.run_spread)
        return f"within {margin} of the bound, by which runs may differ (run_spread); five runs would show"
    least = stats.zero_miss_minimum(share, alpha=setting.alpha, df=test.df, eased=test.eased)
    span = (
        f"the interval {percent(test.lower, share)} to {percent(test.upper, share)} includes {percent(share)}"
    )
    if test.n < least:
        return f"{objective.id} needs at least {least:,} requests, even if none misses; {span}"
    return f"{span}, so it is neither shown nor ruled out"


def _count(objective: Objective, n: int, met: int) -> str:
    noun = "gaps" if objective.metric == "itl" else "requests"
    return f"{n - met:,} of {n:,} {noun} missed"


def spread(runs: int, policy: Policy) -> str:
    """The warning that goes with fewer than five runs."""
    margin = policy.evidence.run_spread
    if margin and policy.evidence.decide != "point":
        return f"Holds also where runs differ by {percent(margin)} in latency; five or more would show it."
    if runs == 1:
        return "One run: the interval does not include how much runs differ."
    return f"{runs} runs: the interval does not include how much runs differ; from five on it does."


# ---- the others ---------------------------------------------------------------------------


def _mean(objective: Objective, setting: Setting) -> Check:
    return check(objective, Verdict.SKIPPED, "a mean is shown, never judged")


def _error_rate(objective: Objective, setting: Setting) -> Check:
    """On the observed share, without an interval: failures are facts (DESIGN section 4)."""
    assert objective.bound is not None
    attempted = sum(one.counts.attempted for one in setting.runs)
    failed = sum(one.counts.failed for one in setting.runs)
    doubt = next((doubt for one in setting.runs if (doubt := one.run.doubt("error_rate"))), None)
    if doubt is not None and failed <= objective.bound * attempted:
        raise Unknown(doubt)
    if attempted == 0:
        raise Unknown("no request was attempted")
    rate = failed / attempted
    text = units.show(rate, units.SHARE, objective.bound)
    facts: dict[str, object] = {
        "observed": rate,
        "observed_text": text,
        "n": attempted,
        "misses": failed,
        "share": 1 - rate,
    }
    if failed == attempted and attempted < SURE_FROM and rate > objective.bound:
        return none_completed(objective, attempted, facts)
    reason = f"{failed:,} of {attempted:,} requests failed ({text}). Failures are counted, not estimated."
    if rate > objective.bound:
        return check(objective, Verdict.FAIL, reason, **facts)
    if attempted < SURE_FROM and setting.policy.evidence.decide != "point":
        why = f"{reason} Fewer than {SURE_FROM} requests are too few to show a low error rate."
        more = SURE_FROM - attempted
        return check(objective, Verdict.INCONCLUSIVE, why, cause="undecided", more_requests=more, **facts)
    headroom = objective.bound / rate if rate else None
    return check(objective, Verdict.PASS, reason, headroom=headroom, **facts)


def _throughput(objective: Objective, setting: Setting) -> Check:
    """Output tokens of completed requests / duration, a t-interval over five or more runs."""
    assert objective.bound is not None
    rates = []
    if doubt := next((doubt for one in setting.runs if (doubt := one.run.doubt("throughput"))), None):
        raise Unknown(doubt)
    for one in setting.runs:
        if one.run.total_output_tokens is None or not one.run.duration_s:
            raise Unknown(f"{one.run.input} gives no output tokens or no duration")
        rates.append(one.run.total_output_tokens / one.run.duration_s)
    mean = float(np.mean(rates))
    text = units.show(mean, units.TOKEN_RATE, objective.bound)
    facts: dict[str, object] = {"observed": mean, "observed_text": text, "n": len(rates)}
    if setting.policy.evidence.decide == "point":
        verdict = Verdict.PASS if mean >= objective.bound else Verdict.FAIL
        return check(objective, verdict, f"{text}. Compared without an interval (decide: point).", **facts)
    if len(rates) < CLUSTERS:
        why = f"{text} over {len(rates)} run{'s' * (len(rates) > 1)}; an interval needs five or more runs"
        return check(objective, Verdict.INCONCLUSIVE, why, cause="undecided", **facts)
    lower, upper = stats.t_interval(
        np.array(rates), alpha_lower=setting.alpha / 2, alpha_upper=setting.alpha / setting.m
    )
    facts |= {"interval": (lower, upper), "interval_of": "tok_per_s"}
    low, high = units.show(lower, units.TOKEN_RATE), units.show(upper, units.TOKEN_RATE)
    span = f"{low} to {high} over {len(rates)} runs"
    if lower >= objective.bound:
        return check(
            objective, Verdict.PASS, f"{text}, interval {span}", headroom=mean / objective.bound, **facts
        )
    if upper < objective.bound:
        return check(objective, Verdict.FAIL, f"{text}, interval {span}", **facts)
    why = f"{text}, interval {span} contains the bound"
    return check(objective, Verdict.INCONCLUSIVE, why, cause="undecided", **facts)


_JUDGES = {
    Kind.LATENCY: _latency,
    Kind.GOODPUT: _goodput,
    Kind.MEAN: _mean,
    Kind.ERROR_RATE: _error_rate,
    Kind.THROUGHPUT: _throughput,
    Kind.HEADROOM: headroom,
}


def family(policy: Policy) -> int:
    """m: blocking absolute objectives with an interval that no other implies (DESIGN section 4)."""
    kinds = (Kind.LATENCY, Kind.GOODPUT, Kind.THROUGHPUT, Kind.HEADROOM)
    blocking = [o for o in policy.objectives if o.kind in kinds and o.level is Level.BLOCK]
    goodput_of = next((o for o in blocking if o.kind is Kind.GOODPUT), None)

    def implied(number: int, one: Objective) -> bool:
        if goodput_of is not None and contains(policy, goodput_of, one):
            return True
        return any(
            holds(other, one) and (place < number or not holds(one, other))
            for place, other in enumerate(blocking)
            if other is not one
        )

    return max(1, sum(not implied(number, one) for number, one in enumerate(blocking)))


def holds(strict: Objective, weak: Objective) -> bool:
    """Whether of two percentiles the one cannot pass without the other."""
    if not (strict.kind is weak.kind is Kind.LATENCY):
        return False
    if (strict.metric, strict.when) != (weak.metric, weak.when):
        return False
    return share_of(strict) >= share_of(weak) and (strict.bound or 0.0) <= (weak.bound or 0.0)


def contains(policy: Policy, goodput_of: Objective, objective: Objective) -> bool:
    """Whether goodput at its share already holds this percentile: no `when`, an equal or looser bound."""
    if objective.kind is not Kind.LATENCY or objective.when is not None or objective.bound is None:
        return False
    return share_of(objective) <= share_of(goodput_of) and any(
        bound.metric == objective.metric and bound.when is None and bound.max_s <= objective.bound
        for bound in policy.goodput_bounds
    )
