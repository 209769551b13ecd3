"""The GenAI-Perf reader against the tool's own summary, the server's log, and every known trap."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate.model import Aggregate, Load, Requests, Run, Status, Why
from gate.readers import genai_perf, runs_of
from gate.readers.source import Source
from tests.conftest import FIXTURES

HERE = FIXTURES / "genai-perf"
CASES = ["typical", "rate", "nonstream"]
SHARED = ["clean", "goodput", "nonstream", "rate"]
LOADS = {"rate": Load(request_rate=12.0)}
EXACT = 1e-12
START = 1795961105690252243  # above 2**53: a double is 256 ns coarse there


def source(path: Path, *, gaps: bool = False) -> Source:
    return Source(path, path.name, gaps=gaps)


def read(path: Path, *, gaps: bool = False) -> Run:
    (run,) = runs_of(genai_perf, source(path, gaps=gaps))
    return run


def rows(run: Run) -> Requests:
    assert isinstance(run.evidence, Requests)
    return run.evidence


def folder_of(request: pytest.FixtureRequest, name: str) -> Path:
    if name.startswith("own "):
        return HERE / name[4:]
    (path,) = (
        request.getfixturevalue("shared") / "results" / "genai-perf-0.0.16" / name / "artifacts"
    ).iterdir()
    return path


def raw(folder: Path) -> Path:
    return next(p for p in (folder / "profile_export.json.gz", folder / "profile_export.json") if p.exists())


def said(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "profile_export_genai_perf.json").read_text())


every_run = pytest.mark.parametrize("name", [*(f"own {case}" for case in CASES), *SHARED])


# ---- conformance ----------------------------------------------------------------------------------


def whole_ns_ms(r: Requests) -> np.ndarray:
    """TPOT as GenAI-Perf has it: whole nanoseconds over tokens, rounded to a whole nanosecond."""
    assert r.ttft_s is not None
    assert r.e2e_s is not None
    assert r.output_tokens is not None
    decode_ns = np.round(r.e2e_s * 1e9) - np.round(r.ttft_s * 1e9)
    return np.round(decode_ns / (r.output_tokens - 1)) / 1e6


def statistics(values: np.ndarray) -> dict[str, float]:
    found = {"avg": values.mean(), "min": values.min(), "max": values.max(), "std": values.std()}
    return found | {f"p{p}": np.percentile(values, p) for p in (1, 5, 10, 25, 50, 75, 90, 95, 99)}


@every_run
def test_timestamps_reproduce_every_statistic_of_the_summary(
    request: pytest.FixtureRequest, name: str
) -> None:
    folder = folder_of(request, name)
    told, r = said(folder), rows(read(raw(folder)))
    assert r.e2e_s is not None
    compared = {"request_latency": r.e2e_s * 1e3}
    if r.ttft_s is not None:
        compared["time_to_first_token"] = r.ttft_s * 1e3
        assert r.output_tokens is not None
        compared["output_sequence_length"] = r.output_tokens
        compared["inter_token_latency"] = whole_ns_ms(r)
    assert len(compared) == (1 if "nonstream" in name else 4)
    for tag, values in compared.items():
        for key, value in statistics(values).items():
            assert value == pytest.approx(told[tag][key], rel=EXACT, abs=1e-9 if key == "std" else EXACT), (
                tag,
                key,
            )


@every_run
def test_counts_throughput_and_load_are_the_tools(request: pytest.FixtureRequest, name: str) -> None:
    folder = folder_of(request, name)
    told, run = said(folder), read(raw(folder))
    assert run.counts.completed == run.counts.attempted == told["request_count"]["avg"]
    assert run.duration_s is not None
    assert run.counts.completed / run.duration_s == pytest.approx(
        told["request_throughput"]["avg"], rel=EXACT
    )
    assert run.total_output_tokens is not None
    assert run.total_output_tokens / run.duration_s == pytest.approx(
        told["output_token_throughput"]["avg"], rel=EXACT
    )
    assert run.model == "mock-model"
    assert run.load == LOADS.get(name.removeprefix("own "), Load(concurrency=6))
    assert any("failures cannot be seen" in note for note in run.notes)


def test_goodput_is_the_tools_where_no_answer_has_one_token() -> None:
    told, run = said(HERE / "typical"), read(raw(HERE / "typical"))
    slos, r = told["input_config"]["input"]["goodput"], rows(run)
    assert r.ttft_s is not None
    assert r.e2e_s is not None
    good = (r.ttft_s * 1e3 <= slos["time_to_first_token"]) & (r.e2e_s * 1e3 <= slos["request_latency"])
    good &= whole_ns_ms(r) <= slos["inter_token_latency"]
    assert run.duration_s is not None
    assert good.sum() / run.duration_s == pytest.approx(told["request_goodput"]["avg"], rel=EXACT)
    assert any("9.161 good req/s" in note and "request_latency 500" in note for note in run.notes)


@every_run
def test_the_summary_alone_states_what_it_holds(request: pytest.FixtureRequest, name: str) -> None:
    folder = folder_of(request, name)
    told, run, whole = said(folder), read(folder / "profile_export_genai_perf.json"), read(raw(folder))
    assert isinstance(run.evidence, Aggregate)
    assert run.counts == whole.counts
    assert (run.load, run.model, run.streaming) == (whole.load, whole.model, whole.streaming)
    assert run.duration_s == pytest.approx(whole.duration_s, rel=EXACT)
    assert run.total_output_tokens == pytest.approx(whole.total_output_tokens, rel=EXACT)
    assert whole.tool_reported == run.tool_reported
    assert ("ttft" in run.evidence.summaries) == ("nonstream" not in name)
    tags = {"ttft": "time_to_first_token", "tpot": "inter_token_latency", "e2e": "request_latency"}
    for metric, summary in run.evidence.summaries.items():
        percentiles = [
            (float(p), told[tags[metric]][f"p{p}"] / 1e3) for p in (1, 5, 10, 25, 50, 75, 90, 95, 99)
        ]
        assert list(summary.percentiles) == percentiles


@every_run
def test_the_csv_alone_says_the_same_to_two_decimals(request: pytest.FixtureRequest, name: str) -> None:
    folder = folder_of(request, name)
    run, whole = (
        read(folder / "profile_export_genai_perf.csv"),
        read(folder / "profile_export_genai_perf.json"),
    )
    assert isinstance(run.evidence, Aggregate)
    assert isinstance(whole.evidence, Aggregate)
    assert run.counts == whole.counts
    assert run.doubted == whole.doubted
    assert run.evidence.summaries.keys() == whole.evidence.summaries.keys()
    for metric, summary in run.evidence.summaries.items():
        exact = dict(whole.evidence.summaries[metric].percentiles)
        for percent, value in summary.percentiles:
            assert abs(value - exact[percent]) <= run.evidence.rounding_s + 1e-12


@pytest.mark.parametrize("name", SHARED)
def test_every_measured_request_the_server_saw_is_there(shared: Path, name: str) -> None:
    folder = shared / "results" / "genai-perf-0.0.16" / name
    truth = [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()]
    (artifacts,) = (folder / "artifacts").iterdir()
    run = read(artifacts / "profile_export.json")
    warmup = 10 if name == "rate" else 0  # perf_analyzer keeps them out of the file
    assert run.counts.attempted + warmup == len(truth)
    tokens = rows(run).output_tokens
    assert tokens is not None
    assert not Counter(tokens.tolist()) - Counter(float(seen["output_tokens"]) for seen in truth)


# ---- traps: timestamps and events -----------------------------------------------------------------


def event(**delta: object) -> str:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n"


ROLE, DONE = event(role="assistant", content=""), "data: [DONE]\n\n"
FINISH = event()


def answer(*bodies: tuple[int, str], start: int = START) -> dict[str, Any]:
    """A request whose bodies arrive so many ms after its start."""
    return {
        "timestamp": start,
        "request_inputs": {"payload": '{"model": "m", "stream": true}'},
        "response_timestamps": [start + ms * 1_000_000 for ms, _ in bodies],
        "response_outputs": [{"response": body} for _, body in bodies],
    }


def words(*at_ms: int, **more: Any) -> dict[str, Any]:
    return answer((1, ROLE), *((ms, event(content=" a")) for ms in at_ms), (900, FINISH), (901, DONE), **more)


def made(path: Path, requests: Sequence[object], **changes: Any) -> Path:
    experiment = {"experiment": {"mode": "concurrency", "value": 2}, "requests": list(requests)}
    path.write_text(
        json.dumps({"experiments": [experiment], "service_kind": "openai", "version": "0.0.0"} | changes)
    )
    return path


def test_the_role_the_finish_and_done_are_no_tokens(tmp_path: Path) -> None:
    r = rows(read(made(tmp_path / "a.json", [words(50, 60, 80)]), gaps=True))
    assert r.ttft_s is not None
    assert r.e2e_s is not None
    assert (r.ttft_s.tolist(), r.e2e_s.tolist()) == ([0.05], [0.08])
    assert r.gaps is not None
    assert r.gaps.values_s.tolist() == [0.01, 0.02]
    assert r.gaps.offsets.tolist() == [0, 2]


def test_nanoseconds_survive(tmp_path: Path) -> None:
    one, other = words(50), words(50, start=START + 1)
    one["response_timestamps"][1] += 1
    r = rows(read(made(tmp_path / "a.json", [one, other])))
    assert r.ttft_s is not None
    assert r.start_s is not None
    assert r.ttft_s.tolist() == [0.050000001, 0.05]
    assert r.start_s.tolist() == [0.0, 1e-9]


def test_events_that_arrive_together_share_a_timestamp(tmp_path: Path) -> None:
    both = event(content="a") + event(content="b")
    r = rows(
        read(made(tmp_path / "a.json", [answer((5, ROLE), (10, both), (30, event(content="c")))]), gaps=True)
    )
    assert r.gaps is not None
    assert r.gaps.values_s.tolist() == [0.0, 0.02]


def test_an_event_cut_in_two_counts_with_its_beginning(tmp_path: Path) -> None:
    whole = event(content="a")
    pieces = (10, whole[:20]), (15, whole[20:])
    r = rows(read(made(tmp_path / "a.json", [answer((5, ROLE), *pieces, (30, event(content="b")))])))
    assert r.ttft_s is not None
    assert r.ttft_s.tolist() == [0.01]


def test_an_answer_without_content_has_failed() -> None:
    run = read(HERE / "failures" / "profile_export.json")
    assert (run.counts.completed, run.counts.failed) == (4, 1)
    assert rows(run).status.tolist()[1] == Status.FAILED
    assert "1 failed: no content x1" in run.notes


def test_an_error_in_the_stream_is_a_failure(tmp_path: Path) -> None:
    broken = answer((10, event(content="a")), (20, 'data: {"error": {"message": "overloaded"}}\n\n'))
    run = read(made(tmp_path / "a.json", [words(10, 20), broken]))
    assert run.counts.failed == 1
    assert "1 failed: error in the stream x1" in run.notes


def test_reasoning_is_a_token_though_the_tool_does_not_see_it(tmp_path: Path) -> None:
    thinking = answer((10, event(reasoning_content="hm")), (40, event(content="a")))
    run = read(made(tmp_path / "a.json", [thinking]))
    assert rows(run).ttft_s is not None
    assert rows(run).ttft_s.tolist() == [0.01]
    assert any("1 answers begin with reasoning" in note for note in run.notes)


def test_completions_have_text_and_not_deltas(tmp_path: Path) -> None:
    text = [
        (ms, f"data: {json.dumps({'choices': [{'text': t}]})}\n\n")
        for ms, t in ((9, ""), (10, "a"), (20, "b"))
    ]
    r = rows(read(made(tmp_path / "a.json", [answer(*text, (30, DONE))])))
    assert r.ttft_s is not None
    assert r.e2e_s is not None
    assert (r.ttft_s.tolist(), r.e2e_s.tolist()) == ([0.01], [0.02])


# ---- traps: tokens --------------------------------------------------------------------------------


def test_without_a_summary_or_usage_tpot_is_not_judged(tmp_path: Path) -> None:
    shutil.copy(raw(HERE / "typical"), tmp_path / "alone.json.gz")
    run = read(tmp_path / "alone.json.gz")
    assert rows(run).output_tokens is None
    assert set(run.doubted) == {"tpot"}
    assert "profile_export_genai_perf.json" in run.doubted["tpot"]
    assert run.counts.completed == 150


def test_chunks_that_are_not_the_summarys_tokens_leave_tpot_unknown(tmp_path: Path) -> None:
    told = said(HERE / "typical")
    told["output_sequence_length"] = {
        key: v if key == "unit" else 4 * v for key, v in told["output_sequence_length"].items()
    }
    shutil.copy(raw(HERE / "typical"), tmp_path)
    (tmp_path / "profile_export_genai_perf.json").write_text(json.dumps(told))
    run = read(tmp_path / "profile_export.json.gz")
    assert "41.53 chunks a request are not the summary's 166.1 tokens" in run.doubted["tpot"]
    assert rows(run).output_tokens is None
    assert run.total_output_tokens == pytest.approx(4 * 6229)  # what the tool counted


def test_an_equal_mean_alone_does_not_prove_a_token_a_chunk(tmp_path: Path) -> None:
    told = said(HERE / "typical")
    told["output_sequence_length"] |= {"p1": 9.0, "p5": 12.9, "p95": 70.0, "p99": 90.0}
    shutil.copy(raw(HERE / "typical"), tmp_path)
    (tmp_path / "profile_export_genai_perf.json").write_text(json.dumps(told))
    run = read(tmp_path / "profile_export.json.gz")
    assert rows(run).output_tokens is None
    assert set(run.doubted) == {"tpot"}


def test_usage_counts_the_tokens_of_24_08() -> None:
    run = read(HERE / "old" / "200_50.json")
    (experiment,) = json.loads((HERE / "old" / "200_50.json").read_text())["experiments"]
    bodies = [[body["response"] for body in one["response_outputs"]] for one in experiment["requests"]]
    chunks = [sum('"content":"' in b and '"content":""' not in b for b in each) for each in bodies]
    assert rows(run).output_tokens is not None
    assert rows(run).output_tokens.tolist() == chunks
    assert any("tokenizer says 39: its inter_token_latency differs" in note for note in run.notes)
    assert run.doubted == {}


def test_answers_in_one_chunk_are_not_judged_by_tpot(tmp_path: Path) -> None:
    usage = 'data: {"choices": [], "usage": {"completion_tokens": 9, "prompt_tokens": 4}}\n\n'
    run = read(made(tmp_path / "a.json", [answer((10, event(content="all of it")), (20, usage))] * 3))
    assert run.doubts[0].code is Why.NOT_STREAMED
    assert set(run.doubted) == {"ttft", "tpot", "itl"}
    assert rows(run).tpot_s is not None
    assert rows(run).tpot_s.tolist() == [0.0, 0.0, 0.0]
    assert rows(run).input_tokens is not None


def test_a_run_that_did_not_stream_has_no_ttft() -> None:
    told = said(HERE / "nonstream")
    assert told["time_to_first_token"] == told["request_latency"]  # the trap
    for name in ("profile_export.json.gz", "profile_export_genai_perf.json", "profile_export_genai_perf.csv"):
        run = read(HERE / "nonstream" / name)
        assert run.streaming is False
        assert set(run.doubted) == {"ttft", "tpot", "itl"}
        assert "--streaming" in run.doubted["ttft"]
    assert rows(read(raw(HERE / "nonstream"))).ttft_s is None
