"""The same measurement in two files: another wrapping, another date, an added key change no request; and

statistics of several runs together beside those of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ..model import Aggregate, Floats, Requests, Run, Summary

_ROWS = 20  # fewer rows, or times that hardly differ, may agree by chance or were made by hand
_DIFFERENT = 0.5  # share of different E2E values that measured times have at least
_GRAIN_S = 1e-6
_PIECE = 1 << 18  # rows
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing: neighbouring values fall far apart
_STEPS = 10_000  # of looking for runs that add up to another
_NEAR = 0.01  # relative: percentiles of a merge are interpolated anew


def once(runs: Iterable[Run], notes: list[str]) -> list[Run]:
    """The runs without those that repeat another one's measurement, which is noted; each with its digest."""
    seen: dict[object, Run] = {}
    kept = []
    for plain in runs:
        run = replace(plain, measurement=_measurement(plain))
        twin = seen.setdefault((run.tool, run.load, run.measurement), run) if run.measurement else run
        if twin is run:
            kept.append(run)
        else:
            where = "again in the same file" if twin.input == run.input else f"the same as {twin.input}"
            notes.append(f"{run.input}: a run is not counted, its measurement is {where}")
    return _without_merges(kept, notes)


def _without_merges(runs: list[Run], notes: list[str]) -> list[Run]:
    """The runs without aggregates whose counts are the exact sums of others, which are there one by one."""
    merged: set[int] = set()
    aggregates = [run for run in runs if isinstance(run.evidence, Aggregate)]
    for run in aggregates:
        others = [one for one in aggregates if id(one) not in merged and _comparable(run, one)]
        if run.counts.attempted and (parts := _parts(run, others)):
            merged.add(id(run))
            named = " and ".join(part.input for part in parts[:3]) + (" and more" if len(parts) > 3 else "")
            notes.append(f"{run.input}: a run is not counted, its counts are the sums of those of {named}")
    return [run for run in runs if id(run) not in merged]


def _comparable(run: Run, other: Run) -> bool:
    """Whether the other could be a part of the run: the same tool, load and model, and fewer requests."""
    facts = ("tool", "load", "model", "scenario")
    return 0 < other.counts.attempted < run.counts.attempted and all(
        getattr(run, fact) == getattr(other, fact) for fact in facts
    )


def _parts(run: Run, others: Sequence[Run]) -> tuple[Run, ...]:
    """Runs, two or more, whose counts add up to those of `run` and whose statistics are around its own."""
    steps = 0

    def search(at: int, left: NDArray[np.float64], chosen: tuple[Run, ...]) -> tuple[Run, ...]:
        nonlocal steps
        steps += 1
        if not left.any():
            return chosen if len(chosen) > 1 and _around(run, chosen) else ()
        for number in range(at, len(others)):
            rest = left - _sums(others[number])
            fits = bool((rest >= 0).all()) and steps < _STEPS
            if fits and (found := search(number + 1, rest, (*chosen, others[number]))):
                return found
        return ()

    return search(0, _sums(run), ())


def _sums(run: Run) -> NDArray[np.float64]:
    """What adds up over runs; NaN, which equals nothing, for a total that is not known."""
    tokens = np.nan if run.total_output_tokens is None else run.total_output_tokens
    return np.array([run.counts.attempted, run.counts.completed, run.counts.failed, tokens])


def _around(run: Run, parts: Sequence[Run]) -> bool:
    """Whether each statistic of `run` lies between those of the parts, as in a mixture of them."""
    for metric, summary in run.evidence.summaries.items():  # type: ignore[union-attr] # aggregates alone
        stated = [part.evidence.summaries.get(metric) for part in parts]  # type: ignore[union-attr]
        for name, value in _figures(summary).items():
            figures = [_figures(one).get(name) for one in stated if one is not None]
            known = [figure for figure in figures if figure is not None]
            if len(known) < len(parts):
                continue
            room = _NEAR * value
            if not min(known) - room <= value <= max(known) + room:
                return False
    return True


def _figures(summary: Summary) -> dict[float | None, float]:
    """Percentiles by their percent, and the mean under None."""
    figures: dict[float | None, float] = dict(summary.percentiles)
    return figures if summary.mean is None else {**figures, None: summary.mean}


def _measurement(run: Run) -> str:
    """A digest of what two measurements never share: every latency to the microsecond, or every statistic."""
    import hashlib  # here, not above: what imports this module at a start may read no file

    rows = run.evidence
    if isinstance(rows, Requests):
        times = [column for column in (rows.e2e_s, rows.ttft_s) if column is not None]
        if len(rows) < _ROWS or not times or _different(times[0]) < _DIFFERENT * len(rows):
            return ""
        digest = hashlib.sha256(rows.status.tobytes())
        for column in times:
            for at in range(0, len(column), _PIECE):  # what is made of a column on the way is as large as it
                piece = np.nan_to_num(column[at : at + _PIECE])
                digest.update(np.round(piece / _GRAIN_S).astype(np.int64).tobytes())
        return digest.hexdigest()
    if isinstance(rows, Aggregate):
        stated = [(metric, one.percentiles, one.mean) for metric, one in sorted(rows.summaries.items())]
        values = {value for _, percentiles, _ in stated for _, value in percentiles}
        return hashlib.sha256(repr((run.counts, stated)).encode()).hexdigest() if len(values) >= 4 else ""
    return ""


def _different(column: Floats) -> int:
    """How many values differ, NaN being one; of many at least so many, by the slots that they fall into."""
    if len(column) <= _PIECE:  # np.unique would import numpy.ma, 5 ms of every start
        return 1 + int(np.count_nonzero(np.diff(np.sort(np.nan_to_num(column)))))
    bits = len(column).bit_length() + 1  # two to four slots a row
    slots = np.zeros(1 << bits, np.bool_)
    for at in range(0, len(column), _PIECE):
        piece = np.nan_to_num(column[at : at + _PIECE]).view(np.uint64)
        slots[(piece * _SPREAD) >> np.uint64(64 - bits)] = True
    return int(np.count_nonzero(slots))
