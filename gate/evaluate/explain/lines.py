"""One line a check: what was seen against the rule, and what is missing; and a remedy. No statistics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import date

from msgspec.structs import replace

from ... import stats, units
from ...model import Check, Kind, Level, Objective, Policy, Verdict
from ..checks import SURE_FROM, expected
from ..prepare import Prepared
from .effort import EACH, RUNS, amount, effort, hardly, spread

NAMED = 3  # kinds of failures named
LONGEST = 40  # characters of one
UNJUDGED = "cannot be judged: "  # before a fact that several checks may share


def summarised(checks: Sequence[Check], policy: Policy, runs: Sequence[Prepared], today: date) -> list[Check]:
    """The checks with their lines and remedies; a waiver is said with them, also one that has expired."""
    expired = {one.objective: one for one in policy.waivers if one.until < today}
    asked = {one.id: one for one in policy.objectives}
    named = {one.id: subject(one, asked[one.id]) for one in checks}
    rules = [one for one in checks if one.id in (RUNS, EACH)]  # longer runs are wanted anyway
    kinds = 0 if "error_rate" in asked else NAMED  # named once
    unjudged = {one.summary for one in checks if asked[one.id].kind is not Kind.RULE} - {""}
    found = []
    for one in checks:
        one = replace(one, remedy=_remedy(one, asked[one.id]))
        line = _line(one, asked[one.id], runs, named.get(one.implied_by or "", ""), kinds)
        needs = effort(policy, [*rules, one], runs) if one.verdict is Verdict.INCONCLUSIVE else None
        if asked[one.id].kind is Kind.RULE and line in unjudged:
            line = f"{UNJUDGED}{line}"  # for the same reason as what is no rule
        if hardly(one) and not by_failures(one, runs):
            line += ": it sits on its bound, more data will hardly decide"
        elif one.cause == "undecided" and needs and not needs.again and not by_failures(one, runs):
            few = f"the spread of {len(runs)} runs is poorly known"
            few = f" ({few})" if spread(needs) and len(runs) > 1 else ""
            line += f"; needs {amount(needs)}{few}"
        if one.waived:
            line += f"; waived {one.waived}"
        elif one.verdict is Verdict.FAIL and one.id in expired:
            line += f"; its waiver expired on {expired[one.id].until} ({expired[one.id].owner})"
        found.append(replace(one, summary=line))
    return found


def waiver(one: Check) -> str:
    """Until when and by whom it is waived, without the reason."""
    return (one.waived or "").split(": ")[0].replace(", ", " by ", 1)


def subject(one: Check, asked: Objective) -> str:
    """What it is about, in words: `P99 E2E for output_tokens<300`, `goodput`."""
    when = f" for {asked.when.text}" if asked.when else ""
    if asked.kind in (Kind.LATENCY, Kind.MEAN, Kind.REGRESSION):
        return f"{one.statistic.upper()} {one.metric.upper()}{when}"
    return one.id.replace("_", " ")


def compared(one: Check, asked: Objective) -> str:
    """`P99 TTFT 948.4 ms > 800 ms`: the value on its side of the bound."""
    if asked.kind is Kind.HEADROOM:
        most = units.show(one.bound, units.POINTS)
        return f"goodput drops {one.observed_text} {_between(asked)}, {most} allowed"
    if asked.kind is Kind.REGRESSION:
        most = units.show(one.bound, units.SHARE)
        return f"{subject(one, asked)} {one.observed_text} against the baseline, {most} allowed"
    met = one.observed is not None and one.bound is not None and _meets(one.observed, one)
    sign = one.operator if met else {"<=": ">", ">=": "<"}.get(one.operator, one.operator)
    return f"{subject(one, asked)} {one.observed_text} {sign} {units.show(one.bound, one.unit)}"


def _meets(value: float, one: Check) -> bool:
    bound = one.bound or 0.0
    return value <= bound if one.operator == "<=" else value >= bound


def _between(asked: Objective) -> str:
    assert asked.between is not None
    low, high = (units.show(share, units.SHARE) for share in asked.between)
    return f"from {low} to {high} of the load"


def failures(runs: Sequence[Prepared], most: int = NAMED) -> str:
    """What the failed requests of these runs failed with: `Internal Server Error x5, ...`."""
    kinds = Counter[str]()
    for one in runs:
        kinds.update(one.run.failures)
    left = sum(one.counts.failed for one in runs) - sum(n for _, n in kinds.most_common(most))
    said = [f"{_cut(kind)} x{n:,}" for kind, n in kinds.most_common(most)]
    return ", ".join((*said, *((f"{left:,} more",) if said and left > 0 else ())))


def _cut(kind: str) -> str:
    return kind if len(kind) <= LONGEST else f"{kind[: LONGEST - 4].rstrip()} ..."


def failed(runs: Sequence[Prepared], most: int = NAMED) -> str:
    """`10 of 150 requests failed (Internal Server Error x5, ...)`."""
    counts = [one.counts for one in runs]
    kinds = failures(runs, most) if most else ""
    said = f"{sum(c.failed for c in counts):,} of {sum(c.attempted for c in counts):,} requests failed"
    return said + (f" ({kinds})" if kinds else "")


def by_failures(one: Check, runs: Sequence[Prepared]) -> bool:
    """Whether failed requests alone keep this check from its bound."""
    if one.metric == "error_rate":
        return one.verdict is not Verdict.PASS and one.observed is not None
    unreached = one.observed is None and one.misses is not None and one.verdict is not Verdict.PASS
    return unreached and sum(run.counts.failed for run in runs) > _allowed(one, one.bound, one.statistic)


def _allowed(one: Check, share: float | None, statistic: str) -> int:
    """How many of its requests may miss."""
    if one.n is None:
        return 0
    if one.unit != units.SHARE:
        share = float(statistic[1:]) / 100 if statistic[1:].replace(".", "", 1).isdigit() else None
    return 0 if share is None else one.n - stats.needed(one.n, round(share, 12))


# ---- the line -----------------------------------------------------------------------------


def _line(one: Check, asked: Objective, runs: Sequence[Prepared], implying: str, kinds: int) -> str:
    """Without what more data would do."""
    rule = expected(asked)
    if one.verdict is Verdict.SKIPPED or asked.kind is Kind.RULE:
        return one.summary or one.reason
    if one.summary:  # of evidence that is missing or doubted
        return f"{UNJUDGED}{one.summary}"
    if runs and not any(run.counts.completed for run in runs):
        return f"{rule}: none of {sum(run.counts.attempted for run in runs):,} requests completed" + (
            f" ({said})" if (said := failures(runs)) else ""
        )
    if implying:
        outcome = "passes" if one.verdict is Verdict.PASS else "fails"
        return f"{compared(one, asked)}{_missed(one)}; it {outcome} because {implying} does"
    if one.metric == "error_rate" and one.verdict is not Verdict.PASS:
        more = (
            f"{_most_failures(one)} may"
            if one.verdict is Verdict.FAIL
            else f"{rule} takes {SURE_FROM} or more"
        )
        return f"{failed(runs)}, {more}"
    if by_failures(one, runs):
        return f"{subject(one, asked)} out of reach: {failed(runs, kinds)}, {_may(one)}"
    if one.verdict is Verdict.INCONCLUSIVE:
        return _open(one, asked)
    if one.observed is None and asked.kind is not Kind.REGRESSION:
        return f"{rule}{_missed(one) or f': {one.reason}'}"
    allowed = f", {_may(one)}" if one.verdict is Verdict.FAIL and one.misses is not None else ""
    return f"{compared(one, asked)}{_missed(one)}{allowed}"


def _open(one: Check, asked: Objective) -> str:
    """Undecided, or evidence that is too coarse: what was seen stands in front."""
    if one.misses_range is not None:
        low, high = one.misses_range
        seen = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        return f"{expected(asked)} not shown by percentiles alone: {seen} of {one.n or 0:,} missed"
    worse = one.observed is not None and one.bound is not None and not _meets(one.observed, one)
    if one.observed is None or one.misses is None or worse:
        known = one.observed is not None or asked.kind is Kind.REGRESSION
        said = compared(one, asked) if known else expected(asked)
        return f"{said}{_missed(one)}; not yet proven"
    inside = ""
    if asked.kind is Kind.LATENCY and one.observed > 0 and one.bound:
        inside = f", {one.statistic.upper()} {one.observed_text}, {_times(one.bound / one.observed)} inside"
    return f"{expected(asked)} not yet proven: {one.misses:,} of {one.n or 0:,} missed{inside}"


def _times(ratio: float) -> str:
    return f"{math.floor(ratio):,}x" if ratio >= 10 else f"{math.floor(ratio * 100) / 100:g}x"


def _missed(one: Check) -> str:
    if one.n is None:
        return ""
    if one.misses is not None:
        noun = "failed" if one.metric == "error_rate" else "missed"
        return f": {one.misses:,} of {one.n:,} {noun}"
    if one.misses_range is not None:
        low, high = one.misses_range
        return (
            f": {low:,} of {one.n:,} missed" if low == high else f": {low:,} to {high:,} of {one.n:,} missed"
        )
    return ""


def _may(one: Check) -> str:
    return f"{_allowed(one, one.bound, one.statistic):,} may"


def _most_failures(one: Check) -> int:
    return math.floor(round((one.bound or 0.0) * (one.n or 0), 9))


# ---- the remedy ---------------------------------------------------------------------------


def _remedy(one: Check, asked: Objective) -> str:
    """What a person does, where more requests are not all it takes."""
    if one.verdict is not Verdict.INCONCLUSIVE or one.remedy:
        return one.remedy
    if one.cause == "undecided" and one.more_requests is None:
        return {
            Kind.THROUGHPUT: "pass five or more runs",
            Kind.HEADROOM: "measure five or more runs at each load",
            Kind.REGRESSION: "measure more runs of both builds in one session",
        }.get(asked.kind, "")
    return ""


def weighs(one: Check) -> bool:
    """Whether it can keep the gate shut: it blocks, and nobody has signed for it."""
    return one.level is Level.BLOCK and not one.waived
