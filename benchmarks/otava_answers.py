"""Record what Apache Otava finds in made-up series: tests/history/otava.json, which ours is held to.

Run it where apache-otava 0.8.0 is installed (numpy and scipy are all that this needs of its 45 packages):

    python benchmarks/otava_answers.py tests/history/otava.json

Two answers of each series: Otava's as it is, and with two lines of it mended. It hands np.std without ddof 1
to a t test that expects it, and after a weak change is dropped it tests the neighbours on its right again
and not the one on its left (`recompute(i)`, `recompute(i + 1)` after `del change_points[i]`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from otava import analysis
from otava.change_point_divisive.calculator import PairDistanceCalculator

LEVEL = 0.001  # Otava's default
KINDS = ("same", "step", "two", "long", "outliers", "heavy", "late", "equal")


def series(kind: str, rng: np.random.Generator) -> list[float]:
    size = 150 if kind == "long" else int(rng.choice([12, 40, 60]))
    x = rng.normal(0.0, 0.04, size)
    if kind == "step":
        x[size // 2 :] += 0.077
    elif kind == "two":
        x[size // 3 :] += 0.1
        x[2 * size // 3 :] -= 0.15
    elif kind == "long":
        for at in (30, 70, 110):
            x[at:] += rng.choice([-0.1, 0.1])
    elif kind == "outliers":
        x[rng.integers(0, size, size // 6)] += 0.15
    elif kind == "heavy":
        x = rng.standard_t(3, size) * 0.03
    elif kind == "late":
        x[-5:] += 0.12
    elif kind == "equal":
        x = np.round(x / 0.1) * 0.1
    return [float(value) for value in np.round(np.exp(x), 4)]


def places(values: list[float]) -> list[int]:
    return [int(point.index) for point in analysis.compute_change_points(values, max_pvalue=LEVEL)[0]]


class Mended(analysis.TTestSignificanceTester):  # type: ignore[misc]
    def compare(self, left: Any, right: Any) -> analysis.TTestStats:
        deviations = [float(np.std(side, ddof=1)) if len(side) > 1 else 0.0 for side in (left, right)]
        means = [float(np.mean(side)) for side in (left, right)]
        p_value = 1.0
        if len(left) + len(right) > 2:
            sides = (means[0], deviations[0], len(left), means[1], deviations[1], len(right))
            p_value = analysis.ttest_ind_from_stats(*sides)[1]
        return analysis.TTestStats(
            mean_1=means[0], mean_2=means[1], std_1=deviations[0], std_2=deviations[1], pvalue=float(p_value)
        )


def merged(points: Any, values: Any, max_pvalue: float, min_magnitude: float) -> Any:
    tester = Mended(max_pvalue)
    while points:
        weakest = max(points, key=lambda point: point.stats.pvalue)
        if weakest.stats.pvalue < max_pvalue:
            return points
        points.remove(weakest)
        spans = tester.get_intervals(points)
        points = [tester.change_point(point.to_candidate(), values, spans) for point in points]
    return points


def main(target: str) -> None:
    rng = np.random.default_rng(20270112)
    rows: list[dict[str, Any]] = []
    for number in range(64):
        kind = KINDS[number % len(KINDS)]
        values = series(kind, rng)
        split = PairDistanceCalculator(np.array(values)).get_candidate_change_point(slice(0, len(values)))
        row: dict[str, Any] = {
            "kind": kind,
            "otava": places(values),
            "at": int(split.index),
            "qhat": float(split.qhat),
        }
        left, right = values[: split.index], values[split.index :]
        row["p_mended"] = Mended(LEVEL).compare(left, right).pvalue
        rows.append(row | {"values": values})
    analysis.TTestSignificanceTester, analysis.merge = Mended, merged
    for row in rows:
        row["mended"] = places(row["values"])
    lines = ",\n".join(json.dumps(row) for row in rows)
    Path(target).write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    same = sum(row["otava"] == row["mended"] for row in rows)
    print(f"{len(rows)} series; the mended Otava gives the same answer in {same}")


main(sys.argv[1])
