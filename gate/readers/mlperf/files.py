"""Which of LoadGen's files a source is, by content, and which files belong to one run."""

from __future__ import annotations

import re
from pathlib import Path

from .._source import Source

_NAME = re.compile(r"(?P<prefix>.*)(?P<what>summary|detail|trace|accuracy)(?P<suffix>.*)\.(?:txt|json)")
_ENDINGS = {"summary": "txt", "detail": "txt", "trace": "json", "accuracy": "json"}
_DETAIL = re.compile(r":::MLLOG \{.{0,60}loadgen_version")  # its first line; MLPerf Training logs differ
_SUMMARY = re.compile(r"=+\s*MLPerf Results Summary\s*=+")
_NO_RESULTS = re.compile(r"\s*(?:No warnings encountered|\d+ warnings? encountered|No errors encountered)")
_ACCURACY_ONLY = re.compile(r'"effective_test_mode", "value": ?"AccuracyOnly"')
_TRACE_HEAD = '{"traceEvents":['
_TRACE_MARKS = ('{"name":"GenerateLoadableSets"', '{"name":"GenerateQueries"', '"args":{"sample_seq":')


def kind(source: Source) -> str | None:
    """summary, detail, trace or accuracy; None for another tool's file.

    A trace is not JSON (it doubles quotes), so it arrives as shape broken. An empty file has only
    its name: LoadGen opens its logs at the start and fills the summary at the end of a run.
    """
    shape = source.shape
    if shape == "empty":
        name = _name(source) or ""
        found = _NAME.fullmatch(name)
        return found["what"] if found and name.startswith("mlperf_log_") else None
    if shape == "text":
        head = source.head
        if _DETAIL.match(head):
            return "detail"
        return "summary" if _SUMMARY.match(head.lstrip()) or _NO_RESULTS.match(head) else None
    head = source.head.lstrip()
    if shape in ("broken", "object") and head.startswith(_TRACE_HEAD):
        return "trace" if any(mark in head for mark in _TRACE_MARKS) else None
    if shape == "array" and '"seq_id"' in head and '"qsl_idx"' in head:
        return "accuracy"
    return None


def of_accuracy_run(source: Source) -> bool:
    """Whether a detail log or summary is of a run that measures no latency."""
    found = kind(source)
    if found == "summary":
        return bool(_NO_RESULTS.match(source.head))
    return found == "detail" and bool(_ACCURACY_ONLY.search(source.head))


def place(source: Source) -> tuple[Path, str, str]:
    """Folder, prefix and suffix that the files of one run share, whatever LogOutputSettings says."""
    path = source.path or Path(source.name)
    found = _NAME.fullmatch(_name(source) or "")
    return path.parent, found["prefix"] if found else path.name, found["suffix"] if found else ""


def sibling(source: Source, what: str) -> Source | None:
    """The summary, detail, trace or accuracy file of the run that `source` is of."""
    found = _NAME.fullmatch(_name(source) or "")
    if found is None:
        return None
    name = f"{found['prefix']}{what}{found['suffix']}.{_ENDINGS[what]}"
    for other in (source.beside(name), source.beside(name + ".gz")):
        # Without accuracy_log_probability LoadGen leaves an empty list there, which only its name tells.
        if other is not None and (kind(other) == what or what == "accuracy"):
            return other
    return None


def _name(source: Source) -> str | None:
    return None if source.path is None else source.path.name.removesuffix(".gz")
