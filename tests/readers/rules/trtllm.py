"""How the rules are broken in the files of TensorRT-LLM: served, in process, and by its LLM API."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.readers.rules import Alone, Change, Form
from tests.readers.rules.forks import (
    ARRAYS,
    DETAILED,
    JUDGES,
    NEVER,
    NO_ROWS,
    TOKENS,
    Document,
    N,
    aggregate,
    arrays,
    changed,
    put,
    rows,
    second,
    statistics,
    without,
    write,
)

HEAD: Document = {
    "date": "20261129-140638",
    "backend": "openai",
    "model_id": "m",
    "num_prompts": N,
    "request_rate": "inf",
    "max_concurrency": 8,
    "duration": 12.0,
    "completed": N,
    "total_output_tokens": N * TOKENS,
    "user_throughput": 100.0,
    **statistics(),
}
NEVER_STREAMED = {f"{name}_ttft_ms": -1000.0 for name in ("mean", "median", "p99")}


def request(number: int) -> Document:
    start, first, whole = (
        int(s * 1e9) for s in (number * 0.1, 0.080 + number % 17 / 1000, 0.6 + number % 29 / 1000)
    )
    return {
        "id": number,
        "num_input_tokens": 60 + number % 5,
        "num_total_output_tokens": TOKENS,
        "start_timestamp": start,
        "first_token_timestamp": start + first,
        "end_timestamp": start + whole,
        "time_to_first_token": first,
        "end_to_end_latency": whole,
        "intertoken_latency": (whole - first) / (TOKENS - 1),
    }


def record(number: int) -> Document:
    first, whole = 0.080 + number % 17 / 1000, 0.6 + number % 29 / 1000
    metrics = {
        "MetricNames.ARRIVAL_TIMESTAMP": 1776994443.5 + number * 0.1,
        "MetricNames.TTFT": first,
        "MetricNames.E2E": whole,
        "MetricNames.TPOT": (whole - first) / (TOKENS - 1),
        "finished_reason": "length",
    }
    return {"request_id": number, "output_token_ids": [7] * TOKENS, "metrics_dict": metrics}


def block(middle: float, high: float) -> Document:
    return {"p50": middle, "p99": high, "minimum": middle / 2, "maximum": 2 * high, "average": middle}


REPORT: Document = {
    "engine": {"model": "m", "version": "1.0"},
    "world_info": {"world_size": 8},
    "machine": {"name": "H100"},
    "request_info": {"num_requests": N, "avg_output_length": float(TOKENS)},
    "performance": {"total_latency_ms": 12000.0, "request_latency_percentiles_ms": block(600.0, 615.0)},
    "streaming_metrics": {"ttft_percentiles": block(88.0, 96.0), "tpot_percentiles": block(13.1, 13.3)},
}


def each(change: Callable[[int, Any], object]) -> Change:
    """The list, or the records, with `change` applied to each by its number."""

    def apply(folder: Path) -> None:
        (path,) = folder.iterdir()
        content = json.loads(path.read_text(encoding="utf-8"))
        for number, entry in enumerate(content if isinstance(content, list) else content["records"]):
            change(number, entry)
        path.write_text(json.dumps(content), encoding="utf-8")

    return apply


def metric(row: Document, **values: Any) -> None:
    row["metrics_dict"].update({f"MetricNames.{name}": value for name, value in values.items()})


def inside(*path: str, **values: Any) -> Change:
    """`values` in the part of the report at `path`."""

    def apply(document: Document) -> None:
        for key in path:
            document = document[key]
        document.update(values)

    return changed(apply)


TTFT = ("streaming_metrics", "ttft_percentiles")
BLIND = {"first_token_timestamp": -1, "time_to_first_token": 0}
NOT_KEPT: Mapping[str, str] = {
    **NEVER,
    "cut rows": "keeps neither chunks nor texts: its tokens are those that came",
    "several loads": "is one run in one process",
    "summary alone": "is one file",
}
ABORTS = "a request that fails ends the run, and no file is written"
UNASKED = "does not say how many requests were asked for"
IN_PROCESS = {
    "failed": ABORTS,
    "all failed": ABORTS,
    "lost rows": UNASKED,
    "counts": "has one count of requests",
}

KINDS = {
    "served, detailed": Form(
        write("result.json", {**HEAD, **arrays("e2els")}),
        JUDGES,
        {
            **DETAILED,
            "not streamed: by its sign": rows(lambda n, row: row.update(ttfts=-1.0), **NEVER_STREAMED),
            "several loads: without a rate": second(("request_rate",), max_concurrency=16),
            "summary alone": without(*ARRAYS, completed=N - N // 3),
        },
        NEVER,
    ),
    "served, aggregate": Form(
        write("result.json", HEAD),
        JUDGES,
        {
            **aggregate(),
            "lost rows": put(num_prompts=2 * N),
            "counts": put(completed=N + 9),
            "failed": put(completed=N - N // 3),
            "not streamed: by its sign": put(**NEVER_STREAMED),
        },
        NO_ROWS,
    ),
    "trtllm-bench requests": Form(
        write("requests.json", [request(number) for number in range(N)]),
        JUDGES,
        {
            "zero tokens": each(lambda n, row: row.update(num_total_output_tokens=0)),
            "null tokens": each(lambda n, row: row.update(BLIND, num_total_output_tokens=None)),
            "half the tokens": each(lambda n, row: n % 2 or row.update(num_total_output_tokens=0)),
            "one burst": each(
                lambda n, row: row.update(time_to_first_token=row["end_to_end_latency"] - 100_000)
            ),
            "not streamed": each(lambda n, row: row.update(BLIND)),
            "zero time": each(lambda n, row: row.update(time_to_first_token=0)),
            "negative time": each(lambda n, row: n % 3 or row.update(end_to_end_latency=-1)),
            "repetitions": each(lambda n, row: row.update(aggregated_repetitions=3)),
        },
        {
            **NOT_KEPT,
            **IN_PROCESS,
            "token totals": "states no total of output tokens",
            "falling percentiles": "states no percentiles",
        },
        (Alone("first_token_timestamp", "tells a first token after 0 ns from none", ("zero time",)),),
    ),
    "trtllm-bench report": Form(
        write("report.json", REPORT),
        JUDGES,
        {
            "zero tokens": inside("request_info", avg_output_length=0.0),
            "null tokens": changed(
                lambda document: [
                    document.pop("streaming_metrics"),
                    document["request_info"].pop("avg_output_length"),
                ]
            ),
            "half the tokens": inside("request_info", avg_output_length=0.5),
            "token totals": inside("request_info", avg_output_length=TOKENS / 2),
            "one burst": put(
                streaming_metrics={
                    "ttft_percentiles": block(599.9, 614.9),
                    "tpot_percentiles": block(0.0026, 0.0026),
                }
            ),
            "not streamed": without("streaming_metrics"),
            "not streamed: TTFT alone is absent": changed(
                lambda document: document["streaming_metrics"].pop("ttft_percentiles")
            ),
            "zero time": inside(*TTFT, p50=0.0, minimum=0.0),
            "negative time": inside(*TTFT, p50=-1.0),
            "falling percentiles": inside(*TTFT, p99=1.0),
            "repetitions": put(aggregated_repetitions=3),
        },
        {**NOT_KEPT, **IN_PROCESS},
    ),
    "LLM API records": Form(
        write("records.json", {"model": "m", "num_requests": N, "records": [record(n) for n in range(N)]}),
        JUDGES,
        {
            "lost rows": put(num_requests=2 * N),
            "counts": put(num_requests=N - 9),
            "failed": each(lambda n, row: n % 3 or row.update(error="timeout")),
            "failed: by what ended it": each(lambda n, row: n % 3 or row.update(finish_reason="cancelled")),
            "all failed": each(lambda n, row: row.update(metrics_dict=None)),
            "zero tokens": each(lambda n, row: row.update(output_token_ids=[])),
            "null tokens": each(
                lambda n, row: row.update(output_token_ids=None) or metric(row, TTFT=None, TPOT=None)
            ),
            "half the tokens": each(lambda n, row: n % 2 or row.update(output_token_ids=[])),
            "one burst": each(lambda n, row: metric(row, TTFT=row["metrics_dict"]["MetricNames.E2E"] - 1e-4)),
            "not streamed": each(lambda n, row: metric(row, TTFT=None)),
            "zero time": each(lambda n, row: metric(row, TTFT=0.0)),
            "negative time": each(lambda n, row: n % 3 or metric(row, E2E=-1.0)),
            "repetitions": put(aggregated_repetitions=3),
        },
        {
            **NOT_KEPT,
            "token totals": "states no total of output tokens",
            "falling percentiles": "states no percentiles",
        },
        (Alone("output_token_ids", "counts tokens that the engine's TPOT does not know of", ("one burst",)),),
    ),
}
