"""benchmark_data.db: table `result`, a row a request, in order of completion.

`response_messages` (and before 1.4 `request`) are pickles: they are never selected.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ...model import Bools, Counts, Floats, Gaps, Requests, Run, ToolReported
from .. import bursts, tables
from ..source import Doc, Source
from . import DEFINITIONS, TITLE, files, report

if TYPE_CHECKING:
    import sqlite3

_NEEDED = ("start_time", "success", "completed_time", "latency", "first_chunk_latency", "completion_tokens")
_KNOWN = (*_NEEDED, "prompt_tokens", "is_stream")
_MOST = 1e12  # beyond it lies no measurement, and sums would overflow
_DAMAGED = "the SQLite database is damaged or cut short ({})"
_NOT_STREAMED = "no request was streamed (is_stream is 0), so TTFT is E2E; run evalscope with --stream"
_NO_REASON = "evalscope stores no reason"

_Cells = dict[str, Floats]


def read(source: Source) -> Run:
    """The run of a database. Raises InputError when it is damaged or contradicts the summary beside it."""
    beside = files.beside(source, "benchmark_summary.json")
    summary = beside.doc if beside is not None else None
    facts = files.facts(source, summary)
    cells, gaps = _rows_of(source)
    errors = cells["success"] != 1
    table = _table(cells, errors, gaps)
    counts = tables.counts(table)
    if summary is not None:
        _check(source, summary, errors)
    streaming, unsuitable, odd = bursts.judge(table)
    if "is_stream" in cells and not (cells["is_stream"] == 1).any():
        streaming, unsuitable = False, dict.fromkeys(("ttft", "tpot", "itl"), _NOT_STREAMED)
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="evalscope database",
        tool=TITLE,
        evidence=table,
        counts=counts,
        model=facts.model,
        load=facts.load,
        duration_s=_duration(cells),
        date=facts.date,
        total_output_tokens=tables.output_total(table),
        streaming=streaming,
        definitions=DEFINITIONS,
        tool_reported=_reported(source, summary, facts),
        unsuitable=unsuitable,
        notes=(
            *tables.failure_note(table, [_NO_REASON if error else "" for error in errors.tolist()]),
            *_notes(table, counts, errors, facts),
            *(report.odd_names(summary, None) if summary is not None else ()),
            *odd,
            files.LATE,
        ),
    )


# ---- the table ----------------------------------------------------------------------------


def _rows_of(source: Source) -> tuple[_Cells, Gaps | None]:
    """Columns by name, NaN where there is no value, and the gaps if wanted."""
    import sqlite3

    with _file(source) as path:
        try:
            with contextlib.closing(_open(path)) as database:
                return _select(source, database)
        except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
            raise source.fail(_DAMAGED.format(error), hint=files.WHOLE) from None


def _open(path: Path) -> sqlite3.Connection:
    import sqlite3

    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)


@contextlib.contextmanager
def _file(source: Source) -> Iterator[Path]:
    """The database as a file of its own: SQLite cannot open compressed bytes or a pipe."""
    _refuse_unfinished(source)
    if source.path is not None and bytes(source.data[:16]) == _first(source.path):
        yield source.path
        return
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "benchmark_data.db"
        path.write_bytes(source.data)
        yield path


def _first(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(16)


def _refuse_unfinished(source: Source) -> None:
    """Immutable means that a journal is not replayed, so a writer must have finished."""
    head = bytes(source.data[:100])
    size, pages = int.from_bytes(head[16:18], "big"), int.from_bytes(head[28:32], "big")
    if len(head) < 100 or len(source.data) < pages * (65536 if size == 1 else size):
        raise source.fail(_DAMAGED.format(f"{len(source.data)} bytes"), hint=files.WHOLE)
    for suffix in ("-wal", "-journal"):
        other = source.beside(source.path.name + suffix) if source.path is not None else None
        if other is not None and other.size:
            why = f"is still being written, or its writer crashed: {other.name} is not empty"
            raise source.fail(why, hint="wait for the benchmark to end, or run it again")


def _select(source: Source, database: sqlite3.Connection) -> tuple[_Cells, Gaps | None]:
    # A view may compute for ever; evalscope writes a table.
    kind = database.execute("SELECT type, sql FROM sqlite_master WHERE name = 'result'").fetchone()
    if kind is None or kind[0] != "table" or not str(kind[1]).upper().startswith("CREATE TABLE"):
        raise source.fail("`result` is no table of evalscope's", hint=files.WHOLE)
    has = {str(row[1]) for row in database.execute("PRAGMA table_info(result)")}
    if missing := [name for name in _NEEDED if name not in has]:
        raise source.fail(f"the table `result` has no column {missing[0]}", hint=files.WHOLE)
    names = [name for name in _KNOWN if name in has]
    rows = database.execute(f"SELECT {', '.join(names)} FROM result ORDER BY rowid").fetchall()
    if not rows:
        raise source.fail("holds no requests", hint="run the benchmark again")
    cells = {name: _column(source, name, [row[i] for row in rows]) for i, name in enumerate(names)}
    for name in ("completion_tokens", "prompt_tokens"):
        if name in cells and (cells[name] < 0).any():
            raise source.fail(f"a negative token count: {np.nanmin(cells[name]):g}", f"result.{name}")
    if not source.gaps:
        return cells, None
    for name, read_gaps in (("inter_token_latencies", _as_stored), ("chunk_times", _between)):
        if name in has:
            texts = [row[0] for row in database.execute(f"SELECT {name} FROM result ORDER BY rowid")]
            lists = [read_gaps(_list(source, name, i, text)) for i, text in enumerate(texts)]
            return cells, _flat(lists)
    return cells, None


def _column(source: Source, name: str, values: Sequence[object]) -> Floats:
    for number, value in enumerate(values):
        if value is not None and (not isinstance(value, (int, float)) or abs(value) > _MOST):
            why = f"expected a number, got {str(value)[:40]!r}"
            raise source.fail(why, f"result.{name}, row {number + 1}", files.WHOLE)
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _list(source: Source, name: str, number: int, text: object) -> Floats:
    try:
        return np.array(msgspec.json.decode(text if text else "[]", type=list[float]), dtype=np.float64)  # type: ignore[call-overload]
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise source.fail(f"is no list of numbers: {error}", f"result.{name}, row {number + 1}") from None


def _as_stored(gaps: Floats) -> Floats:
    return gaps


def _between(times: Floats) -> Floats:
    """Up to 1.3 the times of the chunks were stored."""
    return np.diff(times)


def _flat(lists: Sequence[Floats]) -> Gaps:
    offsets = np.concatenate(([0], np.cumsum([len(one) for one in lists]))).astype(np.int64)
    return Gaps(np.concatenate(lists), offsets)


def _table(cells: _Cells, errors: Bools, gaps: Gaps | None) -> Requests:
    return tables.requests(
        errors=errors,
        ttft_s=cells["first_chunk_latency"],
        e2e_s=cells["latency"],
        output_tokens=cells["completion_tokens"],
        input_tokens=cells.get("prompt_tokens"),
        start_s=cells["start_time"],
        gaps=gaps,
        order="completion",
    )


# ---- what it says -------------------------------------------------------------------------


def _duration(cells: _Cells) -> float | None:
    """First start to last completion, failed requests included, as the tool has it."""
    start, end = cells["start_time"], cells["completed_time"]
    if not np.isfinite(start).any() or not np.isfinite(end).any():
        return None
    span = float(np.nanmax(end) - np.nanmin(start))
    return span if span > 0 else None


def _check(source: Source, summary: Doc, errors: Bools) -> None:
    said = report.counts(summary)
    failed = int(errors.sum())
    if (said.attempted, said.failed) != (len(errors), failed):
        why = (
            f"contradicts {summary.source.name}: {len(errors)} rows with {failed} failed here,"
            f" {said.attempted} requests with {said.failed} failed there"
        )
        raise source.fail(why, hint="keep the files of one run together")


def _reported(source: Source, summary: Doc | None, facts: files.Facts) -> dict[str, ToolReported]:
    beside = files.beside(source, "benchmark_percentile.json")
    if beside is None or summary is None:
        return {}
    return report.reported(summary, report.percentiles(beside), facts.nearest_rank)


def _notes(table: Requests, counts: Counts, errors: Bools, facts: files.Facts) -> list[str]:
    notes = []
    done = len(errors) - int(errors.sum())
    if done != counts.completed:
        notes.append(f"evalscope counts {done} completed, slo-gate {counts.completed}")
    if facts.warmup:
        notes.append(f"evalscope keeps no record of its {facts.warmup} warm-up requests")
    if facts.number and facts.number > len(errors):
        notes.append(f"{facts.number} requests were asked for, {len(errors)} are in the file")
    if facts.load is not None and facts.load.request_rate is not None:
        notes += bursts.slow_client(table, facts.load.request_rate)
    return notes
