"""The marks of a gate that costs nothing next to the benchmark, as ratios measured in one run.

`python benchmarks/speed.py [--repeat N]` (`make bench`). Every figure is the wall time of a whole process,
with bytecode cached as an installed package has it. The two sides of a ratio run in turn, A B A B, and their
medians are divided, so that a noisy machine disturbs both. Exits 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import make_inputs

ROOT = Path(__file__).resolve().parent.parent
POLICY = """\
version: 1
name: speed
slo: {ttft: {p99: 2s}, tpot: {p99: 50ms}, e2e: {p99: 30s}}
goodput: {min: 95%}
"""
ORJSON = "import orjson, sys; orjson.loads(open(sys.argv[1], 'rb').read())"
ORJSON_LINES = "import orjson, sys\nfor line in open(sys.argv[1], 'rb'): orjson.loads(line)"
IMPORTS = "import click, numpy, yaml"
CHECK = "import sys; from gate.cli import run; sys.exit(run(['check', sys.argv[1], '--policy', sys.argv[2]]))"


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True)
class Mark:
    name: str
    file: Path
    against: str  # the code on the other side
    bar: float
    extra: tuple[str, ...] = ()  # further arguments of `check`


def marks(folder: Path) -> list[Mark]:
    data = make_inputs.DATA
    files = {
        "vllm_with_latencies.json": lambda path: make_inputs.vllm_detailed(path, 89),
        "vllm_without_latencies.json": lambda path: make_inputs.vllm_detailed(path, 89, latencies=False),
        "aiperf.jsonl": lambda path: make_inputs.aiperf_jsonl(path, 72),
        "generic.jsonl": lambda path: make_inputs.generic_jsonl(path, 100_000),
    }
    for name, write in files.items():
        if not (data / name).is_file():
            write(data / name)
    small = folder / "small.jsonl"
    small.write_text('{"ttft_s": 0.1, "e2e_s": 1.0, "output_tokens": 100}\n' * 200, encoding="utf-8")
    return [
        Mark("cold start of `check` / import click, numpy, yaml", small, IMPORTS, 1.5),
        Mark(
            "`check`, 89 MB vLLM with latencies / orjson.loads",
            data / "vllm_with_latencies.json",
            ORJSON,
            1.1,
        ),
        Mark(
            "`check`, 89 MB vLLM without latencies / orjson.loads",
            data / "vllm_without_latencies.json",
            ORJSON,
            1.5,
        ),
        Mark("`check`, 72 MB AIPerf JSONL / orjson.loads per line", data / "aiperf.jsonl", ORJSON_LINES, 0.9),
        Mark(
            "page with charts of 100,000 requests / `check` of them",
            data / "generic.jsonl",
            CHECK,
            3.0,
            ("--html", str(folder / "report.html")),
        ),
    ]


def seconds(command: list[str], cwd: Path) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, check=False)
    if done.returncode not in (0, 1, 4):
        raise SystemExit(f"{command} exited {done.returncode}: {done.stderr.decode()}")
    return time.perf_counter() - started


def measure(mark: Mark, repeat: int, cwd: Path) -> tuple[float, float]:
    policy = str(cwd / "slo.yaml")
    check = [sys.executable, "-m", "gate", "check", str(mark.file), "--policy", policy, *mark.extra]
    bare = [sys.executable, "-c", mark.against, str(mark.file), policy]
    pairs = [(seconds(check, ROOT), seconds(bare, ROOT)) for _ in range(repeat + 1)][
        1:
    ]  # the first warms caches
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


JUDGED = 1_000_000  # requests
JUDGED_BAR = 25.0  # CPU of a judgement over that of one np.partition at the three ranks that are shown


def judgement(repeat: int) -> tuple[float, float]:
    """CPU seconds of a judgement after reading, and of one np.partition of one of its columns."""
    sys.path.insert(0, str(ROOT))
    from datetime import date

    import numpy as np

    from gate import policy
    from gate.evaluate import evaluate
    from gate.model import Counts, Load, Requests, Run

    rng = np.random.default_rng(1)
    ttft = rng.lognormal(-1.0, 0.5, JUDGED)
    tokens, prompts = (rng.integers(low, high, JUDGED).astype(float) for low, high in ((2, 400), (10, 2000)))
    e2e, start = ttft + tokens * rng.lognormal(-4.0, 0.2, JUDGED), np.arange(JUDGED) / 100.0
    asked = policy.parse(POLICY.encode(), "slo.yaml")
    ranks = [JUDGED // 2, JUDGED * 9 // 10, JUDGED * 99 // 100]
    pairs = []
    for _ in range(repeat + 1):  # the first warms caches
        rows = Requests(np.zeros(JUDGED, np.uint8), ttft, e2e, tokens, prompts, start, order="start")
        run = Run("run", "0" * 64, "test", "vllm", rows, Counts(JUDGED, JUDGED, 0), load=Load(concurrency=64))
        began = time.process_time()
        evaluate(asked, [run], date(2026, 11, 29))
        judged = time.process_time()
        np.partition(ttft, ranks)
        pairs.append((judged - began, time.process_time() - judged))
    return statistics.median(a for a, _ in pairs[1:]), statistics.median(b for _, b in pairs[1:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=9)
    repeat = parser.parse_args().repeat
    missed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "slo.yaml").write_text(POLICY, encoding="utf-8")
        print(f"{'mark':58} {'ours':>8} {'bare':>8} {'ratio':>6}  bar")
        for mark in marks(folder):
            ours, bare = measure(mark, repeat, folder)
            late = ours / bare > mark.bar
            missed += late
            said = "  MISSED" if late else ""
            print(f"{mark.name:58} {ours:7.3f}s {bare:7.3f}s {ours / bare:6.2f}  <= {mark.bar}{said}")
    ours, bare = judgement(repeat)
    late = ours / bare > JUDGED_BAR
    name = "CPU of judging 1,000,000 requests / one np.partition"
    said = "  MISSED" if late else ""
    print(f"{name:58} {ours:7.3f}s {bare:7.3f}s {ours / bare:6.2f}  <= {JUDGED_BAR:g}{said}")
    missed += late
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
