"""MLPerf Endpoints: events give its own summary to the nanosecond, and traps stay traps."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate.model import Aggregate, Load, Run, Status, Why
from tests.readers.mlperf_endpoints_files import (
    CASES,
    EVENTS,
    EVERY,
    answer,
    event,
    read,
    rows_of,
    session,
    summary_of,
    typical,
    write,
)

# ---- conformance ----------------------------------------------------------------------------


def assert_reproduces(run: Run, said: dict[str, Any]) -> None:
    """numpy "lower" percentiles, min, max, mean, std (ddof 1), counts and the tool's own window."""
    rows = rows_of(run)
    assert run.counts.attempted == said["n_samples_issued"]
    assert run.counts.failed == said["n_samples_failed"]
    for column, key in ((rows.ttft_s, "ttft"), (rows.e2e_s, "latency")):
        assert column is not None
        values = column[rows.status == Status.COMPLETED] * 1e9
        for percent, expected in said[key]["percentiles"].items():
            got = np.percentile(values, float(percent), method="lower")
            assert got == pytest.approx(expected, abs=1e-3)
        for name, got in (("min", values.min()), ("max", values.max()), ("avg", values.mean())):
            assert got == pytest.approx(said[key][name], rel=1e-12)
        assert values.std(ddof=1) == pytest.approx(said[key]["std_dev"], rel=1e-9)
    assert rows.start_s is not None
    assert rows.e2e_s is not None
    last = int(np.argmax(rows.start_s))
    window = rows.start_s[last] + rows.e2e_s[last] - rows.start_s[0]
    assert (len(rows) - 1) / window == pytest.approx(said["qps"], rel=1e-9)
    assert run.total_output_tokens == said["output_sequence_lengths"]["total"]
    assert run.total_output_tokens / window == pytest.approx(said["tps"], rel=1e-9)


def test_events_give_the_tools_own_summary() -> None:
    assert_reproduces(read(CASES / "typical" / f"{EVENTS}.gz"), typical())


def test_the_shared_run_gives_its_own_summary(shared: Path) -> None:
    folder = shared / "results" / "mlperf-endpoints" / "real_run"
    said = summary_of(folder / "performance" / "result_summary.json")
    assert_reproduces(read(folder / EVENTS), said)


def assert_states(run: Run, said: dict[str, Any]) -> None:
    assert isinstance(run.evidence, Aggregate)
    assert (run.evidence.method, run.evidence.settled_by) == ("linear", EVENTS)
    assert set(run.evidence.summaries) == {"ttft", "tpot", "e2e"}
    for metric, key in (("ttft", "ttft"), ("tpot", "tpot"), ("e2e", "latency")):
        found = run.evidence.summaries[metric]
        expected = sorted((float(p), value / 1e9) for p, value in said[key]["percentiles"].items())
        assert list(found.percentiles) == expected
        assert (found.min, found.max) == (said[key]["min"] / 1e9, said[key]["max"] / 1e9)
        assert found.mean == said[key]["avg"] / 1e9
        assert found.n == sum(said[key]["histogram"]["counts"]) == said["n_samples_completed"]
    assert (run.counts.attempted, run.counts.failed) == (said["n_samples_issued"], said["n_samples_failed"])
    assert run.duration_s == said["duration_ns"] / 1e9
    assert set(run.doubted) == {"itl"}


@pytest.mark.parametrize(
    "name",
    ["typical/performance/result_summary.json", "small/result_summary.json", "old/results_summary.json"],
)
def test_a_summary_gives_its_own_percentiles(name: str) -> None:
    assert_states(read(CASES / name), summary_of(CASES / name))


def test_every_shared_summary_gives_its_own_percentiles(shared: Path) -> None:
    files = list((shared / "results" / "mlperf-endpoints").rglob("result_summary.json"))
    files += (shared / "public-results" / "mlperf_endpoints").glob("*_summary*.json")
    assert len(files) == 4
    for file in files:
        assert_states(read(file), summary_of(file))


def test_the_stated_percentile_never_claims_more_than_the_requests_show() -> None:
    # "lower" takes sorted[floor(0.99 * 799)] = sorted[791]: 792 of 800 are at or below it, 791 below.
    run, rows = (
        read(CASES / "typical" / "performance" / "result_summary.json"),
        rows_of(read(CASES / "typical" / f"{EVENTS}.gz")),
    )
    assert isinstance(run.evidence, Aggregate)
    p99 = dict(run.evidence.summaries["ttft"].percentiles)[99.0]
    assert rows.ttft_s is not None
    assert (rows.ttft_s <= p99).sum() == 792
    assert (rows.ttft_s < p99).sum() == 791


def test_facts_of_the_run_are_read() -> None:
    for name in (f"{EVENTS}.gz", "performance/result_summary.json"):
        run = read(CASES / "typical" / name)
        assert (run.tool, run.tool_version, run.model) == ("MLPerf Endpoints", "0.1.0", "mock-model")
        assert run.load == Load(request_rate=90.0)
        assert run.date is None  # test_started_at is always 0
        assert dict(run.tool_reported["tpot"].percentiles)[99.0] == pytest.approx(0.02148294516)
        assert '"lower"' in run.tool_reported["ttft"].method
        assert "tokens of the text after the first chunk" in run.definitions["tpot"]


# ---- traps ----------------------------------------------------------------------------------


def test_early_stopping_estimates_are_shown_beside_the_percentiles() -> None:
    notes = read(CASES / "typical" / "performance" / "result_summary.json").notes
    assert any("early-stopping P99 instead: TTFT 545.7 ms, TPOT 31.97 ms" in n for n in notes)
    # Under 662 samples there is none: null, which is not a value and not a pass.
    notes = read(CASES / "small" / "result_summary.json").notes
    assert any("TTFT none (under 662 samples)" in note for note in notes)


def test_the_tools_rate_is_over_another_window_and_says_so() -> None:
    notes = read(CASES / "typical" / "performance" / "result_summary.json").notes
    assert any("83.33 req/s is (completed - 1) / 9.589 s" in note for note in notes)


def test_the_public_concurrency_run_is_matched_by_its_concurrency(shared: Path) -> None:
    path = shared / "public-results" / "mlperf_endpoints" / "001_gptoss_interactive_result_summary.json"
    run = read(path)
    assert run.load == Load(concurrency=32)
    assert run.tool_version == "0.1.0 (1eeeb8f)"
    assert isinstance(run.evidence, Aggregate)
    p99 = {metric: dict(found.percentiles)[99.0] for metric, found in run.evidence.summaries.items()}
    assert p99 == pytest.approx({"ttft": 0.111738627, "tpot": 0.012937719855855856, "e2e": 209.926585383})
    assert run.total_output_tokens == 7400661
    assert any("TTFT 112.3 ms" in note for note in run.notes)  # the estimate is above the percentile


def test_the_older_shape_has_no_load_and_its_absurd_tokens_are_not_used(shared: Path) -> None:
    path = shared / "public-results" / "mlperf_endpoints" / "004_stage1_results_summary_v13.json"
    run = read(path)
    assert run.load is None
    assert run.total_output_tokens is None  # 9.2e12 tokens: nanoseconds, not tokens
    assert any("1.278e+09 tokens a sample, which cannot be" in note for note in run.notes)
    assert any("load is not stated" in note for note in run.notes)
    assert isinstance(run.evidence, Aggregate)
    assert dict(run.evidence.summaries["tpot"].percentiles)[99.0] == pytest.approx(0.02619544558171776)


def test_a_digest_beside_an_older_summary_states_load_hardware_and_date() -> None:
    run = read(CASES / "old" / "results_summary.json")
    assert (run.load, run.hardware, run.date) == (Load(concurrency=16), "8x H200", "2026-07-03")


def test_a_digest_of_another_run_states_nothing(tmp_path: Path) -> None:
    for file in (CASES / "old").glob("*.json"):
        shutil.copy(file, tmp_path)
    digest = summary_of(tmp_path / "run_metadata.json") | {"measured_total_requests": 801}
    write(tmp_path, digest, "run_metadata.json")
    run = read(tmp_path / "results_summary.json")
    assert (run.load, run.hardware, run.date) == (None, None, None)


def test_events_have_no_tokens_and_say_where_tpot_is() -> None:
    run = read(CASES / "typical" / f"{EVENTS}.gz")
    assert rows_of(run).output_tokens is None
    assert "result_summary.json alone" in run.doubted["tpot"]
    assert {"ttft", "e2e", "error_rate"}.isdisjoint(run.doubted)


def test_failed_samples_are_counted_by_their_error_and_by_their_silence() -> None:
    run = read(CASES / "failures" / EVENTS)
    # a0, a1, a5 answer; a2 500, a3 closed mid-stream, a4 empty, a6 silent; w0 is warm-up.
    assert (run.counts.attempted, run.counts.completed, run.counts.failed) == (7, 3, 4)
    assert (run.counts.warmup, run.counts.cancelled) == (1, 0)
    rows = rows_of(run)
    done = rows.status == Status.COMPLETED
    assert rows.ttft_s is not None
    assert rows.e2e_s is not None
    assert rows.ttft_s[done] == pytest.approx([0.040, 0.050, 0.140])
    assert rows.e2e_s[done] == pytest.approx([0.100, 0.130, 0.200])
    assert run.duration_s == pytest.approx(0.306 - 0.101)
    (failed,) = [note for note in run.notes if note.startswith("4 failed")]
    assert "HTTPError: 500 Internal Server Error x1" in failed


def test_completed_in_a_summary_contains_the_failed(tmp_path: Path) -> None:
    # The tool emits an error and then a completion: 800 completed with 8 failed are 792.
    run = read(write(tmp_path, typical() | {"n_samples_failed": 8}))
    assert (run.counts.attempted, run.counts.completed, run.counts.failed) == (800, 792, 8)
    assert any("800 completed (failed ones included) and 8 failed" in note for note in run.notes)
    # Their latencies are in the percentiles, so these are no percentiles of completed requests.
    assert {"ttft", "tpot", "e2e"} <= run.doubted.keys()
    assert "800 values stand behind E2E, but 792 requests completed" in run.doubted["e2e"]


def test_samples_that_never_completed_are_failures(tmp_path: Path) -> None:
    run = read(write(tmp_path, typical() | {"n_samples_issued": 810}))
    assert (run.counts.attempted, run.counts.completed, run.counts.failed) == (810, 800, 10)
    assert set(run.doubted) == {"itl"}


@pytest.mark.parametrize("changes", [{"state": "interrupted", "complete": False}, {"complete": False}])
def test_a_run_that_is_not_whole_is_not_judged(tmp_path: Path, changes: dict[str, Any]) -> None:
    run = read(write(tmp_path, typical() | {"n_samples_issued": 810} | changes))
    assert run.doubted.keys() == EVERY | {"throughput"}
    assert "not whole" in run.doubted["e2e"]
    assert run.counts.cancelled == (10 if "state" in changes else 0)


def test_an_interrupted_session_is_not_judged_and_its_open_samples_are_cancelled(tmp_path: Path) -> None:
    text = session(
        *answer("a"), event("sample.issued", 20, "b", ["PromptData", "w"]), event("session.interrupted", 200)
    )
    run = read(write(tmp_path, text, EVENTS))
    assert run.doubted.keys() == EVERY | {"throughput"}
    assert Why.TOOL_SAYS_INVALID in {doubt.code for doubt in run.doubts if "e2e" in doubt.of}
    assert (run.counts.attempted, run.counts.cancelled) == (1, 1)


def test_an_endpoint_that_does_not_stream_has_no_ttft(tmp_path: Path) -> None:
    run = read(write(tmp_path, typical() | {"ttft": {}, "tpot": {}}))
    assert all("did not stream" in run.doubted[metric] for metric in ("ttft", "tpot"))
    assert "model_params.streaming" in run.doubted["ttft"]
    assert run.streaming is False


def test_events_of_an_endpoint_that_does_not_stream_have_no_ttft(tmp_path: Path) -> None:
    silent = [line for line in session(*answer("a")).splitlines(True) if "recv_first" not in line]
    run = read(write(tmp_path, "".join(silent), EVENTS))
    assert "no request has a first token" in run.doubted["ttft"]
    assert {"e2e", "error_rate"}.isdisjoint(run.doubted)  # the text shows that there were tokens
    assert rows_of(run).ttft_s is None
    assert run.counts.completed == 1


def test_answers_in_one_chunk_are_not_judged_by_ttft(tmp_path: Path) -> None:
    run = read(write(tmp_path, session(*answer("a", 149.9, 150), *answer("b", 149.5, 150)), EVENTS))
    assert "came in one piece" in run.doubted["ttft"]
    assert "e2e" not in run.doubted
    block = typical()["latency"]
    run = read(write(tmp_path, typical() | {"ttft": block}))
    assert "came in one piece" in run.doubted["ttft"]


def test_answers_of_one_chunk_have_no_tpot_and_are_missed(tmp_path: Path) -> None:
    content = typical()
    content["tpot"]["histogram"]["counts"][0] -= 1
    run = read(write(tmp_path, content))
    assert "799 values stand behind TPOT, but 800 samples completed" in run.doubted["tpot"]
    assert {"ttft", "e2e"}.isdisjoint(run.doubted)


def test_gaps_are_there_where_every_chunk_was_recorded(tmp_path: Path) -> None:
    first, *rest = answer("a", 50, 150)
    chunks = [event("sample.recv_non_first", at, "a") for at in (70, 110)]
    path = write(tmp_path, session(first, rest[0], *chunks, rest[1], *answer("b")), EVENTS)
    assert "itl" not in read(path).doubted
    gaps = rows_of(read(path, gaps=True)).gaps
    assert gaps is not None
    assert gaps.values_s == pytest.approx([0.020, 0.040])
    assert gaps.offsets.tolist() == [0, 2, 2]
    assert rows_of(read(path)).gaps is None
    assert "stream_all_chunks" in read(CASES / "typical" / f"{EVENTS}.gz", gaps=True).doubted["itl"]
