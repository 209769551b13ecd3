"""slo-gate inspect: both conventions side by side, and what a file can prove."""

from __future__ import annotations

import json

import numpy as np

from gate.evaluate import inspect_runs
from gate.model import Buckets, Counts, Histogram
from tests.conftest import FIXTURES, ROOT, Process
from tests.runs import make_aggregate, make_requests, make_run

TRAP = "examples/tool-trap/demo-model_300_100_individual_responses.json"


def test_both_conventions_of_the_tool_trap_stand_side_by_side(slo_gate: Process) -> None:
    (found,) = json.loads(slo_gate("inspect", TRAP, "--json", cwd=ROOT).stdout)
    assert f"{found['metrics']['tpot_s']['p50'] * 1e3:.2f}" == "7.07"  # 700 ms / 99
    assert f"{found['tool_reported']['itl']['p50'] * 1e3:.2f}" == "12.00"  # 1200 ms / 100
    assert "contains TTFT" in found["tool_reported"]["itl"]["method"]
    assert "itl" in found["unjudged"]
    assert len(slo_gate("inspect", TRAP, cwd=ROOT).stdout.splitlines()) <= 40
    text = slo_gate("inspect", TRAP, "-v", cwd=ROOT).stdout
    assert "ITL, tool's own" in text
    assert "12.00 ms" in text
    assert "7.07 ms" in text
    assert "contains TTFT" in text


def test_many_runs_are_a_row_each_and_what_they_share_in_forty_lines(slo_gate: Process) -> None:
    done = slo_gate("inspect", "examples/chat/good", cwd=ROOT, COLUMNS="80")
    lines = done.stdout.splitlines()
    assert sum(-(-len(line) // 80) or 1 for line in lines) <= 40
    assert lines[0] == "54 runs"
    assert "    ttft, tpot, itl, e2e: any percentile" in lines
    assert "-v shows them" in done.stdout
    whole = slo_gate("inspect", "examples/chat/good", "-v", cwd=ROOT).stdout
    assert whole.count("joint, request by request") == 54


def test_rows_are_judged_by_any_percentile_and_jointly() -> None:
    (found,) = inspect_runs([make_run(make_requests(0.1, n=50))])
    assert found.judged["ttft"] == found.judged["tpot"] == "any percentile"
    assert found.judged["goodput"] == "joint, request by request"
    assert "no ITL" in found.unjudged["itl"]


def test_an_unsuitable_metric_is_named_with_its_reason() -> None:
    run = make_run(make_requests(0.1, n=50), doubts={"ttft": "the run was not streaming"})
    (found,) = inspect_runs([run])
    assert found.unjudged["ttft"] == "the run was not streaming"
    assert "without bounds on TTFT" in found.judged["goodput"]


def test_an_aggregate_is_judged_by_what_it_states_and_goodput_only_by_bounds() -> None:
    run = make_run(make_aggregate(ttft={50: 0.1, 99: 0.2}), counts=Counts(100, 100, 0))
    (found,) = inspect_runs([run])
    assert found.judged["ttft"] == "by its stated percentiles: P50, P99"
    assert "bounds" in found.judged["goodput"]
    assert "no E2E percentile" in found.unjudged["e2e"]


def test_a_histogram_names_its_edges() -> None:
    buckets = Buckets(np.array([0.1, 0.5, np.inf]), np.array([5, 4, 1]))
    (found,) = inspect_runs([make_run(Histogram({"ttft": buckets}), counts=Counts(10, 10, 0))])
    assert "100 ms, 500 ms" in found.judged["ttft"]


def test_a_run_without_requests_can_prove_nothing() -> None:
    (found,) = inspect_runs([make_run(make_requests(np.nan, np.nan, 0.0, n=0))])
    assert "goodput" in found.unjudged


def test_what_no_reader_knows_exits_3(slo_gate: Process) -> None:
    done = slo_gate("inspect", FIXTURES / "vllm" / "truncated" / "result.json")
    assert (done.returncode, "ends in the middle" in done.stderr) == (3, True)
