"""events.jsonl of MLPerf Endpoints: every sample's life as events, joined by its uuid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...model import Floats, Gaps, Requests
from .. import tables
from ..source import BROKEN, Source

_WHOLE = "run the benchmark again to its end, or copy the file whole"
_START, _STOP = (f"session.{what}_performance_tracking" for what in ("start", "stop"))
_Ns = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class _Event(msgspec.Struct, gc=False):
    event_type: str
    timestamp_ns: _Ns
    sample_uuid: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")


class _Sample(msgspec.Struct):
    """What the events say of one sample; times in ns, of one monotonic clock."""

    issued: int
    measured: bool
    first: int | None = None
    complete: int | None = None
    error: str = ""
    characters: int = 0
    chunks: list[int] = []


class Session(msgspec.Struct, frozen=True, eq=False):
    """The samples as rows, in the order they were issued."""

    rows: Requests
    issued: int  # as the tool counts them: measured, answered or not
    duration_s: float | None  # first issue to last completion, measured samples
    characters: Floats  # of each answer
    has_gaps: bool  # every chunk was recorded
    interrupted: bool
    errors: Sequence[str]


def read(source: Source) -> Session:
    """The samples. Raises InputError when the file is cut short, empty or contradicts itself."""
    samples: dict[str, _Sample] = {}
    marks: set[str] = set()  # kinds of the session's events
    number, tracking = 0, False
    for events in source.lines(_Event):
        for event in events:
            number += 1
            kind, uuid = event.event_type, event.sample_uuid
            if kind.startswith("session."):
                marks.add(kind)
                tracking = kind == _START or (tracking and kind != _STOP)
            elif kind != "sample.issued":
                _take(source, samples.get(uuid), event, number)
            elif uuid in samples:
                why = "contradicts itself: the sample is issued twice"
                raise source.fail(why, f"line {number}", _WHOLE)
            else:
                samples[uuid] = _Sample(event.timestamp_ns, tracking)
    if "session.ended" not in marks:
        why = "ends before session.ended: the run was aborted, or the file cut short"
        raise source.fail(why, hint=_WHOLE)
    if _START not in marks:
        for sample in samples.values():
            sample.measured = True
    if not any(sample.measured for sample in samples.values()):
        raise source.fail(f"holds no sample{' in its measured window' if samples else ''}", hint=_WHOLE)
    return _session(list(samples.values()), "session.interrupted" in marks, gaps=source.gaps)


def _take(source: Source, sample: _Sample | None, event: _Event, number: int) -> None:
    kind, at = event.event_type, event.timestamp_ns
    if sample is None:
        if kind.startswith("sample."):
            why = f"contradicts itself: {kind} of a sample never issued"
            raise source.fail(why, f"line {number}", _WHOLE)
        return  # an error of the session, not of a sample
    if kind in ("sample.recv_first", "sample.recv_non_first"):
        sample.first = at if kind == "sample.recv_first" else sample.first
        sample.chunks.append(at)
    elif kind == "sample.complete":
        error, sample.characters = _answer(source, event.data, number)
        sample.complete, sample.error = at, sample.error or error
    elif kind.startswith("error."):
        sample.error = _answer(source, event.data, number)[0] or kind


def _answer(source: Source, data: msgspec.Raw, number: int) -> tuple[str, int]:
    """Why the answer is none, "" where it is one; and its characters.

    Data are ["ErrorData", type, message] or ["TextModelOutput", output, reasoning, tool calls].
    """
    try:
        parts = msgspec.json.decode(data)
    except BROKEN:
        raise source.fail("the data are not JSON", f"line {number}", _WHOLE) from None
    if not isinstance(parts, list) or not parts:
        return "no answer", 0
    if parts[0] == "ErrorData":
        return ": ".join(str(part) for part in parts[1:3] if part) or "an error without a name", 0
    characters = _characters(parts[1:])
    return ("" if characters else "no output"), characters


def _characters(part: object) -> int:
    if isinstance(part, (list, dict)):
        return sum(map(_characters, part.values() if isinstance(part, dict) else part))
    return len(part) if isinstance(part, str) else bool(part)


def _session(samples: Sequence[_Sample], interrupted: bool, *, gaps: bool) -> Session:
    for sample in samples:
        if sample.complete is None and not sample.error and not interrupted:
            sample.error = "no answer before the run ended"
    issued = np.array([sample.issued for sample in samples], dtype=np.int64)
    rows = tables.requests(
        errors=np.array([bool(sample.error) for sample in samples]),
        ttft_s=_since(issued, [sample.first for sample in samples]),
        e2e_s=_since(issued, [sample.complete for sample in samples]),
        output_tokens=None,
        start_s=(issued - issued.min()) / 1e9,
        cancelled=np.array([interrupted and sample.complete is None for sample in samples]),
        warmup=np.array([not sample.measured for sample in samples]),
        gaps=_gaps(samples) if gaps else None,
        order="submission",
    )
    measured = [sample for sample in samples if sample.measured]
    ends = [sample.complete for sample in measured if sample.complete is not None]
    window = max(ends) - min(sample.issued for sample in measured) if ends else 0
    return Session(
        rows=rows,
        issued=len(measured),
        duration_s=window / 1e9 if window > 0 else None,
        characters=np.array([sample.characters for sample in samples], dtype=np.float64),
        has_gaps=any(len(sample.chunks) > 1 for sample in samples),
        interrupted=interrupted,
        errors=[sample.error for sample in samples],
    )


def _since(issued: NDArray[np.int64], times: Sequence[int | None]) -> Floats:
    """Seconds from the issue to these times, each difference exact to the ns."""
    gaps_ns = np.array([0 if at is None else at for at in times], dtype=np.int64) - issued
    return np.where([at is None for at in times], np.nan, gaps_ns / 1e9)


def _gaps(samples: Sequence[_Sample]) -> Gaps | None:
    """Between chunks, where the client was told to record them all (client.stream_all_chunks)."""
    gaps = [np.diff(np.array(sample.chunks, dtype=np.int64)) / 1e9 for sample in samples]
    lengths = [len(each) for each in gaps]
    if not any(lengths):
        return None
    return Gaps(np.concatenate(gaps), np.concatenate(([0], np.cumsum(lengths))).astype(np.int64))
