"""Rows of a home-made harness, in base units, as runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from ... import canonical
from ...errors import InputError
from ...model import Doubt, Floats, Load, Requests, Status, Why
from .. import clocks, tables, telltales
from ..loads import load
from ..source import COLUMNAR, Source
from ..told import Told
from . import NAME, cells as _cells, columns as _columns

# What people call our columns; difflib finds misspellings, not synonyms.
_SYNONYMS = {
    "latency": "e2e_s",
    "request_latency": "e2e_s",
    "e2el": "e2e_s",
    "end_to_end_latency": "e2e_s",
    "total_time": "e2e_s",
    "duration": "e2e_s",
    "time_to_first_token": "ttft_s",
    "first_token_latency": "ttft_s",
    "completion_tokens": "output_tokens",
    "generation_tokens": "output_tokens",
    "output_len": "output_tokens",
    "prompt_tokens": "input_tokens",
    "input_len": "input_tokens",
    "timestamp": "start_s",
    "start_time": "start_s",
    "launch_time": "start_s",
    "inter_token_latencies": "itl_s",
    "itls": "itl_s",
}
_NO_GAPS = np.empty(0)
_DOC = "`slo-gate tools generic` lists the columns"


class _Rows(Struct, frozen=True, eq=False):
    """The whole file in base units, before it is split into runs."""

    table: _cells.Table
    times_s: Mapping[str, Floats]  # start, ttft, e2e where recorded
    gaps_s: _cells.Column | None  # arrays, None where a row has no list
    definitions: Mapping[str, str]
    doubts: tuple[Doubt, ...]
    notes: tuple[str, ...]


def decode(source: Source) -> Sequence[Told]:
    """What is told of each (run, concurrency, request_rate), in order of appearance.

    Raises InputError for a file without rows or latencies, a quantity in two units, a cell that
    means nothing, or a constant that changes within a run.
    """
    if source.shape in ("empty", "binary"):
        raise source.fail("is empty" if source.shape == "empty" else "is not text", hint=_DOC)
    columns = _columns.head_columns(source)
    if canonical.FACTS in columns:
        return tuple(_exported(source))
    wanted = source.gaps or not any(name in columns for name in _cells.TIME_COLUMNS if name[:3] == "e2e")
    if lost := [theirs for ours, theirs in source.columns.items() if ours not in columns]:
        near = ", ".join(columns[:8])
        raise source.fail(f'has no column "{lost[0]}", which is mapped; its columns: {near}', hint=_DOC)
    table = _columns.load(source, gaps=wanted)
    if not table.size:
        raise source.fail("holds no requests", hint="write one row a request; " + _DOC)
    _refuse_hidden_failures(source, table, columns)
    rows = _in_base_units(source, table, columns)
    kind = {"text": "csv", "array": "json"}.get(source.shape, "jsonl")
    kind = source.shape if source.shape in COLUMNAR else kind
    return tuple(_told(source, f"{NAME} {kind}", rows, *group) for group in _groups(source, table))


def _exported(source: Source) -> Iterator[Told]:
    """What `slo-gate export` wrote: runs that are settled. Raises InputError where rows are missing."""
    table = _columns.load(source, gaps=source.gaps)
    try:
        for run in canonical.restored(table.columns, gaps=source.gaps):
            yield Told(format=run.format, evidence=run.evidence, retries=0, settled=run)
    except ValueError as error:
        raise source.fail(str(error)) from None


# ---- the whole file -----------------------------------------------------------------------


def _in_base_units(source: Source, table: _cells.Table, columns: Sequence[str]) -> _Rows:
    named = {time: name for time in (*_cells.TIMES, "itl") if (name := _only(source, time, table))}
    gaps_s, times_s = table.columns.get(named.get("itl", "")), {}
    for time in named.keys() - {"itl"}:
        column, per_s = table.columns[named[time]], _cells.TIME_COLUMNS[named[time]][1]
        if per_s != 1:
            column /= per_s  # in place: columns of many rows are there once
        column[np.isinf(column)] = np.nan
        times_s[time] = column
    if not times_s.keys() & {"ttft", "e2e"} and not _all_failed(table, columns):
        raise _no_latency(source, columns)
    definitions = {time: f"the column {name}" for time, name in named.items() if time not in ("start", "itl")}
    notes = _column_notes(columns)
    if "e2e" not in times_s and gaps_s is not None:
        sums = np.array([np.nan if gaps is None else gaps.sum() for gaps in gaps_s])
        times_s["e2e"] = times_s["ttft"] + sums
        definitions["e2e"] = f"{named['ttft']} + the sum of {named['itl']}"
        notes = (*notes, "E2E is TTFT + the sum of the gaps, because there is no e2e column")
    if {"ttft", "e2e"} <= times_s.keys() and _recorded(table, "output_tokens"):
        definitions["tpot"] = "(E2E - TTFT) / (output_tokens - 1)"
    if "itl" in named:
        definitions["itl"] = f"the list {named['itl']}"
    doubts = tuple(_absent(times_s, table, columns))
    return _Rows(table, times_s, gaps_s if source.gaps else None, definitions, doubts, notes)


def _only(source: Source, what: str, table: _cells.Table) -> str | None:
    """The column of a quantity that holds values; two are an error, because one of them is wrong."""
    names = [name for unit in _cells.UNITS if (name := f"{what}_{unit}") in table.columns]
    if len(names) > 1:
        raise source.fail(f"{what} is in two columns, {names[0]} and {names[1]}", hint="keep one of them")
    return names[0] if names else None


def _recorded(table: _cells.Table, name: str) -> bool:
    return name in table.columns and bool(np.isfinite(table.columns[name]).any())


def _absent(times_s: Mapping[str, Floats], table: _cells.Table, columns: Sequence[str]) -> Iterator[Doubt]:
    """What no row has, and which column would give it."""
    missing = [f"{metric}_s" for metric in ("ttft", "e2e") if metric not in times_s]
    for name in missing:
        why = f"no row has {name}; write that column (or _ms, _us, _ns)"
        yield Doubt(Why.ABSENT, (name[:-2],), why)
    if not _recorded(table, "output_tokens"):
        missing.append("output_tokens")
    if missing:
        why = f"TPOT needs {' and '.join(missing)}, which no row has; write what is missing"
        yield Doubt(Why.ABSENT, ("tpot",), why)
    if not any(name in columns or name in table.columns for name in _cells.GAP_COLUMNS):
        why = "no row has itl_s; write the list of gaps of each request (JSON lines only)"
        yield Doubt(Why.NO_GAPS, ("itl",), why)


# ---- names --------------------------------------------------------------------------------


def near_columns(source: Source) -> InputError | None:
    """The error for rows that nearly have a latency; None for what is no table of requests."""
    header = source.shape == "text" and len(_columns.head_columns(source)) < 2
    if source.shape not in ("objects", "array", "object", "text") or header:
        return None
    columns = _columns.head_columns(source)
    return _no_latency(source, columns) if _near_latencies(columns) else None


def _near_latencies(columns: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, ours) for name in columns if (ours := _near(name)) and ours[:3] in ("e2e", "ttf")]


def _no_latency(source: Source, columns: Sequence[str]) -> InputError:
    near = _near_latencies(columns)
    if any(name in _cells.LATENCIES for name in columns):
        return source.fail("no row has a value in a ttft or e2e column", hint=_DOC)
    if not near:
        shown = ", ".join(columns[:8]) or "none"
        return source.fail(f"has no ttft_s or e2e_s column; its columns: {shown}", hint=_DOC)
    shown = ", ".join(f'"{name}" (meant as {ours}?)' for name, ours in near)
    return source.fail(
        f"has no ttft_s or e2e_s column, but {shown}",
        hint=f"pass --map {near[0][1]}={near[0][0]}, or rename the column with its unit; {_DOC}",
    )


def _near(name: str) -> str | None:
    """The column of ours that `name` was probably meant to be."""
    if name in _cells.KNOWN:
        return None
    lower = telltales.snake(name)
    if telltales.tells(name):
        return "error"
    stem, _, unit = lower.rpartition("_")
    unit = {"sec": "s", "secs": "s", "second": "s", "seconds": "s", "millis": "ms"}.get(unit, unit)
    if unit not in _cells.UNITS:
        stem, unit = lower, "s"
    ours = (
        _SYNONYMS.get(stem)
        or _SYNONYMS.get(lower)
        or (f"{stem}_s" if stem in ("ttft", "e2e", "start", "itl") else "")
    )
    if ours.endswith("_s"):
        return f"{ours[:-2]}_{unit}"
    from difflib import get_close_matches  # only when something is wrong: costs start-up time

    return ours or next(iter(get_close_matches(lower, _cells.KNOWN, 1, 0.85)), None)


def _column_notes(columns: Sequence[str]) -> tuple[str, ...]:
    others = [name for name in columns if name not in _cells.KNOWN or name in _cells.EXPORTED]
    if not others:
        return ()
    shown = ", ".join(f"{name} (meant as {ours}?)" if (ours := _near(name)) else name for name in others[:12])
    more = f" and {len(others) - 12} more" if len(others) > 12 else ""
    return (f"columns not read: {shown}{more}",)


def _all_failed(table: _cells.Table, columns: Sequence[str]) -> bool:
    """Rows with a latency column and no latency in it are an outage, if every one has an error."""
    named = {_cells.TIME_COLUMNS[name][0] for name in columns if name in _cells.TIME_COLUMNS}
    return bool(named & {"ttft", "e2e"}) and bool(table.failed.all())


def _refuse_hidden_failures(source: Source, table: _cells.Table, columns: Sequence[str]) -> None:
    """Columns that tell of failures and are not read: the rows would count as completed."""
    hint = "write it as error: null for a success, else what went wrong; " + _DOC
    column, at, word = table.denied
    has_error = "error" in columns or bool(table.failed.any())
    said = f'says "{word}", which is not known as a success' if word else "says that the row failed"
    if column and has_error:
        other = f'or write success or an HTTP status into "{column}", or leave it out; {_DOC}'
        unclear = f"where the row failed, write what went wrong as error; {other}"
        raise source.fail(f'error is empty, but the column "{column}" {said}', at, unclear if word else hint)
    if wrong := next((name for name in columns if telltales.is_error(name)), None):
        raise source.fail(f'the column "{wrong}" is not read: the name is error', hint=hint)
    if has_error:
        return
    if spoken := sorted(table.spoken):
        why = f'the column "{spoken[0]}" may tell of failures, and there is no column error'
        raise source.fail(why, hint=hint)
    if column:
        raise source.fail(f'"{column}" {said}, and there is no column error', at, hint)


# ---- one run ------------------------------------------------------------------------------


_Picked: TypeAlias = "NDArray[np.int64] | slice"  # row numbers; a slice is every row, and costs no copy


def _groups(source: Source, table: _cells.Table) -> Iterator[tuple[str, Load | None, _Picked]]:
    """(run, load, rows) of every run, in order of appearance."""
    keys = [_key(source, name, table) for name in ("run", *_cells.LOADS)]
    apart = [codes for _, codes in keys if codes is not None]
    if not apart:
        run, concurrency, rate = (values[0] for values, _ in keys)
        yield str(run), _load(source, concurrency, rate, partial(table.at, 0)), slice(None)
        return
    _, first, group = np.unique(np.stack(apart), axis=1, return_index=True, return_inverse=True)
    for number in np.argsort(first):
        picked = np.flatnonzero(group.reshape(-1) == number)
        run, concurrency, rate = (values[0 if codes is None else codes[picked[0]]] for values, codes in keys)
        yield str(run), _load(source, concurrency, rate, partial(table.at, int(picked[0]))), picked


def _key(
    source: Source, name: str, table: _cells.Table
) -> tuple[Sequence[str | float], NDArray[np.int64] | None]:
    """The different values of a column that tells runs apart, and which one each row has; None: the only one.

    A blank is filled where the file has one value; else nobody knows where the row belongs.
    """
    if name not in table.columns:
        return [""], None
    column = table.columns[name]
    column = column.astype(str) if column.dtype == object else column
    blank = np.isnan(column) if column.dtype == float else column == ""
    if blank.all():
        return [""], None
    values, codes = np.unique(column[~blank], return_inverse=True)
    if len(values) == 1:
        return values.tolist(), None
    if blank.any():
        raise source.fail(
            f"the row has no {name}, and others have {len(values)} different ones",
            table.at(int(np.argmax(blank))),
            f"write {name} into every row",
        )
    return values.tolist(), codes


def _load(source: Source, concurrency: str | float, rate: str | float, at: Callable[[], str]) -> Load | None:
    if isinstance(concurrency, float) and (concurrency < 1 or concurrency != concurrency // 1):
        raise source.fail(f"concurrency is {concurrency:g}: write a whole number from 1", at())
    if isinstance(rate, float) and rate <= 0:
        raise source.fail(f"request_rate is {rate:g}: write requests per second above 0, or inf", at())
    cap = int(concurrency) if isinstance(concurrency, float) else None
    return load(rate=rate if isinstance(rate, float) else None, slots=cap)


def _told(source: Source, kind: str, rows: _Rows, run: str, load: Load | None, picked: _Picked) -> Told:
    table = rows.table
    part = _requests(rows, picked)
    starts, e2e_s, attempted, span_s = part.start_s, part.e2e_s, part.attempted, None
    if starts is not None and e2e_s is not None:
        judged = slice(None) if attempted.all() else attempted  # a slice costs no copy
        span_s = clocks.span_s(starts[judged], (starts + e2e_s)[judged])
    constant = {name: _constant(source, name, table, picked) for name in _cells.TEXTS if name != "run"}
    return Told(
        format=kind,
        evidence=part,
        retries=table.retries,  # one row is one attempt, unless a column says otherwise
        tool=constant["tool"] or NAME,
        version=constant["tool_version"],
        model=constant["model"],
        hardware=constant["hardware"],
        session=constant["session"],
        load=load,
        duration_s=span_s,
        prompts=tables.different(_each(table, "prompt", picked) or ()),
        has_gaps=True,  # _absent says where no row has them
        definitions=rows.definitions,
        columns=source.columns,
        messages=table.columns["error"][picked],
        doubts=(*_led_by_ttft(part), *rows.doubts),
        notes=(*((f"run {run}",) if run else ()), *rows.notes),
    )


def _each(table: _cells.Table, name: str, picked: _Picked) -> tuple[str, ...] | None:
    """A text of every row, or None where a row has none."""
    mine = table.columns[name][picked].tolist() if name in table.columns else ()
    return tuple(mine) if mine and all(mine) else None


def _requests(rows: _Rows, picked: _Picked) -> Requests:
    known = {name: column[picked] for name, column in {**rows.table.columns, **rows.times_s}.items()}
    start_s = known.get("start")
    gaps = None if rows.gaps_s is None else rows.gaps_s[picked].tolist()
    ascending = start_s is not None and bool(np.all(np.diff(start_s) >= 0))  # false where one is NaN
    part = tables.requests(
        errors=rows.table.failed[picked],
        ttft_s=known.get("ttft"),
        e2e_s=known.get("e2e"),
        output_tokens=known.get("output_tokens"),
        input_tokens=known.get("input_tokens"),
        start_s=start_s,
        cancelled=known.get("cancelled"),
        warmup=known.get("warmup"),
        gaps=None if gaps is None else tables.gaps([_NO_GAPS if each is None else each for each in gaps]),
        order="start" if ascending else "unknown",
    )
    return replace(part, ids=_each(rows.table, "request_id", picked))


def _constant(source: Source, name: str, table: _cells.Table, picked: _Picked) -> str | None:
    if name not in table.columns:
        return None
    mine = table.columns[name][picked]
    values = [value for value in dict.fromkeys(mine.tolist()) if value]
    if len(values) > 1:
        raise source.fail(
            f'{name} changes from "{values[0]}" to "{values[1]}" within one run',
            table.at(int(np.arange(table.size)[picked][np.argmax(mine == values[1])])),
            "give the rows of each a different value in the run column",
        )
    return values[0] if values else None


def _led_by_ttft(part: Requests) -> Iterator[Doubt]:
    """Why not to judge ITL although there is a list of gaps."""
    if part.gaps is None or part.ttft_s is None:
        return
    some = (part.status == Status.COMPLETED) & (np.diff(part.gaps.offsets) > 0)
    first = part.gaps.values_s[part.gaps.offsets[:-1][some]]
    if some.any() and np.mean(first == part.ttft_s[some]) > 0.5:
        why = "the first gap of most requests is their TTFT; leave it out of the itl list"
        yield Doubt(Why.DEFINITION, ("itl",), why)
