"""Rows that stand twice, in one run or in two: what was measured is never equal to the last digit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..model import Floats, Requests, Status

MEASURED = 20  # different E2E that measured requests have at least
FINEST_S, ROUND = 1e-6, 1e-4  # E2E that are whole microseconds, or nearly, may be equal by chance
GRAINS_S = (0.0, 1e-6, 1e-5)  # to which a copy may be rounded; 0: to the last digit
SHARED = 0.01  # of a run's requests that stand in another one too: no accident
BEYOND_CHANCE = 0.25  # the same where times are rounded, so that some are equal by accident
SAMPLE = 20_000  # rows that are looked up, of all runs together
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing: neighbouring values fall far apart

_Row = tuple[float, float]  # TTFT and E2E


def repeats(runs: Sequence[tuple[str, Requests]]) -> Iterator[tuple[str, float]]:
    """What to say of named runs whose rows stand twice, and the share of the run's rows that do.

    Of large runs a sample is looked up, chosen by value: a row and its copy are both in it, or neither.
    """
    every = 1 + sum(len(rows) for _, rows in runs) // SAMPLE
    seen: set[_Row] = set()
    looked_up = 0
    for name, rows in runs:
        same_start = _repeated(rows, every)
        if same_start:
            yield (
                f"{same_start:.1%} of the rows of {name} have the same start and times as another",
                same_start,
            )
        found, fine = _sample(rows, every)
        different = set(found)
        again, elsewhere = len(found) - len(different), _elsewhere(found, seen, looked_up, fine=fine)
        seen |= different
        looked_up += len(found)
        if again and fine and not same_start:
            yield _said(again / len(found), name, "another of them")
        if elsewhere:
            yield _said(elsewhere, name, "one of another run")


def shared(runs: Sequence[Requests], others: Sequence[Requests]) -> list[float]:
    """Of each of `others`, the share of its requests that are in `runs` too; 0 where it may be an accident.

    Known by TTFT and E2E, to the last digit or rounded to a microsecond or ten.
    """
    every = 1 + sum(map(len, (*runs, *others))) // SAMPLE
    most = [0.0] * len(others)
    for grain_s in GRAINS_S:
        samples = [_sample(rows, every, grain_s)[0] for rows in runs]
        known, looked_up = {row for rows in samples for row in rows}, sum(map(len, samples))
        for at, rows in enumerate(others):
            found, fine = _sample(rows, every, grain_s)
            share = _elsewhere(found, known, looked_up, fine=fine)
            most[at] = max(most[at], share if share > SHARED else 0.0)
    return most


def _elsewhere(found: Sequence[_Row], known: Collection[_Row], looked_up: int, *, fine: bool) -> float:
    """Share of a run's requests that are among `looked_up` others too; 0 where it may be an accident.

    As often as two of its own requests are equal, so often is one equal to a request of another run.
    """
    share = sum(row in known for row in found) / len(found) if found and known else 0.0
    if fine or not share:
        return share
    alike = sum(times for times in Counter(found).values() if times > 1) / len(found)
    return share if share - alike * looked_up / (len(found) - 1) > BEYOND_CHANCE else 0.0


def _said(share: float, name: str, other: str) -> tuple[str, float]:
    return f"{share:.1%} of the requests of {name} have TTFT and E2E of {other}, to the last digit", share


def _sample(rows: Requests, every: int, grain_s: float = 0.0) -> tuple[list[_Row], bool]:
    """TTFT and E2E of completed requests, in grains; and whether they are too fine to be equal by chance."""
    if rows.e2e_s is None:
        return [], False
    whole = _rounded(rows.e2e_s, grain_s)
    at = _chosen(whole, every)
    at = at[(rows.status[at] == Status.COMPLETED) & np.isfinite(whole[at])]
    e2e = whole[at]
    ticks = rows.e2e_s[at] / FINEST_S
    coarse = np.abs(ticks - np.rint(ticks)) < ROUND
    if len(set(e2e.tolist())) < MEASURED:
        return [], False
    ttft = e2e if rows.ttft_s is None else _rounded(np.nan_to_num(rows.ttft_s[at]), grain_s)
    return list(zip(ttft.tolist(), e2e.tolist(), strict=True)), not grain_s and coarse.mean() <= 0.5


def _rounded(column: Floats, grain_s: float) -> Floats:
    return np.rint(column / grain_s) if grain_s else column


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
