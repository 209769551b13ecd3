"""How the rules are broken in the folder that evalscope perf writes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.readers.rules import Alone, Change, Form

N, CLIENTS, TOKENS = 150, 6, 40
DATABASE, SUMMARY, PERCENTILES, ARGS = (
    "benchmark_data.db",
    "benchmark_summary.json",
    "benchmark_percentile.json",
    "benchmark_args.json",
)
COLUMNS = (
    "start_time REAL, inter_token_latencies TEXT, success INTEGER, completed_time REAL, latency REAL,"
    " first_chunk_latency REAL, prompt_tokens INTEGER, completion_tokens INTEGER, is_stream INTEGER"
)


def row(number: int) -> tuple[object, ...]:
    ttft, took = 0.08 + number % 17 / 1000, 0.6 + number % 29 / 1000
    gaps = [(took - ttft) / (TOKENS - 1)] * (TOKENS - 1)
    start = 100 + number * 0.1
    return start, json.dumps(gaps), 1, start + took, took, ttft, 60 + number % 5, TOKENS, 1


def summary() -> dict[str, Any]:
    return {
        "Test Duration (s)": 15.6,
        "Concurrency": CLIENTS,
        "Request Rate (req/s)": -1.0,
        "Total Requests": N,
        "Success Requests": N,
        "Failed Requests": 0,
        "Stream Requests": N,
        "Avg Latency (s)": 0.614,
        "Avg Output Tokens": float(TOKENS),
    }


def percentiles() -> list[dict[str, Any]]:
    return [
        {
            "Percentiles": name,
            "Latency (s)": 0.6 + at * 0.028,
            "TTFT (ms)": 80 + at * 16,
            "TPOT (ms)": 13.0 + at,
            "ITL (ms)": 13.0 + at,
            "Output tokens": float(TOKENS),
        }
        for name, at in (("min", 0.0), ("50%", 0.5), ("90%", 0.9), ("99%", 0.99), ("max", 1.0))
    ]


def put(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def write_summary(folder: Path) -> Sequence[str]:
    put(folder / SUMMARY, summary())
    put(folder / PERCENTILES, percentiles())
    flags = {"model": "m", "api": "openai", "tokenizer_path": "t", "outputs_dir": "o", "dataset": "random"}
    load = {"number": N, "parallel": CLIENTS, "rate": -1.0, "stream": True, "duration": None}
    put(folder / ARGS, {**flags, **load, "enable_pd_metrics": False})
    return [SUMMARY]


def write(folder: Path) -> Sequence[str]:
    write_summary(folder)
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        database.execute(f"CREATE TABLE result({COLUMNS})")
        marks = ", ".join("?" * len(row(0)))
        database.executemany(f"INSERT INTO result VALUES ({marks})", [row(number) for number in range(N)])
        database.commit()
    return [DATABASE]


def changed(name: str, change: Callable[[Any], object]) -> Change:
    """A JSON file with `change` applied to its content."""

    def apply(folder: Path) -> None:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        change(content)
        put(folder / name, content)

    return apply


def sums(changes: dict[str, object]) -> Change:
    return changed(SUMMARY, lambda content: content.update(changes))


def lines(**changes: object) -> Change:
    """Every percentile of these metrics."""
    named = {"e2e": "Latency (s)", "tokens": "Output tokens"}
    update = {named.get(name, f"{name.upper()} (ms)"): value for name, value in changes.items()}
    return changed(PERCENTILES, lambda content: [entry.update(update) for entry in content])


def sql(statement: str, *, beside: bool = False) -> Change:
    """A statement run on the database, the statistics beside it taken away unless `beside`."""

    def apply(folder: Path) -> None:
        with closing(sqlite3.connect(folder / DATABASE)) as database:
            database.execute(statement)
            database.commit()
        if not beside:
            (folder / SUMMARY).unlink()

    return apply


def both(*changes: Change) -> Change:
    def apply(folder: Path) -> None:
        for change in changes:
            change(folder)

    return apply


def gone(*names: str) -> Change:
    def apply(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return apply


FAIL = "UPDATE result SET success = 0, latency = NULL, first_chunk_latency = NULL, completion_tokens = NULL"
FAILED = {"Success Requests": N - N // 3, "Failed Requests": N // 3}
BURST = "UPDATE result SET first_chunk_latency = latency - 0.0001"
FOUR = json.dumps([0.014] * 3)
JUDGED = ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput")
CANNOT = {
    "tool's verdict": "has no word on the run as a whole",
    "retries": "the client sends each request once",
    "retried": "the client sends each request once",
    "several loads": "is one level; each has a folder",
}
FALLING = changed(PERCENTILES, lambda content: content[3].update({"TTFT (ms)": 1.0}))
KINDS = {
    "database": Form(
        write,
        JUDGED,
        {
            "lost rows": sql(f"DELETE FROM result WHERE rowid > {N // 2}"),
            "lost rows: summary beside": sql(f"DELETE FROM result WHERE rowid > {N // 2}", beside=True),
            "counts": sums(FAILED),
            "counts: sum": sums({"Failed Requests": 3}),
            "failed": sql(f"{FAIL} WHERE rowid % 3 = 0"),
            "all failed": sql(FAIL),
            "zero tokens": sql("UPDATE result SET completion_tokens = 0"),
            "null tokens": sql("UPDATE result SET completion_tokens = NULL, first_chunk_latency = NULL"),
            "null tokens: embeddings": sql(
                "UPDATE result SET completion_tokens = NULL, first_chunk_latency = latency"
            ),
            "half the tokens": sql("UPDATE result SET completion_tokens = 0 WHERE rowid % 2 = 0"),
            "token totals": sums({"Avg Output Tokens": TOKENS / 2}),
            "cut rows": sql(f"UPDATE result SET inter_token_latencies = '{FOUR}' WHERE rowid % 10 = 0"),
            "one burst": sql(BURST),
            "not streamed": sql("UPDATE result SET first_chunk_latency = NULL"),
            "not streamed: flag": sql("UPDATE result SET is_stream = 0, first_chunk_latency = latency"),
            "not streamed: argument": changed(ARGS, lambda content: content.update(stream=False)),
            "zero time": sql("UPDATE result SET first_chunk_latency = 0"),
            "negative time": sql("UPDATE result SET latency = -1.0 WHERE rowid % 3 = 0"),
            "falling percentiles": FALLING,
            "summary alone": both(sums(FAILED), gone(DATABASE)),
        },
        {**CANNOT, "repetitions": "is a database"},
        (
            Alone(ARGS, "says that answers were not streamed", ("not streamed: argument",)),
            Alone(DATABASE, "shows which requests the summary counts", ("lost rows: summary beside",)),
        ),
    ),
    "summary": Form(
        write_summary,
        JUDGED,
        {
            "lost rows": sums({"Total Requests": N // 2, "Success Requests": N // 2}),
            "counts": sums({"Failed Requests": 3}),
            "failed": sums(FAILED),
            "all failed": sums({"Success Requests": 0, "Failed Requests": N}),
            "zero tokens": sums({"Avg Output Tokens": 0.0}),
            "null tokens": both(
                sums({"Avg Output Tokens": None}), lines(tokens=None, ttft=None, tpot=None, itl=None)
            ),
            "half the tokens": both(
                sums({"Avg Output Tokens": TOKENS / 2}),
                changed(PERCENTILES, lambda content: content[0].update({"Output tokens": 0.0})),
            ),
            "one burst": both(lines(ttft=600.0), lines(tpot=0.0026, e2e=0.6001)),
            "not streamed": sums({"Stream Requests": 0}),
            "not streamed: no TTFT": lines(ttft=None, tpot=None),
            "zero time": lines(ttft=0.0),
            "negative time": lines(e2e=-1.0),
            "falling percentiles": FALLING,
            "repetitions": sums({"aggregated_repetitions": 3}),
        },
        {
            **CANNOT,
            "token totals": "has no rows to compare its mean with",
            "cut rows": "has no rows",
            "summary alone": "is the summary",
        },
        (
            Alone(PERCENTILES, "states the fewest tokens of an answer", ("half the tokens",)),
            Alone(PERCENTILES, "states that a time is negative or 0", ("negative time", "zero time")),
        ),
    ),
}
