"""How much must be measured: before a benchmark starts, and after one that did not decide.

docs/statistics.md: the fewest requests that can pass a share without one miss, and what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from typing import Literal, TypeAlias

from msgspec import Struct

from .. import stats, units
from ..evaluate.checks import CLUSTERS, expected, percent
from ..evaluate.compare.growth import FEWEST, LEAST_TAIL, requests_shown
from ..evaluate.prepare import SHORT_MIN, SHORT_PER_SLOT, warmup_of
from ..model import Effort, Kind, Level, Objective, Policy, Run, Verdict
from .chance import Chance, chance

Answer: TypeAlias = Literal["can pass", "never passes", "open", "by count", "not judged"]
DESIGNS = (1, 5, 10, 30)  # runs for which the least number of requests is shown
DEPENDENT = 6.0  # deff of a P99 at 65 % load: 2 at light load, 170 at 90 %


class Need(Struct, frozen=True):
    """What one objective needs before a benchmark starts."""

    id: str
    level: str
    expected: str
    answer: Answer
    text: str
    least: dict[int, int]  # runs -> requests in all of them that can pass without one miss, at best
    declared: int | None = None  # requests in all runs, as evidence declares them
    deff_most: float | None = None  # dependence up to which the declared requests can pass


class Missing(Struct, frozen=True):
    """What one objective needs after a benchmark."""

    id: str
    level: str
    verdict: Verdict
    text: str
    more_requests: int | None = None  # judged ones
    more_range: tuple[int, int] | None = None  # where the spread of few runs leaves that number


class Plan(Struct, frozen=True):
    """The whole answer: needs before, or what is missing after."""

    policy: Policy
    needs: tuple[Need, ...]
    missing: tuple[Missing, ...]
    notes: tuple[str, ...]
    headline: str
    chance: Chance | None = None  # of the declared size, drawn from the results
    effort: Effort | None = None  # what would decide all that is open, as `check` says it


def never(policy: Policy) -> tuple[Need, ...]:
    """The blocking objectives that the declared evidence can never pass, whatever is measured."""
    return tuple(
        one for one in plan(policy).needs if one.answer == "never passes" and one.level == Level.BLOCK.value
    )


def plan(policy: Policy) -> Plan:
    """What the policy needs, and whether the evidence it declares can ever decide it."""
    needs = tuple(_need(one, policy) for one in policy.objectives if one.kind is not Kind.RULE)
    hopeless = [one.id for one in needs if one.answer == "never passes"]
    if hopeless:
        names = ", ".join(hopeless)
        headline = f"{names} can never pass with the declared evidence"
    elif any(one.answer == "open" for one in needs):
        headline = "the policy declares no runs and requests per run: nothing says whether it can pass"
    else:
        headline = "every objective can pass with the declared evidence"
    return Plan(policy, needs, (), tuple(_notes(policy)), headline)


def remaining(policy: Policy, runs: Sequence[Run], today: date) -> Plan:
    """What is missing after a benchmark, at its dependence and rate: an order of magnitude.

    Every number is one of the report that `check` gives of the same runs.
    """
    from ..evaluate import evaluate

    report = evaluate(policy, runs, today)
    kinds = {objective.id: objective.kind for objective in policy.objectives}
    found = [one for one in report.checks if kinds[one.id] is not Kind.MEAN]
    open_ones = [one for one in found if one.verdict is Verdict.INCONCLUSIVE]
    shown = [one for one in found if one in open_ones or kinds[one.id] is not Kind.RULE]
    headline = "every objective is decided: nothing more to measure"
    if open_ones:
        headline = f"{len(open_ones)} of {len(found)} objectives are open; next: {report.next_action}"
    notes = ["about: measure, then plan again; looking after every batch raises the error rate"]
    notes = notes if report.effort else []
    expected = chance(policy, runs, today)
    if expected is not None:
        notes.append(_expected(expected))
    missing = tuple(
        Missing(one.id, one.level.value, one.verdict, one.summary, one.more_requests, one.more_range)
        for one in shown
    )
    return Plan(policy, (), missing, tuple(notes), headline, expected, report.effort)


def _expected(found: Chance) -> str:
    """The chance as a sentence, and which objective costs most of it."""
    said = (
        f"{found.runs} run{'s' * (found.runs != 1)} of {found.requests:,} requests, drawn {found.draws} times"
        f" from these results: {percent(found.passes)} pass, {percent(found.fails)} fail"
    )
    least = min(found.each, key=lambda name: found.each[name], default="")
    return f"{said}; {least} passes least, in {percent(found.each[least])}" if least else said


# ---- before -------------------------------------------------------------------------------------


def _need(objective: Objective, policy: Policy) -> Need:
    if objective.kind in (Kind.LATENCY, Kind.GOODPUT):
        return _share(objective, policy)
    if objective.kind is Kind.REGRESSION:
        return _growth(objective, policy)
    runs = policy.evidence.runs_min
    if objective.kind is Kind.THROUGHPUT and policy.evidence.decide != "point":
        text = f"an interval over runs takes {CLUSTERS}"
        answer: Answer = "open" if runs is None else "can pass" if runs >= CLUSTERS else "never passes"
        return _row(objective, answer, text if runs is None else f"{text}, {runs} are declared")
    if objective.kind is Kind.ERROR_RATE:
        least = math.ceil(round(1 / objective.bound, 6)) if objective.bound else 0
        text = "judged on the count, with any number of requests"
        more = f"; one failure among fewer than {least:,} fails it" if least > 1 else ""
        return _row(objective, "by count", text + more)
    if objective.kind is Kind.MEAN:
        return _row(objective, "not judged", "a mean is shown, never judged")
    return _row(objective, "by count", "needs no number of requests of its own")


def _row(objective: Objective, answer: Answer, text: str, **facts: object) -> Need:
    known: dict[str, object] = {"least": {}, **facts}
    return Need(objective.id, objective.level.value, expected(objective), answer, text, **known)  # type: ignore[arg-type]


def _share(objective: Objective, policy: Policy) -> Need:
    """The zero-miss minimum of a share, and how dependent the declared requests may be."""
    share, alpha = objective.share or 0.0, round(1 - policy.evidence.confidence, 12)
    eased = objective.metric in ("goodput", "e2e") and policy.evidence.run_spread > 0
    least = {runs: _least(share, alpha, runs, eased) for runs in DESIGNS}
    what = _what(objective)
    if policy.evidence.decide == "point":
        return _row(objective, "by count", "decide: point takes the estimate, however few the requests")
    runs, each = policy.evidence.runs_min, policy.evidence.requests_per_run_min
    if runs is None or each is None:
        return _row(objective, "open", f"without one miss, {least[10]:,} {what} in ten runs", least=least)
    if objective.metric == "itl":
        text = f"counts gaps, of which a request has many: at least {least[10]:,} in ten runs"
        return _row(objective, "can pass", text, least=least)
    declared = runs * each
    need = _least(share, alpha, runs, eased)
    if declared < need:
        text = (
            f"even without a miss {need:,} {what} are needed in {runs} run{'s' * (runs != 1)}, and"
            f" {declared:,} are declared: set evidence.requests_per_run.min to {math.ceil(need / runs):,};"
            " a clear miss can still fail it"
        )
        return _row(objective, "never passes", text, least=least, declared=declared)
    room = _most_dependent(share, alpha, runs, declared, eased)
    text = f"{declared:,} declared; without a miss they pass where up to {room:,.1f} neighbours behave as one"
    if room < DEPENDENT:
        wanted = _least(share, alpha, runs, eased, DEPENDENT)
        text += f"; where {DEPENDENT:g} do, common for a P99 at 65% load, it takes {wanted:,}"
    return _row(objective, "can pass", text, least=least, declared=declared, deff_most=room)


def _what(objective: Objective) -> str:
    if objective.metric == "itl":
        return "gaps"
    return f"requests with {objective.when.text}" if objective.when else "requests"


def _least(share: float, alpha: float, runs: int, eased: bool, deff: float = 1.0) -> int:
    """The zero-miss minimum: fewer than five runs are judged by ten blocks, and `eased` where they can be."""
    few = runs < CLUSTERS
    return stats.zero_miss_minimum(
        share, alpha=alpha, df=9 if few else runs - 1, deff=deff, eased=eased and few
    )


def _most_dependent(share: float, alpha: float, runs: int, declared: int, eased: bool) -> float:
    """The deff at which the zero-miss minimum is what is declared (it grows with deff in proportion)."""
    if share in (0.0, 1.0):
        return float(declared)
    low, high = 1.0, float(declared)
    while high - low > 1e-3 * low:
        middle = math.sqrt(low * high)
        fits = _least(share, alpha, runs, eased, middle) <= declared
        low, high = (middle, high) if fits else (low, middle)
    return low


def _growth(objective: Objective, policy: Policy) -> Need:
    share = objective.share or 0.0
    shown, least = requests_shown(share), requests_shown(share, LEAST_TAIL)
    whole = stats.BLOCKS * shown
    need = f"{FEWEST} runs of {least:,} requests a side, as many on both, or {whole:,} in fewer runs"
    runs, requests = policy.evidence.runs_min, policy.evidence.requests_per_run_min
    if runs is None or requests is None:
        return _row(objective, "open", f"to pass it takes {need}")
    declared = f"{runs} run{'s' * (runs != 1)} of {requests:,} requests a side"
    if policy.evidence.decide == "point":
        return _row(objective, "by count", "decide: point takes the estimate, however few the requests")
    if (requests >= least) if runs >= FEWEST else (runs * requests >= whole):
        text = f"{declared}; at least {need}"
        if requests < shown and runs >= FEWEST:
            text += f"; runs that show the percentile have {shown:,}"
        return _row(objective, "can pass", text)
    text = f"{declared} are declared and to pass it takes {need};"
    return _row(objective, "never passes", f"{text} a large growth can still fail it")


def _notes(policy: Policy) -> list[str]:
    notes = []
    target, each = policy.workload.target, policy.evidence.requests_per_run_min
    slots = target.concurrency if target is not None and target.concurrency is not None else 0
    wanted = max(SHORT_MIN, SHORT_PER_SLOT * slots)
    if each is not None and each < wanted:
        notes.append(
            f"runs of {each:,} requests are short for this load, tails are biased: it needs {wanted:,}"
        )
    if policy.evidence.warmup == "auto" and each is not None and target is not None:
        dropped = warmup_of("auto", target, each)
        notes.append(
            f"warm-up drops {dropped:,} requests of each run: let the tool send {each + dropped:,} or more"
        )
    runs = policy.evidence.runs_min
    if target is not None and target.request_rate and runs and each:
        took = units.show(runs * each / target.request_rate, units.SECONDS)
        notes.append(f"the declared {runs * each:,} requests take {took} at {target}")
    if policy.evidence.decide == "point":
        notes.append("decide: point: the error rate is not controlled, whatever is measured")
    return notes
