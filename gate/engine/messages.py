"""What passes between the process that judges and those that read: pickles, their columns beside them.

Columns are written from where they are and read to where they stay (protocol 5): no copy of them is made.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from ..disk import Identity
from ..readers import Look

_SIZE = struct.Struct("<Q")


class Task(Struct, frozen=True):
    """One file to look at, and how."""

    path: Path
    name: str
    gaps: bool
    attempted_counter: str | None
    columns: Mapping[str, str]
    tool: str | None
    several: bool


class Answer(Struct, frozen=True, eq=False):
    """What was found out of it; without a look, it is for the asking process to say what is wrong."""

    look: Look | None = None
    known: Mapping[str, Any] = {}  # by Source.known
    opened: frozenset[Identity] = frozenset()  # files that were opened for it


def send(pipe: IO[bytes], message: Task | Answer) -> None:
    """Write one message. Raises OSError where nobody reads."""
    columns: list[pickle.PickleBuffer] = []
    parts = [memoryview(pickle.dumps(message, protocol=5, buffer_callback=columns.append))]
    parts += [column.raw() for column in columns]
    pipe.write(_SIZE.pack(len(parts)) + b"".join(_SIZE.pack(part.nbytes) for part in parts))
    for part in parts:
        pipe.write(part)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """Read one message. Raises EOFError where the other side has ended."""
    (number,) = _SIZE.unpack(_exactly(pipe, _SIZE.size))
    sizes = [size for (size,) in _SIZE.iter_unpack(_exactly(pipe, _SIZE.size * number))]
    body, *columns = [_exactly(pipe, size) for size in sizes]
    return pickle.loads(body, buffers=columns)


def _exactly(pipe: IO[bytes], size: int) -> bytearray:
    data = bytearray(size)
    left = memoryview(data)
    while left:
        read = pipe.readinto(left)  # type: ignore[attr-defined] # of every buffered reader
        if not read:
            raise EOFError
        left = left[read:]
    return data
