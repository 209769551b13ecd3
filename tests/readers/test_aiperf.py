"""The AIPerf reader against the tool's own aggregates, the server's log, and every known trap."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate.errors import InputError
from gate.model import Aggregate, Load, Requests, Run, Status, Why
from gate.readers import aiperf, runs_of
from gate.readers.source import Source
from tests.conftest import FIXTURES

HERE = FIXTURES / "aiperf"
CASES = ["typical", "failures", "nonstream", "warmup"]
SHARED = ["clean", "errors", "goodput_errors", "nonstream", "rate_warmup"]
METRICS = {
    "ttft": "time_to_first_token",
    "tpot": "inter_token_latency",
    "itl": "inter_chunk_latency",
    "e2e": "request_latency",
}
EXACT = 1e-12
START = 1795960774671777530  # above 2**53: a double is 256 ns coarse there


def source(path: Path, *, gaps: bool = False) -> Source:
    return Source(path, path.name, gaps=gaps)


def read(path: Path, *, gaps: bool = False) -> Run:
    (run,) = runs_of(aiperf, source(path, gaps=gaps))
    return run


def rows(run: Run) -> Requests:
    assert isinstance(run.evidence, Requests)
    return run.evidence


def records(folder: Path) -> Path:
    return next(
        p for p in (folder / "profile_export.jsonl.gz", folder / "profile_export.jsonl") if p.exists()
    )


def said(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "profile_export_aiperf.json").read_text())


def folders(request: pytest.FixtureRequest, name: str) -> Path:
    if name in CASES:
        return HERE / name
    return request.getfixturevalue("shared") / "results" / "aiperf-0.13.0" / name / "artifacts"


every_run = pytest.mark.parametrize("name", [*CASES, *SHARED[:3], "rate_warmup"])


# ---- conformance: the tool's own aggregates from our columns --------------------------------------


def ours_ms(run: Run) -> dict[str, np.ndarray]:
    r = rows(run)
    done = r.status == Status.COMPLETED
    assert r.e2e_s is not None
    found = {"request_latency": r.e2e_s[done]}
    if r.ttft_s is not None and r.tpot_s is not None:
        found["time_to_first_token"] = r.ttft_s[done]
        found["inter_token_latency"] = r.tpot_s[done & ~np.isnan(r.tpot_s)]
    if r.gaps is not None:
        found["inter_chunk_latency"] = r.gaps.values_s[np.repeat(done, np.diff(r.gaps.offsets))]
    return {tag: values * 1e3 for tag, values in found.items()}


@every_run
def test_columns_reproduce_every_statistic_of_the_tool(request: pytest.FixtureRequest, name: str) -> None:
    folder = folders(request, name)
    told, compared = said(folder), 0
    for tag, values in ours_ms(read(records(folder), gaps=True)).items():
        stat = told[tag]
        expected = {"avg": values.mean(), "min": values.min(), "max": values.max(), "std": values.std()}
        expected |= {f"p{p}": np.percentile(values, p) for p in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
        for key, value in expected.items():
            # A deviation is a difference of near numbers: its rounding is that of the values.
            assert value == pytest.approx(stat[key], rel=EXACT, abs=1e-9 if key == "std" else EXACT), (
                tag,
                key,
            )
            compared += 1
        assert len(values) == stat["count"]
    assert compared >= 13


@every_run
def test_counts_throughput_and_goodput_are_the_tools(request: pytest.FixtureRequest, name: str) -> None:
    folder = folders(request, name)
    told, run = said(folder), read(records(folder))
    assert run.counts.completed == told["request_count"]["avg"]
    assert run.counts.failed == told.get("error_request_count", {"avg": 0})["avg"]
    assert run.duration_s is not None
    assert run.total_output_tokens is not None
    assert run.counts.completed / run.duration_s == pytest.approx(
        told["request_throughput"]["avg"], rel=EXACT
    )
    assert run.total_output_tokens / run.duration_s == pytest.approx(
        told["output_token_throughput"]["avg"], rel=EXACT
    )
    start, end = (np.datetime64(told[key]) for key in ("start_time", "end_time"))
    assert run.duration_s == pytest.approx((end - start) / np.timedelta64(1, "s"), rel=1e-6)
    assert run.date == str(start)[:10]
    slos = told["input_config"].get("slos")
    if slos:
        r = rows(run)
        assert r.ttft_s is not None
        assert r.tpot_s is not None
        assert r.e2e_s is not None
        good = r.status == Status.COMPLETED
        good &= r.ttft_s * 1e3 <= slos["time_to_first_token"]
        good &= r.tpot_s * 1e3 <= slos["inter_token_latency"]
        good &= r.e2e_s * 1e3 <= slos["request_latency"]
        assert good.sum() == told["good_request_count"]["avg"] == 107
        assert good.sum() / run.counts.attempted == pytest.approx(told["good_request_fraction"]["avg"])
        assert any("10.58 good req/s" in note and "0.7133" in note for note in run.notes)


@pytest.mark.parametrize("name", [*CASES, *SHARED])
def test_the_aggregate_alone_states_what_it_holds(request: pytest.FixtureRequest, name: str) -> None:
    folder = folders(request, name)
    told, run, whole = said(folder), read(folder / "profile_export_aiperf.json"), read(records(folder))
    assert isinstance(run.evidence, Aggregate)
    assert (run.counts.attempted, run.counts.failed) == (whole.counts.attempted, whole.counts.failed)
    assert (run.tool_version, run.model) == ("0.13.0", "mock-model") == (whole.tool_version, whole.model)
    assert run.load == whole.load
    assert run.duration_s == whole.duration_s
    assert run.total_output_tokens == whole.total_output_tokens
    known = said(folder).get("inter_chunk_latency") is not None
    assert set(whole.doubted) - set(run.doubted) <= {"itl"}  # gaps were taken out of some fixtures' records
    assert set(run.doubted) == set(whole.doubted) - ({"itl"} if known else set())
    for metric, tag in METRICS.items():
        if tag not in told:
            assert metric not in run.evidence.summaries
            continue
        summary = run.evidence.summaries[metric]
        assert dict(summary.percentiles) == {
            float(p): told[tag][f"p{p}"] / 1e3 for p in (1, 5, 10, 25, 50, 75, 90, 95, 99)
        }
        assert summary.n == told[tag]["count"]
        assert whole.tool_reported[metric].percentiles == summary.percentiles


@pytest.mark.parametrize("name", ["typical", "failures", "nonstream", *SHARED])
def test_the_csv_alone_says_the_same_to_two_decimals(request: pytest.FixtureRequest, name: str) -> None:
    folder = folders(request, name)
    run, told = read(folder / "profile_export_aiperf.csv"), said(folder)
    assert isinstance(run.evidence, Aggregate)
    assert run.counts.completed == told["request_count"]["avg"]
    assert run.counts.failed == told.get("error_request_count", {"avg": 0})["avg"]
    assert run.evidence.rounding_s == 5e-6
    for metric, summary in run.evidence.summaries.items():
        for percent, value in summary.percentiles:
            exact = told[METRICS[metric]][f"p{percent:g}"] / 1e3
            assert abs(value - exact) <= run.evidence.rounding_s + 1e-12


# ---- the server's own log -------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHARED)
def test_every_request_the_server_saw_is_counted_once(shared: Path, name: str) -> None:
    folder = shared / "results" / "aiperf-0.13.0" / name
    truth = [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()]
    run = read(folder / "artifacts" / "profile_export.jsonl")
    counts, r = run.counts, rows(run)
    assert counts.attempted + counts.warmup + counts.cancelled == len(truth)
    assert counts.failed == sum(seen["status"] != 200 for seen in truth)
    assert counts.warmup == (10 if name == "rate_warmup" else 0)
    assert r.output_tokens is not None
    tokens = r.output_tokens[(r.status == Status.COMPLETED) | (r.status == Status.WARMUP)]
    assert Counter(tokens.tolist()) == Counter(
        float(seen["output_tokens"]) for seen in truth if seen["status"] == 200
    )


# ---- traps: statuses ------------------------------------------------------------------------------


def row(**changes: Any) -> dict[str, Any]:
    """A good request: TTFT 100 ms, E2E 1090 ms, 100 tokens, TPOT 10 ms."""
    metadata = {"request_start_ns": START, "benchmark_phase": "profiling", "was_cancelled": False}
    metrics = {
        "time_to_first_token": {"value": 100.0, "unit": "ms"},
        "request_latency": {"value": 1090.0, "unit": "ms"},
        "output_sequence_length": {"value": 100, "unit": "tokens"},
    }
    error = changes.pop("error", None)
    metadata |= {key: changes.pop(key) for key in list(changes) if key not in metrics and key not in MORE}
    metrics |= changes
    return {"metadata": metadata, "metrics": {} if error else metrics} | ({"error": error} if error else {})


MORE = {"usage_completion_tokens", "inter_chunk_latency"}


def made(path: Path, lines: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_cancelled_request_of_the_old_shape_is_no_failure() -> None:
    counts = read(records(HERE / "old")).counts
    assert (counts.completed, counts.failed, counts.cancelled) == (52, 8, 4)
    alone = read(HERE / "old" / "profile_export_aiperf.json")
    assert alone.counts == counts
    assert alone.load == Load(concurrency=6)


def test_the_old_shape_gives_its_own_latencies() -> None:
    told = said(HERE / "old")["records"]
    run = read(records(HERE / "old"))
    for tag, values in ours_ms(run).items():
        old = "ttft" if tag == "time_to_first_token" else tag
        assert values.mean() == pytest.approx(told[old]["avg"], rel=EXACT)
        assert np.percentile(values, 99) == pytest.approx(told[old]["p99"], rel=EXACT)


def test_a_server_that_answers_499_has_failed(tmp_path: Path) -> None:
    lines = [row(), row(error={"code": 499, "type": "Client Closed Request", "message": "gone"})]
    counts = read(made(tmp_path / "a.jsonl", lines)).counts
    assert (counts.failed, counts.cancelled) == (1, 0)


def test_a_request_cut_off_at_the_end_is_cancelled(tmp_path: Path) -> None:
    stop = {"code": 499, "type": "RequestCancellationError", "message": "cancelled"}
    lines = [row(), row(was_cancelled=True, error=stop), row(error=stop), row(was_cancelled=True)]
    counts = read(made(tmp_path / "a.jsonl", lines)).counts
    assert (counts.completed, counts.failed, counts.cancelled) == (1, 0, 3)


def test_a_failed_warmup_request_is_warmup(tmp_path: Path) -> None:
    lines = [row(benchmark_phase="warmup", error={"type": "TimeoutError"}), row(), row()]
    counts = read(made(tmp_path / "a.jsonl", lines)).counts
    assert (counts.attempted, counts.failed, counts.warmup) == (2, 0, 1)


def test_250_errors_beside_six_good_requests_are_250_failures(tmp_path: Path) -> None:
    lines = [row()] * 6 + [row(error={"code": 503, "type": "Service Unavailable", "message": "x"})] * 250
    run = read(made(tmp_path / "a.jsonl", lines))
    assert (run.counts.attempted, run.counts.failed) == (256, 250)
    assert "250 failed: Service Unavailable (503) x250" in run.notes


@pytest.mark.parametrize("broken", [None, 0.0, -1.0, float("nan"), float("inf")])
def test_a_latency_that_is_no_time_is_a_failure(tmp_path: Path, broken: float | None) -> None:
    lines = [row(), row(request_latency={"value": broken, "unit": "ms"})]
    counts = read(made(tmp_path / "a.jsonl", lines)).counts
    assert (counts.completed, counts.failed) == (1, 1)


def test_a_request_without_the_ttft_others_have_is_a_failure(tmp_path: Path) -> None:
    bare = row()
    del bare["metrics"]["time_to_first_token"]
    assert read(made(tmp_path / "a.jsonl", [row(), bare])).counts.failed == 1


# ---- traps: values --------------------------------------------------------------------------------


def test_nanoseconds_survive(tmp_path: Path) -> None:
    lines = [row(), row(request_start_ns=START + 1), row(request_start_ns=START + 3_000_000_001)]
    start_s = rows(read(made(tmp_path / "a.jsonl", lines))).start_s
    assert start_s is not None
    assert start_s.tolist() == [0.0, 1e-9, 3.000000001]


def test_the_unit_is_read_and_not_assumed(tmp_path: Path) -> None:
    lines = [
        row(),
        row(time_to_first_token={"value": 0.1, "unit": "sec"}),
        row(
            time_to_first_token={"value": 1e5, "unit": "us"}, request_latency={"value": 1.09e9, "unit": "ns"}
        ),
    ]
    r = rows(read(made(tmp_path / "a.jsonl", lines)))
    assert r.ttft_s is not None
    assert r.ttft_s == pytest.approx([0.1] * 3)
    assert r.e2e_s == pytest.approx([1.09] * 3)


@pytest.mark.parametrize("unit", ["minutes", "", "tokens"])
def test_a_latency_without_a_unit_of_time_is_refused(tmp_path: Path, unit: str) -> None:
    path = made(tmp_path / "a.jsonl", [row(request_latency={"value": 5.0, "unit": unit})])
    with pytest.raises(InputError, match="request_latency has"):
        read(path)


def test_the_servers_usage_counts_output_tokens(tmp_path: Path) -> None:
    lines = [row(usage_completion_tokens={"value": 50, "unit": "tokens"})] * 3
    run = read(made(tmp_path / "a.jsonl", lines))
    assert run.total_output_tokens == 150
    assert rows(run).tpot_s == pytest.approx([0.990 / 49] * 3)  # by the tokenizer 0.990 / 99
    (note,) = [note for note in run.notes if "the server's usage says 150, AIPerf's tokenizer" in note]
    assert "says 300" in note
    assert "inter_token_latency differs" in note


def test_the_tokenizer_counts_where_a_request_has_no_usage(tmp_path: Path) -> None:
    lines = [row(usage_completion_tokens={"value": 99, "unit": "tokens"}), row()]
    run = read(made(tmp_path / "a.jsonl", lines))
    assert rows(run).output_tokens is not None
    assert rows(run).output_tokens.tolist() == [99, 100]
    assert any("1 completed requests have no server usage" in note for note in run.notes)


def test_a_run_that_did_not_stream_has_no_ttft(request: pytest.FixtureRequest) -> None:
    run = read(records(HERE / "nonstream"))
    assert rows(run).ttft_s is None
    assert run.streaming is False
    assert set(run.doubted) == {"ttft", "tpot", "itl"}
    assert "--streaming" in run.doubted["ttft"]


def test_answers_in_one_chunk_are_not_judged_by_tpot(tmp_path: Path) -> None:
    lines = [row(request_latency={"value": 100.0, "unit": "ms"})] * 3
    run = read(made(tmp_path / "a.jsonl", lines))
    assert run.doubts[0].code is Why.NOT_STREAMED
    assert set(run.doubted) == {"ttft", "tpot", "itl"}
    assert rows(run).tpot_s == pytest.approx([0.0] * 3)  # suspicion never changes a column
    assert run.counts.completed == 3


def test_one_token_answers_are_no_single_chunk_suspicion(tmp_path: Path) -> None:
    one = {"value": 1, "unit": "tokens"}
    lines = [row(request_latency={"value": 100.0, "unit": "ms"}, output_sequence_length=one)] * 3
    run = read(made(tmp_path / "a.jsonl", lines))
    assert {doubt.code for doubt in run.doubts} == {Why.NO_GAPS}
    assert np.isnan(rows(run).tpot_s).all()  # type: ignore[arg-type]


def test_gaps_are_those_between_chunks_and_are_read_only_when_asked_for(tmp_path: Path) -> None:
    lines = [
        row(inter_chunk_latency={"value": [0.0, 990.0], "unit": "ms"}),
        row(error={"type": "ClientPayloadError"}),
        row(inter_chunk_latency={"value": [0.5], "unit": "sec"}),
    ]
    path = made(tmp_path / "a.jsonl", lines)
    gaps = rows(read(path, gaps=True)).gaps
    assert gaps is not None
    assert gaps.values_s.tolist() == [0.0, 0.99, 0.5]
    assert gaps.offsets.tolist() == [0, 2, 2, 3]
    assert rows(read(path)).gaps is None


def test_a_client_that_sends_late_is_noted() -> None:
    assert any("the client was late" in note for note in read(records(HERE / "warmup")).notes)
    assert not any("late" in note for note in read(records(HERE / "typical")).notes)


def test_records_alone_measure_their_own_span(tmp_path: Path) -> None:
    shutil.copy(HERE / "old" / "profile_export.jsonl", tmp_path / "old.jsonl")
    run = read(tmp_path / "old.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "old.jsonl").read_text().splitlines()]
    ok = [line for line in lines if line["error"] is None]
    starts = [line["metadata"]["timestamp_ns"] for line in lines if (line["error"] or {}).get("code") != 499]
    ends = [
        line["metadata"]["timestamp_ns"] + round(line["metrics"]["request_latency"]["value"] * 1e6)
        for line in ok
    ]
    assert run.duration_s == pytest.approx((max(ends) - min(starts)) / 1e9, rel=1e-9)
    assert any("no profile_export_aiperf.json beside it" in note for note in run.notes)


def test_gzipped_records_are_the_same_records(tmp_path: Path) -> None:
    plain = tmp_path / "profile_export.jsonl"
    plain.write_bytes(gzip.decompress(records(HERE / "typical").read_bytes()))
    shutil.copy(HERE / "typical" / "profile_export_aiperf.json", tmp_path)
    assert read(plain).counts == read(records(HERE / "typical")).counts
    assert read(plain).tool_version == "0.13.0"
