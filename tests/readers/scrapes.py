"""Scrapes made from the real bucket files: every counter is a multiple of the 830 requests behind them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conftest import FIXTURES

CASES = FIXTURES / "prometheus"
SINGLE = CASES / "single"
VLLM = "vllm_0.33_buckets.prom"
SGLANG = "sglang_0.5.23_buckets.prom"
N = 830  # requests behind the real files
BEGAN = 1795961000.0
OUTCOMES = {"stop": 700, "length": 130, "abort": 0}
GATEWAY = {"200": N, "429": 0}
# Output tokens of those requests: how many had at most so many (LoadGen's own log).
LENGTHS = {
    "1.0": 0,
    "2.0": 0,
    "5.0": 0,
    "10.0": 1,
    "20.0": 41,
    "50.0": 601,
    "100.0": 827,
    "200.0": N,
    "+Inf": N,
}
TOKENS = 35567


def engine(
    times: float = 1, *, tool: str = VLLM, model: str = "mock-model", labels: str = "", extra: bool = True,
    outcomes: Mapping[str, int] = OUTCOMES, began: float | None = BEGAN, lengths: bool = True,
) -> str:  # fmt: skip
    """The exposition of an engine after `times` times the real requests."""
    text = ""
    if began is not None:
        text += f"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds{_set(labels)} {began}\n"
    for line in (SINGLE / tool).read_text(encoding="utf-8").splitlines():
        if "_created" in line:
            continue
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            made = f"{name} {float(value) * times!r}"
            text += made.replace("mock-model", model).replace("{", "{" + labels) + "\n"
        else:
            text += line + "\n"
    if not extra or tool != VLLM:
        return text
    label = f'{labels}model_name="{model}"'
    text += "# TYPE vllm:request_success_total counter\n"
    for reason, number in outcomes.items():
        text += f'vllm:request_success_total{{{label},finished_reason="{reason}"}} {number * times:g}\n'
    text += "# TYPE vllm:generation_tokens_total counter\n"
    text += f"vllm:generation_tokens_total{{{label}}} {TOKENS * times:.0f}\n"
    if lengths:
        text += "# TYPE vllm:request_generation_tokens histogram\n"
        for edge, number in LENGTHS.items():
            text += f'vllm:request_generation_tokens_bucket{{{label},le="{edge}"}} {number * times:g}\n'
    return text


def gateway(times: float = 1, codes: Mapping[str, int] = GATEWAY) -> str:
    """The exposition of a gateway that counts what it answered."""
    text = "# HELP gateway_requests_total Answers by code.\n# TYPE gateway_requests_total counter\n"
    for code, number in codes.items():
        text += f'gateway_requests_total{{code="{code}",route="/v1/completions"}} {number * times:g}\n'
    return text


def _set(labels: str) -> str:
    return "{" + labels.rstrip(",") + "}" if labels else ""


def range_answer(steps: Mapping[float, str]) -> dict[str, Any]:
    """What query_range gives for expositions seen at these times."""
    series: dict[str, Any] = {}
    for at, text in steps.items():
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            name, value = line.rsplit(" ", 1)
            metric = {"__name__": name.split("{")[0]}
            if "{" in name:
                for pair in name[name.index("{") + 1 : -1].split(","):
                    key, _, text_value = pair.partition("=")
                    metric[key] = text_value.strip('"')
            series.setdefault(name, {"metric": metric, "values": []})["values"].append([at, value])
    return {"status": "success", "data": {"resultType": "matrix", "result": list(series.values())}}


def save(folder: Path, name: str, content: str | dict[str, Any]) -> Path:
    """Write an exposition or an answer."""
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path
