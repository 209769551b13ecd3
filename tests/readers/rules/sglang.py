"""How the rules are broken in the lines of SGLang's bench_serving."""

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
    "backend": "sglang-oai-chat",
    "dataset_name": "random",
    "request_rate": "inf",
    "max_concurrency": 8,
    "sharegpt_output_len": None,
    "random_range_ratio": 0.0,
    "duration": 12.0,
    "completed": N,
    "total_output_tokens": N * TOKENS,
    "total_output_tokens_retokenized": N * TOKENS,
    **statistics(e2e="e2e_latency"),
}
SENT = {"request_goodput": N / 12.0, "slo_attainment": 1.0}  # of all sent
NO_PROMPTS = "does not say how many requests were asked for"

KINDS = {
    "detailed": Form(
        write("result.jsonl", {**HEAD, **arrays("")}),
        JUDGES,
        {
            **{rule: change for rule, change in DETAILED.items() if not rule.startswith("lost rows")},
            "all failed": rows(lambda n, row: fail(row), completed=0, total_output_tokens=0),
            "several loads: without a rate": second(("request_rate",), max_concurrency=16),
            "summary alone": without(*ARRAYS, completed=N - N // 3),
        },
        {**NEVER, "lost rows": NO_PROMPTS},
        (
            Alone("mean_e2e_latency_ms", "shows that answers end later than their last chunk", ("cut rows",)),
            Alone("max_concurrency", "tells the loads of a file apart", ("appended",)),
        ),
    ),
    "aggregate with `--goodput`": Form(
        write("result.jsonl", {**HEAD, **SENT}),
        JUDGES,
        {
            **aggregate(),
            "all failed": put(completed=0, total_output_tokens=0, request_goodput=0.0, slo_attainment=0.0),
            "counts": put(completed=N + 9),
            "counts: of all that were sent": without(*SENT),
            "failed": put(completed=N - N // 3, slo_attainment=1.0),
            "token totals: by the texts": put(total_output_tokens_retokenized=N * TOKENS / 2),
            "several loads: without a rate": second(("request_rate",), max_concurrency=16),
        },
        {**NO_ROWS, "lost rows": NO_PROMPTS},
    ),
}
