"""Records of the TensorRT-LLM LLM API: a dict of metrics a request, keys printed as "MetricNames.TTFT".

A harness around the LLM API writes them; the engine measures in seconds from a request's arrival.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np

from ...model import Run
from .. import bench_serving as _bench
from .. import bursts, tables
from ..source import Doc, Source

_FAILED = ("timeout", "cancelled", "error")
_DEFINITIONS = {
    "ttft": "arrival in the engine to first token (MetricNames.TTFT): no network",
    "tpot": "(E2E - TTFT) / (output tokens - 1) (MetricNames.TPOT)",
    "itl": "not kept",
    "e2e": "arrival in the engine to last token (MetricNames.E2E)",
}
_NO_GAPS = "the LLM API keeps no gaps between tokens; measure ITL with benchmark_serving.py --save-detailed"
_NO_LOAD = "the file does not say how requests arrived: state the load with --set concurrency=N"
_ENGINE = "latencies are the engine's own, from a request's arrival in it: no network, no client"

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


def run(source: Source) -> Run:
    """The one run of the file. Raises InputError when it holds no records, or more than it says."""
    doc = source.doc
    records = doc.get("records", list[_Record]) or []
    missing = _missing(doc, len(records))
    metrics = [record.metrics_dict or _Metrics() for record in records] + [_Metrics()] * missing
    messages = [_message(record) for record in records] + ["no record of the request"] * missing
    table = tables.requests(
        errors=np.array([bool(text) for text in messages], dtype=np.bool_),
        ttft_s=tables.column([m.ttft for m in metrics]),
        e2e_s=tables.column([m.e2e for m in metrics]),
        output_tokens=tables.column([*map(_tokens, records), *[None] * missing]),
        start_s=tables.column([m.arrival for m in metrics]),
    )
    streaming, unsuitable, odd = bursts.judge(table)
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="trtllm LLM API records",
        tool="trtllm",
        evidence=table,
        counts=tables.counts(table),
        model=doc.text("model"),
        total_output_tokens=tables.output_total(table),
        streaming=streaming,
        definitions=_DEFINITIONS,
        unsuitable={**unsuitable, "itl": _NO_GAPS},
        notes=(_ENGINE, _NO_LOAD, *tables.failure_note(table, messages), *odd),
    )


def _missing(doc: Doc, records: int) -> int:
    """Requests the file says it ran and has no record of."""
    asked = doc.count("num_requests")
    if not records and not asked:
        raise doc.source.fail("holds no records", doc.at, _bench.WHOLE)
    if asked is not None and asked < records:
        why = f"contradicts itself: {records} records of {asked} requests"
        raise doc.source.fail(why, f"{doc.at}.num_requests", _bench.WHOLE)
    if asked is not None and asked - records > 10_000_000:
        raise doc.source.fail(f"{asked} requests are more than it can hold", f"{doc.at}.num_requests")
    return asked - records if asked is not None else 0


def _message(record: _Record) -> str:
    if record.error:
        return record.error
    reason = record.finish_reason or (record.metrics_dict.finished_reason if record.metrics_dict else None)
    if reason and reason.lower() in _FAILED:
        return f"finished by {reason}"
    return "" if record.metrics_dict is not None else "no metrics"


def _tokens(record: _Record) -> float | None:
    """Tokens that came out; without their ids, the number the engine's own TPOT divides by."""
    if record.output_token_ids is not None:
        return float(len(record.output_token_ids))
    of = record.metrics_dict
    if of is None or not of.tpot or of.tpot <= 0 or of.e2e is None or of.ttft is None:
        return None
    return float(round(1 + (of.e2e - of.ttft) / of.tpot)) if of.e2e >= of.ttft else None
