"""Cells of a home-made harness, as JSON or CSV gives them -> columns."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ...canonical import FACTS, MARKS, PLACE, WAITS
from ...model import Bools, Floats
from .. import telltales
from ..source import Source

UNITS = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}  # per second
TIMES = ("start", "ttft", "e2e")
TIME_COLUMNS = {f"{time}_{unit}": (time, per_s) for time in TIMES for unit, per_s in UNITS.items()}
GAP_COLUMNS = {f"itl_{unit}": per_s for unit, per_s in UNITS.items()}
TOKENS = ("output_tokens", "input_tokens")
LOADS = ("concurrency", "request_rate")
FLAGS = ("cancelled", "warmup")
TEXTS = ("run", "model", "tool", "tool_version", "hardware", "session")
LATENCIES = tuple(name for name, (time, _) in TIME_COLUMNS.items() if time != "start")
NUMBERS = (*TIME_COLUMNS, *TOKENS, *LOADS, PLACE, *WAITS)
EXPORTED = (PLACE, *WAITS, MARKS, FACTS)  # read in what slo-gate exported only
ROW_TEXTS = ("request_id", "prompt", MARKS, FACTS)  # of one request each; of a prompt only its hash is kept
KNOWN = (*NUMBERS, *GAP_COLUMNS, *FLAGS, *TEXTS, *ROW_TEXTS, "error")


_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": False}
_NOTHING = {"", "null", "none", "nan", "na", "n/a", "-"}
_NO_ERROR = _NOTHING | {"false", "no", "0"}
_MOST = 1e21  # a thousand times the nanoseconds since 1970; beyond it sums would overflow

Number = float | str | None  # a cell that should be one
Column: TypeAlias = NDArray[Any]


class Batch(Struct, frozen=True):
    """Some rows, as cells by column name. `at` says where a row stands in the file."""

    cells: Mapping[str, Sequence[Any]]
    size: int
    at: Callable[[int], str]
    nested: tuple[str, ...] = ()  # columns that hold objects
    numbers: Mapping[str, Floats] = {}  # columns of NUMBERS whose every cell is one, NaN where there is none
    share: float = 1.0  # of the file that is read with it


class Table(Struct, frozen=True, eq=False):
    """All rows. A column without one value is absent, but for `error` and for counts of output tokens."""

    size: int
    # Numbers as written, NaN where there is none; flags; texts, "" where there is none (`error`: is ok); and
    # arrays of gaps in seconds, None where a row has no list.
    columns: Mapping[str, Column]
    spoken: frozenset[str]  # telltale columns that say something in some row
    denied: tuple[str, str, str]  # column that contradicts an empty `error`, where, word nobody knows; or ""
    at: Callable[[int], str]
    retries: int = 0  # at most, that a column counts of a request

    @property
    def failed(self) -> Bools:
        """Rows with an error."""
        failed: Bools = self.columns["error"] != ""
        return failed


def convert(source: Source, batch: Batch) -> Table:
    """The columns of some rows. Raises InputError for a cell that is not what its column holds."""
    columns: dict[str, Column] = {"error": np.full(batch.size, "", object)}
    if (
        "output_tokens" in batch.cells or "output_tokens" in batch.numbers
    ):  # empty in every row is a statement too: no token was made
        columns["output_tokens"] = np.full(batch.size, np.nan)
    for name, numbers in batch.numbers.items():
        if not np.isnan(numbers).all():
            columns[name] = _plausible(source, name, numbers, batch)
    for name, cells in batch.cells.items():
        if name in KNOWN and cells.count(None) < batch.size:
            column = _column(source, name, cells, batch)
            if name not in NUMBERS or not np.isnan(column).all():
                columns[name] = column
    cancelled = columns["cancelled"].tolist() if "cancelled" in columns else None
    denied = telltales.denied(batch.cells, batch.nested, columns["error"].tolist(), cancelled)
    return Table(
        batch.size,
        columns,
        telltales.spoken(batch.cells),
        (denied[0], batch.at(denied[1]), denied[2]) if denied else ("", "", ""),
        batch.at,
        telltales.retries(batch.cells),
    )


def _column(source: Source, name: str, cells: Sequence[Any], batch: Batch) -> Column:
    if name in NUMBERS:
        return _plausible(source, name, _numbers(source, name, cells, batch), batch)
    if name in GAP_COLUMNS:
        return np.fromiter(_gaps(source, name, cells, batch), object, batch.size)
    if name in FLAGS:
        return _flags(source, name, cells, batch)
    if name == "error":
        return _errors(cells)
    text = _hash if name == "prompt" else _text
    if cells.count(cells[0]) == batch.size:  # the usual case: a constant
        constant = np.empty(batch.size, object)
        constant.fill(text(cells[0]))  # one text; np.full would make a copy for every row
        return constant
    return np.fromiter(map(text, cells), object, batch.size)


def _numbers(source: Source, name: str, cells: Sequence[Any], batch: Batch) -> Floats:
    try:  # texts as a list in JSON, whose numbers are read three times as fast
        text = ",".join(cells if "" not in cells else [cell or "null" for cell in cells])
        known = msgspec.json.decode(f"[{text}]", type=list[float | None])
        if len(known) == len(cells):
            return np.fromiter(known, np.float64, len(cells))
    except (TypeError, msgspec.MsgspecError):
        pass
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:  # a text for nothing, or one that is no number
        return np.array([_number(source, name, cell, batch, row) for row, cell in enumerate(cells)])


def _plausible(source: Source, name: str, column: Floats, batch: Batch) -> Floats:
    """The column as it is. Raises InputError for what nothing that is counted or timed can be."""
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
        comma = re.fullmatch(r"-?\d+,\d+", text)
        hint = "write a decimal point" if comma else "leave the cell empty if unknown"
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


def _gaps(
    source: Source, name: str, lists: Sequence[Sequence[float | None] | None], batch: Batch
) -> Iterator[Floats | None]:
    for row, cells in enumerate(lists):
        gaps = None if cells is None else np.array(cells, dtype=np.float64)
        if gaps is not None and (gaps < 0).any():
            why = f"{name} holds a gap of {gaps[gaps < 0][0]:g}: no chunk comes before the last"
            raise source.fail(why, batch.at(row), "write the time from each chunk to the next")
        yield None if gaps is None else gaps / GAP_COLUMNS[name]


def _text(cell: object) -> str:
    if cell is None:
        return ""
    return sys.intern(f"{cell:g}" if isinstance(cell, float) else str(cell).strip())


def _hash(cell: object) -> str:
    """Enough to tell prompts apart; the texts themselves would outgrow the columns."""
    return "" if cell is None else f"{hash(cell):x}"


def _errors(cells: Sequence[Any]) -> Column:
    column = np.full(len(cells), "", object)
    for row in [row for row, cell in enumerate(cells) if cell]:  # most rows succeed
        column[row] = _error(cells[row])
    return column


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


class Columns:
    """Columns that grow part by part, so that no row is there twice: each has room for the whole file."""

    def __init__(self) -> None:
        self.size = 0
        self._held: dict[str, Column] = {}

    def add(self, part: Table, share: float) -> None:
        """Append the rows of a part, with which that share of the file has been read."""
        end = self.size + part.size
        for name in part.columns.keys() | self._held.keys():
            column = part.columns.get(name)
            blank = _BLANKS.get(name, "")
            held = self._held.get(name)
            if held is None or len(held) < end:
                assert column is not None or held is not None
                kind = column.dtype if column is not None else held.dtype  # type: ignore[union-attr]
                # What is not filled costs nothing; where nobody knows how much is to come, it doubles.
                room = np.empty(max(int(1.02 * end / share) + 1, end if held is None else 2 * end), kind)
                room[: self.size] = blank if held is None else held[: self.size]
                self._held[name] = held = room
            held[self.size : end] = blank if column is None else column
        self.size = end

    def __call__(self) -> dict[str, Column]:
        """All of them, in the order of KNOWN."""
        return {name: self._held[name][: self.size] for name in KNOWN if name in self._held}


_BLANKS: dict[str, Any] = (
    dict.fromkeys(NUMBERS, np.nan) | dict.fromkeys(FLAGS, False) | dict.fromkeys(GAP_COLUMNS)
)


def merge(parts: Iterable[tuple[Table, float]]) -> Table:
    """All rows as one table, of parts that come with the share of the file that has been read."""
    columns, starts, places = Columns(), [0], list[Callable[[int], str]]()
    spoken, denied, retries = frozenset[str](), ("", "", ""), 0
    for part, share in parts:
        columns.add(part, share)
        starts.append(columns.size)
        places.append(part.at)
        spoken |= part.spoken
        denied = denied if denied[0] else part.denied
        retries = max(retries, part.retries)

    def at(row: int) -> str:
        number = int(np.searchsorted(starts, row, side="right")) - 1
        return places[number](row - starts[number])

    return Table(columns.size, columns(), spoken, denied, at, retries)
