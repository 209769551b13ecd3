"""TensorRT-LLM in its own process: trtllm-bench (--report_json, --request_json) and records of the LLM API.

trtllm-bench enqueues everything at once, and a request that fails aborts the run, so a file that exists has
no failures. The LLM API's records are a harness's: a dict of metrics a request, keys "MetricNames.TTFT".
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec
import numpy as np

from ...model import Aggregate, Counts, Doubt, Floats, Summary, Why
from .. import bench_serving as _bench, clocks, tables
from ..ladders import ladder
from ..source import Doc, Source
from ..told import Told

_STREAM = "run trtllm-bench with --streaming"
_ZERO_TPOT = (
    "the tool's TPOT percentiles count a response of one token as 0; --request_json gives the requests"
)
_METHOD = "sorted[int(n * p)] over all requests"
_OFFLINE = (
    "offline: requests were enqueued at once in the engine's process, so TTFT has no network and "
    "no arrival rate; a --concurrency cap is not in the file"
)
_SAME = 1e-6  # relative; a report is computed from the very rows

_UNSEEN = -1  # a first token of a run without streaming
_Ns = Annotated[float, msgspec.Meta(ge=-1, le=1e21)] | None


class _Row(msgspec.Struct):
    """Nanoseconds; -1 for a first token that was not seen."""

    start_timestamp: _Ns
    end_to_end_latency: Annotated[float, msgspec.Meta(ge=-1, le=1e21)]
    first_token_timestamp: _Ns = None
    time_to_first_token: _Ns = None
    num_input_tokens: tables.Tokens = None
    num_total_output_tokens: tables.Tokens = None
    num_output_tokens: tables.Tokens = None  # its name in older releases

    @property
    def tokens(self) -> float | None:
        return (
            self.num_output_tokens if self.num_total_output_tokens is None else self.num_total_output_tokens
        )


# ---- requests -----------------------------------------------------------------------------


def requests(source: Source) -> Told:
    """A --request_json file. Raises InputError for rows without counts or latencies."""
    rows = _decoded(source)
    if not rows:
        raise source.fail("holds no requests", hint=_bench.WHOLE)
    streamed = any(row.first_token_timestamp != _UNSEEN for row in rows)
    table = tables.table(
        rows,
        errors=(False for _ in rows),
        per_second=1e9,
        ttft_s="time_to_first_token" if streamed else "",
        e2e_s="end_to_end_latency",
        output_tokens="tokens",
        input_tokens="num_input_tokens",
        start_s="start_timestamp",
    )
    start_s, e2e_s = table.start_s, table.e2e_s
    return Told(
        format="trtllm-bench requests",
        tool="trtllm-bench",
        evidence=table,
        retries=0,
        duration_s=None if start_s is None or e2e_s is None else clocks.span_s(start_s, start_s + e2e_s),
        streamed=None if streamed else False,
        stream_with=_STREAM,
        messages=[""] * len(rows),
        notes=(_OFFLINE,),
    )


def _decoded(source: Source) -> list[_Row]:
    if source.shape == "array":
        return source.array(_Row)
    return [row for some in source.lines(_Row) for row in some]


def same_run(report: Source, requests: Source) -> bool:
    """Whether a report was computed from these requests. Raises InputError where one is broken."""
    rows, info = _decoded(requests), _part(report.doc, "request_info")
    stated_ms = _part(report.doc, "performance").number("avg_request_latency_ms")
    if info.count("num_requests") != len(rows) or not rows or stated_ms is None:
        return False
    mean_ms = float(tables.column(row.end_to_end_latency for row in rows).mean()) / 1e6
    return math.isclose(mean_ms, stated_ms, rel_tol=_SAME)


# ---- report -------------------------------------------------------------------------------


def report(source: Source) -> Told:
    """A --report_json file. Raises InputError without a number of requests."""
    doc = source.doc
    engine, info, perf = (_part(doc, key) for key in ("engine", "request_info", "performance"))
    number = info.count("num_requests")
    if number is None:
        raise source.fail("does not say how many requests it ran", info.at, _bench.WHOLE)
    streamed = "streaming_metrics" in doc and doc.any("streaming_metrics") is not None
    blocks = {"e2e": (perf, "request_latency_percentiles_ms")}
    if streamed:
        streams = _part(doc, "streaming_metrics")
        blocks |= {m: (streams, f"{m}_percentiles") for m in ("ttft", "tpot")}
    stated = {
        metric: _summary(_part(part, key), number)
        for metric, (part, key) in blocks.items()
        if key in part and part.any(key) is not None
    }
    stated = {metric: summary for metric, summary in stated.items() if summary.percentiles}
    total_ms = perf.number("total_latency_ms")
    in_flight = info.number("avg_num_concurrent_requests")
    return Told(
        format="trtllm-bench report",
        tool="trtllm-bench",
        evidence=Aggregate(stated if number else {}, settled_by="--request_json"),
        retries=0,
        counts=Counts(number, number, 0),
        version=engine.text("version"),
        model=engine.text("model"),
        hardware=_hardware(doc),
        duration_s=total_ms / 1000 if total_ms is not None else None,
        lengths=Summary(mean=info.number("avg_output_length")),
        streamed=streamed,
        stream_with=_STREAM,
        stated=_bench.without_zeros(stated),
        method=_METHOD,
        doubts=tuple(_zeros(stated)),
        notes=(_OFFLINE, *([f"{in_flight:.3g} requests were in flight on average"] if in_flight else [])),
    )


def _part(doc: Doc, key: str) -> Doc:
    part = doc.part(key)
    if part is None:
        raise doc.source.fail(f"has no `{key}`", doc.at, _bench.WHOLE)
    return part


def _summary(block: Doc, number: int) -> Summary:
    """Percentile = sorted[int(n * p)]: bounded by the ranks a linear one lies between. Milliseconds."""
    points = {
        float(key[1:]): block.number(key)
        for key in block.fields
        if key[0] == "p" and key[1:].replace(".", "", 1).isdecimal()
    }
    low, high, mean = (block.number(key) for key in ("minimum", "maximum", "average"))
    return ladder(points.items(), per_second=1000, mean=mean, low=low, high=high, n=number)


def _zeros(stated: dict[str, Summary]) -> list[Doubt]:
    return [
        Doubt(Why.ZERO, (m,), _ZERO_TPOT if m == "tpot" else f"a {m.upper()} of 0 is no measurement")
        for m, summary in stated.items()
        if summary.min == 0
    ]


def _hardware(doc: Doc) -> str | None:
    name = doc.mapping("machine").get("name")
    if not isinstance(name, str):
        return None
    size = _part(doc, "world_info").count("world_size")
    return f"{size}x{name}" if size else name


# ---- records of the LLM API ---------------------------------------------------------------

_FAILED = ("timeout", "cancelled", "error")
_NO_LOAD = "the file does not say how requests arrived: state the load with --set concurrency=N"
_ENGINE = "latencies are the engine's own, from a request's arrival in it: no network, no client"
_MOST = 10_000_000  # requests without a record that are made rows

_Seconds = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)] | None


class _Metrics(msgspec.Struct):
    ttft: _Seconds = msgspec.field(name="MetricNames.TTFT", default=None)
    e2e: _Seconds = msgspec.field(name="MetricNames.E2E", default=None)
    tpot: _Seconds = msgspec.field(name="MetricNames.TPOT", default=None)
    arrival: _Seconds = msgspec.field(name="MetricNames.ARRIVAL_TIMESTAMP", default=None)
    finished_reason: str | None = None


class _Record(msgspec.Struct):
    metrics_dict: _Metrics | None = None
    output_token_ids: list[msgspec.Raw] | None = None
    finish_reason: str | None = None
    error: str | None = None

    @property
    def message(self) -> str:
        of = self.metrics_dict
        reason = self.finish_reason or (of.finished_reason if of else None)
        if not self.error and reason and reason.lower() in _FAILED:
            return f"finished by {reason}"
        return self.error or ("" if of is not None else "no metrics")

    @property
    def tokens(self) -> float | None:
        """Tokens that came out; without their ids, the number the engine's own TPOT divides by."""
        if self.output_token_ids is not None:
            return float(len(self.output_token_ids))
        of = self.metrics_dict
        if of is None or not of.tpot or of.tpot <= 0 or of.e2e is None or of.ttft is None:
            return None
        return float(round(1 + (of.e2e - of.ttft) / of.tpot)) if of.e2e >= of.ttft else None


def records(source: Source) -> Told:
    """Records of the LLM API. Raises InputError when the file holds none, or more than it says."""
    doc = source.doc
    rows = doc.get("records", list[_Record]) or []
    missing = _missing(doc, len(rows))
    metrics = [row.metrics_dict or _Metrics() for row in rows] + [_Metrics()] * missing
    messages = [row.message for row in rows] + ["no record of the request"] * missing
    table = tables.requests(
        errors=np.array([bool(text) for text in messages], dtype=np.bool_),
        ttft_s=_column(metrics, "ttft"),
        e2e_s=_column(metrics, "e2e"),
        output_tokens=tables.column([*(row.tokens for row in rows), *[None] * missing]),
        start_s=_column(metrics, "arrival"),
    )
    return Told(
        format="trtllm LLM API records",
        evidence=table,
        retries=0,  # the engine answers each request once; a harness that asks again has a record of each
        model=doc.text("model"),
        messages=messages,
        notes=(_ENGINE, _NO_LOAD),
    )


def _column(metrics: list[_Metrics], name: str) -> Floats:
    cells: Any = (getattr(one, name) for one in metrics)
    return tables.column(cells)


def _missing(doc: Doc, rows: int) -> int:
    """Requests the file says it ran and has no record of."""
    asked = doc.count("num_requests")
    if not rows and not asked:
        raise doc.source.fail("holds no records", doc.at, _bench.WHOLE)
    if asked is not None and asked < rows:
        why = f"contradicts itself: {rows} records of {asked} requests"
        raise doc.source.fail(why, f"{doc.at}.num_requests", _bench.WHOLE)
    if asked is not None and asked - rows > _MOST:
        raise doc.source.fail(f"{asked} requests are more than it can hold", f"{doc.at}.num_requests")
    return asked - rows if asked is not None else 0
