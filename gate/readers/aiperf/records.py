"""AIPerf's per-request records: one JSON object a line, every metric with its unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...model import Bools, Counts, Floats, Gaps, Requests, Run, Status, Summary
from .. import nvidia, tables
from ..source import Source
from . import DEFINITIONS, NAME, summary
from .files import aggregate_beside

_WHOLE = "copy both files of one run whole, or take the other one away"
_SAME = 1e-3  # relative: a mean further from the aggregate's is of another run
_LATE = 0.1  # a P99 start delay above this share of the median E2E is worth a note

_Ns = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # epoch: a double would lose 200 ns
_Phase = Literal["warmup", "profiling"]
_Infinite = Literal["inf", "-inf"]  # how Source spells an infinity


class _Time(msgspec.Struct, gc=False):
    value: float | _Infinite | None = None
    unit: str = ""


class _Count(msgspec.Struct, gc=False):
    value: Annotated[float, msgspec.Meta(ge=0)] | _Infinite | None = None


class _Times(msgspec.Struct, gc=False):
    value: list[float]
    unit: str = ""


class _Metrics(msgspec.Struct, gc=False):
    time_to_first_token: _Time | None = None
    ttft: _Time | None = None  # its name until 2025-10
    request_latency: _Time | None = None
    output_sequence_length: _Count | None = None
    usage_completion_tokens: _Count | None = None
    input_sequence_length: _Count | None = None


class _MetricsAndGaps(_Metrics, gc=False):
    inter_chunk_latency: _Times | None = None


class _Metadata(msgspec.Struct, gc=False):
    credit_issued_ns: _Ns | None = None
    request_start_ns: _Ns | None = None
    timestamp_ns: _Ns | None = None  # the start, until 2025-10
    request_end_ns: _Ns | None = None
    benchmark_phase: _Phase | None = None
    credit_phase: _Phase | None = None
    phase_index: int = 0
    was_cancelled: bool | None = None


class _Row(msgspec.Struct, gc=False):
    metadata: _Metadata
    metrics: _Metrics
    error: summary.Error | None = None


class _RowAndGaps(msgspec.Struct, gc=False):
    metadata: _Metadata
    metrics: _MetricsAndGaps
    error: summary.Error | None = None


_Rows = Sequence[_Row | _RowAndGaps]
_Table = dict[str, NDArray[Any]]


def read(source: Source) -> list[Run]:
    """One Run a measured phase. Raises InputError where records and aggregate contradict each other."""
    table, messages = _table(source)
    beside = aggregate_beside(source)
    facts = summary.told(beside) if beside else None
    measured = ~table["warmup"]
    phases = np.unique(table["phase"][measured])
    if facts:
        _count_all(source, facts, table)
    if len(phases) <= 1:
        return [_run(source, table, messages, facts)]
    runs = []
    for number, phase in enumerate(phases):
        rows = measured & (table["phase"] == phase) | (table["warmup"] & (number == 0))
        chosen = [message for message, row in zip(messages, rows.tolist(), strict=True) if row]
        runs.append(_run(source, _select(table, rows), chosen, facts, int(phase)))
    return runs


# ---- columns -------------------------------------------------------------------------------


def _table(source: Source) -> tuple[_Table, list[str]]:
    parts, messages = [], []
    lines = source.lines(_RowAndGaps) if source.gaps else source.lines(_Row)
    for rows in lines:
        parts.append(_columns(source, rows))
        messages += ["" if row.error is None else str(row.error) for row in rows]
    if not messages:
        raise source.fail("holds no request", hint="run the benchmark again")
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, messages


def _columns(source: Source, rows: _Rows) -> _Table:
    metas, metrics = [row.metadata for row in rows], [row.metrics for row in rows]
    start = [m.request_start_ns or m.timestamp_ns or 0 for m in metas]
    table: _Table = {
        "start_ns": np.array(start, np.int64),  # 0 is unknown, here and below
        "end_ns": np.array([m.request_end_ns or 0 for m in metas], np.int64),
        "due_ns": np.array([m.credit_issued_ns or 0 for m in metas], np.int64),
        "phase": np.array([m.phase_index for m in metas], np.int64),
        "warmup": np.array([(m.benchmark_phase or m.credit_phase) == "warmup" for m in metas], bool),
        "cancelled": np.array([bool(m.was_cancelled) for m in metas], bool),
        "error": np.array([row.error is not None for row in rows], bool),
        "ttft": _seconds(source, [m.time_to_first_token or m.ttft for m in metrics], "time_to_first_token"),
        "e2e": _seconds(source, [m.request_latency for m in metrics], "request_latency"),
        "tokens": _numbers([m.output_sequence_length for m in metrics]),
        "usage": _numbers([m.usage_completion_tokens for m in metrics]),
        "input": _numbers([m.input_sequence_length for m in metrics]),
    }
    for at in np.flatnonzero(table["error"]).tolist():
        error = rows[at].error
        table["cancelled"][at] |= error is not None and error.is_cancellation
    if source.gaps:
        gaps = [m.inter_chunk_latency for m in metrics if isinstance(m, _MetricsAndGaps)]
        lists = [np.array(cell.value if cell else [], np.float64) / _divisor(source, cell) for cell in gaps]
        table["gap"] = np.concatenate(lists) if lists else np.empty(0)
        table["gaps"] = np.array([len(each) for each in lists], np.int64)
    return table


def _numbers(cells: Sequence[_Time | _Count | None]) -> Floats:
    values = np.array([None if cell is None else cell.value for cell in cells], np.float64)
    values[np.isinf(values)] = np.nan  # not a measurement
    return values


def _seconds(source: Source, cells: Sequence[_Time | None], metric: str) -> Floats:
    units = {cell.unit for cell in cells if cell is not None}
    scales = {unit: nvidia.per_second(source, unit, metric) for unit in units}
    values = _numbers(cells)
    values /= scales.popitem()[1] if len(scales) == 1 else [scales[c.unit] if c else 1.0 for c in cells]
    return values


def _divisor(source: Source, cell: _Times | None) -> float:
    return 1.0 if cell is None else nvidia.per_second(source, cell.unit, "inter_chunk_latency")


def _select(table: _Table, rows: Bools) -> _Table:
    chosen = {name: column[rows] for name, column in table.items() if name != "gap"}
    if "gap" in table:
        chosen["gap"] = table["gap"][np.repeat(rows, table["gaps"])]
    return chosen


# ---- the run -------------------------------------------------------------------------------


def _run(
    source: Source, table: _Table, messages: list[str], facts: summary.Told | None, phase: int | None = None
) -> Run:
    """`phase` is None where the whole file is one measured phase, so that the aggregate is about it."""
    rows = _requests(table)
    counted = tables.counts(rows)
    whole = facts if phase is None else None
    phases = facts.config.all_phases() if facts and phase is not None else []
    if facts and phase is None:
        phases, phase = facts.config.measured()[:1], 0
        _agree(source, facts, table, rows, counted)
    streaming = None if not counted.completed else rows.ttft_s is not None
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="aiperf records",
        tool=NAME,
        evidence=rows,
        counts=counted,
        tool_version=facts.version if facts else None,
        model=facts.config.model() if facts else None,
        load=phases[phase].load() if phase is not None and 0 <= phase < len(phases) else None,
        duration_s=(whole.window_s() if whole else None) or _span_s(table, rows),
        total_output_tokens=tables.output_total(rows),
        streaming=streaming,
        definitions=DEFINITIONS,
        tool_reported=whole.reported() if whole else {},
        unsuitable=_unsuitable(rows, streaming) | (_doubt(whole, table, counted) if whole else {}),
        notes=(
            *tables.failure_note(rows, messages),
            *_notes(table, rows),
            *(_facts_notes(facts, counted) if facts else (_ALONE,)),
        ),
    )


_ALONE = "no profile_export_aiperf.json beside it: AIPerf's version, model and load are not stated"


def _requests(table: _Table) -> Requests:
    usage, tokens = table["usage"], table["tokens"]
    start = np.where(table["start_ns"] > 0, table["start_ns"], np.iinfo(np.int64).max)
    gaps = None
    if "gap" in table:
        gaps = Gaps(table["gap"], np.concatenate([[0], np.cumsum(table["gaps"])]))
    return tables.requests(
        errors=table["error"],
        ttft_s=table["ttft"],
        e2e_s=table["e2e"],
        output_tokens=np.where(usage > 0, usage, tokens),
        input_tokens=table["input"],
        # Subtracted as integers: only then do the nanoseconds survive.
        start_s=np.where(table["start_ns"] > 0, (start - start.min()) / 1e9, np.nan),
        cancelled=table["cancelled"],
        warmup=table["warmup"],
        gaps=gaps if gaps is not None and len(gaps.values_s) else None,
    )


def _span_s(table: _Table, rows: Requests) -> float | None:
    """First start to last end of what was attempted: where no aggregate states the window."""
    known = rows.attempted & (table["start_ns"] > 0)
    if not known.any():
        return None
    first = table["start_ns"][known].min()
    since_first = (table["start_ns"][known] - first) / 1e9
    ends = np.where(
        table["end_ns"][known] > 0,
        (table["end_ns"][known] - first) / 1e9,
        since_first + np.nan_to_num(table["e2e"][known]),
    )
    return float(ends.max()) or None


class _Ended(msgspec.Struct, frozen=True):
    """How the measured rows ended, by what AIPerf wrote; the shared failure rule may be stricter."""

    completed: int
    failed: int
    stopped: int  # cancelled without an error
    cut_off: int  # cancelled with one

    @classmethod
    def of(cls, table: _Table) -> _Ended:
        measured, error, cancelled = ~table["warmup"], table["error"], table["cancelled"]
        ends = (~cancelled & ~error, ~cancelled & error, cancelled & ~error, cancelled & error)
        return cls(*(int((measured & end).sum()) for end in ends))


def _count_all(source: Source, facts: summary.Told, table: _Table) -> None:
    """Records that are fewer than the aggregate counts were cut: the lost ones must not vanish.

    Whatever phases the aggregate is about, it cannot count more than all of them.
    """
    here, name = _Ended.of(table), facts.source.name
    errors, cut_off = facts.errors_stated(), facts.cut_off()
    stated = (facts.completed() or 0) + errors
    seen = here.completed + here.failed + here.stopped + here.cut_off
    if stated > seen:
        raise source.fail(
            f"holds {seen} measured requests, but {name} beside it counts {stated}", hint=_WHOLE
        )
    # A listed kind is a failure for sure; an error that is only counted may be one that AIPerf cut off.
    listed = sum(kind.count for kind in facts.errors) - cut_off
    if listed > here.failed or errors - cut_off > here.failed + here.cut_off:
        raise source.fail(
            f"holds {here.failed} failed requests, but {name} beside it counts {errors - cut_off}",
            hint=_WHOLE,
        )


def _agree(source: Source, facts: summary.Told, table: _Table, rows: Requests, counted: Counts) -> None:
    """The aggregate of this one phase counts the same completed requests, and their mean is the same."""
    completed, here = facts.completed(), _Ended.of(table)
    if completed is not None and not here.completed <= completed <= here.completed + here.stopped:
        raise source.fail(
            f"holds {here.completed} completed requests, but {facts.source.name} beside it counts"
            f" {completed}",
            hint=_WHOLE,
        )
    said = facts.latencies().get("e2e", Summary()).mean
    if rows.e2e_s is None or not said or completed != counted.completed:
        return
    mean = float(rows.e2e_s[rows.status == Status.COMPLETED].mean())
    if abs(mean - said) > _SAME * said:
        raise source.fail(
            f"has a mean request latency of {mean:.6g} s, but {facts.source.name} says {said:.6g} s",
            hint=_WHOLE,
        )


def _doubt(facts: summary.Told, table: _Table, counted: Counts) -> dict[str, str]:
    """Why failures may be missing: stated errors that are here only as cancelled; requests not there."""
    here = _Ended.of(table)
    lost = facts.errors_stated() - facts.cut_off() - here.failed
    if lost > 0:
        return {
            "attempted": f"{lost} errors that {facts.source.name} counts are here only as cancelled requests,"
            " and it does not list what they were; keep its error_summary or run again"
        }
    return summary.missing(facts, counted)


def _unsuitable(rows: Requests, streaming: bool | None) -> dict[str, str]:
    if streaming is False:
        return dict.fromkeys(("ttft", "tpot", "itl"), summary.NOT_STREAMING)
    if rows.ttft_s is None or rows.e2e_s is None or rows.output_tokens is None:
        return {}
    several = (rows.status == Status.COMPLETED) & (rows.output_tokens > 1)
    at_once = rows.e2e_s[several] <= rows.ttft_s[several]
    return dict.fromkeys(("tpot", "itl"), summary.ONE_CHUNK) if at_once.size and at_once.mean() > 0.5 else {}


def _facts_notes(facts: summary.Told, counted: Counts) -> tuple[str, ...]:
    stated = (facts.count("request_count") or 0) + (facts.count("error_request_count") or 0)
    seen = counted.attempted + counted.cancelled
    more = (f"AIPerf's aggregate counts {stated} of these {seen} requests",) if stated < seen else ()
    return (*facts.notes, *more, *summary.goodput_note(facts), *summary.missing_note(facts, counted))


def _notes(table: _Table, rows: Requests) -> tuple[str, ...]:
    usage, completed = table["usage"], rows.status == Status.COMPLETED
    notes = list(tables.token_note(rows, table["tokens"], "the server's usage", "AIPerf's tokenizer"))
    if notes:
        notes.append("AIPerf's own inter_token_latency is by its tokenizer and differs from our TPOT")
    without = int((completed & ~(usage > 0)).sum())
    if without and (usage > 0).any():
        notes.append(f"{without} completed requests have no server usage: AIPerf's tokenizer counts theirs")
    known = (table["due_ns"] > 0) & (table["start_ns"] > 0) & rows.attempted
    if known.any() and rows.e2e_s is not None and completed.any():
        late_s = float(np.percentile((table["start_ns"] - table["due_ns"])[known], 99)) / 1e9
        if late_s > _LATE * float(np.median(rows.e2e_s[completed])):
            notes.append(f"the client was late: P99 from a request's due time to its start is {late_s:.3g} s")
    return tuple(notes)
