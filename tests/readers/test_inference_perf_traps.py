"""inference-perf's traps: stages that must not pool, tokens counted twice, answers of one token or chunk."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.errors import InputError
from gate.model import Aggregate, Load, Why
from tests.readers.inference_perf_results import (
    HERE,
    REQUESTS,
    STAGE,
    SUMMARY,
    aggregate,
    failed,
    one,
    raw,
    read,
    row,
    rows,
    said,
    spread,
    written,
)

# ---- several loads --------------------------------------------------------------------------------


def test_each_stage_is_its_own_run() -> None:
    first, second = read(HERE / "stages" / f"{REQUESTS}.gz")
    assert (first.load, first.counts.attempted) == (Load(concurrency=2), 40)
    assert (second.load, second.counts.attempted) == (Load(concurrency=6), 80)


def test_rows_in_any_order_fall_into_the_same_stages(tmp_path: Path) -> None:
    for stage in (0, 1):
        name = STAGE.format(stage)
        (tmp_path / name).write_bytes((HERE / "stages" / name).read_bytes())
    reversed_rows = list(reversed(raw(HERE / "stages" / f"{REQUESTS}.gz")))
    shuffled = read(written(tmp_path / REQUESTS, reversed_rows))
    for run, other in zip(shuffled, read(HERE / "stages" / f"{REQUESTS}.gz"), strict=True):
        assert rows(run).ttft_s == pytest.approx(rows(other).ttft_s)


def test_a_summary_of_several_stages_is_never_one_load(shared: Path) -> None:
    public = shared / "public-results" / "inference_perf" / "003_vllm_summary_mixed_stages.json"
    for path in (HERE / "stages" / SUMMARY, public):
        run = one(path)
        assert run.load is None
        assert {"ttft", "tpot", "itl", "e2e", "error_rate"} <= set(run.doubted)
        assert all("several loads" in why for of, why in run.doubted.items() if of != "attempted")
    assert "attempted" in one(public).doubted  # its shortest answer has no token


def test_the_summary_of_one_stage_is_that_stage() -> None:
    run = one(HERE / "typical" / SUMMARY)
    assert (run.load, run.doubted) == (Load(concurrency=6), {})


CONFIG = """
load:
  type: constant
  request_retries: 2
  stages: [{rate: 1.0, duration: 3}, {rate: 2, duration: 2}]
server: {model_name: declared}
"""


def test_the_configuration_splits_the_rows_where_there_are_no_stage_files(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    path = written(tmp_path / REQUESTS, [row(n) for n in (0, 1, 2, 10, 10.5, 11, 11.5)])
    slow, fast = read(path)
    assert (slow.load, slow.counts.attempted) == (Load(request_rate=1), 3)
    assert (fast.load, fast.counts.attempted, fast.model) == (Load(request_rate=2), 4, "declared")
    assert "retry a failed request 2 times" in said(slow)


def test_rows_that_fit_no_declared_stages_are_not_judged(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    run = one(written(tmp_path / REQUESTS, [row(n) for n in range(6)]))
    assert run.load is None
    assert set(run.doubted) == {"ttft", "tpot", "itl", "e2e", "error_rate"}


def test_requests_never_sent_are_said(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("load: {stages: [{rate: 1.0, duration: 9}]}\nserver: {}\n")
    run = one(written(tmp_path / REQUESTS, [row(n) for n in range(6)]))
    assert run.load == Load(request_rate=1.0)
    (lost,) = run.doubts
    assert (lost.code, lost.of, lost.requests) == (Why.LOST_ROWS, ("attempted",), 3)
    assert "9 requests were asked for and 6 are in the file" in lost.why


def test_a_pause_between_groups_of_rows_looks_like_two_stages(shared: Path) -> None:
    """Of 0.5: two stages (4 and 2 rows) in one file, and nothing in a row says which."""
    run = one(shared / "public-results" / "inference_perf" / "005_v050_per_request.json")
    assert (run.counts.completed, run.counts.failed, run.load) == (5, 1, None)
    assert "up to 7.8 s between them" in run.doubted["ttft"]  # 10.0 - 2.2
    assert rows(run).tpot_s is not None
    assert rows(run).tpot_s[0] == pytest.approx((1.0 - 1 / 9) / 7)  # type: ignore[index]


def test_an_unbroken_file_alone_is_judged_at_an_unknown_load(tmp_path: Path) -> None:
    run = one(written(tmp_path / REQUESTS, [row(n) for n in range(9)]))
    assert (run.load, run.doubted) == (None, {})
    assert "load is not stated" in said(run)


def test_the_rate_of_a_concurrent_stage_means_nothing(tmp_path: Path) -> None:
    load = {"requested_rate": 150.0, "achieved_rate": 23.0, "concurrency": 6, "schedule_delay": spread(3.0)}
    run = one(written(tmp_path / "stage_0_lifecycle_metrics.json", aggregate(load=load)))
    assert run.load == Load(concurrency=6)
    assert run.notes == ()


def test_a_rate_that_was_not_kept_is_said(tmp_path: Path) -> None:
    load = {"requested_rate": 10.0, "achieved_rate": 7.5, "schedule_delay": spread(2.5)}
    notes = said(one(written(tmp_path / "a.json", aggregate(load=load))))
    assert "requests were sent at 7.5 req/s, 10 were asked for" in notes
    assert "due time to its start is 2.5 s" in notes


def test_a_negative_rate_is_refused(shared: Path) -> None:
    with pytest.raises(InputError, match="-1 req/s sends nothing"):
        read(shared / "public-results" / "inference_perf" / "009_v050_negative_rate.json")


# ---- tokens and times -------------------------------------------------------------------------------


def test_a_tpot_of_half_its_size_is_found_by_the_identity(shared: Path) -> None:
    """inference-perf #564: TPOT 3.47 ms where (480.5 - 31.1) / (63.15 - 1) = 7.23 ms."""
    run = one(shared / "public-results" / "inference_perf" / "001_vllm_stage0.json")
    assert set(run.doubted) == {"tpot", "itl"}
    assert "TPOT is 48% of (E2E - TTFT)" in run.doubted["tpot"]
    assert (run.load, run.counts.attempted) == (Load(request_rate=1), 60)
    assert isinstance(run.evidence, Aggregate)
    assert dict(run.evidence.summaries["ttft"].percentiles)[99] == 0.039696927970508104
    assert run.duration_s == pytest.approx(60 / 1.0171575756131475)


def test_a_sound_tpot_of_0_5_passes_the_identity(shared: Path) -> None:
    run = one(shared / "public-results" / "inference_perf" / "006_v050_stage0_one_failure.json")
    assert run.doubted == {}
    assert (run.counts.completed, run.counts.failed) == (3, 1)
    assert "1 failed: 500 - Internal Server Error x1" in said(run)


def test_rows_give_tpot_where_the_tools_own_is_half_of_it(tmp_path: Path) -> None:
    half = aggregate(latency={"time_per_output_token": spread(0.05)})
    written(tmp_path / STAGE.format(0), half)
    run = one(written(tmp_path / REQUESTS, [row(n) for n in range(3)]))
    assert rows(run).tpot_s == pytest.approx([0.91 / 9] * 3)
    assert run.doubted == {}
    assert "mean TPOT, 50 ms, is 0.49 times" in said(run)


def test_the_servers_usage_counts_output_tokens(tmp_path: Path) -> None:
    """inference-perf #566: 20 tokens by re-tokenised chunks, 10 by the server."""
    twice = {"output_tokens": 20, "server_usage": {"completion_tokens": 10}}
    run = one(written(tmp_path / REQUESTS, [row(n, response=twice) for n in range(3)]))
    assert rows(run).tpot_s == pytest.approx([0.91 / 9] * 3)  # by the client's count 0.91 / 19
    assert "the server's usage says 30, inference-perf's tokenizer says 60" in said(run)


def test_an_aggregate_that_counts_tokens_twice_is_no_tpot(tmp_path: Path) -> None:
    twice = aggregate(successes={"output_len": spread(20)}, latency={"time_per_output_token": spread(0.048)})
    run = one(written(tmp_path / "a.json", twice))
    assert set(run.doubted) == {"tpot", "itl"}
    assert "usage says 10, inference-perf's tokenizer 20" in said(run)


def test_a_one_token_answer_has_a_ttft_by_its_chunk(tmp_path: Path) -> None:
    computed = {"time_to_first_token": None, "time_per_output_token": None, "output_tokens": 1}
    short = row(1.0, times=[1.25], end_time=1.26, computed_metrics=computed)
    run = one(written(tmp_path / REQUESTS, [row(), short]))
    assert run.counts.completed == 2
    assert rows(run).ttft_s == pytest.approx([0.1, 0.25])


def test_an_aggregate_with_one_token_answers_has_no_ttft_of_all(tmp_path: Path) -> None:
    lengths = spread(10) | {"min": 1, "p0.1": 1, "p1": 1}
    run = one(written(tmp_path / "a.json", aggregate(successes={"output_tokens": lengths})))
    assert set(run.doubted) == {"ttft"}
    assert "one-token answers are in no TTFT" in run.doubted["ttft"]


def test_completed_requests_without_a_token_hide_failures(tmp_path: Path) -> None:
    lengths = spread(10) | {"min": 0}
    run = one(written(tmp_path / "a.json", aggregate(successes={"output_tokens": lengths})))
    assert set(run.doubted) == {"error_rate", "attempted"}
    assert [doubt.code for doubt in run.doubts] == [Why.NO_TOKENS]


def test_a_row_without_an_output_token_is_a_failure(tmp_path: Path) -> None:
    empty = row(1.0, times=[], response={"output_tokens": 0})
    run = one(written(tmp_path / REQUESTS, [row(), empty, failed(2.0)]))
    assert (run.counts.completed, run.counts.failed) == (1, 2)
    assert "HTTP Error 500 x1" in said(run)


def test_gaps_are_those_between_chunks_and_not_the_tools_zeros(tmp_path: Path) -> None:
    """Four tokens a chunk: three of four token gaps are 0, the chunk gap is 400 ms."""
    times = [0.4, 0.8, 1.0]
    each = {"output_tokens": 12, "output_token_times": [t for t in times for _ in range(4)]}
    gaps = rows(one(written(tmp_path / REQUESTS, [row(times=times, response=each)]), gaps=True)).gaps
    assert gaps is not None
    assert gaps.values_s == pytest.approx([0.4, 0.2])


def test_token_gaps_of_an_aggregate_are_no_chunk_gaps_where_most_are_0(tmp_path: Path) -> None:
    zeros = spread(0.1) | {"median": 0.0, "min": 0.0, "p0.1": 0.0, "p1": 0.0, "p5": 0.0, "p10": 0.0}
    run = one(written(tmp_path / "a.json", aggregate(latency={"inter_token_latency": zeros})))
    assert set(run.doubted) == {"itl"}
    assert "get its time" in run.doubted["itl"]


def test_gaps_are_decoded_only_when_they_are_wanted() -> None:
    assert rows(one(HERE / "typical" / f"{REQUESTS}.gz")).gaps is None


def test_answers_in_one_chunk_are_not_judged_by_tpot(tmp_path: Path) -> None:
    at_once = [row(n, times=[n + 1.0], response={"output_tokens": 10}) for n in range(3)]
    run = one(written(tmp_path / REQUESTS, at_once))
    assert set(run.doubted) == {"ttft", "tpot", "itl"}
    assert rows(run).tpot_s == pytest.approx([0.01 / 9] * 3)  # suspicion never changes a column


def test_a_run_that_did_not_stream_cannot_be_judged_by_ttft(tmp_path: Path) -> None:
    """inference-perf #150: nulls, which are no pass."""
    null = dict.fromkeys(("time_to_first_token", "time_per_output_token", "inter_token_latency"))
    whole = one(written(tmp_path / "a.json", aggregate(latency=null)))
    plain = [row(n, times=[], response={"output_tokens": 10}) for n in range(3)]
    listed = one(written(tmp_path / REQUESTS, plain))
    for run in (whole, listed):
        assert set(run.doubted) == {"ttft", "tpot", "itl"}
        assert "api.streaming: true" in run.doubted["ttft"]
        assert (run.streaming, run.counts.completed) == (False, 3)


def test_rows_without_info_say_which_setting_keeps_it(tmp_path: Path) -> None:
    bare = [row(n, info=..., request='{"model": "asked"}') for n in range(3)]
    run = one(written(tmp_path / REQUESTS, bare))
    assert {"ttft", "tpot", "itl"} <= set(run.doubted)
    assert {doubt.code for doubt in run.doubts} >= {Why.ABSENT, Why.NO_TOKENS, Why.RETRIES_UNKNOWN}
    assert "info: true" in run.doubted["ttft"]
    assert (rows(run).e2e_s, run.model) == (pytest.approx([1.01] * 3), "asked")


def test_computed_metrics_stand_in_for_info(tmp_path: Path) -> None:
    computed = {"time_to_first_token": 0.1, "output_tokens": 10, "input_tokens": 50}
    run = one(written(tmp_path / REQUESTS, [row(info=..., computed_metrics=computed)]))
    assert rows(run).tpot_s == pytest.approx([0.91 / 9])
    assert [doubt.code for doubt in run.doubts] == [Why.RETRIES_UNKNOWN, Why.NO_GAPS]  # both are in info


@pytest.mark.parametrize("tail_s", [0.0001, 0.04])
def test_tokens_in_one_burst_are_no_tpot_however_long_the_tool_counts_them(
    tmp_path: Path, tail_s: float
) -> None:
    burst = [
        row(n, times=[n + 0.9 + k * 1e-5 for k in range(10)], end_time=n + 0.9 + tail_s) for n in range(9)
    ]
    run = one(written(tmp_path / REQUESTS, burst))
    assert [doubt.code for doubt in run.doubts] == [Why.NOT_STREAMED]


def test_a_reasoning_run_that_was_cut_short_is_not_told_to_stream_only(tmp_path: Path) -> None:
    null = dict.fromkeys(("time_to_first_token", "time_per_output_token", "inter_token_latency"))
    run = one(written(tmp_path / "a.json", aggregate(latency=null)))
    assert "ended before their first content (a reasoning answer that was cut short)" in run.doubted["ttft"]


def test_a_request_that_was_repeated_is_in_no_error_rate(tmp_path: Path) -> None:
    again = row()["info"] | {"retries_attempted": 2, "retries_recovered": True}
    listed = one(written(tmp_path / REQUESTS, [row(), row(1, info=again)]))
    stage = aggregate(retries={"requests_retried": 1, "attempts": 2, "recovered": 1})
    for run in (listed, one(written(tmp_path / "a.json", stage))):
        assert [doubt.code for doubt in run.doubts] == [Why.RETRIED]
        assert "up to 2 times" in run.doubted["error_rate"]


def test_the_flat_layout_of_0_4_is_read_and_its_bias_said(tmp_path: Path) -> None:
    times = [0.05, *(0.1 * n for n in range(1, 11)), 1.0, 1.0]  # role, tokens, finish, [DONE]
    flat = {"input_tokens": 50, "output_tokens": 12, "output_token_times": times}
    run = one(written(tmp_path / REQUESTS, [row(info=flat)]))
    assert rows(run).ttft_s == pytest.approx([0.05])
    assert rows(run).tpot_s == pytest.approx([0.96 / 11])
    assert "0.4 or older: TTFT ends at the role chunk" in said(run)


def test_the_layout_of_0_5_is_read(tmp_path: Path) -> None:
    newer = row()["info"]
    older = {"response_info": newer.pop("response_metrics"), **newer}
    run = one(written(tmp_path / REQUESTS, [row(info=older)]))
    assert rows(run).tpot_s == pytest.approx([0.91 / 9])


def test_tokens_counted_before_the_end_are_said(tmp_path: Path) -> None:
    run = one(written(tmp_path / REQUESTS, [row(n, end_time=n + 1.5) for n in range(3)]))
    assert "E2E ends 0.5 s after the last token" in said(run)


def test_nothing_completed_is_that_many_failures(tmp_path: Path) -> None:
    listed = one(written(tmp_path / REQUESTS, [failed(n) for n in range(4)]))
    null = {"count": 0, "latency": None, "output_len": None, "output_tokens": None}
    whole = one(written(tmp_path / "a.json", aggregate(0, 4, successes=null)))
    for run in (listed, whole):
        assert (run.counts.attempted, run.counts.completed, run.counts.failed) == (4, 0, 4)
        assert run.doubted == {}
        assert run.streaming is None
