"""LoadGen: each known trap of its formats stays one, with the right value."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from gate.errors import InputError
from gate.model import Aggregate, Load, Why
from gate.readers import knows, mlperf, runs_of
from tests.readers.mlperf_logs import (
    CASES,
    DETAIL,
    EVERY,
    SUMMARY,
    TRACE,
    copy,
    edited,
    read,
    said_by,
    source,
)


def test_one_token_answers_leave_the_run_valid_and_its_tpot_unsuitable() -> None:
    said = said_by(CASES / "failures" / DETAIL)
    assert said["result_validity"] == "VALID"
    assert said["result_time_to_output_token_min"] == -74025
    for name in (SUMMARY, DETAIL, f"{TRACE}.gz"):
        run = read(CASES / "failures" / name)
        assert set(run.doubted) == {"itl", "tpot", "error_rate", "attempted"}
        (hidden,) = (doubt for doubt in run.doubts if "attempted" in doubt.of)
        assert (hidden.code, hidden.requests) == (Why.NO_TOKENS, 19)
        assert "19 samples had one token or none" in run.doubted["error_rate"]
        assert any('19 x "Number of tokens need to be greater than 1"' in note for note in run.notes)
    assert "19 samples" in read(CASES / "failures" / DETAIL).doubted["tpot"]


def test_a_summary_with_errors_of_unknown_kind_is_not_judged(tmp_path: Path) -> None:
    copy("failures", tmp_path, SUMMARY)
    run = read(tmp_path / SUMMARY)
    assert set(run.doubted) == EVERY
    assert "19 errors (of unknown kind)" in run.doubted["ttft"]


def test_an_error_of_another_kind_is_named_and_not_judged(tmp_path: Path) -> None:
    line = next(
        line for line in (CASES / "failures" / DETAIL).read_text().splitlines(True) if "error_runtime" in line
    )
    path = edited(tmp_path, DETAIL, ('"num_errors", "value": 0', '"num_errors", "value": 1'))
    other = line.replace("Number of tokens need to be greater than 1", "Ran out of generated queries")
    path.write_text(path.read_text() + other, encoding="utf-8")
    assert "Ran out of generated queries x1" in read(path).doubted["ttft"]


def test_a_run_that_counts_no_tokens_cannot_show_failures(tmp_path: Path) -> None:
    path = edited(
        tmp_path,
        DETAIL,
        ('"requested_use_token_latencies", "value": true', '"requested_use_token_latencies", "value": false'),
    )
    run = read(path)
    assert "no failed requests" in run.doubted["error_rate"]
    hidden = run.doubt("attempted")
    assert hidden is not None, "what failed looks like a fast answer"
    assert hidden.code is Why.FAILURES_HIDDEN


def test_offline_has_neither_ttft_nor_tpot() -> None:
    for name in (SUMMARY, DETAIL):
        run = read(CASES / "offline" / name)
        assert {"ttft", "tpot"} <= run.doubted.keys()
        assert "Offline sends every sample at once" in run.doubted["ttft"]
        assert run.counts.attempted == 660
        assert run.total_output_tokens == 28171
        assert run.duration_s == pytest.approx(11.599654998)


def test_an_interactive_run_is_a_server_run_with_other_bounds(shared: Path) -> None:
    path = shared / "public-results" / "mlperf" / "001_llama2_interactive_summary.txt"
    run = read(path)
    assert "Scenario : Server" in path.read_text()
    assert any("P99 TTFT 450 ms and P99 TPOT 40 ms" in note for note in run.notes)
    assert run.load == Load(request_rate=29.5)
    assert isinstance(run.evidence, Aggregate)
    p99 = {metric: dict(found.percentiles)[99.0] for metric, found in run.evidence.summaries.items()}
    # "Min Time to Output Token" of 5.x and "Min Time per Output Token" of 6.0 are the same.
    assert p99 == pytest.approx({"ttft": 0.435976100, "tpot": 0.039507635, "e2e": 30.354675329})
    assert run.evidence.summaries["tpot"].min == pytest.approx(0.022931448)
    # n is not in a summary: the schedule (29.62/s, at least 600 s) proves 29.615 * 600 + 1 of 24576.
    assert run.counts.attempted == 17770
    assert any("at least 17770" in note for note in run.notes)
    assert run.total_output_tokens is not None
    assert run.duration_s is not None
    assert run.total_output_tokens / run.duration_s == pytest.approx(8840.42, rel=1e-5)


def test_a_real_offline_summary_counts_what_ran_and_not_what_was_asked(shared: Path) -> None:
    # samples_per_query says 245520; whole data sets were sent: 92.1544/s * 2666.829394561 s = 10 * 24576.
    run = read(shared / "public-results" / "mlperf" / "003_llama2_offline_summary.txt")
    assert run.counts.attempted == 245760
    assert any("2 warnings" in note for note in run.notes)


def test_a_real_detail_log_of_5_1_is_read(shared: Path) -> None:
    run = read(shared / "public-results" / "mlperf" / "004_llama2_server_detail.txt")
    assert (run.tool_version, run.date, run.counts.attempted) == ("5.1.0", "2025-07-31", 73728)
    assert isinstance(run.evidence, Aggregate)
    assert dict(run.evidence.summaries["ttft"].percentiles)[99.0] == pytest.approx(1.914647645)
    assert run.evidence.summaries["tpot"].max == pytest.approx(3.298049084)
    assert set(run.doubted) == {"itl"}


def test_a_real_invalid_run_says_why(shared: Path) -> None:
    run = read(shared / "public-results" / "mlperf" / "006_invalid_server_ranging_summary.txt")
    assert set(run.doubted) == EVERY
    assert "TTFT constrain not met" in run.doubted["ttft"]
    assert "350367 more queries" in run.doubted["tpot"]
    assert run.counts.attempted == 884736


def test_an_empty_summary_is_an_aborted_run() -> None:
    file = source(CASES / "empty" / SUMMARY)
    assert knows(mlperf, file)
    with pytest.raises(InputError, match="is empty: the run was aborted"):
        runs_of(mlperf, file)


def test_an_empty_summary_beside_a_trace_is_an_aborted_run(tmp_path: Path) -> None:
    copy("typical", tmp_path, TRACE)
    copy("empty", tmp_path, SUMMARY)
    with pytest.raises(InputError, match=f"{SUMMARY}: is empty: the run was aborted"):
        read(tmp_path / f"{TRACE}.gz")


def test_a_detail_log_without_results_is_an_aborted_run(tmp_path: Path) -> None:
    lines = (CASES / "typical" / DETAIL).read_text().splitlines(True)
    end = next(i for i, line in enumerate(lines) if "result_validity" in line)
    path = tmp_path / DETAIL
    path.write_text("".join(lines[:end]), encoding="utf-8")
    with pytest.raises(InputError, match="the run was aborted"):
        read(path)


def test_the_early_stopping_estimate_of_a_single_stream_is_shown_as_what_it_is() -> None:
    # early_stopping_latency_ss is the TTFT estimate (19032695), not of E2E: the texts are shown, not the key.
    notes = " ".join(read(CASES / "single-stream" / DETAIL).notes)
    assert "TTFT: Processed at least 64 queries (194)" in notes
    assert "estimate: 19032695" in notes


def test_a_system_that_falls_behind_its_schedule_is_noted(tmp_path: Path) -> None:
    path = edited(
        tmp_path,
        SUMMARY,
        ("Completed samples per second    : 101.28", "Completed samples per second    : 60.00"),
    )
    assert any("60 samples/s completed of 103.27 scheduled" in note for note in read(path).notes)


def test_answers_that_do_not_stream_are_not_judged_by_ttft(tmp_path: Path) -> None:
    text = gzip.decompress((CASES / "typical" / f"{TRACE}.gz").read_bytes())
    whole = {
        (m[1], m[2]): m[3]
        for m in re.finditer(rb'"ts":([\d.]+),"args":.*?"issue_start_ns":(\d+),"complete_ns":(\d+)', text)
    }

    def at_the_end(found: re.Match[bytes]) -> bytes:
        done = int(whole[found[1], found[2]]) - int(found[2])
        return b'"ts":%s,"args":{ "issue_delay":%s,"issue_to_done":%d}' % (found[1], found[2], done)

    pattern = rb'"ts":([\d.]+),"args":\{ "issue_delay":(\d+),"issue_to_done":\d+\}'
    (tmp_path / TRACE).write_bytes(re.sub(pattern, at_the_end, text))
    copy("typical", tmp_path, SUMMARY)
    whole_answer = said_by(CASES / "typical" / DETAIL)  # its log states E2E's figures as TTFT's
    log = re.sub(
        r'"result_first_token_(\S+)", "value": \d+',
        lambda m: f'"result_first_token_{m[1]}", "value": {whole_answer[f"result_{m[1]}"]}',
        (CASES / "typical" / DETAIL).read_text(encoding="utf-8"),
    )
    (tmp_path / DETAIL).write_text(log, encoding="utf-8")
    run = read(tmp_path / TRACE)
    assert "came in one piece" in run.doubted["ttft"]
    assert "tpot" in run.doubted
    assert "e2e" not in run.doubted
    assert run.counts.completed == 830


def test_a_sample_without_a_first_token_is_a_failure(tmp_path: Path) -> None:
    lines = gzip.decompress((CASES / "typical" / f"{TRACE}.gz").read_bytes()).splitlines(True)
    first = next(line for line in lines if b"Token_Latency" in line)
    (tmp_path / TRACE).write_bytes(b"".join(line for line in lines if line is not first))
    copy("typical", tmp_path, DETAIL)
    run = read(tmp_path / TRACE)
    assert (run.counts.attempted, run.counts.failed) == (830, 1)


def test_a_trace_without_every_token_count_has_no_tpot_but_says_what_would_settle_it(tmp_path: Path) -> None:
    copy("typical", tmp_path, TRACE, DETAIL)
    path = tmp_path / "mlperf_log_accuracy.json"
    rows = json.loads(gzip.decompress((CASES / "typical" / f"{path.name}.gz").read_bytes()))
    for kept, reason in ((rows[:800], "of 30 of 830 samples"), ([], "is empty")):
        path.write_text(json.dumps(kept, separators=(" , ", " : ")), encoding="utf-8")
        run = read(tmp_path / f"{TRACE}.gz")
        assert reason in run.doubted["tpot"]
        assert "accuracy_log_probability = 1" in run.doubted["tpot"]
        assert {"ttft", "e2e"}.isdisjoint(run.doubted)
        assert run.total_output_tokens == 35567  # by tokens per second, to its digits


def test_samples_without_a_token_failed_although_others_are_not_counted(tmp_path: Path) -> None:
    copy("typical", tmp_path, TRACE, DETAIL)
    path = tmp_path / "mlperf_log_accuracy.json"
    rows = json.loads(gzip.decompress((CASES / "typical" / f"{path.name}.gz").read_bytes()))
    for row in rows[:40]:
        row["token_count"] = 0
    path.write_text(json.dumps(rows[:-1], separators=(" , ", " : ")), encoding="utf-8")
    run = read(tmp_path / f"{TRACE}.gz")
    assert (run.counts.attempted, run.counts.failed) == (830, 40)
