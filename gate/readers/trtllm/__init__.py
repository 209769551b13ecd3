"""TensorRT-LLM: benchmark_serving.py, trtllm-bench (report and requests) and records of the LLM API.

Three clocks: benchmark_serving.py measures as an HTTP client, trtllm-bench in its own process with
everything enqueued at once, the LLM API inside the engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..source import Source

if TYPE_CHECKING:
    from ..told import Told

NAME = "trtllm"
TITLE = "TensorRT-LLM benchmark_serving, trtllm-bench, LLM API"
_SERVING = frozenset(("user_throughput", "avg_decoded_tokens_per_iter", "e2els"))
_REQUEST = frozenset(("start_timestamp", "first_token_timestamp", "end_timestamp", "end_to_end_latency"))
_REPORT = frozenset(("engine", "world_info", "request_info", "performance"))
_METRICS = b'"MetricNames.'
_LOG = "[TensorRT-LLM]"  # how every line of its console begins
_SAVED = "run trtllm-bench with --report_json or --request_json and pass that file"


def sniff(source: Source, /) -> bool:
    """By keys; also claims console logs, to refuse them with a sentence. Raises InputError if unreadable."""
    return kind(source) is not None


def kind(source: Source) -> str | None:
    """log (which begins like a JSON array), records, requests, report or serving; None for another's file."""
    if source.head.lstrip().startswith(_LOG):
        return "log"
    shape, keys = source.shape, source.keys
    if shape == "object" and "records" in keys and source.data.find(_METRICS) >= 0:
        return "records"
    if shape in ("array", "objects") and keys >= _REQUEST:
        return "requests"
    if shape == "object" and keys >= _REPORT:
        return "report"
    serving = shape in ("object", "objects") and {"model_id", "num_prompts"} <= keys
    return "serving" if serving and keys & _SERVING else None


def decode(source: Source, /) -> Iterable[Told]:
    """What the file tells of each run. Raises InputError for a console log and for a contradiction."""
    found = kind(source)
    if found == "log":
        raise source.fail(*_refusal(source))
    from .. import bench_serving
    from . import bench, serving

    if found is not None and found != "serving":
        yield {"records": bench.records, "requests": bench.requests, "report": bench.report}[found](source)
        return
    doc = None
    for doc in bench_serving.docs(source):
        yield serving.decode(doc)
    if doc is None:
        raise source.fail("holds no run", hint=f"pass the JSON that --save-result writes, or {_SAVED}")


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
    from . import bench

    return {
        report: f"its requests are in {other.name}"
        for report in reports
        for other in requests
        if bench.same_run(report, other)
    }
