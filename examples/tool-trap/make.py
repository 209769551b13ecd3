"""Write the tool trap: the same 20 requests as generic rows and as LLMPerf's two files.

Every request has TTFT 500 ms, 700 ms of decode and 100 output tokens. TPOT is 700 / 99 = 7.07 ms a
token; LLMPerf's inter-token latency is 1200 / 100 = 12.00 ms, because it contains the TTFT.

    python examples/tool-trap/make.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REQUESTS = 20
CONCURRENCY = 4
TTFT_S, E2E_S = 0.5, 1.2
INPUT_TOKENS, OUTPUT_TOKENS = 300, 100
DURATION_S = REQUESTS / CONCURRENCY * E2E_S  # workers never wait


def generic_rows() -> list[dict[str, Any]]:
    """One row a request, in the columns of docs/readers.md#generic."""
    return [
        {
            "start_s": round(number // CONCURRENCY * E2E_S, 3),
            "ttft_ms": 1000 * TTFT_S,
            "e2e_ms": 1000 * E2E_S,
            "output_tokens": OUTPUT_TOKENS,
            "input_tokens": INPUT_TOKENS,
            "error": None,
            "concurrency": CONCURRENCY,
            "model": "demo-model",
            "tool": "home-made",
        }
        for number in range(REQUESTS)
    ]


def llmperf_rows() -> list[dict[str, Any]]:
    """As token_benchmark_ray.py writes them."""
    row = {
        "error_code": None,
        "error_msg": "",
        "inter_token_latency_s": E2E_S / OUTPUT_TOKENS,
        "ttft_s": TTFT_S,
        "end_to_end_latency_s": E2E_S,
        "request_output_throughput_token_per_s": OUTPUT_TOKENS / E2E_S,
        "number_total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        "number_output_tokens": OUTPUT_TOKENS,
        "number_input_tokens": INPUT_TOKENS,
    }
    return [dict(row) for _ in range(REQUESTS)]


def llmperf_summary(row: dict[str, Any]) -> dict[str, Any]:
    """All requests are alike, so every statistic is the value itself and the deviation is 0."""
    summary: dict[str, Any] = {
        "version": "2023-08-31",
        "name": "demo-model_300_100_summary",
        "model": "demo-model",
        "mean_input_tokens": INPUT_TOKENS,
        "stddev_input_tokens": 0,
        "mean_output_tokens": OUTPUT_TOKENS,
        "stddev_output_tokens": 0,
        "num_concurrent_requests": CONCURRENCY,
    }
    for key in (
        "inter_token_latency_s",
        "ttft_s",
        "end_to_end_latency_s",
        "request_output_throughput_token_per_s",
        "number_input_tokens",
        "number_output_tokens",
    ):
        for percent in (25, 50, 75, 90, 95, 99):
            summary[f"results_{key}_quantiles_p{percent}"] = row[key]
        summary |= {f"results_{key}_{name}": row[key] for name in ("mean", "min", "max")}
        summary[f"results_{key}_stddev"] = 0.0
    return summary | {
        "results_num_requests_started": REQUESTS,
        "results_error_rate": 0.0,
        "results_number_errors": 0,
        "results_error_code_frequency": "{}",
        "results_mean_output_throughput_token_per_s": REQUESTS * OUTPUT_TOKENS / DURATION_S,
        "results_num_completed_requests": REQUESTS,
        "results_num_completed_requests_per_min": 60 * REQUESTS / DURATION_S,
        "timestamp": 1767225600,
    }


def main() -> None:
    """Write the three files beside this script."""
    rows = llmperf_rows()
    lines = "".join(json.dumps(row) + "\n" for row in generic_rows())
    (HERE / "generic.jsonl").write_text(lines, encoding="utf-8")
    stem = HERE / "demo-model_300_100"
    for suffix, content in (("individual_responses", rows), ("summary", llmperf_summary(rows[0]))):
        Path(f"{stem}_{suffix}.json").write_text(json.dumps(content, indent=4) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
