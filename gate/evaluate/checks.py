"""How a Check is made from its objective."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from .. import stats, units
from ..model import Check, Doubt, Kind, Objective, Policy, Verdict
from .prepare import Prepared

CLUSTERS = stats.MIN_RUNS  # from this many runs on, runs are the independent units
SURE_FROM = 100  # zero completed of this many attempted is a fact, not a small sample
# How the remedy at the end of a sentence begins; readers end their doubts with one.
_VERBS = (
    "add|benchmark|check|compare|give|keep|let|look|make|mark|measure|name|pass|raise|remove|run|save|send|set"
    "|state|use|write"
)
_REMEDY = re.compile(rf"[;:.] ((?:{_VERBS})\b[^;]*)$", re.IGNORECASE)
DECIDES = " would decide"  # after what would
_SETTLES = re.compile(rf"[;,](?: or)? ([^;]+)(?:{DECIDES}| would show it)$")


class Setting(Struct, frozen=True):
    """What every judgement of one report shares."""

    policy: Policy
    alpha: float
    m: int  # blocking absolute objectives that no other implies
    runs: Sequence[Prepared]
    unselected: str  # why there is no group of runs to judge; else empty
    everything: Sequence[Prepared] = ()  # all runs, those at other loads too


def parted(why: str) -> tuple[str, str]:
    """A sentence of a doubt as its fact and its remedy ("run it with --streaming"), which may be empty."""
    if found := _REMEDY.search(why):
        remedy = found[1][0].lower() + re.sub(r"(?<!\.)\.$", "", found[1][1:])
        return why[: found.start()], re.sub("^give ", "pass ", remedy)
    if found := _SETTLES.search(why):
        return why[: found.start()], settling(found[1])
    return why.rstrip("."), ""


def settling(by: str) -> str:
    """What to do where `by` would give a finer answer: a flag, a file, or a bound on a bucket edge."""
    if by.startswith("`"):
        return f"set {by}"
    if by.startswith("a bound"):
        return f"set {by} in the policy"
    return f"save per-request rows with {by}" if by.startswith("-") else f"pass {by}"


def missing(objective: Objective, why: str, doubt: Doubt | None = None) -> Check:
    """Inconclusive for want of evidence."""
    codes = () if doubt is None else (doubt.code,)
    fact, remedy = parted(why)
    facts = {"cause": "evidence", "doubts": codes, "summary": fact, "remedy": remedy}
    return check(objective, Verdict.INCONCLUSIVE, why, **facts)


def not_believed(found: Check, doubt: Doubt) -> Check:
    """A PASS that is doubted becomes inconclusive (evidence), and so does what is undecided; a FAIL stands.

    Otherwise `undecided: lean` would let through what is open, and block the better build that passes.
    """
    if found.verdict is not Verdict.PASS and found.cause != "undecided":
        return found
    reason = f"{doubt.why}; as measured: {found.reason}"
    fact, remedy = parted(doubt.why)
    facts = {"verdict": Verdict.INCONCLUSIVE, "cause": "evidence", "reason": reason, "headroom": None}
    return replace(found, **facts, doubts=(doubt.code,), more_requests=None, summary=fact, remedy=remedy)


def uncounted(runs: Sequence[Prepared]) -> Doubt | None:
    """Why it is not known how many requests these runs attempted; None where it is known of all.

    Failures may be missing from such a file: what it holds can prove a FAIL and never a PASS.
    """
    known = [(one.run, doubt) for one in runs if (doubt := one.run.doubt("attempted"))]
    if not known:
        return None
    (run, doubt), more = known[0], f" (and {len(known) - 1} more runs)" if len(known) > 1 else ""
    return replace(doubt, why=f"{run.input}{more}: {doubt.why}")


def check(objective: Objective, verdict: Verdict, reason: str, **facts: object) -> Check:
    """A Check with the objective's own fields filled in."""
    same = ("id", "metric", "statistic", "level", "operator", "bound", "unit")
    own: dict[str, Any] = {name: getattr(objective, name) for name in same}
    own |= {"expected": expected(objective), "policy_line": objective.line, **facts}
    return Check(verdict=verdict, reason=reason, **own)


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


def few(test: stats.ShareTest) -> str:
    """Why an undecided test has too little to say anything; empty where its interval is too wide."""
    if test.why == "few_requests":
        return f"fewer than {SURE_FROM} requests decide nothing"
    if test.why == "few_effective":
        least = stats.MIN_EFFECTIVE if test.passing else stats.MIN_FAILING
        verb = "pass" if test.passing else "fail"
        worth = f"worth only {test.n_eff:.0f} requests that do not wait for each other"
        return f"{worth} ({least} needed to {verb})"
    return ""


def share_of(objective: Objective) -> float:
    """The share of requests that must meet the bound."""
    assert objective.share is not None
    return objective.share


def percent(value: float, against: float | None = None) -> str:
    """A share as a percentage."""
    return units.show(value, units.SHARE, against)
