"""One percentile on both sides of a comparison: its growth, and how well that is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from ... import stats, units
from ...model import SAVED_REPORT, Aggregate, Floats, Objective, Policy, Requests
from ..checks import CLUSTERS, SURE_FROM, share_of
from ..judge.counting import Unknown, metric_values, stated_percentile
from ..prepare import Prepared
from .baseline import BAND, Sides

RUN_SPREAD = 0.03  # run to run on one machine (STATS section 5), where one or two runs cannot show it
FEWEST = 3  # runs that show some of their spread
BLOCKS = 10  # of the requests of a side with fewer than five runs
LEAST_BLOCK = 10  # requests; shorter blocks have no percentile
MOSTLY = 0.5  # of its requests failed: such a baseline shows an outage, whatever percentile is asked for
PER_TAIL = 3  # a run shows P99 with 3 / (1 - 0.99) requests (STATS section 9 D)


Scale = Callable[[Floats], Floats]


class Unbounded(Exception):  # noqa: N818 - not an error: failures push the percentile out of reach
    """Why the candidate's percentile has no value, as a sentence."""


class Growth(Struct, frozen=True, eq=False):
    """How one percentile grew; the shifts are null where too few runs say how far they vary."""

    baseline_s: float  # geometric mean
    candidate_s: float
    growth: float  # candidate / baseline - 1
    log: stats.Shift | None
    seconds: stats.Shift | None
    method: str  # "10 paired runs"
    units: int  # what was compared: pairs, or the smaller side
    runs: int  # of the smaller side
    few_runs: bool = False
    too_few: str = ""  # why there is no interval
    unfit_to_pass: str = ""  # why a small growth proves nothing
    wanted: int = 0  # requests a run takes for a PASS, where these have fewer
    unreached: int = 0  # of the candidate's runs: where failures push it out of reach, growth is not known
    requests: int = 0  # attempted, of the smaller side
    note: str = ""


class _Side(Struct, frozen=True, eq=False):
    runs_s: Floats  # the percentile of each run
    values: tuple[Floats, ...] | None  # each run's requests in order of submission, or None without rows
    unreached: int  # runs whose percentile is out of reach: their slowest answer stands for it


def grown(sides: Sides, objective: Objective, policy: Policy) -> Growth:
    """The growth of the objective's percentile. Raises Unknown and Unbounded."""
    completed = any(isinstance(one.evidence, Aggregate) for one in (*sides.base, *sides.candidate))
    _usable(sides, objective)
    base, candidate = (_side(runs, objective, policy, completed) for runs in (sides.base, sides.candidate))
    _reachable(sides, base, candidate, objective)
    shifts: Sequence[stats.Shift | None]
    if sides.kind == BAND:
        runs = 0
        before, after, shifts = _band(sides, base, candidate)
        method, count = f"a band over {len(sides.sessions[0])} stored sessions", len(sides.sessions[0])
    else:
        runs = min(base.runs_s.size, candidate.runs_s.size)
        before, after = (math.exp(float(np.log(side.runs_s).mean())) for side in (base, candidate))
        shifts = [_shift(sides, base, candidate, scale, share_of(objective)) for scale in (np.log, _seconds)]
        method, count = _method(sides, base, candidate)
    unfit, wanted = _unfit(sides, base, candidate, objective)
    return Growth(
        before,
        after,
        after / before - 1,
        shifts[0],
        shifts[1],
        method,
        count,
        runs,
        0 < runs < CLUSTERS,
        "" if shifts[0] is not None else _too_few(runs, objective),
        unfit,
        wanted,
        candidate.unreached,
        min(map(_attempted, (sides.base, sides.candidate))),
        _note(candidate, completed, sides),
    )


def signed(growth: float, against: float | None = None) -> str:
    """`+18.2%`, with as many digits as its comparison with `against` needs."""
    rounded = round(growth, 3)
    if against is not None and (rounded > against) != (growth > against):
        return ("+" if growth > 0 else "") + units.show(growth, units.SHARE, against)
    return ("+" if rounded > 0 else "") + units.show(rounded, units.SHARE)


# ---- one side ---------------------------------------------------------------------------------


def _side(runs: Sequence[Prepared], objective: Objective, policy: Policy, completed: bool) -> _Side:
    """Each run's percentile over attempted requests; over completed ones if a side has no others."""
    share, unreached = share_of(objective), 0
    figures: list[float] = []
    values: list[Floats] = []
    for one in runs:
        if doubt := one.run.doubt(objective.metric):
            raise Unknown(doubt)
        if isinstance(one.evidence, Aggregate):
            figures.append(_stated(one, objective))
            continue
        if not isinstance(one.evidence, Requests):
            raise Unknown(f"{one.run.input} is a histogram, which knows no percentile within its buckets")
        column = metric_values(one.evidence, objective.metric, None, policy)
        answered = column[np.isfinite(column)]
        if answered.size == 0:
            raise Unknown(f"no request of {one.run.input} completed with a {objective.metric.upper()}")
        value = stats.nearest_rank(answered if completed else column, share)
        unreached += math.isinf(value)
        figures.append(value if math.isfinite(value) else float(answered.max()))
        values.append(answered if completed else column)
    seconds = np.array(figures)
    if not (seconds > 0).all():
        raise Unknown(f"{objective.statistic.upper()} {objective.metric.upper()} is 0 in a run: no ratio")
    return _Side(seconds, tuple(values) if len(values) == len(runs) else None, unreached)


def _attempted(runs: Sequence[Prepared]) -> int:
    return sum(one.counts.attempted for one in runs)


def _usable(sides: Sides, objective: Objective) -> None:
    """Sides that hold answers at all; a baseline that is required has a hundred requests or more."""
    sent, answered = _attempted(sides.candidate), any(one.counts.completed for one in sides.candidate)
    if not answered and sent >= SURE_FROM:
        raise Unbounded(f"unbounded: none of {sent:,} requests completed")
    if not answered:
        raise Unknown(f"none of {sent:,} requests completed, too few to blame the server")
    n, lost = _attempted(sides.base), sum(one.counts.failed for one in sides.base)
    if n and lost > MOSTLY * n:
        raise Unknown(f"the baseline is no measure: {lost:,} of its {n:,} requests failed")
    if objective.required and n < SURE_FROM:
        raise Unknown(f"the baseline has {n:,} requests, and one that is required has {SURE_FROM} or more")


def _stated(one: Prepared, objective: Objective) -> float:
    value = stated_percentile(one, objective)
    if value is not None and math.isfinite(value):
        return value
    what = "the saved report" if one.run.format == SAVED_REPORT else "the aggregate"
    raise Unknown(
        f"{what} {one.run.input} states no {objective.statistic.upper()} {objective.metric.upper()}"
    )


def _reachable(sides: Sides, base: _Side, candidate: _Side, objective: Objective) -> None:
    """More failures than the percentile leaves room for: a fact about the candidate, or no baseline."""
    room = 1 - share_of(objective)
    for runs, side, who in ((sides.base, base, "the baseline"), (sides.candidate, candidate, "")):
        n = sum(one.counts.attempted for one in runs)
        lost = sum(one.counts.failed for one in runs) / n if n else 0.0
        out = lost > room
        if side.values is not None and any(np.isinf(column).any() for column in side.values):
            column = np.concatenate(side.values)
            out = math.isinf(stats.nearest_rank(column, share_of(objective)))
            n, lost = column.size, float(np.isinf(column).mean())
        if not out:
            continue
        failed = f"{units.show(lost, units.SHARE)} of {n:,} requests failed"
        if who or n < SURE_FROM:
            raise Unknown(f"{who or 'the results'} cannot be compared: {failed}")
        raise Unbounded(f"unbounded: {failed}, more than {objective.statistic.upper()} leaves room for")


# ---- how well it is known -----------------------------------------------------------------------


def _seconds(values: Floats) -> Floats:
    return values


def _method(sides: Sides, base: _Side, candidate: _Side) -> tuple[str, int]:
    left, right = base.runs_s.size, candidate.runs_s.size
    if sides.paired:
        return f"{left} paired run{'s' * (left != 1)}", left
    return f"{right} run{'s' * (right != 1)} against {left}", min(left, right)


def _shift(sides: Sides, base: _Side, candidate: _Side, scale: Scale, share: float) -> stats.Shift | None:
    """Runs as units from five on; with fewer, ten blocks of their requests say how far they vary."""
    test = stats.paired_shift if sides.paired else stats.welch_shift
    left, right = scale(base.runs_s), scale(candidate.runs_s)
    of_runs = test(left, right) if min(left.size, right.size) >= 2 else None
    if min(left.size, right.size) >= CLUSTERS:
        return of_runs
    blocks = _blocks(base, share), _blocks(candidate, share)
    if blocks[0] is None or blocks[1] is None:
        return of_runs
    of_blocks = test(scale(blocks[0]), scale(blocks[1]))
    if min(left.size, right.size) >= FEWEST and of_runs is not None:
        return stats.sturdier(of_runs, of_blocks)
    means = [1.0, 1.0] if scale is np.log else [float(left.mean()), float(right.mean())]
    unseen = math.sqrt(sum((RUN_SPREAD * m) ** 2 / n.size for m, n in zip(means, (left, right), strict=True)))
    error = math.hypot(of_blocks.error, unseen)
    return stats.Shift(float(right.mean() - left.mean()), error, of_blocks.df)


def _blocks(side: _Side, share: float) -> Floats | None:
    """The percentile of ten blocks of the requests of all runs, one after the other."""
    if side.values is None:
        return None
    column = np.concatenate(side.values)
    if column.size < BLOCKS * LEAST_BLOCK:
        return None
    found = []
    for block in np.array_split(column, BLOCKS):
        answered = block[np.isfinite(block)]
        if answered.size == 0:
            return None
        found.append(min(stats.nearest_rank(block, share), float(answered.max())))
    figures = np.array(found)
    return figures if (figures > 0).all() else None


def _wanted(objective: Objective) -> int:
    """Requests of a run that shows the percentile."""
    return math.ceil(round(PER_TAIL / (1 - share_of(objective)), 6))


def _too_few(runs: int, objective: Objective) -> str:
    several = f"{runs} short run{'s' * (runs != 1)} a side give"
    return f"{several} no interval; five runs of {_wanted(objective):,} requests a side are wanted"


def _unfit(sides: Sides, base: _Side, candidate: _Side, objective: Objective) -> tuple[str, int]:
    """What keeps a small growth from proving that there is none, and the requests a run lacks for that."""
    runs, wanted = min(base.runs_s.size, candidate.runs_s.size), _wanted(objective)
    if candidate.unreached:
        return f"in {candidate.unreached} of {candidate.runs_s.size} runs failures push it out of reach", 0
    attempted = [[one.run.counts.attempted for one in side] for side in (sides.base, sides.candidate)]
    whole = runs >= CLUSTERS or sides.kind == BAND
    each = min(map(min, attempted)) if whole else min(map(sum, attempted)) // BLOCKS
    if each >= wanted:
        return "", 0
    need = f"runs of {wanted:,} requests" if whole else f"five runs of {wanted:,} requests a side"
    return f"it takes {need} to prove that {objective.statistic.upper()} did not grow", wanted


def _note(candidate: _Side, completed: bool, sides: Sides) -> str:
    if candidate.unreached:
        return (
            f"In {candidate.unreached} runs failures push it out of reach; the slowest answer stands for it."
        )
    if completed and any(one.counts.failed for one in (*sides.base, *sides.candidate)):
        return "Over completed requests: a side states no others."
    return ""


# ---- stored sessions ----------------------------------------------------------------------------


def _band(sides: Sides, base: _Side, candidate: _Side) -> tuple[float, float, list[stats.Shift]]:
    """Each stored session's mean over as many runs as the new session has, at most: equal noise."""
    new = _session_figures(sides.candidate, candidate, sides.sessions[1])
    most = max(1, min(group.size for group in new))
    stored = [group[:most] for group in _session_figures(sides.base, base, sides.sessions[0])]
    shifts = [
        stats.band_shift(*(np.array([float(scale(g).mean()) for g in groups]) for groups in (stored, new)))
        for scale in (np.log, _seconds)
    ]
    before = math.exp(float(np.mean([np.log(group).mean() for group in stored])))
    return before, before * math.exp(shifts[0].estimate), shifts


def _session_figures(
    runs: Sequence[Prepared], side: _Side, groups: Sequence[Sequence[Prepared]]
) -> list[Floats]:
    at = {id(one): figure for one, figure in zip(runs, side.runs_s, strict=True)}
    return [np.array([at[id(one)] for one in group]) for group in groups]
