"""The GuideLLM reader against the tool's own aggregates, in every shape it writes, and the server's log."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from gate.model import Aggregate, Load, Run, Status
from gate.readers import companions, guidellm, knows
from tests.readers.guidellm_results import CASES, HERE, SHARED, one, raw, rows, source

PERCENTS = {"p001": 0.1, "p01": 1, "p05": 5, "p10": 10, "p25": 25, "p50": 50, "p75": 75, "p90": 90}
PERCENTS |= {"p95": 95, "p99": 99, "p999": 99.9}
CLOCK_S = 1e-6  # an epoch as a double is 0.24 us coarse; four of them are subtracted


def folder(request: pytest.FixtureRequest, name: str) -> Path:
    if name in CASES:
        return HERE / name
    return request.getfixturevalue("shared") / "results" / "guidellm-0.8.1" / name


def report_of(where: Path) -> Path:
    return next(p for p in (where / "benchmarks.json", where / "benchmarks.json.gz") if p.exists())


def completed(run: Run, column: str) -> np.ndarray:
    values = getattr(rows(run), column)
    assert values is not None
    return values[rows(run).status == Status.COMPLETED]


def inverted_cdf(values: np.ndarray, percent: float, weights: np.ndarray | None = None) -> float:
    """As GuideLLM does it: the first value whose summed probability reaches the percentile.

    The sum of 75 times 1/150 is a little under a half, so that a median can be the 76th of 150.
    """
    weights = np.ones(len(values)) if weights is None else weights
    each, where = np.unique(values, return_inverse=True)
    summed = np.cumsum(np.bincount(where, weights) / weights.sum())
    return float(each[np.argmax(summed >= percent / 100)])


def same(values: np.ndarray, said: dict[str, Any], scale: float, **tolerance: float) -> None:
    """Every statistic the tool states of `values`, each counted once."""
    found = {"mean": values.mean(), "std_dev": values.std(), "min": values.min(), "max": values.max()}
    found |= {"median": inverted_cdf(values, 50)}
    for key, value in found.items():
        assert value * scale == pytest.approx(said[key], **tolerance), key
    for key, percent in PERCENTS.items():
        value = inverted_cdf(values, percent)
        assert value * scale == pytest.approx(said["percentiles"][key], **tolerance), key


every = pytest.mark.parametrize("name", [*CASES, *SHARED])


# ---- conformance ----------------------------------------------------------------------------------


@every
def test_e2e_and_tokens_reproduce_every_statistic_of_the_tool(
    request: pytest.FixtureRequest, name: str
) -> None:
    path = report_of(folder(request, name))
    run, metrics = one(path), raw(path)["benchmarks"][0]["metrics"]
    said = metrics["request_latency"]["successful"]
    same(completed(run, "e2e_s"), said, 1.0, rel=1e-12, abs=1e-12)
    assert len(completed(run, "e2e_s")) == said["count"] == metrics["request_totals"]["successful"]
    same(completed(run, "output_tokens"), metrics["output_token_count"]["successful"], 1.0, rel=1e-12)
    same(completed(run, "input_tokens"), metrics["prompt_token_count"]["successful"], 1.0, rel=1e-12)


@every
def test_ttft_reproduces_every_statistic_of_the_tool(request: pytest.FixtureRequest, name: str) -> None:
    path = report_of(folder(request, name))
    run, said = one(path), raw(path)["benchmarks"][0]
    ttft_s, kept = completed(run, "ttft_s"), said["metrics"]["time_to_first_token_ms"]["successful"]
    if kept["count"] < len(ttft_s):  # those whose first token came before the window began
        begin = said["scheduler_metrics"]["measure_start_time"]
        end = said["scheduler_metrics"]["measure_end_time"]
        measured = [
            r
            for r in said["requests"]["successful"]
            if r["request_end_time"] >= begin and r["request_start_time"] <= end
        ]
        ttft_s = ttft_s[[r["info"]["timings"]["first_token_iteration"] >= begin for r in measured]]
    assert len(ttft_s) == kept["count"]
    same(ttft_s, kept, 1e3, rel=1e-12)


@every
def test_tpot_less_the_wait_for_the_end_is_the_tools_inter_token_latency(
    request: pytest.FixtureRequest, name: str
) -> None:
    path = report_of(folder(request, name))
    run, said = one(path), raw(path)["benchmarks"][0]
    r = rows(run)
    listed = [t for group in ("successful", "errored", "incomplete") for t in said["requests"][group]]
    times = [t["info"]["timings"] for t in listed]
    tail_s = np.array([(t["request_end"] or np.nan) - (t["last_token_iteration"] or np.nan) for t in times])
    assert r.tpot_s is not None
    assert r.output_tokens is not None
    done = r.status == Status.COMPLETED
    steps = (r.output_tokens - 1)[done]
    assert (tail_s[done] >= 0).all()
    theirs_s = (r.tpot_s[done] * steps - tail_s[done]) / steps
    kept = said["metrics"]["inter_token_latency_ms"]["successful"]
    assert steps.sum() == kept["count"]
    assert np.average(theirs_s, weights=steps) * 1e3 == pytest.approx(kept["mean"], abs=CLOCK_S * 1e3)
    for key, percent in PERCENTS.items():
        value = inverted_cdf(theirs_s, percent, steps)
        assert value * 1e3 == pytest.approx(kept["percentiles"][key], abs=CLOCK_S * 1e3), key


@every
def test_counts_and_throughput_are_the_tools(request: pytest.FixtureRequest, name: str) -> None:
    path = report_of(folder(request, name))
    run, said = one(path), raw(path)["benchmarks"][0]
    totals, made = said["metrics"]["request_totals"], said["scheduler_metrics"]["requests_made"]
    assert (run.counts.completed, run.counts.failed) == (totals["successful"], totals["errored"])
    assert run.counts.attempted + run.counts.warmup == made["successful"] + made["errored"]
    assert run.duration_s == said["duration"]
    assert run.total_output_tokens is not None
    rate = run.total_output_tokens / run.duration_s
    told = said["metrics"]["output_tokens_per_second"]["successful"]["mean"]
    # In a window inside the run the tool shares the tokens of requests on its edges out; 0.5.4 always.
    shared_out = bool(run.counts.warmup) or run.tool_version == "0.5.4"
    assert rate == pytest.approx(told, rel=0.015 if shared_out else 1e-12)
    if not run.counts.warmup:
        each = said["metrics"]["requests_per_second"]["successful"]["mean"]
        assert run.counts.completed / run.duration_s == pytest.approx(each, rel=1e-12)


@every
def test_what_the_tool_reports_is_kept_in_seconds(request: pytest.FixtureRequest, name: str) -> None:
    path = report_of(folder(request, name))
    run, metrics = one(path), raw(path)["benchmarks"][0]["metrics"]
    for metric, tag, scale in (
        ("ttft", "time_to_first_token_ms", 1e-3),
        ("tpot", "inter_token_latency_ms", 1e-3),
        ("e2e", "request_latency", 1.0),
    ):
        said = metrics[tag]["successful"]
        expected = {percent: said["percentiles"][key] * scale for key, percent in PERCENTS.items()}
        assert dict(run.tool_reported[metric].percentiles) == pytest.approx(expected)
        assert run.tool_reported[metric].mean == pytest.approx(said["mean"] * scale)
        assert "inverted_cdf" in run.tool_reported[metric].method
    assert "itl" not in run.tool_reported


@pytest.mark.parametrize(
    ("name", "version", "load"),
    [
        ("typical", "0.8.1", Load(concurrency=6)),
        ("old", "0.5.4", Load(concurrency=6)),
        ("rate", "0.8.1", Load(request_rate=12, cap=10240)),
    ],
)
def test_provenance_is_what_the_file_states(name: str, version: str, load: Load) -> None:
    run = one(report_of(HERE / name))
    assert (run.tool, run.tool_version, run.model, run.load) == ("guidellm", version, "mock-model", load)
    assert (run.date, run.streaming, run.format) == ("2026-11-29", True, "guidellm requests")
    assert set(run.doubted) == {"itl"}


# ---- the same run in other shapes -----------------------------------------------------------------


@every
def test_the_csv_states_the_same_percentiles_and_counts(request: pytest.FixtureRequest, name: str) -> None:
    where = folder(request, name)
    run, whole = one(where / "benchmarks.csv"), one(report_of(where))
    assert run.format == "guidellm csv"
    assert isinstance(run.evidence, Aggregate)
    assert run.evidence.method == "inverted_cdf"
    for metric, summary in run.evidence.summaries.items():
        stated, theirs = dict(summary.percentiles), dict(whole.tool_reported[metric].percentiles)
        assert theirs.keys() - stated.keys() == {99.9}  # its lists have min and max, not p50 and p999
        assert all(theirs[percent] == value for percent, value in stated.items())
        assert len(stated) == 10
    assert (run.counts.completed, run.counts.failed) == (whole.counts.completed, whole.counts.failed)
    assert run.counts.warmup == whole.counts.warmup
    assert (run.tool_version, run.model, run.date) == (whole.tool_version, whole.model, whole.date)
    assert run.duration_s == whole.duration_s
    assert run.load is not None
    assert whole.load is not None
    assert run.load.concurrency == whole.load.concurrency
    assert run.load.request_rate == whole.load.request_rate
    assert run.total_output_tokens == pytest.approx(whole.total_output_tokens, rel=5e-3)
    assert set(run.doubted) == {"itl", "tpot"}  # its TPOT percentiles count a request once a token


@pytest.mark.parametrize("name", ["typical", "failures", "warmup", "old"])
def test_the_yaml_is_the_same_report(tmp_path: Path, name: str) -> None:
    path = tmp_path / "benchmarks.yaml"
    path.write_text(yaml.dump(raw(report_of(HERE / name))))  # as its report.py does
    assert knows(guidellm, source(path))
    run, whole = one(path), one(report_of(HERE / name))
    assert run.counts == whole.counts
    assert run.notes == whole.notes
    assert rows(run).ttft_s == pytest.approx(rows(whole).ttft_s, nan_ok=True)
    assert rows(run).e2e_s == pytest.approx(rows(whole).e2e_s, nan_ok=True)


def test_of_one_run_in_three_files_the_json_is_read(tmp_path: Path) -> None:
    for file in ("benchmarks.json.gz", "benchmarks.csv"):
        (tmp_path / file).write_bytes((HERE / "failures" / file).read_bytes())
    (tmp_path / "again.yaml").write_text(yaml.dump(raw(report_of(HERE / "failures"))))  # by its run id
    sources = [source(path) for path in sorted(tmp_path.iterdir())]
    assert all(knows(guidellm, each) for each in sources)
    covered = companions(guidellm, sources)
    assert {each.name for each in covered} == {"benchmarks.csv", "again.yaml"}
    assert set(covered.values()) == {"its requests are in benchmarks.json.gz, which is read"}


def test_two_runs_in_one_folder_are_two_runs(tmp_path: Path) -> None:
    for name in ("typical", "failures"):
        (tmp_path / f"{name}.json.gz").write_bytes((HERE / name / "benchmarks.json.gz").read_bytes())
    assert companions(guidellm, [source(path) for path in sorted(tmp_path.iterdir())]) == {}


# ---- the server's own log -------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHARED)
def test_every_request_the_server_answered_is_counted_once(shared: Path, name: str) -> None:
    where = shared / "results" / "guidellm-0.8.1" / name
    truth = [json.loads(line) for line in (where / "truth.jsonl").read_text().splitlines()]
    run = one(where / "benchmarks.json")
    counts, r = run.counts, rows(run)
    assert counts.attempted + counts.warmup == len(truth)  # it does not log the six that were cut off
    assert counts.cancelled == (6 if name == "duration_warmup" else 0)
    assert counts.failed == sum(seen["status"] != 200 for seen in truth)
    assert r.output_tokens is not None
    answered = r.output_tokens[(r.status == Status.COMPLETED) | (r.status == Status.WARMUP)]
    assert Counter(answered.tolist()) == Counter(
        float(seen["output_tokens"]) for seen in truth if seen["status"] == 200
    )
