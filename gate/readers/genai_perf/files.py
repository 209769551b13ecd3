"""Which of GenAI-Perf's files belong to one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from .. import nvidia
from ..source import Source
from . import kind
from . import summary as _summary


def companions(sources: Sequence[Source]) -> Mapping[Source, str]:
    """Summaries of raw exports that are there too, and CSV copies of summaries."""
    kinds = {source: kind(source) for source in sources if source.path is not None}
    covers: dict[tuple[Path, str], Source] = {}
    for rank in ("csv", "summary", "raw"):  # the richest last, so that it stands
        covers.update({_place(source): source for source, k in kinds.items() if k == rank})
    found = {}
    for source, k in kinds.items():
        if k not in ("csv", "summary"):
            continue
        folder, prefix = _place(source)
        exported = _summary.exported(source) if k == "summary" else None
        names = [(folder, prefix), (folder, _prefix(exported) if exported else prefix)]
        other = next((covers[n] for n in names if covers.get(n, source) is not source), None)
        if other is None and k == "csv":
            other = next(
                (s for s, one in kinds.items() if one == "raw" and _summary_of(s) == _place(source)), None
            )
        if other is not None:
            found[source] = f"summarises {other.name}, which is read"
    return found


def _prefix(name: str) -> str:
    stem = nvidia.stem(name, ".json", ".csv") or name
    return stem.removesuffix("_genai_perf")


def _place(source: Source) -> tuple[Path, str]:
    path = source.path or Path(source.name)
    return path.parent, _prefix(path.name)


def _summary_of(source: Source) -> tuple[Path, str] | None:
    found = summary_beside(source)
    return _place(found) if found else None


def summary_beside(source: Source) -> Source | None:
    """The summary of a raw export: by prefix, or one that names it as its profile_export_file."""
    prefix = _place(source)[1]
    names = dict.fromkeys((f"{prefix}_genai_perf.json", "profile_export_genai_perf.json"))
    for other in nvidia.beside(source, *names):
        if kind(other) == "summary" and prefix in (
            _place(other)[1],
            _prefix(_summary.exported(other) or ""),
        ):
            return other
    return None
