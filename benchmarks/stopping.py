"""How much of its budget `slo-gate run` uses on a clearly good and a clearly bad server; how often it errs.

    python benchmarks/stopping.py [--seeds 20] [--bound]

Each session is the real loop (gate.bench) with a real command (tests/bench/simulate.py): 30 rounds of 300
requests, phi 0.9, tau 0.3, five looks. Good: a tenth of the misses that the target allows; bad: five times;
on the bound: exactly as many, where every PASS is an error. Fails above the figures of STATS section 10 (4).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gate import bench, policy  # noqa: E402
from gate.evaluate import evaluate  # noqa: E402

RUNS, REQUESTS = 30, 300
TARGETS = (0.9, 0.95, 0.99)
MOST = {0.1: 0.65, 5.0: 0.42}  # of the budget, mean over targets and seeds
SIMULATE = ROOT / "tests" / "bench" / "simulate.py"
POLICY = """
version: 1
name: stopping
workload: {{load: {{concurrency: 8}}}}
goodput: {{min: {share:g}%, request: {{ttft: 800ms}}}}
"""


def session(folder: Path, share: float, times: float, seed: int) -> tuple[str, float, int]:
    """(verdict, share of the budget used, rounds) of one session."""
    folder.mkdir(parents=True)
    slo = folder / "slo.yaml"
    slo.write_text(POLICY.format(share=share * 100), encoding="utf-8")
    rules = policy.load(str(slo))
    words = (
        *(sys.executable, "-S", str(SIMULATE), "--out", "{out}", "--seed", "{seed}"),
        *("--requests", str(REQUESTS), "--misses", repr((1 - share) * times), "--phi", "0.9", "--tau", "0.3"),
    )
    side = bench.Side(bench.CANDIDATE, words)
    plan = bench.Plan((side,), bench.points(rules, [words]), bench.Budget(RUNS), seed * 1000)

    def judge(runs, baseline, notes):
        return evaluate(rules, runs, date(2027, 1, 1), notes=notes, looks=plan.planned_looks)

    journal, how = bench.Journal(folder / "session"), bench.How()
    work = bench.Session(journal, plan, how, judge, lambda event: None)
    work.begin(bench.terms(plan, rules.sha256, None, how), {}, {})
    report = work.run()
    work.close()
    return report.verdict.value, work.state.stop["rounds"] / RUNS, work.state.stop["rounds"]


def main() -> int:
    """Print a table; 1 when a figure is above its limit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--bound", action="store_true", help="also servers exactly on their bound")
    asked = parser.parse_args()
    bad = False
    print(
        "| misses | target | seeds | pass | fail | undecided | budget used |\n|---|---|---|---|---|---|---|"
    )
    for times in (*MOST, *((1.0,) if asked.bound else ())):
        shares = []
        for target in TARGETS:
            number = {"pass": 0, "fail": 0, "inconclusive": 0}
            part = []
            for seed in range(asked.seeds):
                folder = Path(tempfile.mkdtemp(prefix="slo-gate-stopping-"))
                verdict, used, _ = session(folder / "s", target, times, seed + 1)
                shutil.rmtree(folder)
                number[verdict] += 1
                part.append(used)
            shares += part
            counts = " | ".join(str(n) for n in number.values())
            print(
                f"| x{times:g} | {target:.0%} | {asked.seeds} | {counts} | {sum(part) / len(part):.0%} |",
                flush=True,
            )
            wrong = number["fail"] if times < 1 else number["pass"] if times > 1 else 0
            bad |= wrong > 0.05 * asked.seeds
        mean = sum(shares) / len(shares)
        limit = MOST.get(times)
        bad |= limit is not None and mean > limit
        print(
            f"| x{times:g} | all | {len(shares)} |  |  |  | {mean:.1%}"
            + (f", limit {limit:.0%} |" if limit else " |")
        )
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
