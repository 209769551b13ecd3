"""Rows of a home-made harness (JSON lines, a JSON array, CSV) -> columns in base units."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter, methodcaller
from typing import Any

import msgspec
import numpy as np

from ...model import Floats
from .. import telltales
from ..source import BROKEN, COLUMNAR, Source
from . import columnar
from .cells import (
    FLAGS,
    GAP_COLUMNS,
    KNOWN,
    LATENCIES,
    NUMBERS,
    ROW_TEXTS,
    TEXTS,
    Batch,
    Number,
    Table,
    convert,
    merge,
)

_KEYS = 5_000  # more are no columns, and no object in a cell
_BATCH = 50_000  # CSV rows converted at a time
_HEAD_ROWS = 200

_MISSING = float("nan")  # this very one: the row does not have the key
_HOLD_KEYS = {dict, list, msgspec.Raw}
_Scalar = int | float | str | bool | None
_TYPES: dict[str, Any] = {
    **dict.fromkeys(NUMBERS, Number),
    **dict.fromkeys(FLAGS, bool | float | str | None),
    **dict.fromkeys((*TEXTS, *ROW_TEXTS), str | int | float | None),
    "error": Any,
}


def head_columns(source: Source) -> tuple[str, ...]:
    """Column names in the first rows, in order of appearance; empty when they are no rows.

    Those that the caller maps have our name.
    """
    if source.shape in COLUMNAR:
        ours = _ours(source)
        return tuple(ours.get(name, name) for name in columnar.names(source))
    if source.shape == "text":
        return _header(source)[0]
    return tuple(dict.fromkeys(key for row in _head_rows(source) for key in row))


def _ours(source: Source) -> dict[str, str]:
    """The file's name of a column -> ours."""
    return {theirs: ours for ours, theirs in source.columns.items()}


def has_latency(source: Source) -> bool:
    """Whether the first rows hold a latency as a number (not a block of statistics)."""
    if source.shape == "text" or source.shape in COLUMNAR:
        return not set(LATENCIES).isdisjoint(head_columns(source))
    names = [re.escape(source.columns.get(name, name)) for name in LATENCIES]
    if not re.search(rf'"(?:{"|".join(names)})"\s*:', source.head):
        return False  # before anything is decoded: other tools' arrays can be large
    return any(
        bytes(row[key])[:1] not in (b"{", b"[")
        for row in _head_rows(source)
        for key in LATENCIES
        if key in row
    )


def load(source: Source, *, gaps: bool) -> Table:
    """Every row. Raises InputError for a broken line, a text that is no number, a negative count.

    Converted batch by batch, so that memory is bounded by the columns.
    """
    if source.shape in COLUMNAR:
        batches = columnar.batches(source, gaps=gaps)
    else:
        batches = _csv(source) if source.shape == "text" else _json(source, gaps)
    return merge((convert(source, batch), batch.share) for batch in batches if batch.size)


# ---- where the rows are -------------------------------------------------------------------


def _head_rows(source: Source) -> list[dict[str, msgspec.Raw]]:
    rows: Iterable[bytes | str]
    if source.shape == "array":
        rows = map(bytes, source.elements(_HEAD_ROWS))
    elif by_line(source):
        rows = (line for line in source.head.splitlines() if line.strip())
    else:
        rows = (msgspec.json.encode(doc.fields) for doc in source.docs())
    found, ours = [], _ours(source)
    for row in islice(rows, _HEAD_ROWS):
        try:
            fields = msgspec.json.decode(row, type=dict[str, msgspec.Raw])
            found.append({ours.get(key, key): raw for key, raw in fields.items()})
        except msgspec.MsgspecError:  # the line the head cuts, or one that load() reports
            continue
    return found


def by_line(source: Source) -> bool:
    """JSON lines, as opposed to indented objects."""
    return source.shape in ("object", "objects") and source.head.lstrip().split("\n", 1)[0].rstrip().endswith(
        "}"
    )


def _json(source: Source, gaps: bool) -> Iterator[Batch]:
    schema, before = _Schema(source, gaps), 0
    if source.shape == "array":
        elements = source.array(msgspec.Raw)
        yield schema.batch(b"\n".join(_on_one_line(bytes(each)) for each in elements), "element")
    elif by_line(source):
        for at, chunk in source.chunks():
            batch = schema.batch(bytes(chunk), "line", at, before)
            yield batch
            before += batch.size
    else:
        # Indented objects: rare and small, so decoding them twice does not matter.
        objects = (msgspec.json.encode(doc.fields) for doc in source.docs())
        yield schema.batch(b"\n".join(map(_on_one_line, objects)), "object")


def _on_one_line(text: bytes) -> bytes:
    return msgspec.json.format(text, indent=-1)


class _Schema:
    """Which keys the rows have had so far, as a struct that refuses every other key.

    Rows with another key are looked at again, so that no telltale column escapes, wherever in the file it
    begins; what is no telltale costs next to nothing.
    """

    def __init__(self, source: Source, gaps: bool) -> None:
        self.source = source
        self.renamed = _ours(source)
        self.ours = _TYPES | dict.fromkeys(GAP_COLUMNS, list[float | None] | None if gaps else msgspec.Raw)
        self.seen: dict[str, Any] = {}  # key -> what it may hold
        self.decoder: msgspec.json.Decoder[Any] = self._struct()

    def _struct(self) -> msgspec.json.Decoder[Any]:
        names = {f"key_{number}": key for number, key in enumerate(self.seen)}
        fields = [
            (field, self.seen[key], _MISSING if self._is_number(key) else msgspec.UNSET)
            for field, key in names.items()
        ]
        kind = msgspec.defstruct("_Row", fields, rename=names, forbid_unknown_fields=True, gc=False)
        return msgspec.json.Decoder(kind)

    def _is_number(self, key: str) -> bool:
        return self.renamed.get(key, key) in NUMBERS

    def batch(self, chunk: bytes, place: str, at: int = 0, before: int = 0) -> Batch:
        """The rows of some lines, from byte `at` of the file, behind so many rows.

        Raises InputError for a line that is broken or repeats a key.
        """
        for most in (0, _HEAD_ROWS, len(chunk)):  # the first rows nearly always have the keys of all
            self._learn(chunk, most)
            try:
                rows = self.decoder.decode_lines(chunk)
                break
            except BROKEN:
                pass
        else:
            rows = self.source.one_by_one(self.decoder, at, chunk, place)
        return self._columns(rows, chunk, place, at, before)

    def _learn(self, chunk: bytes, most: int) -> None:
        """Add the keys of the first of these rows, each with what it may hold."""
        if not most:
            return
        for text in chunk.split(b"\n", most)[:most]:
            try:
                self.decoder.decode(text)
                continue  # nothing new in it
            except BROKEN:
                pass
            try:
                fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            except (*BROKEN, UnicodeDecodeError):  # reported with its line where it is read
                continue
            for key, raw in fields.items():
                name = self.renamed.get(key, key)
                kind = self.ours[name] if name in self.ours else _kind(key, raw)
                if self.seen.get(key, kind) is not kind:
                    kind = Any  # a scalar in one row, an object in another
                self.seen[key] = kind
        for theirs, name in self.renamed.items():
            if theirs in self.seen and name in self.seen:
                why = f'the file has "{name}" and "{theirs}", which is said to be {name}'
                raise self.source.fail(why, hint="keep one of them, or map another column")
        if len(self.seen) > _KEYS:
            raise self.source.fail(f"has more than {_KEYS:,} different keys", hint="write one row a request")
        self.decoder = self._struct()

    def _columns(self, rows: list[Any], chunk: bytes, place: str, at: int, before: int) -> Batch:
        cells: dict[str, list[Any]] = {}
        numbers: dict[str, Floats] = {}
        nested = []
        keys = 0  # in all rows
        for number, (named, kind) in enumerate(self.seen.items()):
            key = self.renamed.get(named, named)
            get = attrgetter(f"key_{number}")
            if key in NUMBERS:
                found, unset = _numbers(rows, get)
                keys += len(rows) - unset
                if unset == len(rows):
                    continue
                if isinstance(found, list):
                    cells[key] = found
                else:
                    numbers[key] = found
                continue
            column = list(map(get, rows))
            kinds = set(map(type, column))
            unset = column.count(msgspec.UNSET) if msgspec.UnsetType in kinds else 0
            keys += len(column) - unset
            if unset == len(column):
                continue
            if not kinds.isdisjoint(_HOLD_KEYS):
                try:
                    inside = sum(map(_keys_inside, column))
                except _Crowded:
                    why = f'"{named}" holds an object of more than {_KEYS:,} keys'
                    raise self.source.fail(why, hint="write one row a request") from None
                if (
                    inside and kind is msgspec.Raw and key not in self.ours
                ):  # a list that held no objects so far
                    self.seen[named] = Any
                    self.decoder = self._struct()
                    return self.batch(chunk, place, at, before)
                keys += inside
            other = key not in self.ours and not telltales.tells(key)
            if kind is not msgspec.Raw and (not other or kind is Any):
                cells[key] = [None if c is msgspec.UNSET else c for c in column] if unset else column
            if other and kind is Any:
                nested.append(key)
        where = _place(self.source, place, before)
        if _keys(chunk) != keys:
            self._refuse_doubled(chunk, where)
        share = (at + len(chunk)) / len(self.source.data) if place == "line" else 1.0
        return Batch(cells, len(rows), where, tuple(nested), numbers, share)

    def _refuse_doubled(self, chunk: bytes, where: Callable[[int], str]) -> None:
        """Of a key that stands twice, JSON keeps the last: an error could hide behind it."""
        import json  # only where the keys do not add up

        for row, line in enumerate(line for line in chunk.split(b"\n") if line.strip()):
            try:
                json.loads(line, object_pairs_hook=_once)
            except _Doubled as key:
                why = f'duplicate key "{key}" in one row: only one of the two can be meant'
                raise self.source.fail(why, where(row), "write each key once") from None
            except ValueError:
                pass


def _kind(key: str, raw: msgspec.Raw) -> Any:
    """What a column that is not ours may hold: decoded where it may tell of failures, else passed over."""
    if telltales.is_read(key):
        return Any
    first = bytes(memoryview(raw)[:1])
    if first not in (b"{", b"["):
        return _Scalar
    return Any if b"{" in bytes(raw) else msgspec.Raw


class _Doubled(Exception):  # noqa: N818 - says which key
    pass


class _Crowded(Exception):  # noqa: N818 - as above
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _Doubled(next(key for key in keys if keys.count(key) > 1))
    return found


def _keys(text: bytes) -> int:
    return text.count(b'":') - (text.count(b'\\":') if b"\\" in text else 0)


def _numbers(rows: list[Any], get: Callable[[Any], Any]) -> tuple[Floats | list[Any], int]:
    """A column of numbers, NaN where a row has none, and how many rows do not have the key.

    As cells where one is a text that is no number: where it stands is known further on.
    """
    try:
        column = np.fromiter(map(get, rows), np.float64, len(rows))
    except ValueError:
        cells = list(map(get, rows))
        unset = sum(cell is _MISSING for cell in cells)
        return [None if cell is _MISSING else cell for cell in cells], unset
    blank = np.flatnonzero(np.isnan(column)).tolist()
    return column, sum(get(rows[row]) is _MISSING for row in blank)


def _keys_inside(cell: object) -> int:
    """How many keys stand in a nested cell."""
    if isinstance(cell, msgspec.Raw):
        return _keys(bytes(cell))
    if isinstance(cell, dict):
        if len(cell) > _KEYS:
            raise _Crowded
        return len(cell) + sum(map(_keys_inside, cell.values()))
    return sum(map(_keys_inside, cell)) if isinstance(cell, list) else 0


def _place(source: Source, what: str, before: int) -> Callable[[int], str]:
    def at(row: int) -> str:
        number = before + row + 1
        if what == "line":  # blank lines count as lines, not as rows
            lines = enumerate(bytes(source.data).split(b"\n"), 1)
            number = next(islice((n for n, line in lines if line.strip()), before + row, None), number)
        return f"{what} {number}"

    return at


# ---- CSV ----------------------------------------------------------------------------------


def _header(source: Source) -> tuple[tuple[str, ...], str]:
    """Column names and the delimiter, the one that gives the most columns we know."""
    first = source.head.lstrip().split("\n", 1)[0].rstrip("\r")
    found, ours = [], _ours(source)
    for delimiter in ",;\t":
        try:
            cells = (name.strip() for name in next(csv.reader([first], delimiter=delimiter), []))
            names = tuple(ours.get(name, name) for name in cells)
        except csv.Error:
            continue
        found.append((len(set(KNOWN) & set(names)), len(names), names, delimiter))
    if not found:
        return (), ","
    _, _, names, delimiter = max(found)
    return names, delimiter


def _csv(source: Source) -> Iterator[Batch]:
    names, delimiter = _header(source)
    ours = {name for name in names if name in KNOWN or telltales.tells(name)}
    twice = sorted(name for name in ours if names.count(name) > 1)
    if twice:
        raise source.fail(f'the column "{twice[0]}" is there twice', "line 1", "keep one of them")
    data, at, line = source.data, _begin(source), 1
    end = data.find(b"\n", at) + 1 or len(data)
    if not _odd(bytes(data[at:end])):  # the header is a plain line too
        at = end
        for chunk in source.pieces(at):
            plain = _plain(bytes(chunk), delimiter, len(names))
            if plain is None:
                break
            at += len(chunk)
            yield _csv_batch(names, plain, range(line + 1, line + 1 + len(plain[0])), at / len(data))
            line += len(plain[0])
    yield from _quoted(source, names, delimiter, at, line)


def _begin(source: Source) -> int:
    """Where the header stands, below a byte-order mark and blank lines."""
    at = 3 if source.data[:3] == b"\xef\xbb\xbf" else 0
    while source.data[at : at + 1] in (b"\n", b"\r"):
        at += 1
    return at


def _odd(chunk: bytes) -> bool:
    """Whether some lines of CSV are more than cells between delimiters."""
    return b'"' in chunk or b"\0" in chunk or chunk.count(b"\r") != chunk.count(b"\r\n")


def _plain(chunk: bytes, delimiter: str, width: int) -> list[list[str]] | None:
    """The columns of whole lines without quotes; None where one needs a closer look."""
    lines = chunk.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n").split("\n")
    empty = delimiter * (width - 1)
    if _odd(chunk) or empty in lines or max(map(len, lines)) > csv.field_size_limit():
        return None
    if set(map(methodcaller("count", delimiter), lines)) != {width - 1}:
        return None
    cells = delimiter.join(lines).split(delimiter)
    return [cells[column::width] for column in range(width)]


def _quoted(source: Source, names: Sequence[str], delimiter: str, at: int, line: int) -> Iterator[Batch]:
    """Rows as the standard library reads them, from byte `at`, which is below so many lines."""
    reader = csv.reader(_lines(source, at), delimiter=delimiter, strict=True)
    above = line if at > _begin(source) else 0  # the header is read here otherwise
    rows: list[list[str]] = []
    numbers: list[int] = []
    try:
        if not above:
            next(reader)
        for row in reader:
            if not any(row):
                continue
            if len(row) != len(names):
                raise source.fail(
                    f"has {len(row)} fields, the header {len(names)}",
                    f"line {above + reader.line_num}",
                    "quote fields that hold the delimiter, or copy the file whole",
                )
            rows.append(row)
            numbers.append(above + reader.line_num)
            if len(rows) == _BATCH:
                yield _csv_batch(names, list(zip(*rows, strict=True)), numbers)
                rows, numbers = [], []
    except csv.Error as error:
        at_line = f"line {above + reader.line_num}"
        raise source.fail(f"is not CSV: {error}", at_line, "copy the file whole") from None
    if rows:
        yield _csv_batch(names, list(zip(*rows, strict=True)), numbers)


def _lines(source: Source, at: int) -> Iterator[str]:
    data = source.data
    while at < len(data):
        end = data.find(b"\n", at) + 1 or len(data)
        yield bytes(data[at:end]).decode("utf-8", "replace")
        at = end


def _csv_batch(
    names: Sequence[str], columns: Sequence[Sequence[str]], lines: Sequence[int], share: float = 1.0
) -> Batch:
    cells = {
        name: column
        for name, column in zip(names, columns, strict=True)
        if name in KNOWN or telltales.tells(name) or telltales.counts_retries(name)
    }
    return Batch(cells, len(lines), lambda row: f"line {lines[row]}", share=share)
