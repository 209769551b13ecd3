"""MLPerf Endpoints (mlcommons/endpoints, `inference-endpoint`): events.jsonl and result_summary.json.

A summary is read as percentiles and not as histograms, though it has both: its 30 buckets decide a bound only
on their edges, which follow each run's own range, so that no two runs share one.
"""

from __future__ import annotations

from ..kinds import Kind
from ..source import Source

NAME = "mlperf-endpoints"
TITLE = "MLPerf Endpoints"


EVENTS = Kind("events.jsonl", frozenset(("event_type", "timestamp_ns", "sample_uuid")))
_COUNTS = frozenset(("n_samples_issued", "n_samples_completed", "n_samples_failed"))
SUMMARY = Kind("result_summary.json", _COUNTS)
_REPORT = r"----------------- Summary -.*samples issued"
_DIGEST = frozenset(("measured_latency_ttft_p99", "measured_total_requests"))
_SNAPSHOT = frozenset(("counter", "n_pending_tasks", "metrics"))
KINDS = (
    EVENTS,
    SUMMARY,
    Kind("report.txt", begins=_REPORT, no_result="holds the printed report, not a result"),
    Kind("run_metadata.json", _DIGEST, no_result="holds a digest of a summary, not a result"),
    Kind("final_snapshot.json", _SNAPSHOT, no_result="holds a snapshot of counters, not a result"),
)


def same(events: Source, summary: Source) -> bool:
    """Whether a summary is of the run of these events: beside them, or in performance/."""
    if events.path is None or summary.path is None:
        return False
    return summary.path.parent in (events.path.parent, events.path.parent / "performance")
