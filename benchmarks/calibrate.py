"""Error rates of the verdict, measured: python benchmarks/calibrate.py [--quick]

First synthetic requests whose true share is known: the latency rank of successive requests is a Gaussian
AR(1) process with coefficient phi (0 independent, 0.98 congestion that lasts 50 requests), and each run has
an effect tau of its own. With the truth exactly on the bound, every PASS and every FAIL is an error; with the
misses 0.1 to 5 times those allowed, it is power. Printed beside ours: the point estimate, and the
Clopper-Pearson interval that takes requests for independent, as the negative control. Then simulated servers
that queue (server_study.py), with the rule of MLPerf LoadGen, batch means and the first release's rule.

Exits with 1 when a false rate is above 6 % (or a limit of server_study.py), the control finds less than 20 %
where requests depend, or a power figure is missed. --quick repeats less, simulates one server under two loads
and widens each limit by its noise; --choosing shows the servers on which the rules were chosen. Needs scipy
and numba beside numpy.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.stats import beta, binom, norm

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout needs no installation

from gate import stats

if TYPE_CHECKING:
    import server_study

ALPHA = 0.05
FALSE_MOST = 0.06  # nominal 0.05 and the noise of 400 repetitions
CONTROL_LEAST = 0.20  # false passes of the independent interval where requests depend
QUICK = 100  # repetitions
MULTIPLES = (1.0, 0.1, 0.5, 2.0, 5.0)  # of the misses the bound allows; 1 is the boundary
SPREAD = 0.5  # of the logarithm of a latency: P99 is 3.2 times P50
Key = tuple[str, float, str]  # method, multiple, verdict


@dataclass(frozen=True)
class Cell:
    """One benchmark design against one kind of server."""

    share: float
    phi: float
    tau: float
    runs: int
    n: int  # requests a run

    @property
    def repetitions(self) -> int:
        return 1000 if self.runs * self.n <= 3000 else 400


DESIGNS = (  # phi, tau, runs, requests a run
    (0.0, 0.0, 1, 1000),
    (0.0, 0.0, 1, 3000),
    (0.9, 0.0, 1, 1000),
    (0.9, 0.0, 1, 3000),
    (0.9, 0.0, 1, 10000),
    (0.98, 0.0, 1, 3000),
    (0.98, 0.0, 1, 10000),
    (0.9, 0.3, 5, 300),
    (0.9, 0.3, 10, 300),
    (0.9, 0.3, 30, 300),
)
CELLS = tuple(Cell(share, *design) for share in (0.9, 0.99) for design in DESIGNS)

POWER_LEAST: dict[Cell, dict[Key, float]] = {
    Cell(0.9, 0.9, 0.0, 1, 3000): {
        ("ours", 0.1, "pass"): 0.98,
        ("ours", 0.5, "pass"): 0.60,
        ("ours", 2.0, "fail"): 0.92,
    },
    Cell(0.99, 0.9, 0.3, 30, 300): {("ours", 0.1, "pass"): 0.90, ("ours", 5.0, "fail"): 0.99},
    Cell(0.99, 0.0, 0.0, 1, 3000): {("ours", 0.1, "pass"): 0.99},
}


@dataclass(frozen=True)
class Result:
    """How often each method gave each verdict in a cell."""

    cell: Cell
    repetitions: int
    counts: Counter[Key]
    deff: float  # true: variance of the observed share over that of independent requests

    def rate(self, key: Key) -> float:
        return self.counts[key] / self.repetitions


def scores(cell: Cell, rng: np.random.Generator) -> list[NDArray[np.float64]]:
    """One benchmark: lognormal latencies, one array a run, stationary from the first request."""
    noise = rng.standard_normal((cell.runs, cell.n))
    noise[:, 1:] *= np.sqrt(1.0 - cell.phi**2)
    steady = lfilter([1.0], [1.0, -cell.phi], noise, axis=1)
    effect = rng.standard_normal((cell.runs, 1)) * cell.tau
    return list(np.exp(SPREAD * (np.sqrt(1.0 - cell.tau**2) * steady + effect)))


def bound_at(share: float, multiple: float) -> float:
    """The bound that `multiple` times the allowed odds of a miss exceed, as a latency."""
    odds = multiple * (1.0 - share) / share
    return float(np.exp(SPREAD * norm.isf(odds / (1.0 + odds))))


def independent(n: int, met: int, share: float) -> str:
    """The control: Clopper-Pearson as if requests were independent (scipy's, not ours)."""
    if stats.share_met(n, met, share):
        return "pass" if beta.ppf(ALPHA, met, n - met + 1) >= share else "undecided"
    return "fail" if beta.ppf(1.0 - ALPHA, met + 1, n - met) < share else "undecided"


def measure(cell: Cell, repetitions: int, seed: int) -> Result:
    """Repeat the benchmark of a cell and count the verdicts."""
    rng = np.random.default_rng(seed)
    counts: Counter[Key] = Counter()
    shares = []
    for _ in range(repetitions):
        runs = scores(cell, rng)
        for multiple in MULTIPLES:
            bound = bound_at(cell.share, multiple)
            units = stats.units(runs, cell.share, threshold=bound)  # as of an E2E, with run_spread: 0%
            counts["ours", multiple, stats.test_share(units, cell.share, alpha=ALPHA).verdict] += 1
            if multiple == 1.0:
                shares.append(units.met / units.n)
                counts["iid", multiple, independent(units.n, units.met, cell.share)] += 1
                point = "pass" if stats.share_met(units.n, units.met, cell.share) else "fail"
                counts["point", multiple, point] += 1
    deff = cell.runs * cell.n * float(np.var(shares)) / (cell.share * (1.0 - cell.share))
    return Result(cell, repetitions, counts, deff)


def complaints(result: Result, noisy: bool) -> Iterator[str]:
    """What the cell misses, as sentences. `noisy` allows each limit its 99.9 % binomial noise."""
    cell, times = result.cell, result.repetitions
    for verdict in ("pass", "fail"):
        rate = result.rate(("ours", 1.0, verdict))
        most = binom.ppf(0.999, times, ALPHA) / times if noisy else FALSE_MOST
        if rate > most:
            yield f"{cell}: {rate:.1%} false {verdict} on the bound, more than {most:.1%}"
    least = dict(POWER_LEAST.get(cell, {}))
    if cell.phi >= 0.9:
        least["iid", 1.0, "pass"] = CONTROL_LEAST
    for key, figure in least.items():
        method, multiple, verdict = key
        limit = binom.ppf(0.001, times, figure) / times if noisy else figure
        if result.rate(key) < limit:
            yield f"{cell}: {method} {verdict} at x{multiple:g} {result.rate(key):.1%}, less than {limit:.1%}"


def row(result: Result) -> str:
    """The cell as one row of the table."""

    def both(method: str) -> str:
        return "{:.1f} / {:.1f}".format(*(100 * result.rate((method, 1.0, v)) for v in ("pass", "fail")))

    cell = result.cell
    power = [
        f"{100 * result.rate(('ours', multiple, verdict)):.1f}"
        for multiple, verdict in ((0.1, "pass"), (0.5, "pass"), (2.0, "fail"), (5.0, "fail"))
    ]
    design = f"{cell.runs} x {cell.n}"
    head = [f"{100 * cell.share:.0f} %", f"{cell.phi:g}", f"{cell.tau:g}", design, f"{result.deff:.1f}"]
    return "| " + " | ".join([*head, both("point"), both("iid"), f"**{both('ours')}**", *power]) + " |"


HEADER = (
    "| bound | phi | tau | design | true deff | point estimate | independent | ours"
    " | x0.1 PASS | x0.5 PASS | x2 FAIL | x5 FAIL |\n" + "|---" * 12 + "|"
)


def _numbered(job: tuple[int, Cell], quick: bool) -> Result:
    number, cell = job
    return measure(cell, QUICK if quick else cell.repetitions, seed=20260 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} repetitions a cell, wider limits")
    parser.add_argument("--servers", action="store_true", help="only the simulated servers")
    parser.add_argument("--choosing", action="store_true", help="those the rules were chosen on")
    asked = parser.parse_args(arguments)
    import server_study  # and with it numba, which the rest of this file does without

    plan = server_study.QUICK if asked.quick else server_study.FULL
    if asked.choosing:
        plan = plan._replace(families=server_study.CHOOSING, seed=server_study.SEEDS["choosing"])
    found: list[str] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        if not asked.servers:
            print("On the bound: false PASS / false FAIL in %. Beside it: right verdicts in %.\n\n" + HEADER)
            for result in pool.map(partial(_numbered, quick=asked.quick), enumerate(CELLS)):
                print(row(result), flush=True)
                found += complaints(result, noisy=asked.quick)
        rates: server_study.Rates = {}
        jobs = [(plan, number, load) for number in range(len(plan.families)) for load in plan.loads]
        for cells in pool.map(server_study.study, jobs):
            rates |= cells
    found += _servers(rates, plan, asked.quick)
    print("\n" + ("\n".join(found) or "Every figure that has a limit is within it."))
    return 1 if found else 0


def _servers(rates: server_study.Rates, plan: server_study.Plan, quick: bool) -> list[str]:
    """Print the tables of the simulated servers; what they miss."""
    import server_study

    designs = [f"{runs} x {n}" for runs, n in plan.designs]
    number = len(plan.families) * len(plan.loads)
    rules, each = len(server_study.RULES), plan.repetitions
    print()
    for family in plan.families:
        print(f"- {family.name}: {server_study.described(family)}")
    print(f"\n{number} simulated servers, {rules} rules, {each} benchmarks a cell, on the bound; %.")
    print("By group: mean / worst false PASS.\n\n" + server_study.error_table(rates, designs))
    print("\nRight verdicts, %, in closed loops and at 50 % load: PASS at a quarter of the allowed misses,")
    print("FAIL at five times.\n\n" + server_study.power_table(rates, designs))
    print("\nRuns of 3000 whose P90 TTFT has a deff of 20 or more, %, by server:\n")
    print(server_study.note_table(rates))
    print("\nWorst cells of ours:\n\n" + server_study.worst_table(rates, designs))
    return server_study.complaints(rates, designs, 3.0 if quick else 0.0)


if __name__ == "__main__":
    sys.exit(main())
