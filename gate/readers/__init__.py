"""Files in, Runs out. One package a tool; exactly one reader claims a file.

All of them are asked at every start, so `__init__` of a reader says who it is and which files are its
own; what reads them is imported when it is called. docs/adding-a-reader.md shows how one is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from importlib import import_module
from typing import Any, Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from .. import disk
from ..errors import InputError, UsageError
from ..model import Run
from . import facts, files, generic, kinds, ours, sidecar, twins
from .source import Source
from .stored import KEPT, Shelf


class Reader(Protocol):
    """A reader's card, asked at every start.

    Beside these it has a formats.yaml (formats.py), its tool's other files in side_files.json, and `KINDS`
    (kinds.py), from which follows which files it knows and which of them belong together; or, where that is
    not enough, `sniff(source) -> bool` and `companions(sources) -> Mapping[Source, str]` instead. Its module
    `run` has `decode(source)`, which gives a Told or several, or `decode_set(sources)`: pairs of a source and
    its Told, for files that are runs only together. They raise InputError for a file that is broken, holds
    no run or cannot be true.
    """

    __name__: str
    NAME: str  # what --tool takes
    TITLE: str  # the tool's own name, for people


_PACKAGES = (
    *("aiperf", "evalscope", "genai_bench", "genai_perf", "generic"),
    *("guidellm", "inference_benchmarker", "inference_perf", "inferencex", "llmd"),
    *("llm_load_test", "llmeter", "llmperf", "lmbenchmark", "mlperf"),
    *("mlperf_endpoints", "prometheus", "sglang", "trtllm", "vllm"),
)
READERS: tuple[Reader, ...] = tuple(cast("Reader", import_module(f".{name}", __name__)) for name in _PACKAGES)
FALLBACK: Reader = generic  # asked last: it claims what no other reader does


# Called with the bytes of all files before the first is read; what it gives back is called with the
# bytes that were read since it was last called.
Watch = Callable[[int], Callable[[int], None]]


class Look(Struct, frozen=True, eq=False):
    """What was found out of one file by itself, before its turn among the others."""

    reader: str = ""  # NAME of the one that claims it
    written: str = ""  # instead: what of slo-gate's own it is
    runs: tuple[Run, ...] | None = None  # None: not read yet, or it could not be, which is said at its turn

    def with_runs(self, runs: tuple[Run, ...] | None) -> Look:
        """The same, and what was read."""
        return replace(self, runs=runs)


# Files -> what is found out of them elsewhere, e.g. in other processes; of those left out nothing is.
Elsewhere = Callable[[Sequence[Source], "str | None"], Mapping[Source, Look]]


class Reading(Struct, frozen=True):
    """The runs of a set of files, and what was done with the files that gave none."""

    runs: tuple[Run, ...]
    notes: tuple[str, ...]


def read(
    names: Iterable[str],
    *,
    tool: str | None = None,
    stated: Iterable[str] = (),
    gaps: bool = False,
    gaps_up_to: int = 0,
    attempted: str | None = None,
    columns: Iterable[str] = (),
    watch: Watch | None = None,
    ignore: Iterable[str] = (),
    elsewhere: Elsewhere | None = None,
) -> Reading:
    """Read files, folders, globs and `-` as one set.

    `tool` forces a reader by name, `stated` holds key=value facts, `gaps` asks for ITL, `gaps_up_to` does
    so where all files together have no more bytes, `attempted` names the gateway's counter where files are
    scraped metrics, `columns` holds ours=theirs names of home-made rows, `watch` is told how far reading
    is, `ignore` holds patterns of files to leave out, `elsewhere` looks at files before their turn. Raises
    InputError for what is missing, unreadable, unknown or contradictory, UsageError for an unknown tool or
    key.
    """
    caller = facts.parse(stated)
    forced = by_name(tool) if tool else None
    sources, notes = files.find(names, gaps=gaps, attempted=attempted, ignore=ignore)
    _prepare(sources, gaps_up_to, watch)
    mapped = _map_columns(sources, tuple(columns))
    looks = dict(elsewhere(sources, tool)) if elsewhere else {}
    crowded = len(sources) > 1 and sum(source.size_on_disk for source in sources) > KEPT
    claimed: dict[str, list[tuple[Reader, Source]]] = {}
    seen: dict[int, list[Source]] = {}
    for source in sources:
        what = None if forced else files.side_file(source)
        if what:
            notes.append(_skipped(source, what))
        elif twin := _twin(source, seen.setdefault(source.length, [])):
            notes.append(f"{source.name}: skipped, the same content as {twin.name}")
        else:
            look = looks.get(source) or looked(source, forced, several=len(sources) > 1)
            if look.written:
                notes.append(_skipped(source, look.written))
            else:
                claimed.setdefault(look.reader, []).append((by_name(look.reader), source))
            if source not in looks and crowded:  # its content would be let go, and read again
                looks[source] = look.with_runs(ahead(source, look))
    if mapped and generic.NAME not in claimed:
        raise UsageError(
            "no file is read as home-made rows, whose columns alone can be mapped",
            "--map",
            f"leave it out, or read them so with --tool {generic.NAME}",
        )
    runs = twins.once((run for group in claimed.values() for run in _read_group(group, looks, notes)), notes)
    notes = list(_folded(notes, {source.name for source in sources}))
    for source in sources:
        source.shelf = None  # which knows the source: neither would ever be free
    if not runs:
        named = ", ".join(source.name for source in sources[:5]) or "nothing"
        why = "".join(f"\n{note}" for note in notes[:5])
        hint = "pass the tool's result file, or force it with --tool NAME"
        raise InputError(f"no result among the files{why}", named, hint)
    return Reading(tuple(sidecar.apply(facts.apply(run, caller)) for run in runs), tuple(notes))


def looked(source: Source, forced: Reader | None, *, several: bool) -> Look:
    """Which reader a file is of, unless slo-gate wrote it itself; one of `several`. Raises InputError."""
    if forced:
        return Look(forced.NAME)
    try:
        source.refuse_early()
        written = ours.kind(source)
        return Look(written=written) if written else Look(claim(source).NAME)
    except MemoryError:
        pass
    except InputError as error:
        if several:
            way = f"pass the results instead of the folder, or {files.leave_out(source.name)}"
            error.hint = f"{error.hint}; if it is no result, {way}" if error.hint else way
        raise
    raise source.too_large()


def ahead(source: Source, look: Look) -> tuple[Run, ...] | None:
    """The runs of a file while its content is at hand; None where that is for its turn to say.

    Another file may cover it, and then nobody asks: neither for its faults, nor for a text that takes long.
    """
    reader = by_name(look.reader) if look.reader else None
    yaml = source.shape == "text" and source.yaml_keys
    if reader is None or yaml or _has(reader, "decode_set") is not None:
        return None
    try:
        return tuple(runs_of(reader, source))
    except Exception:
        return None


def _skipped(source: Source, what: str) -> str:
    disk.let_go(source.path or "")
    return f"{source.name}: skipped, {what}, not a result"


def _folded(notes: Iterable[str], names: Set[str]) -> Iterator[str]:
    """The notes, those that say the same of many files as one line; `names` are those of all files."""
    alike: dict[str, list[tuple[str, str]]] = {}  # what is said, whatever other file it names -> (file, note)
    for note in notes:
        name, _, said = note.partition(": ")
        parts = ((word.rstrip(","), word) for word in said.split(" "))
        words = (word.replace(bare, "another file") if bare in names else word for bare, word in parts)
        alike.setdefault(" ".join(words) if name in names else note, []).append((name, note))
    for said, lines in alike.items():
        where = list(dict.fromkeys(name for name, _ in lines))
        if len(where) > files.SHOWN:
            yield f"{len(where)} files, each: {said}: {files.some(where)}"
        else:
            yield from (note for _, note in lines)


def _prepare(sources: Sequence[Source], gaps_up_to: int, watch: Watch | None) -> None:
    total = sum(source.size for source in sources) if gaps_up_to or watch else 0
    advance = watch(total) if watch else None
    shelf = Shelf()
    for source in sources:
        source.gaps = source.gaps or total <= gaps_up_to > 0
        source.advance = advance
        source.shelf = shelf


def _map_columns(sources: Sequence[Source], items: Sequence[str]) -> bool:
    """Tell each file how its columns are called, by its sidecar and the caller; whether the caller did."""
    for source in sources:
        beside = [f"{ours}={theirs}" for ours, theirs in sidecar.columns(source.path).items()]
        if beside or items:
            from .generic.cells import KNOWN  # costs start-up time

            source.columns = facts.columns(beside, KNOWN) | facts.columns(items, KNOWN)
    return bool(items)


def _twin(source: Source, same_size: list[Source]) -> Source | None:
    # Compared unpacked: a .gz is no second measurement. Only between contents of one size: a lone file
    # need not wait for its hash.
    for other in same_size:
        if other.content_sha256 == source.content_sha256:
            return other
    same_size.append(source)
    return None


def _read_group(
    group: Sequence[tuple[Reader, Source]], looks: dict[Source, Look], notes: list[str]
) -> Iterable[Run]:
    reader = group[0][0]
    covered = companions(reader, [source for _, source in group])
    notes += [f"{source.name}: not counted, {covered[source]}" for _, source in group if source in covered]
    left = [source for _, source in group if source not in covered]
    if _has(reader, "decode_set"):
        yield from runs_of_set(reader, left)
        left = []
    for source in left:
        for run in looks.pop(source, Look()).runs or runs_of(reader, source):
            yield replace(run, content_sha256=source.content_sha256)
        source.progressed()
    for _, source in group:
        source.progressed()


def _has(reader: Reader, name: str) -> Any:
    """What a reader has under this name, on its card or in its module `run`; None where it has it not."""
    found = getattr(reader, name, None)
    return found if found is not None else getattr(_run_module(reader), name, None)


def _run_module(reader: Reader) -> object:
    try:
        return import_module(f"{reader.__name__}.run")  # what decodes is imported where a file is read
    except ModuleNotFoundError:
        return None


def knows(reader: Reader, source: Source) -> bool:
    """Whether the file is this reader's, by its content. Raises InputError only if it cannot be read."""
    own: Callable[[Source], bool] | None = getattr(reader, "sniff", None)
    return own(source) if own else kinds.kind_of(source, reader.KINDS) is not None  # type: ignore[attr-defined]


def companions(reader: Reader, sources: Sequence[Source]) -> Mapping[Source, str]:
    """Of the files that this reader claimed, those that another one already covers, and why."""
    if own := _has(reader, "companions"):
        covered: Mapping[Source, str] = own(sources)
        return covered
    listed: Sequence[kinds.Kind] | None = getattr(reader, "KINDS", None)
    if listed is None:
        return {}
    same = _has(reader, "same")
    return kinds.companions(sources, listed, same) if same else kinds.companions(sources, listed)


def runs_of(reader: Reader, source: Source) -> Sequence[Run]:
    """The runs of one file. Raises InputError when it holds none or contradicts itself."""
    if (decode := _has(reader, "decode")) is None:
        return runs_of_set(reader, [source])
    from .settle import refuse_repetitions, settle_all  # as above: costs start-up time
    from .told import Told

    try:
        refuse_repetitions(source, source.keys | source.yaml_keys)
        told = decode(source)
        every = (told,) if isinstance(told, Told) else tuple(told)
        source.unmap()
        return settle_all(source, reader, every)
    except MemoryError:
        pass  # what its frames hold is free only behind this
    raise source.too_large()


def runs_of_set(reader: Reader, sources: Sequence[Source]) -> Sequence[Run]:
    """The runs of several files together. Raises InputError like `runs_of`."""
    from .settle import settle  # as above

    try:
        return [settle(source, reader, told) for source, told in _has(reader, "decode_set")(sources)]
    except MemoryError:
        pass
    raise max(sources, key=lambda source: source.size).too_large()


def claim(source: Source) -> Reader:
    """The one reader that knows the file. Raises InputError when none or several do."""
    claims = [reader for reader in READERS if reader is not FALLBACK and knows(reader, source)]
    if not claims and knows(FALLBACK, source):
        return FALLBACK
    if len(claims) == 1:
        return claims[0]
    if claims:
        names = ", ".join(reader.NAME for reader in claims)
        raise source.fail(f"several readers claim this file: {names}", hint="choose one with --tool NAME")
    if fault := source.fault():
        raise fault
    if near := generic.near_columns(source):
        raise near
    raise source.fail(_UNKNOWN[source.shape], hint=_CANDIDATES)


_UNKNOWN = {
    "empty": "the file is empty",
    "object": "is JSON, but no reader knows it",
    "objects": "is JSON lines, but no reader knows them",
    "array": "is a JSON array, but no reader knows it",
    "binary": "is a binary file that no reader knows",
    "parquet": "is a Parquet table without a column ttft_s or e2e_s",
    "arrow": "is an Arrow table without a column ttft_s or e2e_s",
    "text": "is text that no reader knows (a console log is not a result file)",
}
_CANDIDATES = (
    "pass the file the tool saved (`slo-gate tools` lists them), force a reader with --tool NAME, "
    "or write the generic format (`slo-gate tools generic`)"
)


def by_name(name: str, where: str = "--tool") -> Reader:
    """The reader of that name. Raises UsageError, with the near match, when there is none."""
    for reader in READERS:
        if name == reader.NAME:
            return reader
    names = [reader.NAME for reader in READERS]
    from difflib import get_close_matches  # only when something is wrong: costs start-up time

    near = get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]}?" if near else f"readers: {', '.join(names)}"
    raise UsageError(f'no reader is called "{name}"', where, hint)
