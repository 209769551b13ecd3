"""Reports as inference-benchmarker's writers.rs makes them, of answers that are known one by one.

The steps run by executors.rs: a closed loop sends when an answer came, an open loop when a request is due and
fewer than `vus` are in flight. The tool counts what ended within the step, in a closed loop also the first
answer after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

PERCENTS = (50, 60, 70, 80, 90, 95, 99)
Document = dict[str, Any]


class Answer(Struct, frozen=True):
    """One request as the client saw it; seconds."""

    start_s: float
    ttft_s: float
    decode_s: float  # from the first to the last chunk
    tail_s: float  # from the last chunk to [DONE]
    tokens: int
    failed: bool = False

    @property
    def e2e_s(self) -> float:
        return self.ttft_s + self.decode_s + self.tail_s

    @property
    def end_s(self) -> float:
        return self.start_s + self.e2e_s


Server = Callable[[int, float], Answer]  # number and start of a request -> its answer


def healthy(number: int, start_s: float) -> Answer:
    """TTFT of 80 to 96 ms, then 30 to 43 tokens of 12 to 13 ms and 2 ms to the end of the stream."""
    tokens = 30 + number * 5 % 14
    return Answer(
        start_s, 0.080 + number % 17 / 1000, (tokens - 1) * (0.012 + number % 11 / 1e4), 0.002, tokens
    )


def failing(every: int) -> Server:
    """The same; every so many requests are refused with 503 after 5 ms."""

    def answer(number: int, start_s: float) -> Answer:
        return (
            healthy(number, start_s) if number % every else Answer(start_s, 0.0, 0.0, 0.005, 0, failed=True)
        )

    return answer


def closed(server: Server, vus: int, duration_s: int) -> list[Answer]:
    """What a step of constant VUs counts, in order of completion."""
    flying, done = [server(number, 0.0) for number in range(vus)], list[Answer]()
    while not done or done[-1].end_s <= duration_s:
        first = min(flying, key=lambda answer: answer.end_s)
        flying.remove(first)
        done.append(first)
        flying.append(server(len(done) + vus - 1, first.end_s))
    return done


def opened(server: Server, rate: float, vus: int, duration_s: int) -> list[Answer]:
    """What a step of a constant rate counts, in order of completion."""
    sent = list[Answer]()
    for number in range(1, math.floor(rate * duration_s) + 1):
        due_s = number / rate
        if sum(answer.end_s > due_s for answer in sent) < vus:
            sent.append(server(len(sent), due_s))
    return sorted((a for a in sent if a.end_s <= duration_s), key=lambda answer: answer.end_s)


def times(seconds: Sequence[float]) -> Document:
    """Percentiles and mean in ms, cut to whole microseconds."""

    def cut(value: float) -> float:
        return math.floor(value * 1e6 + 1e-6) / 1000  # Rust computes in whole nanoseconds

    found = {f"p{percent}": cut(float(np.percentile(seconds, percent))) for percent in PERCENTS}
    return found | {"avg": cut(float(np.mean(seconds)))}


def step(name: str, answers: Sequence[Answer], vus: int, duration_s: int, rate: float | None) -> Document:
    good = [answer for answer in answers if not answer.failed]
    took_s = answers[-1].end_s - answers[0].start_s
    tokens = sum(answer.tokens for answer in good)
    return {
        "id": name,
        "executor_type": "ConstantVUs" if rate is None else "ConstantArrivalRate",
        "config": {"max_vus": vus, "duration_secs": duration_s, "rate": rate},
        "total_requests": len(answers),
        "total_tokens": tokens,
        "token_throughput_secs": tokens / took_s,
        "duration_ms": math.floor(took_s * 1000 + 1e-6),
        "time_to_first_token_ms": times([answer.ttft_s for answer in good]),
        "inter_token_latency_ms": times([answer.decode_s / (answer.tokens - 1) for answer in good]),
        "failed_requests": len(answers) - len(good),
        "successful_requests": len(good),
        "request_rate": len(good) / took_s,
        "total_tokens_sent": 200 * len(good),
        "e2e_latency_ms": times([answer.e2e_s for answer in good]),
    }


def report(
    kind: str,
    *,
    server: Server = healthy,
    rates: Sequence[float] | None = None,
    num_rates: int = 10,
    vus: int = 4,
    duration_s: int = 60,
    version: str = "1.1.0",
) -> Document:
    """A whole file. `kind` is Throughput, Sweep or Rate."""
    steps = [step("warmup", closed(healthy, 1, 10), 1, 10, None)]
    at = list(rates or ())
    if kind != "Rate":
        steps.append(step("throughput", closed(server, vus, duration_s), vus, duration_s, None))
    if kind == "Sweep":
        most = steps[1]["request_rate"]
        at = [number * most * 1.2 / num_rates for number in range(1, num_rates + 1)]
    for rate in at:
        counted = opened(server, rate, vus, duration_s)
        steps.append(step(f"constant@{rate:.2f}req/s", counted, vus, duration_s, rate))
    length = {"num_tokens": 200, "min_tokens": 180, "max_tokens": 220, "variance": 10}
    config: Document = {
        "max_vus": vus,
        "duration_secs": duration_s,
        "benchmark_kind": kind,
        "warmup_duration_secs": 10,
        "rates": None if rates is None else list(rates),
        "num_rates": num_rates,
        "prompt_options": length,
        "decode_options": length,
        "tokenizer": "meta-llama/Llama-3.1-8B-Instruct",
        "model_name": "llama",
        "profile": None,
        "meta": {"engine": "vLLM", "tp": "1", "token": "hf_never_read"},
        "run_id": "3f9c2d1",
    }
    if version < "1.0.0":
        for key in ("model_name", "profile", "run_id"):
            del config[key]
    return {
        "config": config,
        "results": steps,
        "start_time": "2026-11-30T23:58:12.183427561+00:00",
        "end_time": "2026-12-01T00:03:24.002181730+00:00",
        "system": {
            "cpu": ["AMD EPYC 7R13 Processor cpu0@2650MHz"],
            "memory": "30.88 GB",
            "os_name": "Debian GNU/Linux",
            "os_version": "12",
            "kernel": "6.1.0",
            "hostname": "client-0",
        },
    }


CASES: Mapping[str, Document] = {
    "typical": report("Sweep", num_rates=3),
    "failures": report("Rate", rates=[2.0, 4.0], vus=8, server=failing(20)),
    "old": report("Throughput", vus=3, version="0.2.0"),
}
