"""From a Run as it was read to the requests that are judged: cancelled, order, warm-up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from ..model import (
    METRICS,
    Aggregate,
    Bools,
    Counts,
    Doubt,
    Evidence,
    Floats,
    Gaps,
    Load,
    Policy,
    Requests,
    Run,
    Status,
    Summary,
    Why,
)

OPEN_LOOP_SHARE, OPEN_LOOP_MIN = 0.05, 50  # docs/statistics.md: an open loop drops max(5 %, 50)
SHORT_MIN, SHORT_PER_SLOT = 300, 10  # fewer than max(300, 10 x concurrency): tails are biased


class Prepared(Struct, frozen=True, eq=False):
    """A run whose rows are in submission order, warm-up and cancelled rows marked by the policy."""

    run: Run
    evidence: Evidence
    counts: Counts
    window_s: float | None  # of the judged rows
    notes: tuple[str, ...]
    marks: Mapping[str, Bools] = field(default_factory=dict)  # Requests.doubted, as the rows now stand
    memo: dict[object, Any] = field(default_factory=dict)  # what was counted once; nothing else may look

    @property
    def stated_counts(self) -> Counts | None:
        """The counts, where they are known; unknown is not zero."""
        unknown = any(doubt.code is Why.COUNTS_UNKNOWN for doubt in self.run.doubts)
        return None if unknown and not self.counts.attempted else self.counts

    @property
    def requests(self) -> Requests | None:
        """The rows, where the evidence has rows."""
        return self.evidence if isinstance(self.evidence, Requests) else None

    def stated(self, metric: str) -> Summary | None:
        """What an aggregate states of a metric, or of the tokens."""
        return self.evidence.summaries.get(metric) if isinstance(self.evidence, Aggregate) else None

    def lengths(self, column: str) -> Floats | None:
        """Known `input_tokens` or `output_tokens` of the completed requests; None without that column."""
        rows = self.requests
        if rows is None or (values := getattr(rows, column)) is None:
            return None
        known: Floats = values[(rows.status == Status.COMPLETED) & np.isfinite(values)]
        return known


def prepare(run: Run, policy: Policy) -> Prepared:
    """Apply `workload.output_tokens: none`, `semantics.cancelled` and `evidence.warmup` to one run."""
    if policy.tokenless:
        run = _without_tokens(run)
    if not isinstance(run.evidence, Requests):
        said = ("warm-up cannot be dropped from aggregates",) if policy.evidence.warmup != 0 else ()
        return Prepared(run, run.evidence, run.counts, run.duration_s, said)
    rows = _in_order(run.evidence)
    if policy.cancelled == "miss":
        rows = replace(rows, status=np.where(rows.status == Status.CANCELLED, Status.FAILED, rows.status))
    rows, notes = _drop_warmup(rows, run, policy.evidence.warmup)
    dropped = rows.status is not run.evidence.status and bool((rows.status == Status.WARMUP).any())
    window = _window(rows) if dropped else run.duration_s
    marks, rows = rows.doubted, replace(rows, doubted={}) if rows.doubted else rows
    return Prepared(run, rows, rows.counts, window, (*notes, *_too_short(rows, run)), marks)


def _without_tokens(run: Run) -> Run:
    """The run of an endpoint that makes no tokens: a row without one is no failure for that."""
    doubts = [doubt for doubt in run.doubts if doubt.code is not Why.NO_TOKENS]
    if run.total_output_tokens:
        why = (
            f"the policy says that the endpoint makes no tokens, and this run has"
            f" {run.total_output_tokens:,.0f}; remove workload.output_tokens, or benchmark that endpoint"
        )
        doubts.append(Doubt(Why.OTHER_WORKLOAD, (*METRICS, "error_rate"), why))
    evidence, counts = run.evidence, run.counts
    if isinstance(evidence, Requests) and evidence.tokenless is not None:
        answered = evidence.tokenless & (evidence.status == Status.FAILED)
        status = np.where(answered, Status.COMPLETED, evidence.status).astype(np.uint8)
        evidence = replace(evidence, status=status, ttft_s=None, output_tokens=None)
        counts = evidence.counts
    return replace(run, evidence=evidence, counts=counts, doubts=tuple(doubts))


COLUMNS = (
    *("status", "ttft_s", "e2e_s", "output_tokens", "input_tokens", "start_s"),
    *("queue_s", "server_queue_s", "server_ttft_s", "tokenless"),
)


def _in_order(rows: Requests) -> Requests:
    """Rows by start time where it is known, else as they stand in the file."""
    if rows.start_s is None or not np.isfinite(rows.start_s).all():
        return rows
    if not (rows.start_s[1:] < rows.start_s[:-1]).any():
        return replace(rows, order="start")
    by = np.argsort(rows.start_s, kind="stable")

    columns = {name: column[by] for name in COLUMNS if (column := getattr(rows, name)) is not None}
    gaps = None if rows.gaps is None else _reorder(rows.gaps, by)
    ids = None if rows.ids is None else tuple(rows.ids[row] for row in by.tolist())
    doubted = {of: marks[by] for of, marks in rows.doubted.items()}
    return replace(rows, **columns, gaps=gaps, ids=ids, rows=by, doubted=doubted, order="start")


def _reorder(gaps: Gaps, by: NDArray[np.int64]) -> Gaps:
    starts, lengths = gaps.offsets[:-1][by], np.diff(gaps.offsets)[by]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    index = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - starts, lengths)
    return Gaps(gaps.values_s[index], offsets)


def _drop_warmup(rows: Requests, run: Run, rule: int | str) -> tuple[Requests, tuple[str, ...]]:
    """Mark warm-up rows: the first `rule`, or for auto the start-up burst and the ramp-down.

    A failed row among them stays what it is: failures are facts (DESIGN section 4), and an outage at either
    end of a run must not be taken for a ramp.
    """
    at = np.flatnonzero(rows.attempted)
    if rule == 0 or at.size == 0:
        return rows, ()
    first, last, why = (int(rule), 0, "") if rule != "auto" else _auto(run, at.size)
    if rows.order not in ("start", "submission"):
        return rows, ("warm-up: nothing dropped, the file gives neither start times nor submission order",)
    if why:
        return rows, (f"warm-up: nothing dropped, {why}",)
    first = min(first, at.size)
    last = min(last, at.size - first)
    ends = np.concatenate((at[:first], at[at.size - last :]))
    failed = rows.status[ends] == Status.FAILED
    status = rows.status.copy()
    status[ends[~failed]] = Status.WARMUP
    what = f"the first {first}" + (f" and the last {last}" if last else "")
    kept = int(failed.sum())
    but = f", but the {kept} of these that failed: failures are judged" if kept else ""
    return replace(rows, status=status), (f"warm-up: dropped {what} of {at.size} requests{but}",)


def warmup_of(rule: int | str, load: Load, kept: int) -> int:
    """How many requests of a run `evidence.warmup` drops where `kept` are to be left."""
    if rule != "auto":
        return int(rule)
    if load.concurrency is not None:
        return 2 * load.concurrency
    return max(OPEN_LOOP_MIN, math.ceil(kept * OPEN_LOOP_SHARE / (1 - OPEN_LOOP_SHARE)))


def _auto(run: Run, n: int) -> tuple[int, int, str]:
    load = run.load
    if load is None:
        return 0, 0, "the load is not stated (--set concurrency=N)"
    if load.concurrency is not None:
        return load.concurrency, load.concurrency, ""
    if load.request_rate is not None:
        return max(int(np.ceil(OPEN_LOOP_SHARE * n)), OPEN_LOOP_MIN), 0, ""
    return 0, 0, "a burst has no steady state"


def _window(rows: Requests) -> float | None:
    """First start to last end of the judged rows, where both are known."""
    if rows.start_s is None or rows.e2e_s is None:
        return None
    judged = rows.attempted
    if not judged.any():
        return None
    ends = np.where(np.isfinite(rows.e2e_s), rows.start_s + rows.e2e_s, rows.start_s)[judged]
    window = float(ends.max() - rows.start_s[judged].min())
    return window if window > 0 and np.isfinite(window) else None


def _too_short(rows: Requests, run: Run) -> tuple[str, ...]:
    slots = run.load.concurrency if run.load and run.load.concurrency else 0
    wanted, left = max(SHORT_MIN, SHORT_PER_SLOT * slots), int(rows.attempted.sum())
    if left >= wanted:
        return ()
    return (f"short run: {left} requests; this load needs {wanted}, tail percentiles are biased",)
