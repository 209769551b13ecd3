"""benchmark_data.db: table `result`, a row a request, in order of completion.

`response_messages` (and before 1.4 `request`) are pickles: they are never selected.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ...model import Floats, Gaps
from .. import tables
from ..source import Source

if TYPE_CHECKING:
    import sqlite3

WHOLE = "copy evalscope's output folder whole, or run the benchmark again"
_NEEDED = ("start_time", "success", "completed_time", "latency", "first_chunk_latency", "completion_tokens")
_KNOWN = (*_NEEDED, "prompt_tokens", "is_stream")
# Lists of numbers as JSON text: the gaps between chunks, or up to 1.3 the times of the chunks.
_LISTS: Mapping[str, int] = {"inter_token_latencies": 1, "chunk_times": 0}  # how many more chunks there are
_MOST = 1e12  # beyond it lies no measurement, and sums would overflow
_DAMAGED = "the SQLite database is damaged or cut short ({})"


def read(source: Source) -> tuple[dict[str, Floats], Gaps | None]:
    """Columns by name, NaN where there is no value, with `pieces`, and the gaps if wanted.

    Raises InputError when the database is damaged, still being written, or not evalscope's.
    """
    import sqlite3

    with _file(source) as path:
        address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        try:
            with contextlib.closing(sqlite3.connect(address, uri=True)) as database:
                return _select(source, database)
        except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
            raise source.fail(_DAMAGED.format(error), hint=WHOLE) from None


@contextlib.contextmanager
def _file(source: Source) -> Iterator[Path]:
    """The database as a file of its own: SQLite cannot open compressed bytes or a pipe."""
    _refuse_unfinished(source)
    if source.path is not None and source.size == len(source.data):
        yield source.path
        return
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "benchmark_data.db"
        path.write_bytes(source.data)
        yield path


def _refuse_unfinished(source: Source) -> None:
    """Immutable means that a journal is not replayed, so a writer must have finished."""
    head = bytes(source.data[:100])
    size, pages = int.from_bytes(head[16:18], "big"), int.from_bytes(head[28:32], "big")
    if len(head) < 100 or len(source.data) < pages * (65536 if size == 1 else size):
        raise source.fail(_DAMAGED.format(f"{len(source.data)} bytes"), hint=WHOLE)
    for suffix in ("-wal", "-journal"):
        other = source.beside(source.path.name + suffix) if source.path is not None else None
        if other is not None and other.size:
            why = f"is still being written, or its writer crashed: {other.name} is not empty"
            raise source.fail(why, hint="wait for the benchmark to end, or run it again")


def _select(source: Source, database: sqlite3.Connection) -> tuple[dict[str, Floats], Gaps | None]:
    # A view may compute for ever; evalscope writes a table.
    kind = database.execute("SELECT type, sql FROM sqlite_master WHERE name = 'result'").fetchone()
    if kind is None or kind[0] != "table" or not str(kind[1]).upper().startswith("CREATE TABLE"):
        raise source.fail("`result` is no table of evalscope's", hint=WHOLE)
    has = {str(row[1]) for row in database.execute("PRAGMA table_info(result)")}
    if missing := [name for name in _NEEDED if name not in has]:
        raise source.fail(f"the table `result` has no column {missing[0]}", hint=WHOLE)
    columns = {name: name for name in _KNOWN if name in has}
    lists = next((name for name in _LISTS if name in has), None)
    if lists is not None:  # commas are counted in SQLite: decoding the lists is most of the cost
        commas = f"length({lists}) - length(replace({lists}, ',', ''))"
        none = f"{lists} = '[]'"
        columns["pieces"] = f"CASE WHEN {none} THEN {_LISTS[lists]} ELSE {commas} + {1 + _LISTS[lists]} END"
    rows = database.execute(f"SELECT {', '.join(columns.values())} FROM result ORDER BY rowid").fetchall()
    if not rows:
        raise source.fail("holds no requests", hint="run the benchmark again")
    cells = {name: _column(source, name, [row[i] for row in rows]) for i, name in enumerate(columns)}
    for name in ("completion_tokens", "prompt_tokens"):
        if name in cells and (cells[name] < 0).any():
            raise source.fail(f"a negative token count: {np.nanmin(cells[name]):g}", f"result.{name}")
    if lists is None or not source.gaps:
        return cells, None
    texts = database.execute(f"SELECT {lists} FROM result ORDER BY rowid")
    gaps = [_list(source, lists, number, text) for number, (text,) in enumerate(texts)]
    gaps = gaps if _LISTS[lists] else [np.diff(times) for times in gaps]
    return cells, tables.gaps(gaps)


def _column(source: Source, name: str, values: Sequence[object]) -> Floats:
    for number, value in enumerate(values):
        if value is not None and (not isinstance(value, (int, float)) or abs(value) > _MOST):
            why = f"expected a number, got {str(value)[:40]!r}"
            raise source.fail(why, f"result.{name}, row {number + 1}", WHOLE)
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _list(source: Source, name: str, number: int, text: object) -> Floats:
    try:
        return np.array(msgspec.json.decode(text if text else "[]", type=list[float]), dtype=np.float64)  # type: ignore[call-overload]
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise source.fail(f"is no list of numbers: {error}", f"result.{name}, row {number + 1}") from None
