"""Runs as one table, a row a request: what `slo-gate export` writes and the generic reader takes back.

What the rows alone cannot say (doubts, definitions, the tool's own statistics) goes with them as the run's
facts, a JSON text in the column `slo_gate`. They are settled already: read back, the run is the one that
was exported, or its rows are not all there and it is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import asdict, fields
from numpy.typing import NDArray

from .errors import InputError
from .model import Bools, Floats, Gaps, Requests, Run, Status

FACTS = "slo_gate"
PLACE = "slo_gate_row"  # of a row in its run, from 0
MARKS = "slo_gate_marks"  # of a row: what of it is doubted, "tokenless"
WAITS = ("queue_s", "server_queue_s", "server_ttft_s")
_FLOATS = ("start_s", "ttft_s", "e2e_s", "output_tokens", "input_tokens", *WAITS)
_TEXTS = ("tool", "tool_version", "model", "hardware", "session")
_TOKENLESS = "tokenless"
_NOT_FACTS = {"evidence", "input", "sha256", "content_sha256", "measurement"}  # of the file that is read
_AGAIN = "export the results again, or pass the results themselves"

Column: TypeAlias = NDArray[Any]


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    """Of a run's facts: all of a Run but its rows and its file."""
    more: list[tuple[str, Any]] = [
        ("recorded", tuple[str, ...]),  # columns that the tool records, also where all their cells are empty
        ("marks", dict[str, int]),  # how many rows have each
        ("order", str),
        ("runs", int),  # in the whole table
        ("version", str),  # of slo-gate
    ]
    own = [(one.name, one.type) for one in fields(Run) if one.name not in _NOT_FACTS]
    return msgspec.json.Decoder(msgspec.defstruct("Facts", [*own, *more]))


def tables(runs: Sequence[Run], version: str) -> Iterator[dict[str, Column]]:
    """The columns of each run: floats (NaN where there is none), flags, texts ("" where there is none), and

    arrays of gaps. Raises InputError for a run without rows.
    """
    for number, run in enumerate(runs):
        rows = run.evidence
        if not isinstance(rows, Requests) or not len(rows):
            why = (
                "holds no request"
                if isinstance(rows, Requests)
                else "holds statistics, not requests one by one"
            )
            hint = "export the tool's file of requests: `slo-gate tools` says which tools have one"
            raise InputError(f"{why}, so there are no rows to export", run.input, hint)
        yield _table(number, run, rows, _text_of(run, rows, len(runs), version))


def _text_of(run: Run, rows: Requests, runs: int, version: str) -> str:
    facts = {name: value for name, value in asdict(run).items() if name not in _NOT_FACTS}
    recorded = [name for name in _FLOATS if getattr(rows, name) is not None]
    recorded += ["gaps"] * (rows.gaps is not None) + ["rows"] * (rows.rows is not None)
    marks = {of: int(column.sum()) for of, column in _marks(rows).items()}
    whole = {**facts, "recorded": recorded, "marks": marks, "order": rows.order, "runs": runs}
    return msgspec.json.encode({**whole, "version": version, "stated": sorted(run.stated)}).decode()


def _marks(rows: Requests) -> dict[str, Bools]:
    return {**rows.doubted, **({_TOKENLESS: rows.tokenless} if rows.tokenless is not None else {})}


def _table(number: int, run: Run, rows: Requests, facts: str) -> dict[str, Column]:
    size = len(rows)
    table: dict[str, Column] = {
        "run": _same(str(number), size),
        PLACE: np.arange(size, dtype=float) if rows.rows is None else rows.rows.astype(float),
        "input": _same(run.input, size),
    }
    if rows.ids is not None:
        table["request_id"] = np.array(rows.ids, object)
    table |= {name: column for name in _FLOATS if (column := getattr(rows, name)) is not None}
    table["error"] = np.where(rows.status == Status.FAILED, "failed", "").astype(object)
    table |= {"cancelled": rows.status == Status.CANCELLED, "warmup": rows.status == Status.WARMUP}
    if rows.gaps is not None:
        cuts = rows.gaps.offsets[1:-1]
        table["itl_s"] = np.fromiter(np.split(rows.gaps.values_s, cuts), object, size)
    if run.load is not None and (slots := run.load.concurrency or run.load.cap) is not None:
        table["concurrency"] = np.full(size, float(slots))
    if run.load is not None and run.load.request_rate is not None:
        table["request_rate"] = np.full(size, run.load.request_rate)
    table |= {name: _same(getattr(run, name), size) for name in _TEXTS if getattr(run, name)}
    if marks := _marks(rows):
        words = (" ".join(of for of in marks if marks[of][row]) for row in range(size))
        table[MARKS] = np.fromiter(words, object, size)
    return {**table, FACTS: _same(facts, size)}


def _same(text: str, size: int) -> Column:
    column = np.empty(size, object)
    column.fill(text)  # one text; np.full would make a copy for every row
    return column


# ---- back ------------------------------------------------------------------------------------


def restored(columns: Mapping[str, Column], *, gaps: bool) -> list[Run]:
    """The runs of a table, as they were exported; `input` and digests are the caller's to fill in.

    Raises ValueError where rows or runs are missing, doubled or of other runs.
    """
    if missing := [name for name in ("run", PLACE, FACTS) if name not in columns]:
        raise ValueError(f"was exported by slo-gate, and its column {missing[0]} is gone: {_AGAIN}")
    names, first, code = np.unique(columns["run"].astype(str), return_index=True, return_inverse=True)
    runs: list[Run] = []
    for number in np.argsort(first):
        picked = np.flatnonzero(code == number)
        picked = picked[np.argsort(columns[PLACE][picked], kind="stable")]
        part = {name: column[picked] for name, column in columns.items()}
        facts = _facts(part, str(names[number]))
        if facts.runs != len(names):
            raise ValueError(f"holds {len(names)} of the {facts.runs} runs that were exported: {_AGAIN}")
        runs.append(_run(part, facts, str(names[number]), gaps=gaps))
    return runs


def _facts(part: Mapping[str, Column], run: str) -> Any:
    texts = {text for text in part[FACTS].tolist() if text}
    if len(texts) != 1:
        found = "no facts" if not texts else "the facts of several runs"
        raise ValueError(f"run {run} has {found} in its column {FACTS}: {_AGAIN}")
    try:
        return _decoder().decode(texts.pop().encode())
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise ValueError(
            f"run {run} has facts in its column {FACTS} that are none ({error}): {_AGAIN}"
        ) from None


def _run(part: Mapping[str, Column], facts: Any, run: str, *, gaps: bool) -> Run:
    size, place = len(part["run"]), part[PLACE]
    recorded = frozenset(facts.recorded)
    words = [mark.split() for mark in part.get(MARKS, np.full(size, "", object)).tolist()]
    marks = {of: np.array([of in found for found in words], np.bool_) for of in facts.marks}
    status = np.where(part["error"] != "", Status.FAILED, Status.COMPLETED).astype(np.uint8)
    for name, code in (("cancelled", Status.CANCELLED), ("warmup", Status.WARMUP)):
        if name in part:
            status[part[name]] = code
    rows = Requests(
        status,
        **{name: _floats(part, name, recorded) for name in _FLOATS},
        order=facts.order,
        gaps=_gaps(part, size) if gaps and "gaps" in recorded else None,
        ids=tuple(part["request_id"].tolist()) if "request_id" in part else None,
        rows=place.astype(np.int64) if "rows" in recorded else None,
        doubted={of: column for of, column in marks.items() if of != _TOKENLESS},
        tokenless=marks.get(_TOKENLESS),
    )
    whole = "rows" in recorded or np.array_equal(place, np.arange(size))
    if not whole or len(set(place.tolist())) != size or rows.counts != facts.counts:
        expected = sum((facts.counts.attempted, facts.counts.cancelled, facts.counts.warmup))
        raise ValueError(f"run {run} has {size:,} rows, not the {expected:,} that were exported: {_AGAIN}")
    for of, column in marks.items():
        if column.sum() != facts.marks[of]:
            why = f'marks {column.sum():,} rows "{of}" in its column {MARKS}, not the {facts.marks[of]:,}'
            raise ValueError(f"run {run} {why} that were exported: {_AGAIN}")
    values = {one.name: getattr(facts, one.name) for one in fields(Run) if one.name not in _NOT_FACTS}
    return Run(input="", sha256="", evidence=rows, **values)


def _floats(part: Mapping[str, Column], name: str, recorded: frozenset[str]) -> Floats | None:
    if name not in recorded:
        return None
    column: Floats = part.get(name, np.full(len(part["run"]), np.nan))
    return column


def _gaps(part: Mapping[str, Column], size: int) -> Gaps | None:
    """The lists of gaps, flat; None where a text format has none."""
    if "itl_s" not in part:
        return None
    lists = [np.empty(0) if each is None else each for each in part["itl_s"].tolist()]
    offsets = np.cumsum([0, *map(len, lists)])
    return Gaps(np.concatenate([np.empty(0), *lists]), offsets.astype(np.int64))
