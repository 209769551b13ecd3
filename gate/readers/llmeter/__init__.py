"""LLMeter (awslabs): responses.jsonl with summary.json, stats.json and run_config.json beside.

Rows are in seconds and in order of completion; `request_time` has whole seconds, too coarse for a start.
LoadTest appends the rows of all its client levels to one file: the last level is told apart by stats.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...model import Run
from .._source import Source
from . import files, rows, stats

NAME = "llmeter"
TITLE = "LLMeter"
SIDE_FILES: Mapping[str, str] = {
    "run_config.json": "the configuration of an LLMeter or AIPerf run",
    "payload.jsonl": "the payloads LLMeter sent",
}


def sniff(source: Source, /) -> bool:
    """Whether LLMeter wrote it: rows, statistics, summary or configuration."""
    return files.kind(source) is not None


def read(source: Source, /) -> Sequence[Run]:
    """The runs of the file: one, or one a part where a LoadTest put several levels into it.

    Raises InputError when it is broken, empty, no result or contradicts the files beside it.
    """
    found = files.kind(source)
    if found == "rows":
        return rows.read(source)
    if found == "stats":
        return (stats.read(source),)
    if found is not None:
        raise source.fail(files.NO_RESULT[found], hint="pass the run's responses.jsonl or stats.json")
    if fault := source.fault():
        raise fault
    raise source.fail("holds no responses of LLMeter", hint="pass the run's responses.jsonl")


def companions(sources: Sequence[Source], /) -> Mapping[Source, str]:
    """Statistics whose rows are there too (same folder and prefix, or the same numbers), and side files."""
    kinds = {source: files.kind(source) for source in sources}
    results = {kind for kind in kinds.values() if kind in ("rows", "stats")}
    taken: dict[Source, str] = {}
    for source, kind in kinds.items():
        if kind == "stats":
            for other in (s for s, k in kinds.items() if k == "rows"):
                if files.place(source) == files.place(other) or rows.same_run(other, source):
                    taken[source] = f"its requests are in {other.name}"
        elif kind is not None and kind != "rows" and results:
            taken[source] = files.NO_RESULT[kind]
    return taken
