"""llm-load-test: its rows and statistics, the words it uses otherwise, and what it does not count."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gate import readers
from gate.errors import InputError
from gate.model import Counts, Floats, Load, Requests, Run, Status
from gate.readers import knows, llm_load_test, runs_of
from gate.readers.source import Source
from tests.conftest import FIXTURES

CASES = FIXTURES / "llm-load-test"
STREAMED = ["typical/output-004.json", "failures/output-004.json", "rate/output.json", "old/output.json"]


def source(path: Path) -> Source:
    return Source(path, path.name)


def read(path: Path) -> Run:
    opened = source(path)
    assert knows(llm_load_test, opened)
    (run,) = runs_of(llm_load_test, opened)
    return run


def raw(name: str) -> dict[str, Any]:
    return dict(json.loads((CASES / name).read_text(encoding="utf-8")))


def rows_of(run: Run) -> Requests:
    assert isinstance(run.evidence, Requests)
    return run.evidence


def seconds(column: Floats | None) -> list[float]:
    assert column is not None
    return list(column.tolist())


def row(**changes: Any) -> dict[str, Any]:
    """The row of the tool's README: TTFT 428 ms, 128 tokens in 4569 ms."""
    return {
        "user_id": 7,
        "input_id": 3,
        "input_tokens": 940,
        "output_text": "...",
        "output_tokens": 128,
        "output_tokens_before_timeout": 128,
        "start_time": 1708535304.5261629,
        "ack_time": 1708535304.691414,
        "first_token_time": 1708535304.95455,
        "end_time": 1708535309.094971,
        "response_time": 4568.808078765869,
        "tt_ack": 165.2512550354004,
        "ttft": 428.3871650695801,
        "itl": 32.60173947792354,
        "tpot": 35.69381311535835,
        "stop_reason": "length",
        "error_code": None,
        "error_text": None,
        **changes,
    }


def failed(**changes: Any) -> dict[str, Any]:
    """What is left of a request that ended in an error before its answer."""
    none = dict.fromkeys(("response_time", "ttft", "tt_ack", "itl", "tpot", "output_tokens"))
    return row(**none, output_tokens_before_timeout=None, **changes)


def write(folder: Path, *rows: dict[str, Any], **parts: Any) -> Path:
    options = {"load_options": {"type": "constant", "concurrency": 8, "duration": 20}}
    path = folder / "output.json"
    content = {"results": rows, "config": options, "summary": {"total_requests": len(rows)}, **parts}
    path.write_text(json.dumps(content, indent=2))
    return path


# ---- columns ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STREAMED)
def test_clocks_of_the_rows_give_the_columns_in_seconds(name: str) -> None:
    rows, results = rows_of(read(CASES / name)), raw(name)["results"]
    done = np.array([entry["response_time"] is not None for entry in results])
    assert ((rows.status == Status.COMPLETED) == done).all()
    start, first, end = (
        np.array([np.nan if (cell := entry[key]) is None else cell for entry in results], dtype=float)
        for key in ("start_time", "first_token_time", "end_time")
    )
    assert np.array(seconds(rows.ttft_s))[done] == pytest.approx((first - start)[done], abs=1e-6)
    assert np.array(seconds(rows.e2e_s))[done] == pytest.approx((end - start)[done], abs=1e-6)
    assert seconds(rows.start_s) == start.tolist()


def test_the_tools_itl_is_our_tpot_and_its_tpot_contains_the_ttft() -> None:
    run, results = read(CASES / "typical" / "output-004.json"), raw("typical/output-004.json")["results"]
    theirs = [np.nan if entry["itl"] is None else entry["itl"] / 1000 for entry in results]
    assert seconds(rows_of(run).tpot_s) == pytest.approx(theirs, rel=1e-6, nan_ok=True)
    assert np.isnan(theirs).sum() == sum(entry["output_tokens"] == 1 for entry in results) > 0
    assert run.definitions["tpot"].startswith("itl = ")


def test_the_row_of_the_readme_has_a_tpot_of_33_ms(tmp_path: Path) -> None:
    # (4568.81 - 428.39) / 127, which the README, older than itl, calls tpot.
    run = read(write(tmp_path, row()))
    assert seconds(rows_of(run).tpot_s) == pytest.approx([0.03260173947792354])
    assert seconds(rows_of(run).ttft_s) == [0.4283871650695801]
    assert (run.date, run.duration_s) == ("2024-02-21", pytest.approx(4.5688, abs=1e-4))
    assert "before there was an itl" in run.definitions["tpot"]  # no itl in this summary


# ---- what the tool says of its rows -------------------------------------------------------


@pytest.mark.parametrize("name", STREAMED)
def test_its_percentiles_are_reproduced_from_the_requests_it_takes(name: str) -> None:
    run, document = read(CASES / name), raw(name)
    rows = rows_of(run)
    done = rows.status == Status.COMPLETED
    inside = done & np.array(
        [
            e.get("output_tokens_before_timeout", e["output_tokens"]) == e["output_tokens"]
            for e in document["results"]
        ]
    )
    for metric, column, chosen in (
        ("ttft", rows.ttft_s, inside),
        ("tpot", rows.tpot_s, inside),
        ("e2e", rows.e2e_s, done),
    ):
        assert column is not None
        values = column[chosen & np.isfinite(column)]
        for percent, stated in run.tool_reported[metric].percentiles:
            assert stated == pytest.approx(np.percentile(values, percent), rel=1e-6), (metric, percent)
        assert run.tool_reported[metric].mean == pytest.approx(values.mean(), rel=1e-6)


def test_requests_that_end_after_the_duration_count_and_are_told() -> None:
    run, results = read(CASES / "typical" / "output-004.json"), raw("typical/output-004.json")["results"]
    late = sum(entry["output_tokens_before_timeout"] < entry["output_tokens"] for entry in results)
    assert late > 0
    assert run.counts == Counts(len(results), len(results), 0)
    assert any(note.startswith(f"{late} requests ended after the test's duration") for note in run.notes)


def test_every_way_to_fail_is_a_failure_and_the_tool_s_count_is_shown() -> None:
    document = raw("failures/output-004.json")
    run = read(CASES / "failures" / "output-004.json")
    assert run.counts == Counts(53, 47, 6)
    assert document["summary"]["total_failures"] == 5  # without the answer that had no data and no text
    assert any("the tool counts 5 failures, slo-gate 6" in note for note in run.notes)
    assert run.notes[0].startswith("6 failed: HTTPError (status 500) x2")


def test_an_error_object_of_the_server_is_named_by_its_message(tmp_path: Path) -> None:
    path = write(tmp_path, row(), failed(error_code=200, error_text={"message": "CUDA out of memory"}))
    assert read(path).notes[0] == "1 failed: CUDA out of memory (status 200) x1"


def test_a_success_without_a_token_is_a_failure(tmp_path: Path) -> None:
    assert read(write(tmp_path, row(), row(output_tokens=0))).counts == Counts(2, 1, 1)


def test_all_failed_is_no_completed_request_whatever_pandas_writes() -> None:
    assert "NaN" in (CASES / "all-failed" / "output-002.json").read_text()
    run = read(CASES / "all-failed" / "output-002.json")
    assert (run.counts.completed, run.counts.failed > 0, run.tool_reported) == (0, True, {})


# ---- what cannot be judged ----------------------------------------------------------------


def test_a_run_without_streaming_has_an_e2e_alone() -> None:
    run = read(CASES / "non-streaming" / "output-002.json")
    assert run.streaming is False
    assert rows_of(run).ttft_s is None
    assert {"ttft", "tpot", "itl"} == run.doubted.keys()
    assert "streaming: True" in run.doubted["ttft"]


def test_answers_that_came_in_one_piece_are_not_judged_by_ttft(tmp_path: Path) -> None:
    run = read(write(tmp_path, *[row(ttft=4568.0)] * 3))
    assert run.streaming is False
    assert {"ttft", "tpot", "itl"} == run.doubted.keys()


# ---- what stands around the rows ----------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "load"),
    [
        ({"type": "constant", "concurrency": 8}, Load(concurrency=8)),
        ({"type": "rps", "rps": 2.5, "concurrency": 64}, Load(request_rate=2.5, cap=64)),
        ({"concurrency": [1, 2]}, None),
        ({}, None),
    ],
)
def test_the_load_is_what_the_configuration_asks_for(
    options: dict[str, Any], load: Load | None, tmp_path: Path
) -> None:
    assert read(write(tmp_path, row(), config={"load_options": options})).load == load


def test_model_and_day_are_read_and_the_endpoint_s_token_is_not() -> None:
    run = read(CASES / "typical" / "output-004.json")
    assert raw("typical/output-004.json")["config"]["plugin_options"]["authorization"] == "not-a-real-key"
    assert (run.model, run.date, run.tool_version) == ("demo-model", "2025-10-09", None)
    assert "not-a-real-key" not in repr(run)


def test_prompts_are_counted_where_the_file_has_them() -> None:
    old = read(CASES / "old" / "output.json")
    assert old.prompts == len({entry["input_text"] for entry in raw("old/output.json")["results"]})
    assert read(CASES / "typical" / "output-004.json").prompts is None


# ---- which files, and what is refused -----------------------------------------------------


def test_a_gzipped_file_is_the_same_run(tmp_path: Path) -> None:
    path = tmp_path / "output.json.gz"
    path.write_bytes(gzip.compress((CASES / "typical" / "output-004.json").read_bytes()))
    assert read(path).counts == read(CASES / "typical" / "output-004.json").counts


def test_a_file_cut_short_is_its_own_and_refused() -> None:
    with pytest.raises(InputError, match="ends in the middle") as caught:
        readers.read([str(CASES / "truncated" / "output-004.json")])
    assert "output-004.json" in caught.value.where


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"results": []}, "holds no requests"),
        ({"summary": {"total_requests": 2}}, "contradicts itself: it counts 2 requests, and 1 have a row"),
        ({"config": {"load_options": {"type": "rps", "rps": 0}}}, "a rate of 0 req/s sends nothing"),
        ({"config": {"load_options": {"concurrency": 0}}}, "a concurrency of 0 sends nothing"),
        ({"results": [{"user_id": 1, "response_time": 1.0}]}, "missing required field"),
        ({"results": [row(output_tokens=-1)]}, "expected"),
    ],
)
def test_what_cannot_be_true_is_refused(parts: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=why):
        runs_of(llm_load_test, source(write(tmp_path, row(), **parts)))


def test_another_tools_results_are_not_claimed(tmp_path: Path) -> None:
    for document in (
        {"results": [{"id": 1}], "config": {}, "summary": {}},
        # The tool of 2023: other names, and its response_time in seconds.
        {"results": [{"start": 1.0, "end": 2.0, "TTFT": 170.0, "response_time": 1.0, "worker_id": 0}]},
    ):
        path = tmp_path / "other.json"
        path.write_text(json.dumps(document))
        with pytest.raises(InputError, match="no reader knows it"):
            readers.claim(source(path))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(list(row())),
        st.one_of(st.none(), st.floats(), st.integers(-(10**20), 10**20), st.text(max_size=5), st.booleans()),
        max_size=4,
    )
)
def test_no_cell_breaks_the_reader(tmp_path: Path, cells: dict[str, Any]) -> None:
    try:
        run = runs_of(llm_load_test, source(write(tmp_path, row(), row(**cells))))[0]
    except InputError as error:
        assert error.where
        return
    assert run.counts.attempted == 2
