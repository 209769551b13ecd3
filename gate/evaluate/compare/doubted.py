"""A comparison as if everything that is doubted of some requests had been against the candidate.

A doubt about all of a metric refuses the comparison; one about some requests is judged both ways, like an
absolute rule (evaluate/worst.py): of the candidate they are misses, of the baseline its fastest answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from ...model import Doubt, Requests, Status
from ..judge.counting import column_of
from ..prepare import COLUMNS, Prepared
from ..worst import worst_case
from .baseline import Sides


def partial_doubts(sides: Sides, metric: str) -> list[Doubt]:
    """The doubts of both sides about some requests of a metric."""
    return [doubt for one in (*sides.base, *sides.candidate) for doubt in _partial(one, metric)]


def at_worst(sides: Sides, metric: str) -> Sides | None:
    """Both sides with each doubted request against the candidate; None where one has no rows to say so of."""
    worst = {id(one): _worst(one, metric) for one in sides.candidate}
    worst |= {id(one): _fastest(one, metric) for one in sides.base}
    if any(one is None for one in worst.values()):
        return None

    def moved(runs: Sequence[Prepared]) -> tuple[Prepared, ...]:
        return tuple(found for one in runs if (found := worst.get(id(one))) is not None)

    held = tuple(tuple(moved(group) for group in side) for side in sides.sessions)
    return replace(
        sides,
        base=moved(sides.base),
        candidate=moved(sides.candidate),
        sessions=(held[0], held[1]),
    )


def _partial(one: Prepared, metric: str) -> list[Doubt]:
    return [doubt for doubt in one.run.doubts if doubt.requests and {metric, "attempted"} & {*doubt.of}]


def _worst(one: Prepared, metric: str) -> Prepared | None:
    if not _partial(one, metric):
        return one
    return worst_case(one) if one.requests is not None else None


def _fastest(one: Prepared, metric: str) -> Prepared | None:
    """A run of the baseline whose doubted rows, and those that are not there, were as fast as any."""
    doubts = _partial(one, metric)
    if not doubts:
        return one
    rows = one.requests
    if rows is None or metric == "itl" or (column := column_of(rows, metric)) is None:
        return None
    missing = sum(doubt.requests or 0 for doubt in doubts if "attempted" in doubt.of)
    marked = np.zeros(len(rows), bool)
    for of in (metric, "failed"):
        marked |= one.marks.get(of, False)
    marked &= rows.attempted
    fastest = float(np.nanmin(np.where(rows.status == Status.COMPLETED, column, np.nan)))
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        cells = getattr(rows, name)
        if cells is not None:
            nothing = np.nan if cells.dtype == float else 0
            columns[name] = np.append(cells, np.full(missing, nothing, cells.dtype))
    at = np.flatnonzero(np.append(marked, np.ones(missing, bool)))
    columns["status"][at] = Status.COMPLETED
    if metric == "tpot":  # two tokens after any TTFT
        columns["ttft_s"][at], columns["output_tokens"][at] = 0.0, 2.0
        columns["e2e_s"][at] = fastest
    else:
        columns[f"{metric}_s"][at] = fastest
    evidence = Requests(**columns, order=rows.order)
    return replace(one, evidence=evidence, counts=evidence.counts, memo={})
