"""What is said of each kind of file a reader reads: the rows of docs/readers.md and of `slo-gate tools`."""

from __future__ import annotations

from importlib.resources import files

import msgspec
import yaml


class Format(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of file. Plain sentences; names of files, fields and options stand in backquotes."""

    files: str  # what the tool calls it, and how it is written
    evidence: str  # requests, histogram or aggregate
    reads: str  # what is taken from it
    cannot: str  # what cannot be judged from it, and what would settle it
    traps: str  # what the reader knows the file to get wrong


def formats(reader: object) -> tuple[Format, ...]:
    """The formats.yaml of a reader's package. Raises FileNotFoundError where it has none."""
    text = files(str(reader.__name__)).joinpath("formats.yaml").read_text(encoding="utf-8")  # type: ignore[attr-defined]
    return msgspec.convert(yaml.safe_load(text), tuple[Format, ...])
