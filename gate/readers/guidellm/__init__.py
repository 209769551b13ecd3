"""GuideLLM 0.2 to 0.8: benchmarks.json or .yaml with the requests of several loads; benchmarks.csv."""

from __future__ import annotations

from ..kinds import Kind

NAME = "guidellm"
TITLE = "GuideLLM"
_OURS = r"^\s+(?:- )?(?:inter_token_latency_ms:|type_: generative_benchmark$|guidellm_version: )"
CSV = Kind(".csv", begins=r"Run Info,[^\n]*\nRun ID,")
KINDS = (
    Kind(".json", frozenset(("benchmarks",)), within=("metadata", frozenset(("guidellm_version",)))),
    Kind(".json", frozenset(("benchmarks",)), within=("benchmarks", frozenset(("type_",)))),
    Kind(".yaml", begins=rf"(?m)(?!\s*[{{\[])(?=.*?^(?:benchmarks:\n- |args:$|config:$))(?=.*?{_OURS})"),
    CSV,
)
