"""Rows that stand twice, in one run or in two: what was measured is never equal to the last digit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..model import Floats, Requests, Status

MEASURED = 20  # different E2E that measured requests have at least
FINEST_S, ROUND = 1e-6, 1e-4  # E2E that are whole microseconds, or nearly, may be equal by chance
SAMPLE = 20_000  # rows that are looked up, of all runs together
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing: neighbouring values fall far apart

_Row = tuple[float, float]  # TTFT and E2E


def repeats(runs: Sequence[tuple[str, Requests]]) -> Iterator[tuple[str, float]]:
    """What to say of named runs whose rows stand twice, and the share of the run's rows that do.

    Of large runs a sample is looked up, chosen by value: a row and its copy are both in it, or neither.
    """
    every = 1 + sum(len(rows) for _, rows in runs) // SAMPLE
    seen: set[_Row] = set()
    for name, rows in runs:
        same_start = _repeated(rows, every)
        if same_start:
            yield (
                f"{same_start:.1%} of the rows of {name} have the same start and times as another",
                same_start,
            )
        found = _sample(rows, every)
        different = set(found)
        again, elsewhere = len(found) - len(different), len(different & seen)
        seen |= different
        if again and not same_start:
            yield _said(again / len(found), name, "another of them")
        if elsewhere:
            yield _said(elsewhere / len(found), name, "one of another run")


def shared(runs: Sequence[Requests], others: Sequence[Requests]) -> list[float]:
    """Of each of `others`, the share of its requests whose TTFT and E2E, to the digit, are in `runs` too."""
    every = 1 + sum(map(len, (*runs, *others))) // SAMPLE
    known = {row for rows in runs for row in _sample(rows, every)}
    found = [_sample(rows, every) for rows in others]
    return [sum(row in known for row in rows) / len(rows) if rows else 0.0 for rows in found]


def _said(share: float, name: str, other: str) -> tuple[str, float]:
    return f"{share:.1%} of the requests of {name} have TTFT and E2E of {other}, to the last digit", share


def _sample(rows: Requests, every: int) -> list[_Row]:
    """TTFT and E2E of completed requests; none where the clock is too coarse to tell a copy from chance."""
    if rows.e2e_s is None:
        return []
    at = _chosen(rows.e2e_s, every)
    at = at[(rows.status[at] == Status.COMPLETED) & np.isfinite(rows.e2e_s[at])]
    e2e = rows.e2e_s[at]
    ticks = e2e / FINEST_S
    coarse = np.abs(ticks - np.rint(ticks)) < ROUND
    if not e2e.size or coarse.mean() > 0.5 or len(set(e2e.tolist())) < MEASURED:
        return []
    ttft = e2e if rows.ttft_s is None else np.nan_to_num(rows.ttft_s[at])
    return list(zip(ttft.tolist(), e2e.tolist(), strict=True))


def _chosen(column: Floats, every: int) -> NDArray[np.intp]:
    """Places of about one row in `every`, by their value."""
    hashed = np.ascontiguousarray(column).view(np.uint64) * _SPREAD
    return np.flatnonzero(hashed <= np.uint64(2**64 // every - 1))


def _repeated(rows: Requests, every: int) -> float:
    """Share of the rows that repeat another one to the last digit of its start, TTFT and E2E."""
    times = [column for column in (rows.start_s, rows.ttft_s, rows.e2e_s) if column is not None]
    if rows.start_s is None or len(times) < 2:
        return 0.0
    at = _chosen(times[-1], every)
    at = at[rows.attempted[at] & np.all([np.isfinite(column[at]) for column in times], axis=0)]
    table = [column[at].tolist() for column in times]
    kinds = len(set(table[-1]))  # not np.unique, which imports numpy.ma: 5 ms of every start
    if not kinds or 1 < kinds < MEASURED or (kinds == 1 and len(set(table[0])) > 1):
        return 0.0  # times that hardly differ were made by hand, and slots start together
    different = len(set(zip(*table, strict=True)))
    return 1 - different / len(at)
