"""How the rules are broken in a report of inference-benchmarker: at a constant rate, with constant users."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.readers.inference_benchmarker_results import Document, report
from tests.readers.rules import Change, Form

NAME = "results/llama_2026-12-01-00-03-24.json"
JUDGES = ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput")
TTFT, TPOT, E2E = "time_to_first_token_ms", "inter_token_latency_ms", "e2e_latency_ms"


def write(kind: str, **options: Any) -> Callable[[Path], Sequence[str]]:
    def apply(folder: Path) -> Sequence[str]:
        (folder / NAME).parent.mkdir()
        (folder / NAME).write_text(json.dumps(report(kind, **options)), encoding="utf-8")
        return [NAME]

    return apply


def changed(change: Callable[[Document], object]) -> Change:
    """The file with `change` applied to its content."""

    def apply(folder: Path) -> None:
        document = json.loads((folder / NAME).read_text(encoding="utf-8"))
        change(document)
        (folder / NAME).write_text(json.dumps(document), encoding="utf-8")

    return apply


def measured(change: Callable[[Document], object]) -> Change:
    """The file with `change` applied to its one measured step."""
    return changed(lambda document: change(document["results"][1]))


def put(block: str, **values: float) -> Change:
    return measured(lambda step: step[block].update(values))


def halve(step: Document) -> None:
    for key in ("total_requests", "successful_requests", "total_tokens"):
        step[key] //= 2


def fail(step: Document, every: int) -> None:
    failed = step["total_requests"] // every
    left = step["total_requests"] - failed
    tokens = step["total_tokens"] * left // step["total_requests"]
    step.update(failed_requests=failed, successful_requests=left, total_tokens=tokens)


def one_burst(step: Document) -> None:
    step[TTFT] = {name: value - 0.1 for name, value in step[E2E].items()}
    step[TPOT] = dict.fromkeys(step[TPOT], 0.003)


def one_chunk(step: Document) -> None:
    step.update({TTFT: dict(step[E2E]), TPOT: dict.fromkeys(step[TPOT], 0.0)})


def no_tokens(step: Document) -> None:
    step.update({"total_tokens": None, TTFT: None, TPOT: None})


def slower(document: Document) -> None:
    """A step more, whose requests all miss; the configuration does not know it."""
    slow = copy.deepcopy(document["results"][1])
    slow["config"]["max_vus"] += 1
    for block in (TTFT, TPOT, E2E):
        slow[block] = {name: value + 40_000 for name, value in slow[block].items()}
    document["results"].append(slow)


def another_rate(document: Document) -> None:
    """The same, asked for."""
    slower(document)
    document["results"][2]["config"]["rate"] = 5.0
    document["config"]["rates"].append(5.0)


BREAKS: Mapping[str, Change] = {
    "counts": measured(lambda step: step.update(successful_requests=step["total_requests"] + 9)),
    "failed": measured(lambda step: fail(step, 3)),
    "all failed": measured(lambda step: fail(step, 1)),
    "zero tokens": measured(lambda step: step.update(total_tokens=0)),
    "null tokens": measured(no_tokens),
    "half the tokens": measured(lambda step: step.update(total_tokens=step["total_requests"] // 2)),
    "token totals": measured(lambda step: step.update(total_tokens=step["total_tokens"] // 2)),
    "one burst": measured(one_burst),
    "not streamed": measured(lambda step: step.pop(TTFT)),
    "not streamed: in one chunk": measured(one_chunk),
    "not streamed: without percentiles": measured(lambda step: step.update({TTFT: {}})),
    "zero time": put(TTFT, p50=0.0),
    "negative time": put(E2E, p50=-1.0),
    "falling percentiles": put(TTFT, p99=1.0),
    "several loads": changed(slower),
    "repetitions": changed(lambda document: document.update(aggregated_repetitions=3)),
}
NEVER = {
    "cut rows": "holds no rows",
    "tool's verdict": "has no word on the run as a whole: what is stopped writes no file",
    "retries": "the client never repeats a request",
    "retried": "the client never repeats a request",
    "summary alone": "is the summary",
}
KINDS = {
    "constant rate": Form(
        write("Rate", rates=[3.0], duration_s=100),
        JUDGES,
        {**BREAKS, "lost rows": measured(halve), "several loads: both asked for": changed(another_rate)},
        NEVER,
    ),
    "constant users": Form(
        write("Throughput", vus=3),
        JUDGES,
        BREAKS,
        {**NEVER, "lost rows": "ends by the clock: how many requests it was to send is not asked for"},
    ),
}
