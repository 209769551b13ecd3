"""Verdicts from counts that are known only within a range: aggregates (DESIGN section 2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import stats, units
from ...model import Check, Kind, Objective, Verdict
from ..checks import CLUSTERS, DECIDES, Setting, check, few, none_completed, percent, settling, share_of
from .counting import Exact, Part, Range, lower_level, stated_percentile

SURE_MISSES = 30  # dependence is also measured where this many requests are beyond the level


def from_counts(objective: Objective, parts: Sequence[Part], setting: Setting) -> Check:
    """PASS on k_lo, FAIL on k_hi (DESIGN section 2)."""
    share = share_of(objective)
    ns = [part.n for part in parts]
    lo = [part.met if isinstance(part, Exact) else part.lo for part in parts]
    hi = [part.met if isinstance(part, Exact) else part.hi for part in parts]
    n, low, high = sum(ns), sum(lo), sum(hi)
    settled = next((part.settled_by for part in parts if isinstance(part, Range)), "")
    facts: dict[str, object] = {"n": n, "misses_range": (n - high, n - low)}
    stated = _stated_percentiles(objective, setting)
    if len(stated) == 1:
        text = units.show(stated[0], objective.unit, objective.bound)
        facts |= {"observed": stated[0], "observed_text": text}
    between = f"between {percent(low / n, share)} and {percent(high / n, share)} of {n:,} requests met it"
    if high == 0 and not any(one.counts.completed for one in setting.runs):
        return none_completed(objective, n, facts)
    if setting.policy.evidence.decide == "point":
        return _point_counts(objective, setting, n, (low, high), f"{between}; {settled}", facts)
    facts["remedy"] = settling(settled.removesuffix(DECIDES))
    if len(parts) < CLUSTERS:
        why = f"{between}; aggregates of {len(parts)} run{'s' * (len(parts) > 1)} give no interval, "
        why += f"five or more runs are needed, or {settled}"
        return check(objective, Verdict.INCONCLUSIVE, why, cause="evidence", **facts)
    return _confident(objective, setting, (ns, lo, hi), between, settled, facts)


def _confident(
    objective: Objective,
    setting: Setting,
    counts: tuple[list[int], list[int], list[int]],
    between: str,
    settled: str,
    facts: dict[str, object],
) -> Check:
    """Runs as clusters: PASS where even the fewest that may have met it prove it, FAIL on the most."""
    (ns, lo, hi), share = counts, share_of(objective)
    level = _second_level(objective, setting, sum(ns))
    # A series may hold values of requests that are not among the completed (scrapes cut them apart).
    second = None if level is None else [min(pair) for pair in zip(level, ns, strict=True)]
    passes, fails = (
        stats.test_share(stats.units_from_counts(ns, met, second), share, alpha=setting.alpha, m=setting.m)
        for met in (lo, hi)
    )
    facts |= {"interval": (passes.lower, fails.upper), "interval_of": "share"}
    if passes.verdict == "pass" and second is None:
        why = f"{between}; the runs state no lower percentile that shows their spread, {settled}"
        return check(objective, Verdict.INCONCLUSIVE, why, cause="evidence", **facts)
    if passes.verdict == "pass":
        facts |= {"n_eff": passes.n_eff, "deff": passes.deff}
        reason = f"{between}; at least {percent(passes.lower, share)} did, and {percent(share)} is needed"
        return check(objective, Verdict.PASS, reason, **facts)
    if fails.verdict == "fail":
        facts |= {"n_eff": fails.n_eff, "deff": fails.deff}
        reason = f"{between}; at most {percent(fails.upper, share)} did, and {percent(share)} is needed"
        return check(objective, Verdict.FAIL, reason, **facts)
    undecided = lo == hi
    side = passes if passes.share_met >= share else fails
    open_ = few(side) or f"the interval contains {percent(share)}"
    reason = f"{between}; {open_}" + ("" if undecided else f"; {settled}")
    cause = "undecided" if undecided else "evidence"
    return check(objective, Verdict.INCONCLUSIVE, reason, cause=cause, **facts)


def _second_level(objective: Objective, setting: Setting, n: int) -> list[int] | None:
    """Counts at a lower level (docs/statistics.md): runs without a miss must not look independent."""
    most = 1 - max(1 - share_of(objective), min(SURE_MISSES / n, 0.5))
    if objective.kind is not Kind.GOODPUT:
        return lower_level(setting.runs, objective.metric, most)
    levels = [lower_level(setting.runs, bound.metric, most) for bound in setting.policy.goodput_bounds]
    known = [level for level in levels if level is not None]
    return max(known, key=lambda level: float(np.var(level))) if known else None


def _point_counts(
    objective: Objective,
    setting: Setting,
    n: int,
    met: tuple[int, int],
    between: str,
    facts: dict[str, object],
) -> Check:
    """The tool's own percentile where it states the one that is asked for, else the range of counts."""
    stated, bound = _stated_percentiles(objective, setting), objective.bound or 0.0
    if stated and (max(stated) <= bound or min(stated) > bound):
        verdict = Verdict.PASS if max(stated) <= bound else Verdict.FAIL
        worst = max(stated) if verdict is Verdict.PASS else min(stated)
        said = f"the tool states {objective.statistic.upper()} {units.show(worst, objective.unit, bound)}"
        return check(objective, verdict, f"{said}; point estimate from an aggregate", **facts)
    for verdict, decided in (
        (Verdict.PASS, stats.share_met(n, met[0], share_of(objective))),
        (Verdict.FAIL, not stats.share_met(n, met[1], share_of(objective))),
    ):
        if decided:
            return check(objective, verdict, f"{between}; point estimate from aggregates", **facts)
    return check(objective, Verdict.INCONCLUSIVE, between, cause="evidence", **facts)


def _stated_percentiles(objective: Objective, setting: Setting) -> list[float]:
    """Each run's own value of the percentile that is asked for; empty unless every run states it.

    Only without failures: a percentile of successes is not one of attempted requests.
    """
    if objective.kind is not Kind.LATENCY or any(one.counts.failed for one in setting.runs):
        return []
    found = [stated_percentile(one, objective) for one in setting.runs]
    return [value for value in found if value is not None] if None not in found else []
