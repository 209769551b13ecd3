"""MLPerf LoadGen: the four logs of a run, of which the richest is the input.

mlperf_log_trace.json has each sample's TTFT and E2E (and TPOT, where mlperf_log_accuracy.json counts
tokens); mlperf_log_detail.txt and mlperf_log_summary.txt have percentiles and LoadGen's verdict. Known
from 5.1 to 6.0.17. A run that LoadGen calls INVALID is never judged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...model import Run
from ..card import Format
from ..source import Source

NAME = "mlperf"
TITLE = "MLPerf LoadGen"
SIDE_FILES: Mapping[str, str] = {
    "mlperf_log_*accuracy*.json": "LoadGen's answers (token counts are read from it with the trace)",
    "measurements.json": "MLPerf's description of a submission",
    "accuracy.txt": "the score of an MLPerf accuracy run",
    "run.txt": "the console output of an MLPerf run",
}
FORMATS: Sequence[Format] = (
    Format(
        files="LoadGen `mlperf_log_trace.json` (`mlperf_log_accuracy.json` for tokens)",
        evidence="requests",
        reads=(
            "TTFT, E2E, start; TPOT with `accuracy_log_probability = 1`; verdict, load, version, date "
            "from the log beside it"
        ),
        cannot=(
            "ITL; TPOT without token counts; everything if LoadGen says INVALID or no verdict lies beside "
            "it; TTFT and TPOT in Offline"
        ),
        traps="the trace is not JSON; the clock starts at the scheduled arrival",
    ),
    Format(
        files="`mlperf_log_detail.txt`, else `mlperf_log_summary.txt`",
        evidence="aggregate",
        reads="P50 to P99.9, min, max, mean of E2E, TTFT, TPOT; n, rates, verdict, errors",
        cannot="ITL; TTFT and TPOT in Offline; everything if INVALID, with LoadGen's own reasons",
        traps=(
            "Interactive prints as Server; one-token answers have TPOT 0; VALID despite errors; the "
            "summary has no n; an empty summary is an aborted run"
        ),
    ),
)
DEFINITIONS: Mapping[str, str] = {
    "ttft": "first token - scheduled arrival: contains the delay of the issue, so no queue is hidden",
    "e2e": "sample complete - scheduled arrival",
    "tpot": "(latency - first token latency) // (n_tokens - 1) in whole ns; a sample of one token gets"
    " a TPOT of 0 or less and counts as good",
}
LOG_NAME = r"(?P<prefix>.*)(?P<what>summary|detail|trace|accuracy)(?P<suffix>.*)\.(?:txt|json)"
_DETAIL = r":::MLLOG \{.{0,60}loadgen_version"  # its first line; MLPerf Training logs differ
_SUMMARY = r"=+\s*MLPerf Results Summary\s*=+"
NO_RESULTS = r"\s*(?:No warnings encountered|\d+ warnings? encountered|No errors encountered)"
_TRACE_HEAD = '{"traceEvents":['
_TRACE_MARKS = ('{"name":"GenerateLoadableSets"', '{"name":"GenerateQueries"', '"args":{"sample_seq":')


def sniff(source: Source, /) -> bool:
    """Whether LoadGen wrote it: summary, detail, trace or accuracy log."""
    return kind(source) is not None


def read(source: Source, /) -> Sequence[Run]:
    """The one run. Raises InputError when a log is empty, cut short or contradicts itself or another."""
    from . import run

    return run.read(source)


def companions(sources: Sequence[Source], /) -> Mapping[Source, str]:
    """Of the logs of one run all but the richest: trace, then detail, then summary; accuracy runs."""
    from . import files

    return files.companions(sources)


def kind(source: Source) -> str | None:
    """summary, detail, trace or accuracy; None for another tool's file.

    A trace is not JSON (it doubles quotes), so it arrives as shape broken. An empty file has only
    its name: LoadGen opens its logs at the start and fills the summary at the end of a run.
    """
    shape = source.shape
    if shape == "empty":
        name = file_name(source)
        found = re.fullmatch(LOG_NAME, name)
        return found["what"] if found and name.startswith("mlperf_log_") else None
    if shape == "text":
        head = source.head
        if re.match(_DETAIL, head):
            return "detail"
        return "summary" if re.match(_SUMMARY, head.lstrip()) or re.match(NO_RESULTS, head) else None
    head = source.head.lstrip()
    if shape in ("broken", "object") and head.startswith(_TRACE_HEAD):
        return "trace" if any(mark in head for mark in _TRACE_MARKS) else None
    if shape == "array" and '"seq_id"' in head and '"qsl_idx"' in head:
        return "accuracy"
    return None


def file_name(source: Source) -> str:
    """The name without folder and .gz; empty for stdin."""
    return "" if source.path is None else source.path.name.removesuffix(".gz")
