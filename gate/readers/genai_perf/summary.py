"""GenAI-Perf's summary, JSON or CSV: evidence of its own, or facts about the raw export beside it."""

from __future__ import annotations

from msgspec.structs import replace

from ...model import Counts
from .. import nvidia
from ..nvidia_config import NO_PHASE, GenAIPerf
from ..source import Source
from ..told import Told
from . import NAME

RAW = "the raw profile_export.json"
INVISIBLE = "GenAI-Perf writes no file when a request fails: failures cannot be seen in its results"
_BY = "output tokens are counted by GenAI-Perf's tokenizer, not by the server"
_TAGS = {"ttft": "time_to_first_token", "tpot": "inter_token_latency", "e2e": "request_latency"}


def facts(source: Source) -> tuple[Told, nvidia.Stats]:
    """What a summary says. Raises InputError for a result of the wrong type."""
    stats, config, _, notes = nvidia.statement(source, {}, GenAIPerf)
    number = stats.count("request_count")
    streamed = _streamed(stats, config)
    told = nvidia.told(
        stats,
        _TAGS if streamed else {metric: tag for metric, tag in _TAGS.items() if metric != "ttft"},
        NAME,
        "summary",
        RAW,
        counts=None if number is None else Counts(number, number, 0),
        model=", ".join(config.model_names or config.model or []) or None,
        streamed=streamed,
        goodput=_goodput(stats, config),
        notes=notes,
        **(NO_PHASE if stats.rounded else config.asked),  # a CSV has no configuration
    )
    return told, stats


def decode(source: Source) -> Told:
    """The summary alone."""
    told, _ = facts(source)
    return replace(told, notes=(INVISIBLE, _BY, *told.notes))


def _streamed(stats: nvidia.Stats, config: GenAIPerf) -> bool:
    """As configured; without streaming a CSV leaves TTFT out and a JSON repeats the latency for it."""
    if config.streamed is not None:
        return config.streamed
    ttft = stats.get("time_to_first_token")
    return ttft is not None and ttft != stats.get("request_latency")


def _goodput(stats: nvidia.Stats, config: GenAIPerf) -> str:
    rate = stats.value("request_goodput")
    if rate is None:
        return ""
    by = f"by its own --goodput ({nvidia.bounds(config.slos)})"
    if rate < 0:
        return f"could not be computed {by}: an SLO names no metric of its own"
    return f"{rate:.4g} good req/s, {by}, which pairs the wrong values once a request has one token"
