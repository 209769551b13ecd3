"""GuideLLM's traps: zeros that mean no data, loads that must not pool, lists that are samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate.errors import InputError
from gate.model import Aggregate, Load, Status, Why
from gate.readers import guidellm, knows
from tests.readers.guidellm_results import (
    HERE,
    START_S,
    benchmark,
    of,
    one,
    raw,
    read,
    row,
    rows,
    said,
    source,
    stat,
    written,
)

# ---- several loads --------------------------------------------------------------------------------


def test_each_rate_of_a_sweep_is_its_own_run(shared: Path) -> None:
    """llm-d-benchmark #485: one file, two rates; never pooled, never the worst of them."""
    slow, fast = read(shared / "public-results" / "guidellm" / "007_v08_report_v2.json")
    assert (slow.load, fast.load) == (
        Load(request_rate=2, cap=10240),
        Load(request_rate=4, cap=10240),
    )
    assert isinstance(slow.evidence, Aggregate)
    assert isinstance(fast.evidence, Aggregate)
    assert dict(slow.evidence.summaries["ttft"].percentiles)[99] == 0.011686325073242188
    assert dict(fast.evidence.summaries["ttft"].percentiles)[99] == 0.010147809982299805


@pytest.mark.parametrize(
    ("strategy", "load"),
    [
        ({"type_": "synchronous", "max_concurrency": 1}, Load(concurrency=1)),
        ({"type_": "concurrent", "streams": 64, "max_concurrency": 64}, Load(concurrency=64)),
        ({"type_": "throughput", "max_concurrency": 512}, Load(concurrency=512)),
        ({"type_": "throughput", "max_concurrency": None}, Load(burst=True)),
        ({"type_": "poisson", "rate": 2.5}, Load(request_rate=2.5)),
        ({"type_": "constant", "rate": 2.5, "max_concurrency": 9}, Load(request_rate=2.5, cap=9)),
        ({"type_": "trace", "time_scale": 1.0}, None),
        (None, None),
    ],
)
def test_the_strategy_is_the_load(tmp_path: Path, strategy: Any, load: Load | None) -> None:
    assert of(tmp_path, benchmark([row()], strategy=strategy)).load == load


def test_a_ramp_up_is_said(tmp_path: Path) -> None:
    strategy = {"type_": "concurrent", "streams": 6, "rampup_duration": 30.0}
    assert "ramps up over the first 30 s" in said(of(tmp_path, benchmark([row()], strategy=strategy)))


def test_a_rate_that_sends_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sends nothing"):
        of(tmp_path, benchmark([row()], strategy={"type_": "constant", "rate": -1.0}))


# ---- definitions ----------------------------------------------------------------------------------


def test_tpot_is_neither_of_the_tools_two_per_token_times() -> None:
    """The first request of ../typical: 44 tokens, TTFT 41.083 ms, last token 521.487 ms after its start."""
    path = HERE / "typical" / "benchmarks.json.gz"
    first, run = raw(path)["benchmarks"][0]["requests"]["successful"][0], one(path)
    assert first["inter_token_latency_ms"] == pytest.approx(11.172178179718728)
    assert first["time_per_output_token_ms"] == pytest.approx(11.851982636885209)
    assert rows(run).tpot_s is not None
    by_hand_ms = (first["request_latency"] * 1e3 - first["time_to_first_token_ms"]) / 43
    assert rows(run).tpot_s[0] * 1e3 == pytest.approx(by_hand_ms)  # type: ignore[index]
    assert 11.172 < by_hand_ms < 11.3  # the stream closes a little after its last token


def test_time_per_output_token_changed_its_meaning_in_0_4(shared: Path) -> None:
    old = one(shared / "public-results" / "guidellm" / "001_stripped_v_a.json")
    new = one(HERE / "typical" / "benchmarks.json.gz")
    assert "(last token - first) / output tokens, without TTFT" in old.definitions["tpot"]
    assert "(last token - start) / output tokens, with TTFT" in new.definitions["tpot"]


def test_there_are_no_gaps_to_judge_itl_by() -> None:
    run = one(HERE / "typical" / "benchmarks.json.gz")
    assert rows(run).gaps is None
    assert "no gaps between chunks" in run.doubted["itl"]


def test_p01_is_the_first_percentile_and_p001_a_tenth_of_it(tmp_path: Path) -> None:
    spread = stat(1.1, 4)
    spread["successful"] |= {"min": 0.05, "max": 1.6}
    spread["successful"]["percentiles"] |= {"p001": 0.1, "p01": 0.2, "p05": 0.3, "p999": 1.5}
    run = of(tmp_path, benchmark([row()] * 4, metrics={"request_latency": spread}))
    values = dict(run.tool_reported["e2e"].percentiles)
    assert (values[0.1], values[1], values[5], values[99.9]) == (0.1, 0.2, 0.3, 1.5)


# ---- zeros that mean no data ----------------------------------------------------------------------


def unstreamed(count: int) -> dict[str, Any]:
    """0.8 without streaming: TTFT zeros that count nothing, ITL zeros that count every token."""
    return {
        "time_to_first_token_ms": stat(0.0, 0),
        "inter_token_latency_ms": stat(0.0, 99 * count),
    }


def test_a_run_that_did_not_stream_has_no_ttft_and_its_itl_of_zero_passes_nothing(tmp_path: Path) -> None:
    bare = row(
        time_to_first_token_ms=None,
        inter_token_latency_ms=None,
        first_token_iteration=None,
        last_token_iteration=None,
        token_iterations=0,
    )
    run = of(tmp_path, benchmark([bare] * 4, metrics=unstreamed(4)))
    assert rows(run).ttft_s is None
    assert (run.streaming, run.counts.completed) == (False, 4)
    assert set(run.doubted) == {"ttft", "tpot", "itl"}
    assert "stream=true" in run.doubted["ttft"]
    assert set(run.tool_reported) == {"e2e"}


@pytest.mark.parametrize("ttft", [stat(0.0, 0), stat(0.0, 4)])  # 0.8; 0.5 counts its zeros
def test_an_aggregate_of_zeros_is_no_data(tmp_path: Path, ttft: dict[str, Any]) -> None:
    zeros = unstreamed(4) | {"time_to_first_token_ms": ttft}
    run = of(tmp_path, benchmark([], totals={"successful": 4}, metrics=zeros))
    assert isinstance(run.evidence, Aggregate)
    assert set(run.evidence.summaries) == {"e2e"}
    assert set(run.doubted) == {"ttft", "tpot", "itl"}
    assert run.streaming is False


def test_one_zero_among_the_ttfts_of_an_aggregate_is_a_value_it_does_not_have(tmp_path: Path) -> None:
    ttft = stat(100.0, 4)
    ttft["successful"]["min"] = 0.0
    run = of(tmp_path, benchmark([], totals={"successful": 4}, metrics={"time_to_first_token_ms": ttft}))
    assert "value it does not have" in run.doubted["ttft"]


def test_errored_requests_leave_the_latencies_of_the_others_alone() -> None:
    """GuideLLM #444; `.total` holds a request_latency of 0 for each of them."""
    run = one(HERE / "failures" / "benchmarks.json.gz")
    r = rows(run)
    failed = r.status == Status.FAILED
    assert failed.sum() == 15
    assert r.ttft_s is not None
    assert np.isfinite(r.ttft_s[failed]).sum() == 3  # a cut stream keeps its TTFT and is no good request
    assert r.e2e_s is not None
    assert np.isnan(r.e2e_s[failed]).all()
    assert dict(run.tool_reported["e2e"].percentiles)[0.1] == pytest.approx(0.268038272857666)
    assert "15 failed: HTTPStatusError: 500 Internal Server Error x12, RemoteProtocolError" in said(run)


def test_a_failure_after_a_minute_is_a_miss_and_no_latency(tmp_path: Path) -> None:
    slow = row(99, time_to_first_token_ms=60_000.0, request_latency=None, error="TimeoutError()")
    run = of(tmp_path, benchmark([row(n) for n in range(99)], [slow]))
    r = rows(run)
    assert r.ttft_s is not None
    assert (run.counts.attempted, run.counts.failed) == (100, 1)
    assert r.ttft_s[r.status == Status.COMPLETED].max() == pytest.approx(0.1)


# ---- rows that are no completed request -------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"time_to_first_token_ms": -1750878498066.0},  # GuideLLM #216: no first token, epoch subtracted
        {"time_to_first_token_ms": 0.0},
        {"time_to_first_token_ms": None},
        {"request_latency": None},
        {"request_latency": 0.05},  # ends before its first token
        {"output_tokens": 0},
    ],
)
def test_a_row_that_cannot_be_is_a_failure_whatever_its_list(tmp_path: Path, changes: dict[str, Any]) -> None:
    run = of(tmp_path, benchmark([row(), row(1), row(2, **changes)]))
    assert (run.counts.completed, run.counts.failed) == (2, 1)
    assert "not marked as an error x1" in said(run)


def test_a_request_cut_off_at_the_end_is_cancelled(tmp_path: Path) -> None:
    late = row(200, request_latency=None, request_end_time=START_S + 200.5, error="Request was cancelled")
    run = of(tmp_path, benchmark([row()], cut=[row(1, request_latency=None), late]))
    assert (run.counts.attempted, run.counts.failed, run.counts.cancelled) == (1, 0, 2)
    assert "1 of the 2 requests cut off at the end lie outside the measurement window" in said(run)


def test_what_was_cut_off_and_is_not_listed_is_said() -> None:
    run = one(HERE / "warmup" / "benchmarks.json.gz")
    assert "counts 11 requests cut off at the end, the file lists 6" in said(run)


def test_requests_outside_the_window_are_warm_up(tmp_path: Path) -> None:
    def at(begin: float, end: float) -> dict[str, Any]:
        return row(request_start_time=START_S + begin, request_end_time=START_S + end)

    spans = [(-5, -1), (-1, 1), (1, 2), (99, 101), (101, 102)]
    run = of(tmp_path, benchmark([at(*span) for span in spans], totals={"successful": 3}))
    assert rows(run).status.tolist() == [Status.WARMUP, 0, 0, 0, Status.WARMUP]
    assert (run.counts.completed, run.counts.warmup) == (3, 2)
    assert run.total_output_tokens == 200  # two of them ended in it
    assert "2 requests lie outside GuideLLM's measurement window" in said(run)


def test_an_incomplete_request_of_0_5_is_neither_good_nor_bad(shared: Path) -> None:
    run = one(shared / "public-results" / "guidellm" / "004_v050_incomplete1.json")
    counts = run.counts
    assert (counts.completed, counts.failed, counts.cancelled, counts.warmup) == (19, 0, 1, 4)
    assert (run.load, run.model, run.tool_version) == (
        Load(concurrency=1),
        "Qwen/Qwen3-30B-A3B",
        "0.5.0.dev0",
    )


# ---- lists that do not hold every request -----------------------------------------------------------


def test_empty_lists_beside_totals_are_an_aggregate(shared: Path) -> None:
    run, _ = read(shared / "public-results" / "guidellm" / "007_v08_report_v2.json")
    assert run.format == "guidellm aggregate"
    assert isinstance(run.evidence, Aggregate)
    assert run.evidence.method == "inverted_cdf"
    assert (run.counts.attempted, run.total_output_tokens) == (2, 16)
    assert "lists of the 2 measured requests are empty" in said(run)
    assert set(run.doubted) == {"itl"}  # all outputs have 8 tokens: every request weighs the same


def test_a_sample_of_the_requests_is_not_the_run(shared: Path) -> None:
    run = one(shared / "public-results" / "guidellm" / "001_stripped_v_a.json")
    assert isinstance(run.evidence, Aggregate)
    assert (run.counts.attempted, run.counts.cancelled) == (46, 1)
    assert dict(run.evidence.summaries["ttft"].percentiles)[50] == pytest.approx(0.01638054847717285)
    assert "lists 1 of 46 measured requests" in said(run)
    assert (run.load, run.model, run.tool_version) == (Load(concurrency=1), "example_model", None)
    assert run.date == "2025-06-05"


def test_samples_of_successes_and_errors_do_not_make_an_error_rate(tmp_path: Path) -> None:
    """sample_size=2 keeps two of each: half of the listed requests failed, 1 % of all did."""
    bad = [row(n, request_latency=None, error="x") for n in (2, 3)]
    totals = {"successful": 198, "errored": 2}
    run = of(tmp_path, benchmark([row(), row(1)], bad, totals=totals))
    assert (run.counts.attempted, run.counts.failed) == (200, 2)
    assert isinstance(run.evidence, Aggregate)


def test_percentiles_weighted_by_tokens_are_no_shares_of_requests(tmp_path: Path) -> None:
    lengths = stat(100.0, 4, spread=8.0)
    run = of(tmp_path, benchmark([], totals={"successful": 4}, metrics={"output_token_count": lengths}))
    assert "once for each of its tokens" in run.doubted["tpot"]


def test_more_listed_than_counted_is_a_note_where_a_window_chose_them(tmp_path: Path) -> None:
    run = of(tmp_path, benchmark([row(n) for n in range(3)], totals={"successful": 2}))
    assert run.counts.completed == 3
    assert "measures 2 successful and 0 errored requests, 3 and 0 overlap its window" in said(run)


# ---- suspicion --------------------------------------------------------------------------------------


def test_chunks_counted_as_tokens_give_no_tpot(tmp_path: Path) -> None:
    run = of(tmp_path, benchmark([row(n, usage=None) for n in range(4)]))
    assert "counted chunks as output tokens" in run.doubted["tpot"]
    assert rows(run).tpot_s == pytest.approx([1.0 / 99] * 4)  # suspicion never changes a column


def test_answers_in_one_chunk_are_not_judged_by_tpot(tmp_path: Path) -> None:
    at_once = [row(n, last_token_iteration=START_S + n + 0.1) for n in range(4)]
    run = of(tmp_path, benchmark(at_once))
    assert "came in one piece" in run.doubted["tpot"]
    assert Why.NOT_STREAMED in {doubt.code for doubt in run.doubts}


def test_one_token_answers_are_no_suspicion(tmp_path: Path) -> None:
    short = [row(n, output_tokens=1, usage=1, last_token_iteration=START_S + n + 0.1) for n in range(4)]
    run = of(tmp_path, benchmark(short, metrics={"output_token_count": stat(1.0, 4)}))
    assert set(run.doubted) == {"itl"}
    assert rows(run).tpot_s is not None
    assert np.isnan(rows(run).tpot_s).all()  # type: ignore[arg-type]


def test_a_client_that_sends_late_or_too_little_is_said(tmp_path: Path) -> None:
    late = [row(n, targeted_start=START_S + n - 0.5) for n in range(20)]
    notes = said(of(tmp_path, benchmark(late, strategy={"type_": "constant", "rate": 2.0})))
    assert "due time to its start is 0.5 s" in notes
    assert "requests were sent at 1 req/s, 2 were asked for" in notes


def test_a_late_start_in_a_closed_loop_means_nothing(tmp_path: Path) -> None:
    assert said(of(tmp_path, benchmark([row(n, targeted_start=START_S) for n in range(20)]))) == ""


def test_a_stream_that_closes_late_is_said(tmp_path: Path) -> None:
    slow = [row(n, request_latency=1.6, request_end_time=START_S + n + 1.6) for n in range(4)]
    assert "E2E ends 0.51 s after the last token" in said(of(tmp_path, benchmark(slow)))


def test_the_tools_own_goodput_and_doubts_are_reconciled(tmp_path: Path) -> None:
    slo = {"ttft_ms": 110.0, "tpot_ms": 13.0, "e2el_ms": None}
    attained = {"slo_attainment": 26 / 96, "slo_determined_requests": 96}
    doubt = [{"code": "x", "message": "mean generation delay was 2% of mean TTFT"}]
    notes = said(of(tmp_path, benchmark([row()], slo=slo, metrics=attained, warnings=doubt)))
    assert "slo_attainment 27.1% of 96 requests (ttft 110 ms, tpot 13 ms)" in notes
    assert "one token left out" in notes
    assert "GuideLLM warns: mean generation delay" in notes


def ended(number: int, by: str = "max_requests", key: str = "max_requests") -> dict[str, Any]:
    """What the scheduler says of the end, since 0.5."""
    return {"end_queuing_constraints": {by: {"request_queuing": "stop", "metadata": {key: number}}}}


@pytest.mark.parametrize("key", ["max_requests", "max_number"])  # 0.8, 0.5
def test_requests_that_were_asked_for_and_are_not_listed_may_have_failed(tmp_path: Path, key: str) -> None:
    listed = [row(n) for n in range(20)]
    (lost,) = [
        doubt
        for doubt in of(tmp_path, benchmark(listed, scheduler_state=ended(40, key=key))).doubts
        if doubt.code is Why.LOST_ROWS
    ]
    assert (lost.of, lost.requests) == (("attempted",), 20)
    for state in (ended(20, key=key), ended(40, by="max_duration", key=key)):
        codes = {doubt.code for doubt in of(tmp_path, benchmark(listed, scheduler_state=state)).doubts}
        assert codes == {Why.NO_GAPS}


def test_an_answer_with_too_few_chunks_for_its_tokens_is_doubted(tmp_path: Path) -> None:
    answers = [row(n, token_iterations=4 if n < 6 else 100) for n in range(60)]
    doubts = {doubt.code: doubt for doubt in of(tmp_path, benchmark(answers)).doubts}
    assert doubts[Why.CUT_ROWS].requests == 6


def test_an_embedding_has_no_tokens_and_is_read(tmp_path: Path) -> None:
    """Of 0.8, with the endpoint /v1/embeddings: a generative benchmark without a generated token."""
    bare = {
        "output_tokens": None,
        "usage": None,
        "time_to_first_token_ms": None,
        "first_token_iteration": None,
        "last_token_iteration": None,
        "token_iterations": 0,
    }
    run = of(tmp_path, benchmark([row(n, **bare) for n in range(5)]))
    assert (run.counts.attempted, run.counts.failed) == (5, 5)
    tokenless = rows(run).tokenless
    assert tokenless is not None
    assert tokenless.all()
    assert rows(run).e2e_s == pytest.approx([1.1] * 5)


# ---- the layout of 0.2 and 0.3 ----------------------------------------------------------------------


def old_row(begin: float) -> dict[str, Any]:
    return {
        "type_": "generative_text_response",
        "start_time": begin,
        "end_time": begin + 1.1,
        "first_token_time": begin + 0.1,
        "last_token_time": begin + 1.09,
        "request_latency": 1.1,
        "time_to_first_token_ms": 100.0,
        "time_per_output_token_ms": 9.9,
        "prompt_tokens": 50,
        "output_tokens": 100,
    }


def old_report() -> dict[str, Any]:
    bad = {"type_": "generative_text_error", "error": "ConnectError('refused')", "start_time": START_S + 9}
    new = benchmark([old_row(START_S + n) for n in range(3)], [bad])
    new["args"] = {"strategy": {"type_": "constant", "rate": 1.0}}
    new["worker"] = {"backend_model": "old-model"}
    new["request_totals"] = new["metrics"].pop("request_totals")
    new["run_stats"] = {"requests_made": new.pop("scheduler_metrics")["requests_made"]}
    del new["config"]
    return {"benchmarks": [new]}


def test_the_layout_of_0_3_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "benchmarks.json", old_report())
    assert knows(guidellm, source(path))
    run = one(path)
    assert (run.counts.completed, run.counts.failed) == (3, 1)
    assert (run.load, run.model, run.tool_version) == (Load(request_rate=1.0), "old-model", None)
    assert rows(run).tpot_s == pytest.approx([1.0 / 99] * 3 + [np.nan], nan_ok=True)
    assert "1 failed: ConnectError('refused') x1" in said(run)
    assert set(run.doubted) == {"itl"}
