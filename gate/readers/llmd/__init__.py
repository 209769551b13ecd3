"""llm-d benchmark report v0.1, v0.2 and v0.2.1, YAML or JSON: aggregates of another tool's run.

Every metric carries its own unit. The report is a conversion: what a number means depends on the tool
that ran, and some converters lose failures or call another quantity TPOT.
"""

from __future__ import annotations

import re

from ..source import Source

NAME = "llm-d"
TITLE = "llm-d benchmark report"
_TOP = rb"(?m)^(?:metrics|results):[ \t]*(?:#.*)?\r?$"
_MARK = rb"(?m)^ *(?:request_performance|time_to_first_token|request_latency):"
_SNIFFED = 1 << 20  # bytes: `native` settings may stand before what tells


def sniff(source: Source, /) -> bool:
    """Whether it is a report, whole or cut short, by its top-level keys."""
    if source.shape == "object":
        keys = source.keys
        return "scenario" in keys and ({"version", "metrics"} <= keys or {"version", "results"} <= keys)
    if source.shape != "text":
        return False
    head = bytes(source.data[:_SNIFFED])
    return re.search(_TOP, head) is not None and re.search(_MARK, head) is not None
