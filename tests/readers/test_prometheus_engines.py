"""Prometheus: what each engine's series mean, and which of them are no TPOT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gate.model import Buckets, Counts, Histogram, Run
from gate.readers import prometheus, runs_of_set
from gate.readers.source import Source
from tests.readers.scrapes import CASES, SGLANG, SINGLE, N, engine, gateway, save

COUNTER = "gateway_requests_total"


def read(*paths: Path, counter: str | None = COUNTER) -> list[Run]:
    return list(
        runs_of_set(prometheus, [Source(path, path.name, attempted_counter=counter) for path in paths])
    )


def buckets(run: Run, metric: str) -> Buckets:
    assert isinstance(run.evidence, Histogram)
    return run.evidence.buckets[metric]


def within(run: Run, metric: str) -> dict[float, int]:
    one = buckets(run, metric)
    return dict(zip(one.edges_s.tolist(), np.cumsum(one.counts).tolist(), strict=True))


def test_gaps_never_stand_in_for_tpot(tmp_path: Path) -> None:
    for run in read(*sorted((CASES / "old").glob("*.prom")), counter=None):
        assert isinstance(run.evidence, Histogram)
        assert "tpot" not in run.evidence.buckets
        assert int(buckets(run, "itl").counts.sum()) == N
    old = engine(1).replace("vllm:request_time_per", "vllm:time_per") + gateway(1)
    (run,) = read(save(tmp_path, "a.prom", old))
    assert "never stand in" in run.doubted["tpot"]
    assert set(run.doubted) == {"tpot"}


def test_both_names_of_the_gaps_are_counted_once(tmp_path: Path) -> None:
    block = [line for line in engine(1).splitlines() if "request_time_per_output_token" in line]
    text = "\n".join(block) + "\n"
    both = text.replace("request_time_per", "time_per") + text.replace(
        "request_time_per_output_token_seconds", "inter_token_latency_seconds"
    )
    (run,) = read(save(tmp_path, "a.prom", engine(1) + both))
    assert int(buckets(run, "itl").counts.sum()) == N


def test_the_older_tpot_of_sglang_is_not_judged(tmp_path: Path) -> None:
    text = (SINGLE / SGLANG).read_text(encoding="utf-8")
    old = text.replace("request_time_per_output_token", "time_per_output_token")
    (run,) = read(save(tmp_path, "a.prom", old + gateway(1)))
    assert "running mean" in run.doubted["tpot"]
    assert "hides pauses" in run.doubted["itl"]


def test_requests_of_one_token_leave_vllms_tpot(tmp_path: Path) -> None:
    lines = []
    for line in engine(1).splitlines():
        if "request_generation_tokens_bucket" in line:
            line = line.rsplit(" ", 1)[0] + (" 25" if 'le="1.0"' in line else " 830")
        lines.append(line)
    text = "\n".join(lines)
    (run,) = read(save(tmp_path, "a.prom", text + "\n" + gateway(1)))
    assert int(buckets(run, "tpot").counts.sum()) == N - 25
    assert buckets(run, "tpot").without == 25
    assert int(buckets(run, "ttft").counts.sum()) == N
    assert any("25 requests of one token left out" in note for note in run.notes)


def test_aborted_requests_of_sglang_are_failures_within_its_finished(tmp_path: Path) -> None:
    more = (
        'sglang:num_requests_total{model_name="mock-model"} 830\n'
        'sglang:num_aborted_requests_total{model_name="mock-model"} 30\n'
    )
    text = (SINGLE / SGLANG).read_text(encoding="utf-8") + more
    (run,) = read(save(tmp_path, "a.prom", text + gateway(1)))
    assert run.counts == Counts(N, 800, 30)


@pytest.mark.parametrize(("unstreamed", "judged_too"), [("false", False), ("true", True)])
def test_sglang_says_what_was_not_streamed(tmp_path: Path, unstreamed: str, judged_too: bool) -> None:
    text = (SINGLE / SGLANG).read_text(encoding="utf-8")
    text = text.replace('model_name="mock-model"', f'model_name="mock-model",is_streaming="{unstreamed}"')
    (run,) = read(save(tmp_path, "a.prom", text + gateway(1)))
    assert ("ttft" not in run.doubted) is judged_too
    assert run.streaming is (None if judged_too else False)


def test_a_prefill_worker_alone_is_not_judged(tmp_path: Path) -> None:
    text = (SINGLE / SGLANG).read_text(encoding="utf-8")
    text = text.replace('model_name="mock-model"', 'model_name="mock-model",engine_type="prefill"')
    (run,) = read(save(tmp_path, "a.prom", text + gateway(1)))
    assert all("only its half" in why for why in run.doubted.values())
    assert len(run.doubted) == 5


@pytest.mark.parametrize("prefix", ["trtllm_", "trtllm:", ""])
def test_tensorrt_llm_counts_timeouts_as_failures(tmp_path: Path, prefix: str) -> None:
    text = engine(1, extra=False, began=None).replace("vllm:", prefix)
    text = text.replace("request_time_per_output_token", "time_per_output_token")
    text = text.replace('model_name="mock-model"', 'model_name="mock-model",engine_type="pytorch"')
    label = 'model_name="mock-model",engine_type="pytorch"'
    text += "".join(
        f'{prefix}request_success_total{{{label},finished_reason="{reason}"}} {number}\n'
        for reason, number in (("stop", 700), ("length", 118), ("timeout", 8), ("cancelled", 4))
    )
    (run,) = read(save(tmp_path, "a.prom", text + gateway(1)))
    assert run.tool == "TensorRT-LLM server"
    assert run.counts == Counts(N, 818, 12)
    assert within(run, "tpot")[0.01] == N
    assert set(run.doubted) == {"itl"}  # these series hold no gaps


def test_triton_floors_to_whole_milliseconds(tmp_path: Path) -> None:
    label = 'model="llm",version="1"'
    text = "# TYPE nv_inference_first_response_histogram_ms histogram\n"
    for edge, number in (("100", 8), ("500", 30), ("2000", 36), ("5000", 37), ("+Inf", 37)):
        text += f'nv_inference_first_response_histogram_ms_bucket{{{label},le="{edge}"}} {number}\n'
    text += f"nv_inference_request_success{{{label}}} 37\n"
    text += f'nv_inference_request_failure{{{label},reason="REJECTED"}} 3\n'
    (run,) = read(save(tmp_path, "a.prom", text))
    assert run.model == "llm"
    assert run.counts == Counts(40, 37, 3)
    assert within(run, "ttft") == {0.101: 8, 0.501: 30, 2.001: 36, 5.001: 37, float("inf"): 37}


@pytest.mark.parametrize(
    "bucket",
    [
        'gen_ai_server_{0}_bucket{{gen_ai_request_model="m",{2}le="{1}"}}',
        'gen_ai_server_{0}_seconds_bucket{{gen_ai_request_model="m",{2}le="{1}"}}',
        '{{"gen_ai.server.{0}_bucket",gen_ai.request.model="m",{2}le="{1}"}}',
    ],
)
def test_opentelemetry_leaves_errors_out_of_its_latencies(tmp_path: Path, bucket: str) -> None:
    text = "# TYPE x gauge\n"
    for family, error, counts in (
        ("request_duration", "", (10, 90, 97)),
        ("request_duration", 'error_type="500",', (3, 3, 3)),
        ("time_to_first_token", "", (50, 97, 97)),
        ("time_per_output_token", "", (90, 97, 97)),
    ):
        for edge, number in zip(("0.5", "1.0", "+Inf"), counts, strict=True):
            text += bucket.format(family, edge, error) + f" {number}\n"
    (run,) = read(save(tmp_path, "a.prom", text + 'g_total{model="m"} 100\n'), counter="g_total")
    assert run.model == "m"
    assert run.counts == Counts(100, 97, 3)
    assert within(run, "e2e") == {0.5: 10, 1.0: 90, float("inf"): 97}
    assert within(run, "ttft")[0.5] == 50
    assert within(run, "tpot")[0.5] == 90
    assert set(run.doubted) == {"itl"}  # these series hold no gaps
