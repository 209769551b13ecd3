"""genai-bench: our columns give its own aggregates, its traps stay traps, nothing malformed gets through."""

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
from gate.model import Load, Requests, Run, Status, Why
from gate.readers import companions, genai_bench, knows, runs_of
from gate.readers.source import Source
from tests.conftest import FIXTURES

CASES = FIXTURES / "genai-bench"
METRICS = {"ttft": "ttft_s", "e2e_latency": "e2e_s", "tpot": "tpot_s"}


def source(path: Path) -> Source:
    return Source(path, path.name)


def run_file(case: str) -> Path:
    (path,) = (CASES / case).glob("*_time_*")
    return path


def read(path: Path) -> Run:
    opened = source(path)
    assert knows(genai_bench, opened)
    (run,) = runs_of(genai_bench, opened)
    return run


def rows_of(run: Run) -> Requests:
    assert isinstance(run.evidence, Requests)
    return run.evidence


def content(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return dict(json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data))


def row(**changes: Any) -> dict[str, Any]:
    """A good row: TTFT 0.5 s, 100 tokens, 0.7 s of decode."""
    base = {
        "ttft": 0.5,
        "tpot": 0.7 / 99,
        "e2e_latency": 1.2,
        "output_latency": 0.7,
        "num_input_tokens": 50,
        "num_output_tokens": 100,
        "error_code": None,
        "error_message": None,
    }
    return {**base, **changes}


FAILED = {**dict.fromkeys(row()), "error_code": 503, "error_message": ""}


def document(rows: list[dict[str, Any]], **changed: Any) -> dict[str, Any]:
    failed = sum(one.get("error_code") is not None for one in rows)
    aggregated = {
        "scenario": "D(50,100)",
        "num_concurrency": 4,
        "iteration_type": "num_concurrency",
        "run_duration": 10.0,
        "error_rate": 0,
        "num_error_requests": failed,
        "num_completed_requests": len(rows) - failed,
        "num_requests": len(rows),
        "stats": {},
    }
    whole = {"aggregated_metrics": {**aggregated, **changed}, "individual_request_metrics": rows}
    return {**whole, "_time_unit": "s"}


def write(folder: Path, doc: object, name: str = "D50_100_text-to-text_time_9s.json") -> Path:
    path = folder / name
    path.write_text(doc if isinstance(doc, str) else json.dumps(doc, indent=4), encoding="utf-8")
    return path


def assert_reproduces(path: Path) -> None:
    """Statistics (numpy linear, ddof 0), counts, rates and throughputs, by the tool's own definitions."""
    run, doc = read(path), content(path)
    said, rows = doc["aggregated_metrics"], rows_of(run)
    scale = 1000 if doc.get("_time_unit") == "ms" else 1
    done = rows.status == Status.COMPLETED
    assert rows.e2e_s is not None
    assert rows.ttft_s is not None
    for name, ours in METRICS.items():
        stats, column = said["stats"][name], getattr(rows, ours)
        kept = done & (rows.e2e_s - rows.ttft_s >= 1e-3) if name == "tpot" else done  # it drops the others
        values = column[kept & np.isfinite(column)] * scale
        for percent in (25, 50, 75, 90, 95, 99):
            assert np.percentile(values, percent) == pytest.approx(stats[f"p{percent}"], rel=1e-12)
        for statistic, got in (("mean", values.mean()), ("stddev", values.std()), ("max", values.max())):
            assert got == pytest.approx(stats[statistic], rel=1e-12)
    for name, tokens in (("num_output_tokens", rows.output_tokens), ("num_input_tokens", rows.input_tokens)):
        assert tokens is not None
        assert tokens[done].sum() == said["stats"][name]["sum"]
    assert len(rows) == said["num_requests"]
    assert (rows.status == Status.FAILED).sum() == said["num_error_requests"]
    assert run.total_output_tokens is not None
    throughput = run.total_output_tokens / said["run_duration"]
    assert throughput == pytest.approx(said["mean_output_throughput_tokens_per_s"], rel=1e-12)
    if "requests_per_second" in said and run.duration_s is not None:
        assert run.counts.completed / run.duration_s == pytest.approx(said["requests_per_second"], rel=1e-12)


# ---- conformance --------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["typical", "failures", "warmup", "old"])
def test_the_rows_give_the_tools_own_aggregates(case: str) -> None:
    assert_reproduces(run_file(case))


def test_every_shared_file_gives_its_own_aggregates(shared: Path) -> None:
    paths = sorted((shared / "results").glob("genai-bench-*/*/exp/*_time_*.json"))
    assert len(paths) == 6
    for path in paths:
        assert_reproduces(path)


def test_a_public_file_gives_its_own_aggregates(shared: Path) -> None:
    path = shared / "public-results" / "genai_bench" / "001_glm_c1_300s.json"
    assert_reproduces(path)
    run = read(path)
    assert (run.counts.attempted, run.load, run.model) == (50, Load(concurrency=1), None)


def test_the_tools_percentiles_are_shown_in_seconds() -> None:
    stats = content(run_file("warmup"))["aggregated_metrics"]["stats"]["ttft"]
    assert stats["p99"] > 100  # milliseconds
    reported = read(run_file("warmup")).tool_reported["ttft"]
    assert dict(reported.percentiles)[99.0] == pytest.approx(stats["p99"] / 1000, rel=1e-15)
    assert reported.mean == pytest.approx(stats["mean"] / 1000, rel=1e-15)


def test_the_counts_are_those_of_the_server(shared: Path) -> None:
    case = shared / "results" / "genai-bench-0.0.5" / "b_errors"
    truth = [json.loads(line) for line in (case / "truth.jsonl").read_text().splitlines()]
    (path,) = (case / "exp").glob("*_time_*.json")
    counts = read(path).counts
    assert counts.attempted == len(truth) == 163
    assert counts.completed == sum(entry["status"] == 200 for entry in truth) == 144
    assert counts.failed == sum(entry["status"] != 200 for entry in truth) == 19


def test_measured_and_warm_up_rows_are_the_servers_requests(shared: Path) -> None:
    case = shared / "results" / "genai-bench-0.0.5" / "d_sweep_ms_warmup"
    runs = [read(path) for path in (case / "exp").glob("*_time_*.json")]
    truth = (case / "truth.jsonl").read_text().splitlines()
    assert len(truth) == sum(run.counts.attempted + run.counts.warmup for run in runs) == 260
    assert sum(run.counts.warmup for run in runs) == 4 * 9  # of 61, 61, 69 and 69: 6 and 3 each


def test_requests_in_flight_at_the_end_have_no_row_and_the_note_says_so(shared: Path) -> None:
    case = shared / "results" / "genai-bench-0.0.5" / "a_clean"
    (path,) = (case / "exp").glob("*_time_*.json")
    run = read(path)
    assert len((case / "truth.jsonl").read_text().splitlines()) == 162
    assert run.counts.attempted == 161
    assert any("in flight when the run ends" in note and "one token" in note for note in run.notes)


# ---- traps --------------------------------------------------------------------------------


def test_the_metadata_beside_names_version_model_and_hardware() -> None:
    run = read(run_file("warmup"))
    assert (run.tool, run.tool_version, run.model, run.hardware) == (
        "genai-bench",
        "0.0.5",
        "mock-model",
        "8xH100",
    )
    assert run.load == Load(concurrency=2)
    assert "traffic scenario D(64,32)" in run.notes  # runs of two scenarios are not the same workload


def test_an_error_rate_of_zero_beside_failures_is_not_believed() -> None:
    said = content(run_file("failures"))["aggregated_metrics"]
    assert (said["error_rate"], said["num_error_requests"]) == (0, 19)
    run = read(run_file("failures"))
    assert (run.counts.attempted, run.counts.failed) == (163, 19)
    assert any("error_rate is 0" in note and "19 of 163 failed (11.7%)" in note for note in run.notes)
    assert run.notes[0].startswith("19 failed: error_code 500 (")


def test_milliseconds_become_seconds(tmp_path: Path) -> None:
    doc = document([row(ttft=500.0, e2e_latency=1200.0)]) | {"_time_unit": "ms"}  # BUGS B38, B39
    rows = rows_of(read(write(tmp_path, doc)))
    assert rows.ttft_s is not None
    assert rows.e2e_s is not None
    assert (rows.ttft_s.tolist(), rows.e2e_s.tolist()) == ([0.5], [1.2])


def test_tpot_is_7_ms_and_not_12(tmp_path: Path) -> None:
    tpot = rows_of(read(write(tmp_path, document([row()])))).tpot_s  # 700 ms of decode over 99 tokens
    assert tpot is not None
    assert tpot[0] == pytest.approx(0.7 / 99, rel=1e-12)


def test_warm_up_and_cool_down_are_rows_by_index() -> None:
    run = read(run_file("warmup"))
    status = rows_of(run).status
    assert np.flatnonzero(status == Status.WARMUP).tolist() == [0, 1, 2, 3, 4, 5, 58, 59, 60]
    assert (run.counts.attempted, run.counts.warmup) == (52, 9)
    assert run.duration_s is None  # that of all 61 rows would make the throughput 15 % too small


def test_a_failed_row_in_the_warm_up_is_warm_up(tmp_path: Path) -> None:
    write(tmp_path, {"cmd": "genai-bench --warmup-ratio 0.25 --model m"}, "experiment_metadata.json")
    counts = read(write(tmp_path, document([FAILED, row(), row(), row()]))).counts
    assert (counts.attempted, counts.failed, counts.warmup) == (3, 0, 1)


def test_a_short_answer_keeps_its_row_where_the_tool_has_no_tpot() -> None:
    # output_latency under 1 ms: the tool sets tpot to null; the row and the request stay.
    doc = content(run_file("failures"))
    odd = [one for one in doc["individual_request_metrics"] if not one["error_code"] and one["tpot"] is None]
    assert len(odd) == 1
    run = read(run_file("failures"))
    assert run.counts.completed == 144
    assert any(note.endswith("with a TPOT of about 0: 1") for note in run.notes)
    assert [doubt.requests for doubt in run.doubts if "tpot" in doubt.of] == [1]  # of 144: judged both ways


def test_a_row_without_times_that_is_no_error_is_a_failure(tmp_path: Path) -> None:
    run = read(write(tmp_path, document([row(), row(ttft=None), row(num_output_tokens=0)])))
    assert (run.counts.completed, run.counts.failed) == (1, 2)
    assert any("the tool counts 3 completed, slo-gate 1" in note for note in run.notes)


def test_all_failed_is_read_as_all_failed(tmp_path: Path) -> None:
    run = read(write(tmp_path, document([FAILED] * 8)))  # BUGS B19
    assert (run.counts.attempted, run.counts.completed, run.counts.failed) == (8, 0, 8)


def test_answers_in_one_piece_are_not_judged_by_ttft_or_tpot(tmp_path: Path) -> None:
    run = read(write(tmp_path, document([row(ttft=1.1999, output_latency=1e-4, tpot=None)] * 3)))  # BUGS B03
    assert run.streaming is False
    assert {"ttft", "tpot", "itl"} <= run.doubted.keys()
    assert run.counts.completed == 3


def test_arrivals_without_a_row_are_told(tmp_path: Path) -> None:
    run = read(write(tmp_path, document([row()], total_arrivals=3)))
    (lost,) = [doubt for doubt in run.doubts if "attempted" in doubt.of]
    assert (lost.code, lost.requests) == (Why.LOST_ROWS, 2)


@pytest.mark.parametrize(
    ("took_s", "arrivals", "lost"),
    [(10.0, None, 6), (120.0, None, 0), (10.0, 4, 0), (10.0, 5, 1)],
    ids=["by number", "by time", "all arrived", "one of the arrived"],
)
def test_a_run_that_its_number_of_requests_ended_has_a_row_for_each(
    tmp_path: Path, took_s: float, arrivals: int | None, lost: int
) -> None:
    about = {"max_time_per_run_s": 120, "max_requests_per_run": 10, "cmd": "genai-bench"}
    write(tmp_path, about, "experiment_metadata.json")
    run = read(write(tmp_path, document([row()] * 4, run_duration=took_s, total_arrivals=arrivals)))
    assert sum(doubt.requests or 0 for doubt in run.doubts if doubt.code is Why.LOST_ROWS) == lost


@pytest.mark.parametrize("backend", [None, "aws-bedrock", "oci-cohere", "vllm"])
def test_only_clients_that_send_once_have_an_error_rate(tmp_path: Path, backend: str | None) -> None:
    write(tmp_path, {"api_backend": backend}, "experiment_metadata.json")
    codes = [d.code for d in read(write(tmp_path, document([row()]))).doubts if "error_rate" in d.of]
    assert codes == ([] if backend == "vllm" else [Why.RETRIES_UNKNOWN])


def test_no_row_of_the_warm_up_is_lost(tmp_path: Path) -> None:
    about = {"max_time_per_run_s": 120, "max_requests_per_run": 4, "cmd": "genai-bench --warmup-ratio 0.25"}
    write(tmp_path, about, "experiment_metadata.json")
    run = read(write(tmp_path, document([row()] * 4)))
    assert (run.counts.attempted, run.counts.warmup) == (3, 1)
    assert not any("attempted" in doubt.of for doubt in run.doubts)


@pytest.mark.parametrize("tokens", [0, None])
def test_embeddings_have_no_token_to_complete_with(tmp_path: Path, tokens: int | None) -> None:
    still = row(ttft=0.1, e2e_latency=0.1, tpot=tokens, output_latency=0, num_output_tokens=tokens)
    doc = document([still] * 3, iteration_type="batch_size", batch_size=8, num_concurrency=1)
    run = read(write(tmp_path, doc))
    assert (run.counts.completed, run.counts.failed) == (0, 3)
    tokenless = rows_of(run).tokenless
    assert tokenless is not None
    assert tokenless.all()
    assert (run.load, run.scenario) == (Load(concurrency=1), "D(50,100), batch size 8")


def test_a_request_rate_is_an_open_loop(tmp_path: Path) -> None:
    doc = document([row()], iteration_type="request_rate", request_rate=5.0)
    assert read(write(tmp_path, doc)).load == Load(request_rate=5.0)


# ---- which files --------------------------------------------------------------------------


def test_exactly_its_own_shared_files_are_claimed(shared: Path) -> None:
    claimed = set()
    for root in ("results", "public-results"):
        for path in (shared / root).rglob("*"):
            if path.is_file() and knows(genai_bench, source(path)):
                claimed.add(path)
    expected = set((shared / "results").glob("genai-bench-*/*/exp/*.json"))
    expected |= set((shared / "public-results" / "genai_bench").glob("*.json"))
    assert len(expected) == 12
    assert claimed == expected


def test_the_metadata_is_no_result(shared: Path, tmp_path: Path) -> None:
    public = shared / "public-results" / "genai_bench" / "004_experiment_metadata.json"
    with pytest.raises(InputError, match="holds no request"):
        runs_of(genai_bench, source(public))
    renamed = tmp_path / "about.json"
    shutil.copy(CASES / "typical" / "experiment_metadata.json", renamed)
    about, run = source(renamed), source(run_file("typical"))
    assert knows(genai_bench, about)
    assert list(companions(genai_bench, [about, run])) == [about]
    assert companions(genai_bench, [about]) == {}


def test_a_list_shorter_than_its_counts_contradicts_itself(shared: Path) -> None:
    public = shared / "public-results" / "genai_bench" / "005_mock_run_data.json"
    with pytest.raises(InputError, match="it counts 32 requests, and 2 have a row"):
        runs_of(genai_bench, source(public))


# ---- malformed ----------------------------------------------------------------------------


def test_a_file_cut_short_is_claimed_and_says_so() -> None:
    file = source(run_file("truncated"))
    assert knows(genai_bench, file)
    with pytest.raises(InputError, match="ends in the middle"):
        runs_of(genai_bench, file)


def test_a_file_without_rows_is_an_error() -> None:
    with pytest.raises(InputError, match="holds no requests"):
        read(run_file("empty"))


def test_a_file_cut_anywhere_is_an_input_error(tmp_path: Path) -> None:
    whole = gzip.decompress(run_file("typical").read_bytes()).rstrip()
    for offset in range(1, len(whole), len(whole) // 40):
        path = tmp_path / f"{offset}.json"
        path.write_bytes(whole[:offset])
        with pytest.raises(InputError):
            runs_of(genai_bench, source(path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_requests": 3}, "contradicts itself"),
        ({"num_error_requests": 1}, "contradicts itself"),
        ({"num_requests": "two"}, "num_requests"),
        ({"num_concurrency": 0}, "sends nothing"),
        ({"stats": []}, "stats"),
    ],
)
def test_aggregates_that_cannot_be_are_errors(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(write(tmp_path, document([row(), row()], **changes)))


def test_an_unknown_unit_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='"us" is no time unit'):
        read(write(tmp_path, document([row()]) | {"_time_unit": "us"}))


@pytest.mark.parametrize("key", ["ttft", "e2e_latency", "num_output_tokens", "error_code"])
def test_a_missing_field_is_named(tmp_path: Path, key: str) -> None:
    broken = row()
    del broken[key]
    with pytest.raises(InputError, match=rf"missing required field `{key}`"):
        read(write(tmp_path, document([row(), broken])))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.5, 0, None])
@pytest.mark.parametrize("key", ["ttft", "e2e_latency"])
def test_a_latency_that_is_none_is_a_failure(tmp_path: Path, key: str, value: float | None) -> None:
    run = read(write(tmp_path, document([row(), row(**{key: value})])))
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
    path = write(tmp_path, document([row(**change) for change in changes]), f"{next(_NUMBERS)}.json")
    try:
        run = read(path)
    except InputError:
        return
    assert run.counts.attempted == run.counts.completed + run.counts.failed == len(changes)
