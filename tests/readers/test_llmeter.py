"""LLMeter: our columns give its own aggregates, its traps stay traps, nothing malformed gets through."""

from __future__ import annotations

import gzip
import itertools
import json
import shutil
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gate.errors import InputError
from gate.model import Aggregate, Load, Requests, Run, Status, Why
from gate.readers import companions, knows, llmeter, runs_of
from gate.readers.source import Source
from tests.conftest import FIXTURES

CASES = FIXTURES / "llmeter"


def source(path: Path) -> Source:
    return Source(path, path.name)


def responses(case: str) -> Path:
    (path,) = (CASES / case).glob("responses.jsonl*")
    return path


def read_all(path: Path) -> list[Run]:
    opened = source(path)
    assert knows(llmeter, opened)
    return list(runs_of(llmeter, opened))


def read(path: Path) -> Run:
    (run,) = read_all(path)
    return run


def codes(run: Run, of: str) -> list[Why]:
    """The codes of the doubts about a metric, the first first."""
    return [doubt.code for doubt in run.doubts if of in doubt.of]


def rows_of(run: Run) -> Requests:
    assert isinstance(run.evidence, Requests)
    return run.evidence


def objects(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    return [json.loads(line) for line in text.splitlines()]


def said(folder: Path, name: str = "stats.json") -> dict[str, Any]:
    return dict(json.loads((folder / name).read_text(encoding="utf-8")))


def row(**changes: Any) -> dict[str, Any]:
    """A good row: TTFT 0.5 s, 100 tokens, 0.7 s of decode."""
    base = {
        "response_text": "x",
        "time_to_first_token": 0.5,
        "time_to_last_token": 1.2,
        "time_per_output_token": 0.7 / 99,
        "num_tokens_input": 50,
        "num_tokens_output": 100,
        "num_tokens_output_reasoning": None,
        "error": None,
        "retries": None,
        "request_time": "2026-11-29T14:17:50Z",
    }
    return {**base, **changes}


FAILED = row(
    error="Error code: 500",
    time_to_first_token=None,
    time_to_last_token=None,
    time_per_output_token=None,
    num_tokens_output=None,
)


def write(folder: Path, rows: list[dict[str, Any]], name: str = "responses.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return path


def beside(folder: Path, name: str, content: dict[str, Any]) -> None:
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


def configured(**state: Any) -> dict[str, Any]:
    endpoint = {"__llmeter_class__": "llmeter.endpoints.openai.Stream", "__llmeter_state__": state}
    return {"endpoint": endpoint, "clients": 2, "n_requests": 1, "payload": "p", "tokenizer": {}}


def own(values: list[float]) -> dict[str, float]:
    """The tool's statistics (utils.py): the standard library's exclusive quantiles, P50 the median."""
    return {
        "average": statistics.mean(values),
        "p50": statistics.median(values),
        "p90": statistics.quantiles(values, n=10)[8],
        "p99": statistics.quantiles(values, n=100)[98],
    }


def assert_reproduces(run: Run, stats: dict[str, Any]) -> None:
    """Counts, totals, throughput, and every percentile once the failed rows' partial values are in."""
    rows = rows_of(run)
    done = rows.status == Status.COMPLETED
    assert run.counts.attempted == stats["total_requests"]
    assert run.counts.failed == stats["failed_requests"]
    assert run.total_output_tokens == stats["total_output_tokens"]
    columns = {
        "time_to_first_token": rows.ttft_s,
        "time_to_last_token": rows.e2e_s,
        "time_per_output_token": rows.tpot_s,
        "num_tokens_output": rows.output_tokens,
        "num_tokens_input": rows.input_tokens,
    }
    for name, column in columns.items():
        assert column is not None
        partial = np.isfinite(column) if name in ("time_to_first_token", "time_to_last_token") else done
        for statistic, value in own(column[partial & np.isfinite(column)].tolist()).items():
            assert value == pytest.approx(stats[f"{name}-{statistic}"], rel=1e-12), (name, statistic)
    assert run.duration_s == stats["total_test_time"]


# ---- conformance --------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["typical", "failures", "load-test"])
def test_the_rows_give_the_tools_own_aggregates(case: str) -> None:
    assert_reproduces(read_all(responses(case))[-1], said(CASES / case))


def test_every_shared_file_gives_its_own_aggregates(shared: Path) -> None:
    paths = sorted((shared / "results").glob("llmeter-*/*/results/*/responses.jsonl"))
    assert len(paths) == 3
    for path in paths:
        assert_reproduces(read_all(path)[-1], said(path.parent))


def test_the_counts_are_those_of_the_server(shared: Path) -> None:
    case = shared / "results" / "llmeter-0.2.0" / "b_errors_noretry"
    truth = [json.loads(line) for line in (case / "truth.jsonl").read_text().splitlines()]
    counts = read(case / "results" / "r1" / "responses.jsonl").counts
    assert counts.attempted == len(truth) == 150
    assert counts.completed == sum(entry["status"] == 200 for entry in truth) == 141
    assert counts.failed == sum(entry["status"] != 200 for entry in truth) == 9
    clean = shared / "results" / "llmeter-0.2.0" / "a_clean"
    assert len((clean / "truth.jsonl").read_text().splitlines()) == 150
    assert read(clean / "results" / "r1" / "responses.jsonl").counts.completed == 150


def test_statistics_alone_give_percentiles_by_their_method() -> None:
    run, stats = read(CASES / "typical" / "stats.json"), said(CASES / "typical")
    assert isinstance(run.evidence, Aggregate)
    assert run.evidence.method == "exclusive"
    assert "responses.jsonl" in run.evidence.settled_by
    assert (run.counts.attempted, run.counts.failed) == (150, 0)
    for metric, name in (
        ("ttft", "time_to_first_token"),
        ("e2e", "time_to_last_token"),
        ("tpot", "time_per_output_token"),
    ):
        assert run.evidence.summaries[metric].percentiles == tuple(
            (float(p), stats[f"{name}-p{p}"]) for p in (50, 90, 99)
        )
    assert (run.load, run.model, run.date) == (Load(concurrency=6), "mock-model", "2026-11-29")


def test_the_files_beside_name_model_load_duration_and_day() -> None:
    run = read(responses("typical"))
    assert (run.tool, run.model, run.load, run.date) == (
        "LLMeter",
        "mock-model",
        Load(concurrency=6),
        "2026-11-29",
    )
    assert run.tool_version is None  # no file states it
    assert (
        dict(run.tool_reported["ttft"].percentiles)[99.0]
        == said(CASES / "typical")["time_to_first_token-p99"]
    )


def test_rows_of_the_first_version_are_read() -> None:
    run = read(responses("old"))
    assert (run.counts.completed, run.load, run.date) == (40, None, None)
    first = objects(responses("old"))[0]
    tpot = rows_of(run).tpot_s
    assert tpot is not None
    assert tpot[0] == pytest.approx(first["time_per_output_token"], rel=1e-12)


# ---- traps --------------------------------------------------------------------------------


def test_tpot_is_7_ms_and_not_12(tmp_path: Path) -> None:
    tpot = rows_of(read(write(tmp_path, [row(), row()]))).tpot_s  # 700 ms of decode over 99 tokens
    assert tpot is not None
    assert tpot[0] == pytest.approx(0.7 / 99, rel=1e-12)


def test_an_exclusive_p99_above_the_maximum_is_the_tools_not_ours(shared: Path) -> None:
    public = shared / "public-results" / "llmeter" / "002_errors_stats.json"
    assert said(public.parent, public.name)["time_to_last_token-p99"] == 3.10725  # the maximum is 2.105
    run = read(public)
    assert dict(run.tool_reported["e2e"].percentiles)[99.0] == 3.10725
    assert "exclusive" in run.tool_reported["e2e"].method


def test_percentiles_with_partial_values_of_failed_requests_are_not_judged() -> None:
    run = read(CASES / "failures" / "stats.json")
    assert isinstance(run.evidence, Aggregate)
    assert (run.counts.attempted, run.counts.failed) == (150, 9)
    partial = [doubt.of for doubt in run.doubts if doubt.code is Why.PARTIAL]
    assert partial == [("ttft", "e2e")]  # a failed request has no tokens and so no TPOT
    for metric in ("ttft", "e2e"):
        assert "before they failed" in run.doubted[metric]


def test_an_aborted_row_with_times_is_a_failure() -> None:
    aborted = [r for r in objects(responses("failures")) if r["error"] and r["time_to_last_token"]]
    assert [one["error"] for one in aborted] == ["Connection error."]
    run = read(responses("failures"))
    assert run.counts.failed == 9
    assert run.notes[0] == "9 failed: Error code: 500 - engine overloaded x8, Connection error. x1"
    assert any("partial times of 1 failed requests" in note for note in run.notes)


def test_public_failures_are_counted(shared: Path) -> None:
    run = read(shared / "public-results" / "llmeter" / "001_errors_responses.jsonl")
    assert (run.counts.attempted, run.counts.failed) == (5, 2)
    assert any("the SDK retried 2 requests, 3 times in all" in note for note in run.notes)
    about = {doubt.code: doubt.requests for doubt in run.doubts if "error_rate" in doubt.of}
    assert Why.RETRIES_UNKNOWN not in about  # Bedrock counts its retries
    assert about[Why.RETRIED] == 2


def test_retries_by_the_sdk_leave_the_error_rate_open() -> None:
    # max_retries 2 is the default: an HTTP 500 that is repeated inside a request leaves no row.
    assert "up to 2 times" in read(responses("typical")).doubted["error_rate"]
    assert "up to 2 times" in read(CASES / "typical" / "stats.json").doubted["error_rate"]
    assert "error_rate" not in read(responses("failures")).doubted  # run with max_retries=0
    assert any("up to 2 retries" in note for note in read(responses("typical")).notes)


def test_several_levels_in_one_file_are_told_apart_and_never_pooled() -> None:
    earlier, last = read_all(responses("load-test"))  # BUGS B31, B32
    assert (last.counts.attempted, last.load) == (42, Load(concurrency=6))
    assert (earlier.counts.attempted, earlier.load) == (40, None)
    assert {"ttft", "tpot", "e2e", "error_rate"} <= earlier.doubted.keys()
    assert earlier.tool_reported == {}
    column = rows_of(last).e2e_s
    assert column is not None
    assert column.mean() == pytest.approx(said(CASES / "load-test")["time_to_last_token-average"], rel=1e-12)


def test_a_reasoning_model_is_not_judged_by_its_first_visible_token(tmp_path: Path) -> None:
    run = read(write(tmp_path, [row(num_tokens_output_reasoning=40), row()]))  # BUGS B12
    assert "after the reasoning" in run.doubted["ttft"]
    assert "after the reasoning" in run.doubted["tpot"]
    assert any("first visible content" in note for note in run.notes)


@pytest.mark.parametrize("how", ["column", "setting"])
def test_a_first_token_of_any_kind_is_judged(tmp_path: Path, how: str) -> None:
    new = {"time_to_first_content_token": 2.5} if how == "column" else {}
    state = {"ttft_visible_tokens_only": False} if how == "setting" else {}
    beside(tmp_path, "run_config.json", configured(**state))
    run = read(write(tmp_path, [row(num_tokens_output_reasoning=40, **new)] * 2))
    assert "ttft" not in run.doubted
    assert "any kind" in run.definitions["ttft"]
    ttft = rows_of(run).ttft_s
    assert ttft is not None
    assert ttft.tolist() == [0.5, 0.5]


def test_an_endpoint_that_does_not_stream_has_no_ttft(tmp_path: Path) -> None:
    run = read(write(tmp_path, [row(time_to_first_token=None, time_per_output_token=None)] * 3 + [FAILED]))
    assert (run.counts.completed, run.counts.failed, run.streaming) == (3, 1, False)  # BUGS B13
    (doubt,) = [doubt for doubt in run.doubts if doubt.code is Why.NOT_STREAMED]
    assert {"ttft", "tpot"} <= set(doubt.of)
    assert "use a streaming endpoint" in doubt.why
    assert rows_of(run).ttft_s is None


def test_answers_in_one_piece_are_not_judged_by_ttft_or_tpot(tmp_path: Path) -> None:
    run = read(write(tmp_path, [row(time_to_first_token=1.1999)] * 3))  # BUGS B03
    assert {"ttft", "tpot"} <= run.doubted.keys()
    assert run.counts.completed == 3


def test_fewer_rows_than_asked_for_are_told(tmp_path: Path) -> None:
    beside(tmp_path, "run_config.json", configured(max_retries=0) | {"clients": 3, "n_requests": 2})
    run = read(write(tmp_path, [row()] * 4))
    (lost,) = [doubt for doubt in run.doubts if "attempted" in doubt.of]
    assert (lost.code, lost.requests) == (Why.LOST_ROWS, 2)
    assert lost.why.startswith("6 requests were asked for and 4 are in the file")
    assert run.load == Load(concurrency=3)


def test_retries_that_nothing_states_are_not_none(tmp_path: Path) -> None:
    for name in ("stats.json", "summary.json"):
        shutil.copy(CASES / "failures" / name, tmp_path)
    shutil.copy(responses("failures"), tmp_path / "responses.jsonl.gz")
    assert codes(read(tmp_path / "responses.jsonl.gz"), "error_rate") == [Why.RETRIES_UNKNOWN]
    assert Why.RETRIES_UNKNOWN in codes(read(tmp_path / "stats.json"), "error_rate")


@pytest.mark.parametrize(
    ("name", "said_beside", "known"),
    [
        (None, {}, False),
        ("run_config.json", {}, True),  # 2 clients x 1 request
        ("run_config.json", {"n_requests": 0, "run_duration": 60}, False),
        ("summary.json", {"total_requests": 2}, True),
    ],
)
def test_rows_of_an_unknown_number_of_levels_are_not_one_run(
    tmp_path: Path, name: str | None, said_beside: dict[str, Any], known: bool
) -> None:
    if name is not None:
        beside(tmp_path, name, (configured(max_retries=0) if "config" in name else {}) | said_beside)
    run = read(write(tmp_path, [row(), row()]))
    assert (Why.SEVERAL_LOADS in codes(run, "e2e")) is not known


def test_statistics_without_a_count_of_reasoning_tokens_do_not_judge_tpot(tmp_path: Path) -> None:
    stats = said(CASES / "typical")
    beside(tmp_path, "stats.json", stats)
    assert Why.DEFINITION in codes(read(tmp_path / "stats.json"), "tpot")
    beside(tmp_path, "stats.json", {**stats, "total_reasoning_output_tokens": 0})
    assert codes(read(tmp_path / "stats.json"), "tpot") == []


def test_a_configuration_of_the_old_format_is_read(tmp_path: Path) -> None:
    old = {"endpoint": {"endpoint_type": "OpenAICompletionStreamEndpoint", "model_id": "m"}, "clients": 1}
    beside(tmp_path, "run_config.json", old)
    run = read(write(tmp_path, [row()] * 2))
    assert (run.model, run.load) == ("m", Load(concurrency=1))


# ---- which files --------------------------------------------------------------------------


def test_statistics_and_side_files_are_covered_by_the_rows() -> None:
    folder = CASES / "typical"
    rows = source(responses("typical"))
    others = [source(folder / name) for name in ("stats.json", "summary.json", "run_config.json")]
    assert all(knows(llmeter, other) for other in others)
    assert set(companions(llmeter, [rows, *others])) == set(others)
    assert companions(llmeter, [others[0]]) == {}
    assert companions(llmeter, [others[0], source(responses("failures"))]) == {}


def test_statistics_under_another_name_are_covered_by_their_numbers(shared: Path) -> None:
    folder = shared / "public-results" / "llmeter"
    rows, stats = (source(folder / n) for n in ("001_errors_responses.jsonl", "002_errors_stats.json"))
    assert list(companions(llmeter, [rows, stats])) == [stats]


@pytest.mark.parametrize("name", ["summary.json", "run_config.json"])
def test_a_side_file_is_no_result(name: str) -> None:
    with pytest.raises(InputError, match="of an LLMeter run"):
        runs_of(llmeter, source(CASES / "typical" / name))


def test_rows_of_another_run_than_the_statistics_are_an_error(tmp_path: Path) -> None:
    shutil.copy(responses("failures"), tmp_path / "responses.jsonl.gz")
    shutil.copy(CASES / "typical" / "stats.json", tmp_path)
    with pytest.raises(InputError, match=r"contradicts stats\.json beside it"):
        runs_of(llmeter, source(tmp_path / "responses.jsonl.gz"))


def test_rows_lost_from_the_file_are_an_error(tmp_path: Path) -> None:
    shutil.copy(CASES / "typical" / "summary.json", tmp_path)
    with pytest.raises(InputError, match="40 rows here, 150 requests there"):
        runs_of(llmeter, source(write(tmp_path, objects(responses("typical"))[:40])))


def test_exactly_its_own_shared_files_are_claimed(shared: Path) -> None:
    claimed = set()
    for root in ("results", "public-results"):
        for path in (shared / root).rglob("*"):
            if path.is_file() and knows(llmeter, source(path)):
                claimed.add(path)
    expected = set((shared / "results").glob("llmeter-*/*/results/*/*.json*"))
    expected |= set((shared / "public-results" / "llmeter").glob("*.json*"))
    assert len(expected) == 14
    assert claimed == expected


# ---- malformed ----------------------------------------------------------------------------


def test_a_file_cut_in_a_line_is_claimed_and_says_so() -> None:
    file = source(responses("truncated"))
    assert knows(llmeter, file)
    with pytest.raises(InputError, match="ends in the middle"):
        runs_of(llmeter, file)


def test_an_empty_file_is_an_error() -> None:
    assert not knows(llmeter, source(responses("empty")))
    with pytest.raises(InputError, match="not a result of LLMeter"):
        runs_of(llmeter, source(responses("empty")))


def test_a_file_cut_anywhere_keeps_whole_rows_or_is_an_error(tmp_path: Path) -> None:
    whole = responses("old").read_bytes()
    for offset in range(1, len(whole), len(whole) // 60):
        path = tmp_path / f"{offset}.jsonl"
        path.write_bytes(whole[:offset])
        try:
            (run,) = runs_of(llmeter, source(path))
        except InputError:
            continue
        assert whole[offset : offset + 1] in (b"\n", b"{")  # only between two rows
        assert run.counts.attempted == whole[: offset + 1].count(b"}")


@pytest.mark.parametrize("key", ["time_to_first_token", "time_to_last_token", "num_tokens_output", "error"])
def test_a_missing_field_is_named(tmp_path: Path, key: str) -> None:
    broken = row()
    del broken[key]
    with pytest.raises(InputError, match=rf"line 2.*missing required field `{key}`"):
        read(write(tmp_path, [row(), broken]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"failed_requests": 151}, "contradicts itself: -1 completed and 151 failed are not 150"),
        ({"failed_requests": None}, "does not say how many"),
        ({"total_requests": -1}, "expected a count"),
        ({"clients": 2.5}, "expected a count"),
        ({"time_to_first_token-p90": 9.0}, "a higher percentile of TTFT is lower"),
        ({"time_to_first_token-p50": "fast"}, "expected a number"),
    ],
)
def test_statistics_that_cannot_be_are_errors(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    beside(tmp_path, "stats.json", said(CASES / "typical") | changes)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "stats.json")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.5, 0, None])
@pytest.mark.parametrize("key", ["time_to_first_token", "time_to_last_token"])
def test_a_latency_that_is_none_is_a_failure(tmp_path: Path, key: str, value: float | None) -> None:
    run = read(write(tmp_path, [row(), row(**{key: value})]))
    assert (run.counts.completed, run.counts.failed) == (1, 1)


_NUMBERS = itertools.count()
_VALUES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.text(max_size=3) | st.just([])
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.sampled_from(sorted(row())), _VALUES, max_size=3), min_size=1, max_size=4))
def test_any_rows_give_a_consistent_run_or_an_input_error(
    tmp_path: Path, changes: list[dict[str, Any]]
) -> None:
    path = write(tmp_path, [row(**change) for change in changes], f"{next(_NUMBERS)}.jsonl")
    try:
        run = read(path)
    except InputError:
        return
    assert run.counts.attempted == run.counts.completed + run.counts.failed == len(changes)
