"""A benchmark that takes no time: rows of a made-up server in the generic format. Standard library only.

Whether a request misses its bound follows a Gaussian AR(1) process with a run effect (docs/statistics.md), so
that runs and requests depend on each other as those of a server do. The share of misses is known.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from statistics import NormalDist

BOUND_S = 0.8


def rows(
    seed: int, requests: int, misses: float, phi: float, tau: float, load: dict[str, object]
) -> list[dict[str, object]]:
    """`misses` is the true share of requests with a TTFT above BOUND_S."""
    rng = random.Random(seed)
    spread = (1 + tau**2) ** 0.5
    threshold = NormalDist().inv_cdf(1 - misses) * spread if 0 < misses < 1 else float("inf")
    run, noise = rng.gauss(0, tau) if tau else 0.0, rng.gauss(0, 1)
    found: list[dict[str, object]] = []
    for at in range(requests):
        noise = phi * noise + (1 - phi**2) ** 0.5 * rng.gauss(0, 1)
        # Strictly rising in the latent value, at the bound where the latent value is at the threshold.
        ttft = BOUND_S * 2 ** ((noise + run - threshold) / 2) if misses else BOUND_S / 4
        found.append(
            {
                "start_s": round(at * 0.01, 6),
                "ttft_s": ttft,
                "e2e_s": ttft + 1.0,
                "input_tokens": 100 + rng.randrange(50),
                "output_tokens": 101,
                "error": None,
                **load,
            }
        )
    return found


def main() -> int:
    """Write the rows, or fail as asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--misses", type=float, default=0.0)
    parser.add_argument("--phi", type=float, default=0.0)
    parser.add_argument("--tau", type=float, default=0.0)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--slower", type=float, default=1.0, help="every time is this many times as long")
    parser.add_argument(
        "--slower-until", type=int, default=10**9, help="the last seed that --slower is about"
    )
    parser.add_argument("--sleep", type=float, default=0.0)
    parser.add_argument("--fail-if", help="exit with 7 while this file exists, after writing half a result")
    parser.add_argument("--fail-from", type=int, default=0, help="the first seed that --fail-if is about")
    parser.add_argument("--model", default="m")
    asked = parser.parse_args()
    print(f"simulating seed {asked.seed}", flush=True)
    time.sleep(asked.sleep)
    load = {"concurrency": asked.concurrency, "model": asked.model}
    found = rows(asked.seed, asked.requests, asked.misses, asked.phi, asked.tau, load)
    slower = asked.slower if asked.seed <= asked.slower_until else 1.001  # no copy of the baseline
    for row in found:
        row |= {name: row[name] * slower for name in ("ttft_s", "e2e_s")}  # type: ignore[operator]
    text = "".join(json.dumps(row) + "\n" for row in found)
    if asked.fail_if and asked.seed >= asked.fail_from and Path(asked.fail_if).exists():
        Path(asked.out).write_text(text[: len(text) // 2], encoding="utf-8")
        print("the server is gone", file=sys.stderr)
        return 7
    Path(asked.out).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
