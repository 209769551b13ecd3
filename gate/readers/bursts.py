"""Answers whose tokens all came at once: what rows and percentiles show of how answers were streamed.

Suspicion only: it gives doubts and never changes columns or counts.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from ..model import Aggregate, Bools, Doubt, Floats, Requests, Status, Summary, Why

# An answer of several tokens came in one piece when next to none of its E2E lies after its first token
# and its tokens would have come faster than any server decodes.
AT_ONCE = 0.05
AT_ONCE_TPOT_S = 1e-3
# Decode this fast (10 000 tokens/s) was not seen token by token, however long after the first it ended.
BLIND_TPOT_S = 1e-4
# Where nothing counts the tokens: this little of E2E after the first one held no answer of several.
WITH_THE_WHOLE = 0.01
_MOST = 0.5  # of the answers: then the run did not stream

ONE_CHUNK = (
    "answers came in one piece (TTFT is about E2E): not streamed, or all tokens in the first chunk;"
    " run with streaming on"
)
_SOME = (
    "{:.1%} of the answers of several tokens came in one piece, so their TPOT is no decode time;"
    " look for a proxy, a tool-call or reasoning parser that buffers, or an overloaded client"
)


def answers_in_one_piece(rows: Requests, tail_s: Floats | None = None) -> Doubt | tuple[Doubt, Bools] | None:
    """A doubt about the run where most answers of several tokens came at once; else about those that did.

    `tail_s`: what of each E2E lies after the last token, where that is known.
    """
    tpot_s, ttft_s, e2e_s = rows.tpot_s, rows.ttft_s, rows.e2e_s
    if ttft_s is None or e2e_s is None:
        return None
    completed = rows.status == Status.COMPLETED
    if tpot_s is None:
        late = completed & (e2e_s - ttft_s <= WITH_THE_WHOLE * e2e_s)
        if not late.any() or late.sum() < _MOST * completed.sum():
            return None
        return Doubt(Why.NOT_STREAMED, ("ttft", "tpot", "itl"), ONE_CHUNK)
    several = completed & np.isfinite(tpot_s)
    if not several.any():
        return None
    decode_s = e2e_s - ttft_s
    if tail_s is not None and rows.output_tokens is not None:
        decode_s = decode_s - np.nan_to_num(tail_s)
        tpot_s = decode_s / np.where(rows.output_tokens > 1, rows.output_tokens - 1, np.nan)
    in_one = several & (tpot_s < AT_ONCE_TPOT_S) & (decode_s <= AT_ONCE * e2e_s)
    if in_one.sum() >= _MOST * several.sum():
        return Doubt(Why.NOT_STREAMED, ("ttft", "tpot", "itl"), ONE_CHUNK)
    which = in_one | (several & (tpot_s < BLIND_TPOT_S))
    number = int(which.sum())
    if not number:
        return None
    doubt = Doubt(Why.ONE_PIECE, ("tpot", "itl"), _SOME.format(number / several.sum()), number)
    return replace(doubt, requests=None) if number >= _MOST * several.sum() else (doubt, which)


def came_at_once(evidence: Aggregate, tokens: float | None = None) -> bool:
    """The same of the medians, which is what percentiles alone can show.

    `tokens`: output tokens of an answer, on average.
    """
    tpot, (ttft, e2e) = _middle(evidence, "tpot"), (_middle(evidence, metric) for metric in ("ttft", "e2e"))
    likely = min
    if (ttft is None or e2e is None) and (alike := _alike(evidence)):
        likely, (ttft, e2e) = max, alike  # far from the middle: by all that is stated
    if not ttft:
        return False
    tpot = tpot or None  # 0 is no measurement: of answers of one token, or in one chunk
    if tpot is not None and tpot < BLIND_TPOT_S:
        return True
    if e2e is None:
        return False
    if tpot is None and tokens is None:
        return e2e - ttft <= WITH_THE_WHOLE * e2e
    spans = [tpot] if tpot is not None else []
    if tokens is not None and tokens >= 2:
        spans.append((e2e - ttft) / (tokens - 1))
    return bool(spans) and likely(spans) < AT_ONCE_TPOT_S and ttft >= (1 - AT_ONCE) * e2e


def nothing_after_the_first(evidence: Aggregate) -> bool:
    """Whether there is a TTFT and no other time to compare it with; 0 is none."""
    ttft, *others = (_middle(evidence, metric) for metric in ("ttft", "tpot", "itl", "e2e"))
    return bool(ttft) and not any(others)


def _alike(evidence: Aggregate) -> tuple[float, float] | None:
    """TTFT and E2E at the percentile of both that is nearest to the median."""
    ttft, e2e = (dict(evidence.summaries.get(metric, Summary()).percentiles) for metric in ("ttft", "e2e"))
    nearest = min(ttft.keys() & e2e.keys(), key=lambda percent: abs(percent - 50), default=None)
    return None if nearest is None else (ttft[nearest], e2e[nearest])


def _middle(evidence: Aggregate, metric: str) -> float | None:
    """The median, between the percentiles around it where it is not stated; else the mean."""
    summary = evidence.summaries.get(metric)
    if summary is None:
        return None
    percents = [percent for percent, _ in summary.percentiles]
    if percents and percents[0] <= 50 <= percents[-1]:
        return float(np.interp(50, percents, [value for _, value in summary.percentiles]))
    return summary.mean
