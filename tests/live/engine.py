"""An engine that exports vLLM's metrics of simulated requests, and its gateway's counter: PORT SLOWNESS."""

from __future__ import annotations

import random
import sys
import time

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, start_http_server

TTFT = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 2, 5)
TPOT = (0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05)
E2E = (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 10)
TOKENS = 100  # of every answer


def main(port: int, slowness: float) -> None:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)

    def histogram(name: str, edges: tuple[float, ...]) -> Histogram:
        return Histogram(
            f"vllm:{name}", "simulated", ["model_name"], buckets=edges, registry=registry
        ).labels("m")

    def counter(name: str, **labels: str) -> Counter:
        return Counter(name, "simulated", [*labels], registry=registry).labels(*labels.values())

    ttft = histogram("time_to_first_token_seconds", TTFT)
    tpot = histogram("request_time_per_output_token_seconds", TPOT)
    e2e = histogram("e2e_request_latency_seconds", E2E)
    length = histogram("request_generation_tokens", (1, 10, 1000))
    tokens = counter("vllm:generation_tokens", model_name="m")
    good = counter("vllm:request_success", model_name="m", finished_reason="stop")
    asked = counter("gateway_requests", model_name="m")
    start_http_server(port, addr="127.0.0.1", registry=registry)
    draw = random.Random(port)
    while True:
        for _ in range(20):
            first_s, each_s = (
                draw.lognormvariate(mu, sigma) * slowness for mu, sigma in ((-1.5, 0.3), (-4.4, 0.2))
            )
            asked.inc()
            ttft.observe(first_s)
            tpot.observe(each_s)
            e2e.observe(first_s + (TOKENS - 1) * each_s)
            length.observe(TOKENS)
            tokens.inc(TOKENS)
            good.inc()
        time.sleep(0.2)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
