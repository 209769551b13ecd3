"""LoadGen's trace: each sample's E2E and TTFT. It is not JSON (it doubles quotes): read by line."""

from __future__ import annotations

import re
from collections import defaultdict

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...model import Floats, Requests
from .. import tables
from ..source import Source
from .log import ONE_RUN, WHOLE

_EVENT = re.compile(rb'\{"name":"(Sample|Token|Token_Latency)",[^\n]*?"ph":\s*"[bC]"[^\n]*')
_SAMPLE = re.compile(
    rb'"ts":(\d{1,15})\.(\d{3}),"args":\{"sample_seq":(\d{1,15}),"query_seq":\d+,"sample_idx":\d+,'
    rb'"issue_start_ns":(-?\d{1,18}),"complete_ns":(-?\d{1,18})\}\}'
)
_FIRST = re.compile(
    rb'"ts":(\d{1,15})\.(\d{3}),"args":\{ ?"issue_delay":(-?\d{1,18}),"issue_to_done":(-?\d{1,18})\}\}'
)
_END = b'{"name":"LastTrace"}'
_TIES = "{} first tokens have the scheduled time and issue delay of another: paired in the order of the log"


class Trace(msgspec.Struct, frozen=True, eq=False):
    """The samples in the order LoadGen issued them; times in ns since the test began."""

    seq: list[int]
    scheduled_ns: NDArray[np.int64]
    complete_ns: NDArray[np.int64]  # after the schedule
    ttft_ns: Floats | None  # after the schedule; NaN where none was logged
    notes: tuple[str, ...]


class _Answer(msgspec.Struct):
    seq_id: int
    token_count: int | None = None


def read(source: Source) -> Trace:
    """The samples. Raises InputError when the trace is cut short, empty or an event is malformed."""
    data = source.data
    if data.rfind(_END) < 0:
        raise source.fail("the trace ends in the middle: it has no LastTrace", hint=WHOLE)
    samples: dict[int, tuple[int, int, int]] = {}  # seq -> scheduled, issue delay, complete
    by_time: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # Server: no sample id
    by_seq: dict[int, int] = {}  # SingleStream and MultiStream
    for event in _EVENT.finditer(data):
        name, line = event[1], event[0]
        found = (_FIRST if name == b"Token_Latency" else _SAMPLE).search(line)
        if found is None:
            number = data[: event.start()].count(b"\n") + 1
            raise source.fail(f"the {name.decode()} event is malformed", f"line {number}", WHOLE)
        at = int(found[1] + found[2])  # microseconds with three decimals: ns
        if name == b"Token_Latency":
            by_time[at, int(found[3])].append(int(found[3]) + int(found[4]))
        elif name == b"Token":
            by_seq[int(found[3])] = int(found[5])
        elif int(found[3]) in samples:
            raise source.fail(f"contradicts itself: sample {int(found[3])} completes twice", hint=WHOLE)
        else:
            samples[int(found[3])] = (at, int(found[4]), int(found[5]))
    if not samples:
        raise source.fail("holds no completed sample", hint="run the benchmark again")
    order, ttft_ns = sorted(samples), np.full(len(samples), np.nan)
    tied = sum(len(values) for values in by_time.values() if len(values) > 1)
    for place, seq in enumerate(order):
        waiting = by_time.get(samples[seq][:2])
        ttft_ns[place] = waiting.pop(0) if waiting else by_seq.pop(seq, np.nan)
    if left := len(by_seq) + sum(map(len, by_time.values())):
        why = f"contradicts itself: {left} first tokens belong to no completed sample"
        raise source.fail(why, hint=WHOLE)
    scheduled_ns, _, complete_ns = np.array([samples[seq] for seq in order], np.int64).T
    notes = (_TIES.format(tied),) if tied else ()
    return Trace(order, scheduled_ns, complete_ns, None if np.isnan(ttft_ns).all() else ttft_ns, notes)


def tokens(source: Source, trace: Trace) -> tuple[Floats, str]:
    """Output tokens of every sample by the accuracy log, NaN where it has none, and why some are missing.

    Raises InputError when the log is broken or of other samples.
    """
    counted = {row.seq_id: row.token_count for row in source.array(_Answer)}
    strangers = len(counted.keys() - set(trace.seq))
    if strangers:
        raise source.fail(f"contradicts the trace: {strangers} of its samples are not there", hint=ONE_RUN)
    column = tables.column(counted.get(seq) for seq in trace.seq)
    if (column < 0).any() or (column > 1e12).any():
        raise source.fail("expected a count of tokens", "token_count", WHOLE)
    missing = int(np.isnan(column).sum())
    if not counted:
        return column, "mlperf_log_accuracy.json is empty"
    why = f"mlperf_log_accuracy.json has no token_count of {missing} of {len(trace.seq)} samples"
    return column, why if missing else ""


def columns(trace: Trace, output_tokens: Floats, *, whole: bool) -> Requests:
    """The samples as rows, by the shared failure rule; where not all are counted, only who made no token."""
    return tables.requests(
        errors=np.zeros(len(trace.seq), dtype=np.bool_) if whole else output_tokens == 0,
        ttft_s=None if trace.ttft_ns is None else trace.ttft_ns / 1e9,
        e2e_s=trace.complete_ns / 1e9,
        output_tokens=output_tokens if whole else None,
        start_s=trace.scheduled_ns / 1e9,
        order="submission",
    )
