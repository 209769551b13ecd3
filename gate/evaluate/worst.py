"""A run as if everything that is doubted of it, or that is missing from it, had gone wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace

from ..model import Gaps, Requests, Status
from .prepare import COLUMNS, Prepared


def worst_case(prepared: Prepared) -> Prepared | None:
    """The run with each request that is doubted, or that is not there, as a miss; None without such.

    What is doubted for one metric stays marked in `Requests.doubted`, where it counts as a miss.
    """
    partial = [doubt for doubt in prepared.run.doubts if doubt.requests]
    if not partial:
        return None
    if "worst" not in prepared.memo:
        missing = sum(doubt.requests or 0 for doubt in partial if "attempted" in doubt.of)
        attempted, failed = prepared.counts.attempted + missing, prepared.counts.failed + missing
        counts, evidence = replace(prepared.counts, attempted=attempted, failed=failed), prepared.evidence
        if isinstance(evidence, Requests):
            evidence = _with_missing(_all_failed(replace(evidence, doubted=prepared.marks)), missing)
            counts = evidence.counts
        prepared.memo["worst"] = replace(prepared, evidence=evidence, counts=counts, memo={})
    worst: Prepared = prepared.memo["worst"]
    return worst


def _all_failed(rows: Requests) -> Requests:
    marks = rows.doubted.get("failed")
    if marks is None:
        return rows
    lost = marks & (rows.status == Status.COMPLETED)
    return replace(rows, status=np.where(lost, Status.FAILED, rows.status).astype(np.uint8))


def _with_missing(rows: Requests, missing: int) -> Requests:
    """Rows with `missing` failed ones behind them."""
    if not missing:
        return rows
    columns: dict[str, Any] = {"status": np.append(rows.status, np.full(missing, Status.FAILED, np.uint8))}
    for name in COLUMNS[1:]:
        column = getattr(rows, name)
        if column is not None:
            nothing = np.zeros(missing, bool) if column.dtype == bool else np.full(missing, np.nan)
            columns[name] = np.append(column, nothing)
    doubted = {of: np.append(marks, np.zeros(missing, bool)) for of, marks in rows.doubted.items()}
    gaps = rows.gaps
    if gaps is not None:
        gaps = Gaps(gaps.values_s, np.append(gaps.offsets, np.full(missing, gaps.offsets[-1])))
    return replace(rows, **columns, doubted=doubted, gaps=gaps, ids=None, rows=None)
