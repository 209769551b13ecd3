"""benchmark_serving.py: one JSON object, arrays in seconds (--save-detailed), statistics in milliseconds."""

from __future__ import annotations

from msgspec.structs import replace

from .. import bench_serving as _bench
from ..source import Doc
from ..told import Told
from . import NAME

_DETAIL = "save per-request rows with --save-result --save-detailed"
_NAME_IT = "name it in --percentile-metrics, or use --save-detailed"
_NEVER_S = -1.0  # TTFT of every request under --non-streaming
_STREAM = "run it without --non-streaming, which writes a TTFT of -1 s and a TPOT that contains it"


def decode(doc: Doc) -> Told:
    """What one object says. Raises InputError where it contradicts itself."""
    named = _bench.statistics(doc, "_ms")
    never = all(value == _NEVER_S * 1000 for value in named.get("ttft", {"": 0.0}).values())
    if never:
        named = {"e2e": named.get("e2e", {})}  # the tool's TPOT contains the -1 s
    stated = _bench.summaries(named, 1000)
    if doc.fields.keys() & {"ttfts", "e2els", "itls"}:
        # A failed row may have a real TTFT: only its error and its tokens say so.
        rows = _bench.rows(doc, "e2els", _DETAIL, _NEVER_S)
        never = never or rows.table.ttft_s is None
        told = _bench.statement(doc, NAME, rows.table, stated, **rows.facts, notes=rows.notes)
    else:
        completed, counts, notes = _bench.counts_without_failed(doc)
        evidence = _bench.aggregate(stated, completed, "--save-detailed")
        told = _bench.statement(doc, NAME, evidence, stated, counts=counts, notes=notes)
    return replace(
        told,
        hardware=doc.text("hardware") or doc.text("gpu"),
        streamed=False if never else None,
        stream_with=_STREAM,
        percentiles_with=_NAME_IT,
    )
