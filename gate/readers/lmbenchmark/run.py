"""The columns of either CSV, as a run."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

import numpy as np
from msgspec import Struct

from ...model import Floats, Load, Requests, Run
from .. import bursts, tables
from ..source import Source
from . import DEFINITIONS, NAME, SECONDS, TITLE, columns_of

_MULTITURN_DEFINITIONS: Mapping[str, str] = {
    "ttft": "ttft_ms; where the first chunk held k tokens, (k - 1) * tpot_ms more, which the tool took off",
    "e2e": "latency_ms: send to the end of the stream",
    "tpot": "tpot_ms: (latency - arrival of the first chunk) / (tokens - tokens of the first chunk)",
    "itl": "not recorded",
}
_NO_FAILURES = (
    "this CSV has only requests that finished, so failures cannot be seen; compare its {} rows with the"
    " requests that were sent, or measure with a tool that records failures"
)
_COUNTED = "output tokens are counted by the client's tokenizer, not by the server"
_CLAMPED_MS = 0.1  # the least TTFT the multi-turn client writes after its subtraction
_SAME_S = 1e-3
_RATE_AGREES = 0.05
_MOST = 1e15  # milliseconds of any clock; beyond it lies no measurement
_AGAIN = "run the benchmark again, or copy the file whole"


def read(source: Source) -> Sequence[Run]:
    """The one run of the file. Raises InputError when it is cut short, empty or not all numbers."""
    wanted = columns_of(source.head)
    if wanted is None:
        raise source.fail("has not the columns of LMBenchmark or of the InferenceX multi-turn client")
    cells = _cells(source, wanted)
    return (_seconds(source, cells) if wanted is SECONDS else _multiturn(source, cells),)


# ---- LMBenchmark --------------------------------------------------------------------------


def _seconds(source: Source, cells: Mapping[str, Floats]) -> Run:
    ttft_s, decode_s, start_s = cells["ttft"], cells["generation_time"], cells["launch_time"]
    whole_s = cells["finish_time"] - start_s
    # An answer without visible content gets the whole time in both columns.
    empty = (ttft_s >= whole_s - _SAME_S) & (decode_s >= whole_s - _SAME_S)
    table = tables.requests(
        errors=empty,
        ttft_s=ttft_s,
        e2e_s=ttft_s + decode_s,
        output_tokens=cells["generation_tokens"],
        input_tokens=cells["prompt_tokens"],
        start_s=start_s,
        order="start",
    )
    load, sent = _named_rate(source, table)
    texts = ["an answer without visible content" if one else "" for one in empty.tolist()]
    first = float(np.nanmin(start_s)) if np.isfinite(start_s).any() else 0.0
    return _run(
        source,
        table,
        "LMBenchmark",
        load=load,
        duration_s=_span(start_s, cells["finish_time"]),
        date=_day(first),
        definitions=DEFINITIONS,
        notes=(
            *tables.failure_note(table, texts),
            *sent,
            "E2E ends with the stream, after the last token",
        ),
    )


def _named_rate(source: Source, table: Requests) -> tuple[Load | None, tuple[str, ...]]:
    """The rate in the name the run scripts give (..._output_0.5.csv), if launches kept it."""
    name = source.path.name.removesuffix(".gz") if source.path is not None else ""
    found = re.search(r"_output_(\d+(?:\.\d+)?)\.csv$", name)
    named = float(found[1]) if found else 0.0
    if table.start_s is None or len(table) < 2 or not (span := float(np.ptp(table.start_s))) > 0:
        return None, ()
    sent = (len(table) - 1) / span
    if named and abs(sent - named) <= _RATE_AGREES * named:
        return Load(request_rate=named), ()
    if named:
        return None, (f"the name says {named:g} req/s, requests were sent at {sent:.3g} req/s",)
    return None, (f"requests were sent at {sent:.3g} req/s; state the load with --set request_rate",)


def _day(epoch_s: float) -> str | None:
    if not 1e9 < epoch_s < 1e10:  # 2001 to 2286: else no Unix time
        return None
    return datetime.fromtimestamp(epoch_s, timezone.utc).strftime("%Y-%m-%d")


# ---- the multi-turn client ----------------------------------------------------------------


def _multiturn(source: Source, cells: Mapping[str, Floats]) -> Run:
    ttft_ms, tpot_ms, e2e_ms = cells["ttft_ms"], cells["tpot_ms"], cells["latency_ms"]
    tokens, first = cells["output_num_tokens"], cells["output_num_first_chunk_tokens"]
    bundled = first > 1
    clamped = bundled & (ttft_ms <= _CLAMPED_MS)
    arrival_ms = np.where(clamped, e2e_ms - (tokens - first) * tpot_ms, ttft_ms + (first - 1) * tpot_ms)
    table = tables.requests(
        errors=np.zeros(len(tokens), dtype=np.bool_),
        ttft_s=np.where(bundled, arrival_ms, ttft_ms) / 1000,
        e2e_s=e2e_ms / 1000,
        output_tokens=tokens,
        input_tokens=cells["input_num_tokens"],
        start_s=cells["start_time_ms"] / 1000,
        order="start",
    )
    command = _command(source)
    clients = len(np.unique(cells["client_id"]))
    more = [] if command.load else [f"{clients} clients sent requests; state the load with --set concurrency"]
    if number := int(bundled.sum()):
        more.append(
            f"the tool's TTFT of {number} requests is an estimate below the arrival of their first chunk,"
            " which held several tokens; slo-gate counts the arrival"
        )
    if command.retries:
        more.append(
            f"the client repeats a failed request up to {command.retries} times and keeps no record of it"
        )
    start_s = cells["start_time_ms"] / 1000
    return _run(
        source,
        table,
        "multi-turn",
        load=command.load,
        model=command.model,
        duration_s=_span(start_s, start_s + e2e_ms / 1000),
        definitions=_MULTITURN_DEFINITIONS,
        notes=(*tables.failure_note(table, [""] * len(table)), *more, _COUNTED),
    )


class _Command(Struct, frozen=True):
    """What benchmark_command.txt beside the CSV says."""

    load: Load | None = None
    model: str | None = None
    retries: int = 0


def _command(source: Source) -> _Command:
    beside = source.beside("benchmark_command.txt")
    words = beside.head.split() if beside is not None else []
    said = {words[i].lstrip("-"): words[i + 1] for i in range(len(words) - 1) if words[i].startswith("-")}
    clients = _whole(said.get("p") or said.get("num-clients"))
    # With several conversations a client, more requests are in flight than there are clients.
    several = {"k", "max-active-conversations"} & said.keys()
    return _Command(
        load=Load(concurrency=clients) if clients and not several else None,
        model=said.get("m") or said.get("model"),
        retries=_whole(said.get("max-retries")) or 0,
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


# ---- both ---------------------------------------------------------------------------------


def _run(
    source: Source,
    table: Requests,
    kind: str,
    *,
    load: Load | None,
    duration_s: float | None,
    definitions: Mapping[str, str],
    notes: tuple[str, ...],
    model: str | None = None,
    date: str | None = None,
) -> Run:
    streaming, unsuitable, odd = bursts.judge(table)
    blind = _NO_FAILURES.format(len(table))
    return Run(
        input=source.name,
        sha256=source.sha256,
        format=f"{NAME} {kind}",
        tool=TITLE if kind == TITLE else "InferenceX multi-turn client",
        evidence=table,
        counts=tables.counts(table),
        model=model,
        load=load,
        duration_s=duration_s,
        date=date,
        total_output_tokens=tables.output_total(table),
        streaming=streaming,
        definitions=definitions,
        unsuitable={"itl": bursts.NO_GAPS.format("this CSV"), **unsuitable, "error_rate": blind},
        notes=(*notes, *odd, blind),
    )


def _span(start_s: Floats, end_s: Floats) -> float | None:
    if not np.isfinite(start_s).any() or not np.isfinite(end_s).any():
        return None
    span = float(np.nanmax(end_s) - np.nanmin(start_s))
    return span if span > 0 else None


def _cells(source: Source, wanted: Sequence[str]) -> dict[str, Floats]:
    """The wanted columns as numbers; an empty cell is NaN."""
    text = bytes(source.data).decode("utf-8-sig", "replace")
    if not text.endswith("\n"):
        raise source.fail("the last line does not end: the file is cut short", hint=_AGAIN)
    try:
        rows = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error as error:
        raise source.fail(f"is not CSV: {error}", hint=_AGAIN) from None
    header = [name.strip() for name in rows[0]]
    lines = [(number, row) for number, row in enumerate(rows[1:], 2) if row]
    if not lines:
        raise source.fail("holds no requests", hint="run the benchmark again")
    for number, row in lines:
        if len(row) != len(header):
            why = f"has {len(row)} columns, the header {len(header)}"
            raise source.fail(why, f"line {number}", _AGAIN)
    cells = {name: _numbers(source, name, header.index(name), lines) for name in wanted}
    for name in wanted:
        if "tokens" in name and (cells[name] < 0).any():
            raise source.fail(f"a negative token count: {np.nanmin(cells[name]):g}", name)
    return cells


def _numbers(source: Source, name: str, at: int, lines: Sequence[tuple[int, list[str]]]) -> Floats:
    values = []
    for number, row in lines:
        try:
            values.append(float(row[at]) if row[at].strip() else np.nan)
        except ValueError:
            raise source.fail(f'"{row[at][:40]}" is no number', f"line {number}, {name}", _AGAIN) from None
    found = np.array(values, dtype=np.float64)
    found[~(np.abs(found) <= _MOST)] = np.nan
    return found
