"""inference-benchmarker (Hugging Face; in Rust): one JSON a benchmark, percentiles of each of its steps.

Known from its source, 0.2.0 to 1.1.0 and after (dfef39d). It writes no file where a step had no success.
"""

from __future__ import annotations

from ..kinds import Kind

NAME = "inference-benchmarker"
TITLE = "inference-benchmarker"
_PARTS = frozenset(("config", "results", "start_time", "end_time", "system"))
_BEGINS = r'\s*\{\s*"config"\s*:\s*\{\s*"max_vus"\s*:'
KINDS = (Kind(".json", _PARTS, within=("config", frozenset(("benchmark_kind",))), begins=_BEGINS),)
