"""GuideLLM 0.2 to 0.8: benchmarks.json or .yaml with every request, several loads in a file; benchmarks.csv.

What it calls inter_token_latency_ms is our TPOT; its time_per_output_token_ms is neither (see summary).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...model import Run
from ..card import Format
from ..source import Source

NAME = "guidellm"
TITLE = "GuideLLM"
SIDE_FILES: Mapping[str, str] = {"benchmarks.html": "GuideLLM's page of the same results"}
FORMATS: Sequence[Format] = (
    Format(
        files="`benchmarks.json`, `.yaml` (0.2 to 0.8)",
        evidence="requests; aggregate where the lists are empty or a sample",
        reads=(
            "one run a benchmark; TTFT, E2E, server tokens; load from its strategy; model, version, date; "
            "warm-up is what lies outside the measurement window, incomplete is cancelled"
        ),
        cannot=(
            "ITL (no gaps); TTFT and TPOT without streaming; TPOT of answers in one chunk, or of an "
            "aggregate of unequal lengths"
        ),
        traps=(
            "zeros mean no data; `.total` mixes in errors; negative TTFT; `time_per_output_token_ms` "
            "gained the TTFT in 0.4; p01 is P1; `slo_attainment` leaves one-token answers out"
        ),
    ),
    Format(
        files="`benchmarks.csv` (3 header rows)",
        evidence="aggregate",
        reads="counts, TTFT, E2E, load, version",
        cannot="ITL; TPOT unless all outputs have one length",
        traps="its lists hold min and max, not P50 and P99.9; not counted beside its JSON",
    ),
)
DEFINITIONS: Mapping[str, str] = {
    "ttft": "time_to_first_token_ms = first content, reasoning or tool-call chunk - request start",
    "tpot": "inter_token_latency_ms = (last token - first token) / (output tokens - 1), not its "
    "time_per_output_token_ms, whose meaning changed in 0.4",
    "itl": "not recorded: its inter_token_latency_ms is one mean a request",
    "e2e": "request_latency = stream closed - request start",
}
_TABLE, _REPORT = "Run Info,", ("benchmarks:", "args:", "config:")


def sniff(source: Source, /) -> bool:
    """A report as JSON or YAML, or its table with three header rows."""
    if source.shape == "object":
        maybe = "benchmarks" in source.keys
    else:
        maybe = source.shape == "text" and any(word in source.head for word in (_TABLE, *_REPORT))
    if not maybe:
        return False
    from . import report, table

    return report.is_json(source) or table.is_csv(source) or report.is_yaml(source)


def read(source: Source, /) -> Sequence[Run]:
    """One Run a benchmark. Raises InputError for a file that is broken or contradicts itself."""
    from . import run

    return run.read(source)


def companions(sources: Sequence[Source], /) -> Mapping[Source, str]:
    """The same run once more: YAML beside JSON, CSV beside either."""
    from . import run

    return run.companions(sources)
