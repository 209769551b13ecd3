"""AIPerf's aggregate, JSON or CSV: evidence of its own, or facts about the records beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Struct

from ...errors import InputError
from ...model import Aggregate, Counts, Load, Run, Summary, ToolReported
from .. import nvidia
from ..nvidia import Stat
from ..source import Doc, Source
from . import DEFINITIONS, LATENCIES, NAME

RECORDS = "profile_export.jsonl (written at --export-level records, the default)"
_RUN_AGAIN = "they may have failed: let the run end, and keep the file as AIPerf wrote it"
ONE_CHUNK = "most answers came in one chunk, which hides the time of a token; stop the server's buffering"
NOT_STREAMING = "no request has a time to first token: the run did not stream; run it with --streaming"
_SCALARS = (
    *("request_count", "error_request_count", "completed_request_count", "request_throughput"),
    "request_error_rate",
    *("benchmark_duration", "goodput", "good_request_fraction"),
    *("output_sequence_length", "usage_completion_tokens", "total_osl", "total_usage_completion_tokens"),
)
_FORMER = {  # names until 2025-10, and those of the CSV
    "ttft": "time_to_first_token",
    "completed_requests": "completed_request_count",
    "total_output_sequence_length": "total_osl",
}


class _Phase(msgspec.Struct):
    kind: str | None = None
    concurrency: int | None = None
    rate: float | None = None  # requests/s
    requests: int | None = None
    duration: float | None = None

    def load(self) -> Load | None:
        """Open loop where a rate is set; a trace replay has neither rate nor concurrency."""
        if self.rate is not None and self.rate > 0:
            return Load(request_rate=self.rate, cap=self.concurrency)
        return Load(concurrency=self.concurrency) if self.concurrency else None


class _Named(msgspec.Struct):
    name: str | None = None


class _Models(msgspec.Struct):
    items: list[_Named] = []


class _Endpoint(msgspec.Struct):
    model_names: list[str] = []
    streaming: bool = False


class _Loadgen(msgspec.Struct):  # what `phases` replaced
    concurrency: int | None = None
    request_rate: float | None = None
    request_count: int | None = None
    benchmark_duration: float | None = None


class Config(msgspec.Struct):
    """The part of `input_config` that says what was measured."""

    models: _Models | None = None
    endpoint: _Endpoint | None = None
    phases: list[_Phase] = []
    loadgen: _Loadgen | None = None
    slos: dict[str, float] | None = None

    def all_phases(self) -> list[_Phase]:
        """Warm-up and measured phases in order, in either generation's shape."""
        if self.phases or self.loadgen is None:
            return self.phases
        old = self.loadgen
        return [_Phase(None, old.concurrency, old.request_rate, old.request_count, old.benchmark_duration)]

    def measured(self) -> list[_Phase]:
        """The phases that are no warm-up."""
        return [phase for phase in self.all_phases() if phase.kind != "warmup"]

    def model(self) -> str | None:
        """The models asked for, usually one."""
        old = self.endpoint.model_names if self.endpoint else []
        names = [item.name for item in self.models.items] if self.models else old
        return ", ".join(name for name in names if name) or None


class Error(msgspec.Struct):
    """What a request failed with."""

    code: int | str | None = None
    type: str | None = None
    message: str | None = None

    @property
    def is_cancellation(self) -> bool:
        """Cut off by AIPerf itself; a server that answers 499 is a failure."""
        return self.code == 499 and self.type in (None, "RequestCancellationError")

    def __str__(self) -> str:
        text = self.type or self.message or "error"
        return f"{text} ({self.code})" if self.code is not None else text


class _ErrorKind(msgspec.Struct):
    error_details: Error | None = None
    count: Annotated[int, msgspec.Meta(ge=0)] = 0


class Told(Struct, frozen=True):
    """What an aggregate says."""

    source: Source
    stats: Mapping[str, Stat]
    config: Config
    version: str | None = None
    errors: Sequence[_ErrorKind] = ()
    notes: tuple[str, ...] = ()

    def value(self, *tags: str) -> float | None:
        """The first of these scalars that is there, in its own unit."""
        stats = (self.stats[tag] for tag in tags if tag in self.stats)
        return next((stat.avg for stat in stats if stat.avg is not None), None)

    def count(self, tag: str) -> int | None:
        """A count; None where the key is absent."""
        return nvidia.count(self.source, self.value(tag), tag)

    def completed(self) -> int | None:
        """Completed requests; None where the aggregate does not say."""
        completed, both = self.count("request_count"), self.count("completed_request_count")
        if completed is not None or both is None:
            return completed
        return max(both - self.errors_stated(), 0)

    def errors_stated(self) -> int:
        """Requests that ended in an error, cut off ones too: the most that any of its statements says."""
        completed, both = self.count("request_count"), self.count("completed_request_count")
        found = [self.count("error_request_count") or 0, sum(kind.count for kind in self.errors)]
        if completed is not None and both is not None:
            found.append(both - completed)
        rate = self.stats.get("request_error_rate", Stat())
        # Rounded in a CSV: it tells how many only where nothing else does.
        if not max(found) and completed and rate.unit == "%" and rate.avg is not None and 0 < rate.avg < 100:
            found.append(round(completed * rate.avg / (100 - rate.avg)))
        return max(found)

    def cut_off(self) -> int:
        """Of its errors those that are listed as cancellations of AIPerf's own."""
        return sum(k.count for k in self.errors if k.error_details and k.error_details.is_cancellation)

    def latencies(self) -> dict[str, Summary]:
        """By metric, in seconds. Raises InputError where the percentiles do not ascend."""
        return {
            metric: nvidia.summary(self.source, self.stats[tag], tag)
            for metric, tag in LATENCIES.items()
            if tag in self.stats
        }

    def reported(self) -> dict[str, ToolReported]:
        """The tool's own percentiles by metric, in seconds."""
        return {metric: nvidia.reported(of) for metric, of in self.latencies().items()}

    def window_s(self) -> float | None:
        """The window of the tool's throughput: the phase since 0.12, first to last request before."""
        number, rate = self.value("request_count"), self.value("request_throughput")
        if number and rate and number > 0 and rate > 0:
            return number / rate
        lasted = self.stats.get("benchmark_duration", Stat())
        if lasted.avg is None:
            return None
        return lasted.avg / nvidia.per_second(self.source, lasted.unit, "benchmark_duration")


def told(source: Source) -> Told:
    """Raises InputError for a result of the wrong type; settings that mean nothing are a note."""
    if source.shape == "text":
        table = nvidia.table(source)
        return Told(source, {_FORMER.get(tag, tag): stat for tag, stat in table.items()}, Config())
    doc = metrics = source.doc
    if "records" in doc:  # until 2025-10
        metrics = Doc(source, doc.get("records", dict[str, msgspec.Raw]) or {}, "$.records")
    tags = {tag: tag for tag in (*LATENCIES.values(), *_SCALARS)} | _FORMER
    stats = {tag: stat for old, tag in tags.items() if (stat := metrics.get(old, Stat)) is not None}
    notes = []
    try:
        config = doc.get("input_config", Config) or Config()
    except InputError as error:
        config = Config()
        notes.append(f"{error.message} ({error.where}): model and load are not stated")
    if doc.any("was_cancelled") is True or doc.any("is_complete") is False:
        reason = doc.text("incomplete_reason")
        notes.append(f"AIPerf marks the run as not complete ({reason or 'it was cancelled'})")
    errors = doc.get("error_summary", list[_ErrorKind]) or []
    return Told(source, stats, config, doc.text("aiperf_version"), errors, tuple(notes))


def read(source: Source) -> Run:
    """The aggregate alone. Raises InputError when its counts contradict each other."""
    facts = told(source)
    is_csv = source.shape == "text"
    counted = _counts(facts)
    phases = facts.config.measured()
    _refuse_warmup(facts, counted)
    latencies = facts.latencies()
    streaming = "ttft" in latencies if counted.completed else None
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="aiperf csv" if is_csv else "aiperf aggregate",
        tool=NAME,
        evidence=Aggregate(latencies, "linear", 5e-6 if is_csv else 0.0, RECORDS),
        counts=counted,
        tool_version=facts.version,
        model=facts.config.model(),
        load=phases[0].load() if len(phases) == 1 else None,
        duration_s=facts.window_s(),
        total_output_tokens=facts.value("total_usage_completion_tokens", "total_osl"),
        streaming=streaming,
        definitions=DEFINITIONS,
        tool_reported=facts.reported(),
        unsuitable=_unsuitable(latencies, streaming) | missing(facts, counted),
        notes=(
            *(
                ("a CSV: values are rounded to two decimals; model and load are not stated",)
                if is_csv
                else ()
            ),
            *facts.notes,
            *_error_notes(facts),
            *_token_note(facts),
            *goodput_note(facts),
            *missing_note(facts, counted),
        ),
    )


def _unsuitable(latencies: Mapping[str, Summary], streaming: bool | None) -> dict[str, str]:
    if streaming is False:
        return dict.fromkeys(("ttft", "tpot", "itl"), NOT_STREAMING)
    tpot = latencies.get("tpot", Summary())
    return dict.fromkeys(("tpot", "itl"), ONE_CHUNK) if dict(tpot.percentiles).get(50) == 0 else {}


def _counts(facts: Told) -> Counts:
    completed, errors = facts.count("request_count"), facts.count("error_request_count")
    both = facts.count("completed_request_count")
    if completed is None and not facts.errors_stated():
        raise facts.source.fail("counts no requests", hint=f"copy the file whole, or give {RECORDS}")
    completed, errors = completed or 0, errors or 0  # either key is absent when it would be 0
    if both is not None and both != completed + errors:
        raise facts.source.fail(
            f"contradicts itself: request_count {completed} and error_request_count {errors}, "
            f"but completed_request_count {both}"
        )
    cancelled = facts.cut_off()
    failed = facts.errors_stated() - cancelled
    return Counts(completed + failed, completed, failed, cancelled)


def _refuse_warmup(facts: Told, counted: Counts) -> None:
    """phases/warmup/ holds a full aggregate; only its folder tells it from a measured one."""
    folder = facts.source.path.parent if facts.source.path else None
    if folder and folder.parent.name == "phases" and folder.name.startswith("warmup"):
        raise facts.source.fail(
            f"summarises the {counted.attempted} requests of the warm-up phase, not the measurement",
            hint="give profile_export.jsonl or profile_export_aiperf.json of the run's own folder",
        )


def _error_notes(facts: Told) -> tuple[str, ...]:
    kinds = sorted(
        (k for k in facts.errors if k.error_details and not k.error_details.is_cancellation and k.count),
        key=lambda k: -k.count,
    )
    shown = ", ".join(f"{k.error_details} x{k.count}" for k in kinds[:3])
    listed, counted = sum(k.count for k in facts.errors), facts.count("error_request_count") or 0
    notes = [f"{sum(k.count for k in kinds)} failed: {shown}"] if kinds else []
    if facts.errors and listed != counted:
        notes.append(
            f"error_summary lists {listed} errors, error_request_count says {counted}: the larger is used"
        )
    return tuple(notes)


def _token_note(facts: Told) -> tuple[str, ...]:
    server, client = facts.value("usage_completion_tokens"), facts.value("output_sequence_length")
    if not server or client is None or abs(client - server) <= 0.05 * server:
        return ()
    return (
        f"output tokens a request: the server's usage says {server:.4g}, AIPerf's tokenizer {client:.4g}; "
        f"the aggregate's TPOT is by the tokenizer, {RECORDS} would give it by usage",
    )


def goodput_note(facts: Told) -> tuple[str, ...]:
    """What the tool says of its own SLOs, which are not the policy's."""
    rate, share = facts.value("goodput"), facts.value("good_request_fraction")
    if rate is None and share is None:
        return ()
    slos = ", ".join(f"{tag} {bound:g}" for tag, bound in (facts.config.slos or {}).items()) or "not stated"
    said = [f"{rate:.4g} good req/s"] if rate is not None else []
    said += [f"{share:.4g} of completed and failed requests good"] if share is not None else []
    return (
        f"AIPerf reports {' and '.join(said)} for its own --goodput ({slos}; a request without one of "
        "these metrics is not good); slo-gate counts by the policy's bounds over attempted requests",
    )


def missing_note(facts: Told, counted: Counts) -> tuple[str, ...]:
    """Requests that were asked for but are not there, where only their number was to end the run."""
    phases = facts.config.measured()
    if len(phases) != 1 or phases[0].requests is None or phases[0].duration is not None:
        return ()
    missing = phases[0].requests - counted.attempted - counted.cancelled
    if missing <= 0:
        return ()
    return (f"{missing} of the {phases[0].requests} requests asked for are not in the file",)


def missing(facts: Told, counted: Counts) -> dict[str, str]:
    """Why it is not known how many were attempted, where requests that were asked for are not there."""
    notes = missing_note(facts, counted)
    return {"attempted": f"{notes[0]}; {_RUN_AGAIN}"} if notes else {}
