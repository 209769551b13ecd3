"""One percentile on both sides of a comparison: its growth, and how well that is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ... import stats, units
from ...model import SAVED_REPORT, Aggregate, Floats, Objective, Policy, Requests, Status
from ..checks import CLUSTERS, SURE_FROM, share_of
from ..judge.counting import Unknown, column_of, metric_values, stated_percentile
from ..prepare import Prepared
from .baseline import BAND, Sides

RUN_SPREAD = 0.03  # run to run on one machine (docs/regression.md), where one or two runs cannot show it
CONGESTED = 0.2  # spread of blocks beyond chance (of the logarithm) that whole runs may share
FEWEST = 3  # runs that show how much they differ
LEAST_BLOCK = 10  # requests; shorter blocks have no percentile
MOSTLY = 0.5  # of its requests failed: such a baseline shows an outage, whatever percentile is asked for
PER_TAIL = 3  # a run shows P99 with 3 / (1 - 0.99) requests
LEAST_TAIL = 0.5  # shorter runs compare if both sides are as short, from 0.5 / (1 - 0.99) requests on
UNEVEN = 0.1  # of 1 - share: how much nearer to the middle the candidate's order statistic may stand


Scale = Callable[[Floats], Floats]


class Unbounded(Exception):  # noqa: N818 - not an error: failures push the percentile out of reach
    """Why the candidate's percentile has no value, as a sentence."""


class Moved(Struct, frozen=True):
    """How far a figure moved, for both verdicts; null where too few runs, or too short ones, say so."""

    more: stats.Shift | None  # its lower bound can prove that it grew
    clear: stats.Shift | None  # its upper bound that it did not


class Growth(Struct, frozen=True, eq=False):
    """How one percentile grew."""

    baseline_s: float  # geometric mean
    candidate_s: float
    growth: float  # candidate / baseline - 1
    measured: float  # the same without regard to the lengths of prompts and outputs
    log: Moved
    seconds: Moved
    method: str  # "10 paired runs"
    units: int  # what was compared: pairs, or the smaller side
    runs: int  # of the smaller side
    unfit_to_pass: str = ""  # why a small growth proves nothing
    wanted: tuple[int, int] = (0, 0)  # runs a side and requests a run that a PASS takes, if these have fewer
    unreached: int = 0  # of the candidate's runs: where failures push it out of reach, growth is not known
    requests: int = 0  # attempted, of the smaller side
    note: str = ""
    past_s: tuple[float, ...] = ()  # of each session of a history, oldest first


class _Side(Struct, frozen=True, eq=False):
    runs_s: Floats  # the percentile of each run
    values: tuple[Floats, ...] | None  # each run's requests in order of submission, or None without rows
    sizes: tuple[int, ...]  # requests behind each figure
    unreached: int  # runs whose percentile is out of reach: their slowest answer stands for it


_Blocks: TypeAlias = list[tuple[_Side, Floats, Floats]]


def grown(sides: Sides, objective: Objective, policy: Policy) -> Growth:
    """The growth of the objective's percentile. Raises Unknown and Unbounded."""
    completed = any(isinstance(one.evidence, Aggregate) for one in (*sides.base, *sides.candidate))
    _usable(sides, objective)
    base, candidate = (_side(runs, objective, policy, completed) for runs in (sides.base, sides.candidate))
    _reachable(sides, base, candidate, objective)
    measured = _means(sides, base, candidate)
    expected = None if sides.paired else _expected(sides, objective)
    if expected is not None:
        base, candidate = (
            replace(side, runs_s=side.runs_s / factors)
            for side, factors in zip((base, candidate), expected, strict=True)
        )
    before, after = _means(sides, base, candidate)
    fit = _fit(sides, base, candidate, objective)
    if sides.kind == BAND:
        runs, count = 0, len(sides.sessions[0])
        method = f"a band over {count} stored sessions"
        bands = _bands(sides, base, candidate)
        log, seconds = (Moved(band, None if fit.why else band) for band in bands)
    else:
        runs = min(base.runs_s.size, candidate.runs_s.size)
        blocks = _known_blocks(base, candidate, share_of(objective)) if runs < CLUSTERS else None
        log, seconds = (_moved(sides, base, candidate, scale, blocks, fit) for scale in (np.log, _seconds))
        method, count = _method(sides, base, candidate)
    return Growth(
        before,
        after,
        after / before - 1,
        measured[1] / measured[0] - 1,
        log,
        seconds,
        method + (" at equal lengths" if expected is not None else ""),
        count,
        runs,
        fit.why,
        fit.wanted,
        candidate.unreached,
        min(map(_attempted, (sides.base, sides.candidate))),
        _note(candidate, completed, sides),
        _past(sides, base),
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
    sizes: list[int] = []
    for one in runs:
        if doubt := one.run.doubt(objective.metric):
            raise Unknown(doubt)
        if isinstance(one.evidence, Aggregate):
            figures.append(_stated(one, objective))
            sizes.append(one.counts.completed)
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
        sizes.append(values[-1].size)
    seconds = np.array(figures)
    if not (seconds > 0).all():
        raise Unknown(f"{objective.statistic.upper()} {objective.metric.upper()} is 0 in a run: no ratio")
    return _Side(seconds, tuple(values) if len(values) == len(runs) else None, tuple(sizes), unreached)


def _means(sides: Sides, base: _Side, candidate: _Side) -> tuple[float, float]:
    """The geometric means of both sides; of stored sessions, over their means."""
    if sides.kind == BAND:
        stored, new = _by_session(sides, base, candidate)
    else:
        stored, new = [base.runs_s], [candidate.runs_s]
    before, after = (math.exp(float(np.mean([np.log(one).mean() for one in side]))) for side in (stored, new))
    return before, after


def _expected(sides: Sides, objective: Objective) -> tuple[Floats, Floats] | None:
    """What the lengths of other prompts and outputs alone do to the percentile of each run, as factors."""
    values: list[list[Floats]] = [[], []]
    lengths: list[list[Floats]] = [[], []]
    for at, runs in enumerate((sides.base, sides.candidate)):
        for one in runs:
            rows = one.requests
            column = column_of(rows, objective.metric) if rows and objective.metric != "itl" else None
            if rows is None or column is None or rows.input_tokens is None or rows.output_tokens is None:
                return None
            tokens = np.column_stack((rows.input_tokens, rows.output_tokens))
            done = (rows.status == Status.COMPLETED) & np.isfinite(tokens).all(axis=1) & (column > 0)
            if not done.any():
                return None
            values[at].append(column[done])
            lengths[at].append(tokens[done])
    return stats.expected_quantiles(values, lengths, share_of(objective))


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


def _moved(
    sides: Sides, base: _Side, candidate: _Side, scale: Scale, known: _Blocks | None, fit: _Fit
) -> Moved:
    """Runs as units; with fewer than five, ten blocks of their requests also say how far they vary."""
    test = stats.paired_shift if sides.paired else stats.welch_shift
    left, right = scale(base.runs_s), scale(candidate.runs_s)
    fewest = min(left.size, right.size)
    more = of_runs = test(left, right) if fewest >= 2 else None
    if known is not None:
        blocks = _of_blocks(sides, known, scale)
        if of_runs is not None and fewest >= FEWEST:
            more = stats.sturdier(of_runs, blocks)
        else:
            more = stats.Shift(float(right.mean() - left.mean()), blocks.error, blocks.df)
    if fit.why:
        return Moved(more, None)
    if fewest < FEWEST or sides.paired:
        return Moved(more, of_runs if fewest >= FEWEST else more)
    return Moved(more, stats.trimmed_shift(left, right, stats.TRIM if fit.short else 0.0))


def _known_blocks(base: _Side, candidate: _Side, share: float) -> _Blocks | None:
    """Each side with the percentiles of ten blocks in order and of ten mixed ones; None without either."""
    known = [
        (side, _blocks(side, share, np.array_split), _blocks(side, share, _interleaved))
        for side in (base, candidate)
    ]
    blocks = [(side, one, other) for side, one, other in known if one is not None and other is not None]
    return blocks if len(blocks) == 2 else None


def _of_blocks(sides: Sides, blocks: _Blocks, scale: Scale) -> stats.Shift:
    """The shift between ten blocks of each side; of one or two runs with the spread that they cannot show."""
    test = stats.paired_shift if sides.paired else stats.welch_shift
    found = test(*(scale(ordered) for _, ordered, _ in blocks))
    if min(side.runs_s.size for side, _, _ in blocks) >= FEWEST:
        return found
    unseen = 0.0
    for side, ordered, mixed in blocks:
        unit = 1.0 if scale is np.log else float(side.runs_s.mean())
        unseen += _unseen(ordered, mixed) * unit**2 / side.runs_s.size
    return replace(found, error=math.sqrt(found.error**2 + unseen))


def _unseen(ordered: Floats, mixed: Floats) -> float:
    """Variance of a run's log percentile that one run does not show: its speed, and near capacity more.

    Blocks of neighbours that differ more than blocks of every tenth request share congestion, and what lasts
    for a block may last for a run. It counts from a spread of about CONGESTED on.
    """
    shared = max(0.0, float(np.log(ordered).var(ddof=1) - np.log(mixed).var(ddof=1)))
    return RUN_SPREAD**2 + shared * shared**2 / (shared**2 + CONGESTED**4)


def _interleaved(values: Floats, parts: int) -> list[Floats]:
    """Every tenth request: blocks that share whatever the server went through."""
    return [values[first::parts] for first in range(parts)]


def _blocks(side: _Side, share: float, cut: Callable[[Floats, int], list[Floats]]) -> Floats | None:
    """The percentile of ten blocks of the requests of all runs, one after the other."""
    if side.values is None:
        return None
    column = np.concatenate(side.values)
    if column.size < stats.BLOCKS * LEAST_BLOCK:
        return None
    found = []
    for block in cut(column, stats.BLOCKS):
        answered = block[np.isfinite(block)]
        if answered.size == 0:
            return None
        found.append(min(stats.nearest_rank(block, share), float(answered.max())))
    figures = np.array(found)
    return figures if (figures > 0).all() else None


class _Fit(Struct, frozen=True):
    """Whether a small growth can prove that there is none, and what it would take."""

    why: str = ""
    wanted: tuple[int, int] = (0, 0)
    short: bool = False  # single runs do not show the percentile: one stall would decide


def requests_shown(share: float, tail: float = PER_TAIL) -> int:
    """Requests of a run that shows a percentile; by LEAST_TAIL, that compares with another run as short."""
    return math.ceil(round(tail / (1 - share), 6))


def _fit(sides: Sides, base: _Side, candidate: _Side, objective: Objective) -> _Fit:
    """Runs that show the percentile, or as many on both sides that miss it by as much."""
    share, name = share_of(objective), objective.statistic.upper()
    runs, shown = min(base.runs_s.size, candidate.runs_s.size), requests_shown(share)
    least = requests_shown(share, LEAST_TAIL)
    if candidate.unreached:
        return _Fit(f"in {candidate.unreached} of {candidate.runs_s.size} runs failures push it out of reach")
    fewest = min(map(min, (base.sizes, candidate.sizes)))
    if runs < FEWEST and sides.kind != BAND:
        if min(map(sum, (base.sizes, candidate.sizes))) // stats.BLOCKS >= shown:
            return _Fit()
        return _Fit(
            f"it takes three runs of {least:,} requests a side, or ten blocks of {shown:,}, to prove that"
            f" {name} did not grow",
            (FEWEST, least),
        )
    if fewest >= shown:
        return _Fit()
    if fewest < least:
        return _Fit(f"it takes runs of {least:,} requests to prove that {name} did not grow", (FEWEST, least))
    if _level(candidate, share) < _level(base, share) - UNEVEN * (1 - share):
        return _Fit(
            f"runs of fewer than {shown:,} requests compare at {name} only with as many on both sides, and"
            f" the candidate's have {_mean_size(candidate)} where the baseline's have {_mean_size(base)}",
            (FEWEST, shown),
        )
    return _Fit(short=True)


def _level(side: _Side, share: float) -> float:
    """Where the order statistics of the runs stand on average: rank / (n + 1)."""
    return float(np.mean([stats.needed(n, share) / (n + 1) for n in side.sizes]))


def _mean_size(side: _Side) -> str:
    return f"{float(np.mean(side.sizes)):,.0f}"


def _note(candidate: _Side, completed: bool, sides: Sides) -> str:
    if candidate.unreached:
        return (
            f"In {candidate.unreached} runs failures push it out of reach; the slowest answer stands for it."
        )
    if completed and any(one.counts.failed for one in (*sides.base, *sides.candidate)):
        return "Over completed requests: a side states no others."
    return ""


# ---- stored sessions ----------------------------------------------------------------------------


def _bands(sides: Sides, base: _Side, candidate: _Side) -> list[stats.Shift]:
    """Each stored session's mean over as many runs as the new session has, at most: equal noise."""
    stored, new = _by_session(sides, base, candidate)
    return [
        stats.band_shift(*(np.array([float(scale(g).mean()) for g in groups]) for groups in (stored, new)))
        for scale in (np.log, _seconds)
    ]


def _by_session(sides: Sides, base: _Side, candidate: _Side) -> tuple[list[Floats], list[Floats]]:
    new = _session_figures(sides.candidate, candidate, sides.sessions[1])
    most = max(1, min(group.size for group in new))
    return [group[:most] for group in _session_figures(sides.base, base, sides.sessions[0])], new


def _past(sides: Sides, base: _Side) -> tuple[float, ...]:
    """The geometric mean of each session of a history, oldest first."""
    if not sides.remembered or sides.paired:
        return ()
    figures = _session_figures(sides.base, base, sides.sessions[0])
    return tuple(float(np.exp(np.log(group).mean())) for group in reversed(figures) if (group > 0).all())


def _session_figures(
    runs: Sequence[Prepared], side: _Side, groups: Sequence[Sequence[Prepared]]
) -> list[Floats]:
    at = {id(one): figure for one, figure in zip(runs, side.runs_s, strict=True)}
    return [np.array([at[id(one)] for one in group]) for group in groups]
