"""LLMeter's own statistics: shown beside rows, evidence where there are none."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...model import Aggregate, Counts, Run, Summary, ToolReported
from .._source import Doc, Source
from . import DEFINITIONS, TITLE, files

METHOD = "statistics.quantiles, exclusive (P50: median), partial values of failed requests included"
_FIELDS: Mapping[str, str] = {
    "ttft": "time_to_first_token",
    "e2e": "time_to_last_token",
    "tpot": "time_per_output_token",
}
_ROWS = "the responses.jsonl that LLMeter writes beside it"
_PARTIAL = (
    f"LLMeter's percentiles contain what {{}} failed requests had measured before they failed; keep {_ROWS}"
)
RETRIED = (
    "the SDK may have retried each request up to {} times: failed attempts are not in the file; run with"
    " max_retries=0 on the endpoint"
)


def read(source: Source) -> Run:
    """The run of a stats.json alone. Raises InputError when it states no counts or contradicts itself."""
    doc = source.doc
    counts = _counts(doc)
    facts = files.facts(source, doc)
    summaries = {metric: _summary(doc, metric, counts) for metric in _FIELDS}
    unsuitable = {"itl": files.NO_GAPS}
    for metric, summary in summaries.items():
        if not summary.percentiles:
            unsuitable[metric] = f"the statistics hold no {metric.upper()}: not streamed, or none completed"
        elif counts.failed and metric != "tpot":
            unsuitable[metric] = _PARTIAL.format(counts.failed)
        elif summary.percentiles[0][1] <= 0:
            unsuitable[metric] = f"a median {metric.upper()} of 0 or less is no measurement; keep {_ROWS}"
    if facts.max_retries:
        unsuitable["error_rate"] = RETRIED.format(facts.max_retries)
    sound = {m: s for m, s in summaries.items() if m not in unsuitable}
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="llmeter statistics",
        tool=TITLE,
        evidence=Aggregate(sound, method="exclusive", settled_by=_ROWS),
        counts=counts,
        model=facts.model,
        load=facts.load,
        duration_s=facts.duration_s,
        date=facts.date,
        total_output_tokens=doc.number("total_output_tokens"),
        definitions={**DEFINITIONS, "ttft": "time_to_first_token"},
        tool_reported=reported(doc),
        unsuitable=unsuitable,
    )


def _counts(doc: Doc) -> Counts:
    attempted, failed = doc.count("total_requests"), doc.count("failed_requests")
    if attempted is None or failed is None:
        why = "does not say how many requests were sent and failed"
        raise doc.source.fail(why, doc.at, "pass the stats.json that LLMeter wrote")
    if failed > attempted:
        why = f"contradicts itself: {failed} of {attempted} requests failed"
        raise doc.source.fail(why, doc.at, "pass the stats.json that LLMeter wrote")
    return Counts(attempted, attempted - failed, failed)


def _summary(doc: Doc, metric: str, counts: Counts) -> Summary:
    # How many answers had two tokens or more is not stated, so nothing says how many TPOT values there are.
    n = counts.completed if metric != "tpot" else None
    return Summary(percentiles(doc, metric), doc.number(f"{_FIELDS[metric]}-average"), n=n)


def percentiles(doc: Doc, metric: str) -> tuple[tuple[float, float], ...]:
    """Percent and seconds, ascending. Raises InputError when they fall."""
    named = [re.fullmatch(rf"{_FIELDS[metric]}-p(\d+)", key) for key in doc.fields]
    found = sorted(
        (float(name[1]), value)
        for name in named
        if name is not None and 0 < int(name[1]) < 100 and (value := doc.number(name[0])) is not None
    )
    values = [value for _, value in found]
    if values != sorted(values):
        why = f"contradicts itself: a higher percentile of {_FIELDS[metric]} is lower"
        raise doc.source.fail(why, doc.at, "pass the stats.json that LLMeter wrote")
    return tuple(found)


def reported(doc: Doc) -> dict[str, ToolReported]:
    """LLMeter's own percentiles, as it states them."""
    return {
        metric: ToolReported(points, METHOD, doc.number(f"{_FIELDS[metric]}-average"))
        for metric in _FIELDS
        if (points := percentiles(doc, metric))
    }
