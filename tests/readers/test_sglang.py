"""The SGLang reader: the tool's own aggregates, the server's log, every known trap, broken files."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gate.errors import InputError
from gate.model import Aggregate, Load, Requests, Run, Status, Why
from gate.readers import claim, companions, knows, runs_of, sglang
from gate.readers.source import Source
from tests.conftest import FIXTURES
from tests.readers import forks
from tests.readers.forks import notes, objects, rows, source, written

HERE = FIXTURES / "sglang"
TYPICAL = HERE / "typical" / "result.jsonl.gz"
# E2E is rebuilt as TTFT + gaps; the tool's own runs on to the last line of the stream.
# On the loaded machine of these files that is 0.1 % of a mean and at most 0.6 % of a percentile.
REBUILT = {"e2e": 6e-3, "tpot": 6e-3}


def read(path: Path, *, gaps: bool = False) -> list[Run]:
    return forks.read(sglang, path, gaps=gaps)


def one(folder: Path, content: object, *, gaps: bool = False) -> Run:
    (run,) = read(written(folder, content, "result.jsonl"), gaps=gaps)
    return run


def detailed(**changed: Any) -> dict[str, Any]:
    """Four requests, all well: TTFT 0.1, 0.2, 0.3, 0.4 s; 4 gaps of 0.1 s, a token each."""
    base = {
        "backend": "sglang-oai-chat",
        "dataset_name": "random",
        "request_rate": float("inf"),
        "max_concurrency": 2,
        "sharegpt_output_len": None,
        "random_range_ratio": 0.0,
        "duration": 2.0,
        "completed": 4,
        "total_output_tokens": 20,
        "total_output_tokens_retokenized": 20,
        "mean_e2e_latency_ms": 650.0,
        "input_lens": [10] * 4,
        "output_lens": [5] * 4,
        "ttfts": [0.1, 0.2, 0.3, 0.4],
        "itls": [[0.1] * 4] * 4,
        "errors": [""] * 4,
    }
    return forks.without(base, changed)


def aggregate(**changed: Any) -> dict[str, Any]:
    base = detailed(**dict.fromkeys(("input_lens", "output_lens", "ttfts", "itls", "errors"), ...))
    for metric, ms in {"ttft": 100.0, "tpot": 20.0, "itl": 21.0, "e2e_latency": 900.0}.items():
        base |= {f"mean_{metric}_ms": ms, f"median_{metric}_ms": ms, f"p99_{metric}_ms": 2 * ms}
    return forks.without(base, changed)


# ---- the tool's own aggregates --------------------------------------------------------------------


def assert_line(said: dict[str, Any], run: Run, at_least: int) -> None:
    assert forks.assert_statistics(said, run, REBUILT) >= at_least
    mean_ms = float(forks.values(run)["e2e"].mean()) * 1000
    assert mean_ms == pytest.approx(said["mean_e2e_latency_ms"], rel=1.1e-3)
    assert mean_ms < said["mean_e2e_latency_ms"]
    assert forks.assert_reported(said, run) > 0
    assert (run.counts.completed, run.counts.attempted) == (said["completed"], len(said["errors"]))
    r = rows(run)
    assert r.output_tokens is not None
    assert r.output_tokens[r.status == Status.COMPLETED].sum() == said["total_output_tokens"]
    assert run.duration_s is not None
    assert run.counts.completed / run.duration_s == pytest.approx(said["request_throughput"], rel=forks.EXACT)


@pytest.mark.parametrize("case", ["typical", "failures", "appended", "requested_length"])
def test_columns_reproduce_the_tools_own_aggregates(case: str) -> None:
    path = HERE / case / "result.jsonl.gz"
    for said, run in zip(objects(path), read(path, gaps=True), strict=True):
        assert_line(said, run, 24)


def test_every_shared_result_reproduces_the_tools_own_aggregates(shared: Path) -> None:
    seen = 0
    for path in sorted((shared / "results").glob("sglang-*/*/result.jsonl")):
        for said, run in zip(objects(path), read(path, gaps=True), strict=True):
            if isinstance(run.evidence, Requests):
                assert_line(said, run, 24)
                seen += 1
            else:
                assert forks.assert_reported(said, run) > 0
                assert run.counts.completed == said["completed"]
                assert run.total_output_tokens == said["total_output_tokens"]
    assert seen >= 6


def test_throughput_is_the_tools() -> None:
    (said,), (run,) = objects(TYPICAL), read(TYPICAL)
    assert run.total_output_tokens is not None
    assert run.duration_s is not None
    assert run.total_output_tokens / run.duration_s == pytest.approx(
        said["output_throughput"], rel=forks.EXACT
    )


def test_goodput_is_the_tools_by_its_own_bounds_over_all_sent() -> None:
    """57 of 150 sent, 14 of them failed: the tool's own numbers in the file."""
    path = HERE / "failures" / "result.jsonl.gz"
    (said,), (run,) = objects(path), read(path)
    assert said["goodput_slos_ms"] == {"ttft": 100.0, "tpot": 8.0, "e2el": 450.0}
    assert forks.good(run, said["goodput_slos_ms"]) == 57 == round(said["slo_attainment"] * 150)
    assert "38.0% of all sent (ttft 100 ms, tpot 8 ms, e2el 450 ms)" in notes(run)
    assert "over attempted requests" in notes(run)
    assert run.counts.attempted == 150


def test_the_rebuilt_e2e_says_how_much_it_lacks() -> None:
    """The tool's mean is 425.399 ms, TTFT + gaps 425.233 ms (the format notes measured both)."""
    (run,) = read(TYPICAL)
    e2e_s = rows(run).e2e_s
    assert e2e_s is not None
    assert e2e_s.mean() * 1000 == pytest.approx(425.233, abs=1e-3)
    assert "0.166 ms later on average" in notes(run)
    assert run.doubted == {}


# ---- the server's own log -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case", ["a_clean_chat", "b_errors_chat", "e_goodput_errors_chat", "h_eos_default_usage"]
)
def test_attempted_and_failed_are_what_the_server_saw(shared: Path, case: str) -> None:
    """One request warms the server up: it is in the server's log only."""
    folder = shared / "results/sglang-0.5.23" / case
    truth = Counter(json.loads(line)["status"] for line in (folder / "truth.jsonl").read_text().splitlines())
    (run,) = read(folder / "result.jsonl")
    assert run.counts.completed == truth[200] - 1
    assert run.counts.failed == truth[500] + truth["aborted"]


def test_a_request_is_measured_as_the_server_measured_it(shared: Path) -> None:
    folder = shared / "results/sglang-0.5.23/a_clean_chat"
    truth = [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()][1:]
    (run,) = read(folder / "result.jsonl")
    r = rows(run)
    for column, name in ((r.ttft_s, "ttft_s"), (r.e2e_s, "e2e_s"), (r.tpot_s, "tpot_s")):
        assert column is not None
        server = np.median([row[name] for row in truth])
        assert np.median(column) == pytest.approx(server, abs=0.015)  # two loaded cores lie between


# ---- failures -------------------------------------------------------------------------------------


def test_an_aborted_row_is_a_failure_although_it_has_a_ttft() -> None:
    path = HERE / "failures" / "result.jsonl.gz"
    (said,), (run,) = objects(path), read(path)
    aborted = [i for i, (e, t) in enumerate(zip(said["errors"], said["ttfts"], strict=True)) if e and t > 0]
    assert len(aborted) == 3
    assert (rows(run).status[aborted] == Status.FAILED).all()
    assert "engine overloaded" in notes(run)


def test_a_response_without_a_first_token_is_a_failure_although_the_tool_believes_it(tmp_path: Path) -> None:
    run = one(tmp_path, detailed(ttfts=[0.1, 0.2, 0.3, 0.0]))
    assert (run.counts.completed, run.counts.failed) == (3, 1)
    assert "the tool counts 4 completed, slo-gate 3" in notes(run)


@pytest.mark.parametrize("case", ["old/result.jsonl", "aggregate/result.jsonl"])
def test_failures_are_unknowable_in_an_aggregate_line(case: str) -> None:
    """The server of `old` failed 7 of 100: the line says completed 93 and nothing more."""
    (said,), (run,) = objects(HERE / case), read(HERE / case)
    assert run.counts.attempted == run.counts.completed == said["completed"]
    assert "nor how many failed" in run.doubted["error_rate"]
    assert "--output-details" in run.doubted["error_rate"]


def test_goodput_in_an_aggregate_line_gives_the_number_sent(tmp_path: Path) -> None:
    """57 good in 10 s are 38 % of all sent: 150 were sent, 136 completed."""
    told = {"request_goodput": 5.7, "slo_attainment": 0.38, "duration": 10.0, "completed": 136}
    run = one(tmp_path, aggregate(**told, total_output_tokens=5265, total_output_tokens_retokenized=5265))
    assert (run.counts.attempted, run.counts.failed) == (150, 14)
    assert "error_rate" not in run.doubted
    with pytest.raises(InputError, match="contradicts itself: 160 completed of 150 sent"):
        one(tmp_path, aggregate(**{**told, "completed": 160}))


def test_a_line_without_completed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="how many requests completed"):
        one(tmp_path, aggregate(completed=...))


def test_zero_completed_states_no_latency(tmp_path: Path) -> None:
    run = one(tmp_path, aggregate(completed=0, total_output_tokens=0))
    assert (run.counts.attempted, run.counts.completed) == (0, 0)
    assert run.evidence == Aggregate({}, settled_by="--output-details")


@pytest.mark.parametrize(
    "changed",
    [
        {"completed": 3},
        {"completed": 5},
        {"ttfts": [0.1, 0.2, 0.3]},
        {"errors": [""] * 5},
        {"itls": [[0.1]]},
        {"input_lens": [1]},
        {"duration": -1.0},
    ],
)
def test_a_file_that_contradicts_itself_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="contradicts itself"):
        one(tmp_path, detailed(**changed))


def test_arrays_of_different_length_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ttfts 4, output_lens 4.*errors 3"):
        one(tmp_path, detailed(errors=[""] * 3))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"output_lens": [5, 5, 5, -1]}, "negative token count"),
        ({"itls": [[0.1] * 4] * 3 + [[-0.1]]}, "gap between chunks"),
        ({"itls": ...}, "no `itls`"),
        ({"errors": ...}, "no `errors`"),
        ({"p99_ttft_ms": -5.0}, "negative time for TTFT"),
        ({"median_ttft_ms": 9.0, "p99_ttft_ms": 5.0}, "a higher percentile of TTFT is lower"),
        ({"request_rate": 0.0}, "sends nothing"),
    ],
)
def test_what_nothing_measures_is_refused(tmp_path: Path, changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        one(tmp_path, detailed(**changed))


# ---- output tokens that are not counts ------------------------------------------------------------


def test_requested_lengths_are_no_token_counts() -> None:
    """5779 tokens were requested, 5101 came: the tool's TPOT of 9.17 ms is under its ITL of 10.43 ms."""
    path = HERE / "requested_length" / "result.jsonl.gz"
    (said,), (run,) = objects(path), read(path)
    assert "5779 are claimed, the texts have 5101" in run.doubted["tpot"]
    assert {of for doubt in run.doubts if doubt.requests is None for of in doubt.of} == {"tpot"}
    # An end before the requested length looks like an error inside the stream.
    halves = [len(gaps) + 1 < n / 2 for gaps, n in zip(said["itls"], said["output_lens"], strict=True)]
    assert [(doubt.code, doubt.requests) for doubt in run.doubts if doubt.requests is not None] == [
        (Why.CUT_ROWS, sum(halves))
    ]
    assert run.total_output_tokens == 5101  # else throughput would count tokens that never came
    assert rows(run).output_tokens is not None
    assert np.sum(rows(run).output_tokens) == 5779  # suspicion changes no column


def test_a_token_mismatch_in_an_aggregate_makes_tpot_unsuitable(tmp_path: Path) -> None:
    """SGLang #10746: 8192 counted, 4000 in the texts."""
    tokens = {"total_output_tokens": 8192, "total_output_tokens_retokenized": 4000}
    run = one(tmp_path, aggregate(**tokens))
    assert "8192 are claimed, the texts have 4000" in run.doubted["tpot"]
    assert "8192 were requested" in notes(run)
    near = one(tmp_path, aggregate(total_output_tokens=1000, total_output_tokens_retokenized=951))
    assert "tpot" not in near.doubted


def test_a_chunk_for_every_token_proves_the_counts(tmp_path: Path) -> None:
    run = one(tmp_path, detailed(total_output_tokens_retokenized=10))
    assert "tpot" not in run.doubted
    assert "the file counts 20, its texts have 10" in notes(run)


def test_responses_cut_short_keep_the_length_they_were_asked_for(tmp_path: Path) -> None:
    """A stream that ends early, or with an error in band, is a success of the requested length."""
    run = one(tmp_path, detailed(itls=[[0.1] * 4] * 3 + [[0.1]], mean_e2e_latency_ms=575.0))
    assert "25.0% of the responses" in run.doubted["tpot"]
    assert run.counts.completed == 4


def test_several_tokens_in_a_chunk_are_no_suspicion(tmp_path: Path) -> None:
    """13 tokens in four chunks: TPOT 75 ms, gaps 300 ms; ITL never stands in for TPOT."""
    row = {
        "ttfts": [0.1] * 4,
        "itls": [[0.3] * 3] * 4,
        "output_lens": [13] * 4,
        "mean_e2e_latency_ms": 1000.0,
    }
    run = one(
        tmp_path,
        detailed(**row, total_output_tokens=52, total_output_tokens_retokenized=52),
        gaps=True,
    )
    assert run.doubted == {}
    assert rows(run).tpot_s == pytest.approx([0.075] * 4)
    gaps = rows(run).gaps
    assert gaps is not None
    assert set(gaps.values_s.tolist()) == {0.3}


# ---- definitions and suspicion --------------------------------------------------------------------


def test_gaps_that_begin_with_the_ttft_lose_it(tmp_path: Path) -> None:
    """SGLang #1005: as many gaps as tokens, the first being the TTFT; E2E must not hold it twice."""
    run = one(tmp_path, detailed(itls=[[t, 0.1, 0.1, 0.1, 0.1] for t in (0.1, 0.2, 0.3, 0.4)]), gaps=True)
    assert rows(run).e2e_s == pytest.approx([0.5, 0.6, 0.7, 0.8])
    gaps = rows(run).gaps
    assert gaps is not None
    assert gaps.values_s.tolist() == [0.1] * 16
    assert "4 rows begin their gaps with the TTFT" in notes(run)


def test_gaps_are_decoded_only_when_they_are_wanted() -> None:
    assert rows(read(TYPICAL)[0]).gaps is None
    gaps = rows(read(TYPICAL, gaps=True)[0]).gaps
    (said,) = objects(TYPICAL)
    assert gaps is not None
    assert np.diff(gaps.offsets).tolist() == [len(row) for row in said["itls"]]


def test_an_e2e_far_above_the_rebuilt_one_makes_it_unsuitable(tmp_path: Path) -> None:
    run = one(tmp_path, detailed(mean_e2e_latency_ms=975.0))  # rebuilt: 650 ms
    assert set(run.doubted) == {"e2e", "tpot"}
    assert "50.0% longer" in run.doubted["e2e"]


def test_everything_in_one_chunk_is_not_measurable(tmp_path: Path) -> None:
    """--disable-stream, or a parser that buffers: 20 tokens, no gaps."""
    row = {"itls": [[]] * 4, "output_lens": [20] * 4, "mean_e2e_latency_ms": 250.0}
    run = one(tmp_path, detailed(**row, total_output_tokens=80, total_output_tokens_retokenized=80))
    assert run.streaming is False
    assert set(run.doubted) == {"ttft", "tpot", "itl"}
    assert run.counts.completed == 4


def test_a_non_streaming_aggregate_is_not_judged(tmp_path: Path) -> None:
    odd = {"mean_tpot_ms": 0.02, "median_tpot_ms": 0.02, "p99_tpot_ms": 0.03, "median_e2e_latency_ms": 101.0}
    run = one(tmp_path, aggregate(**odd))
    assert run.streaming is False
    assert {"ttft", "tpot", "itl"} <= set(run.doubted)


def test_single_tokens_have_no_tpot(tmp_path: Path) -> None:
    run = one(tmp_path, aggregate(total_output_tokens=4, total_output_tokens_retokenized=4))
    assert "one token" in run.doubted["tpot"]


def test_a_percentile_of_zero_is_no_measurement(tmp_path: Path) -> None:
    assert "exactly 0" in one(tmp_path, aggregate(median_ttft_ms=0.0)).doubted["ttft"]


def test_speculative_decoding_is_said_to_change_the_tools_itl(tmp_path: Path) -> None:
    assert "speculative decoding" in notes(one(tmp_path, detailed(accept_length=2.5)))
    assert "speculative decoding" not in notes(one(tmp_path, detailed(accept_length=None)))


def test_an_embedding_run_keeps_its_e2e_and_says_that_no_token_was_made(tmp_path: Path) -> None:
    """Its rows have a TTFT of 0, no gaps and the requested length."""
    row = {
        "backend": "sglang-embedding",
        "ttfts": [0.0] * 4,
        "itls": [[]] * 4,
        "errors": ["", "", "", "HTTP 500"],
    }
    told = {"median_e2e_latency_ms": 640.0, "total_output_tokens_retokenized": 0, "completed": 3}
    run = one(tmp_path, detailed(**row, **told))
    assert (run.counts.attempted, run.counts.failed) == (4, 1)
    assert isinstance(run.evidence, Aggregate)
    assert run.evidence.summaries["e2e"].percentiles == ((50.0, 0.64),)
    assert "no output token was made" in run.doubted["e2e"]


# ---- loads and several runs -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "cap", "load"),
    [
        (float("inf"), 6, Load(concurrency=6)),
        (float("inf"), None, Load(burst=True)),
        ("inf", 6, Load(concurrency=6)),  # the Rust client
        ("trace", 6, Load(burst=True)),
        (20.0, None, Load(request_rate=20.0)),
        (20, 4, Load(request_rate=20.0, cap=4)),
        (1e9, 128, Load(concurrency=128)),
        (..., 6, Load(concurrency=6)),
        (..., None, None),
        ("nan", 6, None),
    ],
)
def test_the_load_is_a_rate_else_a_cap_else_a_burst(
    tmp_path: Path, rate: Any, cap: int | None, load: Load | None
) -> None:
    assert one(tmp_path, detailed(request_rate=rate, max_concurrency=cap)).load == load


def test_each_appended_line_is_a_run_with_its_own_load() -> None:
    runs = read(HERE / "appended" / "result.jsonl.gz")
    assert [run.load for run in runs] == [Load(concurrency=6), Load(concurrency=3)]
    assert [run.counts.completed for run in runs] == [60, 60]


def test_five_rates_in_a_file_stay_apart(shared: Path) -> None:
    runs = read(shared / "public-results/sglang/003_online_5rates.jsonl")
    rates = [run.load.request_rate for run in runs if run.load]
    assert rates == [1.0, 2.0, 4.0, 8.0, 16.0, 4.0, 8.0]
    slow = [i for i, run in enumerate(runs) if "did not keep up" in notes(run)]
    assert slow == [4]  # 3200 requests in 383 s are 8.35 req/s of 16
    assert "8.35 req/s" in notes(runs[4])


def test_bare_infinity_and_medians_alone_are_read(shared: Path) -> None:
    """TPOT is not in the file, and ITL never stands in for it."""
    runs = read(shared / "public-results/sglang/001_offline_inf_concat.jsonl")
    assert len(runs) == 7
    for run in runs:
        assert run.load == Load(burst=True)
        assert isinstance(run.evidence, Aggregate)
        assert [p for p, _ in run.evidence.summaries["ttft"].percentiles] == [50.0]
        assert "no percentile of TPOT" in run.doubted["tpot"]
    assert runs[0].tool_reported["ttft"].percentiles == ((50.0, 91.28220983641222),)


def test_a_client_that_could_not_send_fast_enough_is_told(tmp_path: Path) -> None:
    """100 requests at 100 req/s need 1 s; 3 s passed and the longest took 0.5 s."""
    changed: dict[str, Any] = {"completed": 100, "request_rate": 100.0, "duration": 3.0, "input_lens": ...}
    changed |= {
        "ttfts": [0.1] * 100,
        "itls": [[0.1] * 4] * 100,
        "output_lens": [5] * 100,
        "errors": [""] * 100,
    }
    changed |= {
        "total_output_tokens": 500,
        "total_output_tokens_retokenized": 500,
        "mean_e2e_latency_ms": 500.0,
    }
    run = one(tmp_path, detailed(**changed))
    assert "the client sent at most 40 req/s of the 100 req/s asked for" in notes(run)


def test_a_baseline_nested_under_metrics_is_read(shared: Path) -> None:
    """1277 at 9.729 req/s are 131.25 s; spec decode: ITL 191.8 ms, TPOT 24.49 ms."""
    (run,) = read(shared / "public-results/sglang/006_together_baseline_wrapped.json")
    assert (run.model, run.hardware, run.load) == (
        "nvidia/DeepSeek-R1-0528-FP4",
        "8xb200",
        Load(concurrency=128),
    )
    assert run.counts.completed == 1277
    assert run.duration_s == pytest.approx(1277 / 9.729394580036088)
    assert run.date == "2026-06-12"
    assert isinstance(run.evidence, Aggregate)
    assert dict(run.evidence.summaries["tpot"].percentiles) == pytest.approx(
        {50: 0.0244925, 99: 0.0364742}, rel=1e-5
    )
    assert "error_rate" in run.doubted


def test_a_baseline_without_a_count_is_refused(tmp_path: Path) -> None:
    content = {"hw": "b200", "framework": "sglang", "conc": 1, "isl": 1, "osl": 1, "metrics": {}}
    with pytest.raises(InputError, match="how many requests completed"):
        one(tmp_path, content)


def test_the_model_is_in_the_servers_own_words(tmp_path: Path) -> None:
    assert one(tmp_path, detailed(server_info={"model_path": "m/x", "version": "1"})).model == "m/x"
    assert one(tmp_path, detailed(server_info=None)).model is None


# ---- which files, and broken ones -----------------------------------------------------------------


def test_only_sglangs_own_files_are_claimed(shared: Path) -> None:
    claimed = forks.claimed(sglang, shared)
    assert all("sglang" in name.split("/")[1] for name in claimed)
    assert len(claimed) == 7 + 3


def test_an_empty_file_is_claimed_by_nobody_and_holds_no_run() -> None:
    path = HERE / "empty" / "result.jsonl"
    assert not knows(sglang, source(path))
    with pytest.raises(InputError, match="holds no run"):
        runs_of(sglang, source(path))


def test_no_line_covers_another() -> None:
    assert companions(sglang, [source(TYPICAL)]) == {}


@pytest.mark.parametrize("share", [0.001, 0.1, 0.3, 0.5, 0.8, 0.95, 0.999])
def test_a_file_cut_anywhere_is_an_input_error(tmp_path: Path, share: float) -> None:
    whole = gzip.decompress(TYPICAL.read_bytes())
    path = tmp_path / "cut.jsonl"
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(InputError):
        claim(source(path))
    with pytest.raises(InputError):
        runs_of(sglang, source(path))  # as --tool sglang would


def test_a_second_line_cut_short_is_an_input_error_not_one_run_less(tmp_path: Path) -> None:
    whole = gzip.decompress((HERE / "appended" / "result.jsonl.gz").read_bytes())
    path = tmp_path / "cut.jsonl"
    path.write_bytes(whole[:-5000])
    with pytest.raises(InputError, match="ends in the middle"):
        read(path)


def test_a_truncated_file_is_an_input_error() -> None:
    with pytest.raises(InputError, match="ends in the middle"):
        claim(Source(HERE / "truncated" / "result.jsonl", "result.jsonl"))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    base=st.sampled_from([detailed(), aggregate()]),
    changed=forks.changes(*aggregate(), *detailed(), "slo_attainment", "request_goodput", "server_info",
                          "goodput_slos_ms", "accept_length", "metrics"),
    gaps=st.booleans(),
)  # fmt: skip
def test_any_field_missing_or_of_another_type_is_an_input_error_or_a_consistent_run(
    tmp_path: Path, base: dict[str, Any], changed: dict[str, Any], gaps: bool
) -> None:
    path = written(tmp_path, forks.without(base, changed), "result.jsonl")
    forks.assert_input_error_or_consistent(sglang, path, gaps=gaps)
