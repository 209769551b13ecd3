"""InferenceX (before: InferenceMAX): agg_*.json of process_result.py, agg_bmk.json lists, agentic rows.

All in seconds without a suffix; `*_intvty` is 1 / TPOT and never read. The raw file that an agg_ file
is made from has the shape of a vLLM result and is read by that reader; an experiment that writes
seconds into the same shape is read here.
"""

from __future__ import annotations

from ..source import Source

NAME = "inferencex"
TITLE = "InferenceX / InferenceMAX"
ROW = frozenset(("hw", "conc", "model", "framework", "precision"))
_BODY = frozenset(("tput_per_gpu", "request_metrics"))
_EXPERIMENT = frozenset(("model_id", "num_prompts", "good_completed"))


def sniff(source: Source, /) -> bool:
    """By the keys of the first row. Raises InputError only if unreadable."""
    if source.shape not in ("object", "objects", "array"):
        return False
    keys = source.keys
    return (keys >= ROW and bool(keys & _BODY)) or (keys >= _EXPERIMENT and "p99_ttft_ms" not in keys)
