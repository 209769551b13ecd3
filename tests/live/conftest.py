"""A Prometheus on loopback that answers as it is told, and `slo-gate pull` as a person runs it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Process

Done = subprocess.CompletedProcess[str]
Pull = Callable[..., Done]
NOW = 1_795_961_600  # 2026-11-29T14:13:20Z


@pytest.fixture
def pull(slo_gate: Process, tmp_path: Path) -> Pull:
    """Run `slo-gate pull`; the environment holds no credentials but those that are given."""

    def run(*words: object, **env: str) -> Done:
        known = {"SLO_GATE_PULL_TOKEN": "", "SLO_GATE_PULL_USER": "", "SLO_GATE_PULL_PASSWORD": ""}
        return slo_gate(
            "pull", *map(str, words), cwd=tmp_path, **{**known, "no_proxy": "127.0.0.1,localhost", **env}
        )

    return run


def answer(*series: dict[str, Any], **more: Any) -> str:
    """Of a range query."""
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(series)}, **more})


def steps(
    name: str, values: list[float], *, begin: float = NOW, step: float = 60, **labels: str
) -> dict[str, Any]:
    """One series at equal steps."""
    made = [[float(begin + at * step), f"{value:g}"] for at, value in enumerate(values)]
    return {"metric": {"__name__": name, **labels}, "values": made}


def engine(
    times: int = 3, *, begin: float = NOW, step: float = 60, slow: int = 1, **labels: str
) -> list[dict[str, Any]]:
    """vLLM's E2E and outcomes: 100 requests a step, `slow` of them above 2 s."""
    e2e = "vllm:e2e_request_latency_seconds"
    named = {"model_name": "m", **labels}
    grown = [100.0 * at for at in range(times)]
    fast = [(100.0 - slow) * at for at in range(times)]
    made = {"begin": begin, "step": step, **named}
    return [
        steps(f"{e2e}_bucket", fast, le="2.0", **made),
        steps(f"{e2e}_bucket", grown, le="+Inf", **made),
        steps(f"{e2e}_count", grown, **made),
        steps("vllm:generation_tokens_total", [50 * one for one in grown], **made),
        steps("vllm:request_success_total", grown, finished_reason="stop", **made),
    ]
