"""What docs/readers.md and `slo-gate tools` say of each kind of file, and of what its tool calls a metric."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

T = TypeVar("T")


class Format(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of file. Plain sentences; names of files, fields and options stand in backquotes."""

    files: str  # what the tool calls it, and how it is written
    evidence: str  # requests, histogram or aggregate
    reads: str  # what is taken from it
    cannot: str  # what cannot be judged from it, and what would settle it
    traps: str  # what the reader knows the file to get wrong


class _Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reader's formats.yaml."""

    run_with: str  # the flags of the tool that make it write what can be judged best
    pass_on: str  # the file or folder to give to `check`
    definitions: dict[str, str]
    formats: tuple[Format, ...]
    definitions_of: dict[str, dict[str, str]] = {}  # Told.format -> those of a format whose own differ


def yaml_table(path: Path, kind: type[T]) -> T:
    """What a YAML file of ours holds, as `kind`."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return msgspec.convert(yaml.load(path.read_bytes(), Loader=loader), kind)


@cache
def _page(package: str) -> _Page:
    return yaml_table(Path(__file__).parent / package.rpartition(".")[2] / "formats.yaml", _Page)


def formats(reader: object) -> tuple[Format, ...]:
    """The kinds of file of a reader's formats.yaml. Raises FileNotFoundError where it has none."""
    return _page(str(reader.__name__)).formats  # type: ignore[attr-defined]


def running(reader: object) -> tuple[str, str]:
    """The flags of a reader's tool that give the best evidence, and what to pass. Raises like `formats`."""
    page = _page(str(reader.__name__))  # type: ignore[attr-defined]
    return page.run_with, page.pass_on


def definitions(reader: object, of: str = "") -> Mapping[str, str]:
    """Metric -> the tool's word for it and its formula; `of` is a Told's format. Raises like `formats`."""
    page = _page(str(reader.__name__))  # type: ignore[attr-defined]
    return page.definitions_of.get(of, page.definitions)
