"""inference-perf's per-request file: one JSON array in order of completion, without a stage id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...model import Floats, Gaps, Load, Requests, Run, Status
from .. import tables
from ..source import BROKEN, Source
from . import DEFINITIONS, NAME, aggregate, files
from .aggregate import Count, Number

ONE_CHUNK = (
    "most answers of several tokens came in one chunk, which hides the time of a token; "
    "stop the server's buffering"
)
NO_INFO = (
    "the file has neither token times nor counts: set `info: true` under "
    "`report.request_lifecycle.per_request_fields`"
)
_STAGES = (
    "the requests start in groups with nothing in flight for up to {:.3g} s between them, as the stages of "
    "inference-perf do, and no row says its stage; keep the stage_N_lifecycle_metrics.json files beside it"
)
_PAUSE_S = 0.9  # stages stand 1 s apart (load.interval)
_RARE_GAP = 10  # times the median gap between starts: an open loop seldom pauses so long
_TAIL = 0.02  # of the median E2E
_BUG = (0.8, 1.25)


class _Usage(msgspec.Struct, gc=False):
    completion_tokens: Count | None = None


class _Response(msgspec.Struct, gc=False):
    output_tokens: Count | None = None  # by the client's tokenizer
    server_usage: _Usage | None = None
    chunk_times: list[Number] | None = None
    output_token_times: list[Number] | None = None


class _Text(msgspec.Struct, gc=False):
    input_tokens: Count | None = None


class _Sent(msgspec.Struct, gc=False):
    text: _Text | None = None


class _Info(msgspec.Struct, gc=False):
    request_metrics: _Sent | None = None
    response_metrics: _Response | None = None  # since 0.6
    response_info: _Response | None = None  # 0.5
    input_tokens: Count | None = None
    output_tokens: Count | None = None  # until 0.4, special tokens among them
    output_token_times: list[Number] | None = None  # until 0.4, of every message


class _Computed(msgspec.Struct, gc=False):
    time_to_first_token: Number | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None


class _Error(msgspec.Struct, gc=False):
    error_type: str | None = None
    error_msg: str | None = None


class _Row(msgspec.Struct, gc=False):
    start_time: Number  # monotonic: no wall clock
    end_time: Number
    info: _Info | None = None
    computed_metrics: _Computed | None = None
    error: _Error | None = None
    request: msgspec.Raw = msgspec.Raw(b"null")

    def response(self) -> _Response:
        """What came back, in any version's place."""
        info = self.info
        if info is None:
            return _Response()
        found = info.response_metrics or info.response_info
        return found or _Response(info.output_tokens, None, None, info.output_token_times)


class _Model(msgspec.Struct):
    model: str | None = None


class _Table(msgspec.Struct, frozen=True, eq=False):
    """The rows as columns, in order of their start."""

    rows: Sequence[_Row]
    start_s: Floats
    end_s: Floats
    ttft_s: Floats
    last_s: Floats  # from the start to the last chunk
    chunks: Floats
    usage: Floats  # output tokens as the server says
    tokens: Floats  # as the client says
    input_tokens: Floats
    messages: Sequence[str]
    is_error: NDArray[np.bool_]


class _Part(msgspec.Struct, frozen=True, eq=False):
    """One stage: which rows, and what is known of it."""

    rows: slice
    load: Load | None = None
    told: aggregate.Told | None = None
    day: str | None = None
    notes: tuple[str, ...] = ()
    reason: str = ""  # why it may be several loads


def read(source: Source) -> list[Run]:
    """One Run a stage. Raises InputError where rows and stage files contradict each other."""
    rows = sorted(source.array(_Row), key=lambda row: row.start_time)
    if not rows:
        raise source.fail("holds no request", hint="run the benchmark again")
    table, config = _table(rows), files.config_beside(source)
    return [_run(source, table, part, config) for part in _parts(source, table, config)]


def _table(rows: Sequence[_Row]) -> _Table:
    responses = [row.response() for row in rows]
    computed = [row.computed_metrics or _Computed() for row in rows]
    times = [r.chunk_times or r.output_token_times or [] for r in responses]
    start = _floats(row.start_time for row in rows)
    first = _floats(each[0] if each else None for each in times) - start
    stated = _floats(c.time_to_first_token for c in computed)
    counted = _floats(r.output_tokens for r in responses)
    return _Table(
        rows,
        start - start[0],
        _floats(row.end_time for row in rows) - start[0],
        np.where(np.isnan(first), stated, first),
        _floats(each[-1] if each else None for each in times) - start,
        np.array([len(each) for each in times], np.float64),
        _floats(r.server_usage.completion_tokens if r.server_usage else None for r in responses),
        np.where(np.isnan(counted), _floats(c.output_tokens for c in computed), counted),
        _floats(_input_tokens(row) for row in rows),
        [(row.error.error_type or row.error.error_msg or "error") if row.error else "" for row in rows],
        np.array([row.error is not None for row in rows], np.bool_),
    )


def _floats(values: Iterable[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _input_tokens(row: _Row) -> int | None:
    info = row.info or _Info()
    sent = info.request_metrics.text if info.request_metrics else None
    found = (sent.input_tokens if sent else None) or info.input_tokens
    return found or (row.computed_metrics.input_tokens if row.computed_metrics else None)


# ---- stages --------------------------------------------------------------------------------


def _parts(source: Source, table: _Table, config: files.Config) -> list[_Part]:
    """The stages by their stage files, else by the configuration, else the whole file."""
    stages = files.stages_beside(source)
    if stages:
        return _by_files(source, table, stages)
    declared, number = config.stages(), len(table.rows)
    sizes = [stage.requests() for stage in declared]
    known = [size for size in sizes if size is not None]
    day = files.day_beside(source, 0)
    if len(declared) == 1:
        lost = (known[0] - number) if known else 0
        said = (f"{lost} of the {known[0]} requests asked for are not in the file",) if lost > 0 else ()
        return [_Part(slice(0, number), declared[0].load(), day=day, notes=said)]
    if declared and len(known) == len(declared) and sum(known) == number:
        return [
            _Part(rows, stage.load(), day=files.day_beside(source, i))
            for i, (rows, stage) in enumerate(zip(_slices(known), declared, strict=True))
        ]
    pause_s = _pause(table)
    if declared or pause_s:
        return [_Part(slice(0, number), day=day, reason=_STAGES.format(pause_s))]
    return [_Part(slice(0, number), day=day, notes=(_ALONE,))]


_ALONE = "no stage file or config.yaml beside it: the load is not stated"


def _by_files(source: Source, table: _Table, stages: Sequence[Source]) -> list[_Part]:
    told = [aggregate.told(stage) for stage in stages]
    sizes, number = [one.counts.attempted for one in told], len(table.rows)
    if sum(sizes) != number:
        why = f"contradicts its stage files: it holds {number} requests, they count {sum(sizes)}"
        raise source.fail(why, hint="keep the files of one run together, whole")
    parts = []
    for i, (rows, stage, one) in enumerate(zip(_slices(sizes), stages, told, strict=True)):
        failed = int(table.is_error[rows].sum())
        if failed != one.failures.count:
            why = f"contradicts {stage.name}: {failed} of its requests failed, not {one.failures.count}"
            raise source.fail(why, hint="keep the files of one run together, whole")
        parts.append(_Part(rows, aggregate.load(stage, one), one, files.day_beside(source, i)))
    return [part for part in parts if part.rows.stop > part.rows.start]


def _slices(sizes: Sequence[int]) -> list[slice]:
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _pause(table: _Table) -> float:
    """The longest time without a request in flight, where it looks like the pause between stages."""
    idle = table.start_s[1:] - np.maximum.accumulate(table.end_s)[:-1]
    gaps = np.diff(table.start_s)
    long = idle[(idle > _PAUSE_S) & (gaps > _RARE_GAP * np.median(gaps))] if gaps.size else gaps
    return float(long.max()) if long.size else 0.0


# ---- the run -------------------------------------------------------------------------------


def _run(source: Source, whole: _Table, part: _Part, config: files.Config) -> Run:
    table = _Table(*(getattr(whole, name)[part.rows] for name in _Table.__struct_fields__))
    rows = _requests(table, gaps=source.gaps)
    counts, told = tables.counts(rows), part.told
    constraints = config.report.goodput.constraints if config.report and config.report.goodput else None
    window_s = float(table.end_s.max() - table.start_s.min())
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="inference-perf requests",
        tool=NAME,
        evidence=rows,
        counts=counts,
        model=(config.server.model_name if config.server else None) or _model(table.rows),
        load=part.load,
        duration_s=(told.duration_s if told else None) or (window_s if window_s > 0 else None),
        date=part.day,
        total_output_tokens=tables.output_total(rows),
        streaming=rows.ttft_s is not None if counts.completed else None,
        definitions=DEFINITIONS,
        tool_reported=aggregate.reported(told) if told else {},
        unsuitable=_unsuitable(table, rows, part.reason),
        notes=(
            *tables.failure_note(rows, table.messages),
            *tables.token_note(rows, table.tokens, "the server's usage", "inference-perf's tokenizer"),
            *_notes(table, rows, told),
            *part.notes,
            *config.retry_note(),
            *(aggregate.notes(told, counts, constraints) if told else ()),
        ),
    )


def _requests(table: _Table, *, gaps: bool) -> Requests:
    return tables.requests(
        errors=table.is_error,
        ttft_s=table.ttft_s,
        e2e_s=table.end_s - table.start_s,
        output_tokens=_tokens(table),
        input_tokens=np.where(table.input_tokens > 0, table.input_tokens, np.nan),  # 0 of a failed request
        start_s=table.start_s,
        gaps=_gaps(table.rows) if gaps else None,
        order="start",
    )


def _gaps(rows: Sequence[_Row]) -> Gaps | None:
    """Between chunks, not the tool's own between tokens: those of one chunk have a gap of 0."""
    responses = [row.response() for row in rows]
    lists = [np.diff(np.array(r.chunk_times or r.output_token_times or [], np.float64)) for r in responses]
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in lists])])
    values = np.concatenate(lists) if lists else np.empty(0)
    return Gaps(values, offsets) if values.size else None


def _model(rows: Sequence[_Row]) -> str | None:
    """What the first body asks for; the file has it nowhere else."""
    for row in rows[:1]:
        try:
            body = msgspec.json.decode(row.request, type=str | None)
            return msgspec.json.decode(body, type=_Model).model if body else None
        except BROKEN:
            return None
    return None


def _tokens(table: _Table) -> Floats | None:
    """The server's count first; None where the rows keep no info and so say nothing of tokens."""
    tokens = np.where(table.usage > 0, table.usage, table.tokens)
    return tokens if np.isfinite(tokens).any() or any(row.info is not None for row in table.rows) else None


def _unsuitable(table: _Table, rows: Requests, pooled: str) -> dict[str, str]:
    if pooled:
        return dict.fromkeys(("ttft", "tpot", "itl", "e2e", "error_rate"), pooled)
    completed = rows.status == Status.COMPLETED
    if not completed.any():
        return {}
    if rows.ttft_s is None:
        why = NO_INFO if rows.output_tokens is None else aggregate.NOT_STREAMING
        return dict.fromkeys(("ttft", "tpot", "itl"), why)
    if rows.output_tokens is None:
        return {"tpot": NO_INFO}
    several = completed & (rows.output_tokens > 1) & (table.chunks > 0)
    at_once = several.any() and (table.last_s[several] <= table.ttft_s[several]).mean() > 0.5
    return dict.fromkeys(("tpot", "itl"), ONE_CHUNK) if at_once else {}


def _notes(table: _Table, rows: Requests, told: aggregate.Told | None) -> list[str]:
    said, completed = [], rows.status == Status.COMPLETED
    if any(row.info and row.info.output_token_times for row in table.rows):
        said.append(
            "written by inference-perf 0.4 or older: TTFT ends at the role chunk, and output tokens are the "
            "client's, special tokens among them"
        )
    tail_s = (table.end_s - table.start_s - table.last_s)[completed]
    if np.isfinite(tail_s).any() and rows.e2e_s is not None:
        typical, median_s = float(np.nanmedian(tail_s)), float(np.median(rows.e2e_s[completed]))
        if typical > _TAIL * median_s:
            said.append(
                f"E2E ends {typical:.3g} s after the last token in the median: inference-perf counts the "
                "tokens of an answer before its end_time"
            )
    mean = told.mean("tpot") if told else None
    if mean is not None and rows.tpot_s is not None:
        tpot_s = rows.tpot_s[completed]
        ours = float(np.nanmean(tpot_s)) if np.isfinite(tpot_s).any() else 0.0
        if ours > 0 and not _BUG[0] <= mean / ours <= _BUG[1]:
            said.append(
                f"the tool's own mean TPOT, {mean * 1e3:.3g} ms, is {mean / ours:.2g} times (E2E - TTFT) / "
                "(output tokens - 1), which is used: inference-perf counted tokens more than once"
            )
    return said
