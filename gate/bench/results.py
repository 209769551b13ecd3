"""From the folder of a finished command to its runs, and the sidecars beside its files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .. import readers
from ..errors import GateError, InputError
from ..model import Run
from ..readers import Reading

SIDECAR = ".slo.json"
STATED = ("tool_version", "model", "hardware")  # that a sidecar keeps, where the result does not say them


class How(Struct, frozen=True):
    """How results are read: as `check` would."""

    tool: str | None = None
    stated: tuple[str, ...] = ()
    gaps: bool = False
    columns: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def read(folder: Path, how: How) -> Reading:
    """The runs a command left in its folder. Raises InputError when it left none."""
    if not any(folder.iterdir()):
        raise InputError(
            "the command left no result", str(folder), "let it write to {out}, or into the folder {dir}"
        )
    file = folder / "result.json"
    names = [str(file)] if file.is_file() else [str(folder)]
    if how.tool and names == [str(folder)]:  # a forced reader skips nothing by its name
        names = [str(p) for p in sorted(folder.rglob("*")) if p.is_file() and not p.name.endswith(SIDECAR)]
    said = {"stated": how.stated, "gaps": how.gaps, "columns": how.columns, "ignore": how.ignore}
    found = readers.read(names, tool=how.tool, **said)  # type: ignore[arg-type]
    unused = {readers.files.unused(pattern) for pattern in how.ignore}  # another run may have such a file
    return replace(found, notes=tuple(note for note in found.notes if note not in unused))


def write_sidecars(runs: Sequence[Run], facts: Mapping[str, Any]) -> list[Path]:
    """`<result>.slo.json` beside each file that gave a run; returns every path to be kept.

    What was stated of a run, by the caller or by the command's own sidecar, is in it: a later `check` needs
    no --set.
    """
    kept = []
    for name, run in {run.input: run for run in runs}.items():
        path = Path(name)
        beside = Path(f"{name}{SIDECAR}")
        stated = {fact: getattr(run, fact) for fact in STATED if fact in run.stated}
        record = {"schema_version": 1, "result": {"name": path.name, "sha256": run.sha256}, **stated, **facts}
        written = beside.with_name(f".{beside.name}.part")
        written.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
        os.replace(written, beside)  # noqa: PTH105 - whole or not at all
        kept += [path, beside] if path.is_file() else [beside]
    return kept


def attempted(runs: Sequence[Run]) -> int:
    """Requests the budget counts."""
    return sum(run.counts.attempted for run in runs)


def sent(runs: Sequence[Run]) -> int:
    """Every request of the files, judged or not."""
    return sum(run.counts.attempted + run.counts.cancelled + run.counts.warmup for run in runs)


def completed(runs: Sequence[Run]) -> int:
    """Requests that got their whole answer."""
    return sum(run.counts.completed for run in runs)


def notes(reading: Reading, folder: Path) -> list[str]:
    """What reading the folder of a run gave to say, in words that other runs share; its sidecars are ours."""
    said = [note.replace(f"{folder}/", "").replace(f"{folder}: ", "") for note in reading.notes]
    return [note for note in said if "skipped" not in note or SIDECAR not in note]


def shared(texts: Sequence[str]) -> list[str]:
    """Each note once, with how many runs say it."""
    number = Counter(texts)
    return [note + (f" ({n} runs)" if n > 1 else "") for note, n in number.items()]


def why(error: GateError) -> str:
    """An error as one sentence for the journal."""
    return f"{error.message.splitlines()[0]} ({error.where})" if error.where else error.message
