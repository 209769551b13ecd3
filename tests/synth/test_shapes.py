"""Every shape, read by the tool's own reader, gives the trace back: exactly, request by request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from gate import readers, synth
from gate.errors import UsageError
from gate.model import Load, Requests, Run, Status
from gate.synth import Setting, Trace, simulate
from tests.synth.summarised import genai_perf, llmperf

SHAPES = {**synth.SHAPES, "genai-perf": genai_perf, "llmperf": llmperf}

CLOSED = Setting(requests=60, concurrency=6, input_tokens=(90, 40), output_tokens=(12, 8), spikes=0.1, seed=5)
OPEN = Setting(
    requests=60, concurrency=None, request_rate=40.0, input_tokens=(90, 40), output_tokens=(12, 8), seed=6
)
FAILING = Setting(
    requests=80, concurrency=6, input_tokens=(90, 40), output_tokens=(12, 8), failures=0.2, seed=7
)
CAPPED = Setting(
    requests=60,
    concurrency=None,
    request_rate=200.0,
    cap=3,
    input_tokens=(90, 40),
    output_tokens=(12, 8),
    seed=8,
)
HOLDS = [
    *((shape, CLOSED) for shape in SHAPES),
    *((shape, OPEN) for shape in ("generic", "vllm", "genai-perf")),
    *((shape, FAILING) for shape in ("generic", "vllm", "llmperf")),
    *((shape, CAPPED) for shape in ("generic", "vllm")),
]


def written(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def read(folder: Path, *, gaps: bool = False) -> Run:
    (run,) = readers.read([str(folder)], gaps=gaps).runs
    return run


def rows(run: Run) -> Requests:
    assert isinstance(run.evidence, Requests)
    return run.evidence


def by_hand(ttft_ms: float, decode_ms: float, tokens: int, *, n: int = 1) -> Trace:
    """n equal requests, one after another, whose gaps sum to the decode time exactly."""
    ends = np.linspace(ttft_ms * 10**6, (ttft_ms + decode_ms) * 10**6, tokens).round().astype(np.int64)
    ends[-1] = round((ttft_ms + decode_ms) * 10**6)
    starts = np.arange(n, dtype=np.int64) * 10**10
    zero = np.zeros(n, np.int64)
    return Trace(
        Setting(requests=n, concurrency=1),
        starts,
        zero,
        zero,
        np.full(n, 800, np.int64),
        np.zeros(n, bool),
        np.tile(ends, n),
        np.arange(n + 1, dtype=np.int64) * tokens,
    )


def expected(trace: Trace) -> dict[str, Any]:
    """By request, straight from the trace's nanoseconds: a double division, as any reader would do."""
    out = np.array([len(trace.tokens_ns(i)) for i in range(trace.start_ns.size)])
    first = np.array([trace.tokens_ns(i)[0] if n else 0 for i, n in enumerate(out)])
    last = np.array([trace.tokens_ns(i)[-1] if n else 0 for i, n in enumerate(out)])
    return {
        "ttft_s": first / 1e9,
        "e2e_s": last / 1e9,
        "output_tokens": out,
        "failed": out == 0,
        "end_ns": trace.start_ns + last,
    }


@pytest.mark.parametrize(("shape", "setting"), HOLDS)
def test_the_reader_gives_back_every_request_of_the_trace_exactly(
    shape: str, setting: Setting, tmp_path: Path
) -> None:
    trace = simulate(setting)
    run = read(written(tmp_path, SHAPES[shape](trace, "run-01")))
    table, wanted = rows(run), expected(trace)
    order = (
        np.argsort(wanted["end_ns"], kind="stable") if shape == "llmperf" else np.arange(trace.start_ns.size)
    )
    failed = wanted["failed"][order]
    assert np.array_equal(table.status == Status.FAILED, failed)
    assert run.counts.completed == int((~failed).sum())
    for name in ("ttft_s", "e2e_s", "output_tokens"):
        column = getattr(table, name)
        assert np.array_equal(column[~failed], wanted[name][order][~failed]), name


@pytest.mark.parametrize("shape", ["generic", "vllm", "llmperf"])
def test_prompt_lengths_survive_where_the_tool_keeps_them(shape: str, tmp_path: Path) -> None:
    trace = simulate(CLOSED)
    table = rows(read(written(tmp_path, SHAPES[shape](trace, "run-01"))))
    assert table.input_tokens is not None
    assert sorted(table.input_tokens.tolist()) == sorted(trace.input_tokens.tolist())


@pytest.mark.parametrize("shape", ["generic", "vllm", "genai-perf"])
def test_every_gap_between_tokens_survives_where_the_tool_keeps_them(shape: str, tmp_path: Path) -> None:
    trace = simulate(CLOSED)
    gaps = rows(read(written(tmp_path, SHAPES[shape](trace, "run-01")), gaps=True)).gaps
    assert gaps is not None
    wanted = np.concatenate([np.diff(trace.tokens_ns(i)) / 1e9 for i in range(60)])
    assert np.array_equal(gaps.values_s, wanted)


@pytest.mark.parametrize(
    ("shape", "setting", "load"),
    [
        *((shape, CLOSED, Load(concurrency=6)) for shape in SHAPES),
        *((shape, OPEN, Load(request_rate=40.0)) for shape in ("generic", "vllm", "genai-perf")),
        *((shape, CAPPED, Load(request_rate=200.0, cap=3)) for shape in ("generic", "vllm")),
    ],
)
def test_the_load_is_stated_in_each_tool_s_way(
    shape: str, setting: Setting, load: Load, tmp_path: Path
) -> None:
    run = read(written(tmp_path, SHAPES[shape](simulate(setting), "run-01")))
    assert run.load == load
    assert run.model == "synthetic"


def test_vllm_keeps_the_waits_of_client_and_server(tmp_path: Path) -> None:
    trace = simulate(CAPPED)
    table = rows(read(written(tmp_path, SHAPES["vllm"](trace, "run-01"))))
    assert table.queue_s is not None
    assert table.server_queue_s is not None
    assert np.array_equal(table.queue_s, trace.queue_ns / 1e9)
    assert np.array_equal(table.server_queue_s, trace.server_queue_ns / 1e9)
    assert trace.queue_ns.max() > 0


def test_one_trace_shows_both_conventions(tmp_path: Path) -> None:
    """TTFT 500 ms, 100 tokens, 700 ms of decode: 700 / 99 = 7.07 ms or 1200 / 100 = 12 ms."""
    trace = by_hand(500, 700, 100, n=3)
    files = {shape: SHAPES[shape](trace, "run-01") for shape in SHAPES}
    summary = json.loads(files["genai-perf"]["run-01/profile_export_genai_perf.json"])
    assert summary["inter_token_latency"]["avg"] == pytest.approx(7.070707, abs=1e-6)
    llmperf = json.loads(files["llmperf"]["synthetic_run-01_800_150_summary.json"])
    assert llmperf["results_inter_token_latency_s_mean"] == pytest.approx(0.012, abs=1e-12)
    for shape, content in files.items():
        tpot_s = rows(read(written(tmp_path / shape, content))).tpot_s
        assert tpot_s is not None
        assert tpot_s == pytest.approx([0.7 / 99] * 3, rel=1e-12), shape


def test_the_tools_own_summaries_are_shown_beside_ours(tmp_path: Path) -> None:
    trace = simulate(CLOSED)
    wanted = expected(trace)
    ms = {"vllm": 99.0, "genai-perf": 99.0, "llmperf": 99.0}
    for shape, percent in ms.items():
        said = dict(
            read(written(tmp_path / shape, SHAPES[shape](trace, "run-01"))).tool_reported["ttft"].percentiles
        )
        assert said[percent] == pytest.approx(np.percentile(wanted["ttft_s"], 99), rel=1e-12), shape


def test_a_failure_is_refused_where_the_tool_would_have_written_no_file() -> None:
    with pytest.raises(UsageError, match="no result when a request fails"):
        SHAPES["genai-perf"](simulate(FAILING), "run-01")


@pytest.mark.parametrize("requests", [1, 40])
def test_a_run_in_which_everything_fails_is_read_as_that(requests: int, tmp_path: Path) -> None:
    trace = simulate(replace(FAILING, failures=1.0, requests=requests))
    counts = read(written(tmp_path, SHAPES["vllm"](trace, "run-01"))).counts
    assert (counts.attempted, counts.completed, counts.failed) == (requests, 0, requests)
    with pytest.raises(UsageError, match="no result when no request completes"):
        SHAPES["llmperf"](trace, "run-01")


def test_an_open_loop_is_refused_where_the_tool_has_none() -> None:
    with pytest.raises(UsageError, match="only a closed loop"):
        SHAPES["llmperf"](simulate(OPEN), "run-01")
    with pytest.raises(UsageError, match="no cap"):
        SHAPES["genai-perf"](simulate(CAPPED), "run-01")
