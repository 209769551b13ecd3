"""What naming the misses costs: evaluate of 1,000,000 requests, and the share of it that attribution takes.

`python benchmarks/attribution.py`. CPU time, the best of five. Exits 1 where attribution takes over half,
which is to say that it doubles the time of evaluate.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gate.evaluate import evaluate
from gate.evaluate.explain.attribution import attribute
from gate.evaluate.prepare import prepare
from tests.runs import goodput, latency, make_policy, make_requests, make_run

N, REPEAT, BAR = 1_000_000, 5, 0.5


def best_s(what: Callable[[], object]) -> float:
    taken = []
    for _ in range(REPEAT):
        begun = time.process_time()
        what()
        taken.append(time.process_time() - begun)
    return min(taken)


def main() -> int:
    draw = np.random.default_rng(1)
    tokens = draw.integers(2, 400, N).astype(float)
    ttft_s = draw.lognormal(-1.5, 0.6, N)
    e2e_s = ttft_s + (tokens - 1) * draw.lognormal(-4.2, 0.2, N)
    run = make_run(make_requests(ttft_s, e2e_s, tokens, input_tokens=draw.integers(10, 2000, N)))
    rules = (latency("ttft", 99, 0.8), latency("tpot", 99, 0.025), latency("e2e", 99, 3.0), goodput(0.95))
    policy = make_policy(*rules, bounds={"ttft": 0.8, "tpot": 0.025, "e2e": 3.0})
    prepared = [prepare(run, policy)]
    whole_s = best_s(lambda: evaluate(policy, [run], date(2026, 1, 1)))
    part_s = best_s(lambda: attribute(prepared, policy))
    share = part_s / whole_s
    print(f"evaluate of {N:,} requests: {whole_s:.3f} s; attribution {share:.0%} of it (bar {BAR:.0%})")
    return int(share > BAR)


if __name__ == "__main__":
    raise SystemExit(main())
