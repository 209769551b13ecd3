"""The same measurement in two files: another wrapping, another date, an added key change no request."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..model import Aggregate, Floats, Requests, Run

_ROWS = 20  # fewer rows, or times that hardly differ, may agree by chance or were made by hand
_DIFFERENT = 0.5  # share of different E2E values that measured times have at least
_GRAIN_S = 1e-6


def once(runs: Iterable[Run], notes: list[str]) -> list[Run]:
    """The runs without those that repeat another one's measurement; each left out is noted."""
    seen: dict[object, Run] = {}
    kept = []
    for run in runs:
        mark = _mark(run)
        twin = None if mark is None else seen.setdefault(mark, run)
        if twin is None or twin is run:
            kept.append(run)
        else:
            where = "again in the same file" if twin.input == run.input else f"the same as {twin.input}"
            notes.append(f"{run.input}: a run is not counted, its measurement is {where}")
    return kept


def _mark(run: Run) -> object:
    """What two measurements never share: every latency to the microsecond, or every stated statistic."""
    rows = run.evidence
    if isinstance(rows, Requests):
        times = [column for column in (rows.e2e_s, rows.ttft_s) if column is not None]
        if len(rows) < _ROWS or not times or _different(times[0]) < _DIFFERENT * len(rows):
            return None
        grains = [np.round(np.nan_to_num(column) / _GRAIN_S).astype(np.int64).tobytes() for column in times]
        return run.tool, run.load, rows.status.tobytes(), *grains
    if isinstance(rows, Aggregate):
        stated = tuple(
            (metric, summary.percentiles, summary.mean) for metric, summary in sorted(rows.summaries.items())
        )
        values = {value for _, percentiles, _ in stated for _, value in percentiles}
        return (run.tool, run.load, run.counts, stated) if len(values) >= 4 else None
    return None


def _different(column: Floats) -> int:
    """How many values differ, NaN being one; np.unique would import numpy.ma, 5 ms of every start."""
    return 1 + int(np.count_nonzero(np.diff(np.sort(np.nan_to_num(column)))))
