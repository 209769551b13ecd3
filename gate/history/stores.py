"""Where history is kept: one file a line, never changed once it is there.

A file of its own for each line is what every back end can do without a lock: a folder, a branch of git and
an object store alike. Two writers never write one file, and a writer that dies leaves no half of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

from msgspec import Struct

from .. import remote
from ..errors import InputError, UsageError
from ..model import Acceptance, HistoryLine, SessionRecord
from .folder import Folder
from .lines import NAME, decode, encode, name_of
from .records import Measured, why_left_out

AGAIN = "holds a run of the session of"
_SECOND = len("20270112T080000Z")
_AT_ONCE = 64  # files that are asked for together
_NAMED = 5  # files that a note names


class Store(Protocol):
    """Lines by name. Raises InputError where it cannot be reached, read or written."""

    name: str  # as the caller wrote it

    def names(self) -> list[str]:
        """The names of all files in it; none where the store is not there yet."""

    def read(self, names: Sequence[str]) -> Iterable[tuple[str, bytes | str]]:
        """The bytes of each file, or why it cannot be read; in any order."""

    def write(self, lines: Mapping[str, bytes]) -> None:
        """Keep these lines by these names. One that is there already stays as it is."""

    def remove(self, names: Iterable[str]) -> None:
        """Forget these files."""


class History(Struct, frozen=True, dict=True):  # dict: accepted is made once
    """What a store holds, by time."""

    records: tuple[SessionRecord, ...]
    acceptances: tuple[Acceptance, ...]
    notes: tuple[str, ...]  # what was not read and why, for people
    twice: tuple[SessionRecord, ...] = ()  # other records of the same reports

    @cached_property
    def accepted(self) -> frozenset[str]:
        """Ids of the records that somebody accepted."""
        return frozenset(id_ for one in self.acceptances for id_ in one.sessions)

    @cached_property
    def again(self) -> Mapping[str, str]:
        """Records, by id, of what a newer session measured, and the commit of that session."""
        measured = Measured()
        found = {record.id: measured.again(record) for record in reversed(self.records)}
        return {id_: commit for id_, commit in found.items() if commit}

    def why_left_out(self, record: SessionRecord) -> str:
        """Why a session is left out of a baseline; empty where it is in it."""
        commit = self.again.get(record.id)
        return why_left_out(record, self.accepted) or (f"{AGAIN} {commit}" if commit else "")


def open_store(name: str) -> Store:
    """The store of that name: a folder, `git:BRANCH`, or a URL that fsspec knows. Raises UsageError."""
    if name.startswith("git:"):
        from .git import Branch

        return Branch(name)
    plain = remote.shown(name)
    if not remote.is_url(plain):
        return Folder(plain)
    if plain.startswith(("http://", "https://")):
        hint = f"a repository is named as git:{plain}#BRANCH"
        raise UsageError("a web server cannot list its files, so it holds no history", plain, hint)
    from .remote import Objects

    return Objects(name)


def load(store: Store) -> History:
    """All that is in the store. Raises InputError where it cannot be read."""
    reading = Reading(store)
    lines = sorted(reading.lines(reading.names), key=lambda line: (line.time, line.id))
    records, twice = _once(line for line in lines if isinstance(line, SessionRecord))
    notes = list(reading.notes)
    if twice:
        number = "1 record is of a report" if len(twice) == 1 else f"{len(twice)} records are of reports"
        notes.append(f"{number} that another record has; each counts once")
    acceptances = tuple(line for line in lines if isinstance(line, Acceptance))
    return History(records, acceptances, tuple(notes), twice)


class Reading:
    """A store as it is read, newest first and no more of it than is asked for: it may be far away.

    Raises InputError where it cannot be read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        names = sorted(store.names(), reverse=True)
        self.names = [name for name in names if NAME.fullmatch(name)]
        self._strange = [name for name in names if not NAME.fullmatch(name)]
        self._damaged: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        """What was not read so far and why, for people."""
        return (*_some(sorted(self._damaged), "damaged files"), *_not_ours(self._strange[::-1]))

    def lines(self, names: Sequence[str]) -> Iterator[HistoryLine]:
        """The lines that these files hold, in any order; those that are damaged are noted."""
        for name, data in self._store.read(names):
            try:
                if isinstance(data, str):
                    raise ValueError(data)
                line = decode(data)
                if name_of(line) != name:
                    raise ValueError("its name is not that of what it says")
                yield line
            except ValueError as error:
                self._damaged.append(f"{name} is damaged and left out: {error}")

    def __iter__(self) -> Iterator[tuple[SessionRecord, str]]:
        """Each session, newest first, and why it is left out of a baseline.

        What accepts a session is newer than its record, or it is not seen here and the session left out.
        """
        accepted: frozenset[str] = frozenset()
        seen: set[tuple[str, ...]] = set()
        measured = Measured()
        end = 0
        while end < len(self.names):
            at, end = end, end + _AT_ONCE
            while end < len(self.names) and self.names[end][:_SECOND] == self.names[end - 1][:_SECOND]:
                end += 1  # what accepts a session may be of the same second
            lines = list(self.lines(self.names[at:end]))
            accepted |= {id_ for line in lines if isinstance(line, Acceptance) for id_ in line.sessions}
            records = (line for line in lines if isinstance(line, SessionRecord))
            for record in sorted(records, key=lambda record: (record.time, record.id), reverse=True):
                if (key := _key(record)) not in seen:
                    seen.add(key)
                    commit = measured.again(record)
                    yield record, why_left_out(record, accepted) or (f"{AGAIN} {commit}" if commit else "")


def _key(record: SessionRecord) -> tuple[str, str, str]:
    return record.report_sha256, record.commit, record.branch


def _once(records: Iterable[SessionRecord]) -> tuple[tuple[SessionRecord, ...], tuple[SessionRecord, ...]]:
    """Records by time, of each report, commit and branch the newest; and the others."""
    every = list(records)
    newest = {_key(record): record for record in every}
    kept = [record for record in every if newest[_key(record)] is record]
    return tuple(kept), tuple(record for record in every if newest[_key(record)] is not record)


def _some(sentences: Sequence[str], what: str) -> Iterator[str]:
    yield from sentences[:_NAMED]
    if len(sentences) > _NAMED:
        yield f"and {len(sentences) - _NAMED} more {what}"


def _not_ours(names: Sequence[str]) -> Iterator[str]:
    if names:
        shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        number = "1 file is" if len(names) == 1 else f"{len(names)} files are"
        yield f"{number} no history and not read: {shown}"


def add(store: Store, lines: Iterable[HistoryLine]) -> tuple[int, int]:
    """Keep lines that are not there yet; how many were new, and how many were there.

    Raises InputError, before anything is written, for a record that says something else of a report than
    the one that is there, or has a tag more.
    """
    held = {_key(one): one for one in load(store).records}
    new: dict[str, bytes] = {}
    there = 0
    for line in lines:
        if isinstance(line, SessionRecord):
            key = _key(line)
            if known := held.get(key):
                _same_facts(line, known, store)
                there += 1
                continue
            held[key] = line
        data = encode(line)
        new[name_of(decode(data))] = data
    store.write(new)
    return len(new), there


def _same_facts(record: SessionRecord, known: SessionRecord, store: Store) -> None:
    if new := sorted({*record.tags} - {*known.tags}):
        why = f"is there already without the tag {', '.join(new)}, and no record is changed"
        raise InputError(
            why, f"{store.name}/{known.id[:12]}", "leave out --tag; a tag is given when a report is added"
        )
    facts = ("verdict", "exit_code", "policy", "objectives", "runs")
    if other := [name for name in facts if getattr(record, name) != getattr(known, name)]:
        raise InputError(
            f"says something else of report {record.report_sha256[:12]} than the report: {', '.join(other)}",
            f"{store.name}/{known.id[:12]}",
            "look who wrote that record, and take its file away",
        )
