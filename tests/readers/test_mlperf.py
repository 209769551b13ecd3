"""LoadGen: columns give its own aggregates to the nanosecond; an INVALID run never counts."""

from __future__ import annotations

import itertools
import json
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate.errors import InputError
from gate.evaluate import evaluate
from gate.model import Aggregate, Load, Run, Verdict, Why
from gate.policy import load
from tests.readers.mlperf_logs import (
    CASES,
    DETAIL,
    EVERY,
    SUMMARY,
    TRACE,
    copy,
    edited,
    read,
    rows_of,
    said_by,
)

# ---- conformance ----------------------------------------------------------------------------

LABELS = {
    "e2e": ("result_{}_percentile_latency_ns", "result_{}_latency_ns"),
    "ttft": ("result_first_token_{}_percentile_latency_ns", "result_first_token_{}_latency_ns"),
    "tpot": ("result_time_per_output_token_{}_percentile_ns", "result_time_to_output_token_{}"),
}
PERCENTS = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")


def assert_reproduces(run: Run, said: dict[str, Any]) -> None:
    """sorted[int(n * p)], min, max, integer mean; completed and scheduled rates; tokens per second."""
    rows = rows_of(run)
    n = len(rows)
    assert n == said["result_query_count"] * said["generated_samples_per_query"] == run.counts.attempted
    for metric, column in (("e2e", rows.e2e_s), ("ttft", rows.ttft_s), ("tpot", rows.tpot_s)):
        if column is None:
            continue
        assert np.isfinite(column).all()
        # LoadGen divides whole nanoseconds: its TPOT is up to 1 ns below ours.
        slack = 1.0 if metric == "tpot" else 1e-3
        values = np.sort(column) * 1e9
        percentile, rollup = LABELS[metric]
        for percent in PERCENTS:
            expected = said[percentile.format(percent)]
            assert values[int(n * float(percent) / 100)] == pytest.approx(expected, abs=slack)
        for name, got in (("min", values[0]), ("max", values[-1]), ("mean", values.mean())):
            assert got == pytest.approx(said[rollup.format(name)], abs=1.0)
    if said["effective_scenario"] == "Server":
        assert rows.start_s is not None
        assert rows.e2e_s is not None
        last = int(np.argmax(rows.start_s))
        scheduled, done = rows.start_s[last] - rows.start_s[0], rows.start_s[last] + rows.e2e_s[last]
        assert (n - 1) / scheduled == pytest.approx(said["result_scheduled_samples_per_sec"], rel=1e-4)
        done -= rows.start_s[0]
        assert (n - 1) / done == pytest.approx(said["result_completed_samples_per_sec"], rel=1e-4)
        if rows.output_tokens is not None:
            tokens = rows.output_tokens.sum() / done
            assert tokens == pytest.approx(said["result_completed_tokens_per_second"], rel=1e-4)


@pytest.mark.parametrize("case", ["typical", "failures", "few-queries", "single-stream"])
def test_a_trace_gives_loadgens_own_aggregates(case: str) -> None:
    run = read(CASES / case / f"{TRACE}.gz")
    assert_reproduces(run, said_by(CASES / case / DETAIL))


def test_tpot_by_the_accuracy_log_is_loadgens() -> None:
    run = read(CASES / "typical" / f"{TRACE}.gz")
    assert rows_of(run).tpot_s is not None
    assert set(run.doubted) == {"itl"}
    assert run.total_output_tokens == 35567  # the system under test's own log


@pytest.mark.parametrize(
    ("case", "name"),
    list(itertools.product(["typical", "failures", "single-stream", "offline"], [SUMMARY, DETAIL])),
)
def test_a_log_gives_loadgens_own_percentiles(case: str, name: str, tmp_path: Path) -> None:
    shutil.copy(CASES / case / name, tmp_path)  # alone: nothing beside it can help
    run, said = read(tmp_path / name), said_by(CASES / case / DETAIL)
    assert isinstance(run.evidence, Aggregate)
    assert set(run.evidence.summaries) == ({"e2e"} if case == "offline" else {"ttft", "tpot", "e2e"})
    for metric, found in run.evidence.summaries.items():
        percentile, rollup = LABELS[metric]
        expected = [said[percentile.format(percent)] for percent in PERCENTS]
        assert [value * 1e9 for _, value in found.percentiles] == pytest.approx(expected)
        assert [p for p, _ in found.percentiles] == [50.0, 90.0, 95.0, 97.0, 99.0, 99.9]
        for name_, got in (("min", found.min), ("max", found.max), ("mean", found.mean)):
            assert got is not None
            assert got * 1e9 == pytest.approx(said[rollup.format(name_)])


def test_every_shared_run_gives_its_own_aggregates_and_the_counts_of_its_server(shared: Path) -> None:
    folders = sorted((shared / "results" / "mlperf-loadgen-6.0.17").iterdir())
    assert len(folders) == 7
    for folder in folders:
        run = read(folder / TRACE)
        assert_reproduces(run, said_by(folder / DETAIL))
        truth = [json.loads(line) for line in (folder / "sut_truth.jsonl").read_text().splitlines()]
        assert run.counts.attempted == run.counts.completed == len(truth)
        assert (run.counts.failed, run.counts.cancelled, run.counts.warmup) == (0, 0, 0)
        served = np.sort([row["e2e_ns"] / 1e9 for row in truth])
        e2e = rows_of(run).e2e_s
        assert e2e is not None
        # LoadGen counts from the schedule, the server from the arrival: never less, and close in the middle.
        assert (np.sort(e2e) >= served - 1e-3).all()
        assert np.median(e2e) == pytest.approx(np.median(served), rel=0.01)


def test_tokens_are_those_of_the_server(shared: Path) -> None:
    folder = shared / "results" / "mlperf-loadgen-6.0.17"
    for case in ("server_valid", "server_valid_acclog", "offline_valid", "singlestream_valid"):
        truth = [json.loads(line) for line in (folder / case / "sut_truth.jsonl").read_text().splitlines()]
        assert read(folder / case / TRACE).total_output_tokens == sum(row["n_tokens"] for row in truth)


def test_facts_of_the_run_are_read() -> None:
    run = read(CASES / "typical" / f"{TRACE}.gz")
    assert (run.tool, run.tool_version, run.date) == ("MLPerf LoadGen", "6.0.17", "2026-11-29")
    assert run.load == Load(request_rate=100.0)
    assert run.model is None  # sut_name is no model
    p99_ns = said_by(CASES / "typical" / DETAIL)["result_first_token_99.00_percentile_latency_ns"]
    assert dict(run.tool_reported["ttft"].percentiles)[99.0] == pytest.approx(p99_ns / 1e9)
    assert "scheduled" in run.tool_reported["ttft"].method
    assert read(CASES / "single-stream" / DETAIL).load == Load(concurrency=1)
    assert read(CASES / "offline" / DETAIL).load == Load(burst=True)


@pytest.mark.parametrize("case", ["typical", "failures", "single-stream"])
def test_a_duration_is_the_stated_one_and_not_made_of_a_rounded_rate(case: str, tmp_path: Path) -> None:
    rows = rows_of(read(CASES / case / f"{TRACE}.gz"))
    assert rows.start_s is not None
    assert rows.e2e_s is not None
    window_s = (rows.start_s + rows.e2e_s).max() - rows.start_s.min()
    shutil.copy(CASES / case / DETAIL, tmp_path)
    duration_s = read(tmp_path / DETAIL).duration_s
    assert duration_s is not None
    assert abs(duration_s - window_s) <= 1.5e-3  # power_begin and power_end have whole milliseconds


def test_the_stated_percentile_bounds_the_count_as_loadgen_computes_it() -> None:
    # P99 of 830 is sorted[821]: 822 samples are at or below it, as 99 % of 830 needs; linear would prove 821.
    run = read(CASES / "typical" / DETAIL)
    rows = rows_of(read(CASES / "typical" / f"{TRACE}.gz"))
    assert isinstance(run.evidence, Aggregate)
    p99 = dict(run.evidence.summaries["e2e"].percentiles)[99.0]
    assert rows.e2e_s is not None
    assert (rows.e2e_s <= p99).sum() == 822 >= 0.99 * 830
    assert run.evidence.method == "exclusive"  # floor(0.99 * 831) = 822


# ---- INVALID --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "name", "reason"),
    [
        ("invalid", SUMMARY, "TPOT constrain not met: Reduce target QPS"),
        ("invalid", DETAIL, "TPOT constrain not met: Reduce target QPS"),
        ("few-queries", SUMMARY, "Would need to run at least 273 more queries"),
        ("few-queries", DETAIL, "Would need to run at least 273 more queries"),
        ("few-queries", f"{TRACE}.gz", "Would need to run at least 273 more queries"),
    ],
)
def test_an_invalid_run_is_unsuitable_for_everything(case: str, name: str, reason: str) -> None:
    run = read(CASES / case / name)
    assert set(run.doubted) == EVERY
    verdict = next(doubt for doubt in run.doubts if doubt.code is Why.TOOL_SAYS_INVALID)
    assert set(verdict.of) == EVERY
    assert reason in verdict.why
    assert run.total_output_tokens is None
    assert any(note.startswith("LoadGen calls the run INVALID") for note in run.notes)


POLICY = """
version: 1
name: loose
slo: {ttft: {p99: 60s}, tpot: {p99: 60s}, e2e: {p99: 600s}}
limits: {error_rate: {max: 99%}}
evidence: {decide: point}
"""


@pytest.mark.parametrize("name", [SUMMARY, DETAIL, f"{TRACE}.gz"])
def test_an_invalid_run_never_passes_even_the_loosest_policy(tmp_path: Path, name: str) -> None:
    path = tmp_path / "slo.yaml"
    path.write_text(POLICY, encoding="utf-8")
    report = evaluate(load(str(path)), [read(CASES / "few-queries" / name)], date(2026, 12, 1))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report.exit_code == 4
    good = evaluate(load(str(path)), [read(CASES / "typical" / name)], date(2026, 12, 1))
    assert good.exit_code == 0  # the same policy lets the VALID run through


def test_constraints_that_are_met_do_not_make_a_run_valid() -> None:
    text = (CASES / "few-queries" / SUMMARY).read_text()
    assert "Performance constraints satisfied : Yes" in text
    assert "early stopping not satisfied" in read(CASES / "few-queries" / SUMMARY).doubted["e2e"]


def test_an_early_stopping_text_that_is_empty_is_not_a_pass() -> None:
    notes = " ".join(read(CASES / "few-queries" / DETAIL).notes)
    assert "TTFT was not tested, because TPOT's test failed first" in notes


def test_invalid_in_either_log_is_invalid(tmp_path: Path) -> None:
    # Without enforce_max_duration the summary skips the query count and says VALID; the detail log does not.
    copy("typical", tmp_path, SUMMARY)
    edited(tmp_path, DETAIL, ('"value": "VALID"', '"value": "INVALID"'))
    assert set(read(tmp_path / SUMMARY).doubted) == EVERY
    assert set(read(tmp_path / DETAIL).doubted) == EVERY


def test_a_trace_alone_has_no_verdict_and_is_not_judged(tmp_path: Path) -> None:
    copy("typical", tmp_path, TRACE)
    run = read(tmp_path / f"{TRACE}.gz")
    assert set(run.doubted) == EVERY
    assert "VALID is not in the trace" in run.doubted["e2e"]
    assert len(rows_of(run)) == 830


@pytest.mark.parametrize("name", [SUMMARY, DETAIL])
def test_valid_with_a_check_that_failed_is_a_contradiction(tmp_path: Path, name: str) -> None:
    changes = {
        SUMMARY: ("Min duration satisfied : Yes", "Min duration satisfied : NO"),
        DETAIL: ('"result_min_duration_met", "value": true', '"result_min_duration_met", "value": false'),
    }
    with pytest.raises(InputError, match="contradicts itself: VALID"):
        read(edited(tmp_path, name, changes[name]))
