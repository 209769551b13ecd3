"""What a reader says of each kind of file it reads: the rows of docs/readers.md and of `slo-gate tools`."""

from __future__ import annotations

from msgspec import Struct


class Format(Struct, frozen=True):
    """One kind of file. Plain sentences; names of files, fields and options stand in backquotes."""

    files: str  # what the tool calls it, and how it is written
    evidence: str  # requests, histogram or aggregate
    reads: str  # what is taken from it
    cannot: str  # what cannot be judged from it, and what would settle it
    traps: str  # what the reader knows the file to get wrong
