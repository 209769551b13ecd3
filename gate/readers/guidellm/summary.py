"""GuideLLM's aggregates: evidence where the requests are not listed, and the tool's own percentiles."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from ...model import Aggregate, Counts, Summary, ToolReported
from ..source import Source
from .report import Benchmark, Group, Stat

DETAIL = "a report with its requests (GuideLLM keeps them all unless sample_size is set)"
NOT_STREAMING = (
    "no response has a time to first token: the run did not stream; run GuideLLM with stream=true "
    "(its default) against an endpoint that streams"
)
NO_GAPS = (
    "GuideLLM records no gaps between chunks (its inter_token_latency_ms is one mean a request); "
    "bound tpot, or measure with a tool that keeps them, e.g. AIPerf"
)
_BY_TOKENS = (
    "GuideLLM's aggregate counts a request once for each of its tokens, and outputs differ in length, so "
    f"no share of requests follows from it; give {DETAIL}"
)
_SOME_ZERO = (
    f"the smallest is 0, which is how GuideLLM writes a value it does not have; give {DETAIL}, where "
    "such a request is seen"
)
_PERCENTS = {
    "p001": 0.1,  # not 1: p01 is
    "p999": 99.9,
} | {f"p{percent:02}": float(percent) for percent in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
_METHODS = {
    "ttft": "inverted_cdf over completed requests",
    "e2e": "inverted_cdf over completed requests",
    "tpot": "inverted_cdf over completed requests, each counted once per output token after the first",
}


def definitions(benchmark: Benchmark) -> dict[str, str]:
    """The tool's own formulas; `time_per_output_token_ms` changed its meaning in 0.4."""
    first = "first" if benchmark.is_old else "start"
    includes = "without TTFT but over all tokens" if benchmark.is_old else "with TTFT in it"
    return {
        "ttft": "time_to_first_token_ms = first content, reasoning or tool-call chunk - request start",
        "tpot": "inter_token_latency_ms = (last token - first token) / (output tokens - 1), not its "
        f"time_per_output_token_ms = (last token - {first}) / output tokens, {includes}",
        "e2e": "request_latency = stream closed - request start",
    }


def reported(benchmark: Benchmark) -> dict[str, ToolReported]:
    """The tool's percentiles by metric, in seconds, of the metrics it has data for."""
    found = {}
    for metric, (stat, scale) in _stats(benchmark).items():
        if stat is not None:
            mean = None if stat.mean is None else stat.mean * scale
            found[metric] = ToolReported(_percentiles(stat, scale), _METHODS[metric], mean)
    return {metric: one for metric, one in found.items() if one.percentiles}


def evidence(source: Source, benchmark: Benchmark, at: str) -> Aggregate:
    """Percentiles over completed requests.

    Raises InputError where they do not ascend, are negative, or count other requests than the file does.
    """
    totals, found = benchmark.totals, {}
    for metric, (stat, scale) in _stats(benchmark).items():
        if stat is None:
            continue
        if metric == "e2e" and totals and stat.count not in (None, totals.successful):
            raise source.fail(
                f"contradicts itself: {totals.successful} successful requests, but {stat.count} latencies",
                at,
            )
        values = _percentiles(stat, scale)
        known = [stat.min * scale] if stat.min is not None else []
        if any(value < 0 for value in (*known, *(value for _, value in values))):
            raise source.fail(f"a negative latency among the percentiles of {metric}", at)
        if any(low > high for (_, low), (_, high) in pairwise(values)):
            raise source.fail(f"the percentiles of {metric} do not ascend", at)
        mean, low, high = (None if v is None else v * scale for v in (stat.mean, stat.min, stat.max))
        found[metric] = Summary(values, mean, low, high, None if metric == "tpot" else stat.count)
    return Aggregate(found, "inverted_cdf", settled_by=DETAIL)


def counts(source: Source, benchmark: Benchmark, at: str) -> Counts:
    """As stated for the measurement window. Raises InputError where they are not."""
    totals, made = benchmark.totals, benchmark.made
    if totals is None:
        raise source.fail("does not say how many requests completed and failed", at, f"give {DETAIL}")
    measured = totals.successful + totals.errored
    outside = max(0, made.successful + made.errored - measured) if made else 0
    return Counts(measured, totals.successful, totals.errored, totals.incomplete, outside)


def unsuitable(benchmark: Benchmark, found: Mapping[str, Summary]) -> dict[str, str]:
    """What the aggregate must not be judged by, and why."""
    reasons = {"itl": NO_GAPS}
    if "ttft" not in found:
        reasons |= dict.fromkeys(("ttft", "tpot"), NOT_STREAMING)
        return reasons
    if found["ttft"].min == 0 or dict(found["ttft"].percentiles).get(0.1) == 0:
        reasons["ttft"] = _SOME_ZERO
    if "tpot" in found and not _one_length(benchmark):
        reasons["tpot"] = _BY_TOKENS
    return reasons


def output_tokens(benchmark: Benchmark, warmup: int) -> float | None:
    """Of completed requests, as their mean says; of a window inside the run, as the tool's rate says."""
    totals, metrics = benchmark.totals, benchmark.metrics
    if totals is None or metrics is None:
        return None
    mean, rate = _of(metrics.output_token_count), _of(metrics.output_tokens_per_second)
    if warmup and rate is not None and rate.mean is not None and benchmark.duration:
        return rate.mean * benchmark.duration  # requests on the window's edges have tokens outside it
    if mean is None or mean.mean is None:
        return None
    return float(round(mean.mean * totals.successful)) or None


def _one_length(benchmark: Benchmark) -> bool:
    stat = _of(benchmark.metrics.output_token_count if benchmark.metrics else None)
    if stat is None or not stat.mean or stat.std_dev is None:
        return False
    return stat.std_dev < 1e-9 * stat.mean  # the tool's own is 1e-14 where all are equal


def _stats(benchmark: Benchmark) -> dict[str, tuple[Stat | None, float]]:
    """By metric, with what makes seconds of it; None where zeros mean that there are no data."""
    metrics = benchmark.metrics
    if metrics is None:
        return {}
    return {
        "ttft": (_of(metrics.time_to_first_token_ms), 1e-3),
        "tpot": (_of(metrics.inter_token_latency_ms), 1e-3),
        "e2e": (_of(metrics.request_latency), 1.0),
    }


def _of(group: Group | None) -> Stat | None:
    stat = group.successful if group else None
    if stat is None or stat.count == 0:
        return None
    # Non-streaming runs have an ITL of 0 for every token (0.8) and a TTFT of 0 for every request (0.5).
    largest = stat.max if stat.max is not None else max((stat.percentiles or {}).values(), default=0.0)
    return stat if largest != 0 else None


def _percentiles(stat: Stat, scale: float) -> tuple[tuple[float, float], ...]:
    named = {_PERCENTS[key]: value for key, value in (stat.percentiles or {}).items() if key in _PERCENTS}
    if stat.median is not None:
        named.setdefault(50.0, stat.median)  # neither 0.2 nor a CSV has p50
    return tuple((percent, named[percent] * scale) for percent in sorted(named))
