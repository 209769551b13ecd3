"""Rows of a home-made harness (JSON lines, a JSON array, CSV) -> columns in base units."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ...model import Bools, Floats
from .._source import Source
from . import telltales

UNITS = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}  # per second
TIMES = ("start", "ttft", "e2e")
TIME_COLUMNS = {f"{time}_{unit}": (time, per_s) for time in TIMES for unit, per_s in UNITS.items()}
GAP_COLUMNS = {f"itl_{unit}": per_s for unit, per_s in UNITS.items()}
TOKENS = ("output_tokens", "input_tokens")
LOADS = ("concurrency", "request_rate")
FLAGS = ("cancelled", "warmup")
TEXTS = ("run", "model", "tool", "tool_version", "hardware", "session")
LATENCIES = tuple(name for name, (time, _) in TIME_COLUMNS.items() if time != "start")
NUMBERS = (*TIME_COLUMNS, *TOKENS, *LOADS)
ROW_TEXTS = ("request_id", "prompt")  # of one request each; of a prompt only its hash is kept
KNOWN = (*NUMBERS, *GAP_COLUMNS, *FLAGS, *TEXTS, *ROW_TEXTS, "error")

_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": False}
_NOTHING = {"", "null", "none", "nan", "na", "n/a", "-"}
_NO_ERROR = _NOTHING | {"false", "no", "0"}
_BATCH = 50_000  # CSV rows converted at a time
_HEAD_ROWS = 200
_SAMPLED_ROWS = 20_000
_WINDOWS, _WINDOW = 64, 65_536  # of a large file's bytes, where its column names are looked for
_MOST = 1e21  # a thousand times the nanoseconds since 1970; beyond it sums would overflow

_Number = float | str | None
_Fields = list[tuple[str, Any, Any]]  # name, type, default
_FIELDS: _Fields = [
    *((name, _Number, None) for name in NUMBERS),
    *((name, bool | float | str | None, None) for name in FLAGS),
    *((name, str | int | float | None, None) for name in (*TEXTS, *ROW_TEXTS)),
    *((name, Any, None) for name in ("error", *telltales.NAMES)),
]
_GAP_FIELDS: _Fields = [(name, list[float | None] | None, None) for name in GAP_COLUMNS]
_Row = msgspec.defstruct("_Row", _FIELDS)
_GapRow = msgspec.defstruct("_GapRow", _GAP_FIELDS, bases=(_Row,))  # else gaps are skipped undecoded


class _Batch(Struct, frozen=True):
    """Some rows, as cells by column name. `at` says where a row stands in the file."""

    cells: Mapping[str, Sequence[Any]]
    size: int
    at: Callable[[int], str]


class Table(Struct, frozen=True, eq=False):
    """All rows. A column without one value is absent from `numbers` and `texts`."""

    size: int
    numbers: Mapping[str, Floats]  # as written, not yet scaled
    flags: Mapping[str, Bools]
    texts: Mapping[str, list[str]]
    errors: list[str]  # "" is ok
    gaps: Mapping[str, tuple[Floats, Floats]]  # flat values, and how many a row has (NaN: no list)
    told: frozenset[str]  # telltale columns that say something in some row
    denied: tuple[str, str, str]  # column that contradicts an empty `error`, where, word nobody knows; or ""
    at: Callable[[int], str]


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
    return _merge([_convert(source, batch) for batch in batches if batch.size])


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


def _json(source: Source, gaps: bool) -> Iterator[_Batch]:
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
        yield _Batch(cells, len(rows), _place(source, place, before))
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


def _csv(source: Source) -> Iterator[_Batch]:
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


def _csv_batch(names: Sequence[str], rows: list[list[str]], numbers: list[int]) -> _Batch:
    cells = dict(zip(names, zip(*rows, strict=True), strict=True))
    lines = np.array(numbers)
    return _Batch(cells, len(rows), lambda row: f"line {lines[row]}")


# ---- cells -> columns ---------------------------------------------------------------------


def _convert(source: Source, batch: _Batch) -> Table:
    def cells(name: str) -> Sequence[Any] | None:
        found = batch.cells.get(name)
        return None if found is None or found.count(None) == batch.size else found

    numbers = {name: _numbers(source, name, found, batch) for name in NUMBERS if (found := cells(name))}
    errors = [_error(cell) for cell in found] if (found := cells("error")) else [""] * batch.size
    flags = {name: _flags(source, name, found, batch) for name in FLAGS if (found := cells(name))}
    cancelled = flags["cancelled"].tolist() if "cancelled" in flags else None
    denied = telltales.denied(batch.cells, errors, cancelled)
    return Table(
        batch.size,
        {name: column for name, column in numbers.items() if not np.isnan(column).all()},
        flags,
        {
            **{name: _texts(found) for name in (*TEXTS, "request_id") if (found := cells(name))},
            **{name: _hashes(found) for name in ("prompt",) if (found := cells(name))},
        },
        errors,
        {name: _flat(source, name, found, batch) for name in GAP_COLUMNS if (found := cells(name))},
        telltales.told(batch.cells),
        (denied[0], batch.at(denied[1]), denied[2]) if denied else ("", "", ""),
        batch.at,
    )


def _numbers(source: Source, name: str, cells: Sequence[Any], batch: _Batch) -> Floats:
    try:
        column = np.array(cells, dtype=np.float64)
    except ValueError:  # an empty text, or one that is no number
        column = np.array([_number(source, name, cell, batch, row) for row, cell in enumerate(cells)])
    if name in TOKENS and np.any(column < 0):
        row = int(np.argmax(column < 0))
        raise source.fail(f"{name} is {column[row]:g}: a count cannot be negative", batch.at(row))
    huge = np.isfinite(column) & (np.abs(column) > _MOST)
    if huge.any():
        row = int(np.argmax(huge))
        raise source.fail(f"{name} is {column[row]:g}, which nothing measures", batch.at(row))
    return column


def _number(source: Source, name: str, cell: _Number, batch: _Batch, row: int) -> float:
    text = "" if cell is None else str(cell).strip()
    if text.lower() in _NOTHING:
        return np.nan
    try:
        return float(text)
    except ValueError:
        hint = (
            "write a decimal point" if re.fullmatch(r"-?\d+,\d+", text) else "leave the cell empty if unknown"
        )
        raise source.fail(f'{name} is "{text}", which is no number', batch.at(row), hint) from None


def _flags(source: Source, name: str, cells: Sequence[Any], batch: _Batch) -> Bools:
    column = np.zeros(len(cells), dtype=np.bool_)
    for row, cell in enumerate(cells):
        word = _text(cell).lower()
        if word not in _WORDS:
            hint = "write true or false, yes or no, 1 or 0"
            raise source.fail(f'{name} is "{word}", which is neither true nor false', batch.at(row), hint)
        column[row] = _WORDS[word]
    return column


def _texts(cells: Sequence[Any]) -> list[str]:
    if cells.count(cells[0]) == len(cells):  # the usual case: a constant
        return [_text(cells[0])] * len(cells)
    return [_text(cell) for cell in cells]


def _hashes(cells: Sequence[Any]) -> list[str]:
    """Enough to tell prompts apart; the texts themselves would outgrow the columns."""
    return ["" if cell is None else f"{hash(cell):x}" for cell in cells]


def _text(cell: object) -> str:
    if cell is None:
        return ""
    return sys.intern(f"{cell:g}" if isinstance(cell, float) else str(cell).strip())


def _error(cell: object) -> str:
    """What the request failed with; "" for null, false, empty and 0, which are ok."""
    if not cell:
        return ""
    if isinstance(cell, dict):
        cell = cell.get("message") or cell
    text = _text(cell)
    if text.lower() in _NO_ERROR:
        return ""
    return "marked as an error" if _WORDS.get(text.lower()) else text


def _flat(
    source: Source, name: str, lists: Sequence[Sequence[float | None] | None], batch: _Batch
) -> tuple[Floats, Floats]:
    lengths = np.array([np.nan if gaps is None else len(gaps) for gaps in lists])
    values = np.array([gap for gaps in lists if gaps for gap in gaps], dtype=np.float64)
    if (values < 0).any():
        first = int(np.argmax(values < 0))
        row = int(np.searchsorted(np.cumsum(np.nan_to_num(lengths)), first, side="right"))
        why = f"{name} holds a gap of {values[first]:g}: no chunk comes before the last"
        raise source.fail(why, batch.at(row), "write the time from each chunk to the next")
    return values, lengths


def _merge(parts: Sequence[Table]) -> Table:
    sizes = [part.size for part in parts]
    starts = np.cumsum([0, *sizes])

    def at(row: int) -> str:
        number = int(np.searchsorted(starts, row, side="right")) - 1
        return parts[number].at(row - int(starts[number]))

    def used(mappings: Iterable[Mapping[str, object]]) -> list[str]:
        return sorted({name for mapping in mappings for name in mapping}, key=KNOWN.index)

    def join(columns: Sequence[NDArray[Any] | None], blank: object) -> NDArray[Any]:
        filled = [np.full(n, blank) if c is None else c for c, n in zip(columns, sizes, strict=True)]
        return np.concatenate(filled)

    empty = np.array([], dtype=np.float64)
    return Table(
        sum(sizes),
        {n: join([p.numbers.get(n) for p in parts], np.nan) for n in used(p.numbers for p in parts)},
        {n: join([p.flags.get(n) for p in parts], False) for n in used(p.flags for p in parts)},
        {
            n: [t for p in parts for t in p.texts.get(n) or [""] * p.size]
            for n in used(p.texts for p in parts)
        },
        [error for part in parts for error in part.errors],
        {
            n: (
                np.concatenate([p.gaps[n][0] if n in p.gaps else empty for p in parts]),
                join([p.gaps[n][1] if n in p.gaps else None for p in parts], np.nan),
            )
            for n in used(p.gaps for p in parts)
        },
        frozenset().union(*(p.told for p in parts)),
        next((p.denied for p in parts if p.denied[0]), ("", "", "")),
        at,
    )
