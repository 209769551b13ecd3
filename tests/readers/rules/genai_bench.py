"""How the rules are broken in the folder that genai-bench writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.readers.rules import Change, Form

N, USERS = 150, 6
NAME = "D60_40_text-to-text_num_concurrency_6_time_14s.json"
METADATA = "experiment_metadata.json"
Document = dict[str, Any]


def row(number: int) -> Document:
    ttft, took, tokens = 0.08 + number % 17 / 1000, 0.6 + number % 29 / 1000, 30 + number % 21
    return {
        "ttft": ttft,
        "tpot": (took - ttft) / (tokens - 1),
        "e2e_latency": took,
        "output_latency": took - ttft,
        "num_input_tokens": 60 + number % 5,
        "num_output_tokens": tokens,
        "error_code": None,
        "error_message": None,
    }


def write(folder: Path) -> Sequence[str]:
    counts = {"num_requests": N, "num_completed_requests": N, "num_error_requests": 0, "error_rate": 0}
    load = {"iteration_type": "num_concurrency", "num_concurrency": USERS, "batch_size": 1}
    tokens = sum(row(number)["num_output_tokens"] for number in range(N))
    stats = {"ttft": {"p50": 0.088, "p99": 0.096}, "num_output_tokens": {"sum": tokens}}
    totals = {"scenario": "D(60,40)", "run_duration": 15.6, **counts, **load, "stats": stats}
    rows = [row(number) for number in range(N)]
    run = {"aggregated_metrics": totals, "individual_request_metrics": rows, "_time_unit": "s"}
    (folder / NAME).write_text(json.dumps(run), encoding="utf-8")
    about = {"benchmark_version": "0.0.5", "api_backend": "vllm", "traffic_scenario": ["D(60,40)"]}
    limits = {"cmd": "genai-bench benchmark", "max_time_per_run_s": 120, "max_requests_per_run": N}
    (folder / METADATA).write_text(json.dumps({**about, **limits}), encoding="utf-8")
    return [NAME]


def changed(name: str, change: Callable[[Document], object]) -> Change:
    """A file with `change` applied to its content."""

    def apply(folder: Path) -> None:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        change(content)
        (folder / name).write_text(json.dumps(content), encoding="utf-8")

    return apply


def totals(**changes: object) -> Change:
    return changed(NAME, lambda content: content["aggregated_metrics"].update(changes))


def rows(change: Callable[[int, Document], object]) -> Change:
    """`change` applied to each row by its number; the tool's counts follow the rows."""

    def apply(content: Document) -> None:
        entries = content["individual_request_metrics"]
        for number, entry in enumerate(entries):
            change(number, entry)
        failed = sum(entry["error_code"] is not None for entry in entries)
        counts = {"num_completed_requests": len(entries) - failed, "num_error_requests": failed}
        content["aggregated_metrics"].update(counts)

    return changed(NAME, apply)


def half(content: Document) -> None:
    del content["individual_request_metrics"][N // 2 :]
    content["aggregated_metrics"].update(num_requests=N // 2, num_completed_requests=N // 2)


def by_rate(content: Document) -> None:
    half(content)
    content["aggregated_metrics"].update(iteration_type="request_rate", request_rate=9.6, total_arrivals=N)


FAILED = {**dict.fromkeys(row(0)), "error_code": 503, "error_message": "no server"}
KINDS = {
    "run": Form(
        write,
        ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput"),
        {
            "lost rows": changed(NAME, half),
            "lost rows: of a rate": changed(NAME, by_rate),
            "counts": totals(num_requests=N + 9, num_completed_requests=N + 9),
            "counts: failed": totals(num_error_requests=9),
            "failed": rows(lambda n, entry: n % 3 or entry.update(FAILED)),
            "all failed": rows(lambda n, entry: entry.update(FAILED)),
            "zero tokens": rows(lambda n, entry: entry.update(num_output_tokens=0)),
            "null tokens": rows(lambda n, entry: entry.update(num_output_tokens=None, ttft=None)),
            "null tokens: embeddings": rows(
                lambda n, entry: entry.update(num_output_tokens=None, ttft=entry["e2e_latency"])
            ),
            "half the tokens": rows(lambda n, entry: n % 2 or entry.update(num_output_tokens=0)),
            "token totals": totals(stats={"num_output_tokens": {"sum": 2000}}),
            "one burst": rows(lambda n, entry: entry.update(ttft=entry["e2e_latency"] - 1e-4)),
            "not streamed": rows(lambda n, entry: entry.update(ttft=None)),
            "not streamed: E2E": rows(lambda n, entry: entry.update(ttft=entry["e2e_latency"])),
            "zero time": rows(lambda n, entry: entry.update(ttft=0.0)),
            "negative time": rows(lambda n, entry: n % 3 or entry.update(e2e_latency=-1.0)),
            "falling percentiles": totals(stats={"ttft": {"p50": 0.088, "p99": 0.08}}),
            "retries": lambda folder: (folder / METADATA).unlink(),
            "retried": changed(METADATA, lambda content: content.update(api_backend="aws-bedrock")),
            "repetitions": changed(NAME, lambda content: content.update(aggregated_repetitions=3)),
        },
        {
            "cut rows": "keeps neither chunks nor text",
            "tool's verdict": "has no word on the run as a whole",
            "several loads": "is one load",
            "summary alone": "is one file",
        },
    ),
}
