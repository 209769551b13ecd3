"""AIPerf's files: which belong to one run, which contradict each other, which are broken."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gate import readers
from gate.errors import InputError
from gate.model import Aggregate, Load, Run, Why
from gate.readers import aiperf, companions, knows, runs_of
from gate.readers.source import Source
from tests.readers.test_aiperf import HERE, made, read, records, row, rows, said, source


def write(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def covered(folder: Path) -> dict[str, str]:
    sources = [source(path) for path in sorted(folder.rglob("profile_export*"))]
    claimed = [one for one in sources if knows(aiperf, one)]
    assert len(claimed) == len(sources)
    return {
        str(one.path.relative_to(folder)): why for one, why in companions(aiperf, claimed).items() if one.path
    }


# ---- companions -----------------------------------------------------------------------------------


def test_of_a_whole_folder_only_the_records_are_read() -> None:
    assert set(covered(HERE / "warmup")) == {
        "profile_export_aiperf.json",
        "phases/profiling/profile_export_aiperf.json",
        "phases/warmup/profile_export_aiperf.json",
    }
    assert set(covered(HERE / "failures")) == {"profile_export_aiperf.json", "profile_export_aiperf.csv"}


def test_an_aggregate_stands_for_its_csv_where_there_are_no_records(tmp_path: Path) -> None:
    for name in ("profile_export_aiperf.json", "profile_export_aiperf.csv"):
        shutil.copy(HERE / "typical" / name, tmp_path)
    assert set(covered(tmp_path)) == {"profile_export_aiperf.csv"}


@pytest.mark.parametrize("aggregate", ["nightly.json", "nightly_aiperf.json"])
def test_a_prefix_of_the_users_keeps_a_run_together(tmp_path: Path, aggregate: str) -> None:
    shutil.copy(records(HERE / "failures"), tmp_path / "nightly.jsonl.gz")
    shutil.copy(HERE / "failures" / "profile_export_aiperf.json", tmp_path / aggregate)
    run = read(tmp_path / "nightly.jsonl.gz")
    assert run.load == Load(concurrency=6)
    both = [source(path) for path in sorted(tmp_path.iterdir())]
    assert [one.name for one in companions(aiperf, both)] == [aggregate]


def test_two_runs_of_one_job_are_two_runs(tmp_path: Path) -> None:
    for number in ("run_0001", "run_0002"):
        folder = tmp_path / "profile_runs" / number
        folder.mkdir(parents=True)
        shutil.copy(records(HERE / "typical"), folder)
        shutil.copy(HERE / "typical" / "profile_export_aiperf.json", folder)
    several = {"aiperf_version": "0.13.0", "metadata": {"aggregation_type": "confidence"}, "metrics": {}}
    write(tmp_path / "aggregate" / "profile_export_aiperf_aggregate.json", several)
    skipped = covered(tmp_path)
    assert "not a result" in skipped.pop("aggregate/profile_export_aiperf_aggregate.json")
    assert set(skipped) == {f"profile_runs/run_000{n}/profile_export_aiperf.json" for n in (1, 2)}


@pytest.mark.parametrize(
    "document",
    [
        {"timeslices": [{"start_ns": 1}], "input_config": {}},
        {"aiperf_version": "0.13.0", "metadata": {"aggregation_type": "confidence"}},
        {"metadata": {"request_start_ns": 1, "benchmark_phase": "profiling"}, "start_perf_ns": 1},
    ],
)
def test_a_side_file_alone_is_no_result(tmp_path: Path, document: dict[str, Any]) -> None:
    path = write(tmp_path / "renamed.json", document)
    assert knows(aiperf, source(path))
    assert companions(aiperf, [source(path)]) == {}
    with pytest.raises(InputError, match="not a result"):
        runs_of(aiperf, source(path))


def test_the_aggregate_of_the_warmup_is_not_the_measurement() -> None:
    with pytest.raises(InputError, match="10 requests of the warm-up"):
        read(HERE / "warmup" / "phases" / "warmup" / "profile_export_aiperf.json")
    assert (
        read(HERE / "warmup" / "phases" / "profiling" / "profile_export_aiperf.json").counts.attempted == 150
    )


# ---- contradictions -------------------------------------------------------------------------------


def beside(tmp_path: Path, lines: int, **changes: Any) -> Path:
    """The first records of ../failures beside its aggregate, changed."""
    text = gzip.decompress(records(HERE / "failures").read_bytes()).splitlines(keepends=True)
    (tmp_path / "profile_export.jsonl").write_bytes(b"".join(text[:lines]))
    write(tmp_path / "profile_export_aiperf.json", said(HERE / "failures") | changes)
    return tmp_path / "profile_export.jsonl"


def test_records_fewer_than_the_aggregate_counts_are_a_contradiction(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds 129 completed and 20 failed requests.*counts 130 and 20"):
        read(beside(tmp_path, 149))


def test_records_more_than_the_aggregate_counts_are_noted(tmp_path: Path) -> None:
    fewer = {"error_request_count": {"avg": 10.0}, "completed_request_count": {"avg": 140.0}}
    run = read(beside(tmp_path, 150, error_summary=[], **fewer))
    assert run.counts.failed == 20
    assert any("counts 140 of these 150" in note for note in run.notes)


def test_the_aggregate_of_another_run_is_a_contradiction(tmp_path: Path) -> None:
    other = {"request_latency": said(HERE / "typical")["request_latency"]}
    with pytest.raises(InputError, match="mean request latency"):
        read(beside(tmp_path, 150, **other))


def rewritten(path: Path, keep: Callable[[dict[str, Any]], bool], **metadata: Any) -> Path:
    """The records that are kept; the failed ones with other metadata."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line.get("error"):
            line["metadata"] |= metadata
    return made(path, [line for line in lines if keep(line)])


def good(line: dict[str, Any]) -> bool:
    return not line.get("error")


FAILED_AND_SAID = [  # ../failures: 130 completed, 20 failed, each of which one statement alone tells
    ("error_request_count", {"unit": "requests", "avg": 20.0}),
    ("completed_request_count", {"unit": "requests", "avg": 150.0}),
    ("error_summary", said(HERE / "failures")["error_summary"]),
    ("request_error_rate", {"unit": "%", "avg": 100 * 20 / 150}),
]


@pytest.mark.parametrize(("key", "value"), FAILED_AND_SAID)
def test_failed_rows_taken_away_are_missed_by_any_statement_of_the_aggregate(
    tmp_path: Path, key: str, value: object
) -> None:
    silent: dict[str, Any] = dict.fromkeys((name for name, _ in FAILED_AND_SAID), None)
    path = rewritten(beside(tmp_path, 150, **(silent | {key: value})), good)
    with pytest.raises(
        InputError, match=r"holds 130 completed and 0 failed requests.*counts 130 and 20"
    ) as caught:
        read(path)
    assert caught.value.hint == "copy both files of one run whole, or take the other one away"


def test_records_of_a_clean_run_beside_the_aggregate_of_one_with_failures_are_a_contradiction(
    tmp_path: Path,
) -> None:
    shutil.copy(records(HERE / "typical"), tmp_path / "profile_export.jsonl.gz")  # 150 completed
    write(tmp_path / "profile_export_aiperf.json", said(HERE / "failures"))  # 130 and 20 failed
    with pytest.raises(InputError, match=r"holds 150 completed and 0 failed requests.*counts 130 and 20"):
        read(tmp_path / "profile_export.jsonl.gz")


def test_records_with_failures_beside_the_aggregate_of_a_clean_run_are_a_contradiction(
    tmp_path: Path,
) -> None:
    shutil.copy(records(HERE / "failures"), tmp_path / "profile_export.jsonl.gz")
    write(tmp_path / "profile_export_aiperf.json", said(HERE / "typical"))
    with pytest.raises(InputError, match=r"holds 130 completed and 20 failed requests.*counts 150 and 20"):
        read(tmp_path / "profile_export.jsonl.gz")


def test_failures_that_the_aggregate_lists_are_not_cancelled_requests(tmp_path: Path) -> None:
    path = rewritten(beside(tmp_path, 150), lambda _: True, was_cancelled=True)
    with pytest.raises(InputError, match=r"holds 130 completed and 0 failed requests.*counts 130 and 20"):
        read(path)


def test_errors_that_are_only_counted_and_here_only_cancelled_leave_a_doubt(tmp_path: Path) -> None:
    path = rewritten(beside(tmp_path, 150, error_summary=[]), lambda _: True, was_cancelled=True)
    run = read(path)
    assert (run.counts.completed, run.counts.failed, run.counts.cancelled) == (130, 0, 20)
    assert "20 errors that profile_export_aiperf.json counts are here only as" in run.doubted["attempted"]


def test_failures_hidden_in_one_of_several_phases_are_missed(tmp_path: Path) -> None:
    lines = [row(phase_index=0), row(phase_index=1), row(phase_index=1)]
    path = made(tmp_path / "x.jsonl", lines)
    counts = {"request_count": {"unit": "requests", "avg": 2.0}, "error_request_count": {"avg": 1.0}}
    write(tmp_path / "x.json", {"aiperf_version": "0.13.0", "input_config": {}} | counts)
    with pytest.raises(InputError, match=r"holds 3 completed and 0 failed requests.*counts 2 and 1"):
        runs_of(aiperf, source(path))


def test_a_request_cut_off_without_an_error_may_be_counted_as_completed_or_not(tmp_path: Path) -> None:
    path = made(tmp_path / "x.jsonl", [row(), row(), row(was_cancelled=True)])
    for count in (2.0, 3.0):
        told = {"aiperf_version": "0.13.0", "input_config": {}, "request_count": {"avg": count}}
        write(tmp_path / "x.json", told)
        counts = read(path).counts
        assert (counts.completed, counts.failed, counts.cancelled) == (2, 0, 1)
    write(tmp_path / "x.json", told | {"request_count": {"avg": 1.0}})
    with pytest.raises(InputError, match=r"holds 2 completed and 0 failed requests.*counts 1 and 0"):
        read(path)


def test_requests_that_were_asked_for_and_are_missing_are_noted(tmp_path: Path) -> None:
    config = said(HERE / "failures")["input_config"]
    config["phases"][0]["requests"] = 160
    run = read(beside(tmp_path, 150, input_config=config, is_complete=False, incomplete_reason="killed"))
    alone = read(tmp_path / "profile_export_aiperf.json")
    for each in (run, alone):
        lost = {doubt.code: doubt.requests for doubt in each.doubts}
        assert lost[Why.LOST_ROWS] == 10
        assert "160 requests were asked for and 150 are in the file" in each.doubted["attempted"]
        assert "not complete: killed" in each.doubted["e2e"]
    assert "attempted" not in read(records(HERE / "failures")).doubted


def test_counts_that_do_not_add_up_are_a_contradiction(tmp_path: Path) -> None:
    told = said(HERE / "failures") | {"completed_request_count": {"unit": "requests", "avg": 151.0}}
    with pytest.raises(InputError, match="contradicts itself"):
        read(write(tmp_path / "a.json", told))


def test_percentiles_that_do_not_ascend_are_a_contradiction(tmp_path: Path) -> None:
    told = said(HERE / "failures")
    told["time_to_first_token"]["p90"] = 1.0
    with pytest.raises(InputError, match="a higher percentile of TTFT is lower"):
        read(write(tmp_path / "a.json", told))


# ---- aggregates -----------------------------------------------------------------------------------


def test_an_absent_error_count_is_none_and_a_listed_error_is_one(tmp_path: Path) -> None:
    told = said(HERE / "failures")
    assert "error_request_count" not in said(HERE / "typical")
    del told["error_request_count"], told["completed_request_count"]
    run = read(write(tmp_path / "a.json", told))
    assert (run.counts.completed, run.counts.failed) == (130, 20)
    assert any("error_summary lists 20" in note for note in run.notes)


def test_adjusted_percentiles_dropped_for_errors_change_nothing() -> None:
    told = said(HERE / "failures")
    assert "p90" not in told["adj_request_latency"]  # infinite, so AIPerf leaves it out
    run = read(HERE / "failures" / "profile_export_aiperf.json")
    assert isinstance(run.evidence, Aggregate)
    assert dict(run.evidence.summaries["e2e"].percentiles)[90] == told["request_latency"]["p90"] / 1e3


def test_an_aggregate_of_failures_alone_has_no_completed_request(tmp_path: Path) -> None:
    told = {
        "aiperf_version": "0.13.0",
        "error_request_count": {"unit": "requests", "avg": 32.0},
        "error_summary": [{"error_details": {"type": "ValueError"}, "count": 32}],
    }
    run = read(write(tmp_path / "a.json", told))
    assert (run.counts.attempted, run.counts.completed, run.counts.failed) == (32, 0, 32)
    assert run.doubted == {}


def test_settings_of_an_unknown_shape_cost_the_load_and_not_the_result(tmp_path: Path) -> None:
    run = read(write(tmp_path / "a.json", said(HERE / "failures") | {"input_config": {"phases": "many"}}))
    assert run.load is None
    assert run.counts.attempted == 150
    assert any("model and load are not stated" in note for note in run.notes)


def test_each_measured_phase_is_a_run_of_its_own(tmp_path: Path) -> None:
    lines = [
        row(benchmark_phase="warmup", phase_index=0),
        *[row(phase_index=1, inter_chunk_latency={"value": [1.0], "unit": "ms"})] * 2,
        *[row(phase_index=2, inter_chunk_latency={"value": [2.0, 3.0], "unit": "ms"})] * 3,
    ]
    path = made(tmp_path / "x.jsonl", lines)
    phases = [{"kind": "warmup", "rate": 1.0}, {"concurrency": 4}, {"rate": 8.0, "concurrency": 64}]
    write(tmp_path / "x.json", {"aiperf_version": "0.13.0", "input_config": {"phases": phases}})
    first, second = runs_of(aiperf, source(path, gaps=True))
    assert (first.load, second.load) == (Load(concurrency=4), Load(request_rate=8.0, cap=64))
    assert (first.counts.attempted, first.counts.warmup, second.counts.attempted) == (2, 1, 3)
    assert rows(second).gaps is not None
    assert rows(second).gaps.values_s.tolist() == [0.002, 0.003] * 3
    assert first.duration_s == pytest.approx(1.09)


def two_phases(path: Path) -> Path:
    lines = [row(phase_index=0, phase_name="profiling")] * 3
    return made(path, [*lines, row(phase_index=1, phase_name="c64"), row(phase_index=1, phase_name="c64")])


def test_phases_whose_loads_are_unknown_are_runs_that_nothing_tells_apart(tmp_path: Path) -> None:
    runs = runs_of(aiperf, source(two_phases(tmp_path / "x.jsonl")))
    assert [(run.scenario, run.counts.attempted, run.load) for run in runs] == [
        ("profiling", 3, None),
        ("c64", 2, None),
    ]
    for run in runs:
        assert run.doubts[0].code is Why.SEVERAL_LOADS
        assert {"ttft", "error_rate"} <= set(run.doubts[0].of)


def test_a_phase_has_the_load_of_its_name_and_the_verdict_of_the_run(tmp_path: Path) -> None:
    path = two_phases(tmp_path / "x.jsonl")
    phases = [
        {"name": "warmup", "kind": "warmup", "type": "concurrency", "concurrency": 2, "requests": 5},
        {"name": "c64", "kind": "profiling", "type": "concurrency", "concurrency": 64, "requests": 2},
        {"name": "profiling", "kind": "profiling", "type": "poisson", "rate": 3.0, "requests": 4},
    ]
    told = {"aiperf_version": "0.13.0", "is_complete": False, "input_config": {"phases": phases}}
    write(tmp_path / "x_aiperf.json", told)
    first, second = runs_of(aiperf, source(path))
    assert (first.load, second.load) == (Load(request_rate=3.0), Load(concurrency=64))
    assert [doubt.requests for doubt in first.doubts if doubt.code is Why.LOST_ROWS] == [1]
    assert Why.LOST_ROWS not in {doubt.code for doubt in second.doubts}
    for run in (first, second):
        assert Why.TOOL_SAYS_INVALID in {doubt.code for doubt in run.doubts}
        assert Why.SEVERAL_LOADS not in {doubt.code for doubt in run.doubts}


def test_a_measured_phase_without_a_row_is_missed(tmp_path: Path) -> None:
    path = made(tmp_path / "x.jsonl", [row(phase_index=0, phase_name="c8")])
    phases = [{"name": name, "kind": "profiling", "concurrency": 8, "requests": 1} for name in ("c8", "c64")]
    write(tmp_path / "x.json", {"aiperf_version": "0.13.0", "input_config": {"phases": phases}})
    (run,) = runs_of(aiperf, source(path))
    assert [doubt.code for doubt in run.doubts if "attempted" in doubt.of] == [Why.LOST_ROWS]
    assert "c64" in run.doubted["attempted"]


def test_an_aggregate_over_several_measured_phases_is_judged_by_nothing(tmp_path: Path) -> None:
    config = said(HERE / "failures")["input_config"]
    config["phases"].append(config["phases"][0] | {"name": "c64", "concurrency": 64})
    run = read(write(tmp_path / "a.json", said(HERE / "failures") | {"input_config": config}))
    assert run.load is None
    assert {"ttft", "e2e", "error_rate"} <= set(run.doubted)
    copy = read(
        write(tmp_path / "phases" / "c64" / "a.json", said(HERE / "failures") | {"input_config": config})
    )
    assert copy.load == Load(concurrency=64)
    assert Why.SEVERAL_LOADS not in {doubt.code for doubt in copy.doubts}


@pytest.mark.parametrize(
    ("verdict", "because"),
    [
        ({"is_complete": False, "incomplete_reason": "record stall"}, "it is not complete: record stall"),
        ({"is_complete": None, "incomplete_reason": "record stall"}, "it is not complete: record stall"),
        ({"was_cancelled": True}, "it was cancelled"),
        ({"was_cancelled": "yes"}, "it was cancelled"),
        (
            {"metadata": {"submission_valid": False, "submission_invalid_reasons": ["unsafe_override"]}},
            "unsafe",
        ),
    ],
)
def test_a_run_that_aiperf_itself_rejects_is_judged_by_nothing(
    tmp_path: Path, verdict: dict[str, Any], because: str
) -> None:
    path = beside(tmp_path, 150, **verdict)
    for run in (read(path), read(tmp_path / "profile_export_aiperf.json")):
        (doubt,) = [doubt for doubt in run.doubts if doubt.code is Why.TOOL_SAYS_INVALID]
        assert because in doubt.why
        assert {"ttft", "tpot", "e2e", "error_rate"} <= set(doubt.of)
    fair = {"was_cancelled": False, "is_complete": True, "metadata": {"submission_valid": True}}
    assert Why.TOOL_SAYS_INVALID not in {doubt.code for doubt in read(beside(tmp_path, 150, **fair)).doubts}


def test_an_aggregate_that_says_nothing_of_failures_passes_no_error_rate(tmp_path: Path) -> None:
    silent = {name: None for name, _ in FAILED_AND_SAID}
    run = read(write(tmp_path / "a.json", said(HERE / "typical") | silent))
    assert Why.COUNTS_UNKNOWN in {doubt.code for doubt in run.doubts if "error_rate" in doubt.of}
    assert Why.COUNTS_UNKNOWN not in {
        doubt.code for doubt in read(HERE / "typical" / "profile_export_aiperf.json").doubts
    }


def test_requests_that_no_count_holds_are_doubted(tmp_path: Path) -> None:
    skipped = {"skipped_context_overflow_count": {"unit": "requests", "avg": 7.0}}
    path = beside(tmp_path, 150, **skipped)
    for run in (read(path), read(tmp_path / "profile_export_aiperf.json")):
        assert [d.requests for d in run.doubts if d.code is Why.FAILURES_HIDDEN] == [7]


def test_the_day_is_that_of_the_clock_or_of_the_start(tmp_path: Path) -> None:
    assert read(records(HERE / "typical")).date == "2026-11-29"
    assert read(HERE / "typical" / "profile_export_aiperf.json").date == "2026-11-29"
    assert read(made(tmp_path / "a.jsonl", [row()])).date == "2026-11-29"  # 1795960774 s
    assert read(HERE / "typical" / "profile_export_aiperf.csv").date is None


def test_the_duration_of_a_csv_is_the_one_it_states() -> None:
    assert read(HERE / "typical" / "profile_export_aiperf.csv").duration_s == 14.41  # 150 / 10.40 is 14.423
    assert read(HERE / "failures" / "profile_export_aiperf.csv").duration_s == 10.10


def test_an_endpoint_without_tokens_completes_nothing_until_the_policy_says_so(tmp_path: Path) -> None:
    bare = row()
    for tag in ("time_to_first_token", "output_sequence_length"):
        del bare["metrics"][tag]
    run = read(made(tmp_path / "a.jsonl", [bare] * 5))
    assert (run.counts.completed, run.counts.failed) == (0, 5)
    assert rows(run).tokenless is not None
    assert rows(run).tokenless.all()


@pytest.mark.parametrize(
    "name",
    [
        *("outputs.json", "accuracy_export.jsonl", "profile_export_network_latency.jsonl"),
        *("search_history.json", "profile_export_aiperf_sweep.json", "profile_export_aiperf_sweep.csv"),
        *("sweep_manifest.json", "mlflow_export.json", "profile_export_aiperf_collated.json"),
    ],
)
def test_what_lies_beside_the_records_is_named_and_skipped(tmp_path: Path, name: str) -> None:
    made(tmp_path / "profile_export.jsonl", [row()] * 3)
    (tmp_path / name).write_text('{"data": [{"session_num": 0}]}\n')
    reading = readers.read([str(tmp_path)])
    assert [run.counts.attempted for run in reading.runs] == [3]
    assert any(name in note and "not a result" in note for note in reading.notes)


# ---- public files ---------------------------------------------------------------------------------


def public(shared: Path, name: str) -> Run:
    (path,) = (shared / "public-results" / "aiperf").glob(f"{name}_*")
    return read(path)


@pytest.mark.parametrize(
    ("name", "completed", "failed", "cancelled", "warmup"),
    [
        ("001", 89, 0, 11, 0),  # credit_phase, timestamp_ns, ttft; deliberate cancellations
        ("003", 89, 11, 0, 0),  # its CSV, which cannot tell a cancellation from an error
        ("004", 10, 0, 0, 0),
        ("006", 0, 32, 0, 0),
        ("010", 195, 0, 0, 1),
        ("011", 25, 16, 0, 0),
    ],
)
def test_public_files_are_counted_right(
    shared: Path, name: str, completed: int, failed: int, cancelled: int, warmup: int
) -> None:
    counts = public(shared, name).counts
    assert (counts.completed, counts.failed) == (completed, failed)
    assert (counts.cancelled, counts.warmup) == (cancelled, warmup)


def test_all_failed_names_what_they_failed_with(shared: Path) -> None:
    notes = public(shared, "006").notes
    assert "32 failed: ClientConnectorError x25, ValueError x6, Internal Server Error (500) x1" in notes


def test_reasoning_is_output(shared: Path) -> None:
    assert public(shared, "001").total_output_tokens == 21624  # total_osl of its aggregate
    assert public(shared, "003").total_output_tokens == 21624  # and not total_output_tokens, 1832


def test_the_window_before_0_12_is_the_benchmark_duration(shared: Path) -> None:
    run = public(shared, "011")
    assert run.doubts[0].code is Why.TOOL_SAYS_INVALID
    assert run.duration_s == pytest.approx(59.963439104, rel=1e-9)  # end_time - start_time is 363 s
    assert run.load == Load(concurrency=16)


def test_time_slices_are_not_mistaken_for_the_summary(shared: Path) -> None:
    with pytest.raises(InputError, match="time slices"):
        public(shared, "013")


def test_only_its_own_files_are_claimed(shared: Path) -> None:
    for path in sorted([*(shared / "results").rglob("*"), *(shared / "public-results").rglob("*")]):
        if not path.is_file() or path.suffix in (".md", ".tsv"):
            continue
        ours = path.name.startswith("profile_export") and "aiperf-0.13.0" in path.parts
        ours |= "public-results" in path.parts and path.parent.name == "aiperf"
        try:
            assert knows(aiperf, source(path)) == ours, path
        except InputError:
            assert not ours, path


# ---- broken files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["empty", "truncated"])
def test_an_empty_or_truncated_file_is_an_input_error(case: str) -> None:
    path = HERE / case / "profile_export.jsonl"
    with pytest.raises(InputError) as caught:
        read(path)
    assert caught.value.where.startswith("profile_export.jsonl")


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("metadata", "request_start_ns"), "yesterday", "line 1: expected `int"),
        (("metadata", "request_start_ns"), -5, "line 1: expected `int` >= 0"),
        (("metadata", "request_start_ns"), 2**64, "line 1:"),
        (("metadata", "benchmark_phase"), "cooldown", "line 1: invalid enum value 'cooldown'"),
        (("metrics", "output_sequence_length"), {"value": -3, "unit": "tokens"}, ">= 0"),
        (("metrics", "request_latency"), {"value": "slow", "unit": "ms"}, "invalid enum value 'slow'"),
        (("metrics", "request_latency"), 5, "expected `object"),
        (("metrics",), None, "expected `object`"),
        (("error",), "boom", "expected `object"),
    ],
)
def test_a_field_of_the_wrong_type_is_named(
    tmp_path: Path, where: tuple[str, ...], value: object, message: str
) -> None:
    line = row()
    parent = line
    for key in where[:-1]:
        parent = parent[key]
    parent[where[-1]] = value
    with pytest.raises(InputError) as caught:
        runs_of(aiperf, source(made(tmp_path / "a.jsonl", [line, row()])))
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["profile_export.jsonl", "profile_export_aiperf.json"])
def test_a_file_without_one_of_its_keys_is_refused_or_read_consistently(tmp_path: Path, name: str) -> None:
    if name.endswith("l"):
        whole = [json.loads(line) for line in (HERE / "old" / name).read_text().splitlines()[:8]]
        keys = [(part, key) for part in ("metadata", "metrics") for key in whole[-1][part]]
        for part, key in keys:
            changed = [{**line, part: {k: v for k, v in line[part].items() if k != key}} for line in whole]
            consistent(made(tmp_path / "a.jsonl", changed))
        return
    told = said(HERE / "failures")
    for key in told:
        consistent(write(tmp_path / "a.json", {k: v for k, v in told.items() if k != key}))


def consistent(path: Path) -> None:
    """Reads, or raises InputError with a sentence and the file's name."""
    one = Source(path, path.name, gaps=True)
    refusal: InputError | None = None
    runs: Sequence[Run] = []
    try:
        runs = runs_of(aiperf, one) if knows(aiperf, one) else []
    except InputError as error:
        refusal = error
    assert refusal is None or (refusal.message and refusal.where.startswith(path.name))
    for run in runs:
        counts = run.counts
        assert counts.attempted == counts.completed + counts.failed
        assert min(counts.completed, counts.failed, counts.cancelled, counts.warmup) >= 0


@pytest.mark.parametrize(
    "name", ["profile_export.jsonl.gz", "profile_export_aiperf.json", "profile_export_aiperf.csv"]
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.floats(0, 1), damage=st.binary(max_size=3))
def test_a_file_cut_or_damaged_anywhere_never_crashes(
    tmp_path: Path, name: str, cut: float, damage: bytes
) -> None:
    data = (HERE / "failures" / name).read_bytes()
    if name.endswith(".gz"):
        data = gzip.decompress(data)[:20000]
    at = int(cut * len(data))
    path = tmp_path / name.removesuffix(".gz")
    path.write_bytes(data[:at])
    consistent(path)
    path.write_bytes(data[:at] + damage + data[at + len(damage) :])
    consistent(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["value", "unit", "avg"]), inner)
    ),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.sampled_from(sorted(said(HERE / "failures"))), value=JSON)
def test_an_aggregate_with_any_value_anywhere_never_crashes(tmp_path: Path, key: str, value: object) -> None:
    consistent(write(tmp_path / "a.json", said(HERE / "failures") | {key: value}))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), value=JSON)
def test_a_record_with_any_value_anywhere_never_crashes(
    tmp_path: Path, data: st.DataObject, value: object
) -> None:
    line = row(inter_chunk_latency={"value": [1.0, 2.0], "unit": "ms"}, request_end_ns=1, credit_issued_ns=1)
    part = data.draw(st.sampled_from(["metadata", "metrics"]))
    line[part][data.draw(st.sampled_from(sorted(line[part])))] = value
    consistent(made(tmp_path / "a.jsonl", [line, row()]))
