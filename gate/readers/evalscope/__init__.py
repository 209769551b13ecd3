"""evalscope perf (modelscope): benchmark_data.db, or benchmark_summary.json with benchmark_percentile.json.

The SQLite table has a row for each request, in seconds; it is opened read-only and its pickled column is
never touched. The summary mixes units: TTFT, TPOT and ITL in ms, latency in s; before 1.8 all in s.
"""

from __future__ import annotations

from ..kinds import Kind

NAME = "evalscope"
TITLE = "evalscope perf"
KINDS = (
    Kind(
        "benchmark_data.db",
        begins=r"SQLite format 3\0(?=.*first_chunk_latency).*(inter_token_latencies|chunk_times)",
    ),
    Kind(
        "benchmark_summary.json",
        frozenset(("Success Requests", "Avg Latency (s)")),
        begins=r'\s*\{\s*"(Test Duration|Time taken for tests) \(s\)"\s*:',
    ),
    Kind("benchmark_summary.json", frozenset(("Succeed requests", "Average latency (s)"))),  # before 1.8
    Kind("benchmark_percentile.json", any_of=frozenset(("Percentiles", "Percentile")), array=True),
    Kind(
        "benchmark_args.json",
        frozenset(("tokenizer_path", "outputs_dir", "dataset", "parallel", "number", "api")),
        no_result="holds the arguments of an evalscope run",
    ),
)
