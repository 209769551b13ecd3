"""Which of LoadGen's files belong to one run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..source import Source
from . import LOG_NAME, NO_RESULTS, file_name, kind

_ENDINGS = {"summary": "txt", "detail": "txt", "trace": "json", "accuracy": "json"}
_RANKS = {"summary": 0, "detail": 1, "trace": 2}
_ACCURACY_ONLY = re.compile(r'"effective_test_mode", "value": ?"AccuracyOnly"')


def companions(sources: Sequence[Source]) -> Mapping[Source, str]:
    """Of the logs of one run all but the richest: trace, then detail, then summary; accuracy runs."""
    kinds = {source: k for source in sources if (k := kind(source))}
    answers = {place(source) for source in kinds if of_accuracy_run(source)}
    best = {
        place(source): source
        for source in sorted(kinds, key=lambda one: _RANKS.get(kinds[one], -1))
        if kinds[source] != "accuracy" and place(source) not in answers
    }
    covered = {}
    for source, k in kinds.items():
        other = best.get(place(source))
        if best and place(source) in answers:
            covered[source] = "is of an accuracy run, which measures no latency"
        elif best and k == "accuracy":
            covered[source] = "holds LoadGen's answers; its token counts are read with the trace"
        elif other is not None and other is not source:
            covered[source] = f"is of the run of {other.name}, which is read"
    return covered


def of_accuracy_run(source: Source) -> bool:
    """Whether a detail log or summary is of a run that measures no latency."""
    found = kind(source)
    if found == "summary":
        return bool(re.match(NO_RESULTS, source.head))
    return found == "detail" and bool(_ACCURACY_ONLY.search(source.head))


def place(source: Source) -> tuple[Path, str, str]:
    """Folder, prefix and suffix that the files of one run share, whatever LogOutputSettings says."""
    path = source.path or Path(source.name)
    found = re.fullmatch(LOG_NAME, file_name(source))
    return path.parent, found["prefix"] if found else path.name, found["suffix"] if found else ""


def sibling(source: Source, what: str) -> Source | None:
    """The summary, detail, trace or accuracy file of the run that `source` is of."""
    found = re.fullmatch(LOG_NAME, file_name(source))
    if found is None:
        return None
    name = f"{found['prefix']}{what}{found['suffix']}.{_ENDINGS[what]}"
    for other in (source.beside(name), source.beside(name + ".gz")):
        # Without accuracy_log_probability LoadGen leaves an empty list there, which only its name tells.
        if other is not None and (kind(other) == what or what == "accuracy"):
            return other
    return None
