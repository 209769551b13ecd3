"""How much of its budget `slo-gate run` uses on a clearly good and a clearly bad server; how often it errs.

    python benchmarks/stopping.py [--seeds 20] [--bound 300]

Each session is the real loop (gate.bench) with a real command (tests/bench/simulate.py): 30 rounds of 300
requests, phi 0.9, tau 0.3, five looks. Good: a tenth of the misses that the target allows; bad: five times;
on the bound: exactly as many, where every PASS is an error. Fails above the figures of STATS section 10 (4).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np
from scipy.stats import binom

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gate import policy  # noqa: E402
from gate.bench.journal import Journal  # noqa: E402
from gate.bench.plan import CANDIDATE, Budget, Plan, Point, Side, Spent, look_due  # noqa: E402
from gate.bench.results import How  # noqa: E402
from gate.bench.session import Held, Session  # noqa: E402
from gate.bench.state import terms  # noqa: E402
from gate.bench.stopping import settled  # noqa: E402
from gate.evaluate import evaluate  # noqa: E402
from gate.model import Report  # noqa: E402
from tests.bench.simulate import rows  # noqa: E402
from tests.runs import goodput, make_policy, make_requests, make_run  # noqa: E402

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


def session(folder: Path, share: float, times: float, seed: int) -> tuple[str, float]:
    """(verdict, share of the budget used) of one session."""
    folder.mkdir(parents=True)
    slo = folder / "slo.yaml"
    slo.write_text(POLICY.format(share=share * 100), encoding="utf-8")
    rules = policy.load(str(slo))
    words = (
        *(sys.executable, "-S", str(SIMULATE), "--out", "{out}", "--seed", "{seed}"),
        *("--requests", str(REQUESTS), "--misses", repr((1 - share) * times), "--phi", "0.9", "--tau", "0.3"),
    )
    plan = plan_of(seed, words)

    def judge(first: Held, second: Held | None, notes: Sequence[str], last: bool) -> Report:
        return evaluate(rules, first[0], date(2027, 1, 1), notes=notes, looks=plan.shares)

    journal, how = Journal(folder / "session"), How()
    work = Session(journal, plan, how, judge, lambda event: None)
    work.begin(terms(plan, rules.sha256, None, how), {})
    report = work.run()
    work.close()
    assert work.state.stop is not None
    return report.verdict.value, work.state.stop["rounds"] / RUNS


def plan_of(seed: int, words: tuple[str, ...] = ()) -> Plan:
    """Thirty rounds at one load, five looks."""
    target = Point("", None, True)
    return Plan((Side(CANDIDATE, words),), (target,), Budget(RUNS), seed * 1000)


def on_the_bound(share: float, seed: int) -> str:
    """The verdict on a server with exactly as many misses as allowed, with the same looks."""
    asked = plan_of(seed)
    found: list = []
    taken = 0
    for number in range(1, RUNS + 1):
        told = rows(seed * 1000 + number - 1, REQUESTS, 1 - share, 0.9, 0.3, {})
        found.append(np.array([row["ttft_s"] for row in told]))
        if not (due := look_due(asked, Spent(number), taken)):
            continue
        taken = due
        runs = [make_run(make_requests(ttft, ttft + 1)) for ttft in found]
        policy_ = make_policy(goodput(share), bounds={"ttft": 0.8})
        report = evaluate(policy_, runs, date(2027, 1, 1), looks=asked.planned_looks)
        if settled(report, "verdict", spread=True):
            break
    return report.verdict.value


def table(times: float, sessions: int) -> bool:
    """Print the rows of one kind of server; whether a figure is above its limit."""
    bad, shares = False, []
    for target in TARGETS:
        number = {"pass": 0, "fail": 0, "inconclusive": 0}
        part = []
        for seed in range(1, sessions + 1):
            with tempfile.TemporaryDirectory(prefix="slo-gate-stopping-") as folder:
                verdict, used = session(Path(folder) / "s", target, times, seed)
            number[verdict] += 1
            part.append(used)
        shares += part
        line = " | ".join(str(n) for n in number.values())
        print(f"| x{times:g} | {target:.0%} | {sessions} | {line} | {np.mean(part):.0%} |", flush=True)
        bad |= number["fail" if times < 1 else "pass"] > 0
    print(f"| x{times:g} | all | {len(shares)} | | | | **{np.mean(shares):.0%}** (limit {MOST[times]:.0%}) |")
    return bad or bool(np.mean(shares) > MOST[times])


def main() -> int:
    """Print a table; 1 when a figure is above its limit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--bound", type=int, default=0, metavar="N", help="also N servers on their bound")
    asked = parser.parse_args()
    print("| misses | target | sessions | pass | fail | undecided | budget used |")
    print("|---|---|---|---|---|---|---|")
    bad = False
    for times in MOST:
        bad |= table(times, asked.seeds)
    for target in TARGETS if asked.bound else ():
        said = Counter(on_the_bound(target, seed) for seed in range(1, asked.bound + 1))
        line = " | ".join(str(said[name]) for name in ("pass", "fail", "inconclusive"))
        print(f"| x1 | {target:.0%} | {asked.bound} | {line} | |", flush=True)
        bad |= max(said["pass"], said["fail"]) > binom.ppf(0.999, asked.bound, 0.05)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
