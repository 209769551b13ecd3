"""How the rules are broken in the two files of LLMPerf."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.readers.rules import Change, Form

N = 150
ROWS, SUMMARY = "m_150_48_individual_responses.json", "m_150_48_summary.json"
Document = dict[str, Any]


def row(number: int) -> Document:
    ttft, took = 0.08 + number % 17 / 1000, 0.6 + number % 29 / 1000
    return {
        "error_code": None,
        "error_msg": "",
        "inter_token_latency_s": took / 40,
        "ttft_s": ttft,
        "end_to_end_latency_s": took,
        "request_output_throughput_token_per_s": 40 / took,
        "number_total_tokens": 190,
        "number_output_tokens": 40,
        "number_input_tokens": 150,
    }


def summarised(rows: Sequence[Document]) -> Document:
    """As the tool does: pandas' linear percentiles over rows without an error code, 4 workers in 30 s."""
    good = [entry for entry in rows if entry["error_code"] is None]
    summary: Document = {"version": "2023-08-31", "model": "m", "num_concurrent_requests": 4}
    for key in ("ttft_s", "end_to_end_latency_s", "inter_token_latency_s", "number_output_tokens"):
        values = [entry[key] for entry in good if entry[key] is not None] or [np.nan]
        for percent in (25, 50, 75, 90, 95, 99):
            summary[f"results_{key}_quantiles_p{percent}"] = float(np.percentile(values, percent))
        for name, of in (("mean", np.mean), ("min", np.min), ("max", np.max)):
            summary[f"results_{key}_{name}"] = float(of(values))
    return {
        **summary,
        "results_num_requests_started": len(rows),
        "results_error_rate": 1 - len(good) / len(rows),
        "results_number_errors": len(rows) - len(good),
        "results_error_code_frequency": "{}",
        "results_num_completed_requests": len(good),
        "results_num_completed_requests_per_min": len(good) / 30 * 60,
    }


def write_rows(folder: Path) -> Sequence[str]:
    save(folder, [row(number) for number in range(N)])
    return [ROWS, SUMMARY]


def write_summary(folder: Path) -> Sequence[str]:
    write_rows(folder)
    (folder / ROWS).unlink()
    return [SUMMARY]


def save(folder: Path, rows: Sequence[Document]) -> None:
    (folder / ROWS).write_text(json.dumps(rows), encoding="utf-8")
    (folder / SUMMARY).write_text(json.dumps(summarised(rows)), encoding="utf-8")


def rows(change: Callable[[int, Document], object], keep: int = N) -> Change:
    """Both files as the tool writes them of the first `keep` rows, with `change` applied to each."""

    def apply(folder: Path) -> None:
        changed = [row(number) for number in range(keep)]
        for number, entry in enumerate(changed):
            change(number, entry)
        save(folder, changed)

    return apply


def summary(change: Callable[[Document], object]) -> Change:
    """The summary with `change` applied to it."""

    def apply(folder: Path) -> None:
        path = folder / SUMMARY
        content = json.loads(path.read_text(encoding="utf-8"))
        change(content)
        path.write_text(json.dumps(content), encoding="utf-8")

    return apply


def alone(change: Change) -> Change:
    """`change`, and the rows taken away."""

    def apply(folder: Path) -> None:
        change(folder)
        (folder / ROWS).unlink(missing_ok=True)

    return apply


FAILED = {"error_code": 500, "ttft_s": 0, "end_to_end_latency_s": 0, "number_output_tokens": 1}
HALF = rows(lambda n, entry: None, N // 2)
FAILING = rows(lambda n, entry: n % 3 or entry.update(FAILED))
ALL_FAILING = rows(lambda n, entry: entry.update(FAILED))
NO_TOKENS = rows(lambda n, entry: entry.update(number_output_tokens=0))
NULL_TOKENS = rows(lambda n, entry: entry.update(number_output_tokens=None, ttft_s=None))
HALF_TOKENS = rows(lambda n, entry: n % 2 or entry.update(number_output_tokens=0))
BURST = rows(lambda n, entry: entry.update(ttft_s=entry["end_to_end_latency_s"] - 0.0001))
UNSTREAMED = rows(lambda n, entry: entry.update(ttft_s=-1))
ZERO = rows(lambda n, entry: entry.update(ttft_s=0))
COUNTS = {"results_num_requests_started": N + 9}
FALLING = {"results_ttft_s_quantiles_p99": 0.01}
NEVER = {
    "tool's verdict": "has no word on the run as a whole",
    "retries": "never says which client it used, so that no error rate passes",
    "retried": "never says which client it used, so that no error rate passes",
    "several loads": "is of one load",
    "token totals": "states no total of output tokens",
    "cut rows": "keeps neither chunks nor texts",
}
KINDS = {
    "individual responses": Form(
        write_rows,
        ("ttft.p50", "tpot.p50", "e2e.p50", "goodput"),
        {
            "lost rows": HALF,
            "lost rows: no summary": lambda folder: (folder / SUMMARY).unlink(),
            "counts": summary(lambda content: content.update(COUNTS)),
            "failed": FAILING,
            "all failed": ALL_FAILING,
            "zero tokens": NO_TOKENS,
            "null tokens": NULL_TOKENS,
            "half the tokens": HALF_TOKENS,
            "one burst": BURST,
            "not streamed": UNSTREAMED,
            "zero time": ZERO,
            "negative time": rows(lambda n, entry: n % 3 or entry.update(end_to_end_latency_s=-1.0)),
            "falling percentiles": summary(lambda content: content.update(FALLING)),
            "summary alone": alone(HALF),
        },
        NEVER | {"repetitions": "is a list of requests"},
    ),
    "summary": Form(
        write_summary,
        ("ttft.p50", "e2e.p50", "goodput"),
        {
            "lost rows": alone(HALF),
            "lost rows: no concurrency": summary(lambda content: content.pop("num_concurrent_requests")),
            "lost rows: no duration": summary(
                lambda content: content.pop("results_num_completed_requests_per_min")
            ),
            "counts": summary(lambda content: content.update(COUNTS)),
            "failed": alone(FAILING),
            "all failed": alone(ALL_FAILING),
            "zero tokens": alone(NO_TOKENS),
            "null tokens": alone(NULL_TOKENS),
            "half the tokens": alone(HALF_TOKENS),
            "one burst": alone(BURST),
            "not streamed": alone(UNSTREAMED),
            "zero time": alone(ZERO),
            "negative time": summary(
                lambda content: content.update(results_end_to_end_latency_s_quantiles_p25=-1.0)
            ),
            "falling percentiles": summary(lambda content: content.update(FALLING)),
            "repetitions": summary(lambda content: content.update(aggregated_repetitions=3)),
        },
        NEVER | {"summary alone": "is the summary"},
    ),
}
