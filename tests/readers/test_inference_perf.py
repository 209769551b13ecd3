"""The inference-perf reader against the tool's own aggregates, the server's log."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate.model import Aggregate, Load, Run, Status
from tests.readers.inference_perf_results import (
    HERE,
    REQUESTS,
    STAGE,
    one,
    raw,
    read,
    rows,
    said,
)

CASES = ["typical", "failures", "stages"]
SHARED = ["chat_clean", "chat_errors", "goodput_errors", "multi_stage"]
PERCENTS = {f"p{p:g}": p for p in (0.1, 1, 5, 10, 25, 75, 90, 95, 99, 99.9)} | {"median": 50}
ITS_OWN = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "itl": "inter_token_latency",
    "e2e": "request_latency",
}


def folder(request: pytest.FixtureRequest, name: str) -> Path:
    if name in CASES:
        return HERE / name
    return request.getfixturevalue("shared") / "results" / "inference-perf-0.7.0" / name / "reports"


def requests_of(where: Path) -> Path:
    return next(p for p in (where / REQUESTS, where / f"{REQUESTS}.gz") if p.exists())


def stages_of(where: Path) -> list[dict[str, Any]]:
    return [raw(path) for path in sorted(where.glob("stage_*_lifecycle_metrics.json"))]


def listed_by_stage(where: Path) -> list[list[dict[str, Any]]]:
    """The raw rows of each stage, in order of start."""
    every, found = sorted(raw(requests_of(where)), key=lambda r: r["start_time"]), []
    for stage in stages_of(where):
        number = stage["load_summary"]["count"]
        found.append(every[:number])
        every = every[number:]
    assert not every
    return found


every_case = pytest.mark.parametrize("name", [*CASES, *SHARED])


# ---- conformance ----------------------------------------------------------------------------------


def the_tools_values(run: Run, listed: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Our columns under the tool's definitions, over completed requests of two tokens or more."""
    r = rows(run)
    assert r.tpot_s is not None
    assert r.e2e_s is not None
    assert r.ttft_s is not None
    assert r.output_tokens is not None
    assert r.gaps is not None
    done = r.status == Status.COMPLETED
    last = [row["info"]["response_metrics"]["chunk_times"][-1] for row in listed if row["error"] is None]
    end = [row["end_time"] for row in listed if row["error"] is None]
    steps = r.output_tokens[done] - 1
    tail_s = np.array(end) - np.array(last)  # end_time is taken after the answer is tokenised
    assert (tail_s >= 0).all()
    return {
        "request_latency": r.e2e_s[done],
        "time_to_first_token": r.ttft_s[done],
        "time_per_output_token": (r.tpot_s[done] * steps - tail_s) / steps,
        "inter_token_latency": r.gaps.values_s[np.repeat(done, np.diff(r.gaps.offsets))],
    }


@every_case
def test_columns_reproduce_every_statistic_of_the_tool(request: pytest.FixtureRequest, name: str) -> None:
    where, compared = folder(request, name), 0
    runs, stages = read(requests_of(where), gaps=True), stages_of(where)
    for run, stage, listed in zip(runs, stages, listed_by_stage(where), strict=True):
        values = the_tools_values(run, listed)
        for tag, stat in stage["successes"]["latency"].items():
            if tag not in values:
                continue  # normalised TPOT: E2E / tokens
            found = {"mean": values[tag].mean(), "min": values[tag].min(), "max": values[tag].max()}
            found |= {key: np.percentile(values[tag], percent) for key, percent in PERCENTS.items()}
            for key, value in found.items():
                assert value == pytest.approx(stat[key], rel=1e-9, abs=1e-12), (tag, key)
                compared += 1
        tokens = rows(run).output_tokens
        assert tokens is not None
        done = tokens[rows(run).status == Status.COMPLETED]
        assert np.percentile(done, 90) == pytest.approx(stage["successes"]["output_len"]["p90"])
    assert compared == 4 * 14 * len(stages)


@every_case
def test_counts_and_throughput_are_the_tools(request: pytest.FixtureRequest, name: str) -> None:
    where = folder(request, name)
    for run, stage in zip(read(requests_of(where)), stages_of(where), strict=True):
        counts, throughput = run.counts, stage["successes"]["throughput"]
        assert (counts.completed, counts.failed) == (stage["successes"]["count"], stage["failures"]["count"])
        assert run.duration_s is not None
        assert run.total_output_tokens is not None
        assert counts.completed / run.duration_s == pytest.approx(throughput["requests_per_sec"], rel=1e-12)
        each = run.total_output_tokens / run.duration_s
        assert each == pytest.approx(throughput["output_tokens_per_sec"], rel=1e-12)
        r = rows(run)  # and the window is that of the rows
        assert r.start_s is not None
        assert r.e2e_s is not None
        window_s = (r.start_s + r.e2e_s).max() - r.start_s.min()
        assert window_s == pytest.approx(run.duration_s, rel=1e-9)


@pytest.mark.parametrize("name", ["failures", "goodput_errors"])
def test_goodput_is_the_tools_over_completed_and_said_over_attempted(
    request: pytest.FixtureRequest, name: str
) -> None:
    where = folder(request, name)
    run, (listed,) = one(requests_of(where), gaps=True), listed_by_stage(where)
    values = the_tools_values(run, listed)
    good = values["time_to_first_token"] <= 0.09
    good &= values["time_per_output_token"] <= 0.009
    good &= values["request_latency"] <= 0.55
    told = stages_of(where)[0]["successes"]["goodput_metrics"]
    assert good.sum() == told["good_requests"] == 94
    assert good.mean() * 100 == pytest.approx(told["goodput_percentage"])
    assert "goodput 69.6% (94 of 135 completed requests, by ttft 0.09 s, tpot 0.009 s" in said(run)
    assert "over all 150 attempted it is 62.7%" in said(run)


@every_case
def test_the_aggregate_of_a_stage_states_what_it_holds(request: pytest.FixtureRequest, name: str) -> None:
    where = folder(request, name)
    for number, whole in enumerate(read(requests_of(where))):
        run, told = one(where / STAGE.format(number)), stages_of(where)[number]
        assert isinstance(run.evidence, Aggregate)
        assert (run.counts, run.load, run.model) == (whole.counts, whole.load, whole.model)
        assert (run.duration_s, run.date) == (whole.duration_s, whole.date)
        assert run.total_output_tokens == whole.total_output_tokens
        for metric, tag in ITS_OWN.items():
            stat = told["successes"]["latency"][tag]
            expected = {percent: stat[key] for key, percent in PERCENTS.items()}
            assert dict(run.evidence.summaries[metric].percentiles) == expected
            assert dict(whole.tool_reported[metric].percentiles) == expected
        assert run.doubted == {}


def test_provenance_is_gathered_from_the_files_beside() -> None:
    run = one(HERE / "typical" / f"{REQUESTS}.gz")
    assert (run.tool, run.model, run.load) == ("inference-perf", "mock-model", Load(concurrency=6))
    assert (run.date, run.streaming, run.tool_version) == ("2026-11-29", True, None)
    assert run.doubted == {}


@pytest.mark.parametrize("name", SHARED)
def test_every_request_the_server_saw_is_counted_once(shared: Path, name: str) -> None:
    where = shared / "results" / "inference-perf-0.7.0" / name
    truth = [json.loads(line) for line in (where / "truth.jsonl").read_text().splitlines()]
    runs = read(where / "reports" / REQUESTS)
    assert sum(r.counts.attempted + r.counts.warmup + r.counts.cancelled for r in runs) == len(truth)
    assert sum(r.counts.failed for r in runs) == sum(seen["status"] != 200 for seen in truth)
    tokens = [t for r in runs for t in rows(r).output_tokens[rows(r).status == Status.COMPLETED].tolist()]  # type: ignore[index]
    assert Counter(tokens) == Counter(float(seen["output_tokens"]) for seen in truth if seen["status"] == 200)
