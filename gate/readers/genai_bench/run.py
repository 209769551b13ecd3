"""A run of genai-bench: its rows, its statistics, and the metadata beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from ...model import Load, Summary
from .. import kinds, loads, tables
from ..ladders import ladder
from ..source import Doc, Source
from ..told import Counted, Told
from . import KINDS, NAME, TITLE

_METRICS = {"ttft": "ttft", "e2e": "e2e_latency", "tpot": "tpot"}  # ours -> the tool's
_PERCENTS = (25, 50, 75, 90, 95, 99)
_UNITS = {"s": 1.0, "ms": 1000.0}
_METADATA = KINDS[1].name
# API backends whose clients send a request once; the SDKs of the others (aws, oci) repeat what failed.
_SENT_ONCE = frozenset(("azure-openai", "cohere", "gcp-vertex", "openai", "sglang", "together", "vllm"))
_AGAIN = "run the benchmark again, or use the file as the tool wrote it"
_RUN_FILE = "pass the run's own file beside it, named SCENARIO_TASK_num_concurrency_N_time_Ss.json"
_METHOD = "numpy linear over completed requests without the tool's warm-up and cool-down"


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


def decode(source: Source) -> Told:
    """What the file says. Raises InputError when it is broken, empty or contradicts itself."""
    kinds.result(source, KINDS, TITLE, _RUN_FILE)
    if source.shape == "objects":
        raise source.fail("holds several JSON objects", hint=_AGAIN)
    doc = source.doc
    totals = doc.get("aggregated_metrics", _Aggregated)
    rows = doc.get("individual_request_metrics", list[_Row])
    if totals is None or rows is None:
        raise source.fail("has no aggregated_metrics or no individual_request_metrics", doc.at, _AGAIN)
    if not rows:
        raise source.fail("holds no requests", doc.at, "run the benchmark again")
    return _told(source, totals, rows, _per_second(doc))


def _per_second(doc: Doc) -> float:
    name = doc.text("_time_unit") or "s"
    if name not in _UNITS:
        raise doc.source.fail(f'"{name}" is no time unit of genai-bench', f"{doc.at}._time_unit", _AGAIN)
    return _UNITS[name]


def _told(source: Source, totals: _Aggregated, rows: Sequence[_Row], per_second: float) -> Told:
    beside = source.beside(_METADATA) or source.beside(_METADATA + ".gz")
    about = beside.doc if beside is not None and beside.shape == "object" else Doc(source, {})
    first, last = (int(len(rows) * _ratio(about, name)) for name in ("warmup", "cooldown"))
    places = np.arange(len(rows))
    edges = (places < first) | (places >= len(rows) - last)
    duration_s = totals.run_duration if isinstance(totals.run_duration, float) else None
    asked, by_number = _asked(totals, about, duration_s)
    tokens = totals.stats.get("num_output_tokens", {}).get("sum")  # without the edges, as here
    gpu, number = about.text("server_gpu_type"), about.text("server_gpu_count")
    batch = f", batch size {totals.batch_size}" if totals.iteration_type == "batch_size" else ""
    return Told(
        format=f"{NAME} run",
        evidence=tables.table(
            rows,
            errors=(row.error_code is not None for row in rows),
            per_second=per_second,
            order="completion",
            warmup=edges,
            ttft_s="ttft",
            e2e_s="e2e_latency",
            output_tokens="num_output_tokens",
            input_tokens="num_input_tokens",
        ),
        retries=0 if about.text("api_backend") in _SENT_ONCE else None,
        retries_with=f"keep {_METADATA} beside it, of an API backend without an SDK",
        asked=asked - int(edges.sum()) if asked is not None else None,
        asked_with=f"keep {_METADATA} beside it" if by_number else "",
        counted=Counted(
            totals.num_completed_requests,
            totals.num_error_requests,
            totals.num_requests,
            "$.aggregated_metrics",
        ),
        output_tokens=tokens if isinstance(tokens, float) else None,
        version=about.text("benchmark_version"),
        model=about.text("api_model_name"),
        hardware=f"{number}x{gpu}" if number and gpu else gpu,
        scenario=f"{totals.scenario}{batch}" if totals.scenario else None,
        load=_load(source, totals),
        duration_s=None if edges.any() else duration_s,
        stream_with="benchmark a text task, which streams",
        stated=_stated(totals, per_second),
        method=_METHOD,
        messages=[_message(row) for row in rows],
        notes=tuple(_notes(totals, len(rows), first, last)),
    )


def _message(row: _Row) -> str:
    if row.error_code is None:
        return ""
    text = " ".join((row.error_message or "no message").split())
    return f"error_code {row.error_code} ({text[:50]})"


def _ratio(about: Doc, name: str) -> float:
    """--warmup-ratio, --cooldown-ratio: the tool leaves these rows out of its statistics by index."""
    option = re.search(rf"--{name}-ratio[ =]([0-9.]+)(?= |$)", about.text("cmd") or "")
    try:
        return min(float(option[1]), 1.0) if option else 0.0
    except ValueError:
        return 0.0


def _asked(totals: _Aggregated, about: Doc, duration_s: float | None) -> tuple[int | None, bool]:
    """What was sent by a rate; else the number that ended the run, and whether it did, not its time."""
    if totals.total_arrivals is not None:
        return totals.total_arrivals, True
    limit_s = about.number("max_time_per_run_s")
    if limit_s and duration_s is not None and duration_s >= limit_s:
        return None, False
    return about.count("max_requests_per_run") or None, True


def _load(source: Source, totals: _Aggregated) -> Load | None:
    """A batch size changes what a request holds: as many are in flight as is stated beside it."""
    if totals.iteration_type == "request_rate":
        return loads.load(rate=totals.request_rate)
    at = "$.aggregated_metrics.num_concurrency"
    return loads.stated(source, at, _AGAIN, slots=totals.num_concurrency)


def _stated(totals: _Aggregated, per_second: float) -> Mapping[str, Summary]:
    stated = {}
    for metric, name in _METRICS.items():
        known = {key: cell for key, cell in totals.stats.get(name, {}).items() if isinstance(cell, float)}
        points = ((float(percent), known.get(f"p{percent}")) for percent in _PERCENTS)
        stated[metric] = ladder(points, per_second=per_second, mean=known.get("mean"))
    return stated


def _notes(totals: _Aggregated, rows: int, first: int, last: int) -> Iterator[str]:
    failed = totals.num_error_requests
    if failed and totals.error_rate == 0:
        share = f"{failed} of {rows} failed ({failed / rows:.1%})"
        yield f"the tool's error_rate is 0 in every file, and wrong here: {share}"
    if first or last:
        yield (
            f"the first {first} and the last {last} of {rows} rows are the tool's warm-up and cool-down: how"
            " long the rest took is not in the file (its throughputs divide by all)"
        )
    if totals.scenario:
        yield f"traffic scenario {totals.scenario}"
    yield (
        "genai-bench keeps no record of answers of one token and of requests in flight when the run ends:"
        " neither is in the file"
    )
    yield "E2E ends with the stream, after the last token (usage chunk or [DONE])"
