"""How the rules are broken in an llm-d benchmark report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import FIXTURES
from tests.readers.rules import Alone, Change, Form, Write

CASES = FIXTURES / "llm-d"
Block = dict[str, Any]
NAMES = ("time_to_first_token", "time_per_output_token", "inter_token_latency", "request_latency")


def write(fixture: str) -> Write:
    """120 requests of vLLM (v0.2), or 60 of inference-perf with its configuration (v0.1)."""

    def apply(folder: Path) -> Sequence[str]:
        text = (CASES / fixture).read_text(encoding="utf-8")
        (folder / "report.yaml").write_text(text, encoding="utf-8")
        return ["report.yaml"]

    return apply


def whole(change: Callable[[Block], object]) -> Change:
    """`change` applied to the report."""

    def apply(folder: Path) -> None:
        path = folder / "report.yaml"
        report = yaml.safe_load(path.read_text(encoding="utf-8"))
        change(report)
        path.write_text(yaml.safe_dump(report), encoding="utf-8")

    return apply


def measured(report: Block) -> Block:
    found = (
        report["metrics"] if "metrics" in report else report["results"]["request_performance"]["aggregate"]
    )
    assert isinstance(found, dict)
    return found


def requests(**values: Any) -> Change:
    return whole(lambda report: measured(report)["requests"].update(values))


def latency(name: str, **values: Any) -> Change:
    return whole(lambda report: measured(report)["latency"][name].update(values))


def without(*names: str) -> Change:
    return whole(lambda report: [measured(report)["latency"].pop(name) for name in names])


def length(change: Callable[[Block], object]) -> Change:
    return whole(lambda report: change(measured(report)["requests"]["output_length"]))


def numbers(block: Block) -> list[str]:
    return [key for key, value in block.items() if isinstance(value, float) and math.isfinite(value)]


def failed(share: float) -> Change:
    def change(report: Block) -> None:
        counts = measured(report)["requests"]
        counts["failures"] = int(counts["total"] * share)

    return whole(change)


def at_once(report: Block) -> None:
    """TTFT is 0.1 ms less than E2E, and the tokens of an answer share those 0.1 ms."""
    blocks = measured(report)["latency"]
    tokens = measured(report)["requests"]["output_length"]["mean"]
    e2e = blocks["request_latency"]
    gap = 0.1 if e2e["units"] == "ms" else 0.0001
    for key in numbers(e2e):
        blocks["time_to_first_token"][key] = e2e[key] - gap
    for name in ("time_per_output_token", "inter_token_latency"):
        blocks[name].update(dict.fromkeys(numbers(blocks[name]), gap / (tokens - 1)))


def no_tokens(report: Block) -> None:
    del measured(report)["requests"]["output_length"]
    for name in NAMES[:3]:
        del measured(report)["latency"][name]


BREAKS = {
    "counts": requests(failures=1000),
    "failed": failed(1 / 3),
    "all failed": failed(1.0),
    "zero tokens": length(lambda block: block.update(dict.fromkeys(numbers(block), 0.0))),
    "null tokens": whole(no_tokens),
    "half the tokens": length(lambda block: block.update(min=0.0, p50=0.0)),
    "one burst": whole(at_once),
    "not streamed": without("time_to_first_token"),
    "zero time": latency("time_to_first_token", p50=0.0, p25=0.0, p10=0.0, p5=0.0, p1=0.0, p0p1=0.0, min=0.0),
    "negative time": latency("request_latency", p1=-1.0),
    "falling percentiles": latency("request_latency", p99=0.001),
    "repetitions": whole(lambda report: report.update(aggregated_repetitions=3)),
}
CANNOT = {
    "token totals": "holds no rows to add up",
    "cut rows": "holds no rows",
    "tool's verdict": "has no word on the run as a whole",
    "several loads": "is one load a report",
    "summary alone": "is a summary",
}
JUDGES = ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput")


def settings(change: Callable[[Block], object]) -> Change:
    return whole(lambda report: change(report["scenario"]["load"]))


KINDS = {
    "report of inference-perf": Form(
        write("old/run_inference-perf_br_v0_1.yaml"),
        JUDGES,
        {
            **BREAKS,
            "lost rows": settings(lambda load: load["args"]["load"]["stages"][0].update(rate=20.0)),
            "retries": settings(lambda load: load.pop("args")),
            "retried": settings(lambda load: load["args"]["load"].update(request_retries=3)),
            "counts: not stated": whole(lambda report: measured(report)["requests"].pop("failures")),
        },
        CANNOT,
    ),
    "report of vLLM": Form(
        write("typical/run_vllmfmt_br_v0_2.yaml"),
        JUDGES,
        BREAKS,
        {
            **CANNOT,
            "lost rows": "counts what was asked for, so that a request without an answer is a failure",
            "retries": "the client never repeats a request",
            "retried": "the client never repeats a request",
        },
        (Alone("run_*.yaml", "is a run of its own", ("typical",)),),
    ),
}
