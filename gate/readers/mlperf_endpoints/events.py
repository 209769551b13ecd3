"""events.jsonl of MLPerf Endpoints: every sample's life as events, joined by its uuid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
import numpy as np

from ...model import Floats, Requests
from .. import clocks, tables
from ..source import BROKEN, Source

_WHOLE = "run the benchmark again to its end, or copy the file whole"
_START, _STOP = (f"session.{what}_performance_tracking" for what in ("start", "stop"))
_Ns = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_Times = dict[str, int]  # of samples by uuid, in ns of one monotonic clock


class _Event(msgspec.Struct, gc=False):
    event_type: str
    timestamp_ns: _Ns
    sample_uuid: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")


class Session(msgspec.Struct, eq=False):
    """What the events say, in the order in which samples were issued."""

    issued: _Times = {}
    first: _Times = {}
    complete: _Times = {}
    chunks: dict[str, list[int]] = {}
    errors: dict[str, str] = {}  # why an answer is none
    characters: dict[str, int] = {}
    measured: set[str] = set()
    marks: set[str] = set()  # kinds of the session's events

    def rows(self, *, gaps: bool) -> Requests:
        """The samples as columns."""
        at = np.array(list(self.issued.values()), dtype=np.int64)
        open_ended = "session.interrupted" in self.marks
        return tables.requests(
            errors=np.array([uuid in self.errors for uuid in self.issued]) | clocks.unset(at),
            ttft_s=self._since(self.first),
            e2e_s=self._since(self.complete),
            output_tokens=None,
            start_s=(at - at.min()) / 1e9,
            cancelled=np.array([open_ended and uuid not in self.complete for uuid in self.issued]),
            warmup=np.array([uuid not in self.measured for uuid in self.issued]),
            gaps=tables.gaps_between([self.chunks.get(uuid, []) for uuid in self.issued], 1e9)
            if gaps
            else None,
            order="submission",
        )

    def _since(self, times: Mapping[str, int]) -> Floats:
        known = ((at, times.get(uuid)) for uuid, at in self.issued.items())
        return tables.column(None if then is None else (then - at) / 1e9 for at, then in known)


def read(source: Source) -> Session:
    """The samples. Raises InputError when the file is cut short, empty or contradicts itself."""
    session, number, tracking = Session(), 0, False
    for events in source.lines(_Event):
        for event in events:
            number += 1
            kind, uuid = event.event_type, event.sample_uuid
            if kind.startswith("session."):
                session.marks.add(kind)
                tracking = kind == _START or (tracking and kind != _STOP)
            elif kind != "sample.issued":
                _take(source, session, event, number)
            elif uuid in session.issued:
                raise source.fail("contradicts itself: the sample is issued twice", f"line {number}", _WHOLE)
            else:
                session.issued[uuid] = event.timestamp_ns
                if tracking:
                    session.measured.add(uuid)
    if "session.ended" not in session.marks:
        why = "ends before session.ended: the run was aborted, or the file cut short"
        raise source.fail(why, hint=_WHOLE)
    if _START not in session.marks:
        session.measured.update(session.issued)
    if not session.measured:
        where = " in its measured window" if session.issued else ""
        raise source.fail(f"holds no sample{where}", hint=_WHOLE)
    for uuid in (
        session.issued.keys() - session.complete.keys() if "session.interrupted" not in session.marks else ()
    ):
        session.errors.setdefault(uuid, "no answer before the run ended")
    return session


def _take(source: Source, session: Session, event: _Event, number: int) -> None:
    kind, uuid = event.event_type, event.sample_uuid
    if uuid not in session.issued:
        if kind.startswith("sample."):
            why = f"contradicts itself: {kind} of a sample never issued"
            raise source.fail(why, f"line {number}", _WHOLE)
    elif kind in ("sample.recv_first", "sample.recv_non_first"):
        session.chunks.setdefault(uuid, []).append(event.timestamp_ns)
        if kind == "sample.recv_first":
            session.first[uuid] = event.timestamp_ns
    elif kind == "sample.complete" or kind.startswith("error."):
        error, characters = _answer(source, event.data, number)
        if kind != "sample.complete":
            session.errors[uuid] = error or kind
            return
        session.complete[uuid], session.characters[uuid] = event.timestamp_ns, characters
        if error:
            session.errors.setdefault(uuid, error)


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
