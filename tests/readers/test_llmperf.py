"""LLMPerf: our columns give its own aggregates, its traps stay traps, nothing malformed gets through."""

from __future__ import annotations

import gzip
import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gate.errors import InputError
from gate.model import Aggregate, Load, Requests, Run, Status, Why
from gate.readers import companions, knows, llmperf, runs_of
from gate.readers.source import Source
from tests.conftest import FIXTURES, ROOT

CASES = FIXTURES / "llmperf"
STEM = "mock-model_150_48"
TRAP = ROOT / "examples" / "tool-trap"
METRICS = {"ttft": "ttft_s", "e2e": "end_to_end_latency_s"}


def source(path: Path) -> Source:
    return Source(path, path.name)


def read(path: Path) -> Run:
    (run,) = runs_of(llmperf, source(path))
    return run


def rows_of(run: Run) -> Requests:
    assert isinstance(run.evidence, Requests)
    return run.evidence


def row(**changes: Any) -> dict[str, Any]:
    """A good row: TTFT 1 s, E2E 3 s, 5 tokens (BUGS B06)."""
    return {
        "error_code": None,
        "error_msg": "",
        "inter_token_latency_s": 0.6,
        "ttft_s": 1.0,
        "end_to_end_latency_s": 3.0,
        "request_output_throughput_token_per_s": 5 / 3,
        "number_total_tokens": 105,
        "number_output_tokens": 5,
        "number_input_tokens": 100,
        **changes,
    }


FAILED = row(
    error_code=-1, inter_token_latency_s=0.0, ttft_s=0, end_to_end_latency_s=0, number_output_tokens=1
)


def write(folder: Path, rows: Any, name: str = "m_1_1_individual_responses.json") -> Path:
    path = folder / name
    path.write_text(rows if isinstance(rows, str) else json.dumps(rows, indent=4), encoding="utf-8")
    return path


def summary_of(case: str) -> dict[str, Any]:
    return dict(json.loads((CASES / case / f"{STEM}_summary.json").read_text(encoding="utf-8")))


def assert_reproduces(run: Run, summary: dict[str, Any]) -> None:
    """Counts, percentiles (pandas linear), mean, std (ddof 1), min, max, duration and throughput."""
    rows = rows_of(run)
    done = rows.status == Status.COMPLETED
    assert run.counts.attempted == summary["results_num_requests_started"]
    assert run.counts.failed == summary["results_number_errors"]
    assert run.counts.completed == summary["results_num_completed_requests"] == done.sum()
    columns = {
        "ttft_s": rows.ttft_s,
        "end_to_end_latency_s": rows.e2e_s,
        "number_output_tokens": rows.output_tokens,
        "number_input_tokens": rows.input_tokens,
    }
    for key, column in columns.items():
        assert column is not None
        values = column[done]
        for percent in (25, 50, 75, 90, 95, 99):
            said = summary[f"results_{key}_quantiles_p{percent}"]
            assert np.percentile(values, percent) == pytest.approx(said, rel=1e-12)
        for name, got in (("mean", values.mean()), ("min", values.min()), ("max", values.max())):
            assert got == pytest.approx(float(summary[f"results_{key}_{name}"]), rel=1e-12)
        assert values.std(ddof=1) == pytest.approx(summary[f"results_{key}_stddev"], rel=1e-12)


def assert_throughput(run: Run, summary: dict[str, Any]) -> None:
    """The duration comes from requests per minute; tokens per second must agree with it."""
    assert run.total_output_tokens is not None
    assert run.duration_s is not None
    said = summary["results_mean_output_throughput_token_per_s"]
    assert run.total_output_tokens / run.duration_s == pytest.approx(said, rel=1e-12)


# ---- conformance --------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["typical", "failures", "killed-workers"])
def test_the_rows_give_the_tools_own_aggregates(case: str) -> None:
    run = read(CASES / case / f"{STEM}_individual_responses.json")
    assert_reproduces(run, summary_of(case))
    assert_throughput(run, summary_of(case))
    assert (run.model, run.load, run.tool) == ("mock-model", Load(concurrency=4), "LLMPerf")


@pytest.mark.parametrize("case", ["typical", "failures", "killed-workers"])
def test_a_summary_alone_gives_the_tools_own_aggregates(case: str) -> None:
    run, said = read(CASES / case / f"{STEM}_summary.json"), summary_of(case)
    assert isinstance(run.evidence, Aggregate)
    assert run.evidence.method == "linear"
    assert "individual_responses" in run.evidence.settled_by
    assert (run.counts.attempted, run.counts.failed) == (
        said["results_num_requests_started"],
        said["results_number_errors"],
    )
    for metric, key in METRICS.items():
        found = run.evidence.summaries[metric]
        assert found.percentiles == tuple(
            (float(p), said[f"results_{key}_quantiles_p{p}"]) for p in (25, 50, 75, 90, 95, 99)
        )
        assert (found.mean, found.max) == (said[f"results_{key}_mean"], said[f"results_{key}_max"])
        assert found.n == said["results_num_completed_requests"]
    assert set(run.evidence.summaries) == {"ttft", "e2e"}
    assert_throughput(run, said)


def test_every_shared_file_gives_its_own_aggregates(shared: Path) -> None:
    folders = sorted((shared / "results").glob("llmperf-*/*/results"))
    assert len(folders) >= 3
    for folder in folders:
        run = read(folder / f"{STEM}_individual_responses.json")
        said = json.loads((folder / f"{STEM}_summary.json").read_text(encoding="utf-8"))
        assert_reproduces(run, said)
        assert_throughput(run, said)


@pytest.mark.parametrize(
    ("rows", "summary"),
    [
        ("001_yi_tgi_32_individual.json", "002_yi_tgi_32_summary.json"),
        ("010_lb_bedrock_13b_individual.json", "011_lb_bedrock_13b_summary.json"),
    ],
)
def test_public_files_give_their_own_aggregates(shared: Path, rows: str, summary: str) -> None:
    folder = shared / "public-results" / "llmperf"
    said = json.loads((folder / summary).read_text(encoding="utf-8"))
    assert_reproduces(read(folder / rows), said)


def test_the_counts_are_those_of_the_server(shared: Path) -> None:
    # The older tool records every failure: its rows are the server's requests, kind by kind.
    case = shared / "results" / "llmperf-5acd7b1" / "b_errors"
    truth = [json.loads(line) for line in (case / "truth.jsonl").read_text().splitlines()]
    counts = read(case / "results" / f"{STEM}_individual_responses.json").counts
    assert counts.attempted == len(truth) == 152
    assert counts.completed == sum(entry["status"] == 200 for entry in truth) == 138
    assert counts.failed == sum(entry["status"] in (500, "aborted") for entry in truth) == 14
    assert counts.cancelled == counts.warmup == 0


@pytest.mark.parametrize("kind", ["individual_responses", "summary"])
def test_failures_that_killed_a_worker_are_named_as_possibly_missing(shared: Path, kind: str) -> None:
    # The server saw 23 requests, 4 of them failed; the file has the 19 good rows and an error rate of 0.
    case = shared / "results" / "llmperf-f1d6bed" / "b_errors"
    truth = [json.loads(line) for line in (case / "truth.jsonl").read_text().splitlines()]
    run = read(case / "results" / f"{STEM}_{kind}.json")
    assert sum(entry["status"] == 200 for entry in truth) == run.counts.attempted == 19
    assert len(truth) == 23
    assert any("failures may be missing" in note and "19 rows" in note for note in run.notes)
    codes = {of: {doubt.code for doubt in run.doubts if of in doubt.of} for of in ("attempted", "error_rate")}
    assert codes == {
        "attempted": {Why.LOST_ROWS, Why.FAILURES_HIDDEN},
        "error_rate": {Why.FAILURES_HIDDEN, Why.RETRIES_UNKNOWN},
    }
    assert "0.8 of 4 workers" in run.doubted["attempted"]  # 7.70 s of E2E in 9.19 s


def test_rows_without_their_summary_do_not_show_whether_workers_died(tmp_path: Path) -> None:
    whole = read(CASES / "typical" / f"{STEM}_individual_responses.json")
    assert whole.doubt("attempted") is None  # 59.70 s of E2E in 24.97 s: 2.4 of 4 workers
    hidden = [(doubt.code, doubt.requests) for doubt in whole.doubts if "attempted" in doubt.of]
    assert hidden == [(Why.FAILURES_HIDDEN, 4)]  # a worker dies of its first failure
    shutil.copy(CASES / "typical" / f"{STEM}_individual_responses.json", tmp_path)
    alone = read(tmp_path / f"{STEM}_individual_responses.json")
    assert alone.doubt("attempted") is not None


# ---- traps --------------------------------------------------------------------------------


def test_the_tool_trap_is_7_ms_and_not_12() -> None:
    run = read(TRAP / "demo-model_300_100_individual_responses.json")
    tpot = rows_of(run).tpot_s
    assert tpot is not None
    assert len(tpot) == 20
    assert tpot == pytest.approx(0.700 / 99)
    itl = run.tool_reported["itl"]
    assert dict(itl.percentiles)[99.0] == itl.mean == pytest.approx(0.0120)
    assert "contains TTFT" in itl.method
    assert "itl" in run.doubted
    assert rows_of(run).gaps is None


def test_tpot_is_derived_and_not_the_inter_token_latency(tmp_path: Path) -> None:
    tpot = rows_of(read(write(tmp_path, [row()]))).tpot_s  # BUGS B06: (3 - 1) / (5 - 1), not 0.6
    assert tpot is not None
    assert tpot.tolist() == [0.5]


def test_a_perfect_looking_error_row_is_a_failure(tmp_path: Path) -> None:
    run = read(write(tmp_path, [FAILED, row(), FAILED]))  # BUGS B23: empty message, TTFT 0, one token
    assert (run.counts.completed, run.counts.failed) == (1, 2)
    assert "2 failed: error_code -1 (no message) x2" in run.notes


def test_an_error_row_with_real_latencies_is_a_failure(tmp_path: Path) -> None:
    late = row(error_code=-100, error_msg="Output too few tokens 39", number_output_tokens=39)
    run = read(write(tmp_path, [late, row(), {**late, "error_msg": "Output too few tokens 25"}]))
    assert (run.counts.completed, run.counts.failed) == (1, 2)
    assert run.notes[0] == '2 failed: error_code -100 ("Output too few tokens 39") x2'


@pytest.mark.parametrize(
    ("name", "attempted", "failed", "code"),
    [
        ("001_yi_tgi_32_individual.json", 128, 44, "error_code -1 "),
        ("010_lb_bedrock_13b_individual.json", 150, 97, "error_code -100 "),
        ("014_lb_perplexity_70b_individual.json", 150, 2, "error_code 429 "),
    ],
)
def test_public_failures_are_counted_by_error_code(
    shared: Path, name: str, attempted: int, failed: int, code: str
) -> None:
    run = read(shared / "public-results" / "llmperf" / name)
    assert (run.counts.attempted, run.counts.failed) == (attempted, failed)
    assert run.notes[0].startswith(f"{failed} failed: {code}")
    assert run.model is None
    assert run.load is None


def test_an_empty_answer_without_an_error_code_is_a_failure_and_noted(tmp_path: Path) -> None:
    run = read(write(tmp_path, [row(), row(ttft_s=0, number_output_tokens=1)]))
    assert run.counts.failed == 1
    assert any(note.startswith("the tool counts 2 completed, slo-gate 1") for note in run.notes)


def test_a_client_that_does_not_stream_is_not_judged_by_ttft(tmp_path: Path) -> None:
    # vertexai_client.py writes ttft -1 for every answered request.
    run = read(write(tmp_path, [row(ttft_s=-1), row(ttft_s=-1), FAILED]))
    assert (run.counts.completed, run.counts.failed) == (2, 1)
    assert run.streaming is False
    assert {"ttft", "tpot", "itl"} <= run.doubted.keys()
    assert rows_of(run).ttft_s is None


def test_answers_in_one_chunk_are_not_judged_by_tpot(tmp_path: Path) -> None:
    run = read(write(tmp_path, [row(ttft_s=2.9999999), row(ttft_s=3.0), row()]))
    assert all("in one piece" in run.doubted[metric] for metric in ("ttft", "tpot"))
    assert run.streaming is False
    assert run.counts.completed == 3


def test_error_codes_printed_as_a_python_dict_are_read() -> None:
    said = summary_of("failures")["results_error_code_frequency"]
    assert said == "{500.0: np.int64(9), -1.0: np.int64(5)}"
    run = read(CASES / "failures" / f"{STEM}_summary.json")
    assert run.notes[0] == "14 failed: error_code 500 x9, error_code -1 x5"


def test_error_codes_of_older_numpy_are_read(tmp_path: Path) -> None:
    content = summary_of("failures") | {"results_error_code_frequency": "{-1.0: 14}"}
    run = read(write(tmp_path, content, "m_1_1_summary.json"))
    assert run.notes[0] == "14 failed: error_code -1 x14"


def test_metadata_states_what_the_tool_does_not_record(tmp_path: Path) -> None:
    content = summary_of("typical") | {"hardware": "8xH100", "tool_version": "f1d6bed", "session": "a1"}
    run = read(write(tmp_path, content, "m_1_1_summary.json"))
    assert (run.hardware, run.tool_version, run.session) == ("8xH100", "f1d6bed", "a1")
    assert "metadata: gpu=mock, run=1" in run.notes


def test_a_summary_of_a_client_that_does_not_stream_has_no_ttft(tmp_path: Path) -> None:
    content = summary_of("typical")
    content |= {key: -1 for key in content if key.startswith("results_ttft_s_quantiles")}
    run = read(write(tmp_path, content, "m_1_1_summary.json"))
    assert isinstance(run.evidence, Aggregate)
    assert "ttft" not in run.evidence.summaries
    assert {doubt.code for doubt in run.doubts if "ttft" in doubt.of} >= {Why.NOT_STREAMED}
    assert "use a streaming --llm-api" in run.doubted["ttft"]


def test_a_summary_without_completed_requests_keeps_its_counts(tmp_path: Path) -> None:
    content = {
        key: float("nan") if key.endswith(("mean", "min", "max", "stddev")) or "quantiles" in key else value
        for key, value in summary_of("failures").items()
    } | {
        "results_num_completed_requests": 0,
        "results_number_errors": 152,
        "results_error_rate": 1.0,
        "results_num_completed_requests_per_min": 0.0,
    }
    run = read(write(tmp_path, content, "m_1_1_summary.json"))
    assert (run.counts.attempted, run.counts.completed, run.counts.failed) == (152, 0, 152)
    assert isinstance(run.evidence, Aggregate)
    assert all(not summary.percentiles for summary in run.evidence.summaries.values())
    assert run.duration_s is None


# ---- which files --------------------------------------------------------------------------


def test_a_summary_is_covered_by_the_rows_of_its_prefix() -> None:
    rows, summary = (
        source(CASES / "typical" / f"{STEM}_{kind}.json") for kind in ("individual_responses", "summary")
    )
    assert list(companions(llmperf, [summary, rows])) == [summary]
    assert companions(llmperf, [summary]) == {}
    assert companions(llmperf, [rows]) == {}


def test_a_summary_of_another_run_is_not_covered() -> None:
    rows = source(CASES / "typical" / f"{STEM}_individual_responses.json")
    assert companions(llmperf, [source(CASES / "failures" / f"{STEM}_summary.json"), rows]) == {}


def test_a_summary_under_another_name_is_covered_by_its_numbers(tmp_path: Path) -> None:
    rows, summary = tmp_path / "rows.json", tmp_path / "agg.json"
    shutil.copy(CASES / "typical" / f"{STEM}_individual_responses.json", rows)
    shutil.copy(CASES / "typical" / f"{STEM}_summary.json", summary)
    covered = companions(llmperf, [source(rows), source(summary)])
    assert [file.name for file in covered] == ["agg.json"]


def test_a_summary_of_another_run_beside_the_rows_is_an_error(tmp_path: Path) -> None:
    shutil.copy(CASES / "typical" / f"{STEM}_individual_responses.json", tmp_path)
    shutil.copy(CASES / "failures" / f"{STEM}_summary.json", tmp_path)
    with pytest.raises(InputError, match="150 rows with 0 failed here, a summary of 152 with 14"):
        read(tmp_path / f"{STEM}_individual_responses.json")


def test_a_compressed_pair_is_read(tmp_path: Path) -> None:
    for file in (CASES / "failures").glob("*.json"):
        (tmp_path / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
    run = read(tmp_path / f"{STEM}_individual_responses.json.gz")
    assert run.counts.attempted == 152
    assert run.load == Load(concurrency=4)


def test_exactly_its_own_shared_files_are_claimed(shared: Path) -> None:
    claimed = set()
    for root in ("results", "public-results"):
        for path in (shared / root).rglob("*"):
            try:
                if path.is_file() and knows(llmperf, source(path)):
                    claimed.add(path)
            except InputError:
                continue
    expected = set((shared / "results").glob("llmperf-*/*/results/*.json"))
    expected |= set((shared / "public-results" / "llmperf").glob("*.json"))
    assert len(expected) == 11
    assert claimed == expected


# ---- malformed ----------------------------------------------------------------------------


def test_a_file_cut_short_is_claimed_and_says_so() -> None:
    file = source(CASES / "truncated" / f"{STEM}_individual_responses.json")
    assert knows(llmperf, file)
    with pytest.raises(InputError, match="ends in the middle"):
        runs_of(llmperf, file)


def test_a_list_without_rows_is_an_error() -> None:
    with pytest.raises(InputError, match="holds no requests"):
        read(CASES / "empty" / f"{STEM}_individual_responses.json")


@pytest.mark.parametrize("key", ["error_code", "ttft_s", "end_to_end_latency_s", "number_output_tokens"])
def test_a_missing_field_is_named(tmp_path: Path, key: str) -> None:
    broken = row()
    del broken[key]
    with pytest.raises(InputError, match=rf"missing required field `{key}`"):
        read(write(tmp_path, [row(), broken]))


@pytest.mark.parametrize(
    "key", ["results_num_requests_started", "results_number_errors", "results_num_completed_requests"]
)
def test_a_summary_without_its_counts_is_an_error(tmp_path: Path, key: str) -> None:
    content = summary_of("typical")
    del content[key]
    with pytest.raises(InputError, match=f"has no {key}"):
        read(write(tmp_path, content, "m_1_1_summary.json"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"results_number_errors": 3}, "contradicts itself: 150 completed and 3 failed are not 150"),
        ({"results_error_rate": 0.5}, "contradicts itself: an error rate of 0.5"),
        ({"results_ttft_s_quantiles_p99": 0.0001}, "contradicts itself: a higher percentile"),
        ({"results_num_requests_started": -1}, "expected a count"),
        ({"results_num_requests_started": "many"}, "expected a number"),
        ({"num_concurrent_requests": 2.5}, "expected a count"),
    ],
)
def test_a_summary_that_contradicts_itself_is_an_error(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(write(tmp_path, summary_of("typical") | changes, "m_1_1_summary.json"))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.5, 0, None])
@pytest.mark.parametrize("key", ["ttft_s", "end_to_end_latency_s"])
def test_a_latency_that_is_none_is_a_failure(tmp_path: Path, key: str, value: float | None) -> None:
    run = read(write(tmp_path, [row(), row(**{key: value})]))
    assert (run.counts.completed, run.counts.failed) == (1, 1)


@pytest.mark.parametrize("value", ["1.0", [1.0], {}, True])
def test_a_latency_of_another_type_is_an_error(tmp_path: Path, value: object) -> None:
    with pytest.raises(InputError, match=r"\$\[1\]\.ttft_s"):
        read(write(tmp_path, [row(), row(ttft_s=value)]))


def test_a_token_count_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    for count in (-3, 1e300):
        with pytest.raises(InputError, match=r"\$\[0\]\.number_output_tokens"):
            read(write(tmp_path, [row(number_output_tokens=count)], f"{count}.json"))


@pytest.mark.parametrize("case", ["typical", "killed-workers"])
@pytest.mark.parametrize("kind", ["individual_responses", "summary"])
def test_a_file_cut_anywhere_is_an_input_error(tmp_path: Path, case: str, kind: str) -> None:
    whole = (CASES / case / f"{STEM}_{kind}.json").read_bytes().rstrip()
    for offset in range(1, len(whole), max(1, len(whole) // 40)):
        path = tmp_path / f"{offset}_{kind}.json"
        path.write_bytes(whole[:offset])
        with pytest.raises(InputError):
            runs_of(llmperf, source(path))


# A file that is read is mapped into memory: it must not be written again, so each example has its own.
_NUMBERS = itertools.count()
_VALUES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.text(max_size=3) | st.just([])
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.sampled_from(sorted(row())), _VALUES, max_size=3), min_size=1, max_size=4))
def test_any_rows_give_a_consistent_run_or_an_input_error(
    tmp_path: Path, changes: list[dict[str, Any]]
) -> None:
    path = write(tmp_path, [row(**change) for change in changes], f"{next(_NUMBERS)}.json")
    try:
        run = read(path)
    except InputError:
        return
    assert run.counts.attempted == run.counts.completed + run.counts.failed == len(changes)
    errors = sum(change.get("error_code") is not None for change in changes)
    # NaN in error_code is JSON's null here: it marks no error.
    nan = sum(isinstance(c.get("error_code"), float) and c["error_code"] != c["error_code"] for c in changes)
    assert run.counts.failed >= errors - nan
