"""genai-bench (sgl-project): one JSON a run with a row for each request; experiment_metadata.json beside.

Times are in the file's `_time_unit` (0.0.1 has none: seconds). Rows are in order of completion, without
start times. The tool's statistics leave out its warm-up and cool-down rows; the rows have them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...model import Run
from ..card import Format
from ..source import Source

NAME = "genai-bench"
TITLE = "genai-bench"
SIDE_FILES: Mapping[str, str] = {
    "*experiment_metadata.json": "the description of a genai-bench experiment",
}
FORMATS: Sequence[Format] = (
    Format(
        files="`*_time_*s.json` with `experiment_metadata.json` (0.0.1 to 0.0.5)",
        evidence="requests",
        reads="TTFT, E2E, tokens, errors; version, model, concurrency or rate",
        cannot="ITL; duration when there are warm-up rows",
        traps=(
            "the unit is in `_time_unit`; `error_rate` is always 0; one-token answers have no row; "
            "warm-up by index"
        ),
    ),
)
DEFINITIONS: Mapping[str, str] = {
    "ttft": "ttft: send to first content or reasoning chunk",
    "e2e": "e2e_latency: send to the usage chunk, [DONE] or the end of the stream, after the last token",
    "tpot": "tpot: (e2e_latency - ttft) / (num_output_tokens - 1); answers of one token are dropped",
    "itl": "not recorded; output_inference_speed is 1 / tpot",
}
IS_METADATA = frozenset(("benchmark_version", "api_backend", "traffic_scenario"))
_IS_RUN = r'\s*\{\s*"aggregated_metrics"\s*:\s*\{\s*"scenario"'


def sniff(source: Source, /) -> bool:
    """Whether genai-bench wrote it: a run (also cut short) or the metadata under another name."""
    if source.shape == "broken":
        return re.match(_IS_RUN, source.head) is not None
    return source.shape == "object" and _is_ours(source.keys)


def _is_ours(keys: frozenset[str]) -> bool:
    return keys >= {"aggregated_metrics", "individual_request_metrics"} or keys >= IS_METADATA


def read(source: Source, /) -> Sequence[Run]:
    """The one run of the file. Raises InputError when it is broken, empty or contradicts itself."""
    from . import run

    return run.read(source)


def companions(sources: Sequence[Source], /) -> Mapping[Source, str]:
    """The metadata under another name, where there is a run too."""
    metadata = [s for s in sources if s.shape == "object" and s.keys >= IS_METADATA]
    if len(metadata) == len(sources):
        return {}
    return dict.fromkeys(metadata, "it describes the experiment and holds no request")
