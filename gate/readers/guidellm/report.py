"""What a GuideLLM report holds, of every layout from 0.2 to 0.8, as JSON, YAML or CSV.

0.2 and 0.3 say `args`, `run_stats` and `worker` where 0.4 and later say `config` and `scheduler_metrics`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from .. import clocks
from ..source import BROKEN, Source
from ..stages import at, number, whole

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Number = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]  # also milliseconds since the epoch

# The order of the 11 numbers in a percentile cell (outputs/csv.py): neither p50 nor p999 is among them.
_PERCENTILES = ("min", "p001", "p01", "p05", "p10", "p25", "p75", "p90", "p95", "p99", "max")
_MOMENTS = {"mean": "Mean", "median": "Median", "std_dev": "Std Dev"}
_STRATEGY = re.compile(r"([a-z]+)(?:@(?:([0-9.]+)|unlimited))?")
_RUN_ID = re.compile(r"""\brun_id["']?:\s*["']?([\w-]+)|^Run Info,.*?\n.*?\n.*?\n([\w-]+),""", re.DOTALL)
_WHOLE = "copy the file whole"


class Timings(msgspec.Struct, gc=False):
    """Moments of one request, epoch seconds."""

    targeted_start: Number | None = None
    request_start: Number | None = None
    resolve_start: Number | None = None
    request_end: Number | None = None
    resolve_end: Number | None = None
    last_token_iteration: Number | None = None
    token_iterations: Count | None = None  # chunks with content


class Info(msgspec.Struct, gc=False):
    """What the scheduler knows of one request."""

    timings: Timings | None = None
    error: str | None = None


class Row(msgspec.Struct, gc=False):
    """One request. 0.2 and 0.3 have the last three times and `error` here, later ones in `info`."""

    request_start_time: Number | None = None
    request_end_time: Number | None = None
    request_latency: Number | None = None  # s
    time_to_first_token_ms: Number | None = None
    prompt_tokens: Count | None = None
    output_tokens: Count | None = None
    output_metrics: dict[str, Any] | None = None  # tokens as the server counted them
    info: Info | None = None
    start_time: Number | None = None
    end_time: Number | None = None
    last_token_time: Number | None = None
    error: str | None = None


class Rows(msgspec.Struct):
    """The requests by how they ended. `total` repeats them in some versions and is not read."""

    successful: list[Row] | None = None
    errored: list[Row] | None = None
    incomplete: list[Row] | None = None  # cut off by the tool at the end of its run


class Totals(msgspec.Struct):
    """Requests by how they ended."""

    successful: Count = 0
    errored: Count = 0
    incomplete: Count = 0


class Stat(msgspec.Struct):
    """One metric of one group of requests, in the metric's own unit."""

    mean: Number | None = None
    median: Number | None = None
    std_dev: Number | None = None
    min: Number | None = None
    max: Number | None = None
    count: Count | None = None  # of tokens where the metric is weighted by them
    percentiles: dict[str, Number] | None = None


Group = dict[str, Stat | None]  # by how requests ended: errored ones are zeros, also in `total`


class Metrics(msgspec.Struct):
    """The aggregates over the requests that overlap the measurement window."""

    request_totals: Totals | None = None
    request_latency: Group = {}  # s
    time_to_first_token_ms: Group = {}
    inter_token_latency_ms: Group = {}
    output_token_count: Group = {}
    output_tokens_per_second: Group = {}
    slo_attainment: Number | None = None  # share
    slo_determined_requests: Count | None = None


class Benchmark(msgspec.Struct):
    """One load point."""

    type_: str = ""
    config: dict[str, Any] | None = None
    args: dict[str, Any] | None = None  # until 0.3
    worker: dict[str, Any] | None = None  # until 0.3
    scheduler_state: dict[str, Any] | None = None
    scheduler_metrics: dict[str, Any] | None = None
    run_stats: dict[str, Any] | None = None  # until 0.3
    metrics: Metrics | None = None
    request_totals: Totals | None = None  # until 0.3; later in metrics
    requests: Rows | None = None
    warnings: list[Any] | None = None  # GuideLLM's own doubts
    start_time: Number | None = None  # epoch s
    duration: Number | None = None  # of the measurement window, s
    csv_day: str | None = None  # of its start, in the client's local time

    @property
    def is_old(self) -> bool:
        """Written by 0.3 or older: no window, and time_per_output_token_ms without TTFT."""
        return self.run_stats is not None or (self.args is not None and self.config is None)

    @property
    def totals(self) -> Totals | None:
        """Requests behind the metrics."""
        return (self.metrics.request_totals if self.metrics else None) or self.request_totals

    def asked(self, *path: str) -> Any:
        """What was asked for, in either generation's place."""
        return at(self.config or self.args, *path)

    def made(self, name: str) -> int:
        """Requests made at all, warm-up among them, by how they ended."""
        return whole(at(self.scheduler_metrics or self.run_stats, "requests_made", name)) or 0

    def window_s(self) -> tuple[float, float] | None:
        """When the measurement began and ended, epoch seconds."""
        names = ("measure_start_time", "measure_end_time")
        begin, end = (number(at(self.scheduler_metrics, name)) for name in names)
        return None if begin is None or end is None else (begin, end)

    def requested(self) -> int | None:
        """How many requests were to end the run, where only their number ended it."""
        ended = at(self.scheduler_state, "end_queuing_constraints") or self.asked("constraints")
        if not isinstance(ended, dict) or list(ended) != ["max_requests"]:
            return None
        stated = ended["max_requests"]
        places = (("metadata", "max_requests"), ("metadata", "max_number"), ("args", "count"), ("max_num",))
        return next((count for place in places if (count := whole(at(stated, *place)))), None)


class Report(msgspec.Struct):
    """A whole file."""

    metadata: dict[str, Any] | None = None
    benchmarks: list[Benchmark] = []


class _Typed(msgspec.Struct):
    type_: str = ""


def is_ours(source: Source) -> bool:
    """Whether an object with benchmarks is GuideLLM's, by its metadata or the type of its benchmarks."""
    if at(source.doc.any("metadata"), "guidellm_version") is not None:
        return True
    try:
        types = msgspec.json.decode(source.doc.fields["benchmarks"], type=list[_Typed])
    except BROKEN:
        return False
    return bool(types) and types[0].type_ == "generative_benchmark"


def same_run(source: Source, other: Source) -> bool:
    """Whether both hold the run's own id, which stands near the beginning."""
    ids = [match[1] or match[2] for file in (source, other) if (match := _RUN_ID.search(file.head))]
    return len(ids) == 2 and ids[0] == ids[1]


# ---- the table: three header rows (group, name, unit or statistic), one row a benchmark ---------


def of_table(source: Source) -> Report:
    """The table as a report without requests. Raises InputError for what is no such table."""
    text = bytes(source.data).decode("utf-8-sig", "replace")
    try:
        lines = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as error:
        raise source.fail(f"is not CSV: {error}", hint=_WHOLE) from None
    if len(lines) < 3 or not len(lines[0]) == len(lines[1]) == len(lines[2]):
        raise source.fail("has no three header rows of one length", hint=_WHOLE)
    headers, found, metadata = list(zip(*lines[:3], strict=True)), [], None
    for line, row in enumerate(lines[3:], 4):
        if len(row) != len(headers):
            why = f"has {len(row)} cells where its headers have {len(headers)}"
            raise source.fail(why, f"line {line}", _WHOLE)
        cells = dict(zip(headers, map(_cell, row), strict=True))
        found.append(_benchmark(cells))
        metadata = metadata or cells.get(("Runtime Info", "Metadata", ""))
    try:
        return msgspec.convert({"metadata": metadata, "benchmarks": found}, Report)
    except BROKEN as error:
        raise source.fail(f"a cell is not what GuideLLM writes: {error}", hint=_WHOLE) from None


def _cell(text: str) -> Any:
    try:
        return msgspec.json.decode(text) if text else None
    except BROKEN:
        return text


def _benchmark(cells: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    def of(group: str, name: str, part: str = "") -> Any:
        return cells.get((group, name, part))

    def totals(group: str, prefix: str = "") -> dict[str, Any]:
        return {name.lower(): of(group, prefix + name) for name in ("Successful", "Errored", "Incomplete")}

    def stat(group: str, name: str) -> dict[str, Any]:
        listed = of(group, name, "Percentiles")
        if isinstance(listed, list) and len(listed) == len(_PERCENTILES):
            listed = dict(zip(_PERCENTILES, listed, strict=True))
        low, high = at(listed, "min"), at(listed, "max")
        moments = {key: of(group, name, part) for key, part in _MOMENTS.items()}
        return {"successful": moments | {"min": low, "max": high, "percentiles": listed}}

    backend, constraints = of("Run Info", "Backend"), of("Benchmark", "Constraints")
    return {
        "type_": of("Benchmark", "Type") or "",
        "config": {"strategy": _strategy(of), "backend": backend, "constraints": constraints},
        "scheduler_metrics": {"requests_made": totals("Scheduler Metrics", "Requests Made ")},
        "metrics": {
            "request_totals": totals("Request Counts"),
            "request_latency": stat("Request Latency", "Successful Sec"),
            "time_to_first_token_ms": stat("Time to First Token", "Successful ms"),
            "inter_token_latency_ms": stat("Inter Token Latency", "Successful ms"),
            "output_token_count": stat("Token Metrics", "Successful Output Tokens"),
            "output_tokens_per_second": stat("Token Throughput", "Successful Output Tokens/Sec"),
        },
        "duration": of("Timings", "Duration", "Sec"),
        "csv_day": clocks.day_of(str(of("Timings", "Start Time"))),
    }


def _strategy(of: Callable[[str, str], Any]) -> dict[str, Any] | None:
    """`concurrent@6` since 0.7; before, only the kind, and the numbers in the profile."""
    match = _STRATEGY.fullmatch(str(of("Benchmark", "Strategy")))
    if not match:
        return None
    kind, stated = match[1], number(match[2])
    done, index = at(of("Run Info", "Profile"), "completed_strategies"), whole(of("Run Info", "Run Index"))
    if stated is not None:
        return {
            "type_": kind,
            {"concurrent": "streams", "throughput": "max_concurrency"}.get(kind, "rate"): stated,
        }
    known = isinstance(done, list) and index is not None and index < len(done)
    return done[index] if known and at(done[index], "type_") == kind else {"type_": kind}
