"""SGLang `bench_serving`: JSON lines, one a run, always appended to the same file.

Arrays in seconds (with --output-details), statistics in milliseconds; no start times, no E2E of a
request and no count of failures. Also the summary a Together baseline nests under `metrics`.
"""

from __future__ import annotations

from ..source import Source

NAME = "sglang"
TITLE = "SGLang bench_serving"
_KEYS = ("total_output_tokens_retokenized", "mean_e2e_latency_ms", "sharegpt_output_len")
_WRAPPED = frozenset(("hw", "framework", "conc", "isl", "osl", "metrics"))


def sniff(source: Source, /) -> bool:
    """By the keys of the first object. Raises InputError only if unreadable."""
    if source.shape not in ("object", "objects"):
        return False
    keys = source.keys
    return sum(key in keys for key in _KEYS) >= 2 or (keys >= _WRAPPED and "tput_per_gpu" not in keys)
