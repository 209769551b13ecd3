"""inference-perf 0.2 to 0.7: its per-request file with stage files beside it, or the aggregate of a stage.

Seconds everywhere. No file holds the version that wrote it; the model and the load stand in other files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...model import Run
from ..card import Format
from ..source import Source

NAME = "inference-perf"
TITLE = "inference-perf"
SIDE_FILES: Mapping[str, str] = {
    "*prometheus_metrics.json": "server-side Prometheus metrics inference-perf scraped",
    "*session_lifecycle_metrics.json": "inference-perf's summary by session",
    "*adapter_*_lifecycle_metrics.json": "one LoRA adapter's share of an inference-perf run",
    "*inference-perf.partial.stage_*.yaml": "inference-perf's stage once more, for llm-d",
    "validation.json": "inference-perf's check of its own reports",
    "config.yaml": "a benchmark's configuration",
}
FORMATS: Sequence[Format] = (
    Format(
        files="`per_request_lifecycle_metrics.json` (0.4 to 0.7)",
        evidence="requests",
        reads=(
            "one run a stage, split by the stage files; model, load and date from the files beside; "
            "server tokens first; TTFT and gaps from chunk times"
        ),
        cannot="TTFT, TPOT, ITL without streaming; everything where stages may be mixed",
        traps="no stage id and no wall clock; one-token TTFT rebuilt; E2E includes client tokenising",
    ),
    Format(
        files="`stage_N_`, `summary_lifecycle_metrics.json`",
        evidence="aggregate",
        reads="counts, percentiles, load, its goodput as a note",
        cannot=(
            "TPOT where the identity (E2E - TTFT)/(n - 1) fails (0.2 halves it); a summary of several "
            "stages; the error rate with zero-token successes"
        ),
        traps="a concurrent stage's rate is its request count; its goodput is over successes",
    ),
)
DEFINITIONS: Mapping[str, str] = {
    "ttft": "time_to_first_token = first chunk with content - request start; reasoning is passed over, and "
    "the tool's own leaves one-token answers out",
    "tpot": "time_per_output_token = (last token - first token) / (output tokens - 1)",
    "itl": "inter_token_latency = gap between two tokens, 0 for tokens of one chunk, pooled over requests",
    "e2e": "request_latency = stream closed and answer tokenised - request start",
}
NOT_RESULTS = {
    "prometheus": "server-side Prometheus metrics",
    "config": "configuration",
}
_AGGREGATE = {"load_summary", "successes", "failures"}
_CONFIG = r"(?m)^(api|data|load|server|storage|report|tokenizer):"


def sniff(source: Source, /) -> bool:
    """By keys; also its configuration and Prometheus metrics under another name, to refuse them."""
    return kind(source) is not None


def read(source: Source, /) -> Sequence[Run]:
    """One Run a stage. Raises InputError for a file that is broken or contradicts itself."""
    from . import run

    return run.read(source)


def companions(sources: Sequence[Source], /) -> Mapping[Source, str]:
    """Aggregates of requests or stages that are there too; what is no result where there is one."""
    from . import run

    return run.companions(sources)


def kind(source: Source) -> str | None:
    """requests, stage, summary, or one of NOT_RESULTS; None for another tool's file."""
    keys = source.keys
    if source.shape == "array":
        ours = {"start_time", "end_time", "error"} <= keys and keys & {"info", "computed_metrics", "request"}
        return "requests" if ours else None
    if source.shape == "object" and keys >= _AGGREGATE:
        load, successes = source.doc.any("load_summary"), source.doc.any("successes")
        if not load and isinstance(successes, dict) and "latency" not in successes:
            return "prometheus"  # the same top-level keys
        # Only a stage was asked for a rate or a concurrency.
        stage = isinstance(load, dict) and load.keys() & {"requested_rate", "concurrency", "achieved_rate"}
        return "stage" if stage else "summary"
    if source.shape == "text" and {"load", "server"} < set(re.findall(_CONFIG, source.head)):
        return "config"
    return None
