"""The vLLM reader against the tool's own aggregates and the server's log."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate.model import Load, Requests, Run, Status
from tests.readers.vllm_results import (
    HERE,
    notes,
    objects,
    read,
    rows,
)

# E2E without `latencies` is rebuilt; the chat client of 0.7 waited for the usage chunk besides.
REBUILT = {
    "old_chat": 1e-4,
    "old_completions": 1e-6,
    "vllm-0.7.3": 1e-4,
    "vllm-0.9.2": 1e-6,
    "inferencex": 1e-6,
}
EXACT = 1e-12
GOODPUT_MS = {
    "goodput": {"ttft": 500, "tpot": 15, "e2e": 2000},
    "single_token": {"ttft": 100, "tpot": 5},
    "old_chat": {"ttft": 500, "tpot": 15, "e2e": 2000},
    "old_completions": {"ttft": 500, "tpot": 15, "e2e": 2000},
}


# ---- conformance: the tool's own aggregates from our columns --------------------------------------


def values(run: Run) -> dict[str, np.ndarray]:
    """Completed values by metric, as the tool pools them."""
    r = rows(run)
    done = r.status == Status.COMPLETED
    assert r.ttft_s is not None
    assert r.e2e_s is not None
    assert r.tpot_s is not None
    found = {"ttft": r.ttft_s[done], "e2el": r.e2e_s[done], "tpot": r.tpot_s[done & ~np.isnan(r.tpot_s)]}
    if r.gaps is not None:
        ends = r.gaps.offsets
        found["itl"] = np.concatenate(
            [r.gaps.values_s[ends[i] : ends[i + 1]] for i in np.flatnonzero(done)] or [np.zeros(0)]
        )
    return found


def assert_statistics(said: Mapping[str, Any], run: Run, tolerance: float) -> int:
    """Every statistic the file states, rebuilt from our columns; returns how many there were."""
    ours, seen = values(run), 0
    for key, value in said.items():
        found = re.fullmatch(r"(mean|median|std|p([0-9.]+))_(ttft|tpot|itl|e2el)_ms", key)
        if not found or found[3] not in ours:
            continue
        x = ours[found[3]] * 1000
        named = {"mean": x.mean(), "median": np.median(x), "std": x.std()}
        mine = named[found[1]] if found[1] in named else np.percentile(x, float(found[2]))
        slack = tolerance if found[3] in ("tpot", "e2el") else EXACT  # only E2E is rebuilt
        assert mine == pytest.approx(value, rel=slack), key
        seen += 1
    return seen


def assert_totals(said: Mapping[str, Any], run: Run) -> None:
    done = rows(run).status == Status.COMPLETED
    inputs = rows(run).input_tokens
    assert run.counts.completed == said["completed"]
    assert run.counts.failed == said.get("failed", len(said["errors"]) - said["completed"])
    assert run.counts.attempted == len(said["errors"])
    assert run.total_output_tokens == said["total_output_tokens"]
    assert inputs is not None
    assert inputs[done].sum() == said["total_input_tokens"]
    assert run.duration_s is not None
    assert run.counts.completed / run.duration_s == pytest.approx(said["request_throughput"], rel=EXACT)
    assert run.total_output_tokens is not None
    assert run.total_output_tokens / run.duration_s == pytest.approx(said["output_throughput"], rel=EXACT)


def assert_goodput(said: Mapping[str, Any], run: Run, bounds_ms: Mapping[str, float]) -> None:
    """By the tool's rule: of completed requests, a single token counts as TPOT 0, over duration."""
    r = rows(run)
    assert r.tpot_s is not None
    assert r.ttft_s is not None
    assert r.e2e_s is not None
    columns = {"ttft": r.ttft_s, "e2e": r.e2e_s, "tpot": np.nan_to_num(r.tpot_s, nan=0.0)}
    good = r.status == Status.COMPLETED
    for metric, bound in bounds_ms.items():
        good &= columns[metric] * 1000 <= bound
    assert run.duration_s is not None
    stated = said.get("request_goodput", said.get("request_goodput:"))
    assert good.sum() / run.duration_s == pytest.approx(stated, rel=EXACT)
    assert f"{stated:.4g} req/s" in notes(run)


FIXED = {
    "typical/result.json.gz": 24,
    "failures/result.json": 30,
    "goodput/result.json": 30,
    "open_loop/result.json": 18,
    "single_token/result.json": 40,
    "old_chat/result.json.gz": 24,
    "old_completions/result.json.gz": 28,
}


@pytest.mark.parametrize("name", FIXED)
def test_columns_reproduce_the_tools_own_aggregates(name: str) -> None:
    (said,), (run,) = objects(HERE / name), read(HERE / name, gaps=True)
    case = name.split("/")[0]
    assert assert_statistics(said, run, REBUILT.get(case, EXACT)) == FIXED[name]
    assert_totals(said, run)
    if case in GOODPUT_MS:
        assert_goodput(said, run, GOODPUT_MS[case])


def test_each_appended_object_is_a_run_with_its_own_load() -> None:
    runs = read(HERE / "appended" / "result.json")
    for said, run in zip(objects(HERE / "appended" / "result.json"), runs, strict=True):
        assert assert_statistics(said, run, EXACT) == 8
        assert_totals(said, run)
    assert [run.load for run in runs] == [Load(concurrency=6), Load(concurrency=3)]


def test_every_shared_result_reproduces_the_tools_own_aggregates(shared: Path) -> None:
    results = shared / "results"
    paths = [
        p for p in sorted(results.glob("vllm-*/*/*.json*")) if not p.name.startswith(("bench_", "truth"))
    ]
    paths += sorted(results.glob("inferencex/raw_*.json"))
    checked = 0
    for path in paths:
        said_of, runs = objects(path), read(path, gaps=True)
        slack = next((s for part, s in REBUILT.items() if part in str(path)), EXACT)
        bounds = goodput_bounds(path.parent / "command.txt")
        for said, run in zip(said_of, runs, strict=True):
            if isinstance(run.evidence, Requests):
                checked += assert_statistics(said, run, slack)
                assert_totals(said, run)
                if bounds:
                    assert_goodput(said, run, bounds)
    assert checked >= 64 * 24  # 64 runs of the sweep and the regression, 24 statistics each


def goodput_bounds(command: Path) -> dict[str, float]:
    found = re.search(r"--goodput((?: \w+:\d+)+)", command.read_text()) if command.is_file() else None
    pairs = (pair.split(":") for pair in found[1].split()) if found else ()
    return {name.replace("e2el", "e2e"): float(bound) for name, bound in pairs}


def test_the_tools_own_percentiles_are_kept_in_seconds() -> None:
    (said,), (run,) = objects(HERE / "failures" / "result.json"), read(HERE / "failures" / "result.json")
    told = run.tool_reported["e2e"]
    percents = (25, 50, 75, 90, 95, 99, 99.9)
    assert [p for p, _ in told.percentiles] == list(percents)
    assert [v * 1000 for _, v in told.percentiles] == pytest.approx([said[f"p{p}_e2el_ms"] for p in percents])
    assert told.mean == pytest.approx(said["mean_e2el_ms"] / 1000)
    assert told.method.startswith("numpy linear")


# ---- the server's own log -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "trial"),
    [  # the old clients send one trial request first, which is in the server's log only
        ("vllm-0.33.0/a_clean_chat", 0),
        ("vllm-0.33.0/b_errors_chat", 0),
        ("vllm-0.33.0/d_openloop_capped_chat", 0),
        ("vllm-0.33.0/e_goodput_errors_chat", 0),
        ("vllm-0.33.0/f_aggregate_only_errors_chat", 0),
        ("vllm-0.33.0/h_single_token_chat", 0),
        ("vllm-0.7.3/b_errors_chat", 1),
        ("vllm-0.9.2/b_errors_completions", 1),
    ],
)
def test_attempted_and_failed_are_what_the_server_saw(shared: Path, case: str, trial: int) -> None:
    folder = shared / "results" / case
    truth = Counter(json.loads(line)["status"] for line in (folder / "truth.jsonl").read_text().splitlines())
    (path,) = folder.glob("openai*.json")
    (run,) = read(path)
    assert run.counts.attempted == truth.total() - trial
    assert run.counts.completed == truth[200] - trial
    assert run.counts.failed == truth[500] + truth["aborted"]


def test_a_request_is_measured_as_the_server_measured_it(shared: Path) -> None:
    (path,) = (shared / "results/vllm-0.33.0/a_clean_chat").glob("openai*.json")
    tpot_s = rows(read(path)[0]).tpot_s
    assert tpot_s is not None
    assert tpot_s[0] == pytest.approx((0.5137910089999878 - 0.04691595600002074) / 58)  # 59 tokens
    assert tpot_s[0] == pytest.approx(8.04845e-3, rel=1e-3)  # the server's log
