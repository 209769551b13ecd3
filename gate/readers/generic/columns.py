"""Rows of a home-made harness (JSON lines, a JSON array, CSV) -> columns in base units."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from ..source import Source
from . import telltales
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

_BATCH = 50_000  # CSV rows converted at a time
_HEAD_ROWS = 200
_SAMPLED_ROWS = 20_000
_WINDOWS, _WINDOW = 64, 65_536  # of a large file's bytes, where its column names are looked for

_Fields = list[tuple[str, Any, Any]]  # name, type, default
_FIELDS: _Fields = [
    *((name, Number, None) for name in NUMBERS),
    *((name, bool | float | str | None, None) for name in FLAGS),
    *((name, str | int | float | None, None) for name in (*TEXTS, *ROW_TEXTS)),
    *((name, Any, None) for name in ("error", *telltales.NAMES)),
]
_GAP_FIELDS: _Fields = [(name, list[float | None] | None, None) for name in GAP_COLUMNS]
_Row = msgspec.defstruct("_Row", _FIELDS)
_GapRow = msgspec.defstruct("_GapRow", _GAP_FIELDS, bases=(_Row,))  # else gaps are skipped undecoded


def head_columns(source: Source) -> tuple[str, ...]:
    """Column names in the first rows, in order of appearance; empty when they are no rows."""
    if source.shape == "text":
        return _header(source)[0]
    return tuple(dict.fromkeys(key for row in _head_rows(source) for key in row))


def has_latency(source: Source) -> bool:
    """Whether the first rows hold a latency as a number (not a block of statistics)."""
    if source.shape == "text":
        return not set(LATENCIES).isdisjoint(_header(source)[0])
    if not re.search(rf'"(?:{"|".join(LATENCIES)})"\s*:', source.head):
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
    batches = _csv(source) if source.shape == "text" else _json(source, gaps)
    return merge([convert(source, batch) for batch in batches if batch.size])


# ---- where the rows are -------------------------------------------------------------------


def _head_rows(source: Source) -> list[dict[str, msgspec.Raw]]:
    rows: Iterable[Any]
    if source.shape == "array":
        rows = source.array(msgspec.Raw)[:_HEAD_ROWS]
    elif by_line(source):
        rows = islice((line for line in source.head.splitlines() if line.strip()), _HEAD_ROWS)
    elif source.shape in ("object", "objects"):
        return [doc.fields for doc in islice(source.docs(), _HEAD_ROWS)]
    else:
        rows = ()
    found = []
    for row in rows:
        try:
            text = row if isinstance(row, str) else bytes(row)
            found.append(msgspec.json.decode(text, type=dict[str, msgspec.Raw]))
        except msgspec.MsgspecError:  # the line the head cuts, or one that load() reports
            continue
    return found


def by_line(source: Source) -> bool:
    """JSON lines, as opposed to indented objects."""
    return source.shape in ("object", "objects") and source.head.lstrip().split("\n", 1)[0].rstrip().endswith(
        "}"
    )


def _json(source: Source, gaps: bool) -> Iterator[Batch]:
    kind = _GapRow if gaps else _Row
    if spelled := _other_spellings(source):
        more: _Fields = [(f"spelled_{n}", Any, None) for n in range(len(spelled))]
        names = {field: name for (field, _, _), name in zip(more, spelled, strict=True)}
        kind = msgspec.defstruct("_SpelledRow", more, bases=(kind,), rename=names)
    fields = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    chunks: Iterable[list[Struct]]
    if source.shape == "array":
        chunks, place = [source.array(kind)], "element"
    elif by_line(source):
        chunks, place = source.lines(kind), "line"
    else:
        # Indented objects: rare and small, so decoding them twice does not matter.
        whole = msgspec.json.encode([doc.fields for doc in source.docs()])
        chunks, place = [_decoded(source, whole, kind)], "object"
    before = 0
    for rows in chunks:
        cells = {name: list(map(attrgetter(field), rows)) for field, name in fields.items()}
        yield Batch(cells, len(rows), _place(source, place, before))
        before += len(rows)


def _other_spellings(source: Source) -> list[str]:
    """Telltale columns under names that are no field of `_Row` (`statusCode`), in rows all over the file.

    Every row of a file of up to 4 MB is looked at; of a larger one 4 MB of lines, or every n-th element.
    """
    keys: dict[str, None] = {}
    for row in _sampled(source):
        try:
            keys |= dict.fromkeys(msgspec.json.decode(row, type=dict[str, msgspec.Raw]))
        except (msgspec.MsgspecError, UnicodeDecodeError):  # cut by a window, or one that load() reports
            continue
    return [name for name in keys if name not in telltales.NAMES and telltales.named(name)]


def _sampled(source: Source) -> Iterator[bytes | msgspec.Raw]:
    if source.shape == "array":
        elements = source.array(msgspec.Raw)
        yield from elements[:: len(elements) // _SAMPLED_ROWS + 1]
    elif by_line(source):
        data, size = source.data, len(source.data)
        whole = size <= _WINDOWS * _WINDOW
        for n in range(1 if whole else _WINDOWS):
            start = n * (size - _WINDOW) // (_WINDOWS - 1)
            start = data.find(b"\n", start) + 1 if n else 0
            end = size if whole else data.find(b"\n", min(start + _WINDOW, size - 1))
            yield from bytes(data[start : end if end > 0 else size]).split(b"\n")
    else:
        for doc in source.docs():
            yield msgspec.json.encode(doc.fields)


def _decoded(source: Source, data: bytes, kind: type[Struct]) -> list[Struct]:
    try:
        return msgspec.json.decode(data, type=list[kind])  # type: ignore[valid-type]
    except msgspec.MsgspecError as error:
        raise source.fail(f"is no list of rows: {error}") from None


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
    found = []
    for delimiter in ",;\t":
        try:
            names = tuple(name.strip() for name in next(csv.reader([first], delimiter=delimiter), []))
        except csv.Error:
            continue
        found.append((len(set(KNOWN) & set(names)), len(names), names, delimiter))
    if not found:
        return (), ","
    _, _, names, delimiter = max(found)
    return names, delimiter


def _csv(source: Source) -> Iterator[Batch]:
    names, delimiter = _header(source)
    ours = {name for name in names if name in KNOWN or telltales.named(name)}
    twice = sorted(name for name in ours if names.count(name) > 1)
    if twice:
        raise source.fail(f'the column "{twice[0]}" is there twice', "line 1", "keep one of them")
    lines = _lines(source)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    numbers: list[int] = []
    try:
        next(reader)
        for row in reader:
            if not any(row):
                continue
            if len(row) != len(names):
                why = f"has {len(row)} fields, the header {len(names)}"
                raise source.fail(
                    why,
                    f"line {reader.line_num}",
                    "quote fields that hold the delimiter, or copy the file whole",
                )
            rows.append(row)
            numbers.append(reader.line_num)
            if len(rows) == _BATCH:
                yield _csv_batch(names, rows, numbers)
                rows, numbers = [], []
    except csv.Error as error:
        raise source.fail(f"is not CSV: {error}", f"line {reader.line_num}", "copy the file whole") from None
    if rows:
        yield _csv_batch(names, rows, numbers)


def _lines(source: Source) -> Iterator[str]:
    data = source.data
    at = 3 if data[:3] == b"\xef\xbb\xbf" else 0
    while data[at : at + 1] in (b"\n", b"\r"):  # blank lines above the header
        at += 1
    while at < len(data):
        end = data.find(b"\n", at) + 1 or len(data)
        yield bytes(data[at:end]).decode("utf-8", "replace")
        at = end


def _csv_batch(names: Sequence[str], rows: list[list[str]], numbers: list[int]) -> Batch:
    cells = dict(zip(names, zip(*rows, strict=True), strict=True))
    lines = np.array(numbers)
    return Batch(cells, len(rows), lambda row: f"line {lines[row]}")
