"""GenAI-Perf: the raw profile_export.json with its summary beside it; the summary alone as JSON or CSV.

Known from 0.0.16 back to 24.08. The raw file holds timestamps and bodies, no metric: TTFT ends at the
first answer with content, E2E at the last, never at the finish chunk or [DONE].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...model import Run
from ..card import Format
from ..source import Source

NAME = "genai-perf"
TITLE = "GenAI-Perf"
SIDE_FILES: Mapping[str, str] = {
    "inputs.json": "the prompts AIPerf or GenAI-Perf sent",
    "llm_inputs.json": "the prompts GenAI-Perf sent",
    "genai_perf_config.yaml": "GenAI-Perf's configuration",
}
FORMATS: Sequence[Format] = (
    Format(
        files="`profile_export.json` with its summary beside it",
        evidence="requests",
        reads=(
            "TTFT, E2E, gaps from the timestamps of content; tokens from usage, or from chunks where the "
            "summary proves one token a chunk"
        ),
        cannot="TPOT when tokens are unknown; TTFT, TPOT, ITL without `--streaming`",
        traps=(
            "one failure aborts the run, so failures are invisible; the last timestamp is `[DONE]`; "
            "several events in one buffer"
        ),
    ),
    Format(
        files="`profile_export_genai_perf.json` or `.csv` alone",
        evidence="aggregate",
        reads="percentiles, count",
        cannot="ITL; everything in 24.08, which has no count",
        traps=(
            "without streaming TTFT repeats E2E; thousands separators; goodput misaligned by one-token "
            "answers; no tool version"
        ),
    ),
)
DEFINITIONS: Mapping[str, str] = {
    "ttft": "time_to_first_token = first response with content - request start",
    "tpot": "inter_token_latency = (request_latency - time_to_first_token) / (output tokens - 1), whole ns",
    "itl": "not reported: its inter_token_latency is one mean a request",
    "e2e": "request_latency = last response with content - request start",
}


def sniff(source: Source, /) -> bool:
    """Whether perf_analyzer or GenAI-Perf wrote it: raw export, summary or CSV."""
    return kind(source) is not None


def read(source: Source, /) -> Sequence[Run]:
    """One Run an experiment. Raises InputError for a file that is broken or contradicts itself."""
    from . import files, raw, summary

    found = kind(source)
    if found == "raw":
        return raw.read(source, files.summary_beside(source))
    if found is None:
        if fault := source.fault():
            raise fault
        raise source.fail("is not a result of GenAI-Perf", hint=f"give {summary.RAW}")
    return [summary.read(source)]


def companions(sources: Sequence[Source], /) -> Mapping[Source, str]:
    """Summaries of raw exports that are there too, and CSV copies of summaries."""
    from . import files

    return files.companions(sources)


def kind(source: Source) -> str | None:
    """raw, summary or csv; None for another tool's file."""
    if source.shape != "object":
        head = source.header
        return "csv" if head[:5] == ["Metric", "avg", "min", "max", "p99"] else None  # AIPerf: sum or p1
    if {"experiments", "service_kind"} <= source.keys:
        return "raw"
    if "aiperf_version" in source.keys or not source.keys & {"request_throughput", "request_latency"}:
        return None
    config: Any = source.doc.any("input_config")
    marks = {"perf_analyzer", "stability_percentage", "profile_export_file"}  # the later two: 24.08
    return "summary" if isinstance(config, dict) and config.keys() & marks else None
