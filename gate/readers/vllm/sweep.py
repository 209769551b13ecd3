"""Which files of a vLLM sweep hold the same runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import bench_serving as _bench
from ..source import Source
from . import FAILURE, PYTORCH, SIDE_FILES


def companions(sources: Sequence[Source]) -> Mapping[Source, str]:
    """In a sweep's folder: warm-ups, and summaries whose runs are there one by one."""
    runs = {(_folder(s), number): s for s in sources if (number := _run_number(s)) is not None}
    covered: dict[Source, str] = {}
    for source in sources:
        here = {number: s for (folder, number), s in runs.items() if folder == _folder(source)}
        if source.shape == "array" and source.keys == PYTORCH:
            covered[source] = SIDE_FILES["*.pytorch.json"]
        elif source.shape == "array":
            covered |= _summary_or_runs(source, here)
        elif source.keys >= FAILURE:
            if source.doc.count("run_number") in here:
                covered[source] = "the failed run was repeated and its result is beside it"
        elif _run_number(source) is None and source.keys >= {"run_number"}:
            covered[source] = "it is the warm-up of a sweep"
        elif source.shape == "text" and any(_inside(folder, _folder(source)) for folder, _ in runs):
            covered[source] = "a table of the sweep's runs, which are there one by one"
    return covered


def _summary_or_runs(source: Source, here: Mapping[int, Source]) -> dict[Source, str]:
    """Runs of a summary.json are counted once, from whichever side knows more of them."""
    listed = {doc.count("run_number") for doc in _bench.docs(source)}
    if here and listed <= set(here):
        return {source: "a list of the sweep's runs, which are there one by one"}
    return {s: f"its run is also in {source.name}" for number, s in here.items() if number in listed}


def _run_number(source: Source) -> int | None:
    """N of a sweep's run=N.json; None for the warm-up and for every other file."""
    if source.shape != "object" or "run_number" not in source.keys or source.keys >= FAILURE:
        return None
    number = source.doc.number("run_number")
    return int(number) if number is not None and number >= 0 else None


def _folder(source: Source) -> str:
    return str(source.path.parent) if source.path else ""


def _inside(folder: str, parent: str) -> bool:
    return folder == parent or folder.startswith((parent + "/", parent + "\\"))
