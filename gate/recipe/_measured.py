"""What results say, as answers for a policy: lengths, and the percentiles to put bounds above."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..model import Check, Kind, Objective, Requests, Run, Status
from ._plan import Lengths
from ._policy_file import Measured


def lengths(runs: Sequence[Run], column: str) -> Lengths | None:
    """Mean and spread (ddof 0) in tokens of the completed requests; None where a file does not say."""
    cells = []
    for run in runs:
        rows = run.evidence
        values = getattr(rows, column) if isinstance(rows, Requests) else None
        if values is None:
            return None
        assert isinstance(rows, Requests)
        cells.append(values[(rows.status == Status.COMPLETED) & np.isfinite(values)])
    together = np.concatenate(cells) if cells else np.empty(0)
    if together.size == 0 or together.mean() <= 0:
        return None
    return Lengths(float(f"{together.mean():.4g}"), float(f"{together.std():.3g}"))


def measured(
    objectives: Sequence[Objective], checks: Sequence[Check], attempted: Sequence[int], source: str
) -> Measured:
    """The observed percentile of each latency objective; one that failures push out of reach is left out.

    `attempted` are the requests of each run.
    """
    asked = {one.id for one in objectives if one.kind is Kind.LATENCY}
    seen = {
        one.id: one.observed
        for one in checks
        if one.id in asked and one.observed is not None and 0 < one.observed < math.inf
    }
    return Measured(seen, sum(attempted), source, len(attempted), min(attempted, default=0))
