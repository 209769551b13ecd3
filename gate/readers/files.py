"""What the caller named -> the files to read: folders, globs, stdin, side files, twins."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ..errors import InputError
from .source import Source

RESULT_SUFFIXES = {".json", ".jsonl", ".ndjson", ".csv", ".db", ".yaml", ".yml", ".txt", ".prom"}

STDIN = "stdin"  # how a source without a path is named
_PACKED = {".zst", ".bz2", ".xz", ".zip", ".7z"}
_MAGIC = set("*?[")

# Files that lie beside results whatever the tool. Readers add their own tool's.
SIDE_FILES: Mapping[str, str] = {
    "slo.yaml": "a policy",
    ".slo-gate.yaml": "a policy",
    "*.slo.json": "a sidecar of slo-gate run",
    "command.txt": "a recorded command",
    "ORIGIN.md": "a note",
    "requirements*.txt": "a list of packages",
}


def find(
    names: Iterable[str], *, gaps: bool = False, attempted: str | None = None
) -> tuple[list[Source], list[str]]:
    """Every file the names stand for, in a stable order, and notes on what a folder held besides.

    Raises InputError for a name that stands for nothing.
    """
    sources: list[Source] = []
    notes: list[str] = []
    for name in names:
        if name == "-":
            sources.append(Source(None, STDIN, gaps=gaps, attempted_counter=attempted))
            continue
        path = Path(name)
        if path.is_dir():
            found, skipped = _folder(path)
            notes += skipped
        elif _MAGIC & set(name) and not path.exists():
            import glob

            found = []
            for match in sorted(map(Path, glob.glob(name, recursive=True))):  # noqa: PTH207 absolute patterns
                inside, skipped = _folder(match) if match.is_dir() else ([match], [])
                found += inside
                notes += skipped
            if not found:
                raise InputError(
                    "no file matches", name, "check the pattern, or the step that writes the results"
                )
        else:
            found = [path]
        sources += [Source(file, str(file), gaps=gaps, attempted_counter=attempted) for file in found]
    return sources, notes


def _folder(path: Path) -> tuple[list[Path], list[str]]:
    files = sorted(_walk(path))
    results = [file for file in files if _suffix(file) in RESULT_SUFFIXES]
    for file in results:  # a dangling link or a pipe among results must not vanish
        if not file.is_file():
            raise InputError("is no file that can be read", str(file), "mend the link, or remove it")
    for file in files:
        if file.suffix.lower() in _PACKED and _suffix(Path(file.stem)) in RESULT_SUFFIXES:
            raise InputError("is packed in a way that is not read", str(file), "unpack it, or pack it as .gz")
    if not results:
        raise InputError(
            "the folder holds no result file", str(path), "check the path, or the step that writes it"
        )
    others = [file.name for file in files if _suffix(file) not in RESULT_SUFFIXES]
    if not others:
        return results, []
    shown = ", ".join(others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
    return results, [f"{path}: skipped what cannot be a result: {shown}"]


def _walk(folder: Path) -> Iterator[Path]:
    """Every file below a folder, also behind links to folders, each folder once."""
    seen = set()
    for root, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(root)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        yield from (Path(root, name) for name in names)


def _suffix(file: Path) -> str:
    """The ending that tells what a file is, in small letters."""
    return (Path(file.stem).suffix if file.suffix.lower() == ".gz" else file.suffix).lower()


def side_file(source: Source, patterns: Mapping[str, str]) -> str | None:
    """What the file is, when its name says that it is no result."""
    if source.path is None:
        return None
    name = source.path.name.removesuffix(".gz")
    for pattern, what in {**SIDE_FILES, **patterns}.items():
        if name == pattern or (_MAGIC & set(pattern) and _matches(name, pattern)):
            return what
    return None


def _matches(name: str, pattern: str) -> bool:
    # fnmatch compiles an expression for each pattern it is given: first what lies outside the stars.
    plain = not _MAGIC & set(pattern.replace("*", ""))
    if plain and not (
        name.startswith(pattern.partition("*")[0]) and name.endswith(pattern.rpartition("*")[2])
    ):
        return False
    from fnmatch import fnmatchcase

    return fnmatchcase(name, pattern)
