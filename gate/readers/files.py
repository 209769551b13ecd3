"""What the caller named -> the files to read: folders, globs, stdin, side files, what is left out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from .. import remote
from ..disk import is_file, is_folder, is_there, kind, shown
from ..errors import InputError, UsageError
from .source import Source
from .stored import PACKED, unpacked_name

RESULT_SUFFIXES = {
    ".json",
    ".jsonl",
    ".ndjson",
    ".csv",
    ".db",
    ".yaml",
    ".yml",
    ".txt",
    ".prom",
    ".sarif",
} | {*(".parquet", ".arrow", ".feather")}

STDIN = "stdin"  # how a source without a path is named
_PACKED = {".bz2", ".xz", ".zip", ".7z"}
_MAGIC = set("*?[")
SHOWN = 5  # files that a note names

PAGES = ("a page", "JUnit XML")  # by name only where they hold no JSON
# Reader -> names and patterns of files that lie beside its results, and what each is; "any tool" comes first.
SIDE_FILES: Mapping[str, Mapping[str, str]] = msgspec.json.decode(
    Path(__file__).with_name("side_files.json").read_bytes(), type=dict[str, dict[str, str]]
)
_PATTERNS = {pattern: what for patterns in SIDE_FILES.values() for pattern, what in patterns.items()}


class Ignored:
    """Patterns of files to leave out, and what each of them left out.

    A pattern is matched from the right, as `PurePath.match` does it: without a slash it is about the name
    of a file, or of a folder below the named one. Raises UsageError for a pattern that is none.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self.left_out: dict[str, dict[str, None]] = {pattern: {} for pattern in patterns}  # names, each once
        for pattern in self.left_out:
            if not Path(pattern).name:
                hint = "write the name of a file or a glob, like --ignore 'meta*.json'"
                raise UsageError(f'"{pattern}" is no pattern of file names', "--ignore", hint)

    def __call__(self, path: Path) -> bool:
        """Whether the file or folder is left out."""
        whole = Path(os.path.abspath(path)) if self.left_out else path  # noqa: PTH100 links stay as named
        for pattern, names in self.left_out.items():
            plain = pattern.replace("://", "/", 1)  # of a URL
            if path.match(plain) or whole.match(plain):
                names[f"{shown(path)}/" if is_folder(path) else shown(path)] = None
                return True
        return False

    def notes(self) -> list[str]:
        """What was left out, for the report."""
        said = []
        for pattern, names in self.left_out.items():
            folders = sum(name.endswith("/") for name in names)
            counts = {"file": len(names) - folders, "folder": folders}
            number = " and ".join(f"{n} {what}{'s' * (n > 1)}" for what, n in counts.items() if n)
            said.append(
                f"ignored by {pattern}: {number}, {some(sorted(names))}" if names else unused(pattern)
            )
        return said


def unused(pattern: str) -> str:
    """What is said of a pattern that leaves nothing out."""
    return f"ignored by {pattern}: nothing, no result has such a name"


def find(
    names: Iterable[str],
    *,
    gaps: bool = False,
    attempted: str | None = None,
    ignore: Iterable[str] = (),
) -> tuple[list[Source], list[str]]:
    """Every file the names stand for, in a stable order, and notes on what was left out.

    Raises InputError for a name that stands for nothing, UsageError for an empty name.
    """
    ignored, notes, sources = Ignored(ignore), list[str](), list[Source]()
    for name in names:
        if not name:
            raise UsageError("a name is empty", "", "name a file, a folder or a glob")
        if name == "-":
            sources.append(Source(None, STDIN, gaps=gaps, attempted_counter=attempted))
            continue
        path = Path(name)
        if remote.is_url(name):
            found = _elsewhere(name, ignored, notes)
        else:
            found = _found(name, ignored, notes) if _several(name) else [] if ignored(path) else [path]
        sources += [Source(file, shown(file), gaps=gaps, attempted_counter=attempted) for file in found]
    remote.fetch(source.path for source in sources if source.path and remote.url_of(source.path))
    notes[:0] = ignored.notes()
    if not sources and any(ignored.left_out.values()):
        raise InputError("every file is left out", f"--ignore {', '.join(ignored.left_out)}", "ignore fewer")
    return sources, notes


def candidates(names: Iterable[str]) -> Iterator[Path]:
    """Every file that `find` may give, or leave out, to look before anything is read.

    Raises nothing for what cannot be read: that is told later.
    """
    left_out = Ignored(())
    for name in filter(None, names):
        if remote.is_url(name):
            with suppress(OSError, UsageError):
                yield from (file for place in remote.find(name) for file in place.files)
            continue
        for place in _places(Path(name), left_out, _passed) if _several(name) else (Path(name),):
            if is_folder(place):
                files = _walk(place, left_out, _passed)
                yield from (file for file in files if _suffix(file) in RESULT_SUFFIXES)
            else:
                yield place


def leave_out(name: str) -> str:
    """How a file that a folder or glob holds is left out, as a part of a hint that works as printed."""
    import glob
    import shlex

    return f"leave it out with --ignore {shlex.quote(glob.escape(name))}"


def _several(name: str) -> bool:
    """Whether a name stands for what is found: a folder, or a pattern where no file is called so."""
    return is_folder(name) or bool(_MAGIC & set(name) and not is_there(name))


def _found(name: str, ignored: Ignored, notes: list[str]) -> list[Path]:
    found: list[Path] = []
    for place in _places(Path(name), ignored, _failed):
        files = sorted(_walk(place, ignored, _failed)) if is_folder(place) else []
        found += _results(files, str(place), ignored, notes) if is_folder(place) else [place]
    if not found and not is_folder(name):
        raise _no_match(name, ignored)
    return list(dict.fromkeys(found))


def _elsewhere(url: str, ignored: Ignored, notes: list[str]) -> list[Path]:
    """The same of a URL."""
    try:
        places = remote.find(url)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", url) from None
    found: list[Path] = []
    for place in places:
        files = [file for file in place.files if not _ignored_below(place, file, ignored)]
        found += _results(files, place.url, ignored, notes) if place.is_folder else files
    if not places:
        raise _no_match(url, ignored)
    return list(dict.fromkeys(found))


def _ignored_below(place: remote.Place, file: Path, ignored: Ignored) -> bool:
    """Whether a file, or a folder between it and its place, is left out."""
    depth = len(file.parts) - len(remote.mirrored(place.url).parts)
    return any(ignored(path) for path in (file, *list(file.parents)[: max(0, depth - 1)]))


def _no_match(name: str, ignored: Ignored) -> InputError:
    but = ", besides what is ignored" if any(ignored.left_out.values()) else ""
    return InputError(f"no file matches{but}", name, "check the pattern, or the step that writes the results")


def _results(files: Sequence[Path], name: str, ignored: Ignored, notes: list[str]) -> list[Path]:
    """Of all files of a folder those that may be results. Raises InputError for what must not vanish."""
    results = [file for file in files if _suffix(file) in RESULT_SUFFIXES]
    for file in files:  # a dangling link may have been a folder; a pipe among results must not vanish
        if not (is_file(file) if _suffix(file) in RESULT_SUFFIXES else is_there(file)):
            hint = f"fix it, or {leave_out(shown(file))}"
            raise InputError(f"is {kind(file)}, not a file", shown(file), hint)
        if file.suffix.lower() in _PACKED and _suffix(Path(file.stem)) in RESULT_SUFFIXES:
            hint = f"unpack it, pack it as .gz, or {leave_out(shown(file))}"
            raise InputError("is packed in a way that is not read", shown(file), hint)
    if not results:
        but = " besides what is ignored" if any(ignored.left_out.values()) else ""
        hint = "check the path, or the step that writes it"
        raise InputError(f"the folder holds no result file{but}", name, hint)
    if others := [file.name for file in files if _suffix(file) not in RESULT_SUFFIXES]:
        notes.append(f"{name}: skipped what cannot be a result: {some(others)}")
    return results


def some(names: list[str]) -> str:
    """The first of several names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


# ---- where to look --------------------------------------------------------------------------


Failed = Callable[[OSError], None]  # is told of a folder that cannot be read


def _failed(error: OSError) -> None:
    hint = f"make it readable, or {leave_out(str(error.filename))}"
    raise InputError(f"the folder cannot be read: {error.strerror}", str(error.filename), hint) from None


def _passed(error: OSError) -> None:
    """Go on: it is told elsewhere."""


def _places(path: Path, ignored: Ignored, failed: Failed) -> Iterator[Path]:
    """The folder itself, or what a pattern matches, in order: as glob has it, but no folder is lost."""
    if is_folder(path):
        yield path
        return
    first = next(at for at, part in enumerate(path.parts) if _MAGIC & set(part))
    places = _matches_of(Path(*path.parts[:first]), path.parts[first:], ignored, failed)
    yield from sorted(dict.fromkeys(places))


def _matches_of(folder: Path, parts: Sequence[str], ignored: Ignored, failed: Failed) -> Iterator[Path]:
    """What the parts of a pattern match below a folder; like a shell's, a star matches no hidden name."""
    if not parts:
        yield folder
        return
    part, rest = parts[0], parts[1:]
    if part == "**":
        for root, folders, names in _walked(folder, ignored, failed):
            folders[:] = [name for name in folders if not name.startswith(".")]
            if rest:
                yield from _matches_of(root, rest, ignored, failed)
            else:
                yield from (root / name for name in names if not name.startswith("."))
        return
    try:
        if _MAGIC & set(part):
            names = [one.name for one in folder.iterdir()]
        else:
            names = [part] if (folder / part).stat() else []
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        failed(error)
        return
    from fnmatch import fnmatchcase

    for name in names:
        plain = name == part or (fnmatchcase(name, part) and (part[0] == "." or name[0] != "."))
        if plain and not ignored(folder / name):
            yield from _matches_of(folder / name, rest, ignored, failed)


def _walk(folder: Path, ignored: Ignored, failed: Failed) -> Iterator[Path]:
    """Every file below a folder that is not left out."""
    for root, _, names in _walked(folder, ignored, failed):
        yield from (root / name for name in names)


def _walked(folder: Path, ignored: Ignored, failed: Failed) -> Iterator[tuple[Path, list[str], list[str]]]:
    """What os.walk gives, also behind links to folders, each folder once and without what is left out."""
    seen = set()
    for root, folders, names in os.walk(folder, onerror=failed, followlinks=True):
        real = os.path.realpath(root)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in sorted(folders) if not ignored(Path(root, name))]
        yield Path(root), folders, [name for name in names if not ignored(Path(root, name))]


def _suffix(file: Path) -> str:
    """The ending that tells what a file is, in small letters."""
    return (Path(file.stem).suffix if file.suffix.lower() in PACKED else file.suffix).lower()


def side_file(source: Source, patterns: Mapping[str, str] = _PATTERNS) -> str | None:
    """What the file is, when its name says that it is no result."""
    if source.path is None:
        return None
    name = unpacked_name(source.path.name)
    for pattern, what in patterns.items():
        if name == pattern or (_MAGIC & set(pattern) and _matches(name, pattern)):
            return None if what in PAGES and source.shape in ("object", "objects", "array") else what
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
