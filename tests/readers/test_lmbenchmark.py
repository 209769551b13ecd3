"""LMBenchmark and the InferenceX multi-turn client: columns, units, what their CSVs cannot show."""

from __future__ import annotations

import csv
import gzip
import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gate.errors import InputError
from gate.model import Floats, Load, Requests, Run, Status, Why
from gate.readers import companions, knows, lmbenchmark, runs_of
from gate.readers.source import Source
from tests.conftest import FIXTURES

CASES = FIXTURES / "lmbenchmark"
TYPICAL = CASES / "typical" / "LMBench_sharegpt_output_0.5.csv"
MULTITURN = CASES / "multi-turn" / "metrics_client_metrics.csv"


def source(path: Path) -> Source:
    return Source(path, path.name)


def read(path: Path) -> Run:
    opened = source(path)
    assert knows(lmbenchmark, opened)
    (run,) = runs_of(lmbenchmark, opened)
    return run


def rows_of(run: Run) -> Requests:
    assert isinstance(run.evidence, Requests)
    return run.evidence


def tpot_of(run: Run) -> Floats:
    tpot = rows_of(run).tpot_s
    assert tpot is not None
    return tpot


def columns(path: Path) -> dict[str, Floats]:
    """The CSV by the standard library, as numbers where they are."""
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    return {
        name: np.array([float(one[name]) for one in lines]) for name in lines[0] if name != "conversation_id"
    }


def row(**changes: Any) -> dict[str, Any]:
    """A good row: TTFT 0.5 s, 100 tokens, 0.7 s of decode."""
    base = {
        "prompt_tokens": 50,
        "generation_tokens": 100,
        "ttft": 0.5,
        "generation_time": 0.7,
        "launch_time": 1746154385.0,
        "finish_time": 1746154386.2,
    }
    return {**base, **changes}


def write(folder: Path, rows: list[dict[str, Any]], name: str = "summary.csv") -> Path:
    path = folder / name
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(row()), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


# ---- conformance --------------------------------------------------------------------------


def assert_seconds(path: Path) -> None:
    """TPOT is decode time over tokens after the first; E2E ends where the file's finish_time does."""
    run, said = read(path), columns(path)
    rows, tokens = rows_of(run), said["generation_tokens"]
    several = tokens > 1
    expected = said["generation_time"][several] / (tokens[several] - 1)
    assert tpot_of(run)[several] == pytest.approx(expected, rel=1e-9)
    assert np.isnan(tpot_of(run)[~several]).all()
    assert rows.e2e_s == pytest.approx(said["finish_time"] - said["launch_time"], abs=1e-5)
    assert run.counts.completed == len(tokens)
    assert run.total_output_tokens == tokens.sum()
    assert run.duration_s == pytest.approx(said["finish_time"].max() - said["launch_time"].min())


def assert_milliseconds(path: Path) -> None:
    """Where the first chunk is one token, the tool's TPOT is ours to the last printed digit."""
    run, said = read(path), columns(path)
    rows, first = rows_of(run), said["output_num_first_chunk_tokens"]
    assert rows.ttft_s is not None
    assert rows.e2e_s is not None
    single = first == 1
    # TTFT and E2E are rounded to 1 us each before we divide.
    slack = 1e-6 / (said["output_num_tokens"] - 1) + 0.6e-6
    assert (np.abs(tpot_of(run) - said["tpot_ms"] / 1000)[single] <= slack[single]).all()
    assert rows.e2e_s == pytest.approx(said["latency_ms"] / 1000, rel=1e-12)
    assert rows.ttft_s[single] == pytest.approx(said["ttft_ms"][single] / 1000, rel=1e-12)
    arrival = said["latency_ms"] - (said["output_num_tokens"] - first) * said["tpot_ms"]  # by its TPOT
    assert rows.ttft_s[~single] == pytest.approx(arrival[~single] / 1000, abs=0.5e-3)


def test_the_columns_are_those_of_the_file() -> None:
    assert_seconds(TYPICAL)
    assert_milliseconds(MULTITURN)


def test_public_files_give_their_own_tpot(shared: Path) -> None:
    folder = shared / "public-results" / "lmbench_csv"
    assert_seconds(folder / "001_sharegpt_q05.csv")
    assert_milliseconds(folder / "003_multiturn_detailed.csv")


def test_public_files_are_counted(shared: Path) -> None:
    folder = shared / "public-results" / "lmbench_csv"
    sharegpt = read(folder / "001_sharegpt_q05.csv")
    assert (sharegpt.counts.attempted, sharegpt.date) == (252, "2025-05-02")
    assert any("sent at 0.5 req/s" in note for note in sharegpt.notes)
    multiturn = read(folder / "003_multiturn_detailed.csv")
    assert (multiturn.counts.attempted, multiturn.load) == (5127, None)
    assert any("TTFT of 11 requests is an estimate" in note for note in multiturn.notes)
    assert any(note.startswith("128 clients") for note in multiturn.notes)


# ---- traps --------------------------------------------------------------------------------


def test_tpot_is_7_ms_and_not_12(tmp_path: Path) -> None:
    run = read(write(tmp_path, [row(), row()]))  # generation_time excludes the TTFT: 0.7 / 99
    assert tpot_of(run)[0] == pytest.approx(0.7 / 99, rel=1e-12)
    e2e = rows_of(run).e2e_s
    assert e2e is not None
    assert e2e[0] == pytest.approx(1.2, rel=1e-12)


def test_a_file_without_failures_cannot_show_an_error_rate() -> None:
    for path, rows in ((TYPICAL, 60), (MULTITURN, 40)):
        run = read(path)
        assert f"{rows} rows" in run.doubted["error_rate"]
        assert run.doubted["error_rate"] in run.notes
        assert run.doubt("attempted") is not None, "a failure without a row would be a miss of every bound"
        assert "itl" in run.doubted


def test_answers_without_a_visible_token_are_failures() -> None:
    run = read(CASES / "failures" / "summary.csv")
    assert (run.counts.completed, run.counts.failed) == (17, 3)
    assert run.notes[0].startswith("3 failed: an answer without visible content x2")
    assert np.flatnonzero(rows_of(run).status == Status.FAILED).tolist() == [2, 6, 8]


def test_a_name_that_states_the_rate_is_believed_when_the_launches_agree(tmp_path: Path) -> None:
    assert read(TYPICAL).load == Load(request_rate=0.5)
    assert read(TYPICAL).date == "2025-05-02"
    other = tmp_path / "LMBench_sharegpt_output_2.csv"
    shutil.copy(TYPICAL, other)
    run = read(other)
    assert run.load is None
    assert any("the name says 2 req/s, requests were sent at 0.5 req/s" in note for note in run.notes)


def test_the_tool_of_each_csv_is_named() -> None:
    assert (read(TYPICAL).tool, read(MULTITURN).tool) == ("LMBenchmark", "InferenceX multi-turn client")


def test_the_command_beside_names_clients_and_model(tmp_path: Path) -> None:
    run = read(MULTITURN)
    assert (run.load, run.model) == (Load(concurrency=8), "nvidia/Llama-3.3-70B-Instruct-FP4")
    assert any("up to 3 retries" in note for note in run.notes)
    assert Why.RETRIED in {doubt.code for doubt in run.doubts}
    shutil.copy(MULTITURN, tmp_path)
    assert read(tmp_path / MULTITURN.name).load is None
    (tmp_path / "benchmark_command.txt").write_text("bench.py -p 8 --max-active-conversations 24 -m m\n")
    assert read(tmp_path / MULTITURN.name).load is None  # 24 in flight or 8: the command does not say


def test_a_ttft_the_tool_lowered_is_counted_at_its_arrival() -> None:
    run, said = read(MULTITURN), columns(MULTITURN)
    ttft = rows_of(run).ttft_s
    assert ttft is not None
    assert said["output_num_first_chunk_tokens"][5:7].tolist() == [4, 3]
    # Request 6: TTFT as written plus three TPOT. Request 7 is clamped at 0.1 ms and arrived after 50 ms.
    assert ttft[5] * 1000 == pytest.approx(said["ttft_ms"][5] + 3 * said["tpot_ms"][5], rel=1e-12)
    assert said["ttft_ms"][6] == 0.1
    assert ttft[6] * 1000 == pytest.approx(50.0, abs=1e-3)


def test_answers_in_one_piece_are_not_judged_by_ttft_or_tpot(tmp_path: Path) -> None:
    one = row(ttft=1.1995, generation_time=0.0005)
    run = read(write(tmp_path, [one] * 3))  # BUGS B03
    assert {"ttft", "tpot"} <= run.doubted.keys()
    assert run.counts.completed == 3


@pytest.mark.parametrize("value", ["nan", "inf", -0.5, 0, ""])
@pytest.mark.parametrize("key", ["ttft", "generation_time"])
def test_a_time_that_is_none_is_a_failure(tmp_path: Path, key: str, value: object) -> None:
    run = read(write(tmp_path, [row(), row(**{key: value})]))
    zero_decode = key == "generation_time" and value == 0  # E2E is TTFT then: all at once, but there
    assert (run.counts.completed, run.counts.failed) == ((2, 0) if zero_decode else (1, 1))


# ---- which files --------------------------------------------------------------------------


def test_exactly_its_own_shared_files_are_claimed(shared: Path) -> None:
    claimed = set()
    for root in ("results", "public-results"):
        for path in (shared / root).rglob("*"):
            if path.is_file() and knows(lmbenchmark, source(path)):
                claimed.add(path)
    assert claimed == set((shared / "public-results" / "lmbench_csv").glob("*.csv"))
    assert len(claimed) == 2


def test_each_csv_is_a_run_of_its_own() -> None:
    assert companions(lmbenchmark, [source(TYPICAL), source(MULTITURN)]) == {}


def test_more_columns_compression_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    lines = TYPICAL.read_text().splitlines()
    text = "\n".join([f"{lines[0]},user_id", *(f"{line},7" for line in lines[1:])]) + "\n"
    path = tmp_path / "summary.csv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    assert read(path).counts.completed == 60


# ---- malformed ----------------------------------------------------------------------------


def test_a_file_cut_in_a_line_is_claimed_and_says_so() -> None:
    file = source(CASES / "truncated" / "summary.csv")
    assert knows(lmbenchmark, file)
    with pytest.raises(InputError, match="cut short"):
        runs_of(lmbenchmark, file)


def test_a_header_alone_is_an_error() -> None:
    with pytest.raises(InputError, match="holds no requests"):
        read(CASES / "empty" / "summary.csv")


@pytest.mark.parametrize("name", ["typical", "multi-turn"])
def test_a_file_cut_anywhere_keeps_whole_lines_or_is_an_error(tmp_path: Path, name: str) -> None:
    (original,) = (CASES / name).glob("*.csv")
    whole = original.read_bytes()
    for offset in range(1, len(whole), len(whole) // 60):
        path = tmp_path / f"{offset}.csv"
        path.write_bytes(whole[:offset])
        try:
            (run,) = runs_of(lmbenchmark, source(path))
        except InputError:
            continue
        assert whole[offset - 1 : offset] == b"\n"
        assert run.counts.attempted == whole[:offset].count(b"\n") - 1


@pytest.mark.parametrize("key", list(row()))
def test_a_file_without_one_of_its_columns_is_not_claimed(tmp_path: Path, key: str) -> None:
    path = write(tmp_path, [row()])
    path.write_text(path.read_text().replace(key, "other", 1))
    assert not knows(lmbenchmark, source(path))
    with pytest.raises(InputError, match="has not the columns"):
        runs_of(lmbenchmark, source(path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("50,100,0.5,0.7,1746154385.0\n", "line 3: has 5 columns, the header 6"),
        ("50,100,fast,0.7,1746154385.0,1746154386.2\n", 'line 3, ttft: "fast" is no number'),
        ("50,-3,0.5,0.7,1746154385.0,1746154386.2\n", "a negative token count: -3"),
        ('50,"100,0.5\n', "is not CSV"),
    ],
)
def test_a_line_that_cannot_be_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path, [row()])
    path.write_text(path.read_text() + line)
    with pytest.raises(InputError) as caught:
        read(path)
    assert message in str(caught.value)


_NUMBERS = itertools.count()
_VALUES: st.SearchStrategy[Any] = (
    st.integers(-2, 3) | st.floats() | st.sampled_from(["", "nan", "x", "1e400"])
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.sampled_from(sorted(row())), _VALUES, max_size=3), min_size=1, max_size=4))
def test_any_rows_give_a_consistent_run_or_an_input_error(
    tmp_path: Path, changes: list[dict[str, Any]]
) -> None:
    path = write(tmp_path, [row(**change) for change in changes], f"{next(_NUMBERS)}.csv")
    try:
        run = read(path)
    except InputError:
        return
    assert run.counts.attempted == run.counts.completed + run.counts.failed == len(changes)
