"""What a reviewer and a user turned green that must not be: each input with its right verdict."""

from __future__ import annotations

import gzip
import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate import policy, readers
from gate.errors import InputError
from gate.evaluate import evaluate
from gate.evaluate.repeats import repeats
from gate.model import Report, Verdict
from tests.conftest import FIXTURES, ROOT
from tests.runs import make_requests

LOOSE = (
    "slo: {ttft: {p50: 60s}, tpot: {p50: 60s}, e2e: {p50: 60s}}\n"
    "goodput: {min: 50%}\nlimits: {error_rate: {max: 99%}}\n"
)
POINT = "evidence: {decide: point}\n"


def judge(text: str, *paths: Path) -> Report:
    loaded = policy.parse(f"version: 1\nname: p\n{text}".encode(), "slo.yaml")
    return evaluate(loaded, readers.read([str(path) for path in paths]).runs, date(2026, 11, 29))


def sweep(folder: Path, n: int, **changes: Any) -> list[Path]:
    """Real runs at 16, each with what `changes` makes of its document."""
    paths = []
    for number in range(1, n + 1):
        document = json.loads(
            gzip.decompress((ROOT / "examples/chat/good" / f"c016_run{number:02}.json.gz").read_bytes())
        )
        for key, change in changes.items():
            document[key] = change(document) if callable(change) else change
        paths.append(folder / f"{number:02}.json")
        paths[-1].write_text(json.dumps(document))
    return paths


def aggregate(folder: Path, **changes: Any) -> Path:
    document = json.loads(next((FIXTURES / "vllm" / "aggregate").glob("*.json")).read_text())
    path = folder / "aggregate.json"
    path.write_text(json.dumps({**document, **changes}))
    return path


def test_the_real_runs_pass_this_loose_policy(tmp_path: Path) -> None:
    assert judge(LOOSE, *sweep(tmp_path, 10)).verdict is Verdict.PASS


ARRAYS = (
    "input_lens",
    "output_lens",
    "ttfts",
    "itls",
    "latencies",
    "start_times",
    "queue_times",
    "generated_texts",
    "errors",
)


def test_rows_that_vanished_are_not_successes(tmp_path: Path) -> None:
    cut: dict[str, Any] = {key: (lambda document, key=key: document[key][:96]) for key in ARRAYS}
    paths = sweep(tmp_path, 10, **cut, completed=96)
    assert judge(LOOSE, *paths).verdict is Verdict.INCONCLUSIVE
    report = judge(LOOSE.replace("max: 99%", "max: 10%"), *paths)  # 240 of 1200 may have failed
    assert report.verdict is Verdict.INCONCLUSIVE
    assert any("120 requests were asked for and 96" in check.reason for check in report.checks)


@pytest.mark.parametrize(("completed", "failed"), [(60, 0), (1, 0), (20, 1)])
def test_prompts_without_an_outcome_are_not_successes(tmp_path: Path, completed: int, failed: int) -> None:
    path = aggregate(tmp_path, num_prompts=120, completed=completed, failed=failed, latencies=None)
    assert judge(LOOSE + POINT, path).verdict is not Verdict.PASS


def test_more_completed_than_were_asked_for_is_a_contradiction(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contradicts itself"):
        judge(LOOSE, aggregate(tmp_path, num_prompts=20, completed=500, failed=0, latencies=None))


def test_completed_requests_without_one_token_are_no_evidence(tmp_path: Path) -> None:
    path = aggregate(tmp_path, total_output_tokens=0, output_throughput=0.0, latencies=None)
    report = judge(LOOSE + POINT, path)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert {check.cause for check in report.checks} == {"evidence"}
    assert all("no output token was made" in check.reason for check in report.checks)


def test_token_counts_that_contradict_the_file_s_total_judge_no_tpot(tmp_path: Path) -> None:
    times: Any = {"output_lens": lambda document: [100 * n for n in document["output_lens"]]}
    report = judge(LOOSE, *sweep(tmp_path, 10, **times))
    tpot = next(check for check in report.checks if check.id == "tpot.p50")
    assert (tpot.verdict, tpot.cause) == (Verdict.INCONCLUSIVE, "evidence")


def test_an_sglang_line_that_hides_its_failures_never_passes() -> None:
    report = judge(LOOSE + POINT, FIXTURES / "sglang" / "aggregate" / "result.jsonl")
    assert report.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    "rule", ["goodput: {min: 100%, request: {ttft: 10s}}\n", "limits: {error_rate: {max: 1%}}\n"]
)
def test_one_request_proves_no_rule_that_is_decided_by_count(tmp_path: Path, rule: str) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text('{"ttft_s": 0.1, "e2e_s": 1.0, "output_tokens": 9, "error": null}\n')
    assert judge(rule, path).verdict is Verdict.INCONCLUSIVE
    path.write_text('{"ttft_s": 0.1, "e2e_s": 1.0, "output_tokens": 9, "error": null}\n' * 100)
    assert judge(rule, path).verdict is Verdict.PASS


def test_a_goodput_whose_bounds_are_about_nobody_is_inconclusive(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"ttft_s": 0.1, "e2e_s": 1.0, "output_tokens": 9, "error": null}\n' * 3000)
    bound = "{e2e: {max: 1ms, when: output_tokens > 100000}}"
    report = judge(f"goodput: {{min: 99%, request: {bound}}}\n", path)
    assert report.verdict is Verdict.INCONCLUSIVE


def test_rows_repeated_with_their_start_are_not_more_requests(tmp_path: Path) -> None:
    rows = [
        {"start_s": i / 10, "ttft_s": 0.1 + i / 1e4, "e2e_s": 1 + i / 1e4, "output_tokens": 9, "error": None}
        for i in range(150)
    ]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows * 20))
    report = judge("slo: {ttft: {p50: 5s}}\n", path)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert any("same start" in check.reason for check in report.checks)


def measured(n: int, seed: int) -> list[dict[str, Any]]:
    """Rows of a harness that keeps no start, timed by a fine clock."""
    ttft = np.random.default_rng(seed).uniform(0.05, 0.15, n)
    return [{"ttft_s": t, "e2e_s": t * 3, "output_tokens": 9, "error": None} for t in ttft.tolist()]


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


P97 = "slo: {ttft: {p97: 250ms}}\n"


def test_five_measurements_pass_where_one_is_too_small(tmp_path: Path) -> None:
    paths = [lines(tmp_path / f"{i}.jsonl", measured(150, i)) for i in range(5)]
    assert judge(P97, paths[0]).verdict is Verdict.INCONCLUSIVE
    assert judge(P97, *paths).verdict is Verdict.PASS


def test_one_measurement_in_another_order_is_not_more_runs(tmp_path: Path) -> None:
    rows = measured(150, 1)
    paths = [lines(tmp_path / f"{i}.jsonl", rows[i * 9 :] + rows[: i * 9]) for i in range(5)]
    report = judge(P97, *paths)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert any("100.0% of the requests of" in check.reason for check in report.checks)


def test_a_copy_without_its_failures_does_not_dilute_them(tmp_path: Path) -> None:
    failed = {"ttft_s": None, "e2e_s": None, "output_tokens": 0, "error": "HTTP 503"}
    whole = lines(tmp_path / "whole.jsonl", [*measured(140, 1), *([failed] * 10)])
    filtered = lines(tmp_path / "filtered.jsonl", measured(140, 1))
    rule = "slo: {ttft: {p50: 60s}}\nlimits: {error_rate: {max: 5%}}\n"
    assert judge(rule, whole).verdict is Verdict.FAIL  # 10 of 150
    assert judge(rule, whole, filtered).verdict is not Verdict.PASS  # 10 of 290


def test_rows_repeated_without_a_start_are_not_more_requests(tmp_path: Path) -> None:
    path = lines(tmp_path / "run.jsonl", measured(150, 1) * 4)
    report = judge(P97, path)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert any("75.0% of the requests of" in check.reason for check in report.checks)


def test_a_clock_of_milliseconds_makes_equal_rows_by_chance(tmp_path: Path) -> None:
    rows = [
        {key: round(v, 3) if isinstance(v, float) else v for key, v in row.items()}
        for row in measured(900, 1)
    ]
    assert judge(P97, lines(tmp_path / "run.jsonl", rows)).verdict is Verdict.PASS


def test_copies_are_found_in_a_sample_of_many_rows() -> None:
    ttft = np.random.default_rng(1).uniform(0.05, 0.15, 200_000)
    rows, other = make_requests(ttft, ttft * 3), make_requests(ttft[::-1] + 1e-9, ttft[::-1] * 3 + 1e-9)
    assert [
        share for _, share in repeats([("a", rows), ("b", make_requests(ttft[::-1], ttft[::-1] * 3))])
    ] == [1.0]
    assert list(repeats([("a", rows), ("b", other)])) == []


def test_rows_of_a_coarse_clock_that_stand_in_another_run_are_told_from_chance() -> None:
    """Tenths of a millisecond over 0.1 x 1.5 s: 400 requests share some 400 x 400 / 1.5 million cells."""

    def rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
        noise = np.random.default_rng(seed)
        return noise.uniform(0.1, 0.2, 400).round(4), noise.uniform(1.0, 2.5, 400).round(4)

    ttft, e2e = rows(1)
    first = ("a", make_requests(ttft, e2e))
    assert [share for _, share in repeats([first, ("b", make_requests(ttft[::-1], e2e[::-1]))])] == [1.0]
    half = make_requests(ttft[::2], e2e[::2])
    assert [share for _, share in repeats([first, ("b", half)])] == [1.0]
    assert list(repeats([first, ("b", make_requests(*rows(2)))])) == []
