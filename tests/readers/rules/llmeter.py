"""How the rules are broken in the folder that LLMeter writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.readers.rules import Alone, Change, Form

N, CLIENTS = 150, 6
Document = dict[str, Any]


def row(number: int) -> Document:
    ttft, took, tokens = 0.08 + number % 17 / 1000, 0.6 + number % 29 / 1000, 30 + number % 21
    return {
        "response_text": " word" * tokens,
        "id": f"r{number}",
        "input_prompt": f"prompt {number}",
        "time_to_first_token": ttft,
        "time_to_last_token": took,
        "num_tokens_input": 60 + number % 5,
        "num_tokens_output": tokens,
        "num_tokens_output_reasoning": None,
        "time_per_output_token": (took - ttft) / (tokens - 1),
        "error": None,
        "retries": None,
        "request_time": "2026-11-29T14:18:03Z",
    }


def statistics() -> Document:
    rows = [row(number) for number in range(N)]
    run = {"clients": CLIENTS, "n_requests": N // CLIENTS, "run_name": "r1", "model_id": "m"}
    totals = {
        "total_requests": N,
        "total_test_time": 16.0,
        "start_time": "2026-11-29T14:18:03Z",
        "failed_requests": 0,
        "failed_requests_rate": 0.0,
        "total_output_tokens": sum(entry["num_tokens_output"] for entry in rows),
        "total_reasoning_output_tokens": 0,
    }
    stated = {
        f"{name}-{statistic}": value
        for name in ("time_to_first_token", "time_to_last_token", "time_per_output_token")
        for statistic, value in (
            ("average", sum(entry[name] for entry in rows) / N),
            ("p50", sorted(entry[name] for entry in rows)[N // 2]),
            ("p99", max(entry[name] for entry in rows)),
        )
    }
    return {**run, **totals, **stated}


def put(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def write_statistics(folder: Path) -> Sequence[str]:
    put(folder / "stats.json", statistics())
    state = {"model_id": "m", "max_retries": 0}
    endpoint = {"__llmeter_class__": "llmeter.endpoints.openai.Stream", "__llmeter_state__": state}
    config = {"endpoint": endpoint, "clients": CLIENTS, "n_requests": N // CLIENTS, "payload": "p"}
    put(folder / "run_config.json", config | {"tokenizer": {}, "run_duration": None})
    return ["stats.json"]


def write(folder: Path) -> Sequence[str]:
    write_statistics(folder)
    lines = (json.dumps(row(number)) + "\n" for number in range(N))
    (folder / "responses.jsonl").write_text("".join(lines), encoding="utf-8")
    return ["responses.jsonl"]


def changed(name: str, change: Callable[[Document], object]) -> Change:
    """A file of one object with `change` applied to it."""

    def apply(folder: Path) -> None:
        document = json.loads((folder / name).read_text(encoding="utf-8"))
        change(document)
        put(folder / name, document)

    return apply


def stats(**changes: object) -> Change:
    return changed("stats.json", lambda document: document.update(changes))


def state(**changes: object) -> Change:
    return changed(
        "run_config.json", lambda document: document["endpoint"]["__llmeter_state__"].update(changes)
    )


def lines(change: Callable[[list[Document]], object]) -> Change:
    """The rows with `change` applied to the list of them, and no statistics beside that would contradict."""

    def apply(folder: Path) -> None:
        path = folder / "responses.jsonl"
        entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        change(entries)
        path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
        (folder / "stats.json").unlink()

    return apply


def rows(change: Callable[[int, Document], object]) -> Change:
    return lines(lambda entries: [change(number, entry) for number, entry in enumerate(entries)])


def both(*changes: Change) -> Change:
    def apply(folder: Path) -> None:
        for change in changes:
            change(folder)

    return apply


def gone(*names: str) -> Change:
    return lambda folder: [(folder / name).unlink() for name in names] and None


def second_level(entries: list[Document]) -> None:
    """An earlier level of a LoadTest, slow in every answer."""
    slow = {"time_to_first_token": 40.0, "time_to_last_token": 90.0}
    entries[:0] = [{**entry, **slow, "id": f"first {entry['id']}"} for entry in entries]


NONE = dict.fromkeys(("time_to_first_token", "time_to_last_token", "num_tokens_output"))
SILENT = {"num_tokens_output": None, "time_to_first_token": None}
FAILED = {**NONE, "error": "Error code: 500", "response_text": None}
JUDGED = ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput")
LATENCIES = ("time_to_first_token", "time_per_output_token")
TOOL = "has no word on the run as a whole"
KINDS = {
    "responses": Form(
        write,
        JUDGED,
        {
            "lost rows": lines(lambda entries: entries.__delitem__(slice(N // 2, None))),
            "lost rows: statistics beside": lambda folder: (
                (folder / "responses.jsonl").write_text(
                    "".join(json.dumps(row(number)) + "\n" for number in range(N // 2)), encoding="utf-8"
                )
                and None
            ),
            "counts": stats(total_requests=N - 9, failed_requests=0),
            "counts: failed": stats(failed_requests=9),
            "failed": rows(lambda n, entry: n % 3 or entry.update(FAILED)),
            "all failed": rows(lambda n, entry: entry.update(FAILED)),
            "zero tokens": rows(lambda n, entry: entry.update(num_tokens_output=0)),
            "null tokens": rows(lambda n, entry: entry.update(SILENT)),
            "half the tokens": rows(lambda n, entry: n % 2 or entry.update(num_tokens_output=0)),
            "token totals": stats(total_output_tokens=statistics()["total_output_tokens"] / 2),
            "cut rows": rows(lambda n, entry: n % 10 or entry.update(response_text=" word" * 4)),
            "one burst": rows(
                lambda n, entry: entry.update(time_to_first_token=entry["time_to_last_token"] - 1e-4)
            ),
            "not streamed": rows(lambda n, entry: entry.update(time_to_first_token=None)),
            "zero time": rows(lambda n, entry: entry.update(time_to_first_token=0.0)),
            "negative time": rows(lambda n, entry: n % 3 or entry.update(time_to_last_token=-1.0)),
            "falling percentiles": stats(**{"time_to_first_token-p99": 1e-3}),
            "retries": gone("run_config.json"),
            "retries: not stated": state(max_retries=None),
            "retried": state(max_retries=2),
            "retried: counted in rows": rows(lambda n, entry: entry.update(retries=n % 2)),
            "several loads": both(
                lines(second_level), lambda folder: put(folder / "summary.json", statistics())
            ),
            "several loads: config alone": lines(second_level),
            "several loads: rows alone": both(lines(second_level), gone("run_config.json")),
            "repetitions": rows(lambda n, entry: entry.update(aggregated_repetitions=3)),
            "summary alone": both(stats(failed_requests=N // 3), gone("responses.jsonl")),
        },
        {"tool's verdict": TOOL},
        (
            Alone(
                "responses.jsonl",
                "shows which requests the statistics count",
                ("lost rows: statistics beside",),
            ),
            Alone("responses.jsonl", "holds the earlier levels of a load test", ("several loads",)),
            Alone("responses.jsonl.gz", "holds the earlier levels of a load test", ("load-test",)),
        ),
    ),
    "statistics": Form(
        write_statistics,
        JUDGED,
        {
            "lost rows": stats(total_requests=N // 2),
            "counts": stats(failed_requests=N + 1),
            "failed": stats(failed_requests=N // 3),
            "all failed": stats(failed_requests=N),
            "zero tokens": stats(total_output_tokens=0),
            "null tokens": stats(
                total_output_tokens=None,
                **{f"{name}-{p}": None for name in LATENCIES for p in ("average", "p50", "p99")},
            ),
            "half the tokens": stats(total_output_tokens=N // 2),
            "one burst": stats(
                **{
                    "time_to_first_token-p50": 0.6139,
                    "time_to_first_token-p99": 0.6279,
                    "time_per_output_token-p50": 2.5e-6,
                    "time_per_output_token-p99": 3.5e-6,
                }
            ),
            "not streamed": stats(
                **{f"{name}-{p}": None for name in LATENCIES for p in ("average", "p50", "p99")}
            ),
            "zero time": stats(**{"time_to_first_token-p50": 0.0}),
            "negative time": stats(**{"time_to_last_token-p50": -1.0}),
            "falling percentiles": stats(**{"time_to_first_token-p99": 1e-3}),
            "retries": gone("run_config.json"),
            "retried": state(max_retries=2),
            "repetitions": stats(aggregated_repetitions=3),
        },
        {
            "token totals": "has no rows to compare its total with",
            "cut rows": "has no rows",
            "tool's verdict": TOOL,
            "several loads": "is about the last level of a load test only",
            "summary alone": "is the summary",
        },
    ),
}
