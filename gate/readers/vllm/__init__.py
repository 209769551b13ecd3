"""vLLM `bench serve`, its sweeps, and the older `benchmark_serving.py` (also InferenceX's fork).

One JSON object a run: arrays in seconds (with --save-detailed), statistics in milliseconds. The file
does not hold the version that wrote it. Evidence for every rule: docs/readers.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..source import Source

NAME = "vllm"
TITLE = "vLLM bench serve"
# TensorRT-LLM, SGLang and an InferenceX experiment (in seconds) began as the same script.
_FORKS = frozenset(
    (
        "avg_decoded_tokens_per_iter",
        "e2els",
        "good_completed",
        "mean_e2e_latency_ms",
        "random_range_ratio",
        "sharegpt_output_len",
        "total_output_tokens_retokenized",
        "user_throughput",
    )
)
# What vLLM's other commands write: key set -> what it is.
OTHERS: Sequence[tuple[frozenset[str], str]] = (
    (
        frozenset(("avg_latency", "latencies", "percentiles")),
        "is the output of `vllm bench latency`: whole batches, no TTFT or TPOT of a request",
    ),
    (
        frozenset(("elapsed_time", "num_requests", "total_num_tokens", "requests_per_second")),
        "is the output of `vllm bench throughput`: one total, no latency of a request",
    ),
    (
        frozenset(("avg_cold_startup_time", "avg_warm_startup_time")),
        "is the output of `vllm bench startup`: no request was sent",
    ),
)
FAILURE = frozenset(("run_number", "error_type", "error"))
PYTORCH = frozenset(("benchmark", "model", "metric"))


def sniff(source: Source) -> bool:
    """By keys; also claims what other vLLM commands write, to refuse it with a sentence."""
    keys = source.keys
    if source.shape == "array" and keys == PYTORCH:
        return True
    if not keys:
        return source.shape == "text" and is_sweep_table(source)
    serve = {"model_id", "num_prompts"} <= keys or {"ttfts", "itls", "output_lens"} <= keys
    return (serve and not keys & _FORKS) or keys >= FAILURE or any(keys >= o for o, _ in OTHERS)


def is_sweep_table(source: Source) -> bool:
    """Whether it is a sweep's table of its runs, by its header."""
    return {"run_number", "num_prompts", "tokenizer_id"} <= set(source.header)
