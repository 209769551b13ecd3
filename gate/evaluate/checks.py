"""How a Check is made from its objective."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from .. import units
from ..model import Check, Kind, Objective, Policy, Verdict
from .prepare import Prepared

CLUSTERS = 5  # from this many runs on, runs are the independent units
SURE_FROM = 100  # zero completed of this many attempted is a fact, not a small sample


class Setting(Struct, frozen=True):
    """What every judgement of one report shares."""

    policy: Policy
    alpha: float
    m: int  # blocking absolute objectives that no other implies
    runs: Sequence[Prepared]
    unselected: str  # why there is no group of runs to judge; else empty
    everything: Sequence[Prepared] = ()  # all runs, those at other loads too


def missing(objective: Objective, why: str) -> Check:
    """Inconclusive for want of evidence."""
    return check(objective, Verdict.INCONCLUSIVE, why, cause="evidence")


def doubt(one: Check, why: str) -> Check:
    """A PASS that is not believed becomes inconclusive (evidence); everything else stands."""
    if one.verdict is not Verdict.PASS:
        return one
    reason = f"{why}; as measured: {one.reason}"
    return replace(one, verdict=Verdict.INCONCLUSIVE, cause="evidence", reason=reason, headroom=None)


def uncounted(runs: Sequence[Prepared]) -> str:
    """Why it is not known how many requests these runs attempted; empty where it is known of all.

    Failures may be missing from such a file: what it holds can prove a FAIL and never a PASS.
    """
    blind = [one.run for one in runs if "attempted" in one.run.doubted]
    if not blind:
        return ""
    more = f" (and {len(blind) - 1} more runs)" if len(blind) > 1 else ""
    return f"{blind[0].input}{more}: {blind[0].doubted['attempted']}"


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


def none_completed(objective: Objective, n: int, facts: dict[str, object]) -> Check:
    """Every attempted request failed: a FAIL from a hundred on, else too few to say (DESIGN section 4)."""
    reason = f"none of {n} attempted requests completed"
    if n >= SURE_FROM:
        return check(objective, Verdict.FAIL, reason, **facts)
    return check(
        objective, Verdict.INCONCLUSIVE, f"{reason}, too few to blame the server", cause="evidence", **facts
    )


def share_of(objective: Objective) -> float:
    """The share of requests that must meet the bound."""
    assert objective.share is not None
    return objective.share


def percent(value: float, against: float | None = None) -> str:
    """A share as a percentage."""
    return units.show(value, units.SHARE, against)
