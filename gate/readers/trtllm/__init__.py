"""TensorRT-LLM: benchmark_serving.py, trtllm-bench (report and requests) and records of the LLM API.

Three clocks: benchmark_serving.py measures as an HTTP client, trtllm-bench in its own process with
everything enqueued at once, the LLM API inside the engine.
"""

from __future__ import annotations

from ..source import Source

NAME = "trtllm"
TITLE = "TensorRT-LLM benchmark_serving, trtllm-bench, LLM API"
_SERVING = frozenset(("user_throughput", "avg_decoded_tokens_per_iter", "e2els"))
_REQUEST = frozenset(("start_timestamp", "first_token_timestamp", "end_timestamp", "end_to_end_latency"))
_REPORT = frozenset(("engine", "world_info", "request_info", "performance"))
_METRICS = b'"MetricNames.'
_LOG = "[TensorRT-LLM]"  # how every line of its console begins


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
