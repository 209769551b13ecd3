"""inference-perf's per-request file: one JSON array in order of completion, without a stage id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from ...model import METRICS, Doubt, Why
from .. import clocks, kinds, stages, tables
from ..source import BROKEN, Source
from ..stages import at
from ..told import Counted, Told
from . import KINDS, NAME, STAGES
from .run import STREAM_WITH, Count, Lifecycle, Number, config_of, facts_of, stated_by

_NO_INFO = "no token times or counts: set `info: true` under `report.request_lifecycle.per_request_fields`"
_SEVERAL = (
    "the requests start in groups with nothing in flight for up to {:.3g} s between them, as the stages of "
    "inference-perf do, and no row says its stage; keep the stage_N_lifecycle_metrics.json files beside it"
)
_FLAT = "written by inference-perf 0.4 or older: TTFT ends at the role chunk, special tokens count as output"
_ALONE = "no stage file or config.yaml beside it: the load is not stated"
_TOGETHER = "keep the files of one run together, whole"
_Part = tuple[slice, dict[str, Any]]  # which rows, and what is known of them


class _Response(msgspec.Struct, gc=False):
    output_tokens: Count | None = None  # by the client's tokenizer
    server_usage: dict[str, Any] | None = None
    chunk_times: list[Number] | None = None
    output_token_times: list[Number] | None = None


class _Info(_Response, gc=False):
    # Until 0.4 the response's own fields are here, with special tokens and the times of every message.
    request_metrics: dict[str, Any] | None = None
    response_metrics: _Response | None = None  # since 0.6
    response_info: _Response | None = None  # 0.5
    input_tokens: Count | None = None
    retries_attempted: Count = 0  # since 0.7, where there were any


class _Row(msgspec.Struct, gc=False):
    start_time: Number  # monotonic: no wall clock
    end_time: Number
    info: _Info | None = None
    computed_metrics: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    request: msgspec.Raw = msgspec.Raw(b"null")

    def response(self) -> _Response:
        """What came back, in any version's place."""
        info = self.info or _Info()
        return info.response_metrics or info.response_info or info

    def message(self) -> str:
        """The kind of failure, "" where it is none."""
        error = self.error
        return "" if error is None else str(error.get("error_type") or error.get("error_msg") or "error")

    def computed(self, name: str) -> float | None:
        """One of the tool's own figures of this request."""
        return stages.number(at(self.computed_metrics, name))


def decode(source: Source) -> Iterator[Told]:
    """One run a stage. Raises InputError where rows and stage files contradict each other."""
    rows = sorted(source.array(_Row), key=lambda row: row.start_time)
    if not rows:
        raise source.fail("holds no request", hint="run the benchmark again")
    config = config_of(source)
    for index, (part, facts) in enumerate(_by_files(source, rows, config) or _by_config(rows, config)):
        if part.stop > part.start:
            yield _told(source, rows[part], config, facts_of(source, config, index) | facts)


def _by_files(source: Source, rows: Sequence[_Row], config: Any) -> list[_Part]:
    files = kinds.numbered(source, KINDS, *STAGES)
    told = [file.whole(Lifecycle) for file in files]
    parts = _slices([report.attempted for report in told])
    if files and parts[-1].stop != len(rows):
        why = f"contradicts its stage files: it holds {len(rows)} requests, they count {parts[-1].stop}"
        raise source.fail(why, hint=_TOGETHER)
    found = []
    for index, (part, report, file) in enumerate(zip(parts, told, files, strict=True)):
        failed = sum(row.error is not None for row in rows[part])
        if failed != report.failures.count:
            why = f"contradicts {file.name}: {failed} of its requests failed, not {report.failures.count}"
            raise source.fail(why, hint=_TOGETHER)
        total, counted = (
            report.total(report.successes.output_tokens),
            Counted(report.successes.count),
        )
        beside = {"output_tokens": total, "counted": counted}
        found.append((part, stated_by(file, report, config, index) | beside))
    return found


def _by_config(rows: Sequence[_Row], config: Any) -> list[_Part]:
    declared, every = stages.declared(config), slice(0, len(rows))
    unsaid = {"asked_with": stages.asked_with(config)}
    facts = [{"load": stages.load(stage), "asked": stages.asked(stage)} | unsaid for stage in declared]
    asked = list(filter(None, map(stages.asked, declared)))
    if len(declared) == 1:
        return [(every, facts[0])]
    if declared and len(asked) == len(declared) and sum(asked) == len(rows):
        return list(zip(_slices(asked), facts, strict=True))
    start, end = (tables.column(getattr(row, name) for row in rows) for name in ("start_time", "end_time"))
    pause_s = clocks.pause_s(start, end)
    if not declared and not pause_s:
        return [(every, {"notes": (_ALONE,)} | unsaid)]
    doubt = Doubt(Why.SEVERAL_LOADS, (*METRICS, "error_rate"), _SEVERAL.format(pause_s))
    return [(every, {"doubts": (doubt,)})]


def _slices(sizes: Sequence[int]) -> list[slice]:
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _told(source: Source, rows: Sequence[_Row], config: Any, facts: dict[str, Any]) -> Told:
    responses = [row.response() for row in rows]
    times = [r.chunk_times or r.output_token_times or [] for r in responses]
    start, end = (tables.column(getattr(row, name) for row in rows) for name in ("start_time", "end_time"))
    first, last = (tables.column(each[place] if each else None for each in times) for place in (0, -1))
    usage = tables.column(stages.whole_number(at(r.server_usage, "completion_tokens")) for r in responses)
    counted = tables.column(r.output_tokens for r in responses)
    computed = tables.column(row.computed("output_tokens") for row in rows)
    client = np.where(np.isnan(counted), computed, counted)
    stated_ttft = tables.column(row.computed("time_to_first_token") for row in rows)
    infos = [row.info for row in rows if row.info is not None]
    is_counted = infos or np.isfinite(client).any()  # else the rows say nothing of tokens
    table = tables.requests(
        errors=np.array([row.error is not None for row in rows], np.bool_) | clocks.unset(start),
        ttft_s=np.where(np.isnan(first), stated_ttft, first - start),
        e2e_s=end - start,
        output_tokens=np.where(usage > 0, usage, client) if is_counted else None,
        input_tokens=tables.column(map(_input_tokens, rows)),
        start_s=start - start[0],
        gaps=tables.gaps_between(times) if source.gaps else None,
        order="start",
    )
    doubts, notes = list(facts.pop("doubts", ())), list(facts.pop("notes", ()))
    if table.ttft_s is None and not is_counted:
        doubts.append(Doubt(Why.ABSENT, ("ttft", "tpot", "itl"), _NO_INFO))
    if any(info.output_token_times for info in infos):
        notes.append(_FLAT)
    retries, set_to = max((info.retries_attempted for info in infos), default=0), stages.retries(config)
    if set_to:
        notes.append(f"inference-perf was set to retry a failed request {set_to} times")
    return Told(
        format=f"{NAME} requests",
        evidence=table,
        retries=retries if retries or len(infos) == len(rows) else set_to,
        duration_s=facts.pop("duration_s", None) or float(end.max() - start[0]) or None,
        model=facts.pop("model") or _model(rows[0]),
        stream_with=STREAM_WITH,
        has_gaps=any(len(each) > 1 for each in times),
        pieces=np.array([len(each) or np.nan for each in times], np.float64),
        tail_s=end - last,
        recount=(client, "the server's usage", "inference-perf's tokenizer"),
        messages=[row.message() for row in rows],
        doubts=tuple(doubts),
        notes=tuple(notes),
        **facts,
    )


def _input_tokens(row: _Row) -> float | None:
    """As sent; of a failed request the file says 0, which is none."""
    info = row.info or _Info()
    sent = stages.whole_number(at(info.request_metrics, "text", "input_tokens"))
    return sent or info.input_tokens or row.computed("input_tokens") or None


def _model(row: _Row) -> str | None:
    """What a body asks for; the file has it nowhere else."""
    try:
        body = stages.text(msgspec.json.decode(row.request)) or ""
        return stages.text(at(msgspec.json.decode(body), "model"))
    except BROKEN:
        return None
