"""llm-d reports: numbers in the unit each metric names, and what a conversion lost is said."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings, strategies as st

from gate import readers
from gate.errors import InputError
from gate.model import Aggregate, Counts, Load, Run, Why
from gate.readers import knows, llmd, runs_of
from gate.readers.source import Source
from tests.conftest import FIXTURES

CASES = FIXTURES / "llm-d"
VLLM = CASES / "typical" / "run_vllmfmt_br_v0_2.yaml"
INFERENCEX = CASES / "typical" / "run_inferencex_br_v0_2.yaml"
GUIDELLM = CASES / "guidellm" / "run_guidellm_br_v0_2.yaml"
OLD = CASES / "old" / "run_inference-perf_br_v0_1.yaml"
FAILURES = CASES / "failures" / "report.yaml"
FORGIVING = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def source(path: Path) -> Source:
    return Source(path, path.name)


def read(path: Path) -> Run:
    (run,) = runs_of(llmd, source(path))
    return run


def evidence(run: Run) -> Aggregate:
    assert isinstance(run.evidence, Aggregate)
    return run.evidence


def document(path: Path = VLLM) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def save(folder: Path, content: Any, name: str = "report.yaml") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    return path


def aggregate(report: Any) -> Any:
    return report["results"]["request_performance"]["aggregate"]


def error_of(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(path)
    return str(caught.value)


# ---- conformance --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run_vllmfmt_br_v0_2.yaml", "run_inferencex_br_v0_2.yaml"])
def test_a_report_gives_the_numbers_of_the_file_it_was_made_from(shared: Path, name: str) -> None:
    run = read(shared / "results" / "llm-d-report" / name)
    raw = json.loads(
        (shared / "results/inferencex/raw_completions_detailed.json").read_text(encoding="utf-8")
    )
    assert run.counts == Counts(raw["num_prompts"], raw["completed"], raw["num_prompts"] - raw["completed"])
    assert run.load == Load(concurrency=raw["max_concurrency"])
    assert run.total_output_tokens == pytest.approx(raw["total_output_tokens"])
    for metric, key in (("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl"), ("e2e", "e2el")):
        summary = evidence(run).summaries[metric]
        assert summary.mean == pytest.approx(raw[f"mean_{key}_ms"] / 1000, rel=1e-12)
        for percent in (90, 95, 99, 99.9):
            assert dict(summary.percentiles)[percent] == pytest.approx(raw[f"p{percent}_{key}_ms"] / 1000)
    assert dict(evidence(run).summaries["tpot"].percentiles)[50] == pytest.approx(
        raw["median_tpot_ms"] / 1000
    )


def test_failures_are_those_of_the_servers_log() -> None:
    run = read(FAILURES)
    assert run.counts == Counts(150, 138, 12)  # the log: 138 answers, 10 x 500, 2 aborted
    assert set(run.doubted) == {"error_rate"}  # it has no configuration, which says whether it may repeat
    assert [doubt.code for doubt in run.doubts] == [Why.RETRIES_UNKNOWN]
    assert "12 failed, as the report says" in run.notes
    assert run.format == "llm-d report 0.2.1"
    assert run.date == "2026-11-29"


def test_a_report_gives_the_numbers_of_inference_perfs_own_summary(shared: Path) -> None:
    reports = shared / "results" / "inference-perf-0.7.0" / "chat_errors" / "reports"
    said = json.loads((reports / "stage_0_lifecycle_metrics.json").read_text(encoding="utf-8"))
    run = read(FAILURES)
    assert (said["successes"]["count"], said["failures"]["count"]) == (
        run.counts.completed,
        run.counts.failed,
    )
    keys = {"tpot": "time_per_output_token", "itl": "inter_token_latency", "e2e": "request_latency"}
    for metric, key in {"ttft": "time_to_first_token", **keys}.items():
        summary, theirs = evidence(run).summaries[metric], said["successes"]["latency"][key]
        assert (summary.mean, summary.min, summary.max) == (theirs["mean"], theirs["min"], theirs["max"])
        assert len(summary.percentiles) == 11
        for percent, value in summary.percentiles:
            assert value == theirs["median" if percent == 50 else f"p{percent:g}"]


def test_every_report_of_the_shared_results_is_read(shared: Path) -> None:
    for path in sorted((shared / "results" / "llm-d-report").iterdir()):
        run = read(path)
        assert run.counts.attempted == run.counts.completed > 0
        for metric, summary in evidence(run).summaries.items():
            values = [value for _, value in summary.percentiles]
            assert values == sorted(values)
            assert 0 < values[-1] < 1, (path, metric)  # every one of these runs answered within a second


# ---- units --------------------------------------------------------------------------------


def test_each_metric_is_in_the_unit_it_names() -> None:
    # GuideLLM's TTFT is in ms and its request latency in s, in the same report.
    summaries = evidence(read(GUIDELLM)).summaries
    assert dict(summaries["ttft"].percentiles)[99] == pytest.approx(0.011686325073242188)
    assert dict(summaries["e2e"].percentiles)[99] == 0.020308971405029297


@pytest.mark.parametrize(("unit", "scale"), [("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)])
def test_the_unit_scales_the_value(tmp_path: Path, unit: str, scale: float) -> None:
    report = document()
    report["results"]["request_performance"]["aggregate"]["latency"] = {
        "time_to_first_token": {"units": unit, "p99": 5.0, "mean": 2.0}
    }
    summary = evidence(read(save(tmp_path, report))).summaries["ttft"]
    assert (summary.percentiles, summary.mean) == (((99.0, 5.0 * scale),), 2.0 * scale)


@pytest.mark.parametrize("unit", [None, "minutes", "ms/request", "MS", "", "tokens/s"])
def test_a_unit_that_is_none_is_refused(tmp_path: Path, unit: str | None) -> None:
    report = document()
    aggregate(report)["latency"]["time_to_first_token"]["units"] = unit
    assert "is no unit of time" in error_of(save(tmp_path, report))


def test_a_ttft_above_the_e2e_shows_that_a_unit_is_wrong(tmp_path: Path) -> None:
    report = document()
    aggregate(report)["latency"]["time_to_first_token"]["units"] = "s"
    assert "a unit is wrong" in error_of(save(tmp_path, report))


def test_the_example_of_the_format_is_read_as_it_says(shared: Path) -> None:
    run = read(shared / "public-results" / "llmd_report" / "001_br_v0_1.yaml")
    assert run.counts == Counts(31, 31, 0, cancelled=1)
    assert (run.model, run.hardware) == ("deepseek-ai/DeepSeek-R1-0528", "1xH100 + 8xH100 + 8xH100")
    # It labels values of some seconds "ms"; a reader has nothing but the label.
    assert dict(evidence(run).summaries["e2e"].percentiles)[90] == pytest.approx(0.00594717199734878)
    assert any("17 requests, but 31 completed" in note for note in run.notes)


def test_the_newest_version_adds_what_is_not_read(shared: Path) -> None:
    run = read(shared / "public-results" / "llmd_report" / "003_br_v0_2_1.yaml")
    assert (run.tool, run.tool_version, run.model) == ("inference-perf", "0.3.0", "Qwen/Qwen3-0.6B")
    assert run.hardware == "16xNVIDIA-H100-80GB-HBM3"  # 8 a replica, two replicas
    assert run.load == Load(request_rate=10.0)
    assert run.counts == Counts(500, 500, 0)
    assert dict(evidence(run).summaries["ttft"].percentiles)[99] == 0.05029489721637218
    assert set(run.doubted) == {"tpot", "itl", "e2e"}  # means only


# ---- what a conversion changes ------------------------------------------------------------


def test_what_guidellm_calls_tpot_is_not_judged() -> None:
    run = read(GUIDELLM)
    # (E2E - TTFT) / 7 of its means is 1.187 ms; the report says 2.442 ms, which is latency / tokens.
    assert run.tool_reported["tpot"].mean == pytest.approx(0.0024421364068984985)
    assert "contains the TTFT" in run.doubted["tpot"]
    assert "one mean a request" in run.doubted["itl"]
    assert evidence(run).method == "inverted_cdf"


@pytest.mark.parametrize("path", [GUIDELLM, VLLM, INFERENCEX, OLD], ids=lambda path: path.stem)
@pytest.mark.parametrize("without", ["scenario", "load", "standardized"])
def test_a_report_that_names_no_tool_proves_no_tpot_and_no_count(
    tmp_path: Path, path: Path, without: str
) -> None:
    report = document(path)
    if without == "scenario":
        del report["scenario"]
    elif without == "load":
        del report["scenario"]["load"]
    else:  # in v0.1 the name stands beside the settings
        load = report["scenario"]["load"]
        load.pop("standardized", None)
        load.pop("name", None)
    run = read(save(tmp_path, report))
    for of in ("tpot", "itl", "attempted", "error_rate"):
        assert run.doubt(of), of
    assert any("does not name the tool" in doubt.why for doubt in run.doubts)


def test_what_inference_perf_writes_itself_is_named_by_its_run() -> None:
    assert not any("does not name the tool" in doubt.why for doubt in read(FAILURES).doubts)


def test_failures_a_vllm_report_of_v0_1_lost_are_not_judged(tmp_path: Path) -> None:
    report = document(OLD)
    report["scenario"]["load"]["name"] = "vllm-benchmark"
    run = read(save(tmp_path, report))
    assert "completed requests only" in run.doubted["error_rate"]


def test_aiperfs_kinds_of_failure_are_not_counts(tmp_path: Path) -> None:
    report = document()
    report["scenario"]["load"]["standardized"]["tool"] = "aiperf"
    assert "error_rate" not in read(save(tmp_path, report)).doubted
    aggregate(report)["requests"]["failures"] = 2
    run = read(save(tmp_path, report))
    assert run.counts == Counts(122, 120, 2)
    assert set(run.doubted) == {"ttft", "tpot", "itl", "e2e", "error_rate"}


def test_failures_that_are_not_stated_are_not_judged(tmp_path: Path) -> None:
    report = document()
    del aggregate(report)["requests"]["failures"]
    assert "does not say how many requests failed" in read(save(tmp_path, report)).doubted["error_rate"]


def test_a_tpot_of_tokens_that_were_not_there_is_not_judged(tmp_path: Path) -> None:
    # kubernetes-sigs/inference-perf#564: TPOT 3.47 ms where (E2E - TTFT) / (tokens - 1) is 7.23 ms.
    report = document(OLD)
    for name in ("time_per_output_token", "inter_token_latency"):
        stat = report["metrics"]["latency"][name]
        report["metrics"]["latency"][name] = {k: v if k == "units" else v * 0.48 for k, v in stat.items()}
    assert "TPOT is 48% of" in read(save(tmp_path, report)).doubted["tpot"]
    assert "tpot" not in read(OLD).doubted


def test_a_response_in_one_piece_is_not_judged(tmp_path: Path) -> None:
    report = document()
    latency = aggregate(report)["latency"]
    latency["time_to_first_token"] = copy.deepcopy(latency["request_latency"])
    latency["time_per_output_token"] = {"units": "ms/token", "mean": 0.01, "p50": 0.01, "p99": 0.02}
    assert {"ttft", "tpot", "itl"} <= set(read(save(tmp_path, report)).doubted)


def test_zero_completed_of_many_is_no_crash(tmp_path: Path) -> None:  # BUGS B26
    report = document()
    aggregate(report)["requests"] = {"total": 120, "failures": 120}
    run = read(save(tmp_path, report))
    assert run.counts == Counts(120, 0, 120)
    assert evidence(run).summaries == {}


@pytest.mark.parametrize(
    ("rate", "concurrency", "load"),
    [
        (10.0, None, Load(request_rate=10.0)),
        (10.0, 4, Load(request_rate=10.0, cap=4)),
        (float("inf"), 16, Load(concurrency=16)),
        (None, 16, Load(concurrency=16)),
        (float("inf"), float("inf"), Load(burst=True)),
        (None, None, None),
        (float("nan"), None, None),
        (0, 0, None),
        ("fast", [], None),
    ],
)
def test_the_load_is_what_was_asked_for(
    tmp_path: Path, rate: Any, concurrency: Any, load: Load | None
) -> None:
    report = document()
    report["scenario"]["load"]["standardized"] |= {"rate_qps": rate, "concurrency": concurrency}
    assert read(save(tmp_path, report)).load == load


def test_a_stage_of_v0_1_has_the_rate_of_its_stage() -> None:
    assert read(OLD).load == Load(request_rate=10.0)


# ---- malformed ----------------------------------------------------------------------------


def test_json_is_read_like_yaml(tmp_path: Path) -> None:
    path = save(tmp_path, json.dumps(document()), "report.json")
    assert knows(llmd, source(path))
    assert evidence(read(path)).summaries == evidence(read(VLLM)).summaries


@pytest.mark.parametrize("case", ["empty", "truncated"])
def test_a_report_that_was_cut_short_is_refused(case: str) -> None:
    with pytest.raises(InputError):
        read(CASES / case / "report.yaml")


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("requests", "total"), None, "does not say how many"),
        (("requests", "total"), -1, "expected `int` >= 0"),
        (("requests", "total"), 1.5, "expected `int"),
        (("requests", "total"), "many", "expected"),
        (("requests", "failures"), 121, "contradicts itself: 121 failed"),
        (("latency", "request_latency", "p99"), -1.0, "a negative time for E2E"),
        (("latency", "request_latency", "p99"), 1.0, "a higher percentile of E2E is lower"),
        (("latency", "request_latency", "p99"), [1], "expected"),
        (("latency",), 3, "expected"),
    ],
)
def test_what_contradicts_itself_is_refused(
    tmp_path: Path, path: tuple[str, ...], value: Any, why: str
) -> None:
    report = document()
    place = aggregate(report)
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert why in error_of(save(tmp_path, report))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("version: '0.3'\nresults:\n  request_performance:\n    x: 1\n", "version 0.3"),
        ("results:\n  request_performance:\n    x: 1\n", "has no version"),
        ("version: '0.2'\nresults:\n  request_performance: [\n", "is not YAML"),
        (
            "version: '0.2'\nresults:\n  request_performance:\n    x: 2026-13-45T00:00:00Z\n",
            "a value that YAML cannot hold",
        ),
        ("version: '0.2'\nresults:\n  session_performance: 1\n", "has no results.request_performance"),
        ("- 1\n", "holds no report"),
    ],
)
def test_what_is_no_report_says_why(tmp_path: Path, text: str, why: str) -> None:
    assert why in error_of(save(tmp_path, text))


def test_an_alias_bomb_does_not_explode(tmp_path: Path) -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 12)]
    bomb = "\n".join(levels) + "\nversion: *a11\nresults:\n  request_performance: *a11\n"
    with pytest.raises(InputError):
        read(save(tmp_path, bomb))


@FORGIVING
@given(cut=st.integers(0, 2300), which=st.sampled_from([VLLM, OLD, FAILURES]))
def test_a_file_cut_anywhere_is_an_error_or_consistent(tmp_path: Path, cut: int, which: Path) -> None:
    path = save(tmp_path, which.read_text(encoding="utf-8")[:cut])
    try:
        run = read(path)
    except InputError:
        return
    assert run.counts.attempted == run.counts.completed + run.counts.failed


@FORGIVING
@given(data=st.data())
def test_a_wrong_value_anywhere_is_an_error_or_consistent(tmp_path: Path, data: st.DataObject) -> None:
    report = document(data.draw(st.sampled_from([VLLM, OLD, FAILURES])))
    place = report
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    numbers = [-1, 1e308, float("nan"), float("inf"), 10**400]
    wrong: st.SearchStrategy[Any] = st.sampled_from([None, "x", True, [], {}, {"a": [1]}, *numbers])
    if data.draw(st.booleans()):
        place[key] = data.draw(wrong)
    else:
        del place[key]
    try:
        run = read(save(tmp_path, report))
    except InputError:
        return
    assert run.counts.attempted == run.counts.completed + run.counts.failed
    for summary in evidence(run).summaries.values():
        values = [value for _, value in summary.percentiles]
        assert all(later >= earlier for earlier, later in pairwise(values))


# ---- which files --------------------------------------------------------------------------


def test_it_claims_reports_and_no_other_file(shared: Path) -> None:
    for folder in ("results", "public-results"):
        for path in sorted((shared / folder).rglob("*")):
            if path.is_file():
                # inference-perf writes the same reports of its stages: side files under their own names.
                mine = path.parent.name in ("llm-d-report", "llmd_report") or ".partial." in path.name
                assert knows(llmd, source(path)) is mine, path


def test_its_fixtures_are_claimed_and_policies_are_not(tmp_path: Path) -> None:
    for path in (VLLM, INFERENCEX, GUIDELLM, OLD, FAILURES, CASES / "truncated" / "report.yaml"):
        assert knows(llmd, source(path)), path
    for text in ("version: 1\nslo:\n  ttft: {p99: 1 s}\n", "metrics: null\nrequest_latency: 3\n", "{}"):
        assert not knows(llmd, source(save(tmp_path, text, "x.yaml")))


def test_the_dispatcher_reads_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "READERS", (*{*readers.READERS, llmd},))
    (run,) = readers.read([str(VLLM)]).runs
    assert run.tool == "vllm-benchmark"
