"""What the client did: the pace it kept, how late it was, and what the tool calls good."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...model import METRICS, Aggregate, Doubt, Status, Summary, Why
from .case import Case, Finding

_SLOW = 0.9  # of the requested rate
_LATE = 0.1  # of the median E2E: a client that starts its requests later than this is worth a note
_LONG_S = 60.0  # from here on the last responses do not decide how long a run took


def pace(case: Case) -> Iterator[Finding]:
    """An open loop that did not keep its rate, and a client that was late."""
    load = case.told.load
    if load is not None and load.request_rate and not load.production:
        yield from _rate_kept(case, load.request_rate)
    late_s = case.told.late_p99_s
    if late_s is not None and (typical_s := _median_e2e_s(case)) and late_s > _LATE * typical_s:
        yield f"the client was late: P99 from a request's due time to its start is {late_s:.3g} s"


def _rate_kept(case: Case, rate: float) -> Iterator[Finding]:
    rows, duration_s, counts = case.rows, case.told.duration_s, case.counts
    starts = rows.start_s if rows is not None else None
    sent = case.told.sent_rate
    if sent is None and starts is not None and len(starts) > 1 and np.isfinite(starts).all():
        span_s = float(np.ptp(starts))
        sent = (len(starts) - 1) / span_s if span_s else rate
    if sent is not None:
        if sent < _SLOW * rate:
            slow = (
                f"requests were sent at {sent:.3g} req/s, {rate:g} were asked for: the client or its cap was"
                " the limit, so the server did not see the stated load"
            )
            yield slow
            if starts is None:  # by starts it is looked at again where a load is declared
                remedy = "raise its cap, or give it more workers"
                yield Doubt(Why.EASIER_LOAD, (*METRICS, "goodput", "error_rate"), f"{slow}; {remedy}")
        return
    if not duration_s or counts.attempted < 2:
        return
    wanted_s = counts.attempted / rate
    if duration_s > 1.25 * wanted_s and wanted_s >= _LONG_S:
        yield (
            f"{counts.completed / duration_s:.3g} req/s were completed of the {rate:g} req/s asked for: the"
            " server or the client did not keep up, so latencies grow with the length of the run"
        )
        return
    longest_s = _longest_e2e_s(case)
    sending_s = duration_s - longest_s  # the last request began no earlier than this
    slack = 1 + max(0.1, 3 / counts.attempted**0.5)  # arrivals are random
    if longest_s and sending_s > slack * wanted_s:
        sent = counts.attempted / sending_s
        yield f"the client sent at most {sent:.3g} req/s of the {rate:g} req/s asked for: it was saturated"


def _median_e2e_s(case: Case) -> float | None:
    rows = case.rows
    if rows is not None:
        done = rows.status == Status.COMPLETED
        return float(np.median(rows.e2e_s[done])) if rows.e2e_s is not None and done.any() else None
    if not isinstance(case.evidence, Aggregate):
        return None
    return dict(case.evidence.summaries.get("e2e", Summary()).percentiles).get(50.0)


def _longest_e2e_s(case: Case) -> float:
    if case.rows is not None:
        e2e_s = case.rows.e2e_s
        return float(np.nanmax(e2e_s)) if e2e_s is not None and np.isfinite(e2e_s).any() else 0.0
    summary = case.evidence.summaries.get("e2e") if isinstance(case.evidence, Aggregate) else None
    if summary is None:
        return 0.0
    return summary.max or max((value for _, value in summary.percentiles), default=0.0)


def tool_goodput(case: Case) -> Iterator[Finding]:
    """What the tool calls goodput, by its own bounds."""
    if case.told.goodput:
        yield (
            f"the tool says goodput {case.told.goodput}; slo-gate counts by the policy's bounds over"
            " attempted requests"
        )
