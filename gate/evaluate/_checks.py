"""How a Check is made from its objective."""

from __future__ import annotations

from .. import units
from ..model import Check, Kind, Objective, Verdict


def missing(objective: Objective, why: str) -> Check:
    """Inconclusive for want of evidence."""
    return check(objective, Verdict.INCONCLUSIVE, why, cause="evidence")


def check(objective: Objective, verdict: Verdict, reason: str, **facts: object) -> Check:
    """A Check with the objective's own fields filled in."""
    return Check(
        objective.id,
        objective.metric,
        objective.statistic,
        objective.level,
        objective.operator,
        objective.bound,
        objective.unit,
        verdict,
        reason,
        expected=expected(objective),
        policy_line=objective.line,
        **facts,  # type: ignore[arg-type]
    )


def expected(objective: Objective) -> str:
    """The rule for a reader: `P99 TTFT <= 800 ms`."""
    if objective.expected:
        return objective.expected
    bound = f"{objective.operator} {units.show(objective.bound, objective.unit)}"
    when = f" for {objective.when.text}" if objective.when else ""
    if objective.kind in (Kind.LATENCY, Kind.MEAN):
        return f"{objective.statistic.upper()} {objective.metric.upper()} {bound}{when}"
    return f"{objective.metric.replace('_', ' ')} {bound}"
