"""What vLLM writes besides results, and files that are broken."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gate.errors import InputError
from gate.model import Requests, Status
from gate.readers import claim, companions, knows, runs_of, vllm
from gate.readers.files import SIDE_FILES
from gate.readers.source import Source
from tests.readers.vllm_results import (
    HERE,
    TYPICAL,
    aggregate,
    detailed,
    read,
    source,
    written,
)

# ---- sweeps and what vLLM writes besides ----------------------------------------------------------


def sweep(folder: Path, *names: str) -> list[Source]:
    for name in names:
        (folder / name).write_bytes((HERE / "sweep" / name).read_bytes())
    return [Source(folder / name, name) for name in names]


def test_a_sweeps_summary_is_not_counted_beside_its_runs(tmp_path: Path) -> None:
    sources = sweep(tmp_path, "run=0.json", "run=1.json", "summary.json", "warmup.json")
    covered = {s.name for s in companions(vllm, sources)}
    assert covered == {"summary.json", "warmup.json"}


def test_a_summary_that_knows_more_runs_is_counted_instead(tmp_path: Path) -> None:
    sources = sweep(tmp_path, "run=1.json", "summary.json")
    assert {s.name for s in companions(vllm, sources)} == {"run=1.json"}


def test_a_summary_alone_is_read_as_aggregate_runs(tmp_path: Path, shared: Path) -> None:
    (summary,) = sweep(tmp_path, "summary.json")
    assert companions(vllm, [summary]) == {}
    assert [run.counts.completed for run in runs_of(vllm, summary)] == [40, 40]
    older = read(shared / "public-results/vllm/004_sweep_summary_list_v0251.json")
    assert [(run.counts.completed, run.format) for run in older] == [(8, "vllm aggregate")] * 2


def test_a_table_of_the_sweep_is_a_companion_of_its_runs_and_no_result(shared: Path) -> None:
    folder = shared / "results/vllm-0.33.0/l_sweep_serve/results/exp1"
    table, run = source(folder / "summary.csv"), source(folder / "BENCH--max_concurrency=2" / "run=0.json")
    assert knows(vllm, table)
    assert set(companions(vllm, [table, run])) == {table}
    assert companions(vllm, [table]) == {}
    with pytest.raises(InputError, match="table of a sweep's runs"):
        runs_of(vllm, table)


def test_a_run_that_failed_does_not_vanish(tmp_path: Path) -> None:
    failed = {"run_number": 1, "error_type": "TimeoutError", "error": "no server", "bench_overrides": {}}
    path = written(tmp_path, failed, "run=1.failure.json")
    with pytest.raises(InputError, match="run 1 of the sweep failed: TimeoutError: no server"):
        read(path)
    (first, again) = sweep(tmp_path, "run=0.json", "run=1.json")
    assert companions(vllm, [source(path), first]) == {}
    (covered,) = companions(vllm, [source(path), first, again]).values()
    assert "repeated" in covered


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            {"model_id": "m", "avg_latency": 1.0, "latencies": [1.0], "percentiles": {"50": 1.0}},
            "bench latency",
        ),
        (
            {
                "elapsed_time": 1.0,
                "num_requests": 8,
                "total_num_tokens": 9,
                "requests_per_second": 8.0,
                "tokens_per_second": 9.0,
            },
            "bench throughput",
        ),
        ([{"benchmark": {"name": "vLLM benchmark"}, "model": {}, "metric": {}}], "dashboard"),
        ({**detailed(), "run_number": -1}, "warm-up"),
    ],
)
def test_other_outputs_of_vllm_are_refused_with_a_sentence(
    tmp_path: Path, content: Any, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        read(written(tmp_path, content))


def test_the_dashboards_copy_is_a_side_file(tmp_path: Path) -> None:
    assert "*.pytorch.json" in SIDE_FILES[vllm.NAME]
    path = written(tmp_path, [{"benchmark": {}, "model": {}, "metric": {}}], "renamed.json")
    assert len(companions(vllm, [source(path)])) == 1


def test_only_vllms_own_files_are_claimed(shared: Path) -> None:
    """Of every file of every tool. MLPerf's trace is no JSON, so nobody can look into it."""
    claimed, unreadable = set(), set()
    for path in sorted(p for root in ("results", "public-results") for p in (shared / root).rglob("*")):
        if path.is_file():
            try:
                if knows(vllm, source(path)):
                    claimed.add(path.relative_to(shared))
            except InputError:
                unreadable.add(path.name)
    assert unreadable <= {"mlperf_log_trace.json"}
    folders = {path.parts[1] for path in claimed}
    assert folders == {"vllm-0.33.0", "vllm-0.7.3", "vllm-0.9.2", "inferencex", "vllm"}
    assert {p.name for p in claimed if p.parts[1] == "inferencex"} == {
        "raw_completions_detailed.json",
        "raw_errors_detailed.json",
    }
    assert not {p.name for p in claimed} & {"018_token_position_seconds.json", "021_serving_log_text.log"}


# ---- broken files ---------------------------------------------------------------------------------


def test_an_empty_file_is_claimed_by_nobody() -> None:
    assert not knows(vllm, source(HERE / "empty" / "result.json"))


def test_a_console_log_holds_no_run(tmp_path: Path) -> None:
    path = written(tmp_path, "===== max-concurrency=32 =====\nMean TTFT (ms): 97.14\n", "serve.log")
    assert not knows(vllm, source(path))
    with pytest.raises(InputError, match="holds no run"):  # as --tool vllm would
        runs_of(vllm, source(path))


def test_a_truncated_file_is_an_input_error() -> None:
    with pytest.raises(InputError, match="ends in the middle"):
        claim(source(HERE / "truncated" / "result.json"))


@pytest.mark.parametrize("share", [0.001, 0.1, 0.3, 0.5, 0.8, 0.95, 0.999])
def test_a_file_cut_anywhere_is_an_input_error(tmp_path: Path, share: float) -> None:
    whole = gzip.decompress(TYPICAL.read_bytes())
    path = tmp_path / "cut.json"
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(InputError):
        claim(source(path))
    with pytest.raises(InputError):
        runs_of(vllm, source(path))  # as --tool vllm would


def test_damaged_gzip_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "cut.json.gz"
    path.write_bytes(TYPICAL.read_bytes()[:20000])
    with pytest.raises(InputError, match="gzip"):
        read(path)


JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [
        ...,
        None,
        True,
        -1,
        0,
        1.5,
        "x",
        "",
        [],
        [None],
        [-1.0] * 4,
        ["x"] * 4,
        [[]] * 4,
        {},
        float("nan"),
        1e308,
    ]
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    base=st.sampled_from([detailed(), detailed(latencies=...), aggregate()]),
    changed=st.dictionaries(
        st.sampled_from([*aggregate(), *detailed(), "queue_times"]), JUNK, min_size=1, max_size=3
    ),
    gaps=st.booleans(),
)
def test_any_field_missing_or_of_another_type_is_an_input_error_or_a_consistent_run(
    tmp_path: Path, base: dict[str, Any], changed: dict[str, Any], gaps: bool
) -> None:
    content = {k: v for k, v in {**base, **changed}.items() if v is not ...}
    opened = source(written(tmp_path, json.dumps(content)), gaps=gaps)
    try:
        if not knows(vllm, opened):
            return
        runs = runs_of(vllm, opened)
    except InputError:
        return
    for run in runs:
        counts = run.counts
        assert counts.attempted == counts.completed + counts.failed
        assert min(counts.attempted, counts.completed, counts.failed) >= 0
        if isinstance(run.evidence, Requests):
            assert len(run.evidence) == counts.attempted
            assert (run.evidence.status == Status.COMPLETED).sum() == counts.completed


@pytest.mark.parametrize(
    "text", [b"\xff\xfe{}", b'{"model_id": "\xff", "num_prompts": 1, "completed": 1}', b"{" * 5000]
)
def test_bytes_that_are_no_text_are_an_input_error_or_unclaimed(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text)
    opened = source(path)
    try:
        claimed = knows(vllm, opened)
    except InputError:
        return
    if claimed:
        with pytest.raises(InputError):
            runs_of(vllm, opened)
