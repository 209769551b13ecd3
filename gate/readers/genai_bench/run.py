"""A run of genai-bench: its rows, its statistics, and the metadata beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import numpy as np

from ...model import Bools, Load, Requests, Run, Status, ToolReported
from .. import bursts, tables
from ..source import Doc, Source
from . import DEFINITIONS, IS_METADATA, NAME, TITLE

_METRICS = {"ttft": "ttft", "e2e": "e2e_latency", "tpot": "tpot"}  # ours -> the tool's
_PERCENTS = (25, 50, 75, 90, 95, 99)
_UNITS = {"s": 1.0, "ms": 1e-3}
_METADATA = "experiment_metadata.json"
_AGAIN = "run the benchmark again, or use the file as the tool wrote it"

_LOST_SHARE = 0.01  # of the requests sent; more without a row may hide failures
_LOST = (
    "genai-bench keeps no record of answers of one token and of requests in flight when the run ends:"
    " neither is in the file"
)
_LATE = "E2E ends with the stream, after the last token (usage chunk or [DONE])"


class _Row(msgspec.Struct, gc=False):
    ttft: tables.Cell
    e2e_latency: tables.Cell
    num_output_tokens: tables.Tokens
    error_code: int | None
    num_input_tokens: tables.Tokens = None
    error_message: str | None = None


class _Aggregated(msgspec.Struct):
    num_requests: int
    num_completed_requests: int
    num_error_requests: int
    scenario: str | None = None
    stats: dict[str, dict[str, tables.Cell]] = {}
    iteration_type: str = "num_concurrency"
    num_concurrency: int | None = None
    request_rate: float | None = None
    batch_size: int | None = None
    run_duration: tables.Cell = None
    error_rate: tables.Cell = None
    total_arrivals: int | None = None


def read(source: Source) -> Sequence[Run]:
    """The one run of the file. Raises InputError when it is broken, empty or contradicts itself."""
    doc = source.doc
    if source.shape == "objects":
        raise source.fail("holds several JSON objects", hint=_AGAIN)
    if source.keys >= IS_METADATA:
        raise source.fail("describes a genai-bench experiment and holds no request", hint=_RUN_FILE)
    said = doc.get("aggregated_metrics", _Aggregated)
    rows = doc.get("individual_request_metrics", list[_Row])
    if said is None or rows is None:
        raise source.fail("has no aggregated_metrics or no individual_request_metrics", doc.at, _AGAIN)
    if not rows:
        raise source.fail("holds no requests", doc.at, "run the benchmark again")
    _check(source, said, rows)
    return (_run(source, said, rows, _unit(doc)),)


_RUN_FILE = "pass the run's own file beside it, named SCENARIO_TASK_num_concurrency_N_time_Ss.json"


# ---- rows ---------------------------------------------------------------------------------


def _run(source: Source, said: _Aggregated, rows: Sequence[_Row], unit: float) -> Run:
    about = _metadata(source)
    edges, edge_notes = _edges(about, len(rows))
    table = _table(rows, unit, edges)
    if _generates_nothing(table):
        why = "holds no generated tokens: embeddings, images and speech have no TTFT or TPOT to judge"
        raise source.fail(why, hint="benchmark a text task, such as text-to-text")
    streaming, unsuitable, odd = bursts.judge(table)
    return Run(
        input=source.name,
        sha256=source.sha256,
        format=f"{NAME} run",
        tool=TITLE,
        evidence=table,
        counts=tables.counts(table),
        tool_version=about.text("benchmark_version") if about else None,
        model=about.text("api_model_name") if about else None,
        hardware=_hardware(about),
        scenario=said.scenario,
        load=_load(source, said),
        duration_s=None if edges.any() else _positive(said.run_duration),
        total_output_tokens=tables.output_total(table),
        streaming=streaming,
        definitions=DEFINITIONS,
        tool_reported=_reported(said, unit),
        unsuitable=_lost_rows(said) | ({"itl": bursts.NO_GAPS.format(TITLE)} | unsuitable),
        notes=(
            *tables.failure_note(table, [_message(row) for row in rows]),
            *_count_notes(said, table, rows),
            *edge_notes,
            *odd,
            *((f"traffic scenario {said.scenario}",) if said.scenario else ()),
            _LOST,
            _LATE,
        ),
    )


def _unit(doc: Doc) -> float:
    name = doc.text("_time_unit") or "s"
    if name not in _UNITS:
        raise doc.source.fail(f'"{name}" is no time unit of genai-bench', f"{doc.at}._time_unit", _AGAIN)
    return _UNITS[name]


def _table(rows: Sequence[_Row], unit: float, edges: Bools) -> Requests:
    return tables.requests(
        errors=np.array([row.error_code is not None for row in rows], dtype=np.bool_),
        ttft_s=tables.column([row.ttft for row in rows]) * unit,
        e2e_s=tables.column([row.e2e_latency for row in rows]) * unit,
        output_tokens=tables.column([row.num_output_tokens for row in rows]),
        input_tokens=tables.column([row.num_input_tokens for row in rows]),
        warmup=edges,
        order="completion",
    )


def _message(row: _Row) -> str:
    if row.error_code is None:
        return ""
    text = " ".join((row.error_message or "no message").split())
    return f"error_code {row.error_code} ({text[:50]})"


def _generates_nothing(table: Requests) -> bool:
    """For tasks without text genai-bench writes 0 tokens and an E2E that is the TTFT."""
    if table.output_tokens is None or table.ttft_s is None or table.e2e_s is None:
        return False
    known = np.isfinite(table.output_tokens)
    return bool((table.output_tokens[known] == 0).all() and (table.ttft_s == table.e2e_s)[known].all())


def _edges(about: Doc | None, n: int) -> tuple[Bools, tuple[str, ...]]:
    """Rows the tool leaves out of its statistics by index: --warmup-ratio, --cooldown-ratio."""
    edges = np.zeros(n, dtype=np.bool_)
    command = (about.text("cmd") if about else None) or ""
    first, last = (int(n * _ratio(command, name)) for name in ("warmup", "cooldown"))
    edges[:first] = True
    edges[n - last :] = True
    if not first and not last:
        return edges, ()
    what = f"the first {first} and the last {last} of {n} rows are the tool's warm-up and cool-down"
    return edges, (f"{what}: how long the rest took is not in the file (its throughputs divide by all)",)


def _ratio(command: str, name: str) -> float:
    found = re.search(rf"--{name}-ratio[ =]([0-9.]+)(?= |$)", command)
    try:
        return min(float(found[1]), 1.0) if found else 0.0
    except ValueError:
        return 0.0


# ---- what the file says besides -----------------------------------------------------------


def _metadata(source: Source) -> Doc | None:
    beside = source.beside(_METADATA) or source.beside(_METADATA + ".gz")
    return beside.doc if beside is not None and beside.shape == "object" else None


def _hardware(about: Doc | None) -> str | None:
    kind = about.text("server_gpu_type") if about else None
    number = about.text("server_gpu_count") if about else None
    return f"{number}x{kind}" if number and kind else kind


def _load(source: Source, said: _Aggregated) -> Load | None:
    kind = said.iteration_type
    if kind == "num_concurrency" and said.num_concurrency is not None:
        if said.num_concurrency <= 0:
            why = f"a concurrency of {said.num_concurrency} sends nothing"
            raise source.fail(why, "$.aggregated_metrics.num_concurrency", _AGAIN)
        return Load(concurrency=said.num_concurrency)
    if kind == "request_rate" and said.request_rate is not None and said.request_rate > 0:
        return Load(request_rate=said.request_rate)
    return None


def _positive(cell: float | str | None) -> float | None:
    return cell if isinstance(cell, float) and cell > 0 else None


def _check(source: Source, said: _Aggregated, rows: Sequence[_Row]) -> None:
    failed = sum(row.error_code is not None for row in rows)
    stated = (said.num_requests, said.num_completed_requests, said.num_error_requests)
    if stated != (len(rows), len(rows) - failed, failed):
        why = (
            f"contradicts itself: it says {stated[0]} requests, {stated[1]} completed and {stated[2]} failed,"
            f" its list has {len(rows)} rows, {failed} of them failed"
        )
        raise source.fail(why, "$.aggregated_metrics", _AGAIN)


def _count_notes(said: _Aggregated, table: Requests, rows: Sequence[_Row]) -> tuple[str, ...]:
    notes = []
    failed = said.num_error_requests
    if failed and said.error_rate == 0:
        share = f"{failed} of {said.num_requests} failed ({failed / said.num_requests:.1%})"
        notes.append(f"the tool's error_rate is 0 in every file, and wrong here: {share}")
    empty = int((table.status == Status.FAILED).sum()) - sum(
        row.error_code is not None and status == Status.FAILED
        for row, status in zip(rows, table.status.tolist(), strict=True)
    )
    if empty:
        notes.append(
            f"the tool counts {said.num_completed_requests} completed; {empty} of them have no valid TTFT,"
            " E2E or output token and count as failed"
        )
    if said.total_arrivals is not None and said.total_arrivals > said.num_requests:
        lost = said.total_arrivals - said.num_requests
        notes.append(f"{said.total_arrivals} requests were sent, {lost} of them have no row")
    return tuple(notes)


def _lost_rows(said: _Aggregated) -> dict[str, str]:
    """Requests that were sent and have no row, beyond those in flight at the end: they may have failed."""
    sent, rows = said.total_arrivals, said.num_requests
    if sent is None or sent - rows <= max(_LOST_SHARE * sent, said.num_concurrency or 0):
        return {}
    why = f"{sent} requests were sent and {rows} have a row: the rest may have failed"
    return {"attempted": f"{why}; give the run more time, or fewer requests"}


def _reported(said: _Aggregated, unit: float) -> dict[str, ToolReported]:
    found = {}
    for metric, name in _METRICS.items():
        named = {key: value for key, value in said.stats.get(name, {}).items() if isinstance(value, float)}
        points = tuple((float(p), named[f"p{p}"] * unit) for p in _PERCENTS if f"p{p}" in named)
        if points:
            mean = named["mean"] * unit if "mean" in named else None
            found[metric] = ToolReported(points, _METHOD, mean)
    return found


_METHOD = "numpy linear over completed requests without the tool's warm-up and cool-down"
