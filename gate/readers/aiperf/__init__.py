"""AIPerf: profile_export.jsonl with its aggregate beside it; the aggregate alone as JSON or CSV.

Known from 0.13.0 back to 2025-10 (credit_phase, {records: {...}}). What it calls ITL is our TPOT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...model import Run
from .._source import Source
from . import records, summary
from .files import NOT_RESULTS, kind, place

NAME = summary.NAME
TITLE = "AIPerf"
SIDE_FILES: Mapping[str, str] = {
    "inputs.json": "the prompts AIPerf or GenAI-Perf sent",
    "run_config.json": "AIPerf's resolved configuration",
    "phase_manifest.json": "AIPerf's list of phases",
    ".aiperf_results_ready.json": "AIPerf's marker of a finished run",
    "profile_export_raw.jsonl": "AIPerf's raw responses",
    "profile_export*_records.csv": "AIPerf's per-request records once more, as CSV",
    "profile_export*_timeslices.*": "AIPerf's time slices",
    "profile_export*_aggregate.*": "AIPerf's summary over several runs",
    "profile_export_console.*": "AIPerf's console output",
    "server_metrics_export*": "Prometheus metrics AIPerf scraped",
    "profile_export*_server_metrics.*": "Prometheus metrics AIPerf scraped",
    "gpu_telemetry_export*": "GPU metrics AIPerf scraped",
    "profile_export*_gpu_telemetry.*": "GPU metrics AIPerf scraped",
}


def sniff(source: Source) -> bool:
    """Whether AIPerf wrote it: records, aggregate, CSV, or a side file under another name."""
    return kind(source) is not None


def read(source: Source) -> Sequence[Run]:
    """One Run a measured phase. Raises InputError for a file that is broken or contradicts itself."""
    found = kind(source)
    if found == "records":
        return records.read(source)
    if found in ("aggregate", "csv"):
        return [summary.read(source)]
    if fault := source.fault():
        raise fault
    what = f"holds AIPerf's {NOT_RESULTS[found]}, not a result" if found else "is not a result of AIPerf"
    raise source.fail(what, hint=f"give {summary.RECORDS} or profile_export_aiperf.json")


def companions(sources: Sequence[Source]) -> Mapping[Source, str]:
    """Aggregates of records that are there too, phase copies, time slices, raw responses."""
    kinds = {source: kind(source) for source in sources if source.path is not None}
    covers = {}
    for rank in ("csv", "aggregate", "records"):  # the richest last, so that it stands
        covers.update({place(source): source for source, k in kinds.items() if k == rank})
    results = any(k not in NOT_RESULTS for k in kinds.values())
    found = {}
    for source, k in kinds.items():
        folder, prefix = place(source)
        other = covers.get((folder, prefix), source)
        whole = covers.get((folder.parent.parent, prefix)) if folder.parent.name == "phases" else None
        if k in NOT_RESULTS and results:
            found[source] = f"holds AIPerf's {NOT_RESULTS[k]}, not a result"
        elif k in ("aggregate", "csv") and whole is not None:
            found[source] = f"is the copy for phase {folder.name} of {whole.name}, which is read"
        elif k in ("aggregate", "csv") and other is not source:
            found[source] = f"summarises {other.name}, which is read"
    return found
