"""How much the sessions of a store vary without a change, and the rules of growth that follow.

docs/history.md: variance components of the logarithms of percentiles, a figure a run; levels end where a
change point is, so that a slower build is no noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from .. import stats
from ..evaluate.compare.baseline import BAND_FROM
from ..evaluate.compare.regression import POWER
from ..model import Floats, Noise, NoiseFigure, NoiseLoad, RecordedRun, SessionRecord, TrendLoad
from . import trend as trends

CONFIDENCE = 0.95
RUNS = 5  # of a pull request, as the profile pr of `slo-gate init` has them
LAST = 30  # sessions that `check --history` compares with
MOST = 0.25  # growth above which a rule would show next to nothing
_METRICS = ("ttft", "tpot", "e2e")


def noise(
    records: Sequence[SessionRecord],
    store: str,
    branch: str,
    left_out: Mapping[str, str],
    runs: int = RUNS,
    notes: Iterable[str] = (),
) -> Noise:
    """The noise of `records` of a branch, ordered by time, less those in `left_out` (why, by id)."""
    kept = [record for record in records if record.id not in left_out]
    lost = trends.split(record for record in records if record.id in left_out)
    found = trends.trend(kept, branch, {})
    parts = trends.split(kept)
    loads = [
        _load(key, load, parts[key], len(lost.get(key, ())), runs)
        for subject in found.subjects
        for load in subject.loads
        for key in [(subject.policy, subject.tool, subject.model, subject.hardware, subject.interaction)]
    ]
    return Noise(
        store=store,
        branch=branch,
        runs=runs,
        confidence=CONFIDENCE,
        power=POWER,
        loads=tuple(loads),
        regression=_section(loads),
        notes=tuple(notes),
    )


def _load(
    key: trends.Key, load: TrendLoad, parts: Sequence[trends.Part], left_out: int, runs: int
) -> NoiseLoad:
    sessions = [trends.by_load(part).get(load.load, []) for part in parts]
    figures = [
        _figure(
            id_,
            sessions,
            [change.at for change in load.changes if any(m.series == id_ for m in change.moves)],
            runs,
        )
        for id_ in (one.id for one in load.series if one.unit == "s")
    ]
    policy, tool, model, hardware, _ = key
    return NoiseLoad(
        policy=policy,
        tool=tool,
        model=model,
        hardware=hardware,
        load=load.load,
        judged=load.judged,
        sessions=sum(bool(own) for own in sessions),
        left_out=left_out,
        figures=tuple(figure for figure in figures if figure is not None),
    )


def _figure(
    id_: str, sessions: Sequence[Sequence[RecordedRun]], changed: Sequence[int], runs: int
) -> NoiseFigure | None:
    metric, _, percentile = id_.partition(".")
    groups: list[Floats] = []
    starts: list[int] = []
    for at, own in enumerate(sessions):
        logs = _logs(own, f"{metric}_s", percentile)
        if at in changed and groups:
            starts.append(len(groups))
        if logs.size:
            groups.append(logs)
    starts = sorted({start for start in starts if start < len(groups)})
    known = stats.variance_components(groups, starts)
    if known is None:
        return None
    alpha = (1.0 - CONFIDENCE) / (2 * len(_METRICS))  # P50 and P90 of each: Holm's strictest level
    same_job = (
        stats.detectable(known.within * math.sqrt(2.0 / runs), 2 * runs - 2, alpha, POWER)
        if runs > 1
        else None
    )
    stored = _band(known, runs, alpha)
    return NoiseFigure(
        id=id_,
        sessions=known.groups,
        runs=known.figures,
        run_sigma=known.within,
        session_sigma=known.between,
        same_job_growth=None if same_job is None else math.expm1(same_job),
        stored_growth=None if stored is None else math.expm1(stored),
        max=_max(known, runs),
    )


def _logs(runs: Sequence[RecordedRun], metric: str, percentile: str) -> Floats:
    logs = [trends.log_percentile([run], metric, percentile) for run in runs]
    return np.array([value for value in logs if math.isfinite(value)])


def _band(known: stats.Components, runs: int, alpha: float) -> float | None:
    """The growth that one session of `runs` shows against the stored ones; None for too few of them."""
    if known.groups < BAND_FROM:
        return None
    sessions = min(known.groups, LAST)
    return stats.detectable(known.of_mean(runs) * math.sqrt(1.0 + 1.0 / sessions), sessions - 1, alpha, POWER)


def _max(known: stats.Components, runs: int) -> float | None:
    """The smallest `max`, in whole percent, at which an unchanged build passes with chance POWER.

    It passes where its upper bound at CONFIDENCE is within `max`: STATS D.
    """
    level = 1.0 - CONFIDENCE
    shift = _band(known, runs, level)
    if shift is None and runs > 1:
        shift = stats.detectable(known.within * math.sqrt(2.0 / runs), 2 * runs - 2, level, POWER)
    return None if shift is None else max(math.ceil(round(100 * math.expm1(shift), 6)), 1) / 100


def _section(loads: Sequence[NoiseLoad]) -> str:
    """The `regression:` that the judged loads bear, the largest `max` of each figure."""
    rules: dict[str, dict[str, float]] = {}
    for figure in _judged(loads):
        metric, _, percentile = figure.id.partition(".")
        if metric in _METRICS and figure.max is not None:
            known = rules.setdefault(metric, {})
            known[percentile] = max(figure.max, known.get(percentile, 0.0))
    lines = []
    for metric, known in rules.items():
        said = ", ".join(
            f"{name}: {{max: {100 * most:.0f}%}}" for name, most in known.items() if most <= MOST
        )
        lines += [f"  {metric}: {{{said}}}"] if said else []
    return "\n".join(("regression:", *lines, "")) if lines else ""


def why_no_rule(found: Noise) -> str:
    """Why no rule of growth follows from the noise; empty where one does."""
    if found.regression:
        return ""
    if found.loads and not any(load.judged for load in found.loads):
        return "no load was judged"
    if any(one.max is not None for one in _judged(found.loads) if one.id.split(".")[0] in _METRICS):
        return f"every max is over {MOST:.0%}, so much do the sessions vary"
    return "two sessions of two runs or more are the least"


def _judged(loads: Sequence[NoiseLoad]) -> Iterator[NoiseFigure]:
    for load in loads:
        if load.judged:
            yield from load.figures
