"""Cells of a home-made harness, as JSON or CSV gives them -> columns."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ...model import Bools, Floats
from ..source import Source
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
_MOST = 1e21  # a thousand times the nanoseconds since 1970; beyond it sums would overflow

Number = float | str | None  # a cell that should be one


class Batch(Struct, frozen=True):
    """Some rows, as cells by column name. `at` says where a row stands in the file."""

    cells: Mapping[str, Sequence[Any]]
    size: int
    at: Callable[[int], str]
    nested: tuple[str, ...] = ()  # columns that hold objects


class Table(Struct, frozen=True, eq=False):
    """All rows. A column without one value is absent from `numbers` and `texts`."""

    size: int
    numbers: Mapping[str, Floats]  # as written, not yet scaled
    flags: Mapping[str, Bools]
    texts: Mapping[str, list[str]]
    errors: list[str]  # "" is ok
    gaps: Mapping[str, tuple[Floats, Floats]]  # flat values, and how many a row has (NaN: no list)
    spoken: frozenset[str]  # telltale columns that say something in some row
    denied: tuple[str, str, str]  # column that contradicts an empty `error`, where, word nobody knows; or ""
    at: Callable[[int], str]
    retries: int = 0  # at most, that a column counts of a request


def convert(source: Source, batch: Batch) -> Table:
    """The columns of some rows. Raises InputError for a cell that is not what its column holds."""

    def cells(name: str) -> Sequence[Any] | None:
        found = batch.cells.get(name)
        return None if found is None or found.count(None) == batch.size else found

    numbers = {name: _numbers(source, name, found, batch) for name in NUMBERS if (found := cells(name))}
    if "output_tokens" in batch.cells:  # empty in every row is a statement too: no token was made
        numbers.setdefault("output_tokens", np.full(batch.size, np.nan))
    errors = [_error(cell) for cell in found] if (found := cells("error")) else [""] * batch.size
    flags = {name: _flags(source, name, found, batch) for name in FLAGS if (found := cells(name))}
    cancelled = flags["cancelled"].tolist() if "cancelled" in flags else None
    denied = telltales.denied(batch.cells, batch.nested, errors, cancelled)
    return Table(
        batch.size,
        {n: column for n, column in numbers.items() if n == "output_tokens" or not np.isnan(column).all()},
        flags,
        {
            **{name: _texts(found) for name in (*TEXTS, "request_id") if (found := cells(name))},
            **{name: _hashes(found) for name in ("prompt",) if (found := cells(name))},
        },
        errors,
        {name: _flat(source, name, found, batch) for name in GAP_COLUMNS if (found := cells(name))},
        telltales.spoken(batch.cells),
        (denied[0], batch.at(denied[1]), denied[2]) if denied else ("", "", ""),
        batch.at,
        telltales.retries(batch.cells),
    )


def _numbers(source: Source, name: str, cells: Sequence[Any], batch: Batch) -> Floats:
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
        raise source.fail(f"{name} is {column[row]:g}, larger than any measurement", batch.at(row))
    return column


def _number(source: Source, name: str, cell: Number, batch: Batch, row: int) -> float:
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


def _flags(source: Source, name: str, cells: Sequence[Any], batch: Batch) -> Bools:
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
    source: Source, name: str, lists: Sequence[Sequence[float | None] | None], batch: Batch
) -> tuple[Floats, Floats]:
    lengths = np.array([np.nan if gaps is None else len(gaps) for gaps in lists])
    values = np.array([gap for gaps in lists if gaps for gap in gaps], dtype=np.float64)
    if (values < 0).any():
        first = int(np.argmax(values < 0))
        row = int(np.searchsorted(np.cumsum(np.nan_to_num(lengths)), first, side="right"))
        why = f"{name} holds a gap of {values[first]:g}: no chunk comes before the last"
        raise source.fail(why, batch.at(row), "write the time from each chunk to the next")
    return values, lengths


def merge(parts: Sequence[Table]) -> Table:
    """All rows as one table."""
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
        frozenset().union(*(p.spoken for p in parts)),
        next((p.denied for p in parts if p.denied[0]), ("", "", "")),
        at,
        max((p.retries for p in parts), default=0),
    )
