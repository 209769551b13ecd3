"""LMBenchmark (LMCache; a CSV in seconds) and the InferenceX multi-turn client (a CSV in ms).

Both write a row for each request that finished and none for one that failed.
"""

from __future__ import annotations

from ..kinds import Kind

NAME = "lmbenchmark"
TITLE = "LMBenchmark"
COUNTS = ("input_num_tokens", "output_num_tokens", "output_num_first_chunk_tokens")
SECONDS = Kind(
    ".csv",
    header=frozenset(
        ("prompt_tokens", "generation_tokens", "ttft", "generation_time", "launch_time", "finish_time")
    ),
)
# By its words for tokens, so that no other reader takes the rest for the whole where a column is missing.
MULTITURN = Kind(".csv", header=frozenset(("ttft_ms",)), any_of=frozenset(COUNTS))
KINDS = (SECONDS, MULTITURN)
