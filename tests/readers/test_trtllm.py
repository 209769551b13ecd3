"""The TensorRT-LLM reader: the tools' own aggregates, every known trap, broken files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gate.errors import InputError
from gate.model import Aggregate, Load, Run, Status, Why
from gate.readers import claim, companions, knows, runs_of, trtllm
from tests.conftest import FIXTURES
from tests.readers import forks
from tests.readers.forks import notes, objects, rows, source, written

HERE = FIXTURES / "trtllm"
TYPICAL = HERE / "typical" / "result.json.gz"
REPORT = HERE / "bench_report" / "report.json"
REQUESTS = HERE / "bench_requests" / "requests.json"
ROUNDED = {"e2e": 1e-12, "tpot": 1e-12}


def read(path: Path, *, gaps: bool = False) -> list[Run]:
    return forks.read(trtllm, path, gaps=gaps)


def one(folder: Path, content: object, *, gaps: bool = False) -> Run:
    (run,) = read(written(folder, content), gaps=gaps)
    return run


def detailed(**changed: Any) -> dict[str, Any]:
    """Four requests, all well: TTFT 0.1, 0.2, 0.3, 0.4 s; 0.4 s more for 5 tokens each."""
    base = {
        "date": "20261129-140638",
        "backend": "openai",
        "model_id": "m",
        "num_prompts": 4,
        "duration": 2.0,
        "completed": 4,
        "total_output_tokens": 20,
        "request_goodput:": None,
        "user_throughput": 100.0,
        "input_lens": [10] * 4,
        "output_lens": [5] * 4,
        "ttfts": [0.1, 0.2, 0.3, 0.4],
        "itls": [[0.1] * 4] * 4,
        "e2els": [0.5, 0.6, 0.7, 0.8],
        "errors": [""] * 4,
        "request_rate": "inf",
        "max_concurrency": 2,
    }
    return forks.without(base, changed)


def aggregate(**changed: Any) -> dict[str, Any]:
    arrays = ("input_lens", "output_lens", "ttfts", "itls", "e2els", "errors")
    base = detailed(**dict.fromkeys(arrays, ...))
    for metric, ms in {"ttft": 100.0, "tpot": 20.0, "itl": 21.0, "e2el": 900.0}.items():
        base |= {f"mean_{metric}_ms": ms, f"median_{metric}_ms": ms, f"p99_{metric}_ms": 2 * ms}
    return forks.without(base, changed)


def bench_row(**changed: Any) -> dict[str, Any]:
    """Enqueued at 4 s, first token after 0.5 s, 11 tokens in 1.5 s: TPOT 100 ms."""
    base = {
        "id": 1,
        "num_input_tokens": 100,
        "start_timestamp": 4_000_000_000,
        "first_token_timestamp": 4_500_000_000,
        "end_timestamp": 5_500_000_000,
        "num_total_output_tokens": 11,
        "time_to_first_token": 500_000_000,
        "intertoken_latency": 100_000_000.0,
        "end_to_end_latency": 1_500_000_000,
    }
    return forks.without(base, changed)


def record(**changed: Any) -> dict[str, Any]:
    metrics = {
        "MetricNames.ARRIVAL_TIMESTAMP": 1776994443.5,
        "finished_reason": "length",
        "MetricNames.TTFT": 0.5,
        "MetricNames.E2E": 1.5,
        "MetricNames.TPOT": 0.1,
    }
    base = {"request_id": 0, "batch_wall_ms": 1643.0, "output_token_ids": [7] * 11, "metrics_dict": metrics}
    return forks.without(base, changed)


# ---- benchmark_serving.py: the tool's own aggregates ----------------------------------------------


@pytest.mark.parametrize(
    ("case", "statistics"),
    [("typical/result.json.gz", 32), ("failures/result.json", 24), ("non_streaming/result.json", 8)],
)
def test_columns_reproduce_the_tools_own_aggregates(case: str, statistics: int) -> None:
    (said,), (run,) = objects(HERE / case), read(HERE / case, gaps=True)
    assert forks.assert_statistics(said, run, ROUNDED) == statistics
    assert_totals(said, run)


def test_every_shared_result_reproduces_the_tools_own_aggregates(shared: Path) -> None:
    paths = sorted((shared / "results/trtllm").glob("bs_*.json"))
    for path in paths:
        (said,), (run,) = objects(path), read(path, gaps=True)
        assert forks.assert_statistics(said, run, ROUNDED) >= 8
        assert forks.assert_reported(said, run) >= 5  # of a run that was not streamed: E2E alone
        assert_totals(said, run)
    assert len(paths) == 3


def assert_totals(said: dict[str, Any], run: Run) -> None:
    r = rows(run)
    assert r.input_tokens is not None
    assert r.input_tokens[r.status == Status.COMPLETED].sum() == said["total_input_tokens"]
    assert (run.counts.completed, run.counts.attempted) == (said["completed"], said["num_prompts"])
    assert run.total_output_tokens == said["total_output_tokens"]
    assert run.duration_s is not None
    assert run.counts.completed / run.duration_s == pytest.approx(said["request_throughput"], rel=forks.EXACT)
    assert run.total_output_tokens is not None
    assert run.total_output_tokens / run.duration_s == pytest.approx(
        said["output_throughput"], rel=forks.EXACT
    )
    assert (run.date, run.model, run.load) == ("2026-11-29", "mock-model", Load(request_rate=40.0))


def test_the_goodput_key_ends_in_a_colon() -> None:
    """8.74 good req/s over 3.661 s are 32 of 120."""
    (said,), (run,) = objects(TYPICAL), read(TYPICAL)
    assert round(said["request_goodput:"] * said["duration"]) == 32
    assert "goodput 8.74 req/s: 26.7% of its completed requests" in notes(run)


# ---- benchmark_serving.py: traps ------------------------------------------------------------------


def test_non_streaming_is_no_ttft_of_minus_a_second() -> None:
    (said,), (run,) = (
        objects(HERE / "non_streaming" / "result.json"),
        read(HERE / "non_streaming" / "result.json"),
    )
    assert (said["p99_ttft_ms"], said["ttfts"][0]) == (-1000.0, -1)
    assert (run.counts.completed, run.counts.failed) == (120, 0)  # a sentinel is no failure
    assert (run.streaming, rows(run).ttft_s, rows(run).tpot_s) == (False, None, None)
    assert set(run.doubted) == {"ttft", "tpot", "itl"}
    assert "--non-streaming" in run.doubted["tpot"]
    assert set(run.tool_reported) == {"e2e"}  # the TPOT of 29.6 ms contains the -1 s


def test_failures_of_a_non_streaming_run_are_failures(tmp_path: Path) -> None:
    row = {"ttfts": [-1, -1, -1, 0.0], "errors": ["", "", "", "Internal Server Error"], "itls": [[]] * 4}
    row |= {"output_lens": [5, 5, 5, 0], "e2els": [0.5, 0.6, 0.7, 0.0], "total_output_tokens": 15}
    run = one(tmp_path, detailed(**row, completed=3, mean_ttft_ms=-1000.0))
    assert (run.counts.completed, run.counts.failed, run.streaming) == (3, 1, False)


def test_a_non_streaming_aggregate_is_not_judged(tmp_path: Path) -> None:
    never = {f"{name}_ttft_ms": -1000.0 for name in ("mean", "median", "p99")}
    run = one(tmp_path, aggregate(**never))
    assert run.streaming is False
    assert set(run.doubted) == {"ttft", "tpot", "itl"}
    assert set(run.tool_reported) == {"e2e"}
    with pytest.raises(InputError, match="negative time for TTFT"):
        one(tmp_path, aggregate(p99_ttft_ms=-5.0))


def test_an_aborted_row_is_a_failure_although_it_has_a_ttft() -> None:
    (said,), (run,) = objects(HERE / "failures" / "result.json"), read(HERE / "failures" / "result.json")
    aborted = [i for i, (e, t) in enumerate(zip(said["errors"], said["ttfts"], strict=True)) if e and t > 0]
    assert len(aborted) == 1
    assert (rows(run).status[aborted] == Status.FAILED).all()
    assert "3 failed: Internal Server Error x2" in notes(run)


def test_without_a_failed_key_the_missing_prompts_are_failures(tmp_path: Path) -> None:
    run = one(tmp_path, aggregate(num_prompts=10, total_output_tokens=40))
    assert (run.counts.attempted, run.counts.failed) == (10, 6)
    assert "6 of 10 prompts did not complete" in notes(run)


def test_prompts_that_were_never_sent_may_have_failed(tmp_path: Path) -> None:
    run = one(tmp_path, detailed(num_prompts=9))
    assert "9 requests were asked for and 4 are in the file" in run.doubted["attempted"]


def test_rows_cut_from_every_array_leave_the_attempted_requests_unknown(tmp_path: Path) -> None:
    def cut(left: int) -> Run:
        arrays = {"input_lens": 10, "output_lens": 5, "ttfts": 0.1, "e2els": 0.5, "errors": ""}
        rows = {name: [cell] * left for name, cell in arrays.items()}
        gaps = [[0.1] * 4] * left
        changed = {"completed": left, "num_prompts": 120, "total_output_tokens": 5 * left, "itls": gaps}
        return one(tmp_path, detailed(**rows, **changed))

    for left in (117, 119):
        (doubt,) = cut(left).doubts
        assert (doubt.code, doubt.of, doubt.requests) == (Why.LOST_ROWS, ("attempted",), 120 - left)
    assert cut(120).doubts == ()


def test_zero_completed_states_no_latency(tmp_path: Path) -> None:
    run = one(tmp_path, aggregate(completed=0, num_prompts=640, total_output_tokens=0))
    assert (run.counts.attempted, run.counts.failed) == (640, 640)
    assert run.evidence == Aggregate({}, settled_by="--save-detailed")


def test_tpot_is_the_tools_although_itl_counts_chunks(tmp_path: Path) -> None:
    row = {"ttfts": [0.1] * 4, "e2els": [1.0] * 4, "itls": [[0.3] * 3] * 4, "output_lens": [13] * 4}
    run = one(tmp_path, detailed(**row, total_output_tokens=52), gaps=True)
    assert rows(run).tpot_s == pytest.approx([0.075] * 4)
    gaps = rows(run).gaps
    assert gaps is not None
    assert set(gaps.values_s.tolist()) == {0.3}


def test_gaps_are_decoded_only_when_they_are_wanted() -> None:
    assert rows(read(TYPICAL)[0]).gaps is None
    assert rows(read(TYPICAL, gaps=True)[0]).gaps is not None


def test_everything_in_one_chunk_is_not_measurable(tmp_path: Path) -> None:
    run = one(tmp_path, detailed(ttfts=[0.5, 0.6, 0.7, 0.8]))
    assert run.streaming is False
    assert {"ttft", "tpot", "itl"} <= set(run.doubted)


def test_single_tokens_have_no_tpot_but_count(tmp_path: Path) -> None:
    run = one(tmp_path, detailed(output_lens=[1, 5, 5, 5], total_output_tokens=16))
    tpot_s = rows(run).tpot_s
    assert tpot_s is not None
    assert np.isnan(tpot_s).tolist() == [True, False, False, False]
    assert run.counts.completed == 4
    assert "one token" in one(tmp_path, aggregate(total_output_tokens=4)).doubted["tpot"]


def test_a_metric_the_tool_was_not_asked_for_says_how_to_get_it(tmp_path: Path) -> None:
    left_out = dict.fromkeys(("mean_e2el_ms", "median_e2el_ms", "p99_e2el_ms"), ...)
    assert "--percentile-metrics" in one(tmp_path, aggregate(**left_out)).doubted["e2e"]


@pytest.mark.parametrize(
    "changed",
    [
        {"completed": 3},
        {"completed": 5},
        {"num_prompts": 3},
        {"ttfts": [0.1, 0.2, 0.3]},
        {"e2els": [0.5]},
        {"errors": [""] * 5},
        {"input_lens": [1]},
        {"duration": -1.0},
    ],
)
def test_a_file_that_contradicts_itself_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="contradicts itself"):
        one(tmp_path, detailed(**changed))


def test_arrays_of_different_length_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ttfts 4.*e2els 4.*errors 3"):
        one(tmp_path, detailed(errors=[""] * 3))


# ---- trtllm-bench ---------------------------------------------------------------------------------


def test_requests_of_trtllm_bench_are_nanoseconds(tmp_path: Path) -> None:
    run = one(tmp_path, [bench_row(), bench_row(start_timestamp=4_200_000_000)])
    r = rows(run)
    assert r.ttft_s is not None
    assert r.e2e_s is not None
    assert (r.ttft_s.tolist(), r.e2e_s.tolist()) == ([0.5, 0.5], [1.5, 1.5])
    assert r.tpot_s == pytest.approx([0.1, 0.1])
    assert run.duration_s == pytest.approx(1.7)
    assert "itl" in run.doubted
    assert run.load is None


def test_tpot_is_the_tools_intertoken_latency() -> None:
    (run,) = read(REQUESTS)
    tpot_s = rows(run).tpot_s
    assert tpot_s is not None
    assert tpot_s * 1e9 == pytest.approx([row["intertoken_latency"] for row in objects(REQUESTS)], rel=1e-9)
    assert run.counts.completed == 40


def test_older_releases_name_the_output_tokens_otherwise(tmp_path: Path) -> None:
    run = one(tmp_path, [bench_row(num_total_output_tokens=..., num_output_tokens=11)])
    assert rows(run).tpot_s == pytest.approx([0.1])


def test_requests_that_were_not_streamed_have_no_ttft(tmp_path: Path) -> None:
    row = bench_row(first_token_timestamp=-1, time_to_first_token=0.0, intertoken_latency=0.0)
    run = one(tmp_path, [row] * 3)
    assert (run.counts.completed, run.counts.failed, run.streaming) == (3, 0, False)
    assert rows(run).ttft_s is None
    assert "--streaming" in run.doubted["ttft"]


def test_single_token_requests_have_no_tpot(tmp_path: Path) -> None:
    single = bench_row(num_total_output_tokens=1, intertoken_latency=0.0, end_to_end_latency=500_000_000)
    tpot_s = rows(one(tmp_path, [single, bench_row()])).tpot_s
    assert tpot_s is not None
    assert np.isnan(tpot_s[0])


def test_a_report_is_milliseconds_without_a_suffix_and_no_rate() -> None:
    """The issue rate of 4e16 req/s is a bug of the tool and no load."""
    (said,), (run,) = objects(REPORT), read(REPORT)
    assert said["world_info"]["issue_rate"] > 1e16
    assert run.load is None
    assert isinstance(run.evidence, Aggregate)
    for metric, block in {
        "e2e": said["performance"]["request_latency_percentiles_ms"],
        "ttft": said["streaming_metrics"]["ttft_percentiles"],
        "tpot": said["streaming_metrics"]["tpot_percentiles"],
    }.items():
        summary = run.evidence.summaries[metric]
        assert {f"p{p:g}": pytest.approx(v * 1000) for p, v in summary.percentiles} == {
            name: value for name, value in block.items() if name[0] == "p"
        }
        stated = [block[name] / 1000 for name in ("average", "minimum", "maximum")]
        assert [summary.mean, summary.min, summary.max] == pytest.approx(stated)
    assert (run.tool_version, run.model) == ("1.3.0rc0", "meta-llama/Llama-3.1-8B")
    assert (run.counts.completed, run.total_output_tokens) == (200, pytest.approx(200 * 42.685))
    throughput = said["performance"]["system_output_throughput_tok_s"]
    assert run.duration_s is not None
    assert run.total_output_tokens is not None
    assert run.total_output_tokens / run.duration_s == pytest.approx(throughput)


def test_a_percentile_of_the_tool_is_one_of_its_own_ranks(tmp_path: Path) -> None:
    """sorted[int(n * p)]: of 1..100 ms the P99 is 100 ms; linear ranks leave room for it on both sides."""
    values = np.arange(1, 101)
    points = {f"p{p}": float(np.sort(values)[int(100 * p / 100)]) for p in (50, 90, 99)}
    assert points["p99"] == 100.0
    content = report(performance={"request_latency_percentiles_ms": points, "total_latency_ms": 1.0}, n=100)
    run = one(tmp_path, content)
    assert isinstance(run.evidence, Aggregate)
    assert run.evidence.method == "linear"
    for percent, value in run.evidence.summaries["e2e"].percentiles:
        position = percent / 100 * 99
        assert int(np.floor(position)) + 1 <= (values <= value * 1000).sum()
        assert int(np.ceil(position)) >= (values < value * 1000 - 1e-9).sum()


def report(n: int = 4, **changed: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "engine": {"model": "m", "version": "1.0"},
        "world_info": {"world_size": 8},
        "machine": {"name": "H100"},
        "request_info": {"num_requests": n, "avg_output_length": 5.0},
        "performance": {
            "total_latency_ms": 2000.0,
            "request_latency_percentiles_ms": {"p50": 1.0, "p99": 2.0},
        },
    }
    return forks.without(base, changed)


def test_a_report_without_streaming_has_no_ttft(tmp_path: Path) -> None:
    run = one(tmp_path, report())
    assert run.streaming is False
    assert "--streaming" in run.doubted["ttft"]
    assert run.hardware == "8xH100"


def test_single_tokens_in_the_tools_tpot_percentiles_are_told(tmp_path: Path) -> None:
    streams = {"tpot_percentiles": {"p50": 8.0, "p99": 9.0, "minimum": 0.0}, "ttft_percentiles": {"p99": 9.0}}
    run = one(tmp_path, report(streaming_metrics=streams))
    assert "as 0" in run.doubted["tpot"]
    assert "ttft" not in run.doubted


def test_falling_percentiles_are_refused(tmp_path: Path) -> None:
    falling = {"request_latency_percentiles_ms": {"p50": 3.0, "p99": 2.0}}
    with pytest.raises(InputError, match="a higher percentile of E2E is lower"):
        one(tmp_path, report(performance=falling))


def test_a_report_is_not_counted_beside_its_requests(tmp_path: Path) -> None:
    requests = written(tmp_path, [bench_row()] * 4, "requests.json")
    mine = report(performance={"avg_request_latency_ms": 1500.0})
    beside = written(tmp_path, mine, "report.json")
    opened = [source(beside), source(requests)]
    assert list(companions(trtllm, opened)) == [opened[0]]
    other = source(written(tmp_path, report(performance={"avg_request_latency_ms": 900.0}), "other.json"))
    assert companions(trtllm, [other, opened[1]]) == {}
    assert companions(trtllm, [opened[0]]) == {}


# ---- the LLM API ----------------------------------------------------------------------------------


def test_metrics_of_the_llm_api_are_seconds_under_printed_enum_names(tmp_path: Path) -> None:
    run = one(tmp_path, {"model": "m", "num_requests": 2, "records": [record(), record()]})
    r = rows(run)
    assert r.ttft_s is not None
    assert r.ttft_s.tolist() == [0.5, 0.5]
    assert r.tpot_s == pytest.approx([0.1, 0.1])  # never batch_wall_ms, which is milliseconds of a batch
    assert (run.model, run.total_output_tokens, run.load) == ("m", 22, None)


def test_tokens_follow_from_the_engines_own_tpot_where_ids_are_missing(tmp_path: Path) -> None:
    """(1.5 - 0.5) / 0.1 + 1 = 11."""
    run = one(tmp_path, {"records": [record(output_token_ids=...)]})
    assert run.total_output_tokens == 11


def test_the_public_records_give_their_own_tpot(shared: Path) -> None:
    path = shared / "public-results/trtllm/001_llmapi_metrics_dict_sanity4.json"
    (said,), (run,) = objects(path), read(path)
    tpot_s = rows(run).tpot_s
    assert tpot_s is not None
    assert tpot_s == pytest.approx([r["metrics_dict"]["MetricNames.TPOT"] for r in said["records"]], rel=1e-9)
    assert run.counts.completed == 4


def test_requests_without_a_record_are_failures(tmp_path: Path) -> None:
    run = one(tmp_path, {"num_requests": 3, "records": [record(), record(metrics_dict=None)]})
    assert (run.counts.attempted, run.counts.completed, run.counts.failed) == (3, 1, 2)
    assert "no record of the request x1" in notes(run)
    with pytest.raises(InputError, match="contradicts itself: 2 records of 1 requests"):
        one(tmp_path, {"num_requests": 1, "records": [record(), record()]})


def test_a_request_that_timed_out_is_a_failure(tmp_path: Path) -> None:
    run = one(tmp_path, {"records": [record(), record(finish_reason="timeout")]})
    assert run.counts.failed == 1
    assert "finished by timeout x1" in notes(run)


# ---- which files, and broken ones -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        (
            "[TensorRT-LLM] version: 0.16.0\n= PERFORMANCE OVERVIEW\nTotal Latency (ms): 266855.7\n",
            "averages",
        ),
        ("[TensorRT-LLM] TensorRT-LLM version: 0.16.0\n", "the run died"),
    ],
)
def test_a_console_log_is_refused_with_a_sentence(tmp_path: Path, log: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as refused:
        read(written(tmp_path, log, "log.txt"))
    assert "--request_json" in refused.value.hint


def test_public_console_logs_are_refused(shared: Path) -> None:
    for name, sentence in (
        ("004_trtllm_bench_text_ok.txt", "averages"),
        ("005_trtllm_bench_text_aborted.txt", "died"),
    ):
        with pytest.raises(InputError, match=sentence):
            read(shared / "public-results/trtllm" / name)


def test_only_tensorrt_llms_own_files_are_claimed(shared: Path) -> None:
    claimed = forks.claimed(trtllm, shared)
    assert {name.split("/")[1] for name in claimed} == {"trtllm"}
    assert len(claimed) == 5 + 3


def test_an_empty_file_is_claimed_by_nobody_and_holds_no_run(tmp_path: Path) -> None:
    path = HERE / "empty" / "result.json"
    assert not knows(trtllm, source(path))
    with pytest.raises(InputError, match="holds no run"):
        runs_of(trtllm, source(path))
    with pytest.raises(InputError, match="holds no records"):
        one(tmp_path, '{"records": [], "note": {"MetricNames.TTFT": 1}}')


def test_a_truncated_file_is_an_input_error() -> None:
    with pytest.raises(InputError, match="ends in the middle"):
        claim(source(HERE / "truncated" / "result.json"))


@pytest.mark.parametrize("path", [TYPICAL, REPORT, REQUESTS], ids=["serving", "report", "requests"])
@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.95, 0.999])
def test_a_file_cut_anywhere_is_an_input_error(tmp_path: Path, path: Path, share: float) -> None:
    data = path.read_bytes()
    whole = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    cut = tmp_path / "cut.json"
    cut.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(InputError):
        runs_of(claim(source(cut)), source(cut))  # a list cut short is claimed by its first element
    with pytest.raises(InputError):
        runs_of(trtllm, source(cut))  # as --tool trtllm would


def check(path: Path, gaps: bool = False) -> None:
    forks.assert_input_error_or_consistent(trtllm, path, gaps=gaps)


anything = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@anything
@given(
    base=st.sampled_from([detailed(), aggregate()]),
    changed=forks.changes(*aggregate(), *detailed()),
    gaps=st.booleans(),
)
def test_any_field_of_a_serving_result_may_be_missing_or_wrong(
    tmp_path: Path, base: dict[str, Any], changed: dict[str, Any], gaps: bool
) -> None:
    check(written(tmp_path, forks.without(base, changed)), gaps)


@anything
@given(changed=forks.changes(*bench_row(), "num_output_tokens"))
def test_any_field_of_a_request_may_be_missing_or_wrong(tmp_path: Path, changed: dict[str, Any]) -> None:
    check(written(tmp_path, [bench_row(**changed), bench_row()]))


@anything
@given(
    changed=forks.changes(*report(), "streaming_metrics"),
    inner=forks.changes(
        "num_requests", "request_latency_percentiles_ms", "total_latency_ms", "p99", "minimum"
    ),
)
def test_any_field_of_a_report_may_be_missing_or_wrong(
    tmp_path: Path, changed: dict[str, Any], inner: dict[str, Any]
) -> None:
    base = report()
    base["performance"] = forks.without(base["performance"], inner)
    base["request_info"] = forks.without(base["request_info"], inner)
    check(written(tmp_path, forks.without(base, changed)))
    block = {"request_latency_percentiles_ms": forks.without({"p50": 1.0, "p99": 2.0}, inner)}
    check(written(tmp_path, report(performance=block)))


@anything
@given(
    changed=forks.changes(*record(), "finish_reason", "error"),
    inner=forks.changes("MetricNames.TTFT", "MetricNames.E2E", "MetricNames.TPOT", "finished_reason"),
    n=st.sampled_from([0, 1, 2, 5]),
)
def test_any_field_of_a_record_may_be_missing_or_wrong(
    tmp_path: Path, changed: dict[str, Any], inner: dict[str, Any], n: int
) -> None:
    metrics = forks.without(record()["metrics_dict"], inner)
    content = {"num_requests": n, "records": [record(**changed), record(metrics_dict=metrics)]}
    check(written(tmp_path, json.dumps(content)))
