"""How the rules are broken in an output.json of llm-load-test."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.readers.rules import Change, Form

N = 150
T0 = 1795960774.0
Document = dict[str, Any]


def row(number: int) -> Document:
    ttft, took = 80.0 + number % 17, 600.0 + number % 29  # ms
    start = T0 + number * 0.1
    return {
        "user_id": number % 8,
        "input_id": number,
        "input_tokens": 60 + number % 5,
        "output_tokens": 40,
        "output_tokens_before_timeout": 40,
        "start_time": start,
        "end_time": start + took / 1000,
        "response_time": took,
        "ttft": ttft,
        "error_code": None,
        "error_text": None,
    }


def write(folder: Path) -> Sequence[str]:
    summary = {"total_requests": N, "total_failures": 0}
    options = {"load_options": {"type": "constant", "concurrency": 8, "duration": 20}}
    document = {"results": [row(number) for number in range(N)], "config": options, "summary": summary}
    (folder / "output.json").write_text(json.dumps(document), encoding="utf-8")
    return ["output.json"]


def changed(change: Callable[[Document], object]) -> Change:
    """The file with `change` applied to its content."""

    def apply(folder: Path) -> None:
        path = folder / "output.json"
        document = json.loads(path.read_text(encoding="utf-8"))
        change(document)
        path.write_text(json.dumps(document), encoding="utf-8")

    return apply


def rows(change: Callable[[int, Document], object]) -> Change:
    """The file with `change` applied to each row, by its number."""
    return changed(lambda document: [change(n, entry) for n, entry in enumerate(document["results"])])


FAILED = {
    "error_code": 503,
    "error_text": "HTTP 503",
    "response_time": None,
    "ttft": None,
    "output_tokens": None,
}
KINDS = {
    "output": Form(
        write,
        ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput"),
        {
            "lost rows": changed(lambda document: document["results"].__delitem__(slice(N // 2, None))),
            "counts": changed(lambda document: document["summary"].update(total_requests=N - 9)),
            "failed": rows(lambda n, entry: n % 3 or entry.update(FAILED)),
            "all failed": rows(lambda n, entry: entry.update(FAILED)),
            "zero tokens": rows(lambda n, entry: entry.update(output_tokens=0)),
            "null tokens": rows(lambda n, entry: entry.update(output_tokens=None, ttft=None)),
            "half the tokens": rows(lambda n, entry: n % 2 or entry.update(output_tokens=0)),
            "one burst": rows(lambda n, entry: entry.update(ttft=entry["response_time"] - 0.1)),
            "not streamed": rows(lambda n, entry: entry.update(ttft=None)),
            "zero time": rows(lambda n, entry: entry.update(ttft=0.0)),
            "negative time": rows(lambda n, entry: n % 3 or entry.update(response_time=-1.0)),
            "falling percentiles": changed(
                lambda document: document["summary"].update(ttft={"median": 90.0, "percentile_99": 80.0})
            ),
            "repetitions": changed(lambda document: document.update(aggregated_repetitions=3)),
        },
        {
            "token totals": "states no total of output tokens",
            "cut rows": "keeps no chunks, and the answer's text only where it was asked for",
            "tool's verdict": "has no word on the run as a whole",
            "retries": "the client never repeats a request",
            "retried": "the client never repeats a request",
            "several loads": "is one load a file",
            "summary alone": "is one file",
        },
    )
}
