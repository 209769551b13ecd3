"""GuideLLM's listed requests as columns: status by list, warm-up by the measurement window."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ...model import Bools, Floats, Requests, Status
from .. import tables
from .report import Benchmark, Row, Strategy, Timings
from .summary import NO_GAPS, NOT_STREAMING

ONE_CHUNK = (
    "most answers of several tokens came in one chunk, which hides the time of a token; "
    "stop the server's buffering"
)
CHUNKS = (
    "the server stated no usage for most answers, so GuideLLM counted chunks as output tokens, and a chunk "
    "gap is no stand-in for TPOT; make the server send usage (stream_options.include_usage)"
)
_TAIL = 0.02  # of the median E2E: a longer wait for the end of the stream is worth a note
_LATE = 0.1  # of the median E2E: a later start than was due is worth a note
_SLACK = 0.05  # of the rate asked for
_STATUS = re.compile(r"(\w+)\(.*?'(\d{3} [^']*)'", re.DOTALL)


class Listed(Struct, frozen=True, eq=False):
    """The requests of one benchmark, times in seconds since the first start."""

    requests: Requests
    messages: list[str]  # what each failed with
    end_s: Floats
    first_s: Floats  # token
    last_s: Floats  # token
    due_s: Floats
    usage: Floats  # output tokens as the server says
    chunks: Floats  # with content
    kind: NDArray[np.uint8]  # the list it is in, as a status
    window_s: tuple[float, float] | None  # of the measurement
    inside: Bools  # overlaps the window

    def inside_of(self, kind: int) -> int:
        """How many of one list lie in the window."""
        return int((self.inside & (self.kind == kind)).sum())


def listed(benchmark: Benchmark) -> Listed:
    """Every listed request, in the order successful, errored, incomplete."""
    groups = benchmark.requests
    parts = [g or [] for g in (groups.successful, groups.errored, groups.incomplete)] if groups else []
    rows = [row for part in parts for row in part]
    kinds = [Status.COMPLETED, Status.FAILED, Status.CANCELLED][: len(parts)]
    kind = np.repeat(np.array(kinds, np.uint8), [len(part) for part in parts])
    times = [row.info.timings if row.info and row.info.timings else Timings() for row in rows]
    pairs = list(zip(rows, times, strict=True))
    start = _floats(
        _first(r.request_start_time, t.request_start, t.resolve_start, r.start_time) for r, t in pairs
    )
    end = _floats(_first(r.request_end_time, t.request_end, t.resolve_end, r.end_time) for r, t in pairs)
    zero = float(np.nanmin(start)) if np.isfinite(start).any() else 0.0
    window = _window(benchmark, zero)
    inside = _inside(start - zero, end - zero, window)
    cancelled = kind == Status.CANCELLED
    requests = tables.requests(
        errors=kind == Status.FAILED,
        ttft_s=_floats(r.time_to_first_token_ms for r in rows) / 1e3,
        e2e_s=_floats(r.request_latency for r in rows),
        output_tokens=_floats(r.output_tokens for r in rows),
        input_tokens=_floats(r.prompt_tokens for r in rows),
        start_s=start - zero,
        cancelled=cancelled,
        warmup=~inside & ~cancelled,
    )
    return Listed(
        requests,
        [_message(row) for row in rows],
        end - zero,
        _floats(_first(t.first_token_iteration, r.first_token_time) for r, t in pairs) - zero,
        _floats(_first(t.last_token_iteration, r.last_token_time) for r, t in pairs) - zero,
        _floats(t.targeted_start for t in times) - zero,
        _floats(_usage(row) for row in rows),
        _floats(t.token_iterations for t in times),
        kind,
        window,
        inside,
    )


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _floats(values: Iterable[float | None]) -> Floats:
    column = np.array([np.nan if value is None else value for value in values], np.float64)
    column[~np.isfinite(column)] = np.nan
    return column


def _usage(row: Row) -> float | None:
    usage = row.output_metrics
    return None if usage is None else _first(usage.total_tokens, usage.text_tokens)


def _message(row: Row) -> str:
    """The exception GuideLLM prints with its URL and advice, as class and status."""
    text = (row.info.error if row.info else None) or row.error or ""
    found = _STATUS.match(text)
    return f"{found[1]}: {found[2]}" if found else text


def _window(benchmark: Benchmark, zero: float) -> tuple[float, float] | None:
    scheduled = benchmark.scheduler_metrics
    if scheduled is None or scheduled.measure_start_time is None or scheduled.measure_end_time is None:
        return None
    return scheduled.measure_start_time - zero, scheduled.measure_end_time - zero


def _inside(start_s: Floats, end_s: Floats, window: tuple[float, float] | None) -> Bools:
    """GuideLLM's rule: what overlaps the window is measured (accumulator.py, get_within_range)."""
    if window is None:
        return np.ones(len(start_s), bool)
    ends = np.where(np.isnan(end_s), start_s, end_s)
    starts = np.where(np.isnan(start_s), ends, start_s)
    return ~((ends < window[0]) | (starts > window[1]))


# ---- what the rows say besides ---------------------------------------------------------------


def output_tokens(one: Listed) -> float | None:
    """Of completed requests that ended in the window: what a rate over the window is about."""
    rows = one.requests
    if rows.output_tokens is None:
        return None
    counted = rows.status == Status.COMPLETED
    if one.window_s is not None:
        counted &= (one.end_s >= one.window_s[0]) & (one.end_s <= one.window_s[1])
    total = float(rows.output_tokens[counted].sum())
    return None if np.isnan(total) else total


def unsuitable(one: Listed) -> dict[str, str]:
    """What these rows must not be judged by, and why."""
    rows, reasons = one.requests, {"itl": NO_GAPS}
    completed = rows.status == Status.COMPLETED
    if not completed.any():
        return reasons
    if rows.ttft_s is None:
        return reasons | dict.fromkeys(("ttft", "tpot"), NOT_STREAMING)
    if rows.output_tokens is None:
        return reasons
    several = completed & (rows.output_tokens > 1)
    if several.any() and (one.last_s[several] <= one.first_s[several]).mean() > 0.5:
        reasons["tpot"] = ONE_CHUNK
    counted = np.isnan(one.usage) & (one.chunks == rows.output_tokens)
    if counted[completed].mean() > 0.5:
        reasons["tpot"] = CHUNKS
    return reasons


def notes(one: Listed, strategy: Strategy | None) -> tuple[str, ...]:
    """The end of the stream after the last token, a late or saturated client."""
    rows = one.requests
    completed = rows.status == Status.COMPLETED
    if rows.e2e_s is None or not completed.any():
        return ()
    median_s, said = float(np.median(rows.e2e_s[completed])), []
    tail_s = (one.end_s - one.last_s)[completed]
    if np.isfinite(tail_s).any() and (typical := float(np.nanmedian(tail_s))) > _TAIL * median_s:
        said.append(
            f"E2E ends {typical:.3g} s after the last token in the median (request_latency waits for usage)"
        )
    return (*said, *_client_notes(one, strategy, median_s))


def _client_notes(one: Listed, strategy: Strategy | None, median_s: float) -> list[str]:
    """Only a rate makes a due time and a rate to keep."""
    start_s = one.requests.start_s
    if strategy is None or strategy.type_ not in ("constant", "poisson") or start_s is None:
        return []
    said, late_s = [], start_s - one.due_s
    if np.isfinite(late_s).any() and (worst := float(np.nanpercentile(late_s, 99))) > _LATE * median_s:
        said.append(
            f"the client was late: P99 from a request's due time to its start is {worst:.3g} s, "
            "and neither TTFT nor E2E contains it"
        )
    number, span_s = int(np.isfinite(start_s).sum()), float(np.nanmax(start_s))
    if number < 2 or not strategy.rate or span_s <= 0:
        return said
    slack = _SLACK + (3 / number**0.5 if strategy.type_ == "poisson" else 0.0)
    if (rate := (number - 1) / span_s) < strategy.rate * (1 - slack):
        said.append(f"{rate:.3g} req/s were sent of the {strategy.rate:g} asked for: the client is saturated")
    return said
