"""GenAI-Perf's summary, JSON or CSV: evidence of its own, or facts about the raw export beside it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from ...model import Counts, Load
from .. import nvidia
from ..loads import load
from ..source import Source
from ..told import Told
from . import NAME

RAW = "the raw profile_export.json"
INVISIBLE = "GenAI-Perf writes no file when a request fails: failures cannot be seen in its results"
_BY = "output tokens are counted by GenAI-Perf's tokenizer, not by the server"
_ASKED_WITH = "keep its input_config, which says what was to end the run"
_TAGS = {"ttft": "time_to_first_token", "tpot": "inter_token_latency", "e2e": "request_latency"}


class _Stimulus(Struct):
    concurrency: int | None = None
    request_rate: float | None = None

    @property
    def load(self) -> Load | None:
        """As asked for."""
        return load(rate=self.request_rate, slots=self.concurrency)


class _Measurement(Struct):
    mode: str | None = None
    num: int | None = None  # requests, or milliseconds


class _Analyzer(Struct):
    stimulus: _Stimulus | None = None
    measurement: _Measurement | None = None


class _Endpoint(Struct):
    streaming: bool | None = None


class _Input(Struct):
    goodput: dict[str, float] | str | None = None  # "" where none was asked for


class _Config(_Stimulus):
    """`input_config` of both generations; the flat fields are those of 24.08."""

    model_names: list[str] | None = None
    model: list[str] | None = None
    perf_analyzer: _Analyzer | None = None
    endpoint: _Endpoint | str | None = None
    streaming: bool | None = None
    input: _Input | None = None
    goodput: dict[str, float] | str | None = None


def facts(source: Source) -> tuple[Told, nvidia.Stats]:
    """What a summary says. Raises InputError for a result of the wrong type."""
    config, notes = _Config(), tuple[str, ...](nvidia.ROUNDED)
    if source.shape == "text":
        stats = nvidia.table(source, {})
    else:
        stats = nvidia.Stats(source, lambda tag: source.doc.get(tag, nvidia.Stat))
        config, notes = nvidia.settings(source.doc, _Config)
    analyzer = config.perf_analyzer or _Analyzer()
    asked = analyzer.measurement or _Measurement()
    # A CSV has no configuration, and that of 24.08 does not say.
    unsaid = source.shape == "text" or config.streaming is not None or isinstance(config.endpoint, str)
    number = stats.count("request_count")
    streamed = _streamed(stats, config)
    told = nvidia.told(
        stats,
        _TAGS if streamed else {metric: tag for metric, tag in _TAGS.items() if metric != "ttft"},
        NAME,
        "summary",
        RAW,
        counts=None if number is None else Counts(number, number, 0),
        asked=asked.num if asked.mode == "request_count" else None,
        asked_with="" if unsaid or asked.mode not in (None, "request_count") else _ASKED_WITH,
        load=(analyzer.stimulus or config).load or config.load,
        model=", ".join(config.model_names or config.model or []) or None,
        streamed=streamed,
        goodput=_goodput(stats, config),
        notes=notes,
    )
    return told, stats


def decode(source: Source) -> Told:
    """The summary alone."""
    told, _ = facts(source)
    return replace(told, notes=(INVISIBLE, _BY, *told.notes))


def _streamed(stats: nvidia.Stats, config: _Config) -> bool:
    """As configured; without streaming a CSV leaves TTFT out and a JSON repeats the latency for it."""
    stated = config.endpoint.streaming if isinstance(config.endpoint, _Endpoint) else config.streaming
    if stated is not None:
        return stated
    ttft = stats.get("time_to_first_token")
    return ttft is not None and ttft != stats.get("request_latency")


def _goodput(stats: nvidia.Stats, config: _Config) -> str:
    rate = stats.value("request_goodput")
    if rate is None:
        return ""
    asked = (config.input.goodput if config.input else None) or config.goodput
    by = f"by its own --goodput ({nvidia.bounds(asked if isinstance(asked, Mapping) else None)})"
    if rate < 0:
        return f"could not be computed {by}: an SLO names no metric of its own"
    return f"{rate:.4g} good req/s, {by}, which pairs the wrong values once a request has one token"
