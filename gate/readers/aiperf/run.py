"""AIPerf's per-request records: one JSON object a line, every metric with its unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ...model import Aggregate, Counts, Doubt, Status, Summary, Why
from .. import clocks, kinds, nvidia, tables
from ..nvidia_config import NO_PHASE
from ..source import Source
from ..told import Told
from . import AGGREGATES, KINDS, RECORDS, TITLE, aggregate

_ALONE = "no profile_export_aiperf.json beside it: AIPerf's version, model and load are not stated"
_BARE = Told(format="", evidence=Aggregate({}), retries=0, stream_with=nvidia.STREAM_WITH, notes=(_ALONE,))
_TOKENIZER = "AIPerf's tokenizer (by which its own inter_token_latency differs from our TPOT)"

_NO_GAPS = nvidia.Times([], "s")
_Table: TypeAlias = "dict[str, NDArray[Any]]"
_Key: TypeAlias = "tuple[str | None, int | None] | None"  # name and place of a phase; None: of the warm-up


class _Metrics(msgspec.Struct, gc=False):
    time_to_first_token: nvidia.Cell | None = None
    ttft: nvidia.Cell | None = None  # its name until 2025-10
    request_latency: nvidia.Cell | None = None
    output_sequence_length: nvidia.Amount | None = None
    usage_completion_tokens: nvidia.Amount | None = None
    input_sequence_length: nvidia.Amount | None = None


class _MetricsAndGaps(_Metrics, gc=False):
    inter_chunk_latency: nvidia.Times | None = None


class _Metadata(msgspec.Struct, gc=False):
    credit_issued_ns: nvidia.Ns | None = None
    request_start_ns: nvidia.Ns | None = None
    timestamp_ns: nvidia.Ns | None = None  # the start, until 2025-10
    request_end_ns: nvidia.Ns | None = None
    benchmark_phase: Literal["warmup", "profiling"] | None = None
    credit_phase: Literal["warmup", "profiling"] | None = None
    phase_index: int | None = None
    phase_name: str | None = None
    was_cancelled: bool | None = None

    @property
    def key(self) -> _Key:
        warmup = (self.benchmark_phase or self.credit_phase) == "warmup"
        return None if warmup else (self.phase_name, self.phase_index)


class _Row(msgspec.Struct, gc=False):
    metadata: _Metadata
    metrics: _Metrics
    error: aggregate.Error | None = None


class _RowAndGaps(_Row, gc=False):
    metrics: _MetricsAndGaps


def decode(source: Source) -> Iterator[Told]:
    """One Told a measured phase. Raises InputError where records and aggregate contradict each other."""
    hint = f"give {aggregate.RECORDS} or profile_export_aiperf.json"
    if kinds.result(source, KINDS, TITLE, hint) is not RECORDS:
        yield aggregate.decode(source)
        return
    codes: dict[_Key, int] = {}
    lines = source.lines(_RowAndGaps) if source.gaps else source.lines(_Row)
    parts = [_columns(source, rows, codes) for rows in lines]
    if not parts:
        raise source.fail("holds no request", hint="run the benchmark again")
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    phases: list[_Key] = [key for key in codes if key] or [None]
    others = (kinds.beside(source, KINDS, name) for name in ("_aiperf.json", ".json"))
    beside = next((o for o in others if o and kinds.kind_of(o, KINDS) in AGGREGATES), None)
    facts = aggregate.facts(beside) if beside else None
    several = len(phases) > 1 or (facts is not None and len(facts.measured) > 1)
    known = _agreed(source, facts, whole, phases, several=several) if facts else _BARE
    for key in phases:
        rows = whole["phase"] == codes[key]
        if key is phases[0]:
            rows |= whole["warmup"]
        told = _told(source, {name: column[rows] for name, column in whole.items()}, known)
        if several and key:
            asked = facts.config.phase(*key).asked if facts else NO_PHASE
            told = replace(told, level=key[0] or f"phase {key[1]}", **asked)
        yield told


def _columns(source: Source, rows: Sequence[_Row], codes: dict[_Key, int]) -> _Table:
    """Columns of some rows; 0 ns is unknown. `codes` numbers the phases as they come."""
    metas, metrics = [row.metadata for row in rows], [row.metrics for row in rows]
    errors, keys = [row.error for row in rows], [meta.key for meta in metas]
    firsts = [m.time_to_first_token or m.ttft for m in metrics]
    table: _Table = {
        "start_ns": np.array([m.request_start_ns or m.timestamp_ns or 0 for m in metas], np.int64),
        "end_ns": np.array([m.request_end_ns or 0 for m in metas], np.int64),
        "due_ns": np.array([m.credit_issued_ns or 0 for m in metas], np.int64),
        "phase": np.array([codes.setdefault(key, len(codes)) for key in keys]),
        "warmup": np.array([key is None for key in keys]),
        "cancelled": np.array([bool(m.was_cancelled) for m in metas])
        | np.array([error is not None and error.is_cancellation for error in errors]),
        "error": np.array([error is not None for error in errors]),
        "message": np.array(["" if error is None else str(error) for error in errors], object),
        "ttft": nvidia.seconds(source, firsts, "time_to_first_token"),
        "e2e": nvidia.seconds(source, [m.request_latency for m in metrics], "request_latency"),
        "tokens": nvidia.values(m.output_sequence_length for m in metrics),
        "usage": nvidia.values(m.usage_completion_tokens for m in metrics),
        "input": nvidia.values(m.input_sequence_length for m in metrics),
    }
    if source.gaps:
        cells = (m.inter_chunk_latency or _NO_GAPS for m in metrics if isinstance(m, _MetricsAndGaps))
        lists = (np.array(c.value) / nvidia.per_second(source, c.unit, "inter_chunk_latency") for c in cells)
        table["gaps"] = np.fromiter(lists, object, len(rows))
    return table


# ---- one phase -----------------------------------------------------------------------------


def _told(source: Source, table: _Table, known: Told) -> Told:
    usage, begun = table["usage"], table["start_ns"] > 0
    first = table["start_ns"][begun].min() if begun.any() else 0
    # Subtracted as integers: only then do the nanoseconds survive.
    start_s = np.where(begun, (table["start_ns"] - first) / 1e9, np.nan)
    took_s = np.where(table["end_ns"] > 0, (table["end_ns"] - table["start_ns"]) / 1e9, table["e2e"])
    rows = tables.requests(
        errors=table["error"],
        ttft_s=table["ttft"],
        e2e_s=table["e2e"],
        output_tokens=np.where(usage > 0, usage, table["tokens"]),
        input_tokens=table["input"],
        start_s=start_s,
        cancelled=table["cancelled"],
        warmup=table["warmup"],
        gaps=tables.gaps(table["gaps"].tolist()) if source.gaps else None,
    )
    attempted, completed = rows.attempted & begun, rows.status == Status.COMPLETED
    late = (table["start_ns"] - table["due_ns"])[attempted & (table["due_ns"] > 0)]
    without = int((completed & ~(usage > 0)).sum())
    partly = f"{without} completed requests have no server usage: AIPerf's tokenizer counts theirs"
    return replace(
        known,
        format="aiperf records",
        evidence=rows,
        duration_s=known.duration_s or clocks.span_s(start_s[attempted], (start_s + took_s)[attempted]),
        date=clocks.day(table["start_ns"][begun] / 1e9) or known.date,
        has_gaps=source.data.find(b'"inter_chunk_latency"') >= 0,
        late_p99_s=float(np.percentile(late, 99)) / 1e9 if len(late) else None,
        recount=(table["tokens"], "the server's usage", _TOKENIZER),
        messages=table["message"].tolist(),
        notes=(*known.notes, *((partly,) if without and (usage > 0).any() else ())),
    )


def _agreed(
    source: Source, facts: aggregate.Facts, table: _Table, phases: Sequence[_Key], *, several: bool
) -> Told:
    """What the aggregate tells of these records. Raises InputError where it counts others.

    It may count requests that were stopped without an error as completed and, where it does not list its
    errors, those with one as failed. A failure of the rows that it does not count is one all the same.
    """
    told, name, counts = facts.told, facts.stats.source.name, facts.told.counts
    ends = (table["error"] + 2 * table["cancelled"])[~table["warmup"]]
    here, wrong, stopped, cut_off = np.bincount(ends, minlength=4).tolist()
    counts = counts or Counts(here + wrong, here, wrong)
    completed = counts.completed - min(max(counts.completed - here, 0), stopped)
    counted = counts.attempted - counts.completed
    failed = max(wrong, facts.failures.total(), counted + counts.cancelled - cut_off)
    if completed > here or failed > wrong or (completed < here and not several):
        why = f"holds {here} completed and {wrong} failed requests, but {name} beside it counts"
        raise source.fail(f"{why} {completed} and {failed}", hint=nvidia.BOTH)
    doubts, notes = list(told.doubts), list(told.notes)
    if counted > wrong:
        why = (
            f"{counted - wrong} errors that {name} counts are here only as cancelled requests, and it does"
            " not list what they were; keep its error_summary or run again"
        )
        doubts.append(Doubt(Why.FAILURES_HIDDEN, ("attempted",), why, counted - wrong))
    stated = counts.attempted + counts.cancelled
    if stated < len(ends):
        notes.append(f"AIPerf's aggregate counts {stated} of these {len(ends)} requests")
    told = replace(told, counts=None, streamed=None, doubts=tuple(doubts), notes=tuple(notes))
    if several:
        names = {facts.config.phase(*key).name for key in phases if key}
        if lost := [phase.name for phase in facts.measured if phase.name and phase.name not in names]:
            why = f"the measured phases {', '.join(lost)} have no request here; {nvidia.BOTH}"
            doubts.append(Doubt(Why.LOST_ROWS, ("attempted",), why))
        told = replace(told, doubts=tuple(doubts), stated={}, goodput="", lengths=Summary(), **NO_PHASE)
        return replace(told, duration_s=None, output_tokens=None)
    good = ~(table["warmup"] | table["cancelled"] | table["error"])
    if completed == here:
        nvidia.refuse_another_run(source, table["e2e"][good], told, name)
    usage = table["usage"][good] > 0
    tag = "total_usage_completion_tokens" if usage.all() else "total_osl" if not usage.any() else ""
    return replace(told, output_tokens=facts.stats.value(tag))
