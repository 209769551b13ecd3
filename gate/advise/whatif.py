"""Goodput as its per-request bounds move, and the bounds at which the policy's shares would be met."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from functools import reduce

import numpy as np
from msgspec import Struct

from .. import stats, units
from ..errors import InputError, UsageError
from ..evaluate import loads
from ..evaluate.judge import objectives
from ..evaluate.judge.counting import Exact, Unknown, latency, scoped_values, score, suitable
from ..evaluate.judge.shares import ShareRule, share_rule
from ..evaluate.prepare import Prepared, prepare
from ..evaluate.sound import validity
from ..model import (
    Bools,
    Floats,
    Grid,
    Kind,
    Move,
    MovedObjective,
    MovedPoint,
    Needed,
    Objective,
    Policy,
    RequestBound,
    Requests,
    Run,
    Status,
    WhatIf,
    When,
)

STEPS = 10  # of a range given without its step
DIGITS = 3  # of a suggested bound: nobody writes 641.3072 ms into a policy
FAR = 1e6  # times the largest value: what does not pass there passes nowhere
# times the bound, where no range is given
_AROUND = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0)


class _Axis(Struct, frozen=True, eq=False):
    """One per-request bound and what each attempted request has for it, runs one after another.

    -inf where the bound is not about the request, inf where the request misses whatever the bound.
    """

    id: str
    bound: RequestBound
    values: Floats
    met: Bools  # at the policy's bound
    max_s: tuple[float, ...]  # where it is moved to


class _Decider(Struct, frozen=True, eq=False):
    """A share's rule on the joined columns of several runs."""

    rule: ShareRule
    ends: tuple[int, ...]  # of the runs in the joined columns

    def verdict(self, score: Floats, threshold: float = 1.0) -> str:
        """pass, fail or undecided, as `check` has it. `score` is as stats.units takes it, joined."""
        return self.rule.decide(np.split(score, self.ends[:-1]), threshold).verdict


def whatif(
    policy: Policy, runs: Sequence[Run], ranges: Mapping[str, Sequence[float]] | None = None
) -> WhatIf:
    """Move each per-request bound of goodput, the others staying, and each percentile's bound.

    `ranges` gives the bounds in seconds to try, by metric. Raises UsageError for a metric without a
    bound and a policy without anything to move; InputError where no single load can be judged by rows.
    """
    wanted = dict(ranges or {})
    _known(policy, wanted)
    prepared = [prepare(run, policy) for run in runs]
    chosen = loads.select(prepared, policy)
    if chosen.reason:
        raise InputError(chosen.reason, "", "name the target in workload.load, or pass the runs of one load")
    for one in chosen.runs:
        if not isinstance(one.evidence, Requests):
            hint = getattr(one.evidence, "settled_by", "") or "save per-request results"
            raise InputError("holds no requests one by one, and what-if counts requests", one.run.input, hint)
    if not any(one.counts.attempted for one in chosen.runs):
        raise InputError("no request was attempted", chosen.runs[0].run.input, "run the benchmark again")
    axes, target = _axes(chosen.runs, policy, wanted), _target(policy)
    ends = np.cumsum([one.counts.attempted for one in chosen.runs])
    decide = _decider(policy, 1.0 if target is None else target, chosen.runs, tuple(ends.tolist()))
    good = _joint(axes) if axes else None
    moves = tuple(_move(axis, axes, decide, target) for axis in axes)
    return WhatIf(
        policy,
        tuple(dict.fromkeys(one.run.input for one in chosen.runs)),
        int(ends[-1]),
        None if good is None else int(good.sum()),
        target,
        None if decide.rule.point else policy.evidence.confidence,
        None if good is None or target is None else decide.verdict(_scores(axes)),
        _binding(moves),
        moves,
        _grid(axes, moves, wanted),
        _objectives(chosen.runs, policy),
        _notes(policy, chosen.runs),
    )


def _known(policy: Policy, wanted: Mapping[str, Sequence[float]]) -> None:
    bounded = {bound.metric for bound in policy.goodput_bounds}
    for metric in wanted:
        if metric not in bounded:
            moved = (
                ", ".join(metric.upper() for metric in sorted(bounded)) or "none: there is no goodput section"
            )
            raise UsageError(
                f"the policy has no per-request bound on {metric.upper()} to move (it bounds {moved})",
                policy.path,
                f"add it to goodput.request, e.g. {metric}: 800ms",
            )
    if not bounded and not any(_movable(objective) for objective in policy.objectives):
        raise UsageError(
            "the policy has neither goodput nor a percentile, so there is no bound to move",
            policy.path,
            "add goodput: {min: 99%}, or a percentile under slo",
        )


def _target(policy: Policy) -> float | None:
    return next((one.share for one in policy.objectives if one.kind is Kind.GOODPUT), None)


def _decider(
    policy: Policy,
    share: float,
    runs: Sequence[Prepared],
    ends: tuple[int, ...],
    metric: str = "goodput",
    when: When | None = None,
) -> _Decider:
    alpha, m = round(1 - policy.evidence.confidence, 12), objectives.family(policy)
    return _Decider(share_rule(metric, share, runs, policy, alpha=alpha, m=m, when=when), ends)


def _notes(policy: Policy, runs: Sequence[Prepared]) -> tuple[str, ...]:
    load = runs[0].run.load
    at = load if load is not None else "a load that is not stated"
    told = [
        f"{len(runs)} run{'s' * (len(runs) > 1)} at {at};"
        " a bound that moves here changes no verdict: the policy stays as it is"
    ]
    if policy.evidence.decide == "point":
        told.append("decide: point: where a share would be met is a naked estimate")
    doubts = dict.fromkeys(doubt.why for doubt in validity.findings(runs, policy).doubts)
    doubts |= dict.fromkeys(doubt.why for one in runs for doubt in one.run.doubts if doubt.requests)
    told += [f"check would not believe a pass here: {why}" for why in doubts]
    return tuple(told)


# ---- the bounds of goodput ----------------------------------------------------------------


def _axes(
    runs: Sequence[Prepared], policy: Policy, wanted: Mapping[str, Sequence[float]]
) -> tuple[_Axis, ...]:
    """Raises InputError where a metric cannot be judged in one of the runs."""
    found = []
    for bound in policy.goodput_bounds:
        try:
            values = np.concatenate([_values(one, bound, policy) for one in runs])
        except Unknown as why:
            raise InputError(str(why), runs[0].run.input, "what-if needs every bound of goodput") from None
        name = bound.metric + (f"[{bound.when.text}]" if bound.when else "")
        around = wanted.get(bound.metric) or [bound.max_s * share for share in _AROUND]
        steps = sorted(
            {*map(float, around)} | ({bound.max_s} if min(around) <= bound.max_s <= max(around) else set())
        )
        found.append(_Axis(name, bound, values, values <= bound.max_s, tuple(steps)))
    return tuple(found)


def _values(one: Prepared, bound: RequestBound, policy: Policy) -> Floats:
    """What goodput compares with a bound, by attempted request. Raises Unknown."""
    rows = one.requests
    assert rows is not None
    if one.counts.completed:
        suitable(one, bound.metric)
    values = np.where(rows.status == Status.FAILED, np.inf, -np.inf)
    if one.counts.completed:
        values = scoped_values(rows, bound.metric, bound.when, policy)
    judged: Floats = values[rows.attempted]
    return judged


def _joint(axes: Sequence[_Axis]) -> Bools:
    return reduce(np.logical_and, (axis.met for axis in axes))


def _scores(axes: Sequence[_Axis]) -> Floats:
    """The joint score of evaluate: the worst value / bound of each request, <= 1 where it is good."""
    return reduce(np.maximum, (score(axis.values, axis.bound.max_s) for axis in axes))


def _move(axis: _Axis, axes: Sequence[_Axis], decide: _Decider, target: float | None) -> Move:
    n = axis.values.size
    rest = [other for other in axes if other is not axis]
    others = _joint(rest) if rest else np.ones(n, bool)
    rest_score = _scores(rest) if rest else np.zeros(n)
    free = np.sort(axis.values[others])
    finite = int(np.searchsorted(free, np.inf))  # the rest misses whatever the bound
    good = int(np.searchsorted(free, axis.bound.max_s, "right"))

    def verdict(max_s: float) -> str:
        return decide.verdict(np.maximum(rest_score, score(axis.values, max_s)))

    points = []
    for max_s in axis.max_s:
        met = int(np.searchsorted(free, max_s, "right"))
        points.append(MovedPoint(max_s, met, met / n, "" if target is None else verdict(max_s)))
    looser = int(np.searchsorted(free, 1.1 * axis.bound.max_s, "right"))
    needed = (
        _needed(free[:finite], n, decide, verdict) if target is not None else Needed(None, None, "no target")
    )
    return Move(
        axis.id,
        axis.bound.metric,
        axis.bound.max_s,
        tuple(points),
        needed,
        finite - good,
        (looser - good) / n,
        (finite - good) / n,
    )


def _binding(moves: Sequence[Move]) -> str | None:
    most = max(moves, key=lambda move: move.only, default=None)
    return most.id if most is not None and most.only else None


# ---- the bound at which a share is met ----------------------------------------------------


def _needed(free: Floats, n: int, decide: _Decider, verdict: Callable[[float], str]) -> Needed:
    """The least bound that meets the share. `free`: ascending values that a bound can let through.

    By the estimate it is an order statistic. With confidence it is searched for among the values: more
    requests meet a looser bound, so that the first that passes is found by halving, up to a change in
    the estimated dependence; the bound named is one that was tried and passes.
    """
    share = decide.rule.share
    rank = stats.needed(n, share)
    most = units.show(free.size / n, units.SHARE, share)
    if rank > free.size:
        return Needed(None, None, f"no bound here gets there: at most {most} of {n:,} can meet it")
    point = _rounded(float(free[rank - 1])) if rank and free[rank - 1] > 0 else 0.0
    if decide.rule.point:
        return Needed(point, None)
    low, high = max(rank - 1, 0) - 1, free.size - 1  # low fails, high passes
    if verdict(_usable(free[high])) != "pass":
        beyond = _beyond(_usable(free[high]), verdict)
        why = "" if beyond else f"none is enough to show it: at most {most} of {n:,} can meet it"
        return Needed(point, beyond, why)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if verdict(_usable(free[middle])) == "pass" else (middle, high)
    exact = _usable(free[high])
    suggested = _rounded(exact)
    return Needed(point, suggested if verdict(suggested) == "pass" else exact)


def _beyond(low: float, verdict: Callable[[float], str]) -> float | None:
    """The least bound above every value that passes, to three digits: counts end there, room does not."""
    high = low * FAR
    if verdict(high) != "pass":
        return None
    while high / low > 1 + 10.0**-DIGITS:
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (low, middle) if verdict(middle) == "pass" else (middle, high)
    suggested = _rounded(high)
    return suggested if verdict(suggested) == "pass" else high


def _usable(value: float) -> float:
    """A bound above 0: requests that no bound is about stand at -inf."""
    return float(value) if value > 0 else float(np.finfo(float).tiny)


def _rounded(value: float) -> float:
    """Up to DIGITS significant digits, never down: what met the exact value meets this."""
    exact = Decimal(repr(value))
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - DIGITS + 1), ROUND_CEILING))


# ---- two bounds at once -------------------------------------------------------------------


def _grid(axes: Sequence[_Axis], moves: Sequence[Move], wanted: Mapping[str, Sequence[float]]) -> Grid | None:
    """Of the two bounds that were asked for, else of the two that bind most."""
    if len(axes) < 2:
        return None
    order = sorted(
        range(len(axes)), key=lambda at: (axes[at].bound.metric not in wanted, -moves[at].only, at)
    )
    x, y = (axes[at] for at in sorted(order[:2]))
    rest = [axis for axis in axes if axis is not x and axis is not y]
    keep = _joint(rest) if rest else np.ones(x.values.size, bool)
    # Which step first lets a request through: counted once, summed along both sides.
    columns = np.searchsorted(x.max_s, x.values[keep])
    rows = np.searchsorted(y.max_s, y.values[keep])
    wide, high = len(x.max_s) + 1, len(y.max_s) + 1
    number = np.bincount(rows * wide + columns, minlength=wide * high).reshape(high, wide)
    met = number.cumsum(axis=0).cumsum(axis=1)[:-1, :-1] / x.values.size
    return Grid(x.id, y.id, x.max_s, y.max_s, tuple(map(tuple, met.tolist())))


# ---- percentiles --------------------------------------------------------------------------


def _movable(objective: Objective) -> bool:
    return objective.kind is Kind.LATENCY and objective.metric != "itl"


def _objectives(runs: Sequence[Prepared], policy: Policy) -> tuple[MovedObjective, ...]:
    """Each percentile objective with the bound at which it would be met, or why that cannot be said."""
    found = []
    for objective in filter(_movable, policy.objectives):
        assert objective.bound is not None
        found.append(MovedObjective(objective.id, objective.bound, _percentile(objective, runs, policy)))
    return tuple(found)


def _percentile(objective: Objective, runs: Sequence[Prepared], policy: Policy) -> Needed:
    try:
        parts = [latency(one, objective, policy) for one in runs]
    except Unknown as why:
        return Needed(None, None, str(why))
    cells = [part.values for part in parts if isinstance(part, Exact)]
    values = np.concatenate(cells)
    if values.size == 0:
        return Needed(None, None, "no request is in scope")
    assert objective.share is not None
    ends = tuple(np.cumsum([cell.size for cell in cells]).tolist())
    decide = _decider(policy, objective.share, runs, ends, objective.metric, objective.when)
    ordered = np.sort(values)
    free = ordered[: int(np.searchsorted(ordered, np.inf))]
    return _needed(free, values.size, decide, lambda max_s: decide.verdict(values, max_s))


def span(low_s: float, high_s: float, step_s: float | None = None) -> tuple[float, ...]:
    """Bounds in seconds from low to high, both in it. Raises UsageError where that is no range."""
    if not 0 < low_s < high_s or (step_s is not None and step_s <= 0):
        raise UsageError(
            "a range goes from a lower bound above 0 to a higher one",
            "",
            "write it like 10ms:30ms or 10ms:30ms:2ms",
        )
    count = STEPS if step_s is None else (high_s - low_s) / step_s
    if count > 1000:
        raise UsageError(
            f"a range of {count:.0f} steps is too fine", "", "give a larger step, like 10ms:30ms:2ms"
        )
    width = (high_s - low_s) / STEPS if step_s is None else step_s
    inner = [low_s + number * width for number in range(math.ceil(count - 1e-9))]
    return (*(round(value, 12) for value in inner), high_s)
