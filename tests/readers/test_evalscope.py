"""evalscope: our columns give its own aggregates, its traps stay traps, nothing malformed gets through."""

from __future__ import annotations

import gzip
import itertools
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gate.errors import InputError
from gate.model import Aggregate, Load, Requests, Run, Status, Why
from gate.readers import companions, evalscope, knows, runs_of
from gate.readers.source import Source
from tests.conftest import FIXTURES

CASES = FIXTURES / "evalscope"
TYPICAL = CASES / "typical" / "parallel_2_number_30"
FAILURES = CASES / "failures" / "parallel_6_number_150"
OLD = CASES / "old"
COLUMNS = (
    "request TEXT, start_time REAL, inter_token_latencies TEXT, success INTEGER, response_messages TEXT,"
    " completed_time REAL, latency REAL, first_chunk_latency REAL, prompt_tokens INTEGER,"
    " completion_tokens INTEGER, time_per_output_token REAL, is_stream INTEGER"
)


def source(path: Path, *, gaps: bool = False) -> Source:
    return Source(path, path.name, gaps=gaps)


def database(folder: Path) -> Path:
    (path,) = folder.glob("benchmark_data.db*")
    return path


def read(path: Path, *, gaps: bool = False) -> Run:
    opened = source(path, gaps=gaps)
    assert knows(evalscope, opened)
    (run,) = runs_of(evalscope, opened)
    return run


def rows_of(run: Run) -> Requests:
    assert isinstance(run.evidence, Requests)
    return run.evidence


def aggregate_of(run: Run) -> Aggregate:
    assert isinstance(run.evidence, Aggregate)
    return run.evidence


def said(folder: Path, name: str = "summary") -> Any:
    return json.loads((folder / f"benchmark_{name}.json").read_text(encoding="utf-8"))


def row(**changes: Any) -> dict[str, Any]:
    """A good row: TTFT 0.5 s, 100 tokens, 0.7 s of decode."""
    base = {
        "request": "{}",
        "start_time": 10.0,
        "inter_token_latencies": "[0.35, 0.35]",
        "success": 1,
        "response_messages": "",
        "completed_time": 11.2,
        "latency": 1.2,
        "first_chunk_latency": 0.5,
        "prompt_tokens": 50,
        "completion_tokens": 100,
        "time_per_output_token": 0.7 / 99,
        "is_stream": 1,
    }
    return {**base, **changes}


NONE = dict.fromkeys(("latency", "first_chunk_latency", "prompt_tokens", "completion_tokens"))
FAILED = row(success=0, inter_token_latencies="[0.1]", **NONE)


def write(folder: Path, rows: list[dict[str, Any]], name: str = "benchmark_data.db") -> Path:
    path = folder / name
    with sqlite3.connect(path) as made:
        made.execute(f"CREATE TABLE result({COLUMNS})")
        for one in rows:
            marks = ", ".join("?" * len(one))
            made.execute(f"INSERT INTO result({', '.join(one)}) VALUES ({marks})", list(one.values()))
    made.close()
    return path


def args(folder: Path, **said: Any) -> None:
    base = dict.fromkeys(("tokenizer_path", "outputs_dir", "dataset", "api")) | {"parallel": 4, "number": 2}
    (folder / "benchmark_args.json").write_text(json.dumps(base | said), encoding="utf-8")


def assert_reproduces(path: Path, *, gaps_hold: bool = True) -> None:
    """Counts, means, throughputs, and every percentile by nearest rank, to the last printed digit."""
    run, folder = read(path, gaps=True), path.parent
    summary, rows = said(folder), rows_of(run)
    done = rows.status == Status.COMPLETED
    assert run.counts.attempted == summary["Total Requests"]
    assert run.counts.completed == summary["Success Requests"] == done.sum()
    assert run.counts.failed == summary["Failed Requests"]
    assert run.duration_s is not None
    assert run.duration_s == pytest.approx(summary["Test Duration (s)"], abs=0.5e-4)
    assert run.total_output_tokens is not None
    assert rows.gaps is not None
    rate = run.total_output_tokens / run.duration_s
    assert rate == pytest.approx(summary["Output Throughput (tok/s)"], abs=0.5e-4)
    assert done.sum() / run.duration_s == pytest.approx(summary["Req Throughput (req/s)"], abs=0.5e-4)
    owner = np.repeat(done, np.diff(rows.gaps.offsets))
    columns = {
        "TTFT (ms)": (rows.ttft_s, 1000),
        "TPOT (ms)": (rows.tpot_s, 1000),
        "Latency (s)": (rows.e2e_s, 1),
        "Output tokens": (rows.output_tokens, 1),
        "Input tokens": (rows.input_tokens, 1),
    }
    values = {name: column[done] * scale for name, (column, scale) in columns.items() if column is not None}
    assert len(values) == 5
    if gaps_hold:
        values["ITL (ms)"] = rows.gaps.values_s[owner] * 1000
    for name in ("TTFT", "TPOT"):
        assert values[f"{name} (ms)"].mean() == pytest.approx(summary[f"Avg {name} (ms)"], abs=0.5001e-2)
    assert values["Latency (s)"].mean() == pytest.approx(summary["Avg Latency (s)"], abs=0.5001e-4)
    for line in said(folder, "percentile"):
        at = {"min": 0.0, "max": 100.0}.get(line["Percentiles"])
        percent = float(line["Percentiles"].rstrip("%")) if at is None else at
        for name, column in values.items():
            nearest = float(np.percentile(column, percent, method="inverted_cdf"))
            assert nearest == pytest.approx(line[name], abs=0.5001e-4), (line["Percentiles"], name)


# ---- conformance --------------------------------------------------------------------------


def test_the_rows_give_the_tools_own_aggregates() -> None:
    assert_reproduces(database(TYPICAL))
    assert_reproduces(database(FAILURES), gaps_hold=False)


def test_every_shared_database_gives_its_own_aggregates(shared: Path) -> None:
    paths = sorted((shared / "results").glob("evalscope-*/**/benchmark_data.db"))
    assert len(paths) == 4
    for path in paths:
        assert_reproduces(path)


def test_rows_of_the_old_version_give_its_own_aggregates() -> None:
    run, summary = read(database(OLD), gaps=True), said(OLD)
    rows = rows_of(run)
    assert (run.counts.completed, run.load) == (summary["Succeed requests"], Load(concurrency=2))
    assert run.date == "2025-08-01"
    assert rows.ttft_s is not None
    assert rows.gaps is not None
    assert rows.ttft_s.mean() == pytest.approx(summary["Average time to first token (s)"], abs=0.5e-4)
    gaps = np.sort(rows.gaps.values_s)  # from chunk_times
    assert gaps.mean() == pytest.approx(summary["Average inter-token latency (s)"], abs=0.5e-4)
    for line in said(OLD, "percentile"):
        index = int(len(gaps) * float(line["Percentiles"].rstrip("%")) / 100)  # its own rule
        assert gaps[index] == pytest.approx(line["ITL (s)"], abs=0.5001e-4)


def test_a_summary_alone_gives_seconds_from_its_mixed_units() -> None:
    run = read(TYPICAL / "benchmark_summary.json")
    lines = {line["Percentiles"]: line for line in said(TYPICAL, "percentile")}
    evidence = aggregate_of(run)
    assert (evidence.method, evidence.rounding_s) == ("inverted_cdf", 0.5e-4)
    assert "benchmark_data.db" in evidence.settled_by
    for metric, name, scale in (("ttft", "TTFT (ms)", 1e-3), ("e2e", "Latency (s)", 1.0)):
        summary = evidence.summaries[metric]
        assert dict(summary.percentiles)[99.0] == pytest.approx(lines["99%"][name] * scale, rel=1e-12)
        assert summary.max == pytest.approx(lines["max"][name] * scale, rel=1e-12)
        assert summary.min == pytest.approx(lines["min"][name] * scale, rel=1e-12)
        assert summary.n == 30
    assert evidence.summaries["ttft"].mean == pytest.approx(said(TYPICAL)["Avg TTFT (ms)"] / 1000)
    assert (run.counts.attempted, run.load, run.model) == (30, Load(concurrency=2), "mock-model")
    assert run.total_output_tokens == rows_of(read(database(TYPICAL))).output_tokens.sum()  # type: ignore[union-attr]


def test_percentiles_alone_take_their_counts_from_the_summary_beside() -> None:
    by_percentiles = read(FAILURES / "benchmark_percentile.json")
    by_summary = read(FAILURES / "benchmark_summary.json")
    assert by_percentiles.counts == by_summary.counts
    assert (by_summary.counts.attempted, by_summary.counts.failed) == (150, 20)
    assert aggregate_of(by_percentiles) == aggregate_of(by_summary)


def test_the_counts_are_those_of_the_server(shared: Path) -> None:
    # A connection test precedes every level, and its warm-up requests: neither has a row.
    for case, levels, warmup in (("a_clean", 1, 0), ("b_errors", 1, 0), ("e_sweep_warmup", 2, 5)):
        folder = shared / "results" / "evalscope-1.14.1" / case
        truth = [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()]
        runs = [read(path) for path in sorted(folder.glob("outputs/**/benchmark_data.db"))]
        assert len(runs) == levels
        assert len(truth) == sum(run.counts.attempted + warmup + 1 for run in runs)
        if not warmup:
            failed = sum(entry["status"] != 200 for entry in truth)
            assert failed == sum(run.counts.failed for run in runs)


# ---- traps --------------------------------------------------------------------------------


def test_tpot_is_7_ms_and_not_12(tmp_path: Path) -> None:
    tpot = rows_of(read(write(tmp_path, [row()]))).tpot_s  # 700 ms of decode over 99 tokens
    assert tpot is not None
    assert tpot[0] == pytest.approx(0.7 / 99, rel=1e-12)


def test_gaps_between_chunks_are_not_tpot(tmp_path: Path) -> None:
    run = read(write(tmp_path, [row()]), gaps=True)  # BUGS B02: gaps of 350 ms, TPOT 7 ms
    gaps = rows_of(run).gaps
    assert gaps is not None
    assert (gaps.values_s.tolist(), gaps.offsets.tolist()) == ([0.35, 0.35], [0, 2])


def test_gaps_are_decoded_only_when_wanted() -> None:
    assert rows_of(read(database(TYPICAL))).gaps is None


def test_chunks_of_several_tokens_are_told_and_not_called_speculation(tmp_path: Path) -> None:
    path = write(tmp_path, [row()] * 30)
    (tmp_path / "benchmark_summary.json").write_text(
        json.dumps(said(TYPICAL) | {"Avg Decoded Tok/Iter": 3.79, "Spec. Accept Rate": 0.74})
    )
    assert any("3.79 tokens on average" in note for note in read(path).notes)


def test_failed_rows_are_failures_without_a_reason() -> None:
    run = read(database(FAILURES), gaps=True)
    assert (run.counts.attempted, run.counts.failed) == (150, 20)
    assert run.notes[0] == "20 failed: evalscope stores no reason x20"
    rows = rows_of(run)
    assert rows.gaps is not None
    partial = np.diff(rows.gaps.offsets)[rows.status == Status.FAILED]
    assert (partial > 0).sum() == 4  # aborted in mid-stream


def test_the_pickled_column_is_never_read(tmp_path: Path) -> None:
    # It is a BLOB of any kind here: selecting it as a number or text would not survive.
    run = read(write(tmp_path, [row(response_messages=b"\x80\x04\x95hostile", request=b"\xff")]), gaps=True)
    assert run.counts.completed == 1


def test_the_database_is_opened_read_only(tmp_path: Path) -> None:
    path = tmp_path / "benchmark_data.db"
    path.write_bytes(gzip.decompress(database(TYPICAL).read_bytes()))
    path.chmod(0o444)
    before = path.read_bytes()
    read(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["benchmark_data.db"]


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_a_database_that_is_still_written_is_refused(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, [row()])
    (tmp_path / f"benchmark_data.db{suffix}").write_bytes(b"x")
    with pytest.raises(InputError, match="still being written"):
        runs_of(evalscope, source(path))


def test_warm_up_requests_are_told() -> None:
    assert "evalscope keeps no record of its 5 warm-up requests" in read(database(TYPICAL)).notes


def test_a_share_of_warm_up_is_at_least_one_request(tmp_path: Path) -> None:
    args(tmp_path, warmup_num=0.1, number=4)
    assert any("its 1 warm-up requests" in note for note in read(write(tmp_path, [row()] * 4)).notes)


def test_starts_are_the_tools() -> None:
    rows = rows_of(read(database(TYPICAL)))
    assert rows.order == "completion"
    assert rows.start_s is not None
    assert (np.diff(rows.start_s) < 0).any()
    assert np.ptp(rows.start_s) == pytest.approx(5.8, abs=0.3)  # of 6.1 s


def test_a_run_without_streaming_is_not_judged_by_ttft(tmp_path: Path) -> None:
    still = row(first_chunk_latency=1.2, time_per_output_token=0.0, is_stream=0, inter_token_latencies="[]")
    run = read(write(tmp_path, [still] * 3))  # BUGS B13, B14: TTFT is E2E
    assert run.streaming is False
    assert {"ttft", "tpot", "itl"} <= run.doubted.keys()
    assert run.counts.completed == 3


def test_zero_tokens_and_zero_latencies_are_failures(tmp_path: Path) -> None:
    rows = [row(), row(completion_tokens=0), row(first_chunk_latency=0.0), row(latency=None)]  # BUGS B22
    run = read(write(tmp_path, rows))
    assert (run.counts.completed, run.counts.failed) == (1, 3)
    assert any("the tool counts 4 completed, slo-gate 1" in note for note in run.notes)


def test_one_token_has_no_tpot_though_the_tool_writes_zero(tmp_path: Path) -> None:
    rows = [row(completion_tokens=1, time_per_output_token=0.0, latency=0.5), row()]
    tpot = rows_of(read(write(tmp_path, rows))).tpot_s
    assert tpot is not None
    assert np.isnan(tpot).tolist() == [True, False]


def lost(run: Run) -> list[int | None]:
    return [doubt.requests for doubt in run.doubts if doubt.code is Why.LOST_ROWS]


def test_requests_that_have_no_row_may_have_failed(tmp_path: Path) -> None:
    args(tmp_path, number=100)
    assert lost(read(write(tmp_path, [row()] * 2))) == [98]
    args(tmp_path, number=100, duration=60.0)  # whichever limit is reached first ends the run
    assert lost(read(tmp_path / "benchmark_data.db")) == []
    args(tmp_path, number=100, multi_turn=True)  # conversations
    assert lost(read(tmp_path / "benchmark_data.db")) == []
    folder = tmp_path / "parallel_4_number_5"
    folder.mkdir()
    assert lost(read(write(folder, [row()] * 2))) == [3]  # the arguments are gone


def test_a_summary_that_lacks_requests_may_lack_failures(tmp_path: Path) -> None:
    for name in ("summary", "percentile"):
        shutil.copy(TYPICAL / f"benchmark_{name}.json", tmp_path)
    args(tmp_path, number=60)
    assert lost(read(tmp_path / "benchmark_summary.json")) == [30]


@pytest.mark.parametrize("tokens", [0, None])
@pytest.mark.parametrize("streamed", [0, 1])
def test_embeddings_have_no_token_to_complete_with(tmp_path: Path, tokens: int | None, streamed: int) -> None:
    # Its embedding and rerank clients write a first chunk at the end and no completion tokens.
    still = row(completion_tokens=tokens, first_chunk_latency=1.2, is_stream=streamed)
    run = read(write(tmp_path, [still] * 3))
    assert (run.counts.completed, run.counts.failed) == (0, 3)
    tokenless = rows_of(run).tokenless
    assert tokenless is not None
    assert tokenless.all()


def test_a_summary_without_output_tokens_judges_nothing(tmp_path: Path) -> None:
    for name in ("summary", "percentile"):
        shutil.copy(TYPICAL / f"benchmark_{name}.json", tmp_path)
    (tmp_path / "benchmark_summary.json").write_text(json.dumps(said(TYPICAL) | {"Avg Output Tokens": 0.0}))
    run = read(tmp_path / "benchmark_summary.json")
    (none,) = [doubt for doubt in run.doubts if doubt.code is Why.NO_TOKENS]
    assert {"e2e", "error_rate", "ttft"} <= set(none.of)


@pytest.mark.parametrize(
    ("told", "load"),
    [
        ({"rate": -1.0, "open_loop": False}, Load(concurrency=4)),
        ({"rate": 5, "open_loop": True}, Load(request_rate=5.0)),
        ({"rate": 5.0, "open_loop": False}, Load(request_rate=5.0, cap=4)),
        ({"rate": 5.0}, Load(request_rate=5.0, cap=4)),
    ],
)
def test_the_load_is_that_of_the_arguments(tmp_path: Path, told: dict[str, Any], load: Load) -> None:
    args(tmp_path, **told)
    assert read(write(tmp_path, [row()])).load == load


@pytest.mark.parametrize(
    ("folder", "load"),
    [
        ("parallel_8_number_20", Load(concurrency=8)),
        ("rate_2.5_number_20", Load(request_rate=2.5)),
        ("rate_1.2.3_number_20", None),
        ("results", None),
    ],
)
def test_the_load_is_else_that_of_the_folder(tmp_path: Path, folder: str, load: Load | None) -> None:
    (tmp_path / folder).mkdir()
    assert read(write(tmp_path / folder, [row()])).load == load


def test_a_client_slower_than_its_rate_is_told(tmp_path: Path) -> None:
    args(tmp_path, rate=10.0, open_loop=True)
    run = read(write(tmp_path, [row(start_time=10.0 + i) for i in range(11)]))  # one a second
    assert any("sent at 1 req/s, 10 were asked for" in note for note in run.notes)


def test_a_zero_that_stands_for_nothing_is_not_judged(tmp_path: Path) -> None:
    for name in ("summary", "percentile"):
        shutil.copy(TYPICAL / f"benchmark_{name}.json", tmp_path)
    lines = said(tmp_path, "percentile")
    for line in lines:
        line["TPOT (ms)"] = 0.0  # BUGS B41
    (tmp_path / "benchmark_percentile.json").write_text(json.dumps(lines))
    assert "no measurement" in read(tmp_path / "benchmark_summary.json").doubted["tpot"]


def test_a_summary_without_percentiles_judges_no_latency(tmp_path: Path) -> None:
    shutil.copy(TYPICAL / "benchmark_summary.json", tmp_path)
    run = read(tmp_path / "benchmark_summary.json")
    assert set(run.doubted) == {"ttft", "tpot", "itl", "e2e", "attempted"}  # of how many: in no file
    assert aggregate_of(run).summaries == {}
    assert run.load == Load(concurrency=2)


def test_old_percentiles_stand_at_the_rank_they_have(tmp_path: Path) -> None:
    # int(20 p / 100) is one rank above the nearest at every whole product: P50 is the 11th of 20 values.
    by_rank = dict(aggregate_of(read(OLD / "benchmark_summary.json")).summaries["e2e"].percentiles)
    latencies = np.sort(rows_of(read(database(OLD))).e2e_s)  # type: ignore[arg-type]
    for percent, value in by_rank.items():
        nearest = float(np.percentile(latencies, percent, method="inverted_cdf"))
        assert nearest == pytest.approx(value, abs=0.5001e-4)
    assert 50.0 not in by_rank
    assert by_rank[52.5] == pytest.approx(latencies[10], abs=0.5001e-4)
    shutil.copytree(OLD, tmp_path / "alone", ignore=shutil.ignore_patterns("*args*", "*.db"))
    unknown = aggregate_of(read(tmp_path / "alone" / "benchmark_summary.json")).summaries["e2e"]
    assert [percent for percent, _ in unknown.percentiles] == [66.0, 98.0, 99.0]  # 13.2, 19.6, 19.8


def test_the_oldest_files_call_gaps_tpot(tmp_path: Path) -> None:
    shutil.copy(OLD / "benchmark_summary.json", tmp_path)
    line = {"Percentile": "50%", "TTFT (s)": 0.1, "TPOT (s)": 0.03, "Latency (s)": 0.9}  # 0.10
    (tmp_path / "benchmark_percentile.json").write_text(json.dumps([line | {"Percentile": "66%"}]))
    run = read(tmp_path / "benchmark_percentile.json")  # BUGS B01
    assert "tpot" not in aggregate_of(run).summaries
    assert dict(aggregate_of(run).summaries["itl"].percentiles) == {66.0: 0.03}
    assert any("read as ITL" in note for note in run.notes)


# ---- which files --------------------------------------------------------------------------


def test_the_database_covers_what_lies_beside_it() -> None:
    files = [source(path) for path in sorted(TYPICAL.iterdir())]
    assert len(files) == 4
    covered = companions(evalscope, files)
    assert {file.name for file in files if file not in covered} == {"benchmark_data.db.gz"}
    pair = [file for file in files if "summary" in file.name or "percentile" in file.name]
    assert [file.name for file in companions(evalscope, pair)] == ["benchmark_percentile.json"]
    assert companions(evalscope, pair[:1]) == {}


def test_rows_of_another_run_than_the_summary_are_an_error(tmp_path: Path) -> None:
    shutil.copy(TYPICAL / "benchmark_summary.json", tmp_path)
    with pytest.raises(
        InputError, match=r"benchmark_summary\.json: .*it counts 30 requests, and 1 have a row"
    ):
        runs_of(evalscope, source(write(tmp_path, [row()])))


def test_percentiles_without_their_summary_are_an_error(tmp_path: Path) -> None:
    shutil.copy(TYPICAL / "benchmark_percentile.json", tmp_path)
    with pytest.raises(InputError, match="does not say how many requests"):
        runs_of(evalscope, source(tmp_path / "benchmark_percentile.json"))


def test_exactly_its_own_shared_files_are_claimed(shared: Path) -> None:
    claimed = set()
    for root in ("results", "public-results"):
        for path in (shared / root).rglob("*"):
            if path.is_file() and knows(evalscope, source(path)):
                claimed.add(path)
    expected = set((shared / "results").glob("evalscope-*/**/benchmark_*"))
    assert len(expected) == 16
    assert claimed == expected


# ---- malformed ----------------------------------------------------------------------------


def test_a_database_cut_short_is_claimed_and_says_so() -> None:
    file = source(CASES / "truncated" / "benchmark_data.db")
    assert knows(evalscope, file)
    with pytest.raises(InputError, match="damaged or cut short"):
        runs_of(evalscope, file)


def test_a_database_without_rows_is_an_error() -> None:
    with pytest.raises(InputError, match="holds no requests"):
        read(database(CASES / "empty"))


def test_a_database_cut_or_overwritten_anywhere_is_no_traceback(tmp_path: Path) -> None:
    whole = gzip.decompress(database(TYPICAL).read_bytes())
    for number, offset in enumerate(range(1, len(whole), len(whole) // 25)):
        path = tmp_path / f"{number}.db"
        path.write_bytes(whole[:offset])
        with pytest.raises(InputError):
            runs_of(evalscope, source(path, gaps=True))
        path.write_bytes(whole[:offset] + b"\xff" * 40 + whole[offset + 40 :])
        try:
            (run,) = runs_of(evalscope, source(path, gaps=True))
        except InputError:
            continue
        assert run.counts.attempted == run.counts.completed + run.counts.failed


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, [row()])
    with sqlite3.connect(path) as made:
        made.execute("ALTER TABLE result RENAME COLUMN latency TO took")
    made.close()
    with pytest.raises(InputError, match="no column latency"):
        runs_of(evalscope, source(path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"Failed Requests": 3}, "contradicts itself: 30 completed and 3 failed are not 30"),
        ({"Total Requests": "many"}, "expected a number"),
        ({"Success Requests": -1}, "expected a count"),
        ({"Total Requests": None}, "does not say how many"),
    ],
)
def test_a_summary_that_cannot_be_is_an_error(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "benchmark_summary.json"
    path.write_text(json.dumps(said(TYPICAL) | changes))
    with pytest.raises(InputError, match=message):
        runs_of(evalscope, source(path))


@pytest.mark.parametrize("named", ["101%", "often", None])
def test_a_percentile_that_is_none_is_an_error(tmp_path: Path, named: str | None) -> None:
    shutil.copy(TYPICAL / "benchmark_summary.json", tmp_path)
    path = tmp_path / "benchmark_percentile.json"
    path.write_text(json.dumps([{"Percentiles": named, "TTFT (ms)": 100.0}]))
    with pytest.raises(InputError, match="is no percentile"):
        runs_of(evalscope, source(path))


def test_json_cut_anywhere_is_an_input_error(tmp_path: Path) -> None:
    for name in ("summary", "percentile"):
        shutil.copy(TYPICAL / "benchmark_summary.json", tmp_path / "benchmark_summary.json")
        whole = (TYPICAL / f"benchmark_{name}.json").read_bytes().rstrip()
        for offset in range(1, len(whole), max(1, len(whole) // 30)):
            path = tmp_path / f"benchmark_{name}.json"
            path.unlink(missing_ok=True)
            path.write_bytes(whole[:offset])
            with pytest.raises(InputError):
                runs_of(evalscope, source(path))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("latency", "fast"),
        ("first_chunk_latency", b"\x00"),
        ("completion_tokens", -3),
        ("latency", 1e300),
        ("inter_token_latencies", "[0.1, null]"),
        ("inter_token_latencies", "{"),
    ],
)
def test_a_cell_that_cannot_be_is_named(tmp_path: Path, name: str, value: object) -> None:
    with pytest.raises(InputError, match=rf"result\.{name}"):
        read(write(tmp_path, [row(), row(**{name: value})]), gaps=True)


_NUMBERS = itertools.count()
_VALUES: st.SearchStrategy[Any] = st.none() | st.integers(-2, 3) | st.floats() | st.text(max_size=3)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.sampled_from(sorted(row())), _VALUES, max_size=3), min_size=1, max_size=4))
def test_any_rows_give_a_consistent_run_or_an_input_error(
    tmp_path: Path, changes: list[dict[str, Any]]
) -> None:
    path = write(tmp_path, [row(**change) for change in changes], f"{next(_NUMBERS)}.db")
    try:
        run = read(path, gaps=True)
    except InputError:
        return
    assert run.counts.attempted == run.counts.completed + run.counts.failed == len(changes)


def test_a_view_named_result_is_refused_and_never_computed(tmp_path: Path) -> None:
    path = tmp_path / "benchmark_data.db"
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE VIEW result AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
            " SELECT i AS start_time, i AS completed_time, 0.5 AS latency, 0.1 AS first_chunk_latency,"
            " 9 AS completion_tokens, 9 AS prompt_tokens, 1 AS success, '[]' AS inter_token_latencies FROM n"
        )
    with pytest.raises(InputError, match="is no table"):
        runs_of(evalscope, Source(path, path.name))
