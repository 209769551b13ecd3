"""inference-perf 0.2 to 0.7: its per-request file with stage files beside it, or the aggregate of a stage.

Seconds everywhere. No file holds the version that wrote it; the model and the load stand in other files.
"""

from __future__ import annotations

from ..kinds import Kind

NAME = "inference-perf"
TITLE = "inference-perf"
_AGGREGATE = frozenset(("load_summary", "successes", "failures"))
_ASKED = frozenset(("requested_rate", "concurrency", "achieved_rate"))  # only a stage was asked for them
_YAML = r"(?ms)(?!\s*[{\[])(?=.*^load_summary:)(?=.*^successes:)"
REQUESTS = Kind(
    "per_request_lifecycle_metrics.json",
    frozenset(("start_time", "end_time", "error")),
    frozenset(("info", "computed_metrics", "request")),
    array=True,
)
STAGES = (
    Kind("stage_#_lifecycle_metrics.json", _AGGREGATE, within=("load_summary", _ASKED)),
    Kind("stage_#_lifecycle_metrics.yaml", begins=rf"{_YAML}(?=.*^ +(?:{'|'.join(sorted(_ASKED))}):)"),
)
KINDS = (
    REQUESTS,
    *STAGES,
    Kind("summary_lifecycle_metrics.json", _AGGREGATE, within=("successes", frozenset(("latency",)))),
    Kind("summary_lifecycle_metrics.yaml", begins=_YAML),
    Kind("", _AGGREGATE, no_result="holds inference-perf's server-side Prometheus metrics, not a result"),
    Kind(
        "config.yaml",
        begins=r"(?ms)(?!\s*[{\[])(?=.*^load:)(?=.*^server:)",
        no_result="is a configuration, no result",
    ),
)
