"""The error rates of the verdict on synthetic servers: a short version of benchmarks/calibrate.py."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

binom = pytest.importorskip("scipy.stats").binom

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
REPETITIONS = 300


@pytest.fixture
def calibrate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("calibrate")


@pytest.mark.parametrize(
    ("share", "phi", "tau", "runs", "n"),
    [
        (0.9, 0.9, 0.0, 1, 3000),
        (0.99, 0.9, 0.0, 1, 3000),
        (0.9, 0.9, 0.3, 10, 300),
        (0.99, 0.9, 0.3, 30, 300),
    ],
)
def test_a_deployment_on_its_bound_is_passed_or_failed_in_error_at_most_as_often_as_stated(
    calibrate, share, phi, tau, runs, n
):
    result = calibrate.measure(calibrate.Cell(share, phi, tau, runs, n), REPETITIONS, seed=5)
    most = binom.ppf(0.999, REPETITIONS, 0.05)
    assert result.counts["ours", 1.0, "pass"] <= most
    assert result.counts["ours", 1.0, "fail"] <= most
    # the control: intervals for independent requests pass several times as often
    assert result.counts["iid", 1.0, "pass"] > most


def test_a_deployment_far_from_its_bound_is_told_apart(calibrate):
    result = calibrate.measure(calibrate.Cell(0.9, 0.9, 0.0, 1, 3000), REPETITIONS, seed=6)
    assert result.counts["ours", 0.1, "pass"] >= binom.ppf(0.001, REPETITIONS, 0.98)
    assert result.counts["ours", 2.0, "fail"] >= binom.ppf(0.001, REPETITIONS, 0.92)
    assert result.counts["ours", 0.1, "fail"] == result.counts["ours", 5.0, "pass"] == 0


def test_every_design_is_within_its_limits():
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "calibrate.py"), "--quick"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(line.startswith("| 9") for line in done.stdout.splitlines()) == 20


def test_the_check_reports_a_method_that_takes_requests_for_independent(calibrate):
    cell = calibrate.Cell(0.9, 0.9, 0.0, 1, 1000)
    result = calibrate.measure(cell, 100, seed=7)
    swapped = {key: times for key, times in result.counts.items() if key[0] != "ours"}
    swapped |= {("ours", *key[1:]): times for key, times in swapped.items() if key[0] == "iid"}
    wrong = calibrate.Result(cell, 100, Counter(swapped), result.deff)
    assert [text.split(": ")[1].split(" ", 1)[1] for text in calibrate.complaints(wrong, noisy=True)] == [
        "false pass on the bound, more than 13.0%",
        "false fail on the bound, more than 13.0%",
    ]
    assert list(calibrate.complaints(result, noisy=True)) == []
