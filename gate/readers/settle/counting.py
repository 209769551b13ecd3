"""How many requests there were, and what the tool itself says of its run."""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Doubt, Why
from .. import telltales
from ..source import Source
from .case import AGAIN, EVERY, Case, Finding, richer


def counts_agree(case: Case) -> Iterator[Finding]:
    """The tool's counts are those of its rows; without rows they are stated and add up."""
    rows, told, mine = case.rows, case.told, case.counts
    if rows is None:
        if told.counts is None:
            why = f"the file does not say how many requests completed and failed; {richer(case)}"
            yield Doubt(Why.COUNTS_UNKNOWN, ("attempted", "error_rate"), why)
        elif (
            mine.completed + mine.failed != mine.attempted
            or min(mine.attempted, mine.completed, mine.failed) < 0
        ):
            why = (
                f"contradicts itself: {mine.completed} completed and {mine.failed} failed are not"
                f" {mine.attempted}"
            )
            raise case.source.fail(why, hint=AGAIN)
        return
    stated = told.counted
    if stated is None or stated.completed is stated.failed is stated.attempted is None:
        if told.counted_with:
            why = f"the tool's own count of its requests is missing: rows may be lost; {told.counted_with}"
            yield Doubt(Why.COUNTS_UNKNOWN, ("attempted",), why)
        return
    both = None
    if stated.completed is not None and stated.failed is not None:
        both = stated.completed + stated.failed
    total = stated.attempted if stated.attempted is not None else both
    if both is not None and both != total:
        why = f"contradicts itself: {stated.completed} completed and {stated.failed} failed are not {total}"
        raise case.source.fail(why, stated.where, AGAIN)
    done, rows_in_all = stated.completed, mine.attempted + mine.cancelled + mine.warmup
    if total is not None and total not in (mine.attempted, rows_in_all):
        why = f"contradicts itself: it counts {total} requests, and {mine.attempted} have a row"
        raise case.source.fail(why, stated.where, AGAIN)
    if done is not None and not mine.completed <= done <= rows_in_all:
        why = (
            f"contradicts itself: it counts {done} completed requests, and of its {rows_in_all} rows"
            f" {mine.completed} are complete"
        )
        raise case.source.fail(why, stated.where, AGAIN)
    if done is not None and mine.completed + mine.warmup < done:
        yield f"the tool counts {stated.completed} completed, slo-gate {mine.completed}"
    elif stated.completed is None and stated.failed is not None and stated.failed != mine.failed:
        yield f"the tool counts {stated.failed} failures, slo-gate {mine.failed}"


def duration(case: Case) -> Iterator[Finding]:
    """No run takes less than no time."""
    duration_s = case.told.duration_s
    if duration_s is not None and duration_s < 0:
        raise case.source.fail(f"contradicts itself: a duration of {duration_s:g} s", hint=AGAIN)
    yield from ()


def nothing_lost(case: Case) -> Iterator[Finding]:
    """Requests that were asked for and are not there may have failed."""
    asked, counts = case.told.asked, case.counts
    here = counts.attempted + counts.cancelled
    if not asked and case.told.asked_with and case.measured:
        why = (
            "how many requests were to be sent is not stated: some may have failed without a trace;"
            f" {case.told.asked_with}"
        )
        yield Doubt(Why.COUNTS_UNKNOWN, ("attempted",), why)
    if asked is None or asked <= here:
        return
    missing = asked - here
    why = (
        f"{asked:,} requests were asked for and {here:,} are in the file: the other {missing:,} may have"
        f" failed; {AGAIN}"
    )
    yield Doubt(Why.LOST_ROWS, ("attempted",), why, requests=missing)


def failures_hidden(case: Case) -> Iterator[Finding]:
    """A failure is a miss of every objective: where some may be in no record, nothing passes without them."""
    why, at_most = case.told.hides_failures, case.told.hidden_at_most
    if not why or not case.measured:
        return
    yield Doubt(Why.FAILURES_HIDDEN, ("error_rate", "attempted"), why, at_most)
    yield why


def retried(case: Case) -> Iterator[Finding]:
    """A failed attempt that was repeated inside a request is in no error rate; unknown is not none."""
    retries = case.told.retries
    if retries is None:
        why = (
            "nothing says whether the client repeated failed requests: failed attempts may be missing;"
            f" {case.told.retries_with}"
        )
        yield Doubt(Why.RETRIES_UNKNOWN, ("error_rate",), why)
    elif retries:
        why = (
            f"the client may have repeated each request up to {retries} times: failed attempts are not in the"
            " file; run with retries off"
        )
        yield Doubt(Why.RETRIED, ("error_rate",), why)
        yield f"failed attempts and the pauses after them (up to {retries} retries) are inside TTFT and E2E"


def tool_verdict(case: Case) -> Iterator[Finding]:
    """A tool's own word that its run is incomplete, cancelled or invalid is evidence against it."""
    source = case.source
    doc = source.doc if isinstance(source, Source) and source.shape == "object" else None
    if because := case.told.invalid or (telltales.of_run(doc) if doc is not None else ""):
        why = f"{case.title} itself calls the run invalid ({because}); run it again"
        yield Doubt(Why.TOOL_SAYS_INVALID, EVERY, why)
