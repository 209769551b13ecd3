"""Which of TensorRT-LLM's files this is; and benchmark_serving.py: one JSON object, arrays in seconds
(--save-detailed), statistics in milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from .. import bench_serving as _bench
from ..source import Doc, Source
from ..told import Told
from . import NAME, bench, kind

_SAVED = "run trtllm-bench with --report_json or --request_json and pass that file"
_DETAIL = "save per-request rows with --save-result --save-detailed"
_NAME_IT = "name it in --percentile-metrics, or use --save-detailed"
_NEVER_S = -1.0  # TTFT of every request under --non-streaming
_STREAM = "run it without --non-streaming, which writes a TTFT of -1 s and a TPOT that contains it"


def decode(source: Source, /) -> Iterable[Told]:
    """What the file tells of each run. Raises InputError for a console log and for a contradiction."""
    found = kind(source)
    if found == "log":
        raise source.fail(*_refusal(source))
    if found is not None and found != "serving":
        yield {"records": bench.records, "requests": bench.requests, "report": bench.report}[found](source)
        return
    yield from map(_serving, _bench.docs(source, f"the JSON that --save-result writes, or {_SAVED}"))


def _refusal(source: Source) -> tuple[str, str, str]:
    if re.search(rb"= PERFORMANCE OVERVIEW", source.data):
        return (
            "is the console log of trtllm-bench: averages of the whole run, no latency of a request",
            "",
            _SAVED,
        )
    return "is a console log of TensorRT-LLM that ends before any result: the run died", "", _SAVED


def companions(sources: Sequence[Source], /) -> Mapping[Source, str]:
    """Reports of trtllm-bench whose requests are among the files, known by number and mean E2E."""
    requests = [source for source in sources if kind(source) == "requests"]
    reports = [source for source in sources if kind(source) == "report"]
    if not requests or not reports:
        return {}
    return {
        report: f"its requests are in {other.name}"
        for report in reports
        for other in requests
        if bench.same_run(report, other)
    }


# ---- benchmark_serving.py ------------------------------------------------------------------


def _serving(doc: Doc) -> Told:
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
