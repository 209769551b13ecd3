"""A report of llm-d as a run: its latencies in seconds, and what its converter made of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ...model import METRICS, Aggregate, Counts, Doubt, Summary, Why
from .. import stages
from ..ladders import ladder
from ..source import Source
from ..tables import MISMATCH
from ..told import Told
from .report import WHOLE, Report, Requests, Stat, read

_BLOCKS = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "itl": "inter_token_latency",
    "e2e": "request_latency",
}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_UNIT = re.compile(r"(s|ms|us|ns)(?:/token)?")

_OWN = "the result file of {} that the report was made from"
_TPOT_GUIDELLM = (
    "GuideLLM's time_per_output_token contains the TTFT (latency / tokens), and its inter_token_latency is"
    " weighted by tokens: give GuideLLM's own file"
)
_ITL_MEANS = "{} reports one mean a request, not gaps between chunks: give the tool's own per-request file"
_LOST = (
    "llm-d's v0.1 report of a vLLM benchmark counts completed requests only: how many failed is not in it;"
    " give vLLM's own file, or a v0.2 report"
)
_KINDS = "llm-d's report of AIPerf counts kinds of failure ({}), not failed requests: give AIPerf's own rows"
_UNNAMED = (
    "the report does not name the tool it was converted from, which decides what its counts and its TPOT"
    " mean; keep its `scenario`, or give the tool's own file"
)
_UNSAID = "the report does not say how many requests failed; give the tool's own file"
_ONE_MEAN = ("guidellm", "aiperf")  # their inter_token_latency has one value a request
_NEVER_REPEAT = ("aiperf", "guidellm", "inferencemax", "vllm-benchmark")  # a request that failed


def decode(source: Source) -> Told:
    """What the report says. Raises InputError when it is broken or contradicts itself."""
    report = read(source)
    requests = report.measured.requests or Requests()
    counts = _counts(source, report.tool, requests)
    blocks = (report.measured.latency or {}) if counts.completed else {}
    latencies = {
        metric: _summary(source, stat, block)
        for metric, block in _BLOCKS.items()
        if (stat := blocks.get(block)) is not None
    }
    _check_order(source, latencies)
    length = requests.output_length or Stat()
    method, own = (
        "inverted_cdf" if report.tool == "guidellm" else "linear",
        _OWN.format(report.tool or "the tool"),
    )
    known = {metric: summary for metric, summary in latencies.items() if summary.percentiles}
    return Told(
        format=f"llm-d report {report.version}",
        tool=report.tool,
        evidence=Aggregate(known, method, settled_by=own),
        retries=0 if report.tool in _NEVER_REPEAT else stages.retries(report.settings),
        retries_with=f"give {own}",
        counts=counts,
        asked=stages.asked(report.stage),
        asked_with=stages.asked_with(report.settings or {}) if report.tool == "inference-perf" else "",
        lengths=ladder(length.points, mean=length.mean, low=length.min),
        stream_with="run the tool with streaming on",
        stated=latencies,
        method=f"{method} over completed requests",
        hides_failures=_LOST if _loses_failures(report) else "",
        doubts=tuple(_doubts(report, requests)),
        notes=tuple(_notes(report, counts)),
        **report.facts,
    )


def _counts(source: Source, tool: str, requests: Requests) -> Counts:
    """How many there were; the failures of AIPerf are kinds, and its total is of completed requests."""
    total, failed, cancelled = requests.total, requests.failures or 0, requests.incomplete or 0
    if total is None:
        raise source.fail("does not say how many requests there were", "requests.total", WHOLE)
    if tool == "aiperf":
        return Counts(total + failed, total, failed, cancelled)
    if failed + cancelled > total:
        why = f"contradicts itself: {failed} failed and {cancelled} incomplete of {total} requests"
        raise source.fail(why, "requests", WHOLE)
    return Counts(total - cancelled, total - failed - cancelled, failed, cancelled)


def _notes(report: Report, counts: Counts) -> Iterator[str]:
    tool = report.tool or "a tool that it does not name"
    yield f"converted from {tool}: a report holds no per-request row and no goodput"
    if counts.failed:
        yield f"{counts.failed} failed, as the report says"
    implied = (report.measured.request_rate or 0.0) * (report.facts["duration_s"] or 0.0)
    if implied and abs(implied - counts.completed) > MISMATCH * counts.completed + 1:
        yield (
            f"request rate x duration is {implied:.0f} requests, but {counts.completed} completed:"
            " the duration may include more than the run"
        )


# ---- times --------------------------------------------------------------------------------


def _summary(source: Source, stat: Stat, block: str) -> Summary:
    """In seconds, by the block's own unit. Raises InputError where it names none."""
    match = _UNIT.fullmatch(stat.units or "")
    if not match:
        raise source.fail(f'"{stat.units}" is no unit of time', f"{block}.units", WHOLE)
    scale = _SECONDS[match[1]]
    mean, low, high = (None if v is None else v * scale for v in (stat.mean, stat.min, stat.max))
    points = ((percent, value * scale) for percent, value in stat.points)
    return ladder(points, mean=mean, low=low, high=high)


def _check_order(source: Source, latencies: Mapping[str, Summary]) -> None:
    """A mean TTFT above the mean E2E shows that a unit is wrong."""
    ttft, e2e = (latencies[m].mean if m in latencies else None for m in ("ttft", "e2e"))
    if ttft is not None and e2e is not None and ttft > e2e * (1 + MISMATCH):
        why = f"contradicts itself: a mean TTFT of {ttft:g} s and a mean E2E of {e2e:g} s; a unit is wrong"
        raise source.fail(why, "latency", WHOLE)


def _loses_failures(report: Report) -> bool:
    return report.version.startswith("0.1") and report.tool == "vllm-benchmark"


def _doubts(report: Report, requests: Requests) -> Iterator[Doubt]:
    if not report.tool:
        yield Doubt(Why.DEFINITION, ("tpot", "itl"), _UNNAMED)
        yield Doubt(Why.COUNTS_UNKNOWN, ("error_rate", "attempted"), _UNNAMED)
    if report.tool == "aiperf":
        if requests.failures:
            yield Doubt(Why.COUNTS_UNKNOWN, (*METRICS, "error_rate"), _KINDS.format(requests.failures))
    elif requests.failures is None and not _loses_failures(report):
        yield Doubt(Why.COUNTS_UNKNOWN, ("error_rate", "attempted"), _UNSAID)
    if report.tool in _ONE_MEAN:
        yield Doubt(Why.DEFINITION, ("itl",), _ITL_MEANS.format(report.tool))
    if report.tool == "guidellm":
        yield Doubt(Why.DEFINITION, ("tpot",), _TPOT_GUIDELLM)
