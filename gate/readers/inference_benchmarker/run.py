"""The steps of a benchmark: counts, and percentiles over the requests that succeeded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict

from ...model import Aggregate, Counts, Summary
from .. import clocks, ladders, loads
from ..source import Source
from ..told import Told

_Count = Annotated[int, Meta(ge=0, le=10**12)]
_Some = Annotated[int, Meta(ge=1, le=10**12)]
_Time = Annotated[float, Meta(ge=-1e12, le=1e12)]
_AGAIN = "use the file as inference-benchmarker 0.2.0 or newer wrote it, or run the benchmark again"
_CUT = "up to {:,} requests, in flight when the step ended, are in no count; run it with a longer --duration"


class _Times(Struct):  # in ms, cut to whole microseconds
    p50: _Time
    p60: _Time
    p70: _Time
    p80: _Time
    p90: _Time
    p95: _Time
    p99: _Time
    avg: _Time


class _Executor(Struct):
    max_vus: _Some
    duration_secs: _Some
    rate: Annotated[float, Meta(gt=0, le=1e12)] | None


class _Step(Struct):
    id: str
    executor_type: Literal["ConstantVUs", "ConstantArrivalRate"]
    config: _Executor
    total_requests: _Count
    successful_requests: _Count
    failed_requests: _Count
    total_tokens: _Count  # of the output of successful requests
    duration_ms: _Count
    time_to_first_token_ms: _Times
    inter_token_latency_ms: _Times
    e2e_latency_ms: _Times


class _Config(Struct):
    benchmark_kind: Literal["Throughput", "Sweep", "Rate"]
    num_rates: _Count
    rates: list[float] | None
    tokenizer: str
    model_name: str | None = None  # since 1.0.0; before, the tokenizer's name was sent


class _File(Struct):
    config: _Config
    results: list[_Step]
    start_time: str


def decode(source: Source) -> Iterator[Told]:
    """One Told a step. Raises InputError where one is missing: the tool writes no file then."""
    file = source.whole(_File)
    config, steps = file.config, file.results
    asked = {"Throughput": 1, "Sweep": 1 + config.num_rates, "Rate": len(config.rates or ())}
    number = asked[config.benchmark_kind]
    if not number or len(steps) != 1 + number or steps[0].id != "warmup":
        raise source.fail(f"has {len(steps)} steps instead of a warm-up and {number}", "$.results", _AGAIN)
    for step in steps[1:]:
        if (step.config.rate is None) != (step.executor_type == "ConstantVUs"):
            why = f"contradicts itself: {step.executor_type} at a rate of {step.config.rate}"
            raise source.fail(why, f'step "{step.id}"', _AGAIN)
        yield _told(step, config, file.start_time)


def _told(step: _Step, config: _Config, began: str) -> Told:
    vus, rate, duration_s = step.config.max_vus, step.config.rate, step.config.duration_secs
    # In a closed loop all but the first that ended late; in an open loop those due, or skipped.
    cut = vus - 1 if rate is None else min(vus, max(0, round(rate * duration_s) - step.total_requests))
    stated = {
        "ttft": _summary(step.time_to_first_token_ms),
        "tpot": _summary(step.inter_token_latency_ms),
        "e2e": _summary(step.e2e_latency_ms),
    }
    return Told(
        format="inference-benchmarker step",
        evidence=Aggregate(stated, rounding_s=1e-6, settled_by="a tool that writes a row a request"),
        retries=0,  # it closes the stream at the first error
        counts=Counts(step.total_requests, step.successful_requests, step.failed_requests),
        output_tokens=step.total_tokens,
        duration_s=step.duration_ms / 1000,
        load=loads.load(rate=rate, slots=vus),
        sent_rate=(step.total_requests + cut) / duration_s if rate else None,
        model=config.model_name or config.tokenizer,
        tokenizer=config.tokenizer,
        date=clocks.day_of(began),
        streamed=True,  # it asks for a stream, and any other answer is a failure
        stated=stated,
        method="linear over successful requests",
        hides_failures=_CUT.format(cut) if cut else "",
        hidden_at_most=cut,
    )


def _summary(times: _Times) -> Summary:
    points = ((float(name[1:]), value) for name, value in asdict(times).items() if name != "avg")
    return ladders.ladder(points, per_second=1000, mean=times.avg)
