"""What a run holds and what it can prove, without a policy."""

from __future__ import annotations

from collections.abc import Sequence

from ... import units
from ...model import METRICS, REQUEST_METRICS, Aggregate, Histogram, Inspection, Policy, Requests, Run
from ..judge.counting import column_of
from ..prepare import Prepared, prepare
from .summary import run_report

_NO_POLICY = Policy("", "", "", ())


def inspect(runs: Sequence[Run]) -> tuple[Inspection, ...]:
    """Each run with its metrics under our definition and the tool's, and what can be judged from it."""
    found = []
    for run in runs:
        one = prepare(run, _NO_POLICY)
        judged, unjudged = _abilities(one)
        report = run_report(one, _NO_POLICY, True)
        found.append(Inspection(report, judged, unjudged, run.definitions, run.tool_reported))
    return tuple(found)


def _abilities(one: Prepared) -> tuple[dict[str, str], dict[str, str]]:
    judged: dict[str, str] = {}
    unjudged = dict(one.run.doubted)
    for metric in METRICS:
        if metric not in unjudged:
            how, known = _metric(one, metric)
            (judged if known else unjudged)[metric] = how
    blind = [metric for metric in REQUEST_METRICS if metric in unjudged]
    if len(blind) == 3 or one.counts.attempted == 0:
        unjudged["goodput"] = "no bound could be judged" if blind else "no request was attempted"
    elif one.requests is None:
        judged["goodput"] = "only by its bounds: the percentiles are of one metric at a time"
    else:
        without = f", without bounds on {' and '.join(name.upper() for name in blind)}" if blind else ""
        judged["goodput"] = f"joint, request by request{without}"
    if "error_rate" not in unjudged:
        judged["error_rate"] = f"{one.counts.failed} of {one.counts.attempted} failed"
    return judged, unjudged


def _metric(one: Prepared, metric: str) -> tuple[str, bool]:
    """How a metric can be judged and True, or why it cannot be and False."""
    rows = one.evidence
    if isinstance(rows, Requests):
        column = rows.gaps if metric == "itl" else column_of(rows, metric)
        known = column is not None
        return "any percentile" if known else f"the file has no {metric.upper()}", known
    if isinstance(rows, Histogram):
        buckets = rows.buckets.get(metric)
        if buckets is None:
            return f"there is no histogram of {metric.upper()}", False
        edges = ", ".join(units.show(float(edge), units.SECONDS) for edge in buckets.edges_s if edge < 1e9)
        return f"any percentile, at a bound on an edge: {edges}", True
    return _stated(rows, metric)


def _stated(evidence: Aggregate, metric: str) -> tuple[str, bool]:
    summary = evidence.summaries.get(metric)
    if summary is None or not summary.percentiles:
        return f"no {metric.upper()} percentile is stated", False
    if len(summary.percentiles) > 20:
        return f"any percentile: {len(summary.percentiles)} are stated", True
    return (
        f"by its stated percentiles: {', '.join(f'P{percent:g}' for percent, _ in summary.percentiles)}",
        True,
    )
