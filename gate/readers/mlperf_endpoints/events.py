"""events.jsonl of MLPerf Endpoints: every sample's life as events, joined by its uuid."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import msgspec
import numpy as np

from ...model import Counts, Gaps, Requests, Status
from .. import tables
from ..source import BROKEN, Source

_WHOLE = "run the benchmark again to its end, or copy the file whole"
_EARLY = 0.99  # a first chunk later than this share of the answer came with the whole of it
_Ns = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class _Event(msgspec.Struct, gc=False):
    event_type: str
    timestamp_ns: _Ns
    sample_uuid: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(slots=True)
class _Sample:
    """What the events say of one sample; times in ns, of one monotonic clock."""

    issued: int
    measured: bool
    first: int | None = None
    complete: int | None = None
    error: str = ""
    chunks: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The samples as rows, in the order they were issued."""

    rows: Requests
    counts: Counts
    issued: int  # as the tool counts them: measured, answered or not
    duration_s: float | None  # first issue to last completion, measured samples
    one_chunk: bool
    has_gaps: bool  # every chunk was recorded
    interrupted: bool
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Session:
    samples: dict[str, _Sample] = field(default_factory=dict)
    tracking: bool = False
    tracked: bool = False  # there was a window at all
    interrupted: bool = False
    ended: bool = False


def read(source: Source) -> Table:
    """The samples. Raises InputError when the file is cut short, empty or contradicts itself."""
    session = _Session()
    number = 0
    for events in source.lines(_Event):
        for event in events:
            number += 1
            _take(source, session, event, number)
    if not session.ended:
        raise source.fail(
            "ends before session.ended: the run was aborted, or the file cut short", hint=_WHOLE
        )
    if not session.samples:
        raise source.fail("holds no sample", hint=_WHOLE)
    if not session.tracked:
        for sample in session.samples.values():
            sample.measured = True
    if not any(sample.measured for sample in session.samples.values()):
        raise source.fail("holds no sample in its measured window", hint=_WHOLE)
    return _table(source, session)


def _take(source: Source, session: _Session, event: _Event, number: int) -> None:
    kind, uuid = event.event_type, event.sample_uuid
    if kind.startswith("session."):
        _session_event(session, kind)
        return
    if kind == "sample.issued":
        if uuid in session.samples:
            raise source.fail("contradicts itself: the sample is issued twice", f"line {number}")
        session.samples[uuid] = _Sample(event.timestamp_ns, session.tracking)
        return
    sample = session.samples.get(uuid)
    if sample is None:
        if kind.startswith("sample."):
            raise source.fail(f"contradicts itself: {kind} of a sample never issued", f"line {number}")
        return  # an error of the session, not of a sample
    if kind == "sample.recv_first":
        sample.first = event.timestamp_ns
        sample.chunks.append(event.timestamp_ns)
    elif kind == "sample.recv_non_first":
        sample.chunks.append(event.timestamp_ns)
    elif kind == "sample.complete":
        sample.complete = event.timestamp_ns
        sample.error = sample.error or _fault(source, event.data, number)
    elif kind.startswith("error."):
        sample.error = _fault(source, event.data, number) or kind


def _session_event(session: _Session, kind: str) -> None:
    if kind == "session.start_performance_tracking":
        session.tracking = session.tracked = True
    elif kind == "session.stop_performance_tracking":
        session.tracking = False
    elif kind == "session.interrupted":
        session.interrupted = True
    elif kind == "session.ended":
        session.ended = True


def _fault(source: Source, data: msgspec.Raw, number: int) -> str:
    """Why the answer is none: its error, or nothing in it; empty where it is one.

    Data are ["ErrorData", type, message] or ["TextModelOutput", output, reasoning, tool calls].
    """
    try:
        parts = msgspec.json.decode(data)
    except BROKEN:
        raise source.fail("the data are not JSON", f"line {number}", _WHOLE) from None
    if not isinstance(parts, list) or not parts:
        return "no answer"
    if parts[0] == "ErrorData":
        return ": ".join(str(part) for part in parts[1:3] if part) or "an error without a name"
    return "" if any(_holds_text(part) for part in parts[1:]) else "no output"


def _holds_text(part: object) -> bool:
    return any(part) if isinstance(part, list) else bool(part)


def _table(source: Source, session: _Session) -> Table:
    samples = list(session.samples.values())
    for sample in samples:
        if sample.complete is None and not sample.error and not session.interrupted:
            sample.error = "no answer before the run ended"
    errors = np.array([bool(sample.error) for sample in samples])
    issued = np.array([sample.issued for sample in samples], dtype=np.int64)
    rows = tables.requests(
        errors=errors,
        ttft_s=_since(samples, [sample.first for sample in samples]),
        e2e_s=_since(samples, [sample.complete for sample in samples]),
        output_tokens=None,
        start_s=(issued - issued.min()) / 1e9,
        cancelled=np.array([session.interrupted and sample.complete is None for sample in samples]),
        warmup=np.array([not sample.measured for sample in samples]),
        gaps=_gaps(samples) if source.gaps else None,
        order="submission",
    )
    counts = tables.counts(rows)
    measured = [sample for sample in samples if sample.measured]
    ends = [sample.complete for sample in measured if sample.complete is not None]
    window = max(ends) - min(sample.issued for sample in measured) if ends else 0
    done = rows.status == Status.COMPLETED
    one_chunk = False
    if rows.ttft_s is not None and rows.e2e_s is not None and done.any():
        one_chunk = bool(np.mean(rows.ttft_s[done] >= _EARLY * rows.e2e_s[done]) > 0.5)
    return Table(
        rows=rows,
        counts=counts,
        issued=len(measured),
        duration_s=window / 1e9 if window > 0 else None,
        one_chunk=one_chunk,
        has_gaps=any(len(sample.chunks) > 1 for sample in samples),
        interrupted=session.interrupted,
        notes=tables.failure_note(rows, [sample.error for sample in samples]),
    )


def _since(samples: list[_Sample], times: list[int | None]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    pairs = zip(samples, times, strict=True)
    return np.array([np.nan if at is None else (at - sample.issued) / 1e9 for sample, at in pairs])


def _gaps(samples: list[_Sample]) -> Gaps | None:
    """Between chunks, where the client was told to record them all (client.stream_all_chunks)."""
    gaps = [np.diff(np.array(sample.chunks, dtype=np.int64)) / 1e9 for sample in samples]
    lengths = [len(each) for each in gaps]
    if not any(lengths):
        return None
    return Gaps(np.concatenate(gaps), np.concatenate(([0], np.cumsum(lengths))).astype(np.int64))
