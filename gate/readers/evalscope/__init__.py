"""evalscope perf (modelscope): benchmark_data.db, or benchmark_summary.json with benchmark_percentile.json.

The SQLite table has a row for each request, in seconds; it is opened read-only and its pickled column is
never touched. The summary mixes units: TTFT, TPOT and ITL in ms, latency in s; before 1.8 all in s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...model import Run
from .._source import Source
from . import database, files, report

NAME = "evalscope"
TITLE = files.TITLE
SIDE_FILES: Mapping[str, str] = {
    "benchmark_args.json": "the arguments of an evalscope run",
    "workload_throughput.json": "evalscope's throughput over time windows",
    "workload_timeline.json": "evalscope's tokens over time",
    "performance_summary.txt": "evalscope's summary over all runs, for people",
    "speed_benchmark.json": "evalscope's tokens per second by prompt length",
    "sla_summary.json": "the outcome of evalscope's SLA tuner",
}


def sniff(source: Source, /) -> bool:
    """Whether evalscope perf wrote it: the database, the summary, the percentiles or the arguments."""
    return files.kind(source) is not None


def read(source: Source, /) -> Sequence[Run]:
    """The one run. Raises InputError when it is broken, empty, no result or contradicts the files beside."""
    found = files.kind(source)
    if found == "database":
        return (database.read(source),)
    if found in ("summary", "percentiles"):
        return (report.read(source, found),)
    if found == "args":
        raise source.fail("holds the arguments of an evalscope run", hint="pass benchmark_data.db beside it")
    if fault := source.fault():
        raise fault
    raise source.fail("is no result of evalscope perf", hint="pass benchmark_data.db")


def companions(sources: Sequence[Source], /) -> Mapping[Source, str]:
    """In one folder the database covers the summary, the summary the percentiles, and any the arguments."""
    kinds = {source: files.kind(source) for source in sources}
    richest: dict[object, Source] = {}
    for rank in ("args", "percentiles", "summary", "database"):
        richest |= {files.place(source): source for source, kind in kinds.items() if kind == rank}
    taken = {}
    for source, kind in kinds.items():
        other = richest.get(files.place(source), source)
        if other is not source and kind != kinds[other]:
            taken[source] = f"belongs to {other.name}, which is read"
    if any(kind != "args" for kind in kinds.values()):
        taken |= {s: SIDE_FILES["benchmark_args.json"] for s, kind in kinds.items() if kind == "args"}
    return taken
