"""GenAI-Perf: the raw profile_export.json with its summary beside it; the summary alone as JSON or CSV.

Known from 0.0.16 back to 24.08. The raw file holds timestamps and bodies, no metric: TTFT ends at the
first answer with content, E2E at the last, never at the finish chunk or [DONE].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from .. import kinds
from ..source import Source
from ..stored import unpacked_name

NAME = "genai-perf"
TITLE = "GenAI-Perf"
_MARKS = ("input_config", frozenset(("perf_analyzer", "stability_percentage", "profile_export_file")))
_CSV = r"Metric,avg,min,max,p99\b"  # AIPerf goes on with sum or p1
RAW = kinds.Kind(".json", keys=frozenset(("experiments", "service_kind")))
SUMMARY = kinds.Kind(
    "_genai_perf.json",
    any_of=frozenset(("request_throughput", "request_latency")),
    without=frozenset(("aiperf_version",)),
    within=_MARKS,  # the later two: 24.08
)
KINDS = (RAW, SUMMARY, kinds.Kind("_genai_perf.csv", begins=_CSV), kinds.Kind(".csv", begins=_CSV))


def companions(sources: Sequence[Source], /) -> Mapping[Source, str]:
    """Summaries of raw exports that are there too, and CSV copies of summaries."""
    return kinds.companions(sources, KINDS, sums_up)


def sums_up(raw: Source, source: Source) -> bool:
    """Whether a summary, or the one beside a CSV, names `raw` as the export it was made from."""
    summary = source if source.shape == "object" else kinds.beside(source, KINDS, SUMMARY.name)
    if not raw.path or not summary or not summary.path or summary.path.parent != raw.path.parent:
        return False
    config = summary.doc.mapping("input_config")
    output = config.get("output")
    path = config.get("profile_export_file") or (
        isinstance(output, dict) and output.get("profile_export_file")
    )
    return PurePath(str(path).replace("\\", "/")).name == unpacked_name(raw.path.name)
