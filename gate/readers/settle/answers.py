"""How answers came: token by token, or in one piece."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...model import Aggregate, Doubt, Histogram, Requests, Status, Why
from ..bursts import ONE_CHUNK, answers_in_one_piece, came_at_once, nothing_after_the_first
from .case import Case, Finding, Marked

_TAIL = 0.02  # of the median E2E: a longer wait after the last token is worth a note
STREAMED = ("ttft", "tpot", "itl")
NO_FIRST_TOKEN = (
    "no request has a first token: the run did not stream, or its answers ended before their first content"
    " (a reasoning answer that was cut short); {}"
)
NO_END = (
    "there is a TTFT and no time after it, such as E2E: that of a whole answer, as without streaming, cannot"
    " be told from that of a first token; measure the end of each answer too"
)
NO_STREAM = "the run did not stream, so that TTFT is E2E and there is no time between tokens; {}"
NO_GAPS = (
    "{} records no gaps between chunks; measure ITL with a tool that writes them,"
    " such as vllm bench serve --save-detailed"
)


def streamed(case: Case) -> Iterator[Finding]:
    """Whether answers came token by token; what came in one piece has no TTFT and no TPOT."""
    told, evidence = case.told, case.evidence
    if not case.measured:
        return
    remedy = told.stream_with or "run with streaming on"
    if told.streamed is False:
        yield Doubt(Why.NOT_STREAMED, STREAMED, NO_STREAM.format(remedy))
    elif isinstance(evidence, Requests):
        if evidence.ttft_s is None:
            yield Doubt(Why.NOT_STREAMED, STREAMED, NO_FIRST_TOKEN.format(remedy))
        elif evidence.e2e_s is None:
            yield Doubt(Why.ABSENT, STREAMED, NO_END)
        yield from _in_one_piece(case, evidence)
    elif isinstance(evidence, Histogram):
        if came_at_once(Aggregate(told.stated), case.tokens_each):
            yield Doubt(Why.NOT_STREAMED, STREAMED, ONE_CHUNK)
    elif isinstance(evidence, Aggregate):
        if "ttft" not in evidence.summaries and told.stream_with:
            yield Doubt(Why.NOT_STREAMED, STREAMED, NO_FIRST_TOKEN.format(remedy))
        if came_at_once(evidence, case.tokens_each):
            yield Doubt(Why.NOT_STREAMED, STREAMED, ONE_CHUNK)
        elif nothing_after_the_first(Aggregate({**told.stated, **evidence.summaries})):
            yield Doubt(Why.ABSENT, STREAMED, NO_END)


def _in_one_piece(case: Case, rows: Requests) -> Iterator[Finding]:
    found = answers_in_one_piece(rows, case.told.tail_s)
    if isinstance(found, Doubt):
        yield found
    elif found is not None:
        doubt, which = found
        yield Marked(doubt, "tpot", which)
        yield f"answers of several tokens that came in one piece, with a TPOT of about 0: {doubt.requests}"


def tail(case: Case) -> Iterator[Finding]:
    """Where a tool's E2E ends after the last token."""
    rows, tail_s = case.rows, case.told.tail_s
    if rows is None or rows.e2e_s is None or tail_s is None:
        return
    known = (rows.status == Status.COMPLETED) & np.isfinite(tail_s)
    if not known.any():
        return
    typical_s = float(np.median(tail_s[known]))
    if typical_s > _TAIL * float(np.median(rows.e2e_s[known])):
        yield (
            f"E2E ends {typical_s:.3g} s after the last token in the median: {case.title} waits for the end"
            " of the stream, or counts the tokens first"
        )


def gaps(case: Case) -> Iterator[Finding]:
    """ITL needs the gaps, or percentiles or buckets of them, where anything completed."""
    evidence = case.evidence
    if isinstance(evidence, Requests):
        known = case.told.has_gaps or evidence.gaps is not None
    else:
        known = "itl" in (evidence.buckets if isinstance(evidence, Histogram) else evidence.summaries)
    if not known and case.measured:
        yield Doubt(Why.NO_GAPS, ("itl",), NO_GAPS.format(case.title))
