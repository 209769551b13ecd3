"""Rules of settle by what a reader tells, whatever its tool."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from gate.errors import InputError
from gate.evaluate import evaluate
from gate.model import Aggregate, Counts, Evidence, Requests, Run, Summary, Verdict, Why
from gate.readers import bench_serving, generic
from gate.readers.settle import refuse_repetitions, settle
from gate.readers.source import Source
from gate.readers.told import Told
from tests.runs import error_rate, goodput, latency, make_policy, make_requests

N = 200
LADDER = Summary(((50.0, 0.5), (99.0, 0.6)), 0.5, 0.4, 0.7, N)
ROWS = make_requests([0.1 + number / 1e4 for number in range(N)], [0.5 + number / 1e4 for number in range(N)])
STATISTICS = Aggregate({"ttft": LADDER, "e2e": LADDER})
POLICY = make_policy(
    latency("e2e", 50, 2.0), goodput(0.9), error_rate(0.5), bounds={"e2e": 2.0}, evidence={"decide": "point"}
)
ALL = {"e2e.p50", "goodput", "error_rate"}


def settled(tmp_path: Path, evidence: Evidence, *, fields: object = None, **facts: object) -> Run:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(fields or {"model": "m"}), encoding="utf-8")
    counts = None if isinstance(evidence, Requests) else Counts(N, N, 0)
    told = Told(format="f", evidence=evidence, retries=0, counts=counts, **facts)  # type: ignore[arg-type]
    return settle(Source(path, str(path)), generic, told)


def passed(run: Run) -> set[str]:
    report = evaluate(POLICY, [run], date(2026, 12, 1))
    return {check.id for check in report.checks if check.verdict is Verdict.PASS}


@pytest.mark.parametrize("evidence", [ROWS, STATISTICS])
def test_nothing_passes_where_a_failure_may_have_no_record(tmp_path: Path, evidence: Evidence) -> None:
    healthy = settled(tmp_path, evidence, output_tokens=100.0 * N)
    assert passed(healthy) == ALL
    run = settled(tmp_path, evidence, output_tokens=100.0 * N, hides_failures="why; what next")
    assert not passed(run)
    assert {doubt.code for doubt in run.doubts if "attempted" in doubt.of} == {Why.FAILURES_HIDDEN}
    assert "why; what next" in run.notes


@pytest.mark.parametrize("evidence", [ROWS, STATISTICS])
def test_failures_without_a_record_are_misses_as_many_as_there_may_be(
    tmp_path: Path, evidence: Evidence
) -> None:
    # 200 of 220 are 91 %, of 230 87 %; the median and the error rate stand until half are missing.
    for most, stands in ((20, ALL), (30, ALL - {"goodput"}), (201, set())):
        facts = {"output_tokens": 100.0 * N, "hides_failures": "why; next", "hidden_at_most": most}
        assert passed(settled(tmp_path, evidence, **facts)) == stands


@pytest.mark.parametrize("lengths", [Summary((), 20.0, 0.0), Summary(((25.0, 0.0), (50.0, 40.0)), 20.0)])
def test_an_answer_without_a_token_shows_in_any_statistic_of_the_lengths(
    tmp_path: Path, lengths: Summary
) -> None:
    run = settled(tmp_path, STATISTICS, lengths=lengths)
    assert run.total_output_tokens == 20.0 * N
    doubt = run.doubt("attempted")
    assert doubt is not None
    assert doubt.code is Why.NO_TOKENS


@pytest.mark.parametrize(
    "key", ["aggregated_repetitions", "runs_merged", "averagedOverSeeds", "pooled_trials"]
)
def test_a_key_that_says_that_runs_were_put_together_is_no_run(tmp_path: Path, key: str) -> None:
    source = Source(tmp_path / "r.json", "r.json")
    with pytest.raises(InputError, match=key):
        refuse_repetitions(source, ["model", key])


@pytest.mark.parametrize(
    "key", ["aggregated_metrics", "aggregation", "run_name", "individual_request_metrics", "mean_ttft_ms"]
)
def test_a_key_about_one_run_is_harmless(tmp_path: Path, key: str) -> None:
    refuse_repetitions(Source(tmp_path / "r.json", "r.json"), [key])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("interrupted", True), ("was_cancelled", True), ("isComplete", False), ("valid", False)),
        *(("status", "aborted"), ("run_state", "failed"), ("has_errors", True), ("success", False)),
    ],
)
def test_a_file_that_calls_its_run_bad_is_believed(tmp_path: Path, key: str, value: object) -> None:
    run = settled(tmp_path, STATISTICS, fields={"model": "m", key: value}, output_tokens=100.0 * N)
    assert not passed(run)
    assert {doubt.code for doubt in run.doubts if "error_rate" in doubt.of} == {Why.TOOL_SAYS_INVALID}
    assert key in run.doubted["error_rate"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(
            ("interrupted", False),
            ("complete", True),
            ("completed", 200),
            ("failed", 0),
            ("status", "success"),
        ),
        *(("errors", []), ("state", "warm"), ("timeout_s", 30), ("cancelled", 3), ("error_rate", 0.0)),
    ],
)
def test_counts_settings_and_words_of_success_say_nothing_against_a_run(
    tmp_path: Path, key: str, value: object
) -> None:
    run = settled(tmp_path, STATISTICS, fields={"model": "m", key: value}, output_tokens=100.0 * N)
    assert passed(run) == ALL


@pytest.mark.parametrize("left", [("median",), ("mean", "median"), ("median", "p99"), ("p99",), ("mean",)])
def test_statistics_of_0_are_no_measure_only_where_all_are_there(left: tuple[str, ...]) -> None:
    """What vLLM and its forks write of a metric they did not measure; a part of it is a value of 0."""
    every = {"mean": 0.0, "median": 0.0, "p99": 0.0}
    assert not bench_serving.summaries({"ttft": every}, 1000)
    some = {name: every[name] for name in left}
    assert "ttft" in bench_serving.summaries({"ttft": some}, 1000)
