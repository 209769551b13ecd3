"""Output tokens: that there are some, that two counts of them agree, that no answer was cut."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...model import Bools, Doubt, Floats, Histogram, Requests, Status, Why
from .. import ladders, tables
from ..told import Told
from .case import AGAIN, EVERY, Case, Finding, Marked

_ALIKE = 0.8  # share of the other answers whose chunks or text must match their tokens
_CUT = 0.5  # of what the tokens of an answer would have brought
_CUT_LEAST = 3.0  # tokens that must be missing
_LONG = 16  # tokens: an answer this long has as many chunks by no chance
_FRAMES = 2  # chunks without a token: of the role, of the end
_SOME = 0.1  # of the answers

ONE_TOKEN = "every response had one token, so there is no time between tokens; ask for longer outputs"
NO_TOKENS = (
    "{}; if the endpoint makes none (embeddings, rerank), say so in the policy:"
    " workload: {{output_tokens: none}}"
)


def some_tokens(case: Case) -> Iterator[Finding]:
    """A completed request made at least one token, or the policy says that the endpoint makes none.

    Rows without one failed already (tables.requests); a time to a first token shows that there was one.
    """
    completed, tokens = case.counts.completed, case.tokens
    if case.rows is not None and case.rows.tokenless is not None and not completed:
        yield NO_TOKENS.format("no request has an output token, so that each counts as failed")
    if not completed:
        return
    if tokens is not None and case.rows is None and tokens < completed:
        what = f"{tokens:,.0f} output tokens of {completed:,} completed requests: some made none"
        yield Doubt(Why.NO_TOKENS, EVERY, NO_TOKENS.format(what if tokens else "no output token was made"))
    elif case.rows is None and ladders.least(case.told.lengths) == 0:
        what = "the shortest answer has no output token: some of the completed requests made none"
        yield Doubt(Why.NO_TOKENS, ("attempted", "error_rate"), NO_TOKENS.format(what))
    elif tokens is None and not _token_seen(case):
        what = "the file shows no sign of an output token: neither a count of them nor a time to the first"
        yield Doubt(Why.NO_TOKENS, EVERY, NO_TOKENS.format(what))


def _token_seen(case: Case) -> bool:
    evidence = case.evidence
    if isinstance(evidence, Requests):
        known = evidence.ttft_s is not None or evidence.output_tokens is not None
        signs = (case.told.pieces, case.told.characters)
        return known or any(sign is not None and bool((sign > 0).any()) for sign in signs)
    if isinstance(evidence, Histogram):
        seen = {metric for metric, buckets in evidence.buckets.items() if buckets.counts.any()}
    else:
        seen = {metric for metric, summary in evidence.summaries.items() if summary.percentiles}
    return not seen.isdisjoint(("ttft", "tpot", "itl"))


def total_is_right(told: Told) -> bool:
    """Whether the reader says that the counts of its rows are no counts, and the total is."""
    return told.output_tokens is not None and any(d.code is Why.TOKENS_DISAGREE for d in told.doubts)


def tokens_agree(case: Case) -> Iterator[Finding]:
    """Two counts of the same tokens are within 5 % of one another."""
    rows, told = case.rows, case.told
    if rows is None or total_is_right(told):
        return
    if told.recount is not None:
        yield from tables.token_note(rows, *told.recount)
    total, stated = tables.output_total(rows), told.output_tokens
    if not total or not stated or abs(total - stated) <= tables.MISMATCH * stated:
        return
    why = f"output tokens: the rows sum to {total:.0f}, the file's total says {stated:.0f}"
    yield Doubt(Why.TOKENS_DISAGREE, ("tpot", "throughput"), f"{why}; {AGAIN}")
    yield why


def nothing_cut(case: Case) -> Iterator[Finding]:
    """Answers that stop short of the tokens they are credited with, where the others' match theirs.

    Characters are looked at where chunks settle nothing: those of a token vary more.
    """
    rows = case.rows
    if rows is None or rows.output_tokens is None:
        return
    other = case.told.recount
    for what, amount in (
        ("chunks", case.told.pieces),
        ("characters", case.told.characters),
        (f"tokens by {other[2]}" if other else "", other[0] if other else None),
    ):
        cut = None if amount is None else _cut(rows, amount)
        if cut is None:
            continue
        if number := int(cut.sum()):
            why = (
                f"{number:,} answers stop short: their {what} are less than half of what as many output"
                " tokens bring in the other answers, as after an error inside the stream; look into the"
                " server's log"
            )
            of = ("tpot", "e2e", "goodput", "error_rate", "throughput")
            yield Marked(Doubt(Why.CUT_ROWS, of, why, number), "failed", cut)
        return


def _cut(rows: Requests, amount: Floats) -> Bools | None:
    """Rows whose `amount` is far below that of their tokens; None where most rows' varies as much.

    The others are those that are not short, so that cutting more answers hides none of them.
    """
    assert rows.output_tokens is not None
    tokens = rows.output_tokens
    known = (rows.status == Status.COMPLETED) & np.isfinite(amount) & (tokens > 1)
    if not known.any():
        return None
    share = np.where(known, amount, 0.0) / np.where(known, tokens, 1.0)
    typical = float(np.median(share[known]))
    equal = known & (tokens >= _LONG) & (np.abs(tokens - amount) <= _FRAMES)
    if equal.sum() >= _SOME * known.sum():  # this server sends each token by itself
        typical = max(typical, 1.0)
    if typical <= 0:
        return None
    short: Bools = known & (share < _CUT * typical) & (tokens - amount / typical >= _CUT_LEAST)
    alike = known & ~short & (np.abs(share - typical) <= (1 - _CUT) * typical)
    return short if alike.sum() >= _ALIKE * (known & ~short).sum() else None


def one_token(case: Case) -> Iterator[Finding]:
    """Answers of one token have no time between tokens."""
    if case.rows is None and case.counts.completed and case.tokens == case.counts.completed:
        yield Doubt(Why.ONE_TOKEN, ("tpot", "itl"), ONE_TOKEN)
