"""How often a change is found in a made-up history, and in one without a change: the table of docs/trend.md.

60 sessions with P50, P90 and P99 of TTFT, TPOT and E2E (what all figures of a session share, and a noise of
their own of 0.5 %, 1 % and 3 %), goodput and error rate of 1,500 requests.
`--rival` adds Apache Otava's answers where it is installed (a change: in Gaussian noise alone).
Prints Markdown and exits 1 where a bar is missed. `--quick` takes fewer seeds.

The constants of gate/stats/_changes.py were chosen on other seeds and on the families marked with *.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gate import stats
from gate.model import Floats

SESSIONS, REQUESTS = 60, 1500
OWN = np.array([0.005, 0.01, 0.03] * 3)
STEP = math.log(1.08)
FLOOR = 0.5 / math.sqrt(REQUESTS)  # of the arcsine root of a share
FALSE_MOST = 5  # of 100 histories without a change
FOUND_LEAST = 95  # of 100 with one, in Gaussian noise up to 4 %

Rng = np.random.Generator


def gaussian(rng: Rng, sigma: float) -> Floats:
    return rng.normal(0.0, sigma, SESSIONS)


def noisy_node(rng: Rng, sigma: float) -> Floats:
    """Every session on one of four nodes; one has twice the noise of the others."""
    node = rng.integers(0, 4, SESSIONS)
    return np.where(node == 0, 2.0, 1.0) * rng.normal(0.0, sigma, SESSIONS)


def slow_node(rng: Rng, sigma: float) -> Floats:
    """One node of eight is 10 % slower."""
    return rng.normal(0.0, sigma, SESSIONS) + 0.1 * (rng.integers(0, 8, SESSIONS) == 0)


def heavy(rng: Rng, sigma: float) -> Floats:
    return rng.standard_t(3, SESSIONS) * sigma / math.sqrt(3.0)


def skewed(rng: Rng, sigma: float) -> Floats:
    """Sessions are sometimes slower and never faster: exponential."""
    return rng.exponential(sigma, SESSIONS)


def alike(rho: float) -> Callable[[Rng, float], Floats]:
    """A session is like the one before it: AR(1)."""

    def family(rng: Rng, sigma: float) -> Floats:
        x = rng.normal(0.0, sigma, SESSIONS)
        for at in range(1, SESSIONS):
            x[at] = rho * x[at - 1] + math.sqrt(1.0 - rho * rho) * x[at]
        return x

    return family


FAMILIES: dict[str, Callable[[Rng, float], Floats]] = {
    "Gaussian *": gaussian,
    "one node of four twice as noisy": noisy_node,
    "one node of eight 10 % slower": slow_node,
    "heavy tails (t, 3 df) *": heavy,
    "skewed (exponential)": skewed,
    "like the session before, r = 0.2": alike(0.2),
    "like the session before, r = 0.4": alike(0.4),
}


def history(rng: Rng, family: Callable[[Rng, float], Floats], sigma: float, step: float, at: int) -> Floats:
    """Series x sessions: logarithms of nine percentiles, arcsine roots of missed goodput and error rate."""
    common = family(rng, sigma)
    rows = common + rng.normal(0.0, 1.0, (9, SESSIONS)) * OWN[:, None]
    rows[:, at:] += step
    missed = 1.0 / (1.0 + np.exp(-(math.log(0.03 / 0.97) + 8.0 * rows[2])))
    shares = (rng.binomial(REQUESTS, missed), rng.binomial(REQUESTS, np.full(SESSIONS, 0.002)))
    return np.vstack((rows, *(np.arcsin(np.sqrt(share / REQUESTS)) for share in shares)))


def ours(rows: Floats) -> list[tuple[int, int, int]]:
    found = stats.find_changes(list(rows), [0.0] * 9 + [FLOOR] * 2)
    return [(one.at, one.first, one.last) for one in found]


def otava(rows: Floats) -> list[int]:
    """Places that it finds in any series; it takes figures as they are."""
    from otava.analysis import compute_change_points

    places: set[int] = set()
    for row in rows:
        places |= {int(one.index) for one in compute_change_points(list(np.exp(row)), max_pvalue=0.001)[0]}
    return sorted(places)


def best_possible(rng: Rng, sigma: float, at: int, many: int = 20_000) -> float:
    """How often the most likely place of a step in Gaussian noise is the right one, all else being known."""
    x = rng.normal(0.0, sigma, (many, SESSIONS))
    x[:, at:] += STEP
    sums, n = x.cumsum(axis=1), np.arange(1, SESSIONS)
    scores = (sums[:, :-1] - n / SESSIONS * sums[:, -1:]) ** 2 / (n * (SESSIONS - n))
    return float(np.mean(scores.argmax(axis=1) + 1 == at))


def show(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rival", action="store_true")
    options = parser.parse_args()
    seeds = range(100, 120 if options.quick else 200)
    per = 100 / len(seeds)
    missed = False

    print("Histories without a change, noise 4 %: any change found, of 100\n")
    show("noise", "slo-gate", *(["Otava"] if options.rival else []))
    show("---", "---:", *(["---:"] if options.rival else []))
    for index, (name, family) in enumerate(FAMILIES.items()):
        sets = [history(np.random.default_rng((seed, index, 1)), family, 0.04, 0.0, 30) for seed in seeds]
        wrong = per * sum(bool(ours(rows)) for rows in sets)
        rival = [f"{per * sum(bool(otava(rows)) for rows in sets):.0f}"] if options.rival else []
        show(name, f"{wrong:.1f}", *rival)
        missed |= wrong > FALSE_MOST and "r = 0.4" not in name

    print("\nA change of 8 %, of 100\n")
    heads = ["noise", "of", "sessions after", "one found, its range right", "one found, at its commit"]
    heads += ["best possible", "width of the range", "none found"]
    show(*heads, *(["Otava: there and nowhere else"] if options.rival else []))
    show("---", *["---:"] * (len(heads) - 1 + options.rival))
    for index, (name, family) in enumerate(FAMILIES.items()):
        for sigma, at in ((0.01, 30), (0.02, 30), (0.03, 30), (0.04, 30), (0.05, 30), (0.03, 50)):
            key = (index, int(1000 * sigma), at)
            sets = [history(np.random.default_rng((seed, *key)), family, sigma, STEP, at) for seed in seeds]
            answers = [ours(rows) for rows in sets]
            right = per * sum(len(one) == 1 and one[0][1] <= at <= one[0][2] for one in answers)
            exact = per * sum(len(one) == 1 and one[0][0] == at for one in answers)
            widths = [last - first + 1 for one in answers for _, first, last in one]
            cells: list[object] = [name, f"{sigma:.0%}", SESSIONS - at, f"{right:.0f}", f"{exact:.0f}"]
            gauss = family is gaussian
            cells.append(f"{100 * best_possible(np.random.default_rng(key), sigma, at):.0f}" if gauss else "")
            cells.append(f"{np.median(widths):.0f}" if widths else "-")
            cells.append(f"{per * sum(not one for one in answers):.0f}")
            if options.rival:
                cells.append(f"{per * sum(otava(rows) == [at] for rows in sets):.0f}" if gauss else "")
            show(*cells)
            missed |= gauss and sigma <= 0.04 and right < FOUND_LEAST
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
