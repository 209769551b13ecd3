"""evalscope perf (modelscope): benchmark_data.db, or benchmark_summary.json with benchmark_percentile.json.

The SQLite table has a row for each request, in seconds; it is opened read-only and its pickled column is
never touched. The summary mixes units: TTFT, TPOT and ITL in ms, latency in s; before 1.8 all in s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...model import Run
from ..card import Format
from ..source import Source

NAME = "evalscope"
TITLE = "evalscope perf"
SIDE_FILES: Mapping[str, str] = {
    "benchmark_args.json": "the arguments of an evalscope run",
    "workload_throughput.json": "evalscope's throughput over time windows",
    "workload_timeline.json": "evalscope's tokens over time",
    "performance_summary.txt": "evalscope's summary over all runs, for people",
    "speed_benchmark.json": "evalscope's tokens per second by prompt length",
    "sla_summary.json": "the outcome of evalscope's SLA tuner",
}
FORMATS: Sequence[Format] = (
    Format(
        files="`benchmark_data.db` (evalscope perf 0.10 to 1.14)",
        evidence="requests",
        reads="TTFT, E2E, tokens, gaps, start; model, load, day from its arguments or the folder",
        cannot="why a request failed; TTFT, TPOT, ITL when not streamed",
        traps=(
            "opened read-only, the pickled column never touched; warm-up and the connection test have no "
            "row; 0.10 calls gaps TPOT; refused while a `-wal` or `-journal` is not empty"
        ),
    ),
    Format(
        files="`benchmark_summary.json` with `benchmark_percentile.json`",
        evidence="aggregate",
        reads="percentiles (nearest rank, rounded), counts",
        cannot="a summary alone holds no latency",
        traps="ms and s mixed; the percentile rule changed in 1.12",
    ),
)
DEFINITIONS: Mapping[str, str] = {
    "ttft": "first_chunk_latency: send to first non-empty content or reasoning; E2E where not streamed",
    "e2e": "latency: send to the last JSON chunk, the usage chunk included, after the last token",
    "tpot": "time_per_output_token: (latency - first_chunk_latency) / (tokens - 1); 0 for one token",
    "itl": "inter_token_latencies: gap between two streamed chunks, of several tokens or one",
}
_SUMMARY = (
    frozenset(("Success Requests", "Avg Latency (s)")),
    frozenset(("Succeed requests", "Average latency (s)")),
)
_ARGS = frozenset(("tokenizer_path", "outputs_dir", "dataset", "parallel", "number", "api"))
_CUT_SUMMARY = r'\s*\{\s*"(Test Duration|Time taken for tests) \(s\)"\s*:'
_CUT_PERCENTILES = r'\s*\[\s*\{\s*"Percentiles?"\s*:'
_MAGIC = "SQLite format 3\0"


def sniff(source: Source, /) -> bool:
    """Whether evalscope perf wrote it: the database, the summary, the percentiles or the arguments."""
    return kind(source) is not None


def read(source: Source, /) -> Sequence[Run]:
    """The one run. Raises InputError when it is broken, empty, no result or contradicts the files beside."""
    from . import database, report

    found = kind(source)
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
    from . import files

    return files.companions(sources)


def kind(source: Source) -> str | None:
    """database, summary, percentiles, args, or None for a file that is not evalscope's."""
    if source.shape == "binary":
        head = source.head
        ours = head.startswith(_MAGIC) and "first_chunk_latency" in head
        return "database" if ours and ("inter_token_latencies" in head or "chunk_times" in head) else None
    if source.shape == "broken":
        return "summary" if re.match(_CUT_SUMMARY, source.head) else None
    if source.shape == "array":
        return "percentiles" if re.match(_CUT_PERCENTILES, source.head) else None
    if source.shape != "object":
        return None
    if any(source.keys >= keys for keys in _SUMMARY):
        return "summary"
    return "args" if source.keys >= _ARGS else None
