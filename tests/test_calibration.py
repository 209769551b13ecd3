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

from gate.evaluate.judge.shares import share_rule
from gate.evaluate.prepare import prepare
from gate.model import Status
from tests.runs import goodput, make_policy, make_requests, make_run

binom = pytest.importorskip("scipy.stats").binom

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
REPETITIONS = 300


@pytest.fixture
def calibrate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("calibrate")


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("numba")
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


@pytest.mark.slow(reason="a study of 28 designs and of servers: numba, minutes of a core")
def test_every_design_is_within_its_limits():
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "calibrate.py"), "--quick"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(line.startswith("| 9") for line in done.stdout.splitlines()) == 20
    # seven methods on single runs, six on repeated ones, and the power of three and two of them
    assert sum(line.startswith("| 1") for line in done.stdout.splitlines()) == 18


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


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("numba")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("server_study")


@pytest.mark.slow(reason="compiles and runs the simulator of servers: numba")
def test_an_error_on_the_servers_is_reported_where_requests_are_taken_for_independent(study):
    plan = study.QUICK._replace(repetitions=30, designs=((1, 1500),))
    rates = study.study((plan, 0, "open 90 %"))
    assert study.complaints(rates, ["1 x 1500"], most=5.0) == []
    swapped = {
        key: rates[(*key[:5], "independent")] if key[5] == "ours" and key[4] == 1.0 else rate
        for key, rate in rates.items()
    }
    assert any("mean false PASS" in text for text in study.complaints(swapped, ["1 x 1500"], most=5.0))


METRICS = {(0,): "ttft", (1,): "tpot", (2,): "e2e", (0, 1, 2): "goodput"}


def as_rows(ttft, tpot, e2e):
    failed = np.isinf(e2e)
    tokens = np.full(e2e.size, 100.0)
    tokens[~failed] = 1 + (e2e[~failed] - ttft[~failed]) / tpot[~failed]
    status = np.where(failed, Status.FAILED, Status.COMPLETED)
    return make_requests(np.where(failed, 0.1, ttft), np.where(failed, 1.0, e2e), tokens, status=status)


@pytest.mark.slow(reason="compiles and runs the simulator of servers: numba")
@pytest.mark.parametrize("runs", [1, 10])
def test_the_study_decides_as_the_gate_does_benchmark_by_benchmark(study, runs):
    verdicts, family = study.verdicts, study.QUICK.families[0]
    load = study.load_of(family, "open 70 %")
    if runs == 1:
        rows = study.single(family, load, 8, seed=5)[0][:, :1500]
    else:
        rows = study.repeated(family, load, 8, seed=6).reshape(8, 3000, 3)
    at = study.bounds(rows.reshape(-1, 3))
    columns = tuple(np.ascontiguousarray(rows[:, :, c]) for c in range(3))
    many = verdicts.Benchmarks(columns, runs, {})
    bounds = {"ttft": 1.0, "tpot": 1.0, "e2e": 1.0}
    policy = make_policy(goodput(0.99), bounds=bounds)
    seen = Counter()
    for rule in study.RULES:
        for multiple in study.MULTIPLES:
            limits = at[rule.name, multiple]
            scores, bound = columns[rule.columns[0]], limits[0]
            if len(limits) > 1:
                pairs = zip(rule.columns, limits, strict=True)
                scores, bound = np.maximum.reduce([columns[c] / limit for c, limit in pairs]), 1.0
            passed, failed = verdicts.ours(many, rule.columns, scores, bound, rule.share)
            for i in range(8):
                parts = zip(*(np.split(column[i], runs) for column in columns), strict=True)
                measured = [prepare(make_run(as_rows(*part)), policy) for part in parts]
                decide = share_rule(
                    METRICS[rule.columns], rule.share, measured, policy, alpha=0.05, m=1
                ).decide
                word = "pass" if passed[i] else "fail" if failed[i] else "undecided"
                assert decide(np.split(scores[i], runs), bound).verdict == word, (rule.name, multiple, i)
                seen[word] += 1
    assert min(seen.values()) > 10


# ---- the simulator --------------------------------------------------------------------------------


def p(values, percent):
    return float(np.percentile(values, percent, method="inverted_cdf"))


@pytest.mark.slow(reason="compiles and runs the simulator of servers: numba")
@pytest.mark.parametrize(
    ("load", "slow_every_s", "ttft_p99_ms", "tpot_p99_ms", "tpot_p50_ms"),
    [  # by the design study's own simulator, in other code
        ({"rate": 4.0}, 0.0, 238, 13, 10),
        ({"rate": 9.0}, 0.0, 352, 21, 14),
        ({"rate": 12.6}, 0.0, 1369, 27, 20),
        ({"rate": 8.0}, 40.0, 762, 44, 13),
        ({"in_flight": 32}, 0.0, 276, 19, 16),
        ({"in_flight": 128}, 0.0, 5510, 28, 23),
    ],
)
def test_the_simulator_agrees_with_another_one_of_the_same_engine(
    simulator, load, slow_every_s, ttft_p99_ms, tpot_p99_ms, tpot_p50_ms
):
    engine = simulator.Engine(slow_every_s=slow_every_s)
    trace = simulator.simulate(engine, simulator.Work(), simulator.Load(**load), 400_000, 2, warmup=2000)
    assert 1e3 * p(trace.ttft_s, 99) == pytest.approx(ttft_p99_ms, rel=0.2)
    assert 1e3 * p(trace.tpot_s, 99) == pytest.approx(tpot_p99_ms, rel=0.07)
    assert 1e3 * p(trace.tpot_s, 50) == pytest.approx(tpot_p50_ms, rel=0.07)


ALONE = {"rate": 1e-6}


@pytest.mark.slow(reason="compiles and runs the simulator of servers: numba")
def test_a_request_alone_takes_a_step_a_token_and_a_step_a_chunk_of_its_prompt(simulator):
    quiet = simulator.Engine(noise=0.0, failing=0.0)
    alone = (quiet, simulator.Work(), simulator.Load(**ALONE))
    trace = simulator.simulate(*alone, 500, 1)
    # 8 ms and 0.1 ms for the one sequence
    assert trace.tpot_s == pytest.approx(np.full(500, 8.1e-3), abs=1e-7)
    # prompts have 8 to 12,000 tokens: 0.04 ms each, and 8 ms for every 512 of them begun
    tokens = np.arange(8, 12_001)
    possible = 8e-3 * -(-tokens // 512) + 4e-5 * tokens
    nearest = possible[np.abs(possible[:, None] - trace.ttft_s[None, :]).argmin(axis=0)]
    assert trace.ttft_s == pytest.approx(nearest, abs=1e-6)  # the clock stands at 500,000,000 s
    slower = simulator.simulate(*alone, 500, 1, speed=2.0)
    assert slower.tpot_s == pytest.approx(2 * trace.tpot_s, abs=1e-6)


@pytest.mark.slow(reason="compiles and runs the simulator of servers: numba")
def test_whole_prompts_take_one_step_and_hold_up_decoding(simulator):
    quiet = {"noise": 0.0, "failing": 0.0}
    work = simulator.Work()
    whole = simulator.simulate(
        simulator.Engine(chunk_tokens=0, **quiet), work, simulator.Load(**ALONE), 500, 1
    )
    tokens = np.round((whole.ttft_s - 8e-3) / 4e-5)
    assert whole.ttft_s == pytest.approx(8e-3 + 4e-5 * tokens, abs=1e-6)
    busy = [
        simulator.simulate(
            simulator.Engine(chunk_tokens=size, **quiet), work, simulator.Load(rate=9.0), 50_000, 1
        )
        for size in (512, 0)
    ]
    assert p(busy[1].tpot_s, 99) > 1.1 * p(busy[0].tpot_s, 99)


@pytest.mark.slow(reason="compiles and runs the simulator of servers: numba")
def test_a_full_cache_makes_requests_wait_and_a_prefix_that_hits_costs_nothing(simulator):
    load, work = simulator.Load(in_flight=32), simulator.Work()
    free, full = (
        simulator.simulate(simulator.Engine(kv_tokens=tokens), work, load, 20_000, 3)
        for tokens in (0, 12_000)
    )
    # 32 requests hold some 900 tokens each: 12,000 tokens have room for half of them
    assert p(full.ttft_s, 50) > 5 * p(free.ttft_s, 50)
    hits = simulator.Work(prefixes=1, prefix_share=0.5, prefix_ttl_s=1e9)
    quiet = simulator.Engine(noise=0.0, failing=0.0, chunk_tokens=0)
    cold, warm = (
        simulator.simulate(quiet, one, simulator.Load(**ALONE), 500, 1).ttft_s - 8e-3 for one in (work, hits)
    )
    assert warm[1:] == pytest.approx(cold[1:] / 2, abs=4.1e-5)  # half a prompt, to a token
    assert warm[0] == pytest.approx(cold[0], abs=1e-6)


@pytest.mark.slow(reason="compiles and runs the simulator of servers: numba")
def test_bursts_keep_the_mean_rate(simulator):
    work = simulator.Work(output=2.0, output_sigma=0.0)
    quick = simulator.Engine(step_s=1e-6, per_sequence_s=0.0, per_prefill_token_s=0.0, noise=0.0)
    burst = simulator.Load(rate=10.0, burst_factor=3.0)
    rng = np.random.default_rng(1)
    gaps = np.diff(simulator._arrivals(rng, burst, 200_000))
    assert gaps.mean() == pytest.approx(0.1, rel=0.05)
    assert gaps.std() > 1.2 * gaps.mean()  # Poisson gaps have a spread of their mean
    assert np.isfinite(simulator.simulate(quick, work, burst, 1000, 1).e2e_s).any()


@pytest.mark.slow(reason="compiles and runs the simulator of servers: numba")
def test_a_closed_loop_keeps_its_clients_busy_and_a_seed_gives_the_same_trace_again(simulator):
    asked = (simulator.Engine(), simulator.Work(), simulator.Load(in_flight=32))
    first, second = (simulator.simulate(*asked, 20_000, 3) for _ in range(2))
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
