"""A baseline that is the candidate's own measurement: no change is no news, and green would mean nothing.

Known by content, like a measurement under two names within the results: by its bytes, its latencies or
statistics (`Run.measurement`), single requests, and a saved report or a tool's summary by its percentiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ... import stats
from ...errors import InputError
from ...model import METRICS, SAVED_REPORT, Aggregate, Baseline, Floats, Requests, Run, Status
from ..judge.counting import column_of
from ..prepare import Prepared
from ..repeats import shared

FIGURES = 4  # different statistics that agree; fewer may by chance, in a tool that rounds them
_NEAR = 1e-9
_PERCENTILES = (50.0, 90.0, 99.0)  # of a saved report

Figures = Mapping[tuple[str, float | None], float]  # (metric, percent; None for the mean) -> seconds


def refuse_itself(candidate: Sequence[Prepared], baseline: Baseline, base: Sequence[Prepared]) -> None:
    """Raises InputError where a run of `base`, the baseline's prepared runs, is one of the candidate's."""
    judged = {digest: one.run.input for one in candidate for digest in _digests(one.run)}
    theirs = [(digest, run.input) for run in baseline.runs for digest in _digests(run)]
    for digest, where in (*theirs, *baseline.reported.items()):
        if digest in judged:
            raise _refusal(judged[digest], where)
    named = _rows(base)
    mine = _rows(candidate) if named else []
    for (where, _), share in zip(
        named, shared([rows for _, rows in mine], [rows for _, rows in named]), strict=True
    ):
        if share:
            raise _refusal(f"{share:.1%} of its requests by TTFT and E2E", where)
    for one in base:
        if isinstance(one.run.evidence, Aggregate):
            for other in candidate:
                if any(_same(_stated(one.run.evidence), figures) for figures in _figures(other, one.run)):
                    raise _refusal(other.run.input, one.run.input)


def _rows(runs: Sequence[Prepared]) -> list[tuple[str, Requests]]:
    """Runs that have rows, of times that tell one measurement from another."""
    known = [(one.run, one.run.evidence) for one in runs if one.run.measurement]
    return [(run.input, rows) for run, rows in known if isinstance(rows, Requests)]


def _refusal(what: str, where: str) -> InputError:
    message = f"holds what is among the results, as {what}, and is given as the baseline"
    return InputError(message, where, "give the results of another build as baseline")


def _digests(run: Run) -> tuple[str, ...]:
    """Of the file as stored, unpacked, and of its latencies: a .gz or a new date is no second measurement."""
    return tuple(filter(None, (run.sha256, run.content_sha256, run.measurement)))


def _same(one: Figures, other: Figures) -> bool:
    common = one.keys() & other.keys()
    if len({one[key] for key in common}) < FIGURES:
        return False
    return all(math.isclose(one[key], other[key], rel_tol=_NEAR) for key in common)


def _stated(evidence: Aggregate) -> Figures:
    """What an aggregate states of its latencies."""
    found: dict[tuple[str, float | None], float] = {}
    for metric in METRICS:
        if summary := evidence.summaries.get(metric):
            found |= {(metric, percent): value for percent, value in summary.percentiles}
            found |= {} if summary.mean is None else {(metric, None): summary.mean}
    return found


def _figures(one: Prepared, base: Run) -> Iterator[Figures]:
    """What a run of the candidate would be called in a report of ours, or is in the summary of its tool."""
    run = one.run
    if isinstance(run.evidence, Aggregate):
        yield _stated(run.evidence)
    elif base.format != SAVED_REPORT:
        yield {
            (m, percent): value for m, own in run.tool_reported.items() for percent, value in own.percentiles
        }
    elif isinstance(run.evidence, Requests):
        # With the warm-up rule of this policy, and without: that of the saved report is not known.
        for rows in (one.evidence, run.evidence):
            assert isinstance(rows, Requests)
            key = "figures", id(rows)
            if key not in one.memo:  # counted once, however many runs a baseline has
                one.memo[key] = dict(_counted(rows))
            yield one.memo[key]


def _counted(rows: Requests) -> Iterator[tuple[tuple[str, float | None], float]]:
    done = rows.status == Status.COMPLETED
    for metric in METRICS:
        column: Floats | None = None if metric == "itl" else column_of(rows, metric)
        values = column[done & np.isfinite(column)] if column is not None else np.array([])
        if values.size:
            yield (metric, None), float(values.mean())
            yield from (((metric, p), stats.nearest_rank(values, p / 100)) for p in _PERCENTILES)
