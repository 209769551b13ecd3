"""GenAI-Perf's summary, JSON or CSV: evidence of its own, or facts about the raw export beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

import msgspec
from msgspec import Struct

from ...errors import InputError
from ...model import Aggregate, Counts, Load, Run, Summary, ToolReported
from .. import nvidia
from ..nvidia import Stat
from ..source import Source
from . import DEFINITIONS, NAME

RAW = "the raw profile_export.json"
ONE_CHUNK = "most answers came in one chunk, which hides the time of a token; stop the server's buffering"
NOT_STREAMING = "the run did not stream, so there is no time to first token; run it with --streaming"
INVISIBLE = "GenAI-Perf writes no file when a request fails: failures cannot be seen in its results"
_TAGS = {"ttft": "time_to_first_token", "tpot": "inter_token_latency", "e2e": "request_latency"}
_OTHERS = (
    *("request_count", "request_throughput", "request_goodput"),
    *("output_token_throughput", "output_sequence_length"),
)
_UNCOUNTED = (
    "this version's summary does not say how many requests it measured; give the raw profile_export.json"
)
_NO_GAPS = f"the summary holds no gaps between chunks; give {RAW}"


class _Stimulus(msgspec.Struct):
    concurrency: int | None = None
    request_rate: float | None = None


class _Analyzer(msgspec.Struct):
    stimulus: _Stimulus | None = None


class _Endpoint(msgspec.Struct):
    streaming: bool | None = None


class _Input(msgspec.Struct):
    goodput: dict[str, float] | str | None = None  # "" where none was asked for


class _Output(msgspec.Struct):
    profile_export_file: str | None = None


class _Config(msgspec.Struct):
    """`input_config` of both generations; the flat fields are those of 24.08."""

    model_names: list[str] | None = None
    model: list[str] | None = None
    perf_analyzer: _Analyzer | None = None
    concurrency: int | None = None
    request_rate: float | None = None
    endpoint: _Endpoint | str | None = None
    streaming: bool | None = None
    input: _Input | None = None
    goodput: dict[str, float] | str | None = None
    output: _Output | None = None
    profile_export_file: str | None = None


class Told(Struct, frozen=True):
    """What a summary says."""

    source: Source
    stats: Mapping[str, Stat]
    config: _Config
    notes: tuple[str, ...] = ()

    def value(self, tag: str) -> float | None:
        """A mean or a scalar, in its own unit."""
        return self.stats.get(tag, Stat()).avg

    def count(self) -> int | None:
        """Requests measured; None in 24.08, which does not say."""
        return nvidia.count(self.source, self.value("request_count"), "request_count")

    def streaming(self) -> bool | None:
        """As configured; a CSV of a run that did not stream leaves the TTFT row out."""
        endpoint = self.config.endpoint
        stated = endpoint.streaming if isinstance(endpoint, _Endpoint) else self.config.streaming
        if stated is not None:
            return stated
        ttft = self.stats.get("time_to_first_token")
        return ttft is not None and ttft != self.stats.get("request_latency")

    def latencies(self) -> dict[str, Summary]:
        """By metric, in seconds; a TTFT that only repeats the request latency is left out."""
        return {
            metric: nvidia.summary(self.source, self.stats[tag], tag)
            for metric, tag in _TAGS.items()
            if tag in self.stats and (metric != "ttft" or self.streaming())
        }

    def reported(self) -> dict[str, ToolReported]:
        """The tool's own percentiles by metric, in seconds."""
        return {metric: nvidia.reported(of) for metric, of in self.latencies().items()}

    def model(self) -> str | None:
        """The models asked for, usually one."""
        return ", ".join(self.config.model_names or self.config.model or []) or None

    def load(self) -> Load | None:
        """As asked for."""
        analyzer = self.config.perf_analyzer
        stimulus = analyzer.stimulus if analyzer and analyzer.stimulus else _Stimulus()
        rate = stimulus.request_rate or self.config.request_rate
        concurrency = stimulus.concurrency or self.config.concurrency
        if rate is not None and rate > 0:
            return Load(request_rate=rate)
        return Load(concurrency=concurrency) if concurrency is not None and concurrency > 0 else None


def told(source: Source) -> Told:
    """Raises InputError for a result of the wrong type; settings that mean nothing are a note."""
    if source.shape == "text":
        return Told(source, nvidia.table(source), _Config())
    doc, notes = source.doc, []
    stats = {tag: stat for tag in (*_TAGS.values(), *_OTHERS) if (stat := doc.get(tag, Stat)) is not None}
    try:
        config = doc.get("input_config", _Config) or _Config()
    except InputError as error:
        config = _Config()
        notes.append(f"{error.message} ({error.where}): model and load are not stated")
    return Told(source, stats, config, tuple(notes))


def exported(source: Source) -> str | None:
    """The file name of the raw export a summary belongs to, where it says so."""
    try:
        config = source.doc.get("input_config", _Config) or _Config()
    except InputError:
        return None
    path = config.profile_export_file or (config.output.profile_export_file if config.output else None)
    return PurePath(path.replace("\\", "/")).name if path else None


def read(source: Source) -> Run:
    """The summary alone. Raises InputError where it holds no latency or contradicts itself."""
    facts = told(source)
    is_csv = source.shape == "text"
    latencies = facts.latencies()
    if "e2e" not in latencies:
        raise source.fail("holds no request latency", hint=f"copy the file whole, or give {RAW}")
    number, rate, length = (
        facts.count(),
        facts.value("request_throughput"),
        facts.value("output_sequence_length"),
    )
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="genai-perf csv" if is_csv else "genai-perf summary",
        tool=NAME,
        evidence=Aggregate(latencies, "linear", 5e-6 if is_csv else 0.0, RAW),
        counts=Counts(number or 0, number or 0, 0),
        model=facts.model(),
        load=facts.load(),
        duration_s=number / rate if number and rate and rate > 0 else None,
        total_output_tokens=number * length if number and length is not None else None,
        streaming=facts.streaming(),
        definitions=DEFINITIONS,
        tool_reported=facts.reported(),
        unsuitable=_unsuitable(facts, latencies, number),
        notes=(
            INVISIBLE,
            *(
                ("a CSV: values are rounded to two decimals; model and load are not stated",)
                if is_csv
                else ()
            ),
            *((_UNCOUNTED,) if number is None else ()),
            "output tokens are counted by GenAI-Perf's tokenizer, not by the server",
            *facts.notes,
            *goodput_note(facts),
        ),
    )


def _unsuitable(facts: Told, latencies: Mapping[str, Summary], number: int | None) -> dict[str, str]:
    if number is None:
        return dict.fromkeys(("ttft", "tpot", "itl", "e2e"), _UNCOUNTED)
    if not facts.streaming():
        return dict.fromkeys(("ttft", "tpot", "itl"), NOT_STREAMING)
    tpot = latencies.get("tpot", Summary())
    return {"itl": _NO_GAPS} | ({"tpot": ONE_CHUNK} if dict(tpot.percentiles).get(50) == 0 else {})


def goodput_note(facts: Told) -> tuple[str, ...]:
    """What the tool says of its own SLOs, which are not the policy's."""
    rate = facts.value("request_goodput")
    if rate is None:
        return ()
    nested = facts.config.input.goodput if facts.config.input else None
    asked = nested or facts.config.goodput
    slos = ", ".join(f"{tag} {bound:g}" for tag, bound in asked.items()) if isinstance(asked, dict) else ""
    whose = f"its own --goodput ({slos or 'SLOs not stated'})"
    if rate < 0:
        return (f"GenAI-Perf could not compute {whose}: an SLO names no metric of its own",)
    return (
        f"GenAI-Perf reports {rate:.4g} good req/s for {whose}, which pairs the wrong values once a request "
        "has one token; slo-gate counts by the policy's bounds",
    )
