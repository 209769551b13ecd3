"""GenAI-Perf: the raw profile_export.json with its summary beside it; the summary alone as JSON or CSV.

Known from 0.0.16 back to 24.08. The raw file holds timestamps and bodies, no metric: TTFT ends at the
first answer with content, E2E at the last, never at the finish chunk or [DONE].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..model import Run
from . import _genai_perf_raw as _raw
from . import _genai_perf_summary as _summary
from . import _nvidia
from ._source import Source

NAME = _summary.NAME
TITLE = "GenAI-Perf"
SIDE_FILES: Mapping[str, str] = {
    "inputs.json": "the prompts AIPerf or GenAI-Perf sent",
    "llm_inputs.json": "the prompts GenAI-Perf sent",
    "genai_perf_config.yaml": "GenAI-Perf's configuration",
}


def sniff(source: Source) -> bool:
    """Whether perf_analyzer or GenAI-Perf wrote it: raw export, summary or CSV."""
    return _kind(source) is not None


def read(source: Source) -> Sequence[Run]:
    """One Run an experiment. Raises InputError for a file that is broken or contradicts itself."""
    kind = _kind(source)
    if kind == "raw":
        return _raw.read(source, _summary_beside(source))
    if kind is None:
        if fault := source.fault():
            raise fault
        raise source.fail("is not a result of GenAI-Perf", hint=f"give {_summary.RAW}")
    return [_summary.read(source)]


def companions(sources: Sequence[Source]) -> Mapping[Source, str]:
    """Summaries of raw exports that are there too, and CSV copies of summaries."""
    kinds = {source: _kind(source) for source in sources if source.path is not None}
    covers: dict[tuple[Path, str], Source] = {}
    for rank in ("csv", "summary", "raw"):  # the richest last, so that it stands
        covers.update({_place(source): source for source, k in kinds.items() if k == rank})
    found = {}
    for source, kind in kinds.items():
        if kind not in ("csv", "summary"):
            continue
        folder, prefix = _place(source)
        exported = _summary.exported(source) if kind == "summary" else None
        names = [(folder, prefix), (folder, _prefix(exported) if exported else prefix)]
        other = next((covers[n] for n in names if covers.get(n, source) is not source), None)
        if other is None and kind == "csv":
            other = next(
                (s for s, k in kinds.items() if k == "raw" and _summary_of(s) == _place(source)), None
            )
        if other is not None:
            found[source] = f"summarises {other.name}, which is read"
    return found


def _kind(source: Source) -> str | None:
    """raw, summary or csv; None for another tool's file."""
    if source.shape != "object":
        head = _nvidia.csv_header(source)
        return "csv" if head[:5] == ["Metric", "avg", "min", "max", "p99"] else None  # AIPerf: sum or p1
    if {"experiments", "service_kind"} <= source.keys:
        return "raw"
    if "aiperf_version" in source.keys or not source.keys & {"request_throughput", "request_latency"}:
        return None
    config: Any = source.doc.any("input_config")
    marks = {"perf_analyzer", "stability_percentage", "profile_export_file"}  # the later two: 24.08
    return "summary" if isinstance(config, dict) and config.keys() & marks else None


def _prefix(name: str) -> str:
    stem = _nvidia.stem(name, ".json", ".csv") or name
    return stem.removesuffix("_genai_perf")


def _place(source: Source) -> tuple[Path, str]:
    path = source.path or Path(source.name)
    return path.parent, _prefix(path.name)


def _summary_of(source: Source) -> tuple[Path, str] | None:
    found = _summary_beside(source)
    return _place(found) if found else None


def _summary_beside(source: Source) -> Source | None:
    """The summary of a raw export: by prefix, or one that names it as its profile_export_file."""
    prefix = _place(source)[1]
    names = dict.fromkeys((f"{prefix}_genai_perf.json", "profile_export_genai_perf.json"))
    for other in _nvidia.beside(source, *names):
        if _kind(other) == "summary" and prefix in (
            _place(other)[1],
            _prefix(_summary.exported(other) or ""),
        ):
            return other
    return None
