"""LLMPerf (ray-project/llmperf, token_benchmark_ray.py): *_individual_responses.json and *_summary.json.

The individual file has a row for each request; the summary beside it (same prefix) has model,
concurrency and the tool's own percentiles. Its `inter_token_latency_s` contains the TTFT: it is
shown as what LLMPerf reports and never judged as ITL or TPOT.
"""

from __future__ import annotations

from ..kinds import Kind

NAME = "llmperf"
TITLE = "LLMPerf"


KINDS = (
    Kind(
        "_individual_responses.json",
        begins=r'\s*\[(?=.*"inter_token_latency_s"\s*:).*"request_output_throughput_token_per_s"\s*:',
    ),
    Kind("_summary.json", frozenset(("version", "results_ttft_s_mean"))),
)
