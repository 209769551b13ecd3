"""The sessions of a branch as a baseline is made of them; which compare, `evaluate` decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..model import Counts, RecordedRun, Remembered, Run, SessionRecord
from ..readers.baseline import saved_run
from .records import measurements

_UNKNOWN = "does not state its requests"


def offered(sessions: Iterable[tuple[SessionRecord, str]], branch: str, name: str) -> Iterator[Remembered]:
    """The sessions of `branch` among these and why each is left out; `name` is the store's, for people."""
    for record, left_out in sessions:
        if record.branch == branch:
            yield _remembered(record, name, left_out)


def _remembered(record: SessionRecord, store: str, left_out: str) -> Remembered:
    known = [(run, run.counts) for run in record.runs if run.counts is not None]
    if len(known) < len(record.runs):
        left_out = left_out or _UNKNOWN
    return Remembered(
        record.commit[:12],
        tuple(_run(run, counts, record, store) for run, counts in known),
        frozenset(measurements(record)),
        record.policy.workload,
        left_out,
    )


def _run(run: RecordedRun, counts: Counts, record: SessionRecord, store: str) -> Run:
    return saved_run(run, counts, f"{store}/{record.commit[:12]}-{record.id[:8]}", record.report_sha256)
