"""The data of every picture: curves, requests over time and by length, misses together, loads.

Computed only where a page asks for it, and thinned so that a page of 100,000 requests stays small: a
curve by its quantiles, a scatter by a sample that keeps every extreme; failures are counted, never dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ... import stats
from ...errors import GateError
from ...model import (
    REQUEST_METRICS,
    Aggregate,
    Charts,
    Check,
    Curve,
    CurveBound,
    Histogram,
    Kind,
    Load,
    LoadPoint,
    MissSet,
    Objective,
    Policy,
    Requests,
    Run,
    WhatIf,
)
from .. import loads
from ..checks import Setting
from ..judge import objectives
from ..judge.counting import Unknown, metric_values, same_buckets
from ..prepare import Prepared
from .attribution import goodputs
from .scatter import by_length, over_time

METRICS = (*REQUEST_METRICS, "itl")
PERCENTS = (*range(5, 100, 5), 99)  # twenty: what a small chart can show
POINTS = 240  # of a curve


def charts(
    runs: Sequence[Run],
    setting: Setting,
    checks: Sequence[Check],
    moved: Callable[[Policy, Sequence[Run]], WhatIf],
) -> Charts:
    """Everything a page draws; `moved` is what-if. A picture that the evidence has no data for is empty."""
    policy, judged = setting.policy, list(setting.runs)
    curves = [_curve(metric, judged, policy, checks) for metric in METRICS] if judged else []
    return Charts(
        tuple(one.run.input for one in judged),
        tuple(one for one in curves if one is not None),
        over_time(judged, policy),
        by_length(judged, policy),
        _misses(judged, policy),
        _load_points(setting),
        _whatif(policy, runs, moved),
    )


# ---- curves -------------------------------------------------------------------------------


def _curve(metric: str, runs: Sequence[Prepared], policy: Policy, checks: Sequence[Check]) -> Curve | None:
    """The distribution of one metric over the judged runs; None where they cannot give it."""
    if any(one.run.doubt(metric) for one in runs):
        return None
    bounds = _bounds(metric, policy, checks)
    if all(isinstance(one.evidence, Histogram) for one in runs):
        return _of_buckets(metric, runs, bounds)
    if len(runs) == 1 and isinstance(runs[0].evidence, Aggregate):
        return _of_percentiles(metric, runs[0], bounds)
    tables = [one.requests for one in runs if one.requests is not None]
    if len(tables) < len(runs) or not any(one.counts.completed for one in runs):
        return None
    try:
        values = np.concatenate([metric_values(rows, metric, None, policy) for rows in tables])
    except Unknown:
        return None
    n, ordered = values.size, np.sort(values[np.isfinite(values)])
    if not ordered.size:
        return None
    of = "gaps" if metric == "itl" else "requests"
    ranks = _ranks(ordered.size)
    points, shares = tuple(ordered[ranks - 1].tolist()), tuple((ranks / n).tolist())
    needed = {float(percent): max(stats.needed(n, percent / 100), 1) for percent in PERCENTS}
    at = ((p, float(ordered[rank - 1]) if rank <= ordered.size else None) for p, rank in needed.items())
    failed, median = n - ordered.size, _median(points, shares)
    return Curve(metric, of, n, failed, points, shares, tuple(at), bounds, median)


def _ranks(size: int) -> NDArray[np.int64]:
    """Ascending ranks from 1 to `size`: half of them evenly, half by the logarithm of what is above."""
    even = np.linspace(1, size, POINTS // 2)
    tail = size + 1 - np.geomspace(1, size, POINTS // 2)
    ordered = np.sort(np.rint(np.concatenate((even, tail))).astype(np.int64))
    # numpy.unique would import masked arrays, which takes longer than a chart.
    ranks: NDArray[np.int64] = ordered[np.diff(ordered, prepend=0) > 0]
    return ranks


def _of_buckets(metric: str, runs: Sequence[Prepared], bounds: tuple[CurveBound, ...]) -> Curve | None:
    """Summed buckets of one division; None where runs divide differently."""
    buckets = same_buckets(runs, metric)
    if not buckets:
        return None
    counts, failed = sum(b.counts for b in buckets), sum(one.counts.failed for one in runs)
    total = int(np.sum(counts))
    if total == 0:
        return None
    edges, n = buckets[0].edges_s, total + failed
    known = np.isfinite(edges)
    values, shares = tuple(edges[known].tolist()), tuple((np.cumsum(counts) / n)[known].tolist())
    return Curve(metric, "buckets", n, failed, values, shares, (), bounds, _median(values, shares))


def _of_percentiles(metric: str, one: Prepared, bounds: tuple[CurveBound, ...]) -> Curve | None:
    """What the tool states, of the completed, on the scale of the attempted."""
    summary = one.stated(metric)
    if summary is None or len(summary.percentiles) < 2 or not one.counts.completed:
        return None
    counts = one.counts
    within = tuple(percent / 100 * counts.completed / counts.attempted for percent, _ in summary.percentiles)
    values = tuple(value for _, value in summary.percentiles)
    median = _median(values, within)
    return Curve(metric, "percentiles", counts.attempted, counts.failed, values, within, (), bounds, median)


def _median(values: Sequence[float], shares: Sequence[float]) -> float:
    """The first point of a curve that half of all reach; the last where failures keep it below."""
    pairs = zip(values, shares, strict=True)
    return next((value for value, share in pairs if share >= 0.5), values[-1])


def _bounds(metric: str, policy: Policy, checks: Sequence[Check]) -> tuple[CurveBound, ...]:
    """Of the objectives about every request, and the per-request bound of goodput."""
    asked: dict[str, Objective] = {
        one.id: one
        for one in policy.objectives
        if one.kind is Kind.LATENCY and one.metric == metric and one.when is None
    }
    found = [
        CurveBound(one.id, one.bound, asked[one.id].share, one.observed, one.verdict)
        for one in checks
        if one.id in asked and one.bound is not None
    ]
    shown = {one.bound_s for one in found}
    found += [
        CurveBound("goodput", bound.max_s, None, None, None)
        for bound in policy.goodput_bounds
        if bound.metric == metric and bound.when is None and bound.max_s not in shown
    ]
    return tuple(found)


# ---- goodput ------------------------------------------------------------------------------


def _misses(runs: Sequence[Prepared], policy: Policy) -> tuple[MissSet, ...]:
    """How many requests broke which bounds together."""
    parts = goodputs(runs, policy)
    number: dict[tuple[str, ...], int] = {}
    for part in parts:
        code = np.zeros(part.score.size, np.int64)
        names = list(part.missed)
        for place, name in enumerate(names):
            code[part.missed[name]] += 1 << place
        counted = np.bincount(code, minlength=1 << len(names)).tolist()
        for bits, count in enumerate(counted):
            broke = tuple(m for m in REQUEST_METRICS if m in names and bits >> names.index(m) & 1)
            if broke and count:
                number[broke] = number.get(broke, 0) + count
        if failed := int(part.failed.sum()):
            number["failed",] = number.get(("failed",), 0) + failed
    return tuple(MissSet(broke, n) for broke, n in sorted(number.items(), key=lambda item: -item[1]))


def _load_points(setting: Setting) -> tuple[LoadPoint, ...]:
    """Goodput of each load with the interval that its own runs give."""
    asked = next((one for one in setting.policy.objectives if one.kind is Kind.GOODPUT), None)
    if asked is None:
        return ()
    points = []
    for group in loads.grouped(setting.everything).values():
        load, at_target = group[0].run.load, group[0] in setting.runs
        if load is None or load.burst:
            continue
        found = objectives.judge(asked, replace(setting, runs=group, unselected=""))
        if found.observed is not None and found.n:
            points.append(LoadPoint(load, at_target, len(group), found.n, found.observed, found.interval))
    return _one_axis(points)


def _one_axis(points: Sequence[LoadPoint]) -> tuple[LoadPoint, ...]:
    """Closed and open loop share no axis: the kind that was judged, else the more frequent one."""

    def closed(load: Load) -> bool:
        return load.concurrency is not None

    judged = [one for one in points if one.at_target]
    votes = judged or points
    wanted = sum(closed(one.load) for one in votes) * 2 >= len(votes)
    return tuple(one for one in points if closed(one.load) is wanted)


def _whatif(
    policy: Policy, runs: Sequence[Run], moved: Callable[[Policy, Sequence[Run]], WhatIf]
) -> WhatIf | None:
    """Goodput as its bounds move; None where nothing can be moved or counted."""
    if not policy.goodput_bounds or not all(isinstance(run.evidence, Requests) for run in runs):
        return None
    try:
        return moved(policy, runs)
    except GateError:
        return None
