"""MLPerf LoadGen: the four logs of a run, of which the richest is the input.

mlperf_log_trace.json has each sample's TTFT and E2E (and TPOT, where mlperf_log_accuracy.json counts
tokens); mlperf_log_detail.txt and mlperf_log_summary.txt have percentiles and LoadGen's verdict. Known
from 5.1 to 6.0.17. A run that LoadGen calls INVALID is never judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import kinds
from ..kinds import Kind
from ..source import Source

NAME = "mlperf"
TITLE = "MLPerf LoadGen"
_MARKS = r'\{"name":"GenerateLoadableSets"|\{"name":"GenerateQueries"|"args":\{"sample_seq":'
_DETAIL = r":::MLLOG \{.{0,60}loadgen_version"  # its first line; MLPerf Training logs differ
_OF_ACCURACY = "is of an accuracy run and holds no latency"
TRACE = Kind("trace*.json", begins=rf'\s*\{{"traceEvents":\[.*(?:{_MARKS})')
DETAIL = Kind("detail*.txt", begins=_DETAIL)
SUMMARY = Kind("summary*.txt", begins=r"\s*=+\s*MLPerf Results Summary\s*=+")
KINDS = (
    Kind(
        "detail*.txt",
        begins=_DETAIL + r'.*"effective_test_mode", "value": ?"AccuracyOnly"',
        no_result=_OF_ACCURACY,
    ),
    TRACE,
    DETAIL,
    SUMMARY,
    Kind(
        "summary*.txt",
        begins=r"\s*(?:No warnings encountered|\d+ warnings? encountered|No errors encountered)",
        no_result=_OF_ACCURACY,
    ),
    Kind(
        "accuracy*.json",
        begins=r'\s*\[.*"seq_id".*"qsl_idx"',
        no_result="holds LoadGen's answers, not a result; its token counts are read with the trace",
    ),
)


def sniff(source: Source, /) -> bool:
    """Whether LoadGen wrote it. An empty log has only its name: LoadGen opens them all at the start."""
    if source.shape == "empty" and source.path is not None:
        return source.path.name.startswith("mlperf_log_") and kinds.place(source, KINDS) != str(source.path)
    return kinds.kind_of(source, KINDS) is not None


def companions(sources: Sequence[Source], /) -> Mapping[Source, str]:
    """Of the logs of one run all but the richest: trace, then detail, then summary; accuracy runs."""
    covered = dict(kinds.companions(sources, KINDS))
    accuracy = {kinds.place(source, KINDS) for source, why in covered.items() if why == _OF_ACCURACY}
    return covered | {source: _OF_ACCURACY for source in sources if kinds.place(source, KINDS) in accuracy}
