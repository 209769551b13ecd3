"""AIPerf's aggregate, JSON or CSV: evidence of its own, or facts about the records beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...model import Counts, Doubt, Load, Why
from .. import clocks, nvidia, tables
from ..doc import Doc
from ..loads import load
from ..settle.case import EVERY
from ..source import Source
from ..told import Told
from . import LATENCIES, NAME

RECORDS = "profile_export.jsonl (written at --export-level records, the default)"
_FORMER = {  # names until 2025-10, and those of the CSV
    "time_to_first_token": "ttft",
    "completed_request_count": "completed_requests",
    "total_osl": "total_output_sequence_length",
}


_TYPES = ("concurrency", "constant", "gamma", "poisson")  # that a number of requests or a duration ends
_ASKED_WITH = "keep its input_config, which says what was to end the run"


class Phase(Struct):
    """One phase as it was asked for, in either generation's words."""

    name: str | None = None
    kind: str | None = None
    type: str | None = None
    concurrency: int | None = None
    rate: float | None = None  # requests/s
    request_rate: float | None = None
    requests: int | None = None
    request_count: int | None = None
    duration: float | None = None
    benchmark_duration: float | None = None
    sessions: int | None = None

    @property
    def load(self) -> Load | None:
        """Of a trace replay or a series of rates there is none."""
        asked = load(rate=self.rate or self.request_rate, slots=self.concurrency)
        return asked if asked and (asked.request_rate or self.type in (None, "concurrency")) else None

    @property
    def asked(self) -> int | None:
        """Requests, where only their number was to end it."""
        lasts = self.duration or self.benchmark_duration
        return None if lasts else self.requests or self.request_count

    @property
    def asked_with(self) -> str:
        """The remedy where nothing says what was to end it; a replay ends with its trace."""
        ends = self.asked or self.duration or self.benchmark_duration or self.sessions
        return "" if ends or self.type not in (None, *_TYPES) else _ASKED_WITH


class _Config(Struct):
    """The part of `input_config` that says what was measured."""

    models: dict[str, Any] = {}
    endpoint: dict[str, Any] = {}
    phases: list[Phase] = []
    loadgen: Phase | None = None  # what `phases` replaced
    slos: dict[str, float] | None = None

    @property
    def model(self) -> str | None:
        """The models asked for, usually one."""
        items = self.models.get("items") or self.endpoint.get("model_names")
        known = items if isinstance(items, list) else []
        names = [each.get("name") if isinstance(each, dict) else each for each in known]
        return ", ".join(str(name) for name in names if name) or None


class Error(Struct):
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


class _ErrorKind(Struct):
    error_details: Error | None = None
    count: Annotated[int, msgspec.Meta(ge=0)] = 0

    @property
    def is_cancellation(self) -> bool:
        return self.error_details is not None and self.error_details.is_cancellation


class Facts(Struct, frozen=True):
    """What an aggregate says: as a run of its own, and what records beside it are read with."""

    told: Told
    stats: nvidia.Stats
    errors: Sequence[_ErrorKind] | None
    phases: Sequence[Phase]  # warm-up and measured, in order
    measured: Sequence[Phase]  # those it is about

    def phase(self, name: str | None, index: int | None) -> Phase:
        """The phase of that name, else at that place."""
        at = self.phases[index] if index is not None and 0 <= index < len(self.phases) else Phase()
        return next((phase for phase in self.phases if name and phase.name == name), at)

    @property
    def failures(self) -> Counter[str]:
        """What the errors it lists are, without cancellations of its own."""
        found = Counter[str]()
        for kind in self.errors or ():
            found[str(kind.error_details)] += 0 if kind.is_cancellation else kind.count
        return +found


def facts(source: Source) -> Facts:
    """Raises InputError for a result of the wrong type; settings that mean nothing are a note."""
    config, errors, more = _Config(), None, dict[str, Any]()
    if source.shape == "text":
        stats = nvidia.table(source, _FORMER)
    else:
        doc = metrics = source.doc
        if "records" in doc:  # until 2025-10
            metrics = Doc(source, doc.get("records", dict[str, msgspec.Raw]) or {}, "$.records")
        stats = nvidia.Stats(source, lambda tag: metrics.get(tag, nvidia.Stat), _FORMER)
        errors, faults = doc.get("error_summary", list[_ErrorKind]), "; ".join(_faults(doc))
        config, more["notes"] = nvidia.settings(doc, _Config)
        more |= {"valid": False if faults else None, "invalid_because": faults}
        more |= {"version": doc.text("aiperf_version"), "date": clocks.day_of(doc.text("start_time"))}
        more["asked_with"] = "" if config.loadgen else _ASKED_WITH
    phases = config.phases or ([config.loadgen] if config.loadgen else [])
    measured, folder = [phase for phase in phases if phase.kind != "warmup"], (source.path or Path()).parent
    if folder.parent.name == "phases":  # its copy for one phase
        measured = [phase for phase in measured if phase.name == folder.name] or measured
    phase = measured[0] if len(measured) == 1 else Phase()
    if config.phases:
        more["asked_with"] = phase.asked_with if len(measured) == 1 else ""
    usage = stats.value("total_usage_completion_tokens")
    told = nvidia.told(
        stats,
        LATENCIES,
        NAME,
        "aggregate",
        RECORDS,
        counts=_counts(stats, errors or ()),
        asked=phase.asked,
        output_tokens=stats.value("total_osl") if usage is None else usage,
        load=phase.load,
        model=config.model,
        streamed=True if stats.get("time_to_first_token") else None,
        goodput=_goodput(stats, config),
        doubts=tuple(_overflows(stats)),
        **more,
    )
    return Facts(told, stats, errors, phases, measured)


def decode(source: Source) -> Told:
    """The aggregate alone. Raises InputError for one of the warm-up."""
    known, folder = facts(source), (source.path or Path()).parent
    if folder.parent.name == "phases" and folder.name.startswith("warmup"):
        number = known.told.counts.attempted if known.told.counts else "unknown"
        raise source.fail(
            f"summarises the {number} requests of the warm-up phase, not the measurement",
            hint="give profile_export.jsonl or profile_export_aiperf.json of the run's own folder",
        )
    told, csv = known.told, nvidia.ROUNDED if known.stats.rounded else ()
    notes = (*csv, *told.notes, *_notes(known))
    return replace(told, doubts=(*told.doubts, *_doubts(known)), notes=notes)


def _faults(doc: Doc) -> Iterator[str]:
    """What AIPerf itself holds against its run. A word that is neither true nor false is one against it."""
    if doc.any("is_complete") not in (None, True) or doc.any("incomplete_reason"):
        yield f"it is not complete: {doc.text('incomplete_reason') or 'no reason is given'}"
    if doc.any("was_cancelled") not in (None, False):
        yield "it was cancelled"
    submission = doc.mapping("metadata")
    if submission.get("submission_valid") not in (None, True):
        reasons = submission.get("submission_invalid_reasons") or "no reason is given"
        yield f"it is no valid submission: {reasons}"


def _counts(stats: nvidia.Stats, errors: Sequence[_ErrorKind]) -> Counts | None:
    """By the most that any statement says. A count of 0 is absent; None where nothing is counted."""
    completed, failed, both = (stats.count(f"{of}request_count") for of in ("", "error_", "completed_"))
    failed = max(failed or 0, sum(kind.count for kind in errors))
    rate = stats.value("request_error_rate") or 0.0
    if both is None and not failed and completed and 0 < rate < 100:
        failed = round(completed * rate / (100 - rate))  # rounded in a CSV: only where nothing else tells
    if completed is None and both is None and not failed:
        return None
    if completed is None:
        completed = 0 if both is None else both - failed
    cancelled = sum(kind.count for kind in errors if kind.is_cancellation)
    attempted = completed + failed if both is None else both
    return Counts(attempted - cancelled, completed, failed - cancelled, cancelled)


def _goodput(stats: nvidia.Stats, config: _Config) -> str:
    rate, share = stats.value("goodput"), stats.value("good_request_fraction")
    amounts = [f"{rate:.4g} good req/s"] if rate is not None else []
    amounts += [f"{share:.4g} of completed and failed requests"] if share is not None else []
    by = f"by its own --goodput ({nvidia.bounds(config.slos)}; a request without one of these is not good)"
    return f"{' and '.join(amounts)}, {by}" if amounts else ""


def _overflows(stats: nvidia.Stats) -> Iterator[Doubt]:
    if number := stats.count("skipped_context_overflow_count"):
        why = f"{number:,} requests did not fit the model's context and are in no count; send shorter prompts"
        yield Doubt(Why.FAILURES_HIDDEN, ("attempted",), why, requests=number)


def _doubts(known: Facts) -> Iterator[Doubt]:
    if len(known.measured) > 1:
        names = ", ".join(phase.name or "without a name" for phase in known.measured)
        why = f"the statistics are over several measured phases ({names}); give {RECORDS}"
        yield Doubt(Why.SEVERAL_LOADS, EVERY, why)
    stated = ("error_request_count", "completed_request_count", "request_error_rate")
    if known.errors is None and all(known.stats.value(tag) is None for tag in stated):
        why = f"the file does not say how many requests failed; give {RECORDS}"
        yield Doubt(Why.COUNTS_UNKNOWN, ("attempted", "error_rate"), why)


def _notes(known: Facts) -> Iterator[str]:
    yield from tables.failure_kinds(known.failures)
    listed, counted = sum(k.count for k in known.errors or ()), known.stats.count("error_request_count") or 0
    if known.errors and listed != counted:
        yield f"error_summary lists {listed} errors, error_request_count says {counted}: the larger is used"
    server, client = (known.stats.value(tag) for tag in ("usage_completion_tokens", "output_sequence_length"))
    if server and client is not None and abs(client - server) > tables.MISMATCH * server:
        yield (
            f"output tokens a request: the server's usage says {server:.4g}, AIPerf's tokenizer {client:.4g};"
            f" the aggregate's TPOT is by the tokenizer, {RECORDS} would give it by usage"
        )
