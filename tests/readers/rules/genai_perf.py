"""How the rules are broken in GenAI-Perf's raw export, its summary and its CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.readers.rules import Alone, Change, Form

N = 150
T0 = 1795961105690252243
MS = 1_000_000
Document = dict[str, Any]
Words = list[float]  # of one answer: ms after its start at which each piece of content comes
RAW, SUMMARY, TABLE = "profile_export.json", "profile_export_genai_perf.json", "profile_export_genai_perf.csv"
TITLES = {
    "time_to_first_token": "Time To First Token (ms)",
    "request_latency": "Request Latency (ms)",
    "inter_token_latency": "Inter Token Latency (ms)",
    "output_sequence_length": "Output Sequence Length (tokens)",
    "output_token_throughput": "Output Token Throughput (tokens/sec)",
    "request_throughput": "Request Throughput (per sec)",
    "request_count": "Request Count (count)",
}
PERCENTS = (99, 95, 90, 75, 50, 25, 10, 5, 1)


def words(number: int) -> Words:
    return [60.0 + number % 17 + at * (8.0 + number % 5) for at in range(40)]


def event(document: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(document)}\n\n"


def answer(number: int, times: Words, tokens: int | None, **changes: Any) -> Document:
    """A streamed answer, a piece of content a chunk, with the server's usage where `tokens` are given."""
    start = T0 + number * 70 * MS
    bodies = [event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})]
    bodies += [event({"choices": [{"delta": {"content": " a"}}]}) for _ in times]
    if tokens is not None:
        bodies.append(event({"choices": [], "usage": {"completion_tokens": tokens, "prompt_tokens": 60}}))
    bodies.append("data: [DONE]\n\n")
    last = times[-1] if times else 500.0
    stamps = [1.0, *times, *([last + 1] if tokens is not None else []), last + 2]
    return {
        "timestamp": start,
        "request_inputs": {"payload": '{"model": "m", "stream": true}'},
        "response_timestamps": [start + round(ms * MS) for ms in stamps],
        "response_outputs": [{"response": body} for body in bodies],
        **changes,
    }


def whole(number: int, tokens: int | None = 40) -> Document:
    """The same answer in one body, as without --streaming."""
    usage = {} if tokens is None else {"usage": {"completion_tokens": tokens}}
    body = json.dumps({"choices": [{"message": {"content": "a " * 40}}], **usage})
    start = T0 + number * 70 * MS
    changes = {"response_timestamps": [start + 500 * MS], "response_outputs": [{"response": body}]}
    return answer(number, words(number), tokens, **changes)


def stat(values: Sequence[float], unit: str) -> Document:
    moments = {"avg": np.mean(values), "min": min(values), "max": max(values), "std": np.std(values)}
    ladder = {f"p{percent}": np.percentile(values, percent) for percent in PERCENTS}
    return {"unit": unit} | {key: float(value) for key, value in (moments | ladder).items()}


def summed(answers: Sequence[Words], lengths: Sequence[int], *, streaming: bool = True) -> Document:
    """The summary GenAI-Perf makes of answers with content; its own tokenizer counted their `lengths`."""
    pairs = [(times, length) for times, length in zip(answers, lengths, strict=True) if times]
    first, last = [times[0] for times, _ in pairs], [times[-1] for times, _ in pairs]
    span_s = (N * 70 + 500) / 1000
    config = {
        "model_names": ["m"],
        "endpoint": {"streaming": streaming},
        "perf_analyzer": {
            "stimulus": {"concurrency": 6},
            "measurement": {"mode": "request_count", "num": N},
        },
    }
    document: Document = {
        "request_count": {"unit": "count", "avg": float(len(pairs))},
        "request_throughput": {"unit": "requests/sec", "avg": len(pairs) / span_s},
        "input_config": config,
    }
    if not pairs:
        return document
    gaps = [(times[-1] - times[0]) / (length - 1) for times, length in pairs if length > 1]
    document |= {
        "time_to_first_token": stat(first if streaming else last, "ms"),
        "request_latency": stat(last, "ms"),
        "output_sequence_length": stat([length for _, length in pairs], "tokens"),
        "output_token_throughput": {"unit": "tokens/sec", "avg": sum(n for _, n in pairs) / span_s},
    }
    if streaming and gaps:
        document["inter_token_latency"] = stat(gaps, "ms")
    return document


def put(
    folder: Path, requests: Sequence[Document], document: Mapping[str, Any], names: Sequence[str]
) -> None:
    """The files of `names`."""
    one = {"experiment": {"mode": "concurrency", "value": 6}, "requests": list(requests)}
    raw = {"experiments": [one], "version": "0.0.0", "service_kind": "openai", "endpoint": "v1/chat"}
    columns = ["avg", "min", "max", *(f"p{percent}" for percent in PERCENTS)]
    lines, scalars = [["Metric", *columns]], [["Metric", "Value"]]
    for tag, title in TITLES.items():
        if tag in document and "p50" in document[tag]:
            if tag != "time_to_first_token" or document["input_config"]["endpoint"]["streaming"]:
                lines.append([title, *(f"{document[tag][column]:,.2f}" for column in columns)])
        elif tag in document:
            scalars.append([title, f"{document[tag]['avg']:,.2f}"])
    if RAW in names:
        (folder / RAW).write_text(json.dumps(raw), encoding="utf-8")
    if SUMMARY in names:
        (folder / SUMMARY).write_text(json.dumps(document), encoding="utf-8")
    if TABLE in names:
        with (folder / TABLE).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([*lines, [], *scalars])


def written(
    *names: str,
    tokens: int | None = 40,
    change: Callable[[int, Document], Document] = lambda _, request: request,
    times: Callable[[int], Words] = words,
    length: Callable[[int], int] = lambda _: 40,
    after: Callable[[Document], object] = lambda _: None,
    streaming: bool = True,
    n: int = N,
) -> Change:
    """These files of a run: `times` of content, `tokens` by the server, `length` by the client."""

    def apply(folder: Path) -> None:
        answers = [times(number) for number in range(n)]
        requests = [change(number, answer(number, each, tokens)) for number, each in enumerate(answers)]
        document = summed(answers, [length(number) for number in range(n)], streaming=streaming)
        after(document)
        put(folder, requests, document, names)

    return apply


def burst(number: int) -> Words:
    return [500.0 + number % 17 + at * 0.1 / 39 for at in range(40)]


def short(number: int) -> Words:
    return words(number)[: 4 if number % 10 == 0 else 40]


def emptied(number: int) -> Words:
    return words(number) if number % 3 else []


def falling(document: Document) -> None:
    document["time_to_first_token"]["p99"] = 1.0


def usage(count: int | None) -> Callable[[int, Document], Document]:
    """An answer without content, of which the server says that it made so many tokens."""
    return lambda number, _: answer(number, [], count)


def gone(*tags: str) -> Callable[[Document], None]:
    def after(document: Document) -> None:
        for tag in tags:
            document.pop(tag, None)

    return after


def failed(number: int, request: Document) -> Document:
    if number % 3:
        return request
    return request | {
        "response_timestamps": request["response_timestamps"][:1],
        "response_outputs": [{"response": event({"error": {"message": "overloaded"}})}],
    }


def early(number: int, request: Document) -> Document:
    """The answer ends before it began, by a clock that was set back."""
    if number % 3:
        return request
    return request | {"timestamp": request["response_timestamps"][-1] + 1}


def two(folder: Path) -> None:
    """A second experiment, of which nothing says at which load it was, and whose requests all miss."""
    path = folder / RAW
    document = json.loads(path.read_text(encoding="utf-8"))
    slow = [answer(number, [at * 1000.0 for at in range(10, 50)], 40) for number in range(N)]
    document["experiments"].append({"experiment": {}, "requests": slow})
    path.write_text(json.dumps(document), encoding="utf-8")


def silent(folder: Path) -> None:
    """Of a run that lacks every third answer only the summary is left, without what was asked for."""
    written(SUMMARY, times=emptied, after=gone("request_count"))(folder)
    (folder / RAW).unlink(missing_ok=True)


def edited(name: str, change: Callable[[Document], object]) -> Change:
    def apply(folder: Path) -> None:
        document = json.loads((folder / name).read_text(encoding="utf-8"))
        change(document)
        (folder / name).write_text(json.dumps(document), encoding="utf-8")

    return apply


def healthy(*names: str) -> Callable[[Path], Sequence[str]]:
    def write(folder: Path) -> Sequence[str]:
        written(*names)(folder)
        return list(names)

    return write


def summaries(name: str) -> Mapping[str, Change]:
    """What a summary shows, as JSON or CSV."""
    return {
        "null tokens": written(
            name, streaming=False, after=gone("output_sequence_length", "output_token_throughput")
        ),
        "zero tokens": written(name, length=lambda _: 0),
        "half the tokens": written(name, length=lambda number: 40 * (number % 2)),
        "one burst": written(name, times=burst),
        "not streamed": written(name, streaming=False),
        "zero time": written(name, times=lambda number: [0.0, *words(number)[1:]]),
        "negative time": written(name, after=lambda document: document["request_latency"].update(p1=-1.0)),
        "falling percentiles": written(name, after=falling),
        "summary alone": written(name, times=emptied, after=gone("request_count")),
    }


NEVER = "a failed request ends the run"
INVISIBLE = "one failure ends the run before a file is written"
ABSENT = "has no word on the run as a whole"
NO_ROWS = "holds no rows"
UNSUMMED = (
    *("failed", "all failed", "zero tokens", "null tokens", "half the tokens", "token totals"),
    *("not streamed", "zero time", "negative time", "several loads"),
)
ALL = ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput")
KINDS = {
    "raw": Form(
        healthy(RAW, SUMMARY),
        ALL,
        {
            "lost rows": written(RAW, SUMMARY, n=N // 2),
            "counts": written(
                RAW, SUMMARY, after=lambda document: document["request_count"].update(avg=N + 9.0)
            ),
            "failed": written(RAW, SUMMARY, change=failed, times=words),
            "all failed": written(RAW, SUMMARY, change=lambda _, request: failed(0, request)),
            "zero tokens": written(RAW, change=usage(0)),
            "zero tokens: beside content": written(RAW, SUMMARY, tokens=0),
            "null tokens": written(RAW, change=usage(None)),
            "half the tokens": written(RAW, tokens=40, times=lambda n: words(n) if n % 2 else []),
            "token totals": written(RAW, SUMMARY, tokens=None, length=lambda _: 20),
            "cut rows": written(RAW, SUMMARY, times=short),
            "one burst": written(RAW, SUMMARY, times=burst),
            "not streamed": written(RAW, SUMMARY, change=lambda number, _: whole(number)),
            "zero time": written(RAW, times=lambda number: [0.0, *words(number)[1:]]),
            "negative time": written(RAW, change=early),
            "falling percentiles": written(RAW, SUMMARY, after=falling),
            "several loads": two,
            "repetitions": edited(RAW, lambda document: document.update(aggregated_repetitions=3)),
            "summary alone": silent,
        },
        {"tool's verdict": ABSENT, "retries": NEVER, "retried": NEVER},
        (
            Alone(RAW, "shows what the statistics leave out", UNSUMMED),
            Alone(SUMMARY, "says how many requests were asked for", ("lost rows",)),
        ),
    ),
    "summary": Form(
        healthy(SUMMARY),
        ALL,
        {
            **summaries(SUMMARY),
            "lost rows": written(SUMMARY, n=N // 2),
            "repetitions": edited(SUMMARY, lambda document: document.update(aggregated_repetitions=3)),
        },
        {
            "counts": "states one count only",
            "failed": INVISIBLE,
            "all failed": INVISIBLE,
            "token totals": NO_ROWS,
            "cut rows": NO_ROWS,
            "tool's verdict": ABSENT,
            "retries": NEVER,
            "retried": NEVER,
            "several loads": "is one load a file",
        },
    ),
    "csv": Form(
        healthy(TABLE),
        ALL,
        summaries(TABLE),
        {
            "lost rows": "does not say how many requests were asked for",
            "counts": "states one count only",
            "failed": INVISIBLE,
            "all failed": INVISIBLE,
            "token totals": NO_ROWS,
            "cut rows": NO_ROWS,
            "tool's verdict": ABSENT,
            "retries": NEVER,
            "retried": NEVER,
            "several loads": "is one load a file",
            "repetitions": "states only metrics",
        },
    ),
}
