"""TensorRT-LLM: benchmark_serving.py, trtllm-bench (report and requests) and records of the LLM API.

Three clocks: benchmark_serving.py measures as an HTTP client, trtllm-bench in its own process with
everything enqueued at once, the LLM API inside the engine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...model import Run
from .._source import Source
from . import bench, llm_api, serving

NAME = "trtllm"
TITLE = "TensorRT-LLM benchmark_serving, trtllm-bench, LLM API"
SIDE_FILES: Mapping[str, str] = {}

_LOG = "[TensorRT-LLM]"  # how every line of its console begins
_SAVED = "run trtllm-bench with --report_json or --request_json and pass that file"


def sniff(source: Source, /) -> bool:
    """By keys; also claims console logs, to refuse them with a sentence. Raises InputError if unreadable."""
    return is_log(source) or serving.sniff(source) or bench.sniff(source) or llm_api.sniff(source)


def is_log(source: Source) -> bool:
    """Whether the file is what trtllm-bench prints (it begins like a JSON array)."""
    return source.head.lstrip().startswith(_LOG)


def read(source: Source, /) -> Sequence[Run]:
    """The runs in the file. Raises InputError for a console log and for what contradicts itself."""
    if is_log(source):
        raise source.fail(*_refusal(source))
    if llm_api.sniff(source):
        return [llm_api.run(source)]
    if bench.is_requests(source):
        return [bench.requests_run(source)]
    if bench.is_report(source):
        return [bench.report_run(source)]
    runs = [serving.run(source, doc) for doc in source.docs()]
    if not runs:
        raise source.fail("holds no run", hint=f"pass the JSON that --save-result writes, or {_SAVED}")
    return runs


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
    requests = [source for source in sources if not is_log(source) and bench.is_requests(source)]
    covered: dict[Source, str] = {}
    for source in sources:
        if is_log(source) or not bench.is_report(source):
            continue
        for other in requests:
            if bench.same_run(source, other):
                covered[source] = f"its requests are in {other.name}"
    return covered
