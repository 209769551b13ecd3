"""A trace as tools write it that keep less: GenAI-Perf's raw export, LLMPerf's rows, and their summaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gate.errors import UsageError
from gate.synth import Trace
from gate.synth._trace import seconds

EPOCH_NS = 1_800_000_000 * 10**9  # perf_analyzer stamps the time of day: these need all 64 bits
_ROLE = '{"role":"assistant","content":""}'
_WORD = '{"content":" a"}'
_AFTER_NS = 60_000  # finish chunk and [DONE] come after the last token; they are no tokens
_GENAI_PERCENTS = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_LLMPERF_PERCENTS = (25, 50, 75, 90, 95, 99)


# ---- GenAI-Perf ---------------------------------------------------------------------------


def genai_perf(trace: Trace, name: str) -> Mapping[str, bytes]:
    """profile_export.json and its summary, in a folder of the run's name, as GenAI-Perf 0.0.16 writes them.

    One chunk a token. The raw file holds no token counts, so prompt lengths are not in it.
    Raises UsageError for a trace with failures: perf_analyzer then writes no file.
    """
    setting = trace.setting
    if trace.failed.any():
        raise UsageError(
            f"GenAI-Perf writes no result when a request fails, and {int(trace.failed.sum())} of this run do",
            "--failures",
            "leave --failures out, or use another shape",
        )
    if setting.cap is not None:
        raise UsageError("GenAI-Perf has no cap on an open loop", "--cap", "leave it out, or use vllm")
    closed = setting.request_rate is None
    load = {"mode": "concurrency" if closed else "request_rate"}
    experiment = {**load, "value": setting.concurrency if closed else setting.request_rate}
    ends = [EPOCH_NS, EPOCH_NS + trace.duration_ns]
    requests = [_exported(trace, number) for number in range(trace.start_ns.size)]
    raw = {
        "experiments": [{"experiment": experiment, "requests": requests, "window_boundaries": ends}],
        "version": "0.0.0",
        "service_kind": "openai",
        "endpoint": "v1/chat/completions",
    }
    return {
        f"{name}/profile_export.json": msgspec.json.encode(raw),
        f"{name}/profile_export_genai_perf.json": msgspec.json.format(
            msgspec.json.encode(_genai_summary(trace)), indent=2
        ),
    }


def _exported(trace: Trace, number: int) -> dict[str, Any]:
    start_ns = EPOCH_NS + int(trace.start_ns[number])
    stamps = [start_ns + at for at in trace.tokens_ns(number).tolist()]
    words = [_event(_WORD)] * len(stamps)
    payload = {
        "model": trace.setting.model,
        "messages": [{"role": "user", "content": f"prompt {number} of {trace.input_tokens[number]} tokens"}],
        "stream": True,
    }
    bodies = [_event(_ROLE), *words, _event("{}", '"stop"'), "data: [DONE]\n\n"]
    return {
        "timestamp": start_ns,
        "request_inputs": {"payload": msgspec.json.encode(payload).decode()},
        "response_timestamps": [stamps[0], *stamps, stamps[-1] + _AFTER_NS, stamps[-1] + 2 * _AFTER_NS],
        "response_outputs": [{"response": body} for body in bodies],
    }


def _event(delta: str, finish: str = "null") -> str:
    return f'data: {{"choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}\n\n'


def _genai_summary(trace: Trace) -> dict[str, Any]:
    """By its own formulas: inter_token_latency is (E2E - TTFT) / (tokens - 1) in whole ns, without TTFT."""
    tokens, several = trace.output_tokens, trace.output_tokens > 1
    decode_ns = (trace.last_ns - trace.first_ns)[several]
    second_ns = [times[1] - times[0] for times in map(trace.tokens_ns, np.flatnonzero(several).tolist())]
    latencies_ms = {
        "request_latency": trace.last_ns / 1e6,
        "time_to_first_token": trace.first_ns / 1e6,
        "time_to_second_token": np.array(second_ns, np.float64) / 1e6,
        "inter_token_latency": np.round(decode_ns / (tokens[several] - 1)) / 1e6,
    }
    lengths = {"output_sequence_length": tokens, "input_sequence_length": trace.input_tokens}
    duration_s = trace.duration_ns / 1e9
    setting = trace.setting
    closed = setting.request_rate is None
    stimulus = {"concurrency": setting.concurrency} if closed else {"request_rate": setting.request_rate}
    return {
        "request_throughput": {"unit": "requests/sec", "avg": tokens.size / duration_s},
        "request_count": {"unit": "count", "avg": float(tokens.size)},
        "output_token_throughput": {"unit": "tokens/sec", "avg": float(tokens.sum() / duration_s)},
        **{
            tag: {"unit": "ms", **_genai_statistics(values)}
            for tag, values in latencies_ms.items()
            if values.size
        },
        **{tag: {"unit": "tokens", **_genai_statistics(values * 1.0)} for tag, values in lengths.items()},
        "input_config": {
            "model_names": [setting.model],
            "endpoint": {"type": "chat", "streaming": True, "service_kind": "openai"},
            "perf_analyzer": {"stimulus": stimulus, "stability_percentage": 999},
            "input": {"goodput": ""},
            "output": {"profile_export_file": "profile_export.json"},
        },
    }


def _genai_statistics(values: NDArray[np.floating[Any]]) -> dict[str, float]:
    """numpy linear percentiles, standard deviation with ddof 0."""
    named = {"avg": values.mean()}
    named |= {f"p{percent}": np.percentile(values, percent) for percent in _GENAI_PERCENTS}
    named |= {"min": values.min(), "max": values.max(), "std": values.std()}
    return {name: float(value) for name, value in named.items()}


# ---- LLMPerf ------------------------------------------------------------------------------


def llmperf(trace: Trace, name: str) -> Mapping[str, bytes]:
    """The rows and the summary of token_benchmark_ray.py, as LLMPerf 5acd7b1 writes them.

    Raises UsageError for an open loop, which LLMPerf does not have, and where nothing completed: it
    then ends without a file.
    """
    setting = trace.setting
    if trace.failed.all():
        raise UsageError("LLMPerf writes no result when no request completes", "--failures", "give fewer")
    if setting.request_rate is not None:
        raise UsageError("LLMPerf has only a closed loop", "--request-rate", "use --concurrency")
    mean_in, mean_out = (round(law[0]) for law in (setting.input_tokens, setting.output_tokens))
    stem = f"{setting.model}_{name}_{mean_in}_{mean_out}"
    order = np.argsort(trace.start_ns + trace.last_ns, kind="stable")  # of completion
    rows = [_llmperf_row(trace, number) for number in order.tolist()]
    return {
        f"{stem}_individual_responses.json": msgspec.json.encode(rows),
        f"{stem}_summary.json": msgspec.json.encode(_llmperf_summary(trace, f"{stem}_summary", rows)),
    }


def _llmperf_row(trace: Trace, number: int) -> dict[str, Any]:
    """Its inter_token_latency_s is (TTFT + all gaps) / tokens: it contains the TTFT."""
    failed = bool(trace.failed[number])
    ttft_s, e2e_s = (float(seconds(column[number])) for column in (trace.first_ns, trace.last_ns))
    tokens = 1 if failed else int(trace.output_tokens[number])  # an empty text still has its start token
    prompt = int(trace.input_tokens[number])
    return {
        "error_code": 500 if failed else None,
        "error_msg": "Internal Server Error" if failed else "",
        "inter_token_latency_s": e2e_s / tokens,
        "ttft_s": ttft_s,
        "end_to_end_latency_s": e2e_s,
        "request_output_throughput_token_per_s": 0.0 if failed else tokens / e2e_s,
        "number_total_tokens": prompt + tokens,
        "number_output_tokens": tokens,
        "number_input_tokens": prompt,
    }


def _llmperf_summary(trace: Trace, name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """pandas linear percentiles over completed requests, standard deviation with ddof 1."""
    setting, good = trace.setting, [row for row in rows if row["error_code"] is None]
    failed, minutes = len(rows) - len(good), trace.duration_ns / 60e9
    found: dict[str, float] = {}
    for key in (
        *("inter_token_latency_s", "ttft_s", "end_to_end_latency_s"),
        *("request_output_throughput_token_per_s", "number_input_tokens", "number_output_tokens"),
    ):
        values = np.array([float(row[key]) for row in good])
        at = {f"quantiles_p{percent}": np.percentile(values, percent) for percent in _LLMPERF_PERCENTS}
        spread = values.std(ddof=1) if values.size > 1 else np.nan
        at |= {"mean": values.mean(), "min": values.min(), "max": values.max(), "stddev": spread}
        found |= {f"results_{key}_{statistic}": float(value) for statistic, value in at.items()}
    (mean_in, spread_in), (mean_out, spread_out) = setting.input_tokens, setting.output_tokens
    return {
        "version": "2023-08-31",
        "name": name,
        "model": setting.model,
        "mean_input_tokens": mean_in,
        "stddev_input_tokens": spread_in,
        "mean_output_tokens": mean_out,
        "stddev_output_tokens": spread_out,
        "num_concurrent_requests": setting.concurrency,
        **found,
        "results_num_requests_started": len(rows),
        "results_error_rate": failed / len(rows),
        "results_number_errors": failed,
        "results_error_code_frequency": f"{{500.0: np.int64({failed})}}" if failed else "{}",
        "results_mean_output_throughput_token_per_s": float(trace.output_tokens.sum()) / (minutes * 60)
        if good
        else 0.0,
        "results_num_completed_requests": len(good),
        "results_num_completed_requests_per_min": len(good) / minutes,
    }
