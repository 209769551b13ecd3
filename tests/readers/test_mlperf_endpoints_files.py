"""MLPerf Endpoints: which files are its own and which are one run; what is broken gives a sentence."""

from __future__ import annotations

import gzip
import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gate.errors import InputError
from gate.readers import companions, knows, mlperf_endpoints as reader, runs_of
from tests.readers.mlperf_endpoints_files import (
    CASES,
    EVENTS,
    answer,
    event,
    read,
    session,
    source,
    typical,
    write,
)

# ---- which files ----------------------------------------------------------------------------


def test_the_summary_is_covered_by_its_events() -> None:
    events, summary = (
        source(CASES / "typical" / name) for name in (f"{EVENTS}.gz", "performance/result_summary.json")
    )
    assert list(companions(reader, [summary, events])) == [summary]
    assert companions(reader, [summary]) == {}
    assert companions(reader, [events, source(CASES / "small" / "result_summary.json")]) == {}


def test_a_summary_of_another_run_beside_the_events_is_an_error(tmp_path: Path) -> None:
    shutil.copy(CASES / "typical" / f"{EVENTS}.gz", tmp_path)
    shutil.copy(CASES / "small" / "result_summary.json", tmp_path)
    with pytest.raises(InputError, match="800 samples issued here, 200 there"):
        read(tmp_path / f"{EVENTS}.gz")


def test_side_files_under_other_names_are_claimed_and_are_no_results(shared: Path) -> None:
    folder = shared / "results" / "mlperf-endpoints" / "real_run"
    sides = [folder / "report.txt", folder / "metrics" / "final_snapshot.json"]
    sides.append(shared / "public-results" / "mlperf_endpoints" / "005_stage1_run_metadata.json")
    for side in sides:
        assert knows(reader, source(side))
        with pytest.raises(InputError, match="not a result"):
            runs_of(reader, source(side))
    sources = [source(path) for path in (*sides, folder / EVENTS)]
    assert set(companions(reader, sources)) == set(sources[:-1])


def test_exactly_its_own_shared_files_are_claimed(shared: Path) -> None:
    claimed = set()
    for root in ("results", "public-results"):
        for path in (shared / root).rglob("*"):
            try:
                if path.is_file() and knows(reader, source(path)):
                    claimed.add(path)
            except InputError:
                continue
    results = shared / "results" / "mlperf-endpoints"
    names = ("events.jsonl", "result_summary.json", "report.txt", "final_snapshot.json")
    expected = {path for name in names for path in results.rglob(name)}
    expected |= set((shared / "public-results" / "mlperf_endpoints").iterdir())
    assert len(expected) == 10
    assert claimed == expected


# ---- malformed ------------------------------------------------------------------------------


def test_a_file_cut_short_says_so() -> None:
    events = source(CASES / "truncated" / EVENTS)
    assert knows(reader, events)
    for file in (events, source(CASES / "truncated" / "result_summary.json")):
        with pytest.raises(InputError, match=r"ends in the middle|not a result"):
            runs_of(reader, file)


def test_a_session_without_an_end_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ends before session\.ended"):
        read(write(tmp_path, session(*answer("a"), ended=False), EVENTS))


def test_a_run_without_a_sample_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no sample"):
        read(CASES / "empty" / "result_summary.json")
    with pytest.raises(InputError, match="holds no sample"):
        read(write(tmp_path, session(), EVENTS))
    assert not knows(reader, source(CASES / "empty" / EVENTS))
    with pytest.raises(InputError, match="not a result"):
        runs_of(reader, source(CASES / "empty" / EVENTS))


@pytest.mark.parametrize("name", [EVENTS, "result_summary.json"])
def test_a_file_cut_anywhere_is_an_input_error(tmp_path: Path, name: str) -> None:
    whole = gzip.decompress((CASES / "typical" / f"{EVENTS}.gz").read_bytes())
    if name != EVENTS:
        whole = json.dumps(typical()).encode()
    for number, offset in enumerate(range(1, len(whole) - 20, len(whole) // 25)):
        path = tmp_path / f"{number}_{name}"
        path.write_bytes(whole[:offset])
        with pytest.raises(InputError):
            runs_of(reader, source(path))


@pytest.mark.parametrize(
    "key", ["n_samples_issued", "n_samples_completed", "n_samples_failed", "ttft", "tpot", "latency"]
)
def test_a_summary_without_a_key_is_an_error(tmp_path: Path, key: str) -> None:
    content = typical()
    del content[key]
    with pytest.raises(InputError, match=rf"missing required field `{key}`|not a result"):
        read(write(tmp_path, content))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["n_samples_failed"], -1, r"expected `int` >= 0 - at `\$\.n_samples_failed`"),
        (["n_samples_failed"], 801, "contradicts itself: 800 completed and 801 failed of 800"),
        (["n_samples_completed"], 801, "contradicts itself: 801 completed"),
        (["n_samples_issued"], "many", "expected `int`"),
        (["duration_ns"], -5, "a duration of -5e-09 s"),
        (["ttft", "percentiles", "99.0"], 1, "a higher percentile of TTFT is lower"),
        (["ttft", "percentiles", "99.0"], None, "expected `float`"),
        (["ttft", "percentiles", "P99"], 4e8, "expected `float`"),
        (["ttft", "percentiles", "101"], 6e8, "not between 0 and 100"),
        (["ttft", "min"], -5, "negative time for TTFT"),
        (["ttft", "max"], float("nan"), "without a min, max"),
        (["latency", "histogram", "counts"], [800], "different lengths"),
        (["latency", "histogram", "counts", 0], -1, "expected `int` >= 0"),
        (["latency"], {}, None),
        (["run_config", "load_pattern", "target_qps"], "fast", r"\$\.run_config"),
    ],
)
def test_a_summary_that_cannot_be_is_an_error(
    tmp_path: Path, path: list[str | int], value: Any, message: str | None
) -> None:
    content: Any = typical()
    at = content
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    if message is None:
        assert "states no percentile of E2E" in read(write(tmp_path, content)).doubted["e2e"]
        return
    with pytest.raises(InputError, match=message):
        read(write(tmp_path, content))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([event("sample.complete", 5, "x")], "of a sample never issued"),
        ([*answer("a"), *answer("a")], "issued twice"),
        (['{"event_type":"sample.issued","timestamp_ns":-1,"sample_uuid":"a"}'], "timestamp_ns"),
        (['{"event_type":"sample.issued","timestamp_ns":"1","sample_uuid":"a"}'], "timestamp_ns"),
        (['{"event_type":"sample.issued","sample_uuid":"a"}'], "missing required field `timestamp_ns`"),
        (["[1]"], "line 3"),
    ],
)
def test_events_that_cannot_be_are_an_error(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(write(tmp_path, session(*lines), EVENTS))


def test_a_completion_before_the_issue_is_a_failure(tmp_path: Path) -> None:
    run = read(write(tmp_path, session(*answer("a"), *answer("b", 5, 6)), EVENTS))
    assert (run.counts.completed, run.counts.failed) == (1, 1)


_NUMBERS = itertools.count()
_KINDS = (
    "sample.issued",
    "sample.recv_first",
    "sample.recv_non_first",
    "sample.complete",
    "error.client",
    "session.interrupted",
    "session.stop_performance_tracking",
)
_DATA: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        [],
        ["ErrorData"],
        ["ErrorData", "E", "m"],
        ["TextModelOutput", ""],
        ["TextModelOutput", ["a"]],
        "x",
        1,
    ]
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(_KINDS), st.integers(0, 500), st.sampled_from("abc"), _DATA), max_size=12
    )
)
def test_any_events_give_a_consistent_run_or_an_input_error(
    tmp_path: Path, events: list[tuple[str, int, str, Any]]
) -> None:
    text = session(*answer("z"), *(event(*each) for each in events))
    try:
        run = read(write(tmp_path, text, f"{next(_NUMBERS)}.jsonl"))
    except InputError:
        return
    issued = 1 + sum(kind == "sample.issued" for kind, *_ in events)
    counts = run.counts
    assert counts.attempted == counts.completed + counts.failed
    assert counts.attempted + counts.cancelled + counts.warmup == issued
