"""The columns of either CSV, as a run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...model import Floats, Load, Requests
from .. import clocks, tables
from ..kinds import kind_of
from ..loads import load as load_of
from ..source import Source
from ..stored import unpacked_name
from ..told import Told
from . import COUNTS, KINDS, NAME, SECONDS, TITLE

_NO_FAILURES = (
    "this CSV has only requests that finished, so failures cannot be seen; compare its {} rows with the"
    " requests that were sent, or measure with a tool that records failures"
)
_MULTITURN_COLUMNS = (*("start_time_ms", "ttft_ms", "tpot_ms", "latency_ms", "client_id"), *COUNTS)
_RETRIES = 2  # of the OpenAI client, which LMBenchmark makes with its defaults
_CLAMPED_MS = 0.1  # the least TTFT the multi-turn client writes after its subtraction
_SAME_S = 1e-3
_RATE_AGREES = 0.05
_MOST = 1e15  # milliseconds of any clock; beyond it lies no measurement
_AGAIN = "run the benchmark again, or copy the file whole"
_Cells = Mapping[str, Floats]


def decode(source: Source) -> Told:
    """What the file says. Raises InputError when it is cut short, empty or not all numbers."""
    kind = kind_of(source, KINDS)
    if kind is None:
        why = "has not the columns of LMBenchmark or of the InferenceX multi-turn client"
        raise source.fail(why, hint=_AGAIN)
    if kind is SECONDS:
        return _seconds(source, _cells(source, sorted(kind.header)))
    return _multiturn(source, _cells(source, _MULTITURN_COLUMNS))


def _told(table: Requests, **facts: Any) -> Told:
    return Told(evidence=table, hides_failures=_NO_FAILURES.format(len(table)), **facts)


# ---- LMBenchmark --------------------------------------------------------------------------


def _seconds(source: Source, cells: _Cells) -> Told:
    ttft_s, decode_s, start_s = cells["ttft"], cells["generation_time"], cells["launch_time"]
    whole_s = cells["finish_time"] - start_s
    # An answer without visible content gets the whole time in both columns.
    empty = (ttft_s >= whole_s - _SAME_S) & (decode_s >= whole_s - _SAME_S)
    table = tables.requests(
        errors=empty | clocks.unset(start_s),
        ttft_s=ttft_s,
        e2e_s=ttft_s + decode_s,
        output_tokens=cells["generation_tokens"],
        input_tokens=cells["prompt_tokens"],
        start_s=start_s,
        order="start",
    )
    load, sent = _named_rate(source, table)
    return _told(
        table,
        format=f"{NAME} LMBenchmark",
        tool=TITLE,
        retries=_RETRIES,
        load=load,
        duration_s=clocks.span_s(start_s, cells["finish_time"]),
        date=clocks.day(start_s),
        messages=["an answer without visible content" if one else "" for one in empty.tolist()],
        notes=(*sent, "E2E ends with the stream, after the last token"),
    )


def _named_rate(source: Source, table: Requests) -> tuple[Load | None, tuple[str, ...]]:
    """The rate in the name the run scripts give (..._output_0.5.csv), if launches kept it."""
    name = unpacked_name(source.path.name) if source.path is not None else ""
    match = re.search(r"_output_(\d+(?:\.\d+)?)\.csv$", name)
    named = float(match[1]) if match else 0.0
    if table.start_s is None or len(table) < 2 or not (span := float(np.ptp(table.start_s))) > 0:
        return None, ()
    sent = (len(table) - 1) / span
    if named and abs(sent - named) <= _RATE_AGREES * named:
        return Load(request_rate=named), ()
    if named:
        return None, (f"the name says {named:g} req/s, requests were sent at {sent:.3g} req/s",)
    return None, (f"requests were sent at {sent:.3g} req/s; state the load with --set request_rate",)


# ---- the multi-turn client ----------------------------------------------------------------


def _multiturn(source: Source, cells: _Cells) -> Told:
    ttft_ms, tpot_ms, e2e_ms = cells["ttft_ms"], cells["tpot_ms"], cells["latency_ms"]
    tokens, first = cells["output_num_tokens"], cells["output_num_first_chunk_tokens"]
    bundled = first > 1
    clamped = bundled & (ttft_ms <= _CLAMPED_MS)
    arrival_ms = np.where(clamped, e2e_ms - (tokens - first) * tpot_ms, ttft_ms + (first - 1) * tpot_ms)
    start_s = cells["start_time_ms"] / 1000
    table = tables.requests(
        errors=np.zeros(len(tokens), dtype=np.bool_),
        ttft_s=np.where(bundled, arrival_ms, ttft_ms) / 1000,
        e2e_s=e2e_ms / 1000,
        output_tokens=tokens,
        input_tokens=cells["input_num_tokens"],
        start_s=start_s,
        order="start",
    )
    command = _command(source)
    load, notes = (
        _clients(command),
        ["output tokens are counted by the client's tokenizer, not by the server"],
    )
    if number := int(bundled.sum()):
        notes.append(
            f"the tool's TTFT of {number} requests is an estimate below the arrival of their first chunk,"
            " which held several tokens; slo-gate counts the arrival"
        )
    if load is None:
        clients = len(np.unique(cells["client_id"]))
        notes.append(f"{clients} clients sent requests; state the load with --set concurrency")
    return _told(
        table,
        format=f"{NAME} multi-turn",
        tool="InferenceX multi-turn client",
        retries=_whole(command.get("max-retries")),
        load=load,
        model=command.get("m") or command.get("model"),
        duration_s=clocks.span_s(start_s, start_s + e2e_ms / 1000),
        streamed=False if "no-stream" in command else None,
        stream_with="leave out --no-stream",
        messages=[""] * len(table),
        notes=tuple(notes),
    )


def _command(source: Source) -> Mapping[str, str]:
    """The options of benchmark_command.txt beside the CSV; a flag has the word after it."""
    beside = source.beside("benchmark_command.txt")
    words = [*(beside.head.split() if beside is not None else ()), ""]
    return {words[i].lstrip("-"): words[i + 1] for i in range(len(words) - 1) if words[i].startswith("-")}


def _clients(command: Mapping[str, str]) -> Load | None:
    """With several conversations a client, more requests are in flight than there are clients."""
    clients = _whole(command.get("p") or command.get("num-clients"))
    several = {"k", "max-active-conversations"} & command.keys()
    return None if several else load_of(slots=clients)


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


# ---- both ---------------------------------------------------------------------------------


def _cells(source: Source, wanted: Sequence[str]) -> dict[str, Floats]:
    """The wanted columns as numbers; an empty cell is NaN."""
    if bytes(source.data[-1:]) != b"\n":
        raise source.fail("the last line does not end: the file is cut short", hint=_AGAIN)
    rows = source.table()
    header, lines = rows[0], list(enumerate(rows[1:], 2))
    if not lines:
        raise source.fail("holds no requests", hint="run the benchmark again")
    if missing := [name for name in wanted if name not in header]:
        raise source.fail(f"has no column {missing[0]}", hint=_AGAIN)
    cells = {name: _numbers(source, name, header.index(name), lines) for name in wanted}
    for name in wanted:
        if "tokens" in name and (cells[name] < 0).any():
            raise source.fail(f"a negative token count: {np.nanmin(cells[name]):g}", name, _AGAIN)
    return cells


def _numbers(source: Source, name: str, at: int, lines: Sequence[tuple[int, list[str]]]) -> Floats:
    values = []
    for number, row in lines:
        try:
            values.append(float(row[at]) if row[at].strip() else np.nan)
        except ValueError:
            raise source.fail(f'"{row[at][:40]}" is no number', f"line {number}, {name}", _AGAIN) from None
    numbers = np.array(values, dtype=np.float64)
    numbers[~(np.abs(numbers) <= _MOST)] = np.nan
    return numbers
