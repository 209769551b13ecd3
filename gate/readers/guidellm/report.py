"""What a GuideLLM report holds, of every layout from 0.2 to 0.8, as JSON, YAML or CSV."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct, convert, json

from ..source import BROKEN, Source
from ..stages import at, number, whole_number
from ..stored import WHOLE

Count = Annotated[int, Meta(ge=0, le=2**53)]
Number = Annotated[float, Meta(ge=-1e18, le=1e18)]  # also milliseconds since the epoch

_MOMENTS = {"mean": "Mean", "median": "Median", "std_dev": "Std Dev"}
# The order of the 11 numbers in a percentile cell (outputs/csv.py): neither p50 nor p999 is among them.
_PERCENTILES = ("min", "p001", "p01", "p05", "p10", "p25", "p75", "p90", "p95", "p99", "max")


class Timings(Struct, gc=False, frozen=True):
    """Moments of one request, epoch seconds."""

    targeted_start: Number | None = None
    last_token_iteration: Number | None = None
    token_iterations: Count | None = None  # chunks with content


class Info(Struct, gc=False, frozen=True):
    """What the scheduler knows of one request."""

    timings: Timings = Timings()
    error: str | None = None


class Row(Struct, gc=False):
    """One request. 0.2 and 0.3 have the last four, later ones the two before them."""

    request_latency: Number | None = None  # s
    time_to_first_token_ms: Number | None = None
    prompt_tokens: Count | None = None
    output_tokens: Count | None = None
    output_metrics: dict[str, Any] | None = None  # tokens as the server counted them
    info: Info = Info()
    request_start_time: Number | None = None
    request_end_time: Number | None = None
    start_time: Number | None = None
    end_time: Number | None = None
    last_token_time: Number | None = None
    error: str | None = None


class Rows(Struct, frozen=True):
    """The requests by how they ended. `total` repeats them in some versions and is not read."""

    successful: list[Row] = []
    errored: list[Row] = []
    incomplete: list[Row] = []  # cut off by the tool at the end of its run


class Totals(Struct, frozen=True):
    """Requests by how they ended."""

    successful: Count = 0
    errored: Count = 0
    incomplete: Count = 0

    @property
    def ended(self) -> int:
        """Those that completed or failed."""
        return self.successful + self.errored


class Stat(Struct, frozen=True):
    """One metric of the successful requests, in the metric's own unit."""

    mean: Number | None = None
    median: Number | None = None
    std_dev: Number | None = None
    min: Number | None = None
    max: Number | None = None
    count: Count | None = None  # of tokens where the metric is weighted by them
    percentiles: dict[str, Number] | None = None


Group = dict[str, Stat | None]  # by how requests ended; errored ones are zeros, also in `total`


class Metrics(Struct, frozen=True):
    """The aggregates over the requests that overlap the measurement window."""

    request_totals: Totals | None = None
    request_latency: Group = {}  # s
    time_to_first_token_ms: Group = {}
    inter_token_latency_ms: Group = {}
    output_token_count: Group = {}
    output_tokens_per_second: Group = {}
    slo_attainment: Number | None = None  # share
    slo_determined_requests: Count | None = None

    def completed(self, name: str) -> Stat:
        """One metric of the requests that succeeded; empty where the zeros count nothing."""
        stat: Stat | None = getattr(self, name).get("successful")
        return Stat() if stat is None or stat.count == 0 else stat


class Benchmark(Struct):
    """One load point."""

    type_: str = ""
    config: dict[str, Any] | None = None
    args: dict[str, Any] | None = None
    worker: dict[str, Any] | None = None
    scheduler_state: dict[str, Any] | None = None
    scheduler_metrics: dict[str, Any] | None = None
    run_stats: dict[str, Any] | None = None
    metrics: Metrics = Metrics()
    request_totals: Totals = Totals()
    requests: Rows = Rows()
    warnings: list[Any] | None = None  # GuideLLM's own doubts
    start_time: Number | str | None = None  # epoch s; in a CSV, the client's local time
    duration: Number | None = None  # of the measurement window, s

    def __post_init__(self) -> None:
        """What 0.2 and 0.3 say, where later versions say it."""
        self.config = self.config or self.args
        self.scheduler_metrics = self.scheduler_metrics or self.run_stats
        self.request_totals = self.metrics.request_totals or self.request_totals

    @property
    def made(self) -> Totals:
        """Requests made at all, warm-up among them."""
        block = at(self.scheduler_metrics, "requests_made")
        return Totals(*(whole_number(at(block, name)) or 0 for name in Totals.__struct_fields__))

    def asked(self, outside: int) -> int | None:
        """How many measured requests were to end the run, where only a number of them ended it."""
        ended = at(self.scheduler_state, "end_queuing_constraints") or at(self.config, "constraints")
        alone = at(ended, "max_requests") if isinstance(ended, dict) and len(ended) == 1 else None
        places = (("metadata", "max_requests"), ("metadata", "max_number"), ("args", "count"), ("max_num",))
        limits = (whole_number(at(alone, *place)) for place in places)
        return next((limit - outside for limit in limits if limit), None)


class Report(Struct):
    """A whole file."""

    metadata: dict[str, Any] | None = None
    benchmarks: list[Benchmark] = []


def of_table(source: Source) -> Report:
    """The CSV as a report without requests. Raises InputError for what is no such table."""
    lines = source.table()  # three of headers (group, name, unit or statistic), then one a benchmark
    headers = [" ".join(filter(None, parts)) for parts in zip(*lines[:3], strict=True)]
    rows = [dict(zip(headers, map(_cell, line), strict=True)) for line in lines[3:]]
    metadata = next((row.get("Runtime Info Metadata") for row in rows), None)
    try:
        return convert({"metadata": metadata, "benchmarks": list(map(_benchmark, rows))}, Report)
    except BROKEN as error:
        raise source.fail(f"a cell is not what GuideLLM writes: {error}", hint=WHOLE) from None


def _cell(text: str) -> Any:
    try:
        return json.decode(text) if text else None
    except BROKEN:
        return text


def _benchmark(row: Mapping[str, Any]) -> dict[str, Any]:
    def totals(name: str) -> dict[str, Any]:
        return {part.lower(): row.get(f"{name} {part}") for part in ("Successful", "Errored", "Incomplete")}

    def stat(name: str) -> dict[str, Any]:
        listed = row.get(f"{name} Percentiles")
        if isinstance(listed, list) and len(listed) == len(_PERCENTILES):
            listed = dict(zip(_PERCENTILES, listed, strict=True))
        known = {"percentiles": listed, "min": at(listed, "min"), "max": at(listed, "max")}
        return {"successful": known | {key: row.get(f"{name} {part}") for key, part in _MOMENTS.items()}}

    backend, constraints = row.get("Run Info Backend"), row.get("Benchmark Constraints")
    return {
        "type_": row.get("Benchmark Type") or "",
        "config": {"strategy": _strategy(row), "backend": backend, "constraints": constraints},
        "scheduler_metrics": {"requests_made": totals("Scheduler Metrics Requests Made")},
        "metrics": {
            "request_totals": totals("Request Counts"),
            "request_latency": stat("Request Latency Successful Sec"),
            "time_to_first_token_ms": stat("Time to First Token Successful ms"),
            "inter_token_latency_ms": stat("Inter Token Latency Successful ms"),
            "output_token_count": stat("Token Metrics Successful Output Tokens"),
            "output_tokens_per_second": stat("Token Throughput Successful Output Tokens/Sec"),
        },
        "start_time": row.get("Timings Start Time"),
        "duration": row.get("Timings Duration Sec"),
    }


def _strategy(row: Mapping[str, Any]) -> Any:
    """`concurrent@6` since 0.7; before, only the kind, and the numbers in the profile."""
    kind, _, figure = str(row.get("Benchmark Strategy")).partition("@")
    if figure:
        key = {"concurrent": "streams", "throughput": "max_concurrency"}.get(kind, "rate")
        return {"type_": kind, key: number(figure)}
    runs = at(row.get("Run Info Profile"), "completed_strategies")
    index = whole_number(row.get("Run Info Run Index")) or 0
    known = runs[index] if isinstance(runs, list) and index < len(runs) else None
    return known if at(known, "type_") == kind else {"type_": kind}
