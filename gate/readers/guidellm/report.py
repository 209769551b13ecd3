"""What a GuideLLM report holds, of every layout from 0.2 to 0.8, and where JSON and YAML become it.

0.2 and 0.3 say `args`, `run_stats` and `worker` where 0.4 and later say `config` and `scheduler_metrics`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

from ..source import BROKEN, Source

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Number = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]  # nothing measured is larger; sums stay finite

_YAML_HEAD = re.compile(r"^(?:benchmarks:\n- |args:$|config:$)", re.MULTILINE)
_YAML_OURS = re.compile(
    r"^\s+(?:- )?(?:inter_token_latency_ms:|type_: generative_benchmark$|guidellm_version: )", re.MULTILINE
)
_RUN_ID = re.compile(r"""\brun_id["']?:\s*["']?([\w-]+)""")


class Timings(msgspec.Struct, gc=False):
    """Moments of one request, epoch seconds."""

    targeted_start: Number | None = None
    request_start: Number | None = None
    resolve_start: Number | None = None
    request_end: Number | None = None
    resolve_end: Number | None = None
    first_token_iteration: Number | None = None
    last_token_iteration: Number | None = None
    token_iterations: Count | None = None  # chunks with content


class Info(msgspec.Struct, gc=False):
    """What the scheduler knows of one request."""

    timings: Timings | None = None
    error: str | None = None


class Usage(msgspec.Struct, gc=False):
    """Tokens as the server counted them."""

    total_tokens: Count | None = None
    text_tokens: Count | None = None


class Row(msgspec.Struct, gc=False):
    """One request. 0.2 and 0.3 have the last four times and `error` here, later ones in `info`."""

    request_start_time: Number | None = None
    request_end_time: Number | None = None
    request_latency: Number | None = None  # s
    time_to_first_token_ms: Number | None = None
    prompt_tokens: Count | None = None
    output_tokens: Count | None = None
    output_metrics: Usage | None = None
    info: Info | None = None
    start_time: Number | None = None
    end_time: Number | None = None
    first_token_time: Number | None = None
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


class Group(msgspec.Struct):
    """Only the successful: errored requests enter `errored` and `total` as zeros."""

    successful: Stat | None = None


class Metrics(msgspec.Struct):
    """The aggregates over the requests that overlap the measurement window."""

    request_totals: Totals | None = None
    request_latency: Group | None = None  # s
    time_to_first_token_ms: Group | None = None
    inter_token_latency_ms: Group | None = None
    output_token_count: Group | None = None
    output_tokens_per_second: Group | None = None
    slo_attainment: Number | None = None  # share
    slo_determined_requests: Count | None = None


class Strategy(msgspec.Struct):
    """How requests were sent."""

    type_: str | None = None
    streams: Count | None = None
    rate: Number | None = None  # requests/s
    max_concurrency: Count | None = None
    rampup_duration: Number | None = None  # s


class Backend(msgspec.Struct):
    """Where they were sent."""

    model: str | None = None
    stream: bool | None = None


class Slo(msgspec.Struct):
    """GuideLLM's own bounds, ms."""

    ttft_ms: Number | None = None
    tpot_ms: Number | None = None
    e2el_ms: Number | None = None


class Config(msgspec.Struct):
    """What one benchmark was asked to do."""

    run_id: str | None = None
    strategy: Strategy | None = None
    backend: Backend | None = None
    slo: Slo | None = None


class Worker(msgspec.Struct):
    """The backend of 0.2 and 0.3."""

    backend_model: str | None = None


class Scheduled(msgspec.Struct):
    """The measurement window and how many requests were made at all."""

    measure_start_time: Number | None = None
    measure_end_time: Number | None = None
    requests_made: Totals | None = None


class Warned(msgspec.Struct):
    """A doubt of GuideLLM's own."""

    message: str | None = None


class Benchmark(msgspec.Struct):
    """One load point."""

    type_: str = ""
    config: Config | None = None
    args: Config | None = None  # until 0.3
    worker: Worker | None = None  # until 0.3
    scheduler_metrics: Scheduled | None = None
    run_stats: Scheduled | None = None  # until 0.3
    metrics: Metrics | None = None
    request_totals: Totals | None = None  # until 0.3; later in metrics
    requests: Rows | None = None
    warnings: list[Warned] | None = None
    start_time: Number | None = None  # epoch s
    duration: Number | None = None  # of the measurement window, s

    @property
    def is_old(self) -> bool:
        """Written by 0.3 or older: no window, and time_per_output_token_ms without TTFT."""
        return self.run_stats is not None or (self.args is not None and self.config is None)

    @property
    def totals(self) -> Totals | None:
        """Requests behind the metrics."""
        return (self.metrics.request_totals if self.metrics else None) or self.request_totals

    @property
    def made(self) -> Totals | None:
        """Requests made at all, warm-up among them."""
        scheduled = self.scheduler_metrics or self.run_stats
        return scheduled.requests_made if scheduled else None

    @property
    def asked(self) -> Config:
        """What was asked for, in either generation's place."""
        return self.config or self.args or Config()


class Metadata(msgspec.Struct):
    """Who wrote the report; absent until 0.3."""

    guidellm_version: str | None = None


class Report(msgspec.Struct):
    """A whole file."""

    metadata: Metadata | None = None
    benchmarks: list[Benchmark] = []


class _Typed(msgspec.Struct):
    type_: str = ""


def is_json(source: Source) -> bool:
    """Whether it is a report as JSON, by its metadata or the type of its benchmarks."""
    if source.shape != "object" or "benchmarks" not in source.keys:
        return False
    metadata = source.doc.any("metadata")
    if isinstance(metadata, dict) and "guidellm_version" in metadata:
        return True
    try:
        found = msgspec.json.decode(source.doc.fields["benchmarks"], type=list[_Typed])
    except BROKEN:
        return False
    return bool(found) and found[0].type_ == "generative_benchmark"


def is_yaml(source: Source) -> bool:
    """Whether it is a report as YAML, by what its first 64 KiB hold."""
    if source.shape != "text":
        return False
    return _YAML_HEAD.search(source.head) is not None and _YAML_OURS.search(source.head) is not None


def load(source: Source) -> Report:
    """The report. Raises InputError for broken text or a field of the wrong type."""
    if source.shape == "text":
        return _load_yaml(source)
    doc = source.doc
    return Report(doc.get("metadata", Metadata), doc.get("benchmarks", list[Benchmark]) or [])


def _load_yaml(source: Source) -> Report:
    import yaml  # not at start-up: only this format needs it

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return msgspec.convert(yaml.load(bytes(source.data), loader), Report)
    except msgspec.ValidationError as error:
        text = str(error)
        raise source.fail(text[:1].lower() + text[1:]) from None
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise source.fail(
            f"is not YAML: {why}", hint="copy the file whole, or write benchmarks.json"
        ) from None


def run_id(text: str) -> str | None:
    """The run's own id, where the head of a report as JSON or YAML holds it."""
    found = _RUN_ID.search(text)
    return found[1] if found else None
