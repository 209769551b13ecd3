"""LLMPerf (ray-project/llmperf, token_benchmark_ray.py): *_individual_responses.json and *_summary.json.

The individual file has a row for each request; the summary beside it (same prefix) has model,
concurrency and the tool's own percentiles. Its `inter_token_latency_s` contains the TTFT: it is
shown as what LLMPerf reports and never judged as ITL or TPOT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..card import Format
from ..kinds import Kind

NAME = "llmperf"
TITLE = "LLMPerf"
SIDE_FILES: Mapping[str, str] = {
    "*_correctness_summary.json": "the result of LLMPerf's correctness test, not a benchmark",
    "*_correctness_individual_responses.json": "the answers of LLMPerf's correctness test",
}
FORMATS: Sequence[Format] = (
    Format(
        files="`*_individual_responses.json` with `*_summary.json` beside it",
        evidence="requests (completion order)",
        reads=(
            "TTFT, E2E, output tokens (its tokenizer), `error_code`; from the summary model, concurrency, "
            "duration"
        ),
        cannot=(
            "ITL; an error rate within its bound (failures may be lost); TTFT and TPOT of a non-streaming "
            "client; TPOT when answers come in one chunk; no pass without the summary, or with half of the "
            "workers idle"
        ),
        traps=(
            "`inter_token_latency_s` contains the TTFT; error rows look perfect; the current version "
            "loses failures with their worker; tokens include BOS, so TPOT is biased low; E2E ends at "
            "stream close"
        ),
    ),
    Format(
        files="`*_summary.json` alone",
        evidence="aggregate",
        reads="TTFT and E2E percentiles, counts, concurrency, model, duration",
        cannot=(
            "TPOT, ITL; joint goodput except by bounds; an error rate within its bound; no pass with half of "
            "the workers idle"
        ),
        traps=(
            "numbers as text; error frequencies as a printed dict; `num_requests_started` counts rows; "
            "percentiles exclude failures"
        ),
    ),
)
DEFINITIONS: Mapping[str, str] = {
    "ttft": "ttft_s: send to first non-empty content",
    "e2e": "end_to_end_latency_s: send to the end of the stream, after the last token",
    "tpot": "not reported; (end_to_end_latency_s - ttft_s) / (number_output_tokens - 1)",
    "itl": "inter_token_latency_s: (TTFT + gaps) / tokens or chunks, one value a request; contains TTFT",
}


KINDS = (
    Kind(
        "_individual_responses.json",
        begins=r'(?=.*"inter_token_latency_s"\s*:)\s*\[.*"request_output_throughput_token_per_s"\s*:',
    ),
    Kind("_summary.json", frozenset(("version", "results_ttft_s_mean"))),
)
