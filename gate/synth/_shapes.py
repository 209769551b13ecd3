"""A trace as files that hold everything: generic rows, and vLLM's detailed result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from .. import __version__
from ..model import Floats
from ._trace import Ints, Trace, seconds

ORIGIN_NS = 1_000 * 10**9  # of vLLM's start times: a clock with any origin, where 0 means never sent
_PERCENTS = (50, 90, 95, 99)


def generic(trace: Trace, name: str) -> Mapping[str, bytes]:
    """JSON lines, one a request, in the order sent (docs/readers.md, generic)."""
    setting = trace.setting
    load = {"request_rate": setting.request_rate, "concurrency": setting.cap or setting.concurrency}
    if setting.request_rate is not None and setting.cap is None:
        del load["concurrency"]
    same = {
        **{key: value for key, value in load.items() if value is not None},
        "model": setting.model,
        "tool": "slo-gate synth",
        "tool_version": __version__,
    }
    rows = [
        {
            "start_s": start_s,
            "ttft_s": None if failed else ttft_s,
            "e2e_s": None if failed else e2e_s,
            "output_tokens": tokens,
            "input_tokens": prompt,
            "error": "HTTP 500" if failed else None,
            **same,
            "itl_s": gaps_s(trace, number).tolist(),
        }
        for number, (start_s, ttft_s, e2e_s, tokens, prompt, failed) in enumerate(_columns(trace))
    ]
    lines = [msgspec.json.encode(row) + b"\n" for row in rows]
    return {f"{name}.jsonl": b"".join(lines)}


def _columns(trace: Trace) -> Any:
    times = (seconds(column) for column in (trace.start_ns, trace.first_ns, trace.last_ns))
    columns = (*times, trace.output_tokens, trace.input_tokens, trace.failed)
    return zip(*(column.tolist() for column in columns), strict=True)


def gaps_s(trace: Trace, number: int) -> Floats:
    """Gaps between the tokens of one request, in seconds."""
    return seconds(np.diff(trace.tokens_ns(number)))


def vllm(trace: Trace, name: str) -> Mapping[str, bytes]:
    """What `vllm bench serve --save-result --save-detailed` of 0.33 writes, without a date: there is none.

    In a closed loop vLLM schedules all requests at once, so that the client's queue holds the whole run.
    """
    setting, n = trace.setting, trace.start_ns.size
    closed = setting.request_rate is None
    completed, duration_s = int(n - trace.failed.sum()), trace.duration_ns / 10**9
    tokens, prompts = int(trace.output_tokens.sum()), int(trace.input_tokens[~trace.failed].sum())
    document = {
        **dict.fromkeys(("endpoint_type", "backend"), "openai-chat"),
        "label": None,
        "model_id": setting.model,
        "tokenizer_id": setting.model,
        "num_prompts": n,
        "request_rate": "inf" if closed else setting.request_rate,
        "burstiness": 1.0,
        "max_concurrency": setting.concurrency if closed else setting.cap,
        "duration": duration_s,
        "completed": completed,
        "failed": n - completed,
        "total_input_tokens": prompts,
        "total_output_tokens": tokens,
        "request_throughput": completed / duration_s if duration_s else 0.0,
        "request_goodput": None,
        "output_throughput": tokens / duration_s if duration_s else 0.0,
        "total_token_throughput": (tokens + prompts) / duration_s if duration_s else 0.0,
        "input_lens": trace.input_tokens.tolist(),
        "output_lens": trace.output_tokens.tolist(),
        "ttfts": seconds(trace.first_ns).tolist(),
        "itls": [gaps_s(trace, number).tolist() for number in range(n)],
        "latencies": seconds(trace.last_ns).tolist(),
        "start_times": seconds(trace.start_ns + ORIGIN_NS).tolist(),
        "queue_times": seconds(trace.start_ns if closed else trace.queue_ns).tolist(),
        "server_queue_times": _where_completed(trace, trace.server_queue_ns),
        "server_ttfts": _where_completed(trace, trace.first_ns),
        "errors": ["Internal Server Error" if failed else "" for failed in trace.failed.tolist()],
        **_vllm_statistics(trace),
    }
    return {f"{name}.json": msgspec.json.encode(document)}


def _where_completed(trace: Trace, column: Ints) -> list[float | None]:
    pairs = zip(seconds(column).tolist(), trace.failed.tolist(), strict=True)
    return [None if failed else value for value, failed in pairs]


def _vllm_statistics(trace: Trace) -> dict[str, float]:
    """Of completed requests: numpy linear percentiles, standard deviation with ddof 0, in ms."""
    done = ~trace.failed
    ttft_s, e2e_s, tokens = (
        seconds(trace.first_ns)[done],
        seconds(trace.last_ns)[done],
        trace.output_tokens[done],
    )
    several = tokens > 1
    found = {
        "ttft": ttft_s,
        "tpot": (e2e_s - ttft_s)[several] / (tokens[several] - 1),
        "itl": np.concatenate(
            [gaps_s(trace, number) for number in np.flatnonzero(done).tolist()] or [np.empty(0)]
        ),
        "e2el": e2e_s,
    }
    statistics: dict[str, float] = {}
    for metric, values_s in found.items():
        if values_s.size:
            milli = values_s * 1000
            named = {"mean": milli.mean(), "median": np.median(milli), "std": milli.std()}
            named |= {f"p{percent}": np.percentile(milli, percent) for percent in _PERCENTS}
            statistics |= {f"{name}_{metric}_ms": float(value) for name, value in named.items()}
    return statistics
