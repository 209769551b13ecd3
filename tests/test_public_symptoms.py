"""Symptoms people reported of other tools (the shared BUGS.tsv, by its numbers), with the right behaviour.

Rows that belong to one reader or one output are tested beside it; here are those about the gate as a whole.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate import policy, readers
from gate.errors import InputError
from gate.evaluate import evaluate
from gate.model import Check, Report, Verdict
from tests.conftest import FIXTURES, ROOT

POINT = "evidence: {decide: point}\n"


def judge(text: str, *paths: Path) -> Report:
    loaded = policy.parse(f"version: 1\nname: p\n{text}".encode(), "slo.yaml")
    return evaluate(loaded, readers.read([str(path) for path in paths]).runs, date(2026, 11, 29))


def only(report: Report, name: str) -> Check:
    return next(check for check in report.checks if check.id == name)


def lines(folder: Path, rows: list[dict[str, Any]], name: str = "run.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def ok(ttft_s: float = 0.1, e2e_s: float = 1.0, tokens: int = 100) -> dict[str, Any]:
    return {"ttft_s": ttft_s, "e2e_s": e2e_s, "output_tokens": tokens, "error": None}


FAILED = {"ttft_s": None, "e2e_s": None, "output_tokens": 0, "error": "HTTP 500"}


def unpacked(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def vllm_aggregate(folder: Path, **changes: Any) -> Path:
    document = {
        **json.loads(next((FIXTURES / "vllm" / "aggregate").glob("*.json")).read_text()),
        **changes,
    }
    path = folder / "result.json"
    path.write_text(json.dumps({key: value for key, value in document.items() if value is not ...}))
    return path


def test_b05_tpot_leaves_the_first_token_out(tmp_path: Path) -> None:
    report = judge("slo: {tpot: {p50: 550ms}}\n" + POINT, lines(tmp_path, [ok(1.0, 3.0, 5)] * 10))
    assert report.metrics["tpot_s"] is not None
    assert report.metrics["tpot_s"].p50 == pytest.approx(0.5)  # (3 - 1) / 4, not 3 / 5
    assert only(report, "tpot.p50").verdict is Verdict.PASS


def test_b09_the_servers_token_count_is_used_and_the_other_noted(tmp_path: Path) -> None:
    rows = unpacked(FIXTURES / "inference-perf" / "typical" / "per_request_lifecycle_metrics.json.gz")
    for row in rows:
        metrics = row["info"]["response_metrics"]
        metrics["output_tokens"] = 2 * metrics["server_usage"]["completion_tokens"]
    path = tmp_path / "per_request_lifecycle_metrics.json"
    path.write_text(json.dumps(rows))
    (run,) = readers.read([str(path)]).runs
    expected = sum(row["info"]["response_metrics"]["server_usage"]["completion_tokens"] for row in rows)
    assert run.total_output_tokens == expected
    assert any("output tokens" in note and "is used" in note for note in run.notes)


def test_b10_a_large_token_mismatch_is_never_silent(tmp_path: Path) -> None:
    document = json.loads((FIXTURES / "sglang" / "aggregate" / "result.jsonl").read_text().splitlines()[0])
    document |= {"total_output_tokens": 8192, "total_output_tokens_retokenized": 4000}
    path = tmp_path / "result.jsonl"
    path.write_text(json.dumps(document) + "\n")
    report = judge("slo: {tpot: {p99: 10s}}\n" + POINT, path)
    assert (only(report, "tpot.p99").verdict, only(report, "tpot.p99").cause) == (
        Verdict.INCONCLUSIVE,
        "evidence",
    )


def test_b15_failures_are_in_a_percentile(tmp_path: Path) -> None:
    report = judge("slo: {ttft: {p95: 500ms}}\n" + POINT, lines(tmp_path, [ok()] * 6 + [FAILED] * 250))
    check = only(report, "ttft.p95")
    assert (check.verdict, check.observed, check.misses) == (Verdict.FAIL, None, 250)
    assert check.observed_text == "unbounded"


def test_b16_a_failed_rows_latency_is_in_no_shown_percentile(tmp_path: Path) -> None:
    slow = {**ok(60.0, 61.0), "error": "aborted"}
    report = judge(
        "slo: {ttft: {p90: 500ms}}\nlimits: {error_rate: {max: 2%}}\n" + POINT,
        lines(tmp_path, [ok()] * 99 + [slow]),
    )
    assert report.metrics["ttft_s"] is not None
    assert report.metrics["ttft_s"].max == 0.1
    assert only(report, "error_rate").observed == 0.01


def test_b17_one_completed_of_a_hundred_is_no_improvement(tmp_path: Path) -> None:
    report = judge("slo: {ttft: {p50: 500ms}}\n", lines(tmp_path, [ok()] + [FAILED] * 99))
    assert report.verdict is Verdict.FAIL


def test_b18_requests_that_never_completed_are_failures(shared: Path) -> None:
    (run,) = readers.read(
        [str(shared / "public-results" / "vllm" / "006_completed_lt_num_prompts.json")]
    ).runs
    assert (run.counts.attempted - run.counts.completed, run.counts.completed) == (run.counts.failed, 1885)
    assert run.counts.failed == 675  # 2560 prompts


def test_b25_warm_up_records_are_in_no_rate(shared: Path) -> None:
    path = shared / "public-results" / "aiperf" / "010_warmup_and_profiling_jsonl.jsonl"
    phases = [json.loads(line)["metadata"]["benchmark_phase"] for line in path.read_text().splitlines()]
    (run,) = readers.read([str(path)]).runs
    assert run.counts.warmup == phases.count("warmup") > 0
    assert run.counts.attempted + run.counts.cancelled == phases.count("profiling")


def test_b27_an_error_rate_of_zero_means_zero(tmp_path: Path) -> None:
    path = lines(tmp_path, [ok()] * 250 + [FAILED] * 6)
    report = judge("slo: {ttft: {p50: 1s}}\nlimits: {error_rate: {max: 0%}}\n" + POINT, path)
    assert only(report, "error_rate").verdict is Verdict.FAIL


def test_b29_a_negative_ttft_is_a_failure_and_never_a_pass(tmp_path: Path) -> None:
    report = judge("slo: {ttft: {p50: 1s}}\n" + POINT, lines(tmp_path, [ok(-1750878498.066)] * 100 + [ok()]))
    assert report.runs[0].counts.failed == 100
    assert only(report, "ttft.p50").verdict is Verdict.FAIL


@pytest.mark.parametrize("value", ["NaN", "nan", "-nan", "Infinity", "null"])
def test_b30_a_value_that_is_no_number_is_missing_and_never_passes(tmp_path: Path, value: str) -> None:
    path = vllm_aggregate(tmp_path)
    document = json.loads(path.read_text())
    stated = {key for key in document if key.endswith("_ttft_ms")}
    text = json.dumps({key: "@" if key in stated else v for key, v in document.items()})
    path.write_text(text.replace('"@"', value))
    try:
        report = judge("slo: {ttft: {p99: 500ms}}\n" + POINT, path)
    except InputError as error:
        assert error.message
        return
    assert only(report, "ttft.p99").verdict is not Verdict.PASS


def test_b33_genai_perf_and_aiperf_aggregates_are_told_apart() -> None:
    for name in ("aiperf", "genai-perf"):
        for path in (FIXTURES / name / "typical").glob("*.json"):
            assert {run.tool.lower().replace(" ", "-") for run in readers.read([str(path)]).runs} == {name}


def test_b35_a_goodput_rate_is_not_taken_for_a_share(tmp_path: Path) -> None:
    path = vllm_aggregate(tmp_path, request_goodput=8.0)
    report = judge("goodput: {min: 95%, request: {ttft: 1us}}\n" + POINT, path)
    assert only(report, "goodput").verdict is not Verdict.PASS
    assert any("the tool says goodput 8 req/s" in note and "over attempted" in note for note in report.notes)


def test_b36_a_share_under_several_bounds_needs_rows_and_says_which_flag(tmp_path: Path) -> None:
    bounds = "{ttft: 80ms, e2e: 400ms}"
    report = judge(f"goodput: {{min: 95%, request: {bounds}}}\n", vllm_aggregate(tmp_path))
    assert report.exit_code != 0
    assert "--save-detailed" in only(report, "goodput").reason


def test_b43_p99_of_eight_prompts_is_their_maximum(tmp_path: Path) -> None:
    path = lines(tmp_path, [ok(0.1 + i / 100) for i in range(8)])
    assert only(judge("slo: {ttft: {p99: 1s}}\n", path), "ttft.p99").verdict is Verdict.INCONCLUSIVE
    naked = only(judge("slo: {ttft: {p99: 1s}}\n" + POINT, path), "ttft.p99")
    assert "P99 is the slowest one" in naked.reason


# Prints the peak of the memory that belongs to the process alone; mapped pages of the file do not count.
PEAK = """
import sys, threading
peak, done = 0, threading.Event()
def watch():
    global peak
    while not done.wait(0.005):
        text = open("/proc/self/status").read()
        peak = max(peak, int(text.split("RssAnon:")[1].split()[0]) * 1024)
thread = threading.Thread(target=watch); thread.start()
from gate.cli import run
run(sys.argv[1:])
done.set(); thread.join()
sys.stderr.write(str(peak))
"""


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs Linux's own count of memory")
def test_b45_memory_is_bounded_by_columns_not_by_the_file(tmp_path: Path) -> None:
    packed = next((FIXTURES / "aiperf" / "typical").glob("*.jsonl.gz")).read_bytes()
    row = json.loads(gzip.decompress(packed).split(b"\n")[0]) | {"padding": "x" * 6000}
    (tmp_path / "slo.yaml").write_text("version: 1\nslo: {e2e: {p50: 9s}}\n" + POINT)
    peaks = []
    for rows in (6_000, 24_000):  # 44 and 174 MB: both are mapped
        path = tmp_path / f"{rows}.jsonl"
        path.write_text((json.dumps(row) + "\n") * rows)
        command = [sys.executable, "-c", PEAK, "check", path.name, "--policy", "slo.yaml", "--format", "json"]
        done = subprocess.run(
            command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
        )
        assert json.loads(done.stdout)["runs"][0]["counts"]["attempted"] == rows
        peaks.append(int(done.stderr))
    assert peaks[1] - peaks[0] < 18_000 * 1000  # a row of 7,200 bytes may cost some columns, not its text


@pytest.mark.parametrize("name", ["k6/001_microservices_summary_export.json", "k6/003_status_only.json"])
def test_b46_to_b48_a_k6_summary_is_refused_with_the_way_out(name: str, shared: Path) -> None:
    with pytest.raises(InputError) as caught:
        readers.read([str(shared / "public-results" / name)])
    assert "generic" in caught.value.hint


def test_b64_an_overage_within_the_noise_is_not_a_fail(tmp_path: Path) -> None:
    # Mean 8.3, standard deviation 3.2, bound 6.0, five runs of 40: P50 above the bound, undecided.
    rng = np.random.default_rng(64)
    paths = [
        lines(tmp_path, [ok(float(v), float(v) + 1) for v in np.abs(rng.normal(m, 3.2, 40))], f"{i}.jsonl")
        for i, m in enumerate((4.0, 9.0, 5.5, 7.5, 6.0))
    ]
    check = only(judge("slo: {ttft: {p50: 6s}}\n", *paths), "ttft.p50")
    assert (check.verdict, check.cause) == (Verdict.INCONCLUSIVE, "undecided")
