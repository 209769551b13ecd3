"""The gate on real files: counts against the server's own log, percentiles against numpy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Process


def check(slo_gate: Process, *arguments: object) -> tuple[int, dict[str, Any]]:
    done = slo_gate("check", *arguments, "--json", "-")
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


def results(folder: Path) -> Path:
    return next(folder.glob("*.json"))


def test_a_run_with_errors_is_counted_as_the_server_counted_it(shared: Path, slo_gate: Process) -> None:
    folder = shared / "results" / "vllm-0.33.0" / "b_errors_chat"
    truth = [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()]
    code, report = check(slo_gate, results(folder), "--preset", "chat")
    counts = report["runs"][0]["counts"]
    assert counts["attempted"] + counts["warmup"] == len(truth)
    assert code in (1, 4)  # never green with 9 % of requests failing
    raw = json.loads(results(folder).read_text())
    kept = np.argsort(np.array(raw["start_times"]), kind="stable")[6:-6]  # warmup: auto at concurrency 6
    failed = int(sum(bool(raw["errors"][i]) for i in kept))
    assert (counts["warmup"], counts["failed"]) == (12, failed)
    misses = {one["id"]: one["misses"] for one in report["objectives"]}
    assert all(misses[name] >= failed for name in ("ttft.p99", "tpot.p99", "e2e.p99", "goodput"))
    assert report["goodput"]["misses"]["failed"] == failed


def test_percentiles_match_numpy_inverted_cdf_to_the_last_digit(
    shared: Path, slo_gate: Process, tmp_path: Path
) -> None:
    (tmp_path / "slo.yaml").write_text(
        "version: 1\nslo: {ttft: {p99: 1s}, tpot: {p99: 1s}, e2e: {p99: 9s}}\n"
    )
    path = results(shared / "results" / "vllm-0.33.0" / "b_errors_chat")
    _, report = check(slo_gate, path, "--policy", "slo.yaml")
    raw = json.loads(path.read_text())
    ok = np.array([not error for error in raw["errors"]])
    ttft, e2e = np.array(raw["ttfts"])[ok], np.array(raw["latencies"])[ok]
    tpot = (e2e - ttft) / (np.array(raw["output_lens"])[ok] - 1)
    for name, column in (("ttft_s", ttft), ("e2e_s", e2e), ("tpot_s", tpot)):
        for percent in (50, 90, 99):
            expected = np.percentile(column, percent, method="inverted_cdf")
            assert report["metrics"][name][f"p{percent}"] == expected


NEVER_GREEN = [
    ("public-results/vllm/002_all_requests_failed_v0251.json", (1, 4)),
    ("public-results/vllm/014_infx_zero_completed_640.json", (1, 4)),
    ("public-results/vllm/021_serving_log_text.log", (3,)),
    ("public-results/vllm/023_no_completed_no_duration.json", (3, 4)),
    ("public-results/aiperf/006_all_failed_32_jsonl.jsonl", (1, 4)),
    ("public-results/k6/003_status_only.json", (3,)),
    ("public-results/mlperf/009_empty_summary.txt", (3,)),
]


@pytest.mark.parametrize(("name", "codes"), NEVER_GREEN)
@pytest.mark.parametrize("decide", ["confident", "point"])
def test_what_holds_no_success_never_passes(
    name: str, codes: tuple[int, ...], decide: str, shared: Path, slo_gate: Process, tmp_path: Path
) -> None:
    policy = f"version: 1\nundecided: allow\nslo: {{ttft: {{p99: 10s}}}}\nevidence: {{decide: {decide}}}\n"
    (tmp_path / "slo.yaml").write_text(policy)
    done = slo_gate("check", shared / name, "--policy", "slo.yaml")
    assert done.returncode in codes
    assert done.returncode != 1 or done.stdout.startswith("FAIL")
    assert "Traceback" not in done.stderr


def test_a_non_streaming_run_never_passes_a_ttft_bound(
    shared: Path, slo_gate: Process, tmp_path: Path
) -> None:
    policy = "version: 1\nslo: {ttft: {p50: 60s}}\nevidence: {decide: point}\n"
    (tmp_path / "slo.yaml").write_text(policy)
    for name in ("aiperf-0.13.0", "genai-perf-0.0.16"):
        artifacts = shared / "results" / name / "nonstream" / "artifacts"
        code, report = check(slo_gate, artifacts, "--policy", "slo.yaml")
        assert code == 4
        assert report["objectives"][0]["cause"] == "evidence"


def test_a_sweep_is_judged_at_its_target_and_its_other_loads_are_shown(
    shared: Path, slo_gate: Process
) -> None:
    folder = shared / "results" / "vllm-0.33.0" / "sweep"
    _, report = check(slo_gate, folder, "--preset", "chat")
    assert report["verdict"] == "inconclusive"  # four loads and no target
    assert report["goodput"] is None
    assert [point["load"] for point in report["loads"]] == [{"concurrency": c} for c in (4, 8, 16, 24)]
    assert [point["runs"] for point in report["loads"]] == [8, 8, 30, 8]
