"""How the rules are broken in AIPerf's records, its aggregate and its CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.readers.rules import Alone, Change, Form

N = 150
T0 = 1795960774671777530
Document = dict[str, Any]
RECORDS, AGGREGATE, TABLE = "profile_export.jsonl", "profile_export_aiperf.json", "profile_export_aiperf.csv"
TITLES = {
    "time_to_first_token": "Time to First Token (ms)",
    "inter_token_latency": "Inter Token Latency (ms)",
    "inter_chunk_latency": "Inter Chunk Latency (ms)",
    "request_latency": "Request Latency (ms)",
    "output_sequence_length": "Output Sequence Length (tokens)",
    "request_count": "Request Count",
    "error_request_count": "Error Request Count",
    "completed_request_count": "Completed Requests (Success + Error)",
    "request_error_rate": "Request Error Rate (%)",
    "request_throughput": "Request Throughput (requests/sec)",
    "benchmark_duration": "Benchmark Duration (sec)",
    "total_osl": "Total Output Sequence Length (tokens)",
    "total_usage_completion_tokens": "Total Usage Completion Tokens (tokens)",
}
PERCENTS = (1, 5, 10, 25, 50, 75, 90, 95, 99)


def row(number: int) -> Document:
    """One request of 40 tokens, one a chunk, as AIPerf 0.13 writes it."""
    ttft, gap = 80.0 + number % 17, 12.0 + number % 5
    start = T0 + number * 100_000_000
    latency = ttft + 39 * gap
    return {
        "metadata": {
            "credit_issued_ns": start - 2_000_000,
            "request_start_ns": start,
            "request_end_ns": start + round(latency * 1e6),
            "benchmark_phase": "profiling",
            "phase_index": 0,
            "phase_name": "profiling",
            "was_cancelled": False,
        },
        "metrics": {
            "time_to_first_token": {"value": ttft, "unit": "ms"},
            "request_latency": {"value": latency, "unit": "ms"},
            "inter_token_latency": {"value": gap, "unit": "ms"},
            "inter_chunk_latency": {"value": [gap] * 39, "unit": "ms"},
            "output_sequence_length": {"value": 40, "unit": "tokens"},
            "usage_completion_tokens": {"value": 40, "unit": "tokens"},
        },
    }


def stat(values: Sequence[float], unit: str) -> Document:
    moments = {"avg": np.mean(values), "min": min(values), "max": max(values), "sum": sum(values)}
    ladder = {f"p{percent}": np.percentile(values, percent) for percent in PERCENTS}
    return {"unit": unit, "count": len(values)} | {k: float(v) for k, v in (moments | ladder).items()}


def summed(rows: Sequence[Document]) -> Document:
    """The aggregate AIPerf makes of such records: of the completed ones; the error count absent when 0."""
    good = [one["metrics"] for one in rows if "error" not in one]
    wrong = len(rows) - len(good)
    phase = {"name": "profiling", "kind": "profiling", "type": "concurrency", "requests": N, "concurrency": 6}
    document: Document = {
        "schema_version": "1.4",
        "aiperf_version": "0.13.0",
        "input_config": {"models": {"items": [{"name": "m"}]}, "phases": [phase]},
        "was_cancelled": False,
        "is_complete": True,
        "start_time": "2026-11-29T13:59:34.658074",
        "completed_request_count": {"unit": "requests", "avg": float(len(rows))},
        "request_error_rate": {"unit": "%", "avg": 100 * wrong / len(rows)},
        "benchmark_duration": {"unit": "sec", "avg": 15.6},
        "error_summary": [{"error_details": {"code": 503, "type": "ValueError"}, "count": wrong}]
        if wrong
        else [],
    }
    if wrong:
        document["error_request_count"] = {"unit": "requests", "avg": float(wrong)}
    if good:
        document["request_count"] = {"unit": "requests", "avg": float(len(good))}
        document["request_throughput"] = {"unit": "requests/sec", "avg": len(good) / 15.6}
    for tag in list(TITLES)[:5]:
        known = [one[tag]["value"] for one in good if tag in one]
        values = [value for each in known for value in (each if isinstance(each, list) else [each])]
        if values:
            document[tag] = stat(values, "tokens" if tag == "output_sequence_length" else "ms")
    totals = {
        "total_osl": "output_sequence_length",
        "total_usage_completion_tokens": "usage_completion_tokens",
    }
    for total, tag in totals.items():
        if any(tag in one for one in good):
            document[total] = {"unit": "tokens", "avg": float(sum(one[tag]["value"] for one in good))}
    return document


def table(document: Mapping[str, Any]) -> list[list[str]]:
    """The same as a CSV: two blocks, two decimals."""
    columns = ["avg", "min", "max", "sum", *(f"p{percent}" for percent in PERCENTS)]
    lines, scalars = [["Metric", *columns]], [["Metric", "Value"]]
    for tag, title in TITLES.items():
        if tag in document and "p50" in document[tag]:
            lines.append([title, *(f"{document[tag][column]:.2f}" for column in columns)])
        elif tag in document:
            scalars.append([title, f"{document[tag]['avg']:.2f}"])
    return [*lines, [], *scalars]


def put(folder: Path, rows: Sequence[Document], document: Mapping[str, Any]) -> None:
    lines = "".join(json.dumps(one) + "\n" for one in rows)
    (folder / RECORDS).write_text(lines, encoding="utf-8")
    (folder / AGGREGATE).write_text(json.dumps(document), encoding="utf-8")
    with (folder / TABLE).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(table(document))


def writes(*names: str) -> Callable[[Path], Sequence[str]]:
    """A healthy run of which these files are kept."""

    def write(folder: Path) -> Sequence[str]:
        rows = [row(number) for number in range(N)]
        put(folder, rows, summed(rows))
        kept(folder, names)
        return list(names)

    return write


def kept(folder: Path, names: Sequence[str]) -> None:
    for name in {RECORDS, AGGREGATE, TABLE} - set(names):
        (folder / name).unlink()


def breaks(*names: str) -> Mapping[str, Change]:
    """Each rule broken in a run of which these files are kept: its records first, or what sums them up."""

    def of(
        change: Callable[[int, Document], object] = lambda *_: None,
        after: Callable[[Document], object] = lambda _: None,
        rows: Sequence[Document] | None = None,
    ) -> Change:
        def apply(folder: Path) -> None:
            mine = [row(number) for number in range(N)] if rows is None else list(rows)
            for number, one in enumerate(mine):
                change(number, one)
            document = summed(mine)
            after(document)
            put(folder, mine, document)
            kept(folder, names)

        return apply

    def failed(_: int, one: Document) -> None:
        one.update(error={"code": 503, "type": "Service Unavailable"}, metrics={})

    def third(number: int, one: Document) -> None:
        if number % 3 == 0:
            failed(number, one)

    def tokens(value: int | None) -> Callable[[int, Document], None]:
        def change(_: int, one: Document) -> None:
            for tag in ("output_sequence_length", "usage_completion_tokens"):
                if value is None:
                    del one["metrics"][tag]
                else:
                    one["metrics"][tag]["value"] = value
            if value is None:
                del one["metrics"]["time_to_first_token"], one["metrics"]["inter_token_latency"]
                del one["metrics"]["inter_chunk_latency"]

        return change

    def half(number: int, one: Document) -> None:
        if number % 2 == 0:
            tokens(0)(number, one)

    def cut(number: int, one: Document) -> None:
        if number % 10 == 0:
            metrics = one["metrics"]
            metrics["output_sequence_length"]["value"] = 4
            metrics["inter_chunk_latency"]["value"] = metrics["inter_chunk_latency"]["value"][:3]
            metrics["request_latency"]["value"] = metrics["time_to_first_token"]["value"] + 40.0

    def burst(_: int, one: Document) -> None:
        metrics = one["metrics"]
        metrics["time_to_first_token"]["value"] = metrics["request_latency"]["value"] - 0.1
        metrics["inter_token_latency"]["value"] = 0.1 / 39
        metrics["inter_chunk_latency"]["value"] = [0.1] + [0.0] * 38

    def unstreamed(_: int, one: Document) -> None:
        for tag in ("time_to_first_token", "inter_token_latency", "inter_chunk_latency"):
            del one["metrics"][tag]

    def second(number: int, one: Document) -> None:
        if number >= N // 2:
            one["metadata"].update(phase_index=1, phase_name="c64")
            one["metrics"]["request_latency"]["value"] = 60_000.0
            one["metrics"]["inter_token_latency"]["value"] = 1_500.0

    def two(document: Document) -> None:
        phases = document["input_config"]["phases"]
        phases[0]["requests"] = N // 2
        phases.append(phases[0] | {"name": "c64", "concurrency": 64})

    def value(tag: str, number: float) -> Callable[[int, Document], None]:
        return lambda _, one: one["metrics"][tag].update(value=number)

    def silent(document: Document) -> None:
        for tag in ("error_request_count", "completed_request_count", "request_error_rate", "error_summary"):
            document.pop(tag, None)

    def submission(document: Document) -> None:
        reasons = ["context_overflow_rate_exceeded"]
        document["metadata"] = {"submission_valid": False, "submission_invalid_reasons": reasons}

    def again(folder: Path) -> None:
        several = {"aiperf_version": "0.13.0", "metadata": {"aggregation_type": "confidence"}, "metrics": {}}
        (folder / AGGREGATE).write_text(json.dumps(several), encoding="utf-8")

    def unsummed(folder: Path) -> None:
        of(second)(folder)
        (folder / AGGREGATE).unlink(missing_ok=True)

    def alone(folder: Path) -> None:
        of(third, silent)(folder)
        (folder / RECORDS).unlink(missing_ok=True)

    made: dict[str, Change] = {
        "failed": of(third),
        "all failed": of(failed),
        "zero tokens": of(tokens(0)),
        "null tokens": of(tokens(None)),
        "half the tokens": of(half),
        "one burst": of(burst),
        "not streamed": of(unstreamed),
        "zero time": of(value("time_to_first_token", 0.0)),
        "summary alone": alone,
    }
    whole = [row(number) for number in range(N)]
    if RECORDS in names:
        made["cut rows"] = of(cut)
        made["negative time"] = of(lambda n, one: n % 3 or value("request_latency", -1.0)(n, one))
    else:
        made["negative time"] = of(after=lambda document: document["request_latency"].update(p1=-1.0))
    if AGGREGATE in names:
        made |= {
            "lost rows": of(rows=whole[: N // 2]),
            "counts": of(after=lambda document: document["request_count"].update(avg=N - 9.0)),
            "several loads": of(second, two),
            "tool's verdict: is_complete": of(
                after=lambda d: d.update(is_complete=False, incomplete_reason="stall")
            ),
            "tool's verdict: was_cancelled": of(after=lambda d: d.update(was_cancelled=True)),
            "tool's verdict: submission_valid": of(after=submission),
        }
    if RECORDS in names:
        made["several loads: without the aggregate"] = unsummed
    if names == (RECORDS, AGGREGATE):
        made |= {
            LOST_IN_COUNT: lambda folder: put_rows(folder, whole[: N // 2]),
            "token totals": of(after=lambda d: d["total_usage_completion_tokens"].update(avg=20.0 * N)),
            "falling percentiles": of(after=lambda d: d["time_to_first_token"].update(p99=1.0)),
        }
    elif RECORDS not in names:
        made["falling percentiles"] = of(after=lambda d: d["time_to_first_token"].update(p99=1.0))
        made["counts"] = of(after=lambda d: d["completed_request_count"].update(avg=N + 9.0))
    if names == (AGGREGATE,):
        made["repetitions"] = again
        made["repetitions: by another tool's word"] = of(after=lambda d: d.update(aggregated_repetitions=3))
    return made


def put_rows(folder: Path, rows: Sequence[Document]) -> None:
    (folder / RECORDS).write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")


LOST_IN_COUNT = "lost rows: in the aggregate's count"
NEVER = "the client never repeats a request"
ALL = ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput")
NO_ROWS = "holds no rows"
KINDS = {
    "records": Form(
        writes(RECORDS, AGGREGATE),
        ALL,
        breaks(RECORDS, AGGREGATE),
        {"retries": NEVER, "retried": NEVER, "repetitions": "is one request a row"},
        (
            Alone(AGGREGATE, "says how many requests were asked for", ("lost rows",)),
            Alone(AGGREGATE, "has AIPerf's word on its run", ("tool's verdict",)),
            Alone(AGGREGATE, "counts more requests than there are rows", (LOST_IN_COUNT,)),
            Alone(RECORDS, "has fewer rows than are counted", (LOST_IN_COUNT,)),
            Alone("metrics", "tells rows from AIPerf's raw responses", (LOST_IN_COUNT,)),
        ),
    ),
    "aggregate": Form(
        writes(AGGREGATE),
        ALL,
        breaks(AGGREGATE),
        {"retries": NEVER, "retried": NEVER, "token totals": NO_ROWS, "cut rows": NO_ROWS},
    ),
    "csv": Form(
        writes(TABLE),
        ALL,
        breaks(TABLE),
        {
            "retries": NEVER,
            "retried": NEVER,
            "token totals": NO_ROWS,
            "cut rows": NO_ROWS,
            "lost rows": "does not say how many requests were asked for",
            "several loads": "does not name its phases",
            "tool's verdict": "has no word on the run as a whole",
            "repetitions": "states only metrics",
        },
    ),
}
