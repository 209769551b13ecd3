"""Percentiles that tools state: checked, and what they are about."""

from __future__ import annotations

from collections.abc import Iterator

from ...model import METRICS, Aggregate, Doubt, Why
from .. import ladders
from .case import Case, Finding, richer


def percentiles(case: Case) -> Iterator[Finding]:
    """Percentiles ascend and are measurements; those of evidence are over the completed requests."""
    # A formula of another meaning may give less than 0.
    redefined = {of for doubt in case.told.doubts if doubt.code is Why.DEFINITION for of in doubt.of}
    for metric, summary in case.told.stated.items():
        ladders.check(case.source, metric, summary, negative=metric in redefined)
    if not isinstance(case.evidence, Aggregate) or not case.measured:
        return
    evidence, completed = case.evidence, case.counts.completed
    for metric, summary in evidence.summaries.items():
        ladders.check(case.source, metric, summary, evidence.rounding_s, negative=metric in redefined)
        if ladders.has_zero(metric, summary):
            why = f"a percentile of exactly 0 is no measurement; {richer(case)}"
            yield Doubt(Why.ZERO, (metric,), why)
        elif metric in ("ttft", "e2e") and summary.min == 0:
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
