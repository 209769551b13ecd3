"""How the rules are broken in the rows of InferenceX that state counts.

Those of process_result.py state none, so that nothing of them passes in any case.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.readers.rules import Alone, Change, Form
from tests.readers.rules.forks import (
    JUDGES,
    NO_ROWS,
    TOKENS,
    Document,
    N,
    aggregate,
    put,
    second,
    statistics,
    write,
)

DURATION_S = 12.0
AGENTIC: Document = {
    "hw": "h200",
    "conc": 8,
    "model": "m",
    "framework": "vllm",
    "precision": "fp8",
    "tput_per_gpu": 100.0,
    "num_requests_total": N,
    "num_requests_successful": N,
    "duration_seconds": DURATION_S,
    "output_tput_tps": N * TOKENS / DURATION_S,
    **statistics(""),
}
EXPERIMENT: Document = {
    "date": "20260213-135636",
    "model_id": "m",
    "num_prompts": N,
    "request_rate": "inf",
    "max_concurrency": 8,
    "duration": DURATION_S,
    "completed": N,
    "good_completed": None,
    "total_output_tokens": N * TOKENS,
    **statistics(""),
}


def tokens(total: float | None) -> Change:
    return put(output_tput_tps=None if total is None else total / DURATION_S)


def beside(**values: object) -> Change:
    """The row in a list with another one, at another load, where every request misses."""

    def apply(folder: Path) -> None:
        (path,) = folder.iterdir()
        second(**values)(folder)
        both = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        path.write_text(json.dumps(both), encoding="utf-8")

    return apply


def no_tokens(folder: Path) -> None:
    aggregate("")["not streamed"](folder)
    tokens(None)(folder)


KINDS = {
    "agentic rows": Form(
        write("agg_x.json", AGENTIC),
        JUDGES,
        {
            **aggregate(""),
            "lost rows": put(num_requests_total=2 * N),
            "counts": put(num_requests_successful=N + 9),
            "failed": put(num_requests_successful=N - N // 3),
            "all failed": put(num_requests_successful=0, output_tput_tps=0.0),
            "zero tokens": tokens(0),
            "null tokens": no_tokens,
            "half the tokens": tokens(N / 2),
            "token totals": tokens(N * TOKENS / 2),
            "several loads": second(conc=16),
            "several loads: in a list": beside(conc=16),
            "repetitions: in a second row of a list": beside(aggregation_method="median"),
        },
        NO_ROWS,
        (
            Alone(
                "duration_seconds",
                "makes a number of tokens of their rate",
                ("zero tokens", "half the tokens", "token totals"),
            ),
        ),
    ),
    "experiment in seconds": Form(
        write("result.json", EXPERIMENT),
        JUDGES,
        {
            **aggregate(""),
            "lost rows": put(num_prompts=2 * N),
            "counts": put(completed=N + 9),
            "failed": put(completed=N - N // 3),
        },
        NO_ROWS,
        (
            Alone(
                "good_completed",
                "tells times in seconds from a file of vLLM without times",
                ("zero time", "negative time"),
            ),
        ),
    ),
}
