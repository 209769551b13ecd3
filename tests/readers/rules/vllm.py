"""How the rules are broken in the files of `vllm bench serve`."""

from __future__ import annotations

from tests.readers.rules import Alone, Form
from tests.readers.rules.forks import (
    ARRAYS,
    DETAILED,
    JUDGES,
    NEVER,
    NO_ROWS,
    TOKENS,
    Document,
    N,
    aggregate,
    arrays,
    fail,
    put,
    rows,
    second,
    statistics,
    without,
    write,
)

HEAD: Document = {
    "date": "20261129-135905",
    "backend": "openai-chat",
    "model_id": "m",
    "tokenizer_id": "m",
    "num_prompts": N,
    "request_rate": "inf",
    "max_concurrency": 8,
    "duration": 12.0,
    "completed": N,
    "failed": 0,
    "total_output_tokens": N * TOKENS,
}
FAILED = {"completed": N - N // 3, "failed": N // 3}
EVERY = {"completed": 0, "failed": N, "total_output_tokens": 0}


WAITS = (
    Alone("queue_times", "shows how long requests waited in the client", ("open_loop",)),
    Alone("request_rate", "says that they were to be sent without waiting", ("open_loop",)),
)


def detailed(e2e: str) -> Form:
    breaks = {
        **DETAILED,
        "failed": rows(lambda n, row: n % 3 or fail(row), **FAILED),
        "all failed": rows(lambda n, row: fail(row), **EVERY),
        "several loads: without a rate": second(("request_rate",), max_concurrency=16),
        "several loads: in bursts": second(max_concurrency=None),
        "summary alone": without(*ARRAYS, "failed", completed=N - N // 3),
    }
    return Form(write("result.json", {**HEAD, **arrays(e2e), **statistics()}), JUDGES, breaks, NEVER, WAITS)


KINDS = {
    "detailed": detailed("latencies"),
    "detailed without `latencies` (before 0.30)": detailed(""),
    "aggregate": Form(
        write("result.json", {**HEAD, **statistics()}),
        JUDGES,
        {
            **aggregate(),
            "lost rows": put(num_prompts=2 * N),
            "counts": put(completed=N + 9),
            "failed": put(**FAILED),
            "all failed": put(**EVERY),
            "half the tokens: by the lengths left in": put(output_lens=[0, TOKENS] * (N // 2)),
            "zero tokens: by the lengths left in": put(output_lens=[0] * N),
            "several loads: without a rate": second(("request_rate",), max_concurrency=16),
        },
        NO_ROWS,
    ),
}
