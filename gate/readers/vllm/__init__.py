"""vLLM `bench serve`, its sweeps, and the older `benchmark_serving.py` (also InferenceX's fork).

One JSON object a run: arrays in seconds (with --save-detailed), statistics in milliseconds. The file
does not hold the version that wrote it. Evidence for every rule: docs/readers.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..card import Format
from ..source import Source

NAME = "vllm"
TITLE = "vLLM bench serve"
SIDE_FILES: Mapping[str, str] = {
    "*.pytorch.json": "the same metrics once more, for the PyTorch benchmark dashboard",
    "warmup.json": "the warm-up of a vLLM sweep",
}
FORMATS: Sequence[Format] = (
    Format(
        files=(
            "`vllm bench serve --save-result --save-detailed`, `benchmark_serving.py` (0.6.3 to 0.33), "
            "appended objects"
        ),
        evidence="requests",
        reads=(
            "`ttfts`, `latencies` (else TTFT + sum of `itls`), `output_lens`, `input_lens`, "
            "`start_times`, `errors`; `itls` only for ITL"
        ),
        cannot=(
            "TTFT, TPOT, ITL when answers came in one piece; the version unless in `--metadata "
            "vllm_version=`; hardware unless `gpu=` or `hardware=`; an error inside a 200 stream (vLLM "
            "records success)"
        ),
        traps=(
            'aborted rows have a TTFT; empty error texts; "successes" with TTFT 0; ITL is per chunk, '
            "not per token; old chat has two gaps too many; a client cap hides queueing; the tool's "
            "goodput is over completed requests and duration"
        ),
    ),
    Format(
        files="the same without `--save-detailed`",
        evidence="aggregate",
        reads="mean, median, percentiles of TTFT, TPOT, ITL, E2E; every E2E from `latencies` (0.30 on)",
        cannot=(
            "joint goodput except by bounds; E2E without `e2el` in `--percentile-metrics`; TPOT of "
            "single-token outputs"
        ),
        traps=(
            "zeros of failed rows in `latencies`; no `failed` key: `num_prompts - completed`; all-zero "
            "file = all failed; 0.6 swaps mean and median E2E; a file without `completed` is refused, and so "
            "are medians over repetitions; embeddings have E2E and no tokens"
        ),
    ),
    Format(
        files="`vllm bench sweep serve`: `run=N.json`, `summary.json`",
        evidence="aggregate or requests",
        reads="as above, each run once",
        cannot="as above",
        traps="`warmup.json` left out; `run=N.failure.json` is exit 3 unless the run was repeated",
    ),
)
DEFINITIONS: Mapping[str, str] = {
    "ttft": "request sent (after the client's concurrency cap) to first streamed chunk; "
    "chat before 0.33: to the role chunk",
    "tpot": "(E2E - TTFT) / (output tokens - 1), only where there are two tokens or more",
    "itl": "gap between two streamed chunks, pooled over completed requests",
    "e2e": "request sent to last streamed chunk (`latencies`)",
}
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


def companions(sources: Sequence[Source], /) -> Mapping[Source, str]:
    """In a sweep's folder: warm-ups, and summaries whose runs are there one by one."""
    from . import sweep

    return sweep.companions(sources)
