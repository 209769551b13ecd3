"""Every known trap of vLLM's files: failures, definitions, what must not be judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate.errors import InputError
from gate.model import Aggregate, Load, Status, Why
from tests.readers.vllm_results import (
    HERE,
    TYPICAL,
    aggregate,
    detailed,
    notes,
    objects,
    one,
    read,
    rows,
)

# ---- failures -------------------------------------------------------------------------------------


def test_an_aborted_row_is_a_failure_although_it_has_a_ttft() -> None:
    (said,), (run,) = objects(HERE / "failures" / "result.json"), read(HERE / "failures" / "result.json")
    aborted = [i for i, (e, t) in enumerate(zip(said["errors"], said["ttfts"], strict=True)) if e and t > 0]
    assert len(aborted) == 5
    assert (rows(run).status[aborted] == Status.FAILED).all()
    assert "10 failed: Internal Server Error x5" in notes(run)


def test_a_row_without_tokens_is_a_failure_although_it_has_no_error(tmp_path: Path) -> None:
    """HTTP errors are recorded by their reason phrase, which a server may leave empty."""
    run = one(
        tmp_path,
        detailed(
            ttfts=[0, 0.2, 0.3, 0.4],
            output_lens=[0, 5, 5, 5],
            latencies=[0, 0.6, 0.7, 0.8],
            completed=3,
            failed=1,
        ),
    )
    assert run.counts.failed == 1


def test_rows_the_tool_believes_but_that_have_no_first_token_are_failures(tmp_path: Path) -> None:
    """vLLM #5895: success=True with TTFT 0. One of four requests is real; the median TTFT is not 0."""
    run = one(
        tmp_path,
        detailed(
            ttfts=[0, 0, 0, 0.132],
            output_lens=[0, 0, 0, 50],
            itls=[[], [], [], [0.01] * 49],
            latencies=...,
            failed=...,
            total_output_tokens=50,
        ),
    )
    assert (run.counts.completed, run.counts.failed) == (1, 3)
    assert "the tool counts 4 completed, slo-gate 1" in notes(run)


@pytest.mark.parametrize("ttft", [None, float("nan"), -1.0, 0.0])
def test_a_missing_negative_or_zero_ttft_is_a_failure(tmp_path: Path, ttft: float | None) -> None:
    run = one(tmp_path, detailed(ttfts=[0.1, 0.2, 0.3, ttft]))
    assert (run.counts.completed, run.counts.failed) == (3, 1)


def test_zero_completed_are_that_many_failures_and_no_latency(shared: Path) -> None:
    public = shared / "public-results" / "vllm"
    for name, attempted in (
        ("002_all_requests_failed_v0251.json", 8),
        ("014_infx_zero_completed_640.json", 640),
    ):
        (run,) = read(public / name)
        assert (run.counts.attempted, run.counts.completed, run.counts.failed) == (attempted, 0, attempted)
        assert run.evidence == Aggregate({}, settled_by="--save-detailed")
        assert run.tool_reported == {}


@pytest.mark.parametrize(
    ("name", "failed", "attempted"),
    [("006_completed_lt_num_prompts.json", 675, 2560), ("012_openshift_2025_05_a.json", 10, 250)],
)
def test_without_a_failed_key_the_missing_prompts_are_failures(
    shared: Path, name: str, failed: int, attempted: int
) -> None:
    (run,) = read(shared / "public-results" / "vllm" / name)
    assert (run.counts.failed, run.counts.attempted) == (failed, attempted)
    assert f"{failed} of {attempted} prompts did not complete" in notes(run)


def test_a_trimmed_file_that_hides_its_counts_is_refused(shared: Path) -> None:
    with pytest.raises(InputError, match="how many requests completed and failed"):
        read(shared / "public-results" / "vllm" / "023_no_completed_no_duration.json")


@pytest.mark.parametrize(
    "changed",
    [
        {"completed": 3},  # more rows completed than it says
        {"completed": 3, "failed": 0},
        {"failed": 2},
        {"completed": 9, "failed": ...},
        {"ttfts": [0.1, 0.2, 0.3]},
        {"errors": [""] * 5},
        {"itls": [], "latencies": ...},
        {"input_lens": [1]},
        {"start_times": [1.0]},
    ],
)
def test_a_file_that_contradicts_itself_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="contradicts itself"):
        one(tmp_path, detailed(**changed))


def test_arrays_of_different_length_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ttfts 4, output_lens 4.*errors 3"):
        one(tmp_path, detailed(errors=[""] * 3))


def test_prompts_that_were_never_sent_may_have_failed(tmp_path: Path) -> None:
    for content in (detailed(num_prompts=9), aggregate(num_prompts=9)):
        (doubt,) = (doubt for doubt in one(tmp_path, content).doubts if doubt.code is Why.LOST_ROWS)
        assert (doubt.of, doubt.requests) == (("attempted",), 5)
        assert "9 requests were asked for and 4 are in the file" in doubt.why


def test_a_token_total_that_differs_is_a_note(tmp_path: Path) -> None:
    assert "the rows sum to 20, the file's total says 40" in notes(
        one(tmp_path, detailed(total_output_tokens=40))
    )
    assert one(tmp_path, detailed(total_output_tokens=21)).notes == ()


# ---- definitions ----------------------------------------------------------------------------------


def test_tpot_leaves_the_first_token_out(tmp_path: Path) -> None:
    """vLLM #17802: TTFT 1 s, E2E 3 s, 5 tokens: 500 ms, not 600."""
    row = detailed(ttfts=[1.0] * 4, latencies=[3.0] * 4, itls=...)
    tpot_s = rows(one(tmp_path, row)).tpot_s
    assert tpot_s is not None
    assert tpot_s.tolist() == [0.5] * 4


def test_tpot_and_itl_differ_when_a_chunk_holds_several_tokens(tmp_path: Path) -> None:
    """vLLM #42661: 13 tokens in four chunks: TPOT 75 ms, gaps 300 ms."""
    row = detailed(
        ttfts=[0.1] * 4,
        latencies=[1.0] * 4,
        itls=[[0.3] * 3] * 4,
        output_lens=[13] * 4,
        total_output_tokens=52,
    )
    r = rows(one(tmp_path, row, gaps=True))
    assert r.tpot_s is not None
    assert r.tpot_s == pytest.approx([0.075] * 4)
    assert r.gaps is not None
    assert set(r.gaps.values_s.tolist()) == {0.3}


def test_gaps_that_begin_with_the_ttft_lose_it(tmp_path: Path) -> None:
    """vLLM #7242: as many gaps as tokens, the first being the TTFT; E2E must not hold it twice."""
    row = detailed(
        itls=[[ttft, 0.1, 0.1, 0.1, 0.1] for ttft in (0.1, 0.2, 0.3, 0.4)], latencies=..., failed=...
    )
    run = one(tmp_path, row, gaps=True)
    r = rows(run)
    assert r.e2e_s == pytest.approx([0.5, 0.6, 0.7, 0.8])
    assert r.gaps is not None
    assert r.gaps.values_s.tolist() == [0.1] * 16
    assert "4 rows begin their gaps with the TTFT" in notes(run)


def test_gaps_are_decoded_only_when_they_are_wanted() -> None:
    assert rows(read(TYPICAL)[0]).gaps is None
    gaps = rows(read(TYPICAL, gaps=True)[0]).gaps
    assert gaps is not None
    (said,) = objects(TYPICAL)
    assert np.diff(gaps.offsets).tolist() == [len(row) for row in said["itls"]]
    assert len(gaps.values_s) == sum(len(row) for row in said["itls"])


def test_old_chat_files_are_said_to_hold_two_gaps_too_many() -> None:
    (run,) = read(HERE / "old_chat" / "result.json.gz")
    assert "role and finish chunks" in notes(run)
    assert "no `latencies`" in run.definitions["e2e"]
    (newer,) = read(HERE / "old_completions" / "result.json.gz")
    assert "role and finish chunks" not in notes(newer)


def test_e2e_is_the_tools_latency_where_there_is_one(tmp_path: Path) -> None:
    run = one(tmp_path, detailed(latencies=[0.9] * 4))  # TTFT + gaps would be 0.5 to 0.8
    e2e_s = rows(run).e2e_s
    assert e2e_s is not None
    assert e2e_s.tolist() == [0.9] * 4


def test_mean_and_median_e2e_of_vllm_0_6_are_swapped_back(tmp_path: Path) -> None:
    """benchmark_serving.py 0.6.3 wrote 321.01, the mean, as the median; fixed in vLLM #9984."""
    old = {"best_of": 1, "burstiness": ..., "max_concurrency": ..., "failed": ..., "p99_e2el_ms": 700.0}
    run = one(tmp_path, aggregate(**old, mean_e2el_ms=319.16, median_e2el_ms=321.01))
    told = run.tool_reported["e2e"]
    assert told.mean == pytest.approx(0.32101)
    assert dict(told.percentiles)[50] == pytest.approx(0.31916)
    newer = one(tmp_path, aggregate(best_of=1, mean_e2el_ms=319.16, median_e2el_ms=321.01))
    assert newer.tool_reported["e2e"].mean == pytest.approx(0.31916)


def test_the_goodput_key_of_vllm_0_7_ends_in_a_colon(tmp_path: Path) -> None:
    run = one(tmp_path, detailed(**{"request_goodput:": 1.0}))
    assert "goodput 1 req/s: 50.0% of its completed" in notes(run)


def test_single_token_rows_have_no_tpot_but_count() -> None:
    (run,) = read(HERE / "single_token" / "result.json")
    tpot_s = rows(run).tpot_s
    assert tpot_s is not None
    assert np.isnan(tpot_s).sum() == 18
    assert run.counts.completed == 80
    assert run.doubted == {}


def test_times_that_were_never_taken_are_no_start(tmp_path: Path) -> None:
    start_s = rows(one(tmp_path, detailed(start_times=[0.0, 100.0, 101.0, 102.0]))).start_s
    assert start_s is not None
    assert np.isnan(start_s[0])
    assert start_s[1:].tolist() == [100.0, 101.0, 102.0]


# ---- what must not be judged ----------------------------------------------------------------------


def test_everything_in_one_chunk_is_not_measurable(tmp_path: Path) -> None:
    """vLLM #28183: 20 tokens, no gaps, TTFT = E2E: TPOT 0 by formula."""
    row = detailed(
        ttfts=[0.5] * 4, latencies=[0.5] * 4, itls=[[]] * 4, output_lens=[20] * 4, total_output_tokens=80
    )
    run = one(tmp_path, row)
    assert run.streaming is False
    assert set(run.doubted) == {"ttft", "tpot", "itl"}
    assert run.counts.completed == 4  # suspicion changes no count


def test_some_responses_in_one_chunk_make_tpot_unjudgeable(tmp_path: Path) -> None:
    run = one(tmp_path, detailed(ttfts=[0.5, 0.2, 0.3, 0.4]))
    assert run.streaming is True
    assert set(run.doubted) == {"tpot", "itl"}
    assert "answers of several tokens that came in one piece, with a TPOT of about 0: 1" in notes(run)


def test_a_long_prefill_before_a_few_tokens_is_streaming(tmp_path: Path) -> None:
    run = one(tmp_path, detailed(ttfts=[5.0] * 4, latencies=[5.04] * 4))  # TPOT 10 ms
    assert (run.streaming, run.doubted) == (True, {})


def test_a_non_streaming_aggregate_is_not_judged(tmp_path: Path) -> None:
    odd = {"mean_tpot_ms": 0.02, "median_tpot_ms": 0.02, "p99_tpot_ms": 0.03}
    blind = {"median_e2el_ms": ..., "mean_e2el_ms": ..., "p99_e2el_ms": ...}
    run = one(tmp_path, aggregate(**odd, median_e2el_ms=101.0))
    assert run.streaming is False
    assert set(run.doubted) == {"ttft", "tpot", "itl"}
    assert "ttft" in one(tmp_path, aggregate(**odd, **blind)).doubted
    assert one(tmp_path, aggregate()).doubted == {}


def test_single_token_outputs_have_no_tpot_percentile(shared: Path) -> None:
    (run,) = read(shared / "public-results/vllm/005_single_token_outputs_otl1.json")
    assert "one token" in run.doubted["tpot"]
    assert "tpot" not in run.tool_reported
    assert isinstance(run.evidence, Aggregate)
    assert set(run.evidence.summaries) == {"ttft"}


def test_a_percentile_of_zero_is_no_measurement(tmp_path: Path) -> None:
    run = one(tmp_path, aggregate(median_ttft_ms=0.0))
    assert "exactly 0" in run.doubted["ttft"]
    assert dict(run.tool_reported["ttft"].percentiles).keys() == {99.0}


def test_a_metric_the_tool_was_not_asked_for_says_how_to_get_it(shared: Path) -> None:
    (run,) = read(shared / "public-results/vllm/001_bench_serve_v0251.json")
    assert "--percentile-metrics" in run.doubted["e2e"]
    assert isinstance(run.evidence, Aggregate)
    assert run.evidence.settled_by == "--save-detailed"


def test_an_embedding_run_keeps_its_e2e_and_says_that_no_token_was_made(tmp_path: Path) -> None:
    """Pooling backends write E2E alone; some versions a total of 0 tokens."""
    streamed = {f"{s}_{m}_ms": ... for s in ("mean", "median", "p99") for m in ("ttft", "tpot", "itl")}
    for tokens in (..., 0):
        run = one(tmp_path, aggregate(**streamed, failed=..., total_output_tokens=tokens))
        assert (run.counts.completed, run.counts.failed) == (4, 0)
        assert isinstance(run.evidence, Aggregate)
        assert dict(run.evidence.summaries["e2e"].percentiles) == {50.0: 0.9, 99.0: 1.8}
        (doubt,) = (doubt for doubt in run.doubts if doubt.code is Why.NO_TOKENS)
        assert {"e2e", "error_rate"} <= set(doubt.of)
        assert "output_tokens: none" in doubt.why


def test_an_error_inside_a_stream_is_said_to_be_hidden(tmp_path: Path) -> None:
    for content in (detailed(), aggregate()):
        assert "inside a 200 stream" in one(tmp_path, content).caveats["error_rate"]


def test_lengths_left_in_an_aggregate_file_show_requests_without_a_token(tmp_path: Path) -> None:
    run = one(tmp_path, aggregate(output_lens=[5, 0, 5, 0]))
    assert (run.counts.attempted, run.counts.completed) == (4, 2)
    assert Why.POPULATION in {doubt.code for doubt in run.doubts}  # percentiles are of all four
    (said,) = (doubt for doubt in one(tmp_path, aggregate(total_output_tokens=3)).doubts)
    assert said.code is Why.NO_TOKENS
    with pytest.raises(InputError, match="different length"):
        one(tmp_path, aggregate(output_lens=[5, 5]))


# ---- aggregates -----------------------------------------------------------------------------------


def test_an_aggregate_file_keeps_every_e2e_without_the_zeros_of_failures() -> None:
    (said,), (run,) = objects(HERE / "aggregate" / "result.json"), read(HERE / "aggregate" / "result.json")
    assert isinstance(run.evidence, Aggregate)
    assert (run.counts.completed, run.counts.failed) == (95, 5)
    e2e = run.evidence.summaries["e2e"]
    latencies = sorted(x for x in said["latencies"] if x)
    for rank, latency in enumerate(latencies):
        percent = 100 * rank / 94
        beside = [p - percent for p, value in e2e.percentiles if value == latency and abs(p - percent) < 1e-8]
        assert min(beside) <= 0 <= max(beside)  # so that either side of a bound is counted exactly
    assert dict(e2e.percentiles)[99.0] == pytest.approx(np.percentile(latencies, 99))
    assert (e2e.n, e2e.min, e2e.max) == (95, latencies[0], latencies[-1])
    ttft = run.evidence.summaries["ttft"]
    assert ttft.percentiles == ((50, said["median_ttft_ms"] / 1000), (99, said["p99_ttft_ms"] / 1000))
    assert ttft.n == 95


def test_latencies_agree_with_the_percentiles_the_tool_states_of_them() -> None:
    for number in (0, 1):
        path = HERE / "sweep" / f"run={number}.json"
        (said,), (run,) = objects(path), read(path)
        assert isinstance(run.evidence, Aggregate)
        percents, points = zip(*run.evidence.summaries["e2e"].percentiles, strict=True)
        assert np.interp(99, percents, points) * 1000 == pytest.approx(said["p99_e2el_ms"], rel=1e-9)


@pytest.mark.parametrize("latencies", [[0.5, 0.6, 0.7], [0.5, 0.6, 0.7, 0.0]])
def test_latencies_that_do_not_fit_the_counts_are_refused(tmp_path: Path, latencies: list[float]) -> None:
    with pytest.raises(InputError, match="contradicts itself"):
        one(tmp_path, aggregate(latencies=latencies))


def test_percentiles_that_fall_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a higher percentile of TTFT is lower"):
        one(tmp_path, aggregate(p99_ttft_ms=50.0))


def test_nan_is_not_a_percentile(tmp_path: Path) -> None:
    run = one(tmp_path, json.dumps(aggregate(p99_ttft_ms=float("nan"))))
    assert dict(run.tool_reported["ttft"].percentiles).keys() == {50.0}


# ---- load and provenance --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "cap", "load"),
    [
        ("inf", 6, Load(concurrency=6)),
        ("inf", None, Load(burst=True)),
        (float("inf"), 6, Load(concurrency=6)),
        (20.0, None, Load(request_rate=20.0)),
        (20, 4, Load(request_rate=20.0, cap=4)),
        ("2.5", None, Load(request_rate=2.5)),
        (1e9, 128, Load(concurrency=128)),
        (..., 6, Load(concurrency=6)),
        (..., None, None),
        ("nan", 6, None),
    ],
)
def test_the_load_is_a_rate_else_a_cap_else_a_burst(
    tmp_path: Path, rate: Any, cap: int | None, load: Load | None
) -> None:
    assert one(tmp_path, json.dumps(detailed(request_rate=rate, max_concurrency=cap))).load == load


def test_a_ramp_is_no_load_point(tmp_path: Path) -> None:
    ramp = {"ramp_up_strategy": "linear", "ramp_up_start_rps": 1, "ramp_up_end_rps": 9}
    run = one(tmp_path, detailed(**ramp))
    assert run.load == Load(burst=True)
    assert "ramps up from 1 to 9 req/s" in notes(run)


def test_the_wait_for_the_client_cap_is_told() -> None:
    (said,), (run,) = objects(HERE / "open_loop" / "result.json"), read(HERE / "open_loop" / "result.json")
    assert said["mean_client_queue_time_ms"] == pytest.approx(6711, abs=1)
    assert "waited 6.71 s on average for the client's cap of 4" in notes(run)
    assert run.load == Load(request_rate=20.0, cap=4)


def test_version_and_hardware_come_from_metadata_only(tmp_path: Path) -> None:
    assert one(tmp_path, detailed()).tool_version is None
    run = one(tmp_path, detailed(vllm_version="0.33.0", gpu="8xH100"))
    assert (run.tool_version, run.hardware, run.model) == ("0.33.0", "8xH100", "m")
