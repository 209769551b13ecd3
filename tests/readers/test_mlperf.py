"""LoadGen: columns give its own aggregates to the nanosecond; INVALID never counts; traps stay traps."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate.errors import InputError
from gate.evaluate import evaluate
from gate.model import Aggregate, Load, Requests, Run, Verdict
from gate.policy import load
from gate.readers import mlperf
from gate.readers._source import Source
from tests.conftest import FIXTURES

CASES = FIXTURES / "mlperf"
SUMMARY, DETAIL, TRACE = "mlperf_log_summary.txt", "mlperf_log_detail.txt", "mlperf_log_trace.json"
EVERY = {"ttft", "tpot", "itl", "e2e", "error_rate"}
VALUE = re.compile(r'"key": "([^"]+)", "value": ?(.*?), "time_ms"')


def source(path: Path) -> Source:
    return Source(path, path.name)


def read(path: Path) -> Run:
    (run,) = mlperf.read(source(path))
    return run


def rows_of(run: Run) -> Requests:
    assert isinstance(run.evidence, Requests)
    return run.evidence


def said_by(detail: Path) -> dict[str, Any]:
    """Every key of a detail log by an independent, line-wise reading; the first counts."""
    said: dict[str, Any] = {}
    for line in detail.read_text(encoding="utf-8").splitlines():
        if (found := VALUE.search(line)) and not found[2].startswith(("{", "[")):
            said.setdefault(found[1], json.loads(found[2]))
    return said


def copy(case: str, folder: Path, *names: str) -> None:
    for name in names:
        for path in (CASES / case).glob(name + "*"):
            shutil.copy(path, folder)


def edited(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    """A log of `typical` with texts replaced, alone in its folder."""
    text = (CASES / "typical" / name).read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


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
    assert set(run.unsuitable) == {"itl"}
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
    assert dict(run.tool_reported["ttft"].percentiles)[99.0] == pytest.approx(0.091534839, rel=0.05)
    assert "scheduled" in run.tool_reported["ttft"].method
    assert read(CASES / "single-stream" / DETAIL).load == Load(concurrency=1)
    assert read(CASES / "offline" / DETAIL).load == Load(burst=True)


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
    assert set(run.unsuitable) == EVERY
    assert all("INVALID" in why and reason in why for why in run.unsuitable.values())
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
    report = evaluate(load(path), [read(CASES / "few-queries" / name)], date(2026, 12, 1))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report.exit_code == 4
    good = evaluate(load(path), [read(CASES / "typical" / name)], date(2026, 12, 1))
    assert good.exit_code == 0  # the same policy lets the VALID run through


def test_constraints_that_are_met_do_not_make_a_run_valid() -> None:
    text = (CASES / "few-queries" / SUMMARY).read_text()
    assert "Performance constraints satisfied : Yes" in text
    assert "early stopping not satisfied" in read(CASES / "few-queries" / SUMMARY).unsuitable["e2e"]


def test_an_early_stopping_text_that_is_empty_is_not_a_pass() -> None:
    notes = " ".join(read(CASES / "few-queries" / DETAIL).notes)
    assert "TTFT was not tested, because TPOT's test failed first" in notes


def test_invalid_in_either_log_is_invalid(tmp_path: Path) -> None:
    # Without enforce_max_duration the summary skips the query count and says VALID; the detail log does not.
    copy("typical", tmp_path, SUMMARY)
    edited(tmp_path, DETAIL, ('"value": "VALID"', '"value": "INVALID"'))
    assert set(read(tmp_path / SUMMARY).unsuitable) == EVERY
    assert set(read(tmp_path / DETAIL).unsuitable) == EVERY


def test_a_trace_alone_has_no_verdict_and_is_not_judged(tmp_path: Path) -> None:
    copy("typical", tmp_path, TRACE)
    run = read(tmp_path / f"{TRACE}.gz")
    assert set(run.unsuitable) == EVERY
    assert "VALID is not in the trace" in run.unsuitable["e2e"]
    assert len(rows_of(run)) == 830


@pytest.mark.parametrize("name", [SUMMARY, DETAIL])
def test_valid_with_a_check_that_failed_is_a_contradiction(tmp_path: Path, name: str) -> None:
    changes = {
        SUMMARY: ("Min duration satisfied : Yes", "Min duration satisfied : NO"),
        DETAIL: ('"result_min_duration_met", "value": true', '"result_min_duration_met", "value": false'),
    }
    with pytest.raises(InputError, match="contradicts itself: VALID"):
        read(edited(tmp_path, name, changes[name]))


# ---- traps ----------------------------------------------------------------------------------


def test_one_token_answers_leave_the_run_valid_and_its_tpot_unsuitable() -> None:
    said = said_by(CASES / "failures" / DETAIL)
    assert said["result_validity"] == "VALID"
    assert said["result_time_to_output_token_min"] == -74025
    for name in (SUMMARY, DETAIL, f"{TRACE}.gz"):
        run = read(CASES / "failures" / name)
        assert set(run.unsuitable) == {"itl", "tpot", "error_rate"}
        assert "19 samples had one token or none" in run.unsuitable["error_rate"]
        assert any('19 x "Number of tokens need to be greater than 1"' in note for note in run.notes)
    assert "19 samples" in read(CASES / "failures" / DETAIL).unsuitable["tpot"]


def test_a_summary_with_errors_of_unknown_kind_is_not_judged(tmp_path: Path) -> None:
    copy("failures", tmp_path, SUMMARY)
    run = read(tmp_path / SUMMARY)
    assert set(run.unsuitable) == EVERY
    assert "19 errors (of unknown kind)" in run.unsuitable["ttft"]


def test_an_error_of_another_kind_is_named_and_not_judged(tmp_path: Path) -> None:
    line = next(
        line for line in (CASES / "failures" / DETAIL).read_text().splitlines(True) if "error_runtime" in line
    )
    path = edited(tmp_path, DETAIL, ('"num_errors", "value": 0', '"num_errors", "value": 1'))
    other = line.replace("Number of tokens need to be greater than 1", "Ran out of generated queries")
    path.write_text(path.read_text() + other, encoding="utf-8")
    assert "Ran out of generated queries x1" in read(path).unsuitable["ttft"]


def test_a_run_that_counts_no_tokens_cannot_show_failures(tmp_path: Path) -> None:
    path = edited(
        tmp_path,
        DETAIL,
        ('"requested_use_token_latencies", "value": true', '"requested_use_token_latencies", "value": false'),
    )
    assert "no failed requests" in read(path).unsuitable["error_rate"]


def test_offline_has_neither_ttft_nor_tpot() -> None:
    for name in (SUMMARY, DETAIL):
        run = read(CASES / "offline" / name)
        assert {"ttft", "tpot"} <= run.unsuitable.keys()
        assert "Offline sends every sample at once" in run.unsuitable["ttft"]
        assert run.counts.attempted == 660
        assert run.total_output_tokens == 28171
        assert run.duration_s == pytest.approx(11.599654998)


def test_an_interactive_run_is_a_server_run_with_other_bounds(shared: Path) -> None:
    path = shared / "public-results" / "mlperf" / "001_llama2_interactive_summary.txt"
    run = read(path)
    assert "Scenario : Server" in path.read_text()
    assert any("P99 TTFT 450 ms and P99 TPOT 40 ms" in note for note in run.notes)
    assert run.load == Load(request_rate=29.5)
    assert isinstance(run.evidence, Aggregate)
    p99 = {metric: dict(found.percentiles)[99.0] for metric, found in run.evidence.summaries.items()}
    # "Min Time to Output Token" of 5.x and "Min Time per Output Token" of 6.0 are the same.
    assert p99 == pytest.approx({"ttft": 0.435976100, "tpot": 0.039507635, "e2e": 30.354675329})
    assert run.evidence.summaries["tpot"].min == pytest.approx(0.022931448)
    # n is not in a summary: the schedule (29.62/s, at least 600 s) proves 29.615 * 600 + 1 of 24576.
    assert run.counts.attempted == 17770
    assert any("at least 17770" in note for note in run.notes)
    assert run.total_output_tokens is not None
    assert run.duration_s is not None
    assert run.total_output_tokens / run.duration_s == pytest.approx(8840.42, rel=1e-5)


def test_a_real_offline_summary_counts_what_ran_and_not_what_was_asked(shared: Path) -> None:
    # samples_per_query says 245520; whole data sets were sent: 92.1544/s * 2666.829394561 s = 10 * 24576.
    run = read(shared / "public-results" / "mlperf" / "003_llama2_offline_summary.txt")
    assert run.counts.attempted == 245760
    assert any("2 warnings" in note for note in run.notes)


def test_a_real_detail_log_of_5_1_is_read(shared: Path) -> None:
    run = read(shared / "public-results" / "mlperf" / "004_llama2_server_detail.txt")
    assert (run.tool_version, run.date, run.counts.attempted) == ("5.1.0", "2025-07-31", 73728)
    assert isinstance(run.evidence, Aggregate)
    assert dict(run.evidence.summaries["ttft"].percentiles)[99.0] == pytest.approx(1.914647645)
    assert run.evidence.summaries["tpot"].max == pytest.approx(3.298049084)
    assert set(run.unsuitable) == {"itl"}


def test_a_real_invalid_run_says_why(shared: Path) -> None:
    run = read(shared / "public-results" / "mlperf" / "006_invalid_server_ranging_summary.txt")
    assert set(run.unsuitable) == EVERY
    assert "TTFT constrain not met" in run.unsuitable["ttft"]
    assert "350367 more queries" in run.unsuitable["tpot"]
    assert run.counts.attempted == 884736


def test_an_empty_summary_is_an_aborted_run() -> None:
    file = source(CASES / "empty" / SUMMARY)
    assert mlperf.sniff(file)
    with pytest.raises(InputError, match="is empty: the run was aborted"):
        mlperf.read(file)


def test_an_empty_summary_beside_a_trace_is_an_aborted_run(tmp_path: Path) -> None:
    copy("typical", tmp_path, TRACE)
    copy("empty", tmp_path, SUMMARY)
    with pytest.raises(InputError, match=f"{SUMMARY}: is empty: the run was aborted"):
        read(tmp_path / f"{TRACE}.gz")


def test_a_detail_log_without_results_is_an_aborted_run(tmp_path: Path) -> None:
    lines = (CASES / "typical" / DETAIL).read_text().splitlines(True)
    end = next(i for i, line in enumerate(lines) if "result_validity" in line)
    path = tmp_path / DETAIL
    path.write_text("".join(lines[:end]), encoding="utf-8")
    with pytest.raises(InputError, match="the run was aborted"):
        read(path)


def test_the_early_stopping_estimate_of_a_single_stream_is_shown_as_what_it_is() -> None:
    # early_stopping_latency_ss is the TTFT estimate (19032695), not of E2E: the texts are shown, not the key.
    notes = " ".join(read(CASES / "single-stream" / DETAIL).notes)
    assert "TTFT: Processed at least 64 queries (194)" in notes
    assert "estimate: 19032695" in notes


def test_a_system_that_falls_behind_its_schedule_is_noted(tmp_path: Path) -> None:
    path = edited(
        tmp_path,
        SUMMARY,
        ("Completed samples per second    : 101.28", "Completed samples per second    : 60.00"),
    )
    assert any("60 samples/s completed of 103.27 scheduled" in note for note in read(path).notes)


def test_answers_that_do_not_stream_are_not_judged_by_ttft(tmp_path: Path) -> None:
    copy("few-queries", tmp_path, SUMMARY)
    text = gzip.decompress((CASES / "typical" / f"{TRACE}.gz").read_bytes())
    whole = {
        (m[1], m[2]): m[3]
        for m in re.finditer(rb'"ts":([\d.]+),"args":.*?"issue_start_ns":(\d+),"complete_ns":(\d+)', text)
    }

    def at_the_end(found: re.Match[bytes]) -> bytes:
        done = int(whole[found[1], found[2]]) - int(found[2])
        return b'"ts":%s,"args":{ "issue_delay":%s,"issue_to_done":%d}' % (found[1], found[2], done)

    pattern = rb'"ts":([\d.]+),"args":\{ "issue_delay":(\d+),"issue_to_done":\d+\}'
    (tmp_path / TRACE).write_bytes(re.sub(pattern, at_the_end, text))
    copy("typical", tmp_path, DETAIL, SUMMARY)
    run = read(tmp_path / TRACE)
    assert "first tokens come with the whole answer" in run.unsuitable["ttft"]
    assert "tpot" in run.unsuitable
    assert "e2e" not in run.unsuitable
    assert run.counts.completed == 830


def test_a_sample_without_a_first_token_is_a_failure(tmp_path: Path) -> None:
    lines = gzip.decompress((CASES / "typical" / f"{TRACE}.gz").read_bytes()).splitlines(True)
    first = next(line for line in lines if b"Token_Latency" in line)
    (tmp_path / TRACE).write_bytes(b"".join(line for line in lines if line is not first))
    copy("typical", tmp_path, DETAIL)
    run = read(tmp_path / TRACE)
    assert (run.counts.attempted, run.counts.failed) == (830, 1)


def test_a_trace_without_every_token_count_has_no_tpot_but_says_what_would_settle_it(tmp_path: Path) -> None:
    copy("typical", tmp_path, TRACE, DETAIL)
    path = tmp_path / "mlperf_log_accuracy.json"
    rows = json.loads(gzip.decompress((CASES / "typical" / f"{path.name}.gz").read_bytes()))
    for kept, reason in ((rows[:800], "of 30 of 830 samples"), ([], "is empty")):
        path.write_text(json.dumps(kept, separators=(" , ", " : ")), encoding="utf-8")
        run = read(tmp_path / f"{TRACE}.gz")
        assert reason in run.unsuitable["tpot"]
        assert "accuracy_log_probability = 1" in run.unsuitable["tpot"]
        assert {"ttft", "e2e"}.isdisjoint(run.unsuitable)
        assert run.total_output_tokens == 35567  # by tokens per second, to its digits
