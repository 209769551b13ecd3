"""trtllm-bench: --report_json (milliseconds, percentiles by rank) and --request_json (rows in nanoseconds).

It runs in one process and enqueues everything at once; a request that fails aborts the run, so a file
that exists has no failures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any

import msgspec
import numpy as np

from ...model import Aggregate, Counts, Floats, Run, Summary, ToolReported
from .. import bench_serving as _bench
from .. import bursts, tables
from ..source import Doc, Source

_NOT_STREAMED = "trtllm-bench ran without --streaming, so no first token was seen; run it with --streaming"
_ZERO_TPOT = (
    "the tool's TPOT percentiles count a response of one token as 0; --request_json gives the requests"
)
_NO_GAPS = "trtllm-bench keeps no gaps between tokens, only a mean of each request"
_METHOD = "sorted[int(n * p)] over all requests"
_OFFLINE = (
    "offline: requests were enqueued at once in the engine's process, so TTFT has no network and "
    "no arrival rate; a --concurrency cap is not in the file"
)
_DEFINITIONS = {
    "ttft": "request enqueued (after the concurrency cap) to first token, in the engine's process",
    "tpot": "(E2E - TTFT) / (output tokens - 1); the tool's percentiles take 0 for a single token",
    "itl": "not kept; `intertoken_latency` is TPOT",
    "e2e": "request enqueued to its last token, in the engine's process",
}
_SAME = 1e-6  # relative; a report is computed from the very rows

_Ns = Annotated[float, msgspec.Meta(ge=-1, le=1e21)] | None


class _Row(msgspec.Struct):
    start_timestamp: _Ns
    end_to_end_latency: _Ns
    first_token_timestamp: _Ns = None
    time_to_first_token: _Ns = None
    num_input_tokens: tables.Tokens = None
    num_total_output_tokens: tables.Tokens = None
    num_output_tokens: tables.Tokens = None  # its name in older releases


# ---- requests -----------------------------------------------------------------------------


def requests_run(source: Source) -> Run:
    """The run of a --request_json file. Raises InputError for rows without counts or latencies."""
    rows = _decoded(source)
    if not rows:
        raise source.fail("holds no requests", hint=_bench.WHOLE)
    streamed = any((row.first_token_timestamp or -1) >= 0 for row in rows)
    table = tables.requests(
        errors=np.zeros(len(rows), dtype=np.bool_),
        ttft_s=_seconds(row.time_to_first_token for row in rows) if streamed else None,
        e2e_s=_seconds(row.end_to_end_latency for row in rows),
        output_tokens=tables.column(_output(row) for row in rows),
        input_tokens=tables.column(row.num_input_tokens for row in rows),
        start_s=_seconds(row.start_timestamp for row in rows),
    )
    streaming, unsuitable, odd = bursts.judge(table)
    if not streamed:
        streaming, unsuitable = False, dict.fromkeys(("ttft", "tpot"), _NOT_STREAMED)
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="trtllm-bench requests",
        tool="trtllm-bench",
        evidence=table,
        counts=tables.counts(table),
        load=None,
        duration_s=_duration(table.start_s, table.e2e_s),
        total_output_tokens=tables.output_total(table),
        streaming=streaming,
        definitions=_DEFINITIONS,
        unsuitable={**unsuitable, "itl": _NO_GAPS},
        notes=(_OFFLINE, *tables.failure_note(table, [""] * len(rows)), *odd),
    )


def _decoded(source: Source) -> list[_Row]:
    if source.shape == "array":
        return source.array(_Row)
    return [row for some in source.lines(_Row) for row in some]


def _output(row: _Row) -> float | None:
    return row.num_output_tokens if row.num_total_output_tokens is None else row.num_total_output_tokens


def _seconds(cells: Any) -> Floats:
    return tables.column(cells) / 1e9


def _duration(start_s: Floats | None, e2e_s: Floats | None) -> float | None:
    if start_s is None or e2e_s is None:
        return None
    window = float(np.nanmax(start_s + e2e_s) - np.nanmin(start_s))
    return window if np.isfinite(window) and window > 0 else None


def same_run(report: Source, requests: Source) -> bool:
    """Whether a report was computed from these requests. Raises InputError where one is broken."""
    rows, info = _decoded(requests), _part(report.doc, "request_info")
    said = _part(report.doc, "performance").number("avg_request_latency_ms")
    if info.count("num_requests") != len(rows) or not rows or said is None:
        return False
    mean_ms = float(_seconds(row.end_to_end_latency for row in rows).mean()) * 1000
    return math.isclose(mean_ms, said, rel_tol=_SAME)


# ---- report -------------------------------------------------------------------------------


def report_run(source: Source) -> Run:
    """The run of a --report_json file. Raises InputError without a number of requests."""
    doc = source.doc
    engine, info, perf = (_part(doc, key) for key in ("engine", "request_info", "performance"))
    number = info.count("num_requests")
    if number is None:
        raise source.fail("does not say how many requests it ran", info.at, _bench.WHOLE)
    streamed = "streaming_metrics" in doc and doc.any("streaming_metrics") is not None
    summaries = _summaries(doc, perf, streamed, number)
    total_ms, mean_tokens = perf.number("total_latency_ms"), info.number("avg_output_length")
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="trtllm-bench report",
        tool="trtllm-bench",
        evidence=Aggregate(summaries if number else {}, settled_by="--request_json"),
        counts=Counts(number, number, 0),
        tool_version=engine.text("version"),
        model=engine.text("model"),
        hardware=_hardware(doc),
        load=None,
        duration_s=total_ms / 1000 if total_ms and total_ms > 0 else None,
        total_output_tokens=mean_tokens * number if mean_tokens and mean_tokens > 0 else None,
        streaming=streamed,
        definitions=_DEFINITIONS,
        tool_reported={m: ToolReported(s.percentiles, _METHOD, s.mean) for m, s in summaries.items()},
        unsuitable=_unsuitable(summaries, streamed),
        notes=(_OFFLINE, *_concurrency_note(info)),
    )


def _part(doc: Doc, key: str) -> Doc:
    fields = doc.get(key, dict[str, msgspec.Raw])
    if fields is None:
        raise doc.source.fail(f"has no `{key}`", doc.at, _bench.WHOLE)
    return Doc(doc.source, fields, f"{doc.at}.{key}")


def _summaries(doc: Doc, perf: Doc, streamed: bool, number: int) -> dict[str, Summary]:
    """By metric, in seconds: keys carry no unit, values are milliseconds."""
    blocks = {"e2e": (perf, "request_latency_percentiles_ms")}
    if streamed:
        streams = _part(doc, "streaming_metrics")
        blocks |= {m: (streams, f"{m}_percentiles") for m in ("ttft", "tpot")}
    found: dict[str, Summary] = {}
    for metric, (part, key) in blocks.items():
        if key in part and part.any(key) is not None:
            found[metric] = _summary(_part(part, key), metric, number)
    return {metric: summary for metric, summary in found.items() if summary.percentiles}


def _summary(block: Doc, metric: str, number: int) -> Summary:
    """Percentile = sorted[int(n * p)]: bounded by the ranks a linear one lies between."""
    points = sorted(
        (float(key[1:]), value / 1000)
        for key in block.fields
        if key[0] == "p" and key[1:].replace(".", "", 1).isdecimal()
        if (value := block.number(key)) is not None
    )
    low, high, mean = (
        None if (value := block.number(key)) is None else value / 1000
        for key in ("minimum", "maximum", "average")
    )
    values = [low, *(value for _, value in points), high]
    known = [value for value in values if value is not None]
    if any(percent > 100 for percent, _ in points) or any(value < 0 for value in known):
        raise block.source.fail(f"a percentile of {metric} that nothing measures", block.at, _bench.WHOLE)
    if any(later < earlier for earlier, later in pairwise(known)):
        raise block.source.fail(
            f"contradicts itself: percentiles of {metric} that fall", block.at, _bench.WHOLE
        )
    return Summary(tuple(point for point in points if point[1] > 0), mean, low, high, number)


def _unsuitable(summaries: Mapping[str, Summary], streamed: bool) -> dict[str, str]:
    absent = "the report states no percentile of {}; --request_json gives the requests"
    why = {m: absent.format(m.upper()) for m in ("ttft", "tpot", "e2e") if m not in summaries}
    why["itl"] = _NO_GAPS
    if not streamed:
        why |= dict.fromkeys(("ttft", "tpot"), _NOT_STREAMED)
    for metric, summary in summaries.items():
        if summary.min == 0:
            why[metric] = _ZERO_TPOT if metric == "tpot" else f"a {metric.upper()} of 0 is no measurement"
    return why


def _hardware(doc: Doc) -> str | None:
    machine = doc.any("machine")
    name = machine.get("name") if isinstance(machine, dict) else None
    if not isinstance(name, str):
        return None
    size = _part(doc, "world_info").count("world_size")
    return f"{size}x{name}" if size else name


def _concurrency_note(info: Doc) -> tuple[str, ...]:
    seen = info.number("avg_num_concurrent_requests")
    return (f"{seen:.3g} requests were in flight on average",) if seen else ()
