"""The InferenceX reader: seconds without a suffix, hidden failures, lists, agentic rows, broken files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gate.errors import InputError
from gate.model import Aggregate, Counts, Load, Run
from gate.readers import claim, companions, inferencex, knows, runs_of
from tests.conftest import FIXTURES
from tests.readers import forks
from tests.readers.forks import notes, objects, source, written

HERE = FIXTURES / "inferencex"
TYPICAL = HERE / "typical" / "agg_raw.json"
METRICS = {"ttft", "tpot", "itl", "e2e"}


def read(path: Path) -> list[Run]:
    return forks.read(inferencex, path)


def one(folder: Path, content: object, name: str = "agg_x.json") -> Run:
    (run,) = read(written(folder, content, name))
    return run


def fixed(**changed: Any) -> dict[str, Any]:
    base = {
        "hw": "h200",
        "conc": 16,
        "image": "i",
        "model": "m",
        "framework": "vllm",
        "precision": "fp8",
        "is_multinode": False,
        "isl": 1024,
        "osl": 1024,
        "tp": 8,
        "tput_per_gpu": 100.0,
    }
    for metric, seconds in {"ttft": 0.1, "tpot": 0.02, "itl": 0.021, "e2el": 0.9}.items():
        base |= {f"mean_{metric}": seconds, f"median_{metric}": seconds, f"p99_{metric}": 2 * seconds}
    return forks.without(base | {"p99_intvty": 25.0, "std_intvty": 962.0}, changed)


def agentic(**changed: Any) -> dict[str, Any]:
    base = fixed(scenario_type="agentic-coding", num_requests_total=10, num_requests_successful=8)
    base |= {"duration_seconds": 20.0, "output_tput_tps": 100.0, "request_accounting": None}
    return forks.without(base, changed)


def nested(**changed: Any) -> dict[str, Any]:
    """As process_agentic_result.py nests it: 3 of 13 records are warm-up, 2 of the others errors."""
    latency = {
        metric: {"mean": s, "p50": s, "p75": 1.5 * s, "p90": 2 * s, "p95": 3 * s, "std": s}
        for metric, s in {"ttft": 0.1, "tpot": 0.02, "itl": 0.02, "e2el": 0.9}.items()
    }
    base = {
        key: fixed()[key] for key in ("hw", "conc", "model", "framework", "precision", "tp", "is_multinode")
    }
    base |= {
        "num_requests_total": 13,
        "num_requests_successful": 8,
        "request_accounting": {
            "records_total": 13,
            "records_profiled": 8,
            "records_warmup_dropped": 3,
            "records_error_dropped": 2,
            "error_categories": {"HTTPError": 2},
        },
        "request_metrics": {
            "latency": latency,
            "throughput": {"output": {"tokens_per_second": 100.0}, "duration_seconds": 20.0},
        },
    }
    return forks.without(base, changed)


def experiment(**changed: Any) -> dict[str, Any]:
    base = {
        "date": "20260213-135636",
        "model_id": "m",
        "num_prompts": 160,
        "request_rate": "inf",
        "max_concurrency": 16,
        "duration": 200.0,
        "completed": 160,
        "good_completed": None,
        "total_output_tokens": 20480,
        "request_goodput": None,
        "median_ttft": 3.1,
        "p99_ttft": 16.5,
        "median_tpot": 0.14,
        "p99_tpot": 0.19,
    }
    return forks.without(base, changed)


# ---- rows of process_result.py --------------------------------------------------------------------


@pytest.mark.parametrize("case", ["typical", "failures"])
def test_percentiles_are_kept_in_seconds(case: str) -> None:
    (said,), (run,) = objects(HERE / case / "agg_raw.json"), read(HERE / case / "agg_raw.json")
    assert set(run.tool_reported) == METRICS
    for metric, told in run.tool_reported.items():
        name = "e2el" if metric == "e2e" else metric
        assert [p for p, _ in told.percentiles] == [50, 90, 95, 99, 99.9]
        assert [v for _, v in told.percentiles] == [said[f"p{p}_{name}"] for p in (50, 90, 95, 99, "99.9")]
        assert told.mean == said[f"mean_{name}"]


def test_a_row_agrees_with_the_requests_of_its_raw_file(shared: Path) -> None:
    """The raw file has 115 good rows of 120: numpy over them gives what the row states in seconds."""
    folder = shared / "results/inferencex"
    (raw,) = objects(folder / "raw_errors_detailed.json")
    (run,) = read(folder / "agg_raw_errors_detailed.json")
    ttft_s = np.array([t for t, e in zip(raw["ttfts"], raw["errors"], strict=True) if not e])
    assert len(ttft_s) == 115
    for percent, value in run.tool_reported["ttft"].percentiles:
        assert value == pytest.approx(np.percentile(ttft_s, percent), rel=1e-9)


def test_failures_are_invisible_so_nothing_is_judged() -> None:
    """5 of the 120 requests behind `failures` failed: neither file has a number of them."""
    for case in ("typical", "failures"):
        (run,) = read(HERE / case / "agg_raw.json")
        assert run.counts == Counts(0, 0, 0)
        assert run.evidence == Aggregate({}, settled_by="the raw result raw.json")
        assert set(run.doubted) == METRICS | {"error_rate", "attempted"}
        assert "without agg_" in run.doubted["error_rate"]


def test_load_and_provenance_are_the_rows() -> None:
    (run,) = read(TYPICAL)
    assert (run.load, run.model, run.hardware) == (Load(concurrency=16), "mock-model", "8xh200")
    assert "isl 128, osl 48" in notes(run)
    assert "nominal" in notes(run)


def test_gpus_are_counted_on_one_node_only(tmp_path: Path) -> None:
    assert one(tmp_path, fixed(pp=2)).hardware == "16xh200"
    assert one(tmp_path, fixed(is_multinode=True)).hardware == "h200"


def test_zero_is_not_measured(shared: Path, tmp_path: Path) -> None:
    """median_ttft 0.0 meets every bound: it must not be read as a latency."""
    (run,) = read(shared / "public-results/inferencemax/002_agg_mindie_zero_ttft.json")
    assert set(run.tool_reported) == {"tpot"}
    assert "not measured" in run.doubted["ttft"]
    assert "not measured" in run.doubted["e2e"]
    assert run.tool_reported["tpot"].percentiles == ((50.0, 0.02061),)
    assert "ttft" not in one(tmp_path, fixed(mean_ttft=0.0, median_ttft=0.0, p99_ttft=0.0)).tool_reported


def test_interactivity_is_never_a_latency(shared: Path) -> None:
    (said,) = objects(shared / "public-results/inferencemax/001_agg_kimi_conc4.json")
    (run,) = read(shared / "public-results/inferencemax/001_agg_kimi_conc4.json")
    assert said["p99_intvty"] == pytest.approx(1 / said["p99_tpot"])  # the slow tail
    assert dict(run.tool_reported["tpot"].percentiles)[99.0] == said["p99_tpot"]
    assert set(run.tool_reported) == METRICS


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"p99_ttft": -0.1}, "negative time for TTFT"),
        ({"p99_ttft": 0.01}, "a higher percentile of TTFT is lower"),
        ({"p999_ttft": 1.0}, "not between 0 and 100"),
        ({"p99_ttft": "fast"}, "expected a number"),
        ({"conc": -4}, "expected a count"),
    ],
)
def test_what_nothing_measures_is_refused(tmp_path: Path, changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        one(tmp_path, fixed(**changed))


# ---- agentic rows ---------------------------------------------------------------------------------


def test_agentic_rows_know_their_counts_and_no_p99(shared: Path) -> None:
    path = shared / "public-results/inferencemax/003_agg_bmk_list_81.json"
    for said, run in zip(objects(path), read(path), strict=True):
        assert isinstance(run.evidence, Aggregate)
        assert run.counts.attempted == said["num_requests_total"]
        assert run.counts.completed == said["num_requests_successful"]
        assert run.evidence.summaries["ttft"].percentiles == tuple(
            (float(p), said[f"p{p}_ttft"]) for p in (75, 90, 95)
        )
        assert run.total_output_tokens == pytest.approx(said["total_generation_tokens"])
        assert run.duration_s == said["duration_seconds"]
        assert (run.load, run.interaction) == (Load(concurrency=128), "agent")
        assert "mean of each request" in run.doubted["itl"]  # their itl is a copy of tpot
        assert "tpot" not in run.doubted


def test_records_of_the_warm_up_are_neither_failed_nor_attempted(tmp_path: Path) -> None:
    run = one(tmp_path, nested())
    assert run.counts == Counts(attempted=10, completed=8, failed=2, warmup=3)
    assert "2 failed: HTTPError x2" in notes(run)


def test_nested_latencies_are_seconds(tmp_path: Path) -> None:
    run = one(tmp_path, nested())
    assert isinstance(run.evidence, Aggregate)
    assert run.evidence.summaries["ttft"].percentiles == (
        (50, 0.1),
        (75, pytest.approx(0.15)),
        (90, 0.2),
        (95, pytest.approx(0.3)),
    )
    assert (run.duration_s, run.total_output_tokens) == (20.0, 2000.0)


def test_without_accounting_all_that_did_not_succeed_failed(tmp_path: Path) -> None:
    run = one(tmp_path, agentic())
    assert run.counts == Counts(10, 8, 2)
    assert "warm-up" in notes(run)


@pytest.mark.parametrize(
    "content",
    [agentic(num_requests_successful=11), nested(num_requests_total=9), agentic(duration_seconds=-1.0)],
)
def test_a_row_that_contradicts_itself_is_refused(tmp_path: Path, content: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="contradicts itself"):
        one(tmp_path, content)


# ---- the experiment in seconds --------------------------------------------------------------------


def test_seconds_in_a_vllm_shaped_file_are_not_milliseconds(shared: Path) -> None:
    """median_ttft 3.138 is 3138 ms: under a bound of 500 ms it must fail, not pass."""
    (run,) = read(shared / "public-results/vllm/018_token_position_seconds.json")
    assert isinstance(run.evidence, Aggregate)
    assert run.evidence.summaries["ttft"].percentiles == (
        (50.0, 3.1382447043433785),
        (99.0, 16.56180969102308),
    )
    assert run.counts == Counts(160, 160, 0)
    assert run.load == Load(concurrency=16)
    assert run.date == "2026-02-13"
    assert run.total_output_tokens == 20480
    assert run.duration_s is not None
    assert 20480 / run.duration_s == pytest.approx(95.41597717158848)


def test_prompts_that_did_not_complete_are_failures(tmp_path: Path) -> None:
    run = one(tmp_path, experiment(completed=150))
    assert run.counts == Counts(160, 150, 10)
    assert "10 of 160 prompts did not complete" in notes(run)
    with pytest.raises(InputError, match="contradicts itself: 161 requests completed of 160"):
        one(tmp_path, experiment(completed=161))


def test_its_goodput_is_of_completed(tmp_path: Path) -> None:
    """0.4 req/s over 200 s are 80 of 160."""
    assert "50.0% of its completed" in notes(one(tmp_path, experiment(request_goodput=0.4)))


# ---- what covers what -----------------------------------------------------------------------------


def test_a_summary_is_not_counted_beside_its_raw_file(tmp_path: Path) -> None:
    agg = source(written(tmp_path, fixed(), "agg_x.json"))
    assert companions(inferencex, [agg]) == {}
    raw = {"model_id": "m", "num_prompts": 4, "median_ttft_ms": 100.0, "median_tpot_ms": 20.0}
    written(tmp_path, raw, "x.json")
    assert "a summary of x.json" in companions(inferencex, [agg])[agg]
    written(tmp_path, {**raw, "median_ttft_ms": 101.0}, "x.json")  # another run under that name
    assert companions(inferencex, [source(tmp_path / "agg_x.json")]) == {}


def test_a_list_and_its_rows_are_counted_once(tmp_path: Path) -> None:
    first, second = fixed(conc=4), fixed(conc=8)
    both = source(written(tmp_path, [first, second], "agg_bmk.json"))
    singles = [source(written(tmp_path, row, f"agg_{row['conc']}.json")) for row in (first, second)]
    assert list(companions(inferencex, [both, *singles])) == [both]
    assert list(companions(inferencex, [both, singles[0]])) == [singles[0]]
    assert [run.load for run in read(tmp_path / "agg_bmk.json")] == [Load(concurrency=4), Load(concurrency=8)]


# ---- which files, and broken ones -----------------------------------------------------------------


def test_only_inferencexs_own_files_are_claimed(shared: Path) -> None:
    """Its raw results have vLLM's shape and are read by that reader."""
    assert forks.claimed(inferencex, shared) == {
        "results/inferencex/agg_raw_completions.json",
        "results/inferencex/agg_raw_errors_detailed.json",
        "public-results/inferencemax/001_agg_kimi_conc4.json",
        "public-results/inferencemax/002_agg_mindie_zero_ttft.json",
        "public-results/inferencemax/003_agg_bmk_list_81.json",
        "public-results/vllm/018_token_position_seconds.json",
    }
    for name in ("raw_completions_detailed.json", "raw_errors_detailed.json"):
        assert claim(source(shared / "results/inferencex" / name)).NAME == "vllm"


def test_an_empty_list_is_claimed_by_nobody_and_holds_no_row() -> None:
    path = HERE / "empty" / "agg_bmk.json"
    assert not knows(inferencex, source(path))
    with pytest.raises(InputError, match="holds no run"):
        runs_of(inferencex, source(path))


def test_a_truncated_file_is_an_input_error() -> None:
    with pytest.raises(InputError, match="ends in the middle"):
        claim(source(HERE / "truncated" / "agg_raw.json"))


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.99])
def test_a_list_cut_anywhere_is_an_input_error(tmp_path: Path, share: float) -> None:
    whole = json.dumps([fixed(), agentic()])
    path = written(tmp_path, whole[: int(len(whole) * share)], "agg_bmk.json")
    with pytest.raises(InputError):
        runs_of(inferencex, source(path))


def test_a_list_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no row of InferenceX"):
        read(written(tmp_path, [fixed(), {"hw": "x"}]))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    base=st.sampled_from([fixed(), agentic(), nested(), experiment()]),
    changed=forks.changes(*fixed(), *agentic(), *nested(), *experiment()),
)
def test_any_field_missing_or_of_another_type_is_an_input_error_or_a_consistent_run(
    tmp_path: Path, base: dict[str, Any], changed: dict[str, Any]
) -> None:
    forks.assert_input_error_or_consistent(inferencex, written(tmp_path, forks.without(base, changed)))
    rows = [fixed(), forks.without(base, changed)]
    forks.assert_input_error_or_consistent(inferencex, written(tmp_path, rows, "agg_bmk.json"))
