"""AIPerf: profile_export.jsonl with its aggregate beside it; the aggregate alone as JSON or CSV.

Known from 0.13.0 back to 2025-10 (credit_phase, {records: {...}}). What it calls ITL is our TPOT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...model import METRICS
from .. import kinds
from ..source import Source

NAME = "aiperf"
TITLE = "AIPerf"
_TAGS = ("time_to_first_token", "inter_token_latency", "inter_chunk_latency", "request_latency")
LATENCIES = dict(zip(METRICS, _TAGS, strict=True))  # metric -> AIPerf's tag
_PHASES = ("metadata", frozenset(("benchmark_phase", "credit_phase")))
_OF_SEVERAL = frozenset(("aiperf_version", "metrics"))
_SEVERAL = ("metadata", frozenset(("aggregation_type",)))
_FORMER = ("input_config", frozenset(("loadgen", "phases")))  # before versions were written
_CSV = r"Metric,avg,min,max,(?:sum|p1)\b"  # GenAI-Perf goes on with p99
RECORDS = kinds.Kind(".jsonl", keys=frozenset(("metadata", "metrics")), within=_PHASES)
AGGREGATES = (
    kinds.Kind("_aiperf.json", keys=frozenset(("aiperf_version",))),
    kinds.Kind(".json", any_of=frozenset(("records", *LATENCIES.values())), within=_FORMER),
)
_SUMMARY = "holds AIPerf's summary over several runs, not a result"
_RAW = "holds AIPerf's raw responses, not a result"
_SLICES = "holds AIPerf's time slices, not a result"
KINDS = (
    kinds.Kind("_aggregate.json", any_of=_OF_SEVERAL, within=_SEVERAL, no_result=_SUMMARY),
    RECORDS,
    kinds.Kind("_raw.jsonl", keys=frozenset(("metadata",)), within=_PHASES, no_result=_RAW),
    AGGREGATES[0],
    kinds.Kind("_timeslices.json", keys=frozenset(("timeslices",)), no_result=_SLICES),
    AGGREGATES[1],
    kinds.Kind("_aiperf.csv", begins=_CSV),
    kinds.Kind(".csv", begins=_CSV),
)


def companions(sources: Sequence[Source], /) -> Mapping[Source, str]:
    """Aggregates of records that are there too, copies for one phase, files without a result."""
    covered = dict(kinds.companions(sources, KINDS))
    runs = {kinds.place(source, KINDS): source for source in sources if source not in covered}
    for where, source in list(runs.items()):
        folder = source.path.parent if source.path else Path()
        whole = runs.get((str(folder.parent.parent), where[1])) if folder.parent.name == "phases" else None
        if whole is not None:
            covered[source] = f"is the copy for phase {folder.name} of {whole.name}, which is read"
    return covered
