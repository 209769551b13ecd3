"""How often `undecided: lean` passes what it must not, measured: python benchmarks/calibrate_lean.py [--docs]

`lean` lets an undecided rule through where the observed value keeps its bound, from 100 attempted requests
on: a point estimate, unless the verdict is a FAIL. The requests are those of calibrate.py, whose true share
is known: x1 is a deployment exactly on its bound, x2 has twice the odds of a miss that the bound allows.
--docs writes the table into docs/statistics.md. Exits with 1 where a mean is not the one that reports name.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout needs no installation

from calibrate import Cell, bound_at, scores
from verdicts import RUN_SPREAD

from gate import stats
from gate.evaluate.burden import LEAN_AT_TWICE, LEAN_ON_THE_BOUND

DOCS = Path(__file__).resolve().parent.parent / "docs" / "statistics.md"
START, END = "<!-- python benchmarks/calibrate_lean.py --docs -->\n", "<!-- end -->\n"
REPETITIONS = 1000
MULTIPLES = (1.0, 1.5, 2.0, 5.0)  # of the odds of a miss that the bound allows
DESIGNS = (  # phi, tau, runs, requests a run: what a pull request has time for
    (0.0, 0.0, 1, 100),
    (0.9, 0.0, 1, 100),
    (0.9, 0.0, 1, 300),
    (0.9, 0.0, 1, 1000),
    (0.98, 0.0, 1, 1000),
    (0.9, 0.3, 5, 100),
    (0.9, 0.3, 5, 300),
)
CELLS = tuple(Cell(share, *design) for share in (0.9, 0.95, 0.99) for design in DESIGNS)
ROUNDED = 0.025  # a report names 5 % steps


@dataclass(frozen=True)
class Result:
    """Of one design, by multiple: the share of benchmarks that `lean` lets through, and that are proven."""

    cell: Cell
    passed: dict[float, float]
    proven: dict[float, float]


def measure(cell: Cell, repetitions: int = REPETITIONS) -> Result:
    """Repeat a benchmark; seeded by the cell, so that a row is the same in every run."""
    rng = np.random.default_rng([20261, CELLS.index(cell)])
    passed, proven = dict.fromkeys(MULTIPLES, 0), dict.fromkeys(MULTIPLES, 0)
    for _ in range(repetitions):
        runs = scores(cell, rng)
        for multiple in MULTIPLES:
            bound = bound_at(cell.share, multiple)
            units = stats.units(runs, cell.share, threshold=bound, run_spread=RUN_SPREAD)
            found = stats.test_share(units, cell.share).verdict
            kept = stats.share_met(units.n, units.met, cell.share)
            proven[multiple] += found == "pass"
            passed[multiple] += found == "pass" or (found == "undecided" and kept)
    shares = [{m: number / repetitions for m, number in counts.items()} for counts in (passed, proven)]
    return Result(cell, *shares)


def row(result: Result) -> str:
    """The cell as one row of the table, in %."""
    cell = result.cell
    head = [f"{cell.runs} x {cell.n}", f"{100 * cell.share:.0f} %", f"{cell.phi:g}", f"{cell.tau:g}"]
    rates = [f"{100 * result.passed[multiple]:.1f}" for multiple in MULTIPLES]
    return "| " + " | ".join([*head, f"{100 * result.proven[1.0]:.1f}", *rates]) + " |"


HEADER = (
    "| runs x requests | target | phi | tau | proven at x1 | **let through at x1** | x1.5 | x2 | x5 |\n"
    + "|---" * 9
    + "|"
)


def mean(results: Sequence[Result], multiple: float) -> float:
    """Over all cells."""
    return float(np.mean([result.passed[multiple] for result in results]))


def text(results: Sequence[Result]) -> str:
    """The table and its means, as docs/statistics.md has them."""
    means = [f"{100 * mean(results, multiple):.0f} % at x{multiple:g}" for multiple in MULTIPLES]
    worst = max(results, key=lambda result: result.passed[2.0])
    design = (
        f"{worst.cell.runs} x {worst.cell.n}, phi {worst.cell.phi:g}, target {100 * worst.cell.share:.0f} %"
    )
    lines = [HEADER, *map(row, results), ""]
    lines.append(f"Means: {', '.join(means)}. Worst at x2: {100 * worst.passed[2.0]:.0f} % ({design}).")
    return "\n".join(lines) + "\n"


def complaints(results: Sequence[Result]) -> list[str]:
    """The rates that reports name and that are not the measured ones."""
    named = {1.0: LEAN_ON_THE_BOUND, 2.0: LEAN_AT_TWICE}
    return [
        f"reports name {rate:.0%} at x{multiple:g}; measured {mean(results, multiple):.1%}"
        for multiple, rate in named.items()
        if abs(mean(results, multiple) - rate) > ROUNDED
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--docs", action="store_true", help="write the table into docs/statistics.md")
    docs = parser.parse_args(arguments).docs
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(measure, CELLS))
    print(text(results))
    if docs:
        before, _, rest = DOCS.read_text(encoding="utf-8").partition(START)
        DOCS.write_text(before + START + text(results) + END + rest.partition(END)[2], encoding="utf-8")
    wrong = complaints(results)
    print("\n".join(wrong) or "The rates that reports name are the measured ones.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
