"""How answers came: token by token, or in one piece."""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Aggregate, Doubt, Histogram, Requests, Why
from ..bursts import ONE_CHUNK, answers_in_one_piece, came_at_once
from .case import Case, Finding, Marked

STREAMED = ("ttft", "tpot", "itl")
NO_FIRST_TOKEN = (
    "no request has a first token: the run did not stream, or its answers ended before their first content"
    " (a reasoning answer that was cut short); {}"
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
        yield from _in_one_piece(evidence)
    elif isinstance(evidence, Aggregate):
        if "ttft" not in evidence.summaries and told.stream_with:
            yield Doubt(Why.NOT_STREAMED, STREAMED, NO_FIRST_TOKEN.format(remedy))
        if came_at_once(evidence, case.tokens_each):
            yield Doubt(Why.NOT_STREAMED, STREAMED, ONE_CHUNK)


def _in_one_piece(rows: Requests) -> Iterator[Finding]:
    found = answers_in_one_piece(rows)
    if isinstance(found, Doubt):
        yield found
    elif found is not None:
        doubt, which = found
        yield Marked(doubt, "tpot", which)
        yield f"answers of several tokens that came in one piece, with a TPOT of about 0: {doubt.requests}"


def gaps(case: Case) -> Iterator[Finding]:
    """ITL needs the gaps, or percentiles or buckets of them, where anything completed."""
    evidence = case.evidence
    if isinstance(evidence, Requests):
        known = case.told.has_gaps or evidence.gaps is not None
    else:
        known = "itl" in (evidence.buckets if isinstance(evidence, Histogram) else evidence.summaries)
    if not known and case.measured:
        yield Doubt(Why.NO_GAPS, ("itl",), NO_GAPS.format(case.title))
