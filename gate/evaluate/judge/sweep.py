"""Several loads: is the sweep covered, how much goodput is left above the target, where the policy ends.

Loads compare only between runs that differ in nothing else: tool, version, model, hardware, scenario.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ... import stats, units
from ...model import Capacity, Check, Floats, Kind, Level, Load, Objective, Policy, Verdict
from ..checks import CLUSTERS, SURE_FROM, Setting, check, missing, not_believed, percent, uncounted
from ..loads import grouped, matches
from ..prepare import Prepared
from .counting import Range, Unknown, goodput

BLOCK_LEAST = 100  # requests a block must hold to be one
_KINDS = (Kind.LATENCY, Kind.GOODPUT, Kind.ERROR_RATE)  # a throughput floor is meant for the target alone

Judge = Callable[[Sequence[Prepared]], Sequence[Check]]


def comparable(setting: Setting) -> list[list[Prepared]]:
    """The runs by load, ascending: all that differ from the judged ones in their load alone.

    Without judged runs, of the only kind of benchmark there is; empty if there are several.
    """
    groups = grouped(setting.everything)
    kinds = {key[:-1] for key in groups}
    if setting.runs:
        kinds = {key[:-1] for key, group in groups.items() if group[0] in setting.runs}
    return [group for key, group in groups.items() if key[:-1] in kinds] if len(kinds) == 1 else []


def at_share(groups: Sequence[list[Prepared]], target: Load, share: float) -> list[Prepared]:
    """The runs at a share of the target load, empty if there are none.

    A concurrency is a whole number: of 25 % of 10, both 2 and 3 will do.
    """
    for wanted in _loads_at(target, share):
        for group in groups:
            if matches(group[0].run.load, wanted) and any(one.counts.attempted for one in group):
                return group
    return []


def _loads_at(target: Load, share: float) -> list[Load]:
    if target.concurrency is None:
        return [target.at(share)]
    exact = round(target.concurrency * share, 9)
    near = (Load(concurrency=max(1, whole)) for whole in (math.floor(exact), math.ceil(exact)))
    return list(dict.fromkeys((target.at(share), *near)))


# ---- the sweep --------------------------------------------------------------------------------


def sweep(objective: Objective, setting: Setting) -> Check:
    """Every declared share of the target load must have been measured."""
    if setting.unselected:
        return missing(objective, setting.unselected)
    target, groups = setting.policy.workload.target, comparable(setting)
    assert target is not None  # a policy with a sweep names its load
    seen, absent = [], []
    for share in setting.policy.workload.sweep:
        group = at_share(groups, target, share)
        if group:
            seen.append(f"{len(group)} at {group[0].run.load}")
        else:
            absent.append(f"{_loads_at(target, share)[0]} ({percent(share)})")
    if absent:
        had = f", only {', '.join(seen)}" if seen else ""
        why = f"the sweep has no run at {', '.join(absent)}{had}; run the benchmark at these loads too"
        return replace(missing(objective, why), observed_text=why)
    text = ", ".join(seen)
    return check(objective, Verdict.PASS, text, observed_text=text)


# ---- headroom ---------------------------------------------------------------------------------


class _Side(Struct, frozen=True, eq=False):
    """Goodput of one load."""

    shares: Floats  # of each run, or of ten blocks
    good: int
    n: int
    unit: str  # "5 runs", "10 blocks of 1 run"

    @property
    def fraction(self) -> float:
        """Mean of the shares."""
        return float(self.shares.mean())


def headroom(objective: Objective, setting: Setting) -> Check:
    """How far goodput drops from one load to a higher one (DESIGN section 4; growth without logarithm).

    PASS where the one-sided 1 - alpha upper bound of the drop is at most the bound, FAIL where its
    1 - alpha/m lower bound is above it. Raises Unknown where goodput is not known.
    """
    target, groups = setting.policy.workload.target, comparable(setting)
    if target is None or not setting.policy.goodput_bounds:
        raise Unknown("headroom compares goodput at two loads: the policy needs goodput and workload.load")
    assert objective.between is not None
    pair = [at_share(groups, target, share) for share in objective.between]
    for group, share in zip(pair, objective.between, strict=True):
        if not group:
            load = _loads_at(target, share)[0]
            raise Unknown(
                f"no run at {load} ({percent(share)} of the target); run the benchmark at {load} too"
            )
    if pair[0] is pair[1]:  # 100 % and 150 % of one request in flight may both be one
        raise Unknown(f"both loads are {pair[0][0].run.load}: nothing was measured above it")
    found = _drop(objective, setting, pair)
    doubt = uncounted([one for group in pair for one in group])
    return not_believed(found, doubt) if doubt else found


def _drop(objective: Objective, setting: Setting, pair: Sequence[list[Prepared]]) -> Check:
    low, high = (_side(group, setting.policy) for group in pair)
    said = f"goodput {percent(low.fraction)} at {pair[0][0].run.load}, {percent(high.fraction)} at"
    said += f" {pair[1][0].run.load}"
    drop = round(low.fraction - high.fraction, 12)  # 100 % - 95 % is 5 points, whatever the floats say
    text = units.show(drop, units.POINTS, objective.bound)
    facts: dict[str, object] = {"observed": drop, "observed_text": text, "n": low.n + high.n}
    facts["requests"] = min(low.n, high.n)
    if setting.policy.evidence.decide == "point":
        verdict = Verdict.PASS if drop <= (objective.bound or 0.0) else Verdict.FAIL
        return check(objective, verdict, f"{said}; point estimate, without an interval", **facts)
    if min(low.n, high.n) < SURE_FROM:
        why = f"{said}; fewer than {SURE_FROM} requests at a load decide nothing"
        return check(objective, Verdict.INCONCLUSIVE, why, cause="undecided", **facts)
    return _tested(objective, setting, (low, high), said, facts)


def _tested(
    objective: Objective, setting: Setting, sides: tuple[_Side, _Side], said: str, facts: dict[str, object]
) -> Check:
    low, high = sides
    bound = objective.bound or 0.0
    if min(low.shares.size, high.shares.size) < CLUSTERS:
        why = f"{said}; an interval needs five runs at each load, or {stats.BLOCKS * BLOCK_LEAST:,} requests"
        return check(objective, Verdict.INCONCLUSIVE, why, cause="undecided", **facts)
    shift = stats.welch_shift(high.shares, low.shares)
    # Runs without a miss show no spread; their requests still are a sample.
    shift = replace(shift, error=max(shift.error, math.hypot(_error(low), _error(high))))
    lower, upper = shift.lower(setting.alpha / setting.m), shift.upper(setting.alpha)
    facts |= {"interval": (lower, upper), "interval_of": "points"}
    span = f"{units.show(lower, units.POINTS, bound)} to {units.show(upper, units.POINTS, bound)}"
    said += f"; a drop of {facts['observed_text']}, interval {span} ({low.unit} against {high.unit})"
    if upper <= bound:
        return check(objective, Verdict.PASS, said, **facts)
    if lower > bound:
        return check(objective, Verdict.FAIL, said, **facts)
    why = f"{said} contains {units.show(bound, units.POINTS)}"
    return check(objective, Verdict.INCONCLUSIVE, why, cause="undecided", **facts)


def _error(side: _Side) -> float:
    """Standard error of a share of independent requests, never 0 (Agresti, Caffo 2000: two more of each)."""
    share = (side.good + 2) / (side.n + 4)
    return math.sqrt(share * (1 - share) / (side.n + 4))


def _side(group: Sequence[Prepared], policy: Policy) -> _Side:
    """Goodput of each run. Raises Unknown."""
    good, n = [], []
    flags: list[Floats] = []
    for one in group:
        found = goodput(one, policy.goodput_bounds, policy)
        if isinstance(found, Range):
            if found.lo != found.hi:
                raise Unknown(f"goodput of {one.run.input} is known only within a range; {found.settled_by}")
            good.append(found.lo)
            n.append(found.n)
        else:
            flags.append(found.good.astype(np.float64))
            good.append(int(flags[-1].sum()))
            n.append(found.score.size)
    if not all(n):
        raise Unknown("a run attempted no request")
    runs = len(group)
    if runs >= CLUSTERS:
        return _Side(np.array(good) / np.array(n), sum(good), sum(n), f"{runs} runs")
    if len(flags) == runs and sum(n) >= stats.BLOCKS * BLOCK_LEAST:
        blocks = np.array([block.mean() for block in np.array_split(np.concatenate(flags), stats.BLOCKS)])
        return _Side(blocks, sum(good), sum(n), f"{stats.BLOCKS} blocks of {runs} run{'s' * (runs > 1)}")
    return _Side(np.array(good) / np.array(n), sum(good), sum(n), f"{runs} run{'s' * (runs > 1)}")


# ---- capacity ---------------------------------------------------------------------------------


class Point(Struct, frozen=True):
    """One load and whether the policy is met there."""

    load: Load
    verdict: Verdict
    why: str  # the id of the first objective that is not met
    goodput: tuple[float, float] | None  # interval of its share


def capacity(setting: Setting, judge: Judge) -> tuple[Capacity | None, dict[int, Verdict]]:
    """The highest measured load that meets the policy, and verdicts by the id() of each load's first run.

    `judge` judges the objectives on a group of runs. None with fewer than two loads to compare, or
    without a blocking percentile, goodput or error rate.
    """
    groups = [group for group in comparable(setting) if _counts(group[0].run.load)]
    of_kind = [group for group in groups if _same_kind(group[0].run.load, groups, setting)]
    asked = [one.id for one in setting.policy.objectives if decides(one)]
    if len(of_kind) < 2 or not asked:
        return None, {}
    points = [_point(group, judge(group), asked) for group in of_kind]
    verdicts = {id(group[0]): point.verdict for group, point in zip(of_kind, points, strict=True)}
    return _capacity(points, setting), verdicts


def _counts(load: Load | None) -> bool:
    return load is not None and not load.burst and not load.production


def _same_kind(load: Load | None, groups: Sequence[list[Prepared]], setting: Setting) -> bool:
    like = setting.policy.workload.target or groups[0][0].run.load
    return load is not None and like is not None and (load.concurrency is None) == (like.concurrency is None)


def decides(objective: Objective) -> bool:
    """Whether an objective says if a load meets the policy: blocking, and about every load alike."""
    return objective.kind in _KINDS and objective.level is Level.BLOCK


def _point(group: Sequence[Prepared], checks: Sequence[Check], asked: Sequence[str]) -> Point:
    load = group[0].run.load
    assert load is not None
    judged = [one for one in checks if one.id in asked]
    whole = next((one.interval for one in checks if one.id == "goodput"), None)
    for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
        found = next((one.id for one in judged if one.verdict is verdict), None)
        if found is not None:
            return Point(load, verdict, found, whole)
    return Point(load, Verdict.PASS, "", whole)


def _capacity(points: Sequence[Point], setting: Setting) -> Capacity:
    """Points ascend. A load counts only below the lowest that fails: what passes above it is chance."""
    fails = next((point for point in points if point.verdict is Verdict.FAIL), None)
    below = points[: points.index(fails)] if fails else points
    met = [point for point in below if point.verdict is Verdict.PASS]
    load = met[-1].load if met else None
    text = f"at least {load}" if load else "no measured load is shown to meet the policy"
    text += _beyond(points, met[-1] if met else None, fails)
    odd = [*_above(points, fails), *_rises(points)]
    if setting.policy.evidence.decide == "point":
        text += "; by point estimates"
    return Capacity(load, fails.load if fails else None, not odd, "; ".join((text, *odd)))


def _beyond(points: Sequence[Point], met: Point | None, fails: Point | None) -> str:
    """What is known above the highest load that passes."""
    above = [point for point in points if met is None or point.load != met.load]
    above = above[points.index(met) :] if met else above
    if met and not above:
        return ", the highest that was measured"
    unproven = [str(point.load) for point in above if point.verdict is Verdict.INCONCLUSIVE]
    said = f"; {', '.join(unproven)} undecided" if unproven else ""
    return said + (f"; {fails.load} fails ({fails.why})" if fails else "")


def _above(points: Sequence[Point], fails: Point | None) -> list[str]:
    """Loads that pass above one that fails."""
    if fails is None:
        return []
    later = [str(one.load) for one in points[points.index(fails) :] if one.verdict is Verdict.PASS]
    return [f"not monotone: {', '.join(later)} passes above it, measure both again"] if later else []


def _rises(points: Sequence[Point]) -> list[str]:
    """Goodput that surely rises with load: the lower load was measured at a worse moment."""
    known = [(point.load, point.goodput) for point in points if point.goodput is not None]
    for (lower, below), (higher, above) in pairwise(known):
        if above[0] > below[1]:
            why = f"goodput at {higher} is above that at {lower} by more than their intervals"
            return [f"not monotone: {why}, measure both again"]
    return []
