"""The documented row format for home-made harnesses: JSON lines, a JSON array or CSV (DESIGN section 6).

One row a request: start_s, ttft_s, e2e_s (or _ms, _us, _ns), output_tokens, input_tokens, error,
cancelled, warmup; run, concurrency and request_rate split the rows into runs; model, tool,
tool_version, hardware and session are constant columns; itl_s is a list of gaps (JSON only).
"""

from __future__ import annotations

from ...canonical import FACTS
from ...errors import InputError
from ..source import COLUMNAR, Source

NAME = "generic"
TITLE = "generic rows"
# Keys by which a row of another tool is known even where it has a ttft or e2e column too.
_FOREIGN = {"inter_token_latency_s", "request_output_throughput_token_per_s"}


def sniff(source: Source, /) -> bool:
    """Whether the rows have a ttft_* or e2e_* column and no other tool's. Asked after all other readers."""
    from . import columns

    if source.shape not in ("object", "objects", "array", "text", *COLUMNAR):
        return False
    if (source.shape in COLUMNAR or FACTS in source.head) and FACTS in columns.head_columns(source):
        return True
    if not columns.has_latency(source):
        return False
    if source.shape == "object" and not columns.by_line(source):
        return False  # one indented object is somebody's configuration or summary, not a row
    return _FOREIGN.isdisjoint(columns.head_columns(source))


def near_columns(source: Source, /) -> InputError | None:
    """What to say of rows whose columns are nearly ours: which are meant, and how to map them."""
    from . import run

    return run.near_columns(source)
