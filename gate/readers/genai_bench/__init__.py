"""genai-bench (sgl-project): one JSON a run with a row for each request; experiment_metadata.json beside.

Times are in the file's `_time_unit` (0.0.1 has none: seconds). Rows are in order of completion, without
start times. The tool's statistics leave out its warm-up and cool-down rows; the rows have them.
"""

from __future__ import annotations

from ..kinds import Kind

NAME = "genai-bench"
TITLE = "genai-bench"
KINDS = (
    Kind(
        "_time_#s.json",  # SCENARIO_TASK_num_concurrency_N_time_Ss.json
        frozenset(("aggregated_metrics", "individual_request_metrics")),
        begins=r'\s*\{\s*"aggregated_metrics"\s*:\s*\{\s*"scenario"',
    ),
    Kind(
        "experiment_metadata.json",
        frozenset(("benchmark_version", "api_backend", "traffic_scenario")),
        no_result="describes a genai-bench experiment and holds no request",
    ),
)
