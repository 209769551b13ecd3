"""The error rates of the verdict on synthetic servers: a short version of benchmarks/calibrate.py."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

binom = pytest.importorskip("scipy.stats").binom
pytest.importorskip("numba")

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
REPETITIONS = 300


@pytest.fixture
def calibrate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("calibrate")


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("simulator")


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
    # two designs of three groups of rules, and their two groups that have a second way
    assert sum(line.startswith("| 1") for line in done.stdout.splitlines()) == 10


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


def test_the_simulated_servers_error_is_reported_where_requests_are_taken_for_independent(calibrate):
    study = calibrate.server_study
    design = study.Design(10, 300, 30)
    plan = study.Plan(0, 200, (design,), ("open, 90 %",))
    tally = study.Tally(plan)
    name, counts = study.study(("open, 90 %", True, plan))
    tally.add(name, counts)
    assert study.complaints(tally, design, noisy=True) == []
    for (size, rule, method, at, verdict), times in list(counts.items()):
        if method == "iid":
            counts[size, rule, "ours", at, verdict] = times
            counts[size, rule, "ours", at, "pass" if verdict == "fail" else "fail"] = 0
    tally = study.Tally(plan)
    tally.add(name, counts)
    assert any("worst false pass" in text for text in study.complaints(tally, design, noisy=True))


# ---- the simulator --------------------------------------------------------------------------------


def p(values, percent):
    return float(np.percentile(values, percent, method="inverted_cdf"))


@pytest.mark.parametrize(
    ("name", "ttft_p99_ms", "tpot_p99_ms", "tpot_p50_ms"),
    [  # by the design study's own simulator, in other code: docs/statistics.md
        ("open, 30 % load", 238, 13, 10),
        ("open, 65 %", 352, 21, 14),
        ("open, 90 %", 1369, 27, 20),
        ("open, slow phases", 762, 44, 13),
        ("closed, 32", 276, 19, 16),
        ("closed, 128 on 64 slots", 5510, 28, 23),
    ],
)
def test_the_simulator_agrees_with_another_one_of_the_same_engine(
    simulator, name, ttft_p99_ms, tpot_p99_ms, tpot_p50_ms
):
    trace = simulator.simulate(simulator.SCENARIOS[name], 400_000, seed=7, warmup=2000)
    assert 1e3 * p(trace.ttft_s, 99) == pytest.approx(ttft_p99_ms, rel=0.2)
    assert 1e3 * p(trace.tpot_s, 99) == pytest.approx(tpot_p99_ms, rel=0.07)
    assert 1e3 * p(trace.tpot_s, 50) == pytest.approx(tpot_p50_ms, rel=0.07)


def test_a_request_alone_takes_a_step_a_token_and_a_step_a_chunk_of_its_prompt(simulator):
    quiet = simulator.Server(noise=0.0, failing=0.0)
    alone = simulator.Scenario(quiet, rate=1e-4)
    trace = simulator.simulate(alone, 500, seed=1)
    assert trace.tpot_s == pytest.approx(
        np.full(500, 8.1e-3), abs=1e-9
    )  # 8 ms and 0.1 ms for the one sequence
    # prompts have 8 to 8000 tokens: 0.04 ms each, and 8 ms for every 512 of them begun
    tokens = np.arange(8, 8001)
    possible = 8e-3 * -(-tokens // 512) + 4e-5 * tokens
    nearest = possible[np.abs(possible[:, None] - trace.ttft_s[None, :]).argmin(axis=0)]
    assert trace.ttft_s == pytest.approx(nearest, abs=1e-8)  # the clock stands at 5,000,000 s
    slower = simulator.simulate(alone.at_speed(2.0), 500, seed=1)
    assert slower.tpot_s == pytest.approx(2 * trace.tpot_s)


def test_whole_prompts_take_one_step_and_hold_up_decoding(simulator):
    quiet = {"noise": 0.0, "failing": 0.0}
    whole = simulator.simulate(
        simulator.Scenario(simulator.Server(chunk_tokens=0, **quiet), rate=1e-4), 500, 1
    )
    tokens = np.round((whole.ttft_s - 8e-3) / 4e-5)
    assert whole.ttft_s == pytest.approx(8e-3 + 4e-5 * tokens, abs=1e-8)
    busy = [
        simulator.simulate(
            simulator.Scenario(simulator.Server(chunk_tokens=size, **quiet), rate=9.0), 50_000, 1
        )
        for size in (512, 0)
    ]
    assert p(busy[1].tpot_s, 99) > 1.1 * p(busy[0].tpot_s, 99)


def test_a_closed_loop_keeps_its_clients_busy_and_a_seed_gives_the_same_trace_again(simulator):
    scenario = simulator.SCENARIOS["closed, 32"]
    first, second = (simulator.simulate(scenario, 20_000, seed=3) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert np.array_equal(one, other)
    ended = np.isfinite(first.e2e_s)
    assert 1 - ended.mean() == pytest.approx(0.001, abs=0.001)
    # 32 clients with nothing to wait for: a step of 32 sequences is 11.2 ms, without any prefill
    assert p(first.tpot_s[ended], 50) > 0.0112


# ---- undecided: lean ----------------------------------------------------------------------


@pytest.fixture
def lean(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("calibrate_lean")


def documented(lean) -> dict[tuple[str, ...], list[float]]:
    """The rows of the table in docs/statistics.md: design -> proven, let through at each multiple, in %."""
    table = lean.DOCS.read_text(encoding="utf-8").partition(lean.START)[2].partition(lean.END)[0]
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()[2:]]
    return {tuple(row[:4]): [float(cell) for cell in row[4:]] for row in cells if len(row) == 9}


@pytest.mark.parametrize("at", [0, 9, 15])
def test_the_rates_of_lean_in_the_docs_are_those_of_the_command(lean, at):
    shown = documented(lean)
    assert len(shown) == len(lean.CELLS)
    cells = [cell.strip() for cell in lean.row(lean.measure(lean.CELLS[at])).strip("| ").split("|")]
    assert [float(cell) for cell in cells[4:]] == pytest.approx(shown[tuple(cells[:4])], abs=0.5)


def test_a_report_names_the_mean_rates_of_the_docs(lean):
    means = np.array(list(documented(lean).values())).mean(axis=0)  # proven, x1, x1.5, x2, x5
    assert means[1] == pytest.approx(100 * lean.LEAN_ON_THE_BOUND, abs=2.5)
    assert means[3] == pytest.approx(100 * lean.LEAN_AT_TWICE, abs=2.5)
    assert means[0] < 5  # what block lets through
