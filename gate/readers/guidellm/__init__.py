"""GuideLLM 0.2 to 0.8: benchmarks.json or .yaml with every request, several loads in a file; benchmarks.csv.

What it calls inter_token_latency_ms is our TPOT; its time_per_output_token_ms is neither (see summary).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import kinds
from ..kinds import Kind
from ..source import Source

NAME = "guidellm"
TITLE = "GuideLLM"
SIDE_FILES: Mapping[str, str] = {"benchmarks.html": "GuideLLM's page of the same results"}
DEFINITIONS: Mapping[str, str] = {
    "ttft": "time_to_first_token_ms = first content, reasoning or tool-call chunk - request start",
    "tpot": "inter_token_latency_ms = (last token - first token) / (output tokens - 1), not its "
    "time_per_output_token_ms, whose meaning changed in 0.4",
    "itl": "not recorded: its inter_token_latency_ms is one mean a request",
    "e2e": "request_latency = stream closed - request start",
}
_OURS = r"^\s+(?:- )?(?:inter_token_latency_ms:|type_: generative_benchmark$|guidellm_version: )"
CSV = Kind(".csv", begins=r"Run Info,[^\n]*\nRun ID,")
KINDS = (
    Kind(".json", frozenset(("benchmarks",))),
    Kind(".yaml", begins=rf"(?m)(?=.*?^(?:benchmarks:\n- |args:$|config:$))(?=.*?{_OURS})"),
    CSV,
)


def sniff(source: Source, /) -> bool:
    """A report as JSON or YAML, or its table with three header rows."""
    kind = kinds.kind_of(source, KINDS)
    if kind is not KINDS[0]:
        return kind is not None
    from . import report

    return report.is_ours(source)


def companions(sources: Sequence[Source], /) -> Mapping[Source, str]:
    """The same run once more, by its name or its run id: YAML beside JSON, CSV beside either."""
    from . import report

    return kinds.companions(sources, KINDS, report.same_run)
