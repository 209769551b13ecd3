"""Sessions over commits: figures with their bounds, where they changed, and what fails since when.

Numbers only; docs/trend.md. Sessions are in the order of their time. Logarithms of percentiles and arcsine
roots of shares (of even spread: Anscombe 1948) are what changes are looked for in; `stats.find_changes`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from .. import stats
from ..model import (
    TREND_VERSION,
    Floats,
    RecordedObjective,
    RecordedRun,
    SessionRecord,
    Trend,
    TrendChange,
    TrendLoad,
    TrendMark,
    TrendMove,
    TrendObjective,
    TrendSeries,
    TrendSession,
    TrendSubject,
    Verdict,
)
from ..units import SECONDS, SHARE

METRICS = ("ttft_s", "tpot_s", "itl_s", "e2e_s")
PERCENTILES = ("p50", "p90", "p99")
SMALLEST = 0.01  # growth of a percentile below which a change is not worth a search
_ALPHA = 0.05  # of an interval
_LENGTHS = 0.1  # by which prompts or answers may be longer and be the same workload

Key = tuple[str, str, str, str, str]  # policy, tool, model, hardware, interaction


class Part(Struct, frozen=True, eq=False):
    """What one session has of a subject."""

    record: SessionRecord
    runs: list[RecordedRun]


def trend(
    records: Sequence[SessionRecord],
    branch: str,
    left_out: Mapping[str, str],
    notes: Iterable[str] = (),
) -> Trend:
    """What `records` of a branch, ordered by time, say; `left_out` is why no baseline has one, by id."""
    subjects = split(records)
    loads = sum(len(_loads(parts)) for parts in subjects.values())
    alpha = stats.ALPHA / max(loads, 1)
    return Trend(
        schema_version=TREND_VERSION,
        branch=branch,
        sessions=len(records),
        first_time=records[0].time if records else "",
        last_time=records[-1].time if records else "",
        alpha=stats.ALPHA,
        subjects=tuple(_subject(key, parts, left_out, alpha) for key, parts in sorted(subjects.items())),
        notes=tuple(notes),
    )


def split(records: Iterable[SessionRecord]) -> dict[Key, list[Part]]:
    """The sessions of each subject: one of several models or tools has a part in several."""
    found: dict[Key, list[Part]] = {}
    for record in records:
        runs: dict[Key, list[RecordedRun]] = {}
        for run in record.runs:
            facts = (run.model or "", run.hardware or "", run.interaction or "")
            runs.setdefault((record.policy.name, run.tool, *facts), []).append(run)
        for key, own in runs.items():
            found.setdefault(key, []).append(Part(record, own))
    return found


def by_load(part: Part) -> dict[str, list[RecordedRun]]:
    """The runs of each load, by its name; runs whose load nobody stated are one of its own."""
    found: dict[str, list[RecordedRun]] = {}
    for run in part.runs:
        found.setdefault(str(run.load) if run.load else "load not stated", []).append(run)
    return found


def _loads(parts: Sequence[Part]) -> list[str]:
    return sorted({name for part in parts for name in by_load(part)})


def _subject(key: Key, parts: list[Part], left_out: Mapping[str, str], alpha: float) -> TrendSubject:
    policy, tool, model, hardware, interaction = key
    sessions = tuple(
        _session(part, before, left_out) for before, part in zip([None, *parts], parts, strict=False)
    )
    loads = [_load(name, parts, sessions, alpha) for name in _loads(parts)]
    return TrendSubject(
        policy=policy,
        tool=tool,
        model=model,
        hardware=hardware,
        interaction=interaction,
        sessions=sessions,
        objectives=tuple(_objectives(parts)),
        loads=tuple(sorted(loads, key=lambda load: not load.judged)),
    )


# ---- sessions -----------------------------------------------------------------------------------


def _session(part: Part, before: Part | None, left_out: Mapping[str, str]) -> TrendSession:
    record = part.record
    return TrendSession(
        id=record.id,
        time=record.time,
        commit=record.commit,
        verdict=record.verdict,
        left_out=left_out.get(record.id, ""),
        marks=tuple(_marks(part, before)),
    )


def _marks(part: Part, before: Part | None) -> Iterator[TrendMark]:
    record = part.record
    for tag in record.tags:
        yield TrendMark("release", tag)
    for one in record.objectives:
        if one.waived and one.verdict is Verdict.FAIL:
            yield TrendMark("waiver", f"{one.id}: {one.waived}")
    if before is None:
        return
    if record.policy.sha256 != before.record.policy.sha256:
        yield TrendMark("policy", f"policy {record.policy.sha256[:12]}")
    versions = [sorted({run.tool_version or "" for run in one.runs} - {""}) for one in (before, part)]
    if all(versions) and versions[0] != versions[1]:
        yield TrendMark("tool", f"{part.runs[0].tool} {', '.join(versions[1])}")
    for what in ("input_tokens", "output_tokens"):
        old, new = (_mean(getattr(run, what) for run in one.runs) for one in (before, part))
        if old and new and abs(new / old - 1.0) > _LENGTHS:
            yield TrendMark("workload", f"{what} {old:.4g} to {new:.4g}")


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


# ---- objectives ---------------------------------------------------------------------------------


def _objectives(parts: Sequence[Part]) -> Iterator[TrendObjective]:
    """Those of the newest session that was judged, and for how many sessions in a row each has failed.

    A session that does not know an objective neither fails it nor ends the row.
    """
    judged = [part.record for part in parts if any(run.at_target for run in part.runs)]
    if not judged:
        return
    rows = [{one.id: one for one in record.objectives} for record in judged]
    for one in judged[-1].objectives:
        failing, first = 0, None
        for record, known in zip(reversed(judged), reversed(rows), strict=True):
            verdict = known[one.id].verdict if one.id in known else Verdict.SKIPPED
            if verdict is Verdict.FAIL:
                failing, first = failing + 1, record
            elif verdict not in (Verdict.INCONCLUSIVE, Verdict.SKIPPED):
                break
        yield TrendObjective(
            id=one.id,
            level=one.level,
            verdict=one.verdict,
            failing=failing,
            since=first.commit if first else "",
            since_time=first.time if first else "",
        )


# ---- loads --------------------------------------------------------------------------------------


class _Figure(Struct, frozen=True, eq=False):
    """A series, and as it is looked at for changes."""

    series: TrendSeries
    scaled: Floats
    least: float  # standard deviation that its sessions have at least


def _load(name: str, parts: Sequence[Part], sessions: Sequence[TrendSession], alpha: float) -> TrendLoad:
    runs = [by_load(part).get(name, []) for part in parts]
    figures = [figure for figure in _figures(runs, parts) if any(v is not None for v in figure.series.values)]
    present = [at for at, own in enumerate(runs) if own]
    return TrendLoad(
        load=name,
        judged=any(run.at_target for run in runs[present[-1]]),
        series=tuple(figure.series for figure in figures),
        changes=tuple(_changes(figures, present, sessions, alpha)),
    )


def _figures(runs: Sequence[Sequence[RecordedRun]], parts: Sequence[Part]) -> Iterator[_Figure]:
    rules = [
        {one.id: one for one in part.record.objectives} if any(run.at_target for run in own) else {}
        for own, part in zip(runs, parts, strict=True)
    ]
    for metric in METRICS:
        for percentile in PERCENTILES:
            logs = np.array([log_percentile(own, metric, percentile) for own in runs])
            id_ = f"{metric.removesuffix('_s')}.{percentile}"
            shown = [None if math.isnan(value) else math.exp(value) for value in logs]
            yield _Figure(_series(id_, SECONDS, shown, rules), logs, 0.0)
    for id_, share_of in (("goodput", goodput), ("error_rate", error_rate)):
        shares, sizes = zip(*map(share_of, runs), strict=True)
        roots = np.array([math.nan if share is None else math.asin(math.sqrt(share)) for share in shares])
        known = [size for size in sizes if size]
        least = 0.5 / math.sqrt(sum(known) / len(known)) if known else 0.0
        yield _Figure(_series(id_, SHARE, shares, rules), roots, least)


def _series(
    id_: str,
    unit: str,
    values: Sequence[float | None],
    rules: Sequence[Mapping[str, RecordedObjective]],
) -> TrendSeries:
    found = [known.get(id_) for known in rules]
    bounds = tuple(rule.bound if rule is not None and rule.unit == unit else None for rule in found)
    return TrendSeries(id=id_, unit=unit, values=tuple(values), bounds=bounds)


def log_percentile(runs: Sequence[RecordedRun], metric: str, percentile: str) -> float:
    """Mean of the logarithms of the runs' percentiles, in ln s; NaN where one is unknown or 0."""
    known = [value for run in runs if (value := getattr(run.metrics.get(metric), percentile, None))]
    if not runs or len(known) < len(runs):
        return math.nan
    return sum(math.log(value) for value in known) / len(known)


def goodput(runs: Sequence[RecordedRun]) -> tuple[float | None, int]:
    """Good share of the attempted requests of all runs, and how many those are; None where a run lacks it."""
    if not runs or any(run.goodput is None or run.counts is None or not run.counts.attempted for run in runs):
        return None, 0
    attempted = sum(run.counts.attempted for run in runs if run.counts)
    good = sum(run.goodput * run.counts.attempted for run in runs if run.counts and run.goodput is not None)
    return min(good / attempted, 1.0), attempted


def error_rate(runs: Sequence[RecordedRun]) -> tuple[float | None, int]:
    """Failed share of the attempted requests of all runs, and how many; None where a run does not say."""
    if not runs or any(run.counts is None for run in runs):
        return None, 0
    attempted = sum(run.counts.attempted for run in runs if run.counts)
    failed = sum(run.counts.failed for run in runs if run.counts)
    return (failed / attempted, attempted) if attempted else (None, 0)


# ---- changes ------------------------------------------------------------------------------------


def _changes(
    figures: Sequence[_Figure], present: Sequence[int], sessions: Sequence[TrendSession], alpha: float
) -> Iterator[TrendChange]:
    """Change points of one load; `present` are the sessions that have it."""
    own = [sessions[at] for at in present]
    starts = [at for at in range(1, len(own)) if own[at].commit != own[at - 1].commit]
    scaled = [figure.scaled[np.array(present, dtype=int)] for figure in figures]
    for found in stats.find_changes(scaled, [figure.least for figure in figures], starts, alpha):
        moves = [_move(figures[moved.series], moved) for moved in found.moved]
        worth = tuple(one for one in moves if one.interval_of == "points" or abs(one.change) >= SMALLEST)
        if not worth:
            continue
        good, bad = own[found.first - 1], own[found.last]
        between = own[found.first - 1 : found.last + 1]
        same = good.commit == bad.commit or len({one.commit for one in between}) < 2
        yield TrendChange(
            at=present[found.at],
            good=present[found.first - 1],
            bad=present[found.last],
            commit=own[found.at].commit,
            good_commit=good.commit,
            bad_commit=bad.commit,
            bisect="" if same else f"git bisect start {bad.commit} {good.commit}",
            moves=worth,
        )


def _move(figure: _Figure, moved: stats.Moved) -> TrendMove:
    shift = moved.shift
    low, high = shift.lower(_ALPHA / 2), shift.upper(_ALPHA / 2)
    if figure.series.unit == SECONDS:
        before, after = math.exp(moved.before), math.exp(moved.after)
        change, interval = _growth(shift.estimate), (_growth(low), _growth(high))
    else:
        before, after = _share(moved.before), _share(moved.after)
        change = after - before
        interval = (_share(moved.before + low) - before, _share(moved.before + high) - before)
    up_is_bad = figure.series.id != "goodput"
    return TrendMove(
        series=figure.series.id,
        before=before,
        after=after,
        change=change,
        interval=interval,
        interval_of="ratio" if figure.series.unit == SECONDS else "points",
        worse=(change > 0) is up_is_bad,
    )


def _growth(log: float) -> float:
    return math.expm1(min(log, 700.0))


def _share(root: float) -> float:
    return math.sin(min(max(root, 0.0), math.pi / 2)) ** 2
