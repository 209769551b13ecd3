"""AIPerf's aggregate, JSON or CSV: evidence of its own, or facts about the records beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...model import Counts, Doubt, Why
from .. import clocks, nvidia, tables
from ..doc import Doc
from ..nvidia_config import NO_PHASE, AIPerf, Phase
from ..settle.case import EVERY
from ..source import Source
from ..told import Told
from . import LATENCIES, NAME

RECORDS = "profile_export.jsonl (written at --export-level records, the default)"
_SKIPPED = "{:,} requests did not fit the model's context and are in no count; send shorter prompts"
_FORMER = {  # names until 2025-10, and those of the CSV
    "time_to_first_token": "ttft",
    "completed_request_count": "completed_requests",
    "total_osl": "total_output_sequence_length",
}


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
    config: AIPerf
    measured: Sequence[Phase]  # those it is about

    @property
    def failures(self) -> Counter[str]:
        """What the errors it lists are, without cancellations of its own."""
        found = Counter[str]()
        for kind in self.errors or ():
            found[str(kind.error_details)] += 0 if kind.is_cancellation else kind.count
        return +found


def facts(source: Source) -> Facts:
    """Raises InputError for a result of the wrong type; settings that mean nothing are a note."""
    stats, config, doc, notes = nvidia.statement(source, _FORMER, AIPerf)
    errors, faults = doc.get("error_summary", list[_ErrorKind]), "; ".join(_faults(doc))
    measured, folder = config.measured, (source.path or Path()).parent
    if folder.parent.name == "phases":  # its copy for one phase
        measured = [phase for phase in measured if phase.name == folder.name] or measured
    skipped = stats.count("skipped_context_overflow_count")
    usage = stats.value("total_usage_completion_tokens")
    told = nvidia.aggregate_run(
        stats,
        LATENCIES,
        NAME,
        "aggregate",
        RECORDS,
        counts=_counts(stats, errors or ()),
        output_tokens=stats.value("total_osl") if usage is None else usage,
        version=doc.text("aiperf_version"),
        model=config.model,
        date=clocks.day_of(doc.text("start_time")),
        streamed=True if stats.get("time_to_first_token") else None,
        goodput=_goodput(stats, config),
        invalid=faults,
        hides_failures=_SKIPPED.format(skipped) if skipped else "",
        hidden_at_most=skipped,
        notes=notes,
        **(NO_PHASE if stats.rounded else config.asked(measured)),  # a CSV has no configuration
    )
    return Facts(told, stats, errors, config, measured)


def decode(source: Source) -> Told:
    """The aggregate alone. Raises InputError for one of the warm-up."""
    known, folder = facts(source), (source.path or Path()).parent
    if folder.parent.name == "phases" and folder.name.startswith("warmup"):
        number = known.told.counts.attempted if known.told.counts else "unknown"
        why = f"summarises the {number} requests of the warm-up phase, not the measurement"
        raise source.fail(why, hint="give profile_export.jsonl or its aggregate, of the run's own folder")
    told = known.told
    doubts, notes = (*told.doubts, *_doubts(known)), (*told.notes, *_notes(known))
    return replace(told, doubts=doubts, notes=notes, failures=known.failures)


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


def _goodput(stats: nvidia.Stats, config: AIPerf) -> str:
    rate, share = stats.value("goodput"), stats.value("good_request_fraction")
    amounts = [f"{rate:.4g} good req/s"] if rate is not None else []
    amounts += [f"{share:.4g} of completed and failed requests"] if share is not None else []
    by = f"by its own --goodput ({nvidia.bounds(config.slos)}; a request without one of these is not good)"
    return f"{' and '.join(amounts)}, {by}" if amounts else ""


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
    listed, counted = sum(k.count for k in known.errors or ()), known.stats.count("error_request_count") or 0
    if known.errors and listed != counted:
        yield f"error_summary lists {listed} errors, error_request_count says {counted}: the larger is used"
    server, client = (known.stats.value(tag) for tag in ("usage_completion_tokens", "output_sequence_length"))
    for note in tables.lengths_note(server, client, "AIPerf's tokenizer"):
        yield f"{note}; the aggregate's TPOT is by the tokenizer, {RECORDS} would give it by usage"
