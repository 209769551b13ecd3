"""Percentiles that tools state: checked, and what they are about."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...model import METRICS, Aggregate, Doubt, Histogram, Status, Why
from .. import ladders
from .case import Case, Finding, richer

_TPOT_LOW = 0.7  # of (E2E - TTFT) / (output tokens - 1): a mean TPOT below counts tokens that were not there


def percentiles(case: Case) -> Iterator[Finding]:
    """Percentiles ascend and are measurements; those of evidence are over the completed requests."""
    # A formula of another meaning may give less than 0.
    redefined = {of for doubt in case.told.doubts if doubt.code is Why.DEFINITION for of in doubt.of}
    for metric, summary in case.told.stated.items():
        ladders.check(case.source, metric, summary, negative=metric in redefined)
        if isinstance(case.evidence, Histogram) and summary.mean == 0 and metric != "itl":
            yield Doubt(Why.ZERO, (metric,), f"a mean of exactly 0 is no measurement; {richer(case)}")
    if not isinstance(case.evidence, Aggregate) or not case.measured:
        return
    evidence, completed = case.evidence, case.counts.completed
    for metric, summary in evidence.summaries.items():
        ladders.check(case.source, metric, summary, evidence.rounding_s, negative=metric in redefined)
        if ladders.has_zero(metric, summary):
            why = f"a percentile of exactly 0 is no measurement; {richer(case)}"
            yield Doubt(Why.ZERO, (metric,), why)
        if metric in ("ttft", "e2e") and 0 in (summary.min, *(value for _, value in summary.percentiles)):
            why = f"the smallest {metric.upper()} is 0: a request that failed counts as completed"
            yield Doubt(Why.FAILURES_HIDDEN, ("attempted", "error_rate"), f"{why}; {richer(case)}")
        n = summary.n if completed and metric != "itl" else None  # gaps are more than requests
        if n is not None and (n > completed or (n < completed and metric in ("ttft", "e2e"))):
            why = f"{n:,} values stand behind {metric.upper()}, but {completed:,} requests completed"
            yield Doubt(Why.POPULATION, (metric,), f"{why}; {richer(case)}")
    for metric in METRICS:
        if metric not in evidence.summaries or not evidence.summaries[metric].percentiles:
            remedy = case.told.percentiles_with or richer(case)
            why = f"the file states no percentile of {metric.upper()}; {remedy}"
            yield Doubt(Why.ABSENT, (metric,), why)


def tpot_counts_tokens_once(case: Case) -> Iterator[Finding]:
    """A tool that counts tokens more than once states a TPOT below its own E2E, TTFT and output tokens."""
    mean = {metric: summary.mean for metric, summary in case.told.stated.items()}
    stated, decode = mean.get("tpot"), _decode_s(case, mean.get("ttft"), mean.get("e2e"))
    if not stated or not decode or stated >= _TPOT_LOW * decode:
        return
    if case.rows is None:
        why = (
            f"the mean TPOT is {stated / decode:.0%} of (E2E - TTFT) / (output tokens - 1) by the file's own"
            f" means: {case.title} counted tokens that were not there; use a newer version of it"
        )
        yield Doubt(Why.TOKENS_DISAGREE, ("tpot", "itl"), f"{why}; {richer(case)}")
    else:
        yield (
            f"the tool's own mean TPOT, {stated * 1e3:.3g} ms, is {stated / decode:.2g} times (E2E - TTFT) /"
            " (output tokens - 1), which is used: it counted tokens that were not there"
        )


def _decode_s(case: Case, ttft: float | None, e2e: float | None) -> float | None:
    """Decode time of a token, by the rows or by the means of TTFT and E2E."""
    rows, tokens = case.rows, case.tokens_each
    if rows is not None:
        tpot_s = np.empty(0) if rows.tpot_s is None else rows.tpot_s[rows.status == Status.COMPLETED]
        known = tpot_s[np.isfinite(tpot_s)]
        return float(known.mean()) if len(known) else None
    if ttft is None or e2e is None or tokens is None or tokens <= 1 or e2e <= ttft:
        return None
    return (e2e - ttft) / (tokens - 1)
