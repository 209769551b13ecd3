"""Result files that have something in every picture, written in the generic format from one seed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

POLICY = """\
version: 1
name: chat
workload: {load: {concurrency: 16}}
slo: {ttft: {p99: 800ms, p90: 500ms}, tpot: {p99: 30ms}, e2e: {p99: 6s}}
goodput: {min: 95%}
limits: {error_rate: {max: 2%}}
regression: {ttft: {p50: {max: 5%}, p99: {max: 5%}}}
"""


def write(folder: Path, *, slower: float = 1.0, per_run: int = 120, name: str = "results.jsonl") -> Path:
    """Five runs at concurrency 16, two at 8 and at 32; 1 % fail, and a burst of them in the middle."""
    rng = np.random.default_rng(20261129)
    lines: list[dict[str, object]] = []
    for number, concurrency in enumerate((8, 8, 16, 16, 16, 16, 16, 32, 32), 1):
        starts = np.sort(rng.uniform(0, 60, per_run))
        prompts = rng.lognormal(6.5, 0.6, per_run).astype(int) + 10
        outputs = rng.integers(2, 300, per_run)
        wait = rng.gamma(4, 0.04 * slower * (concurrency / 16) ** 2, per_run)
        ttft = wait + prompts * 1e-4 + (starts < 2) * 0.5
        tpot = rng.gamma(40, 4e-4 * slower, per_run) * np.where(rng.random(per_run) < 0.02, 3, 1)
        e2e = ttft + tpot * (outputs - 1)
        failed = (rng.random(per_run) < 0.01) | ((starts > 30) & (starts < 30.5))
        columns = {"start_s": starts, "input_tokens": prompts}
        done = {"ttft_s": ttft, "e2e_s": e2e, "output_tokens": outputs}
        for row in range(per_run):
            kept = columns if failed[row] else columns | done
            cells = {key: column[row].item() for key, column in kept.items()}
            error = {"error": "503"} if failed[row] else {}
            lines += [{"run": number, "concurrency": concurrency, **cells, **error}]
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path
