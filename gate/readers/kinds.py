"""Which of a tool's files a file is, which files belong to one run, and which of those is read.

A reader lists its kinds, the richest first. Everything here follows from that list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from ..errors import InputError
from .source import Source
from .stored import PACKED, unpacked_name

_MOST = 1000  # files of one run


class Kind(Struct, frozen=True):
    """One kind of file a tool writes: known by its keys, its header, or how it begins where it is no JSON."""

    name: str  # as the tool ends the file's name, # for a number: what stands before it is the run's own
    keys: frozenset[str] = frozenset()  # all of these at the top level of (the first of) its objects
    any_of: frozenset[str] = frozenset()  # and one of these at least
    without: frozenset[str] = frozenset()  # and none of these
    # and one of these keys at least under this one, in its object or the first of its list
    within: tuple[str, frozenset[str]] | None = None
    header: frozenset[str] = frozenset()  # cells of a CSV's first line, then `any_of` are others of it
    # A pattern of how a text or binary file begins, or what is cut short; any file's where no keys are named.
    begins: str = ""
    array: bool = False  # keys are those of the first element of a list
    no_result: str = ""  # what it holds, where that is no result: "is the configuration of an AIPerf run"


def kind_of(source: Source, kinds: Sequence[Kind]) -> Kind | None:
    """The kind of a file; None for another tool's. Looked for once: the content may be let go meanwhile."""
    known, listed = source.places, tuple(kinds)
    if listed not in known:
        known[listed] = next((at for at, kind in enumerate(listed) if _fits(source, kind)), None)
    at = known[listed]
    return None if at is None else listed[at]


def _fits(source: Source, kind: Kind) -> bool:
    shape = source.shape
    if shape in ("broken", "text", "binary") or not (kind.keys or kind.any_of or kind.header):
        if kind.header and shape == "text":
            header = set(source.header)
            return kind.header <= header and (not kind.any_of or not kind.any_of.isdisjoint(header))
        if not kind.begins:
            return False
        import re  # only here: this module is part of every start

        return re.match(kind.begins, source.head, re.DOTALL) is not None
    if kind.header or (shape == "array") is not kind.array or shape not in ("object", "objects", "array"):
        return False
    keys = source.keys
    if not keys >= kind.keys or keys & kind.without:
        return False
    if kind.any_of and not keys & kind.any_of:
        return False
    return kind.within is None or not kind.within[1].isdisjoint(source.doc.inner(kind.within[0]))


def place(source: Source, kinds: Sequence[Kind]) -> tuple[str, str] | str:
    """Folder and prefix that the files of one run share; the whole path where its name is of no kind."""
    if source.path is None:
        return source.name
    name = unpacked_name(source.path.name)
    prefixes = [before for kind in kinds if (before := _before(name, kind.name)) is not None]
    before = min(prefixes, key=len, default=None)  # by the longest ending
    return str(source.path) if before is None else (str(source.path.parent), before)


def _before(name: str, usual: str) -> str | None:
    """What stands before a kind's usual name; None where the name does not end so."""
    if "*" in usual:  # "detail*.txt": what stands before and behind "detail"
        start, end = usual.split("*")
        at = name.rfind(start)
        return f"{name[:at]}*{name[at + len(start) : -len(end)]}" if at >= 0 and name.endswith(end) else None
    start, number, end = usual.partition("#")
    if not usual or not name.endswith(end if number else start):
        return None
    if not number:
        return name.removesuffix(start)
    rest = name.removesuffix(end)
    head = rest.rstrip("0123456789")
    return head.removesuffix(start) if head != rest and head.endswith(start) else None


def beside(source: Source, kinds: Sequence[Kind], name: str) -> Source | None:
    """The run's file of the kind called `name`, compressed or not."""
    where = place(source, kinds)
    if isinstance(where, str):
        return None
    before, _, after = where[1].partition("*")
    name = before + name.replace("*", after)
    return source.beside(name) or next(filter(None, (source.beside(name + end) for end in PACKED)), None)


def numbered(source: Source, kinds: Sequence[Kind], *usual: Kind) -> list[Source]:
    """The run's files of the `usual` kinds, whose names hold a number: from 0 to the first missing."""
    files: list[Source] = []
    while len(files) < _MOST:
        names = (kind.name.replace("#", str(len(files))) for kind in usual)
        file = next((file for name in names if (file := beside(source, kinds, name))), None)
        if file is None:
            break
        files.append(file)
    return files


def companions(
    sources: Sequence[Source],
    kinds: Sequence[Kind],
    same: Callable[[Source, Source], bool] = lambda *_: False,
) -> Mapping[Source, str]:
    """All but the richest file of each run, and files without a result, each with why it is not read.

    `same` says whether two files of other names are one run's, by their content.
    """
    known = {source: kind for source in sources if (kind := kind_of(source, kinds))}
    places = {source: place(source, kinds) for source in known}
    results = [source for kind in kinds for source in known if known[source] is kind and not kind.no_result]
    taken: dict[Source, str] = {}
    for number, source in enumerate(results):
        for richer in results[:number]:
            if known[richer] is known[source] or richer in taken:
                continue
            if places[source] == places[richer] or same(richer, source):
                taken[source] = f"its requests are in {richer.name}, which is read"
    return taken | {source: kind.no_result for source, kind in known.items() if kind.no_result and results}


def result(source: Source, kinds: Sequence[Kind], title: str, hint: str) -> Kind:
    """The kind of a file that holds a result. Raises InputError for any other, with what to pass instead."""
    kind = kind_of(source, kinds)
    if kind is None or kind.no_result:
        raise refuse(source, kind, title, hint)
    return kind


def refuse(source: Source, kind: Kind | None, title: str, hint: str) -> InputError:
    """Why a file that holds no result cannot be read."""
    if kind is not None and kind.no_result:
        return source.fail(kind.no_result, hint=hint)
    return source.fault() or source.fail(f"is not a result of {title}", hint=hint)
