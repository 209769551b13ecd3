"""A report of llm-d as a run: its latencies in seconds, and what its converter made of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite

from ...model import METRICS, Aggregate, Counts, Run, Summary, ToolReported
from ..bursts import AT_ONCE, AT_ONCE_TPOT_S, NOT_STREAMED
from ..source import Source
from ..tables import MISMATCH
from . import report as _report
from .report import WHOLE, Stat, Told

_BLOCKS = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "itl": "inter_token_latency",
    "e2e": "request_latency",
}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_UNIT = re.compile(r"(s|ms|us|ns)(?:/token)?")
_NAMES = ["p0p1", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p99p9"]
_PERCENTILES = {name: float(name[1:].replace("p", ".")) for name in _NAMES}
_COUNT_MAX = 1e12
_ROUNDING = 1e-9
_TPOT_LOW = 0.7  # below this share of (E2E - TTFT) / (tokens - 1), both of means, it is another quantity

_OWN = "the result file of {} that the report was made from"
_TPOT_GUIDELLM = (
    "GuideLLM's time_per_output_token contains the TTFT (latency / tokens), and its inter_token_latency is"
    " weighted by tokens: give GuideLLM's own file"
)
_ITL_MEANS = "{} reports one mean a request, not gaps between chunks: give the tool's own per-request file"
_TPOT_SMALL = (
    "TPOT is {:.0%} of (E2E - TTFT) / (output tokens - 1): the tool counted tokens that were not there"
    " (inference-perf before mid-2026 did); convert a result of a newer version"
)
_LOST = (
    "llm-d's v0.1 report of a vLLM benchmark counts completed requests only: how many failed is not in it;"
    " give vLLM's own file, or a v0.2 report"
)
_KINDS = (
    "llm-d's report of AIPerf says how many kinds of failure there were ({}), not how many requests failed:"
    " give AIPerf's own profile_export.jsonl"
)
_UNSAID = "the report does not say how many requests failed; give the tool's own file"
_METHODS = {"guidellm": "inverted_cdf"}
_ONE_MEAN = ("guidellm", "aiperf")  # their inter_token_latency has one value a request
_TPOT_OF = {
    "guidellm": "request latency / output tokens: contains the TTFT",
    "inference-perf": "(last token - first token) / (output tokens - 1)",
}


def read(source: Source) -> Sequence[Run]:
    """The one run of the report. Raises InputError when it is broken or contradicts itself."""
    told = _report.told(source, _report.document(source))
    counts, blind = _counts(source, told)
    latencies = {
        metric: _summary(source, stat, block, counts.completed)
        for metric, block in _BLOCKS.items()
        if counts.completed and (stat := told.latency.get(block)) is not None
    }
    _check_order(source, latencies)
    tokens = _tokens(told)
    method = _METHODS.get(told.tool, "linear")
    return [
        Run(
            input=source.name,
            sha256=source.sha256,
            format=f"llm-d report {told.version}",
            tool=told.tool,
            evidence=Aggregate(
                {metric: one for metric, one in latencies.items() if one.percentiles},
                method,
                settled_by=_OWN.format(told.tool),
            ),
            counts=counts,
            tool_version=told.tool_version,
            model=told.model,
            hardware=told.hardware,
            load=told.load,
            duration_s=told.duration_s,
            date=told.date,
            total_output_tokens=tokens * counts.completed if tokens is not None else None,
            definitions=_definitions(told.tool),
            tool_reported={
                metric: ToolReported(one.percentiles, f"{method} over completed requests", one.mean)
                for metric, one in latencies.items()
            },
            unsuitable=_unsuitable(told, latencies, tokens) | blind,
            notes=_notes(told, counts, blind),
        )
    ]


# ---- what it means ------------------------------------------------------------------------


def _counts(source: Source, told: Told) -> tuple[Counts, dict[str, str]]:
    """Counts, and why failures cannot be judged where the converter lost them."""
    total, failures, cut = (
        _count(source, name, getattr(told.requests, name)) for name in ("total", "failures", "incomplete")
    )
    if total is None:
        raise source.fail("does not say how many requests there were", "requests.total", WHOLE)
    failed, cancelled = failures or 0, cut or 0
    if told.tool == "aiperf":  # its total is of completed requests
        blind = dict.fromkeys((*METRICS, "error_rate"), _KINDS.format(failed)) if failed else {}
        return Counts(total + failed, total, failed, cancelled), blind
    if failed + cancelled > total:
        why = f"contradicts itself: {failed} failed and {cancelled} incomplete of {total} requests"
        raise source.fail(why, "requests", WHOLE)
    completed = total - failed - cancelled
    counts = Counts(completed + failed, completed, failed, cancelled)
    if told.version.startswith("0.1") and told.tool == "vllm-benchmark":
        return counts, dict.fromkeys(("error_rate", "attempted"), _LOST)
    return counts, dict.fromkeys(("error_rate", "attempted"), _UNSAID) if failures is None else {}


def _count(source: Source, name: str, value: float | None) -> int | None:
    if value is None:
        return None
    if not 0 <= value <= _COUNT_MAX or value != int(value):
        raise source.fail(f"expected a count, got {value:g}", f"requests.{name}", WHOLE)
    return int(value)


def _summary(source: Source, stat: Stat, block: str, n: int) -> Summary:
    """In seconds, by the block's own unit. Raises InputError where values fall or are negative."""
    found = _UNIT.fullmatch(stat.units or "")
    if not found:
        raise source.fail(f'"{stat.units}" is no unit of time', f"{block}.units", WHOLE)
    scale = _SECONDS[found[1]]
    values = {name: _finite(getattr(stat, name)) for name in ("min", *_PERCENTILES, "max", "mean")}
    for name, value in values.items():
        if value is not None and value < 0:
            why = f"a negative latency: {value:g} {stat.units}"
            raise source.fail(why, f"{block}.{name}", WHOLE)
    rising = [value for name in ("min", *_PERCENTILES, "max") if (value := values[name]) is not None]
    if any(later < earlier * (1 - _ROUNDING) for earlier, later in pairwise(rising)):
        raise source.fail("contradicts itself: percentiles that fall", block, WHOLE)
    points = tuple(
        (percent, value * scale)
        for name, percent in _PERCENTILES.items()
        if (value := values[name]) is not None
    )
    ends = {name: None if (end := values[name]) is None else end * scale for name in ("mean", "min", "max")}
    behind = n if block in (_BLOCKS["ttft"], _BLOCKS["e2e"]) else None
    return Summary(points, ends["mean"], ends["min"], ends["max"], behind)


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _check_order(source: Source, latencies: Mapping[str, Summary]) -> None:
    """A mean TTFT above the mean E2E shows that a unit is wrong."""
    ttft, e2e = (latencies[m].mean if m in latencies else None for m in ("ttft", "e2e"))
    if ttft is not None and e2e is not None and ttft > e2e * (1 + MISMATCH):
        why = f"contradicts itself: a mean TTFT of {ttft:g} s and a mean E2E of {e2e:g} s; a unit is wrong"
        raise source.fail(why, "latency", WHOLE)


def _tokens(told: Told) -> float | None:
    """The mean number of output tokens of a request."""
    length = told.requests.output_length
    return length.mean if length is not None and length.mean is not None and length.mean >= 0 else None


def _unsuitable(told: Told, latencies: Mapping[str, Summary], tokens: float | None) -> dict[str, str]:
    own = _OWN.format(told.tool)
    why = {
        metric: f"the report states no percentile of {metric.upper()}; {own} may"
        for metric in METRICS
        if metric not in latencies or not latencies[metric].percentiles
    }
    if told.tool in _ONE_MEAN:
        why["itl"] = _ITL_MEANS.format(told.tool)
    if told.tool == "guidellm":
        why["tpot"] = _TPOT_GUIDELLM
    ttft, tpot, e2e = (latencies[m].mean if m in latencies else None for m in ("ttft", "tpot", "e2e"))
    if ttft is None or tpot is None or e2e is None or tokens is None or tokens <= 1:
        return why
    share = tpot * (tokens - 1) / (e2e - ttft) if e2e > ttft else 1.0
    if e2e - ttft <= AT_ONCE * e2e and tpot < AT_ONCE_TPOT_S:
        why |= dict.fromkeys(("ttft", "tpot", "itl"), NOT_STREAMED)
    elif share < _TPOT_LOW:
        why |= dict.fromkeys(("tpot", "itl"), _TPOT_SMALL.format(share))
    return why


def _definitions(tool: str) -> dict[str, str]:
    return {
        "ttft": f"time_to_first_token as {tool} measured it",
        "tpot": f"time_per_output_token: {_TPOT_OF.get(tool, '(E2E - TTFT) / (output tokens - 1)')}",
        "itl": "inter_token_latency: "
        + ("one mean a request" if tool in _ONE_MEAN else "gaps between chunks, pooled"),
        "e2e": f"request_latency as {tool} measured it",
    }


def _notes(told: Told, counts: Counts, blind: Mapping[str, str]) -> tuple[str, ...]:
    notes = [f"converted from {told.tool}: a report holds no per-request row and no goodput", *blind.values()]
    if counts.failed:
        notes.append(f"{counts.failed} failed, as the report says")
    if told.request_rate and told.duration_s:
        implied = told.request_rate * told.duration_s
        if abs(implied - counts.completed) > MISMATCH * counts.completed + 1:
            notes.append(
                f"request rate x duration is {implied:.0f} requests, but {counts.completed} completed:"
                " the duration may include more than the run"
            )
    return tuple(dict.fromkeys(notes))
