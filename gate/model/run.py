"""What a result file holds: runs, their columns and what else a file states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TypeAlias

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from gate.model.doubts import Doubt

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

SAVED_REPORT = "slo-gate report"  # the format of a run read back from a report
METRICS = ("ttft", "tpot", "itl", "e2e")  # as a policy spells them; columns add _s
REQUEST_METRICS = ("ttft", "tpot", "e2e")  # one value a request: these may be in goodput


class Status:
    """Codes of `Requests.status`. Only completed and failed requests are attempted."""

    COMPLETED = 0
    FAILED = 1
    CANCELLED = 2
    WARMUP = 3


class Gaps(Struct, frozen=True, eq=False):
    """Gaps between streamed chunks, flat: those of request i are values_s[offsets[i]:offsets[i + 1]]."""

    values_s: Floats
    offsets: NDArray[np.int64]  # one more than there are requests


class Requests(Struct, frozen=True, eq=False, dict=True):  # dict: tpot_s is computed once
    """Per-request columns, all of one length, in the order of `order`.

    A column the tool never records is None; a cell it failed to record is NaN.
    """

    status: NDArray[np.uint8]  # Status codes
    ttft_s: Floats | None
    e2e_s: Floats | None
    output_tokens: Floats | None
    input_tokens: Floats | None = None
    start_s: Floats | None = None  # any origin; only differences mean anything
    gaps: Gaps | None = None  # decoded only when a rule asks for ITL
    order: str = "unknown"  # start, submission, completion or unknown
    queue_s: Floats | None = None  # waited in the client before it was sent: in no latency
    server_queue_s: Floats | None = None  # waited in the server, as the server says: part of TTFT
    ids: tuple[str, ...] | None = None  # as the tool names its requests
    rows: NDArray[np.int64] | None = None  # place in the run as it was read, from 0; None: as they stand
    server_ttft_s: Floats | None = None  # TTFT as the server says: the client and the network are not in it
    # Rows whose value is doubted, by metric; "failed": rows that count as completed and may have failed.
    doubted: Mapping[str, Bools] = field(default_factory=dict)
    tokenless: Bools | None = None  # rows that failed only because they have no output token

    def __len__(self) -> int:
        return len(self.status)

    @property
    def attempted(self) -> Bools:
        """Completed or failed: never warm-up, never cancelled."""
        return self.status <= Status.FAILED

    @property
    def counts(self) -> Counts:
        """How many rows of each kind."""
        completed, failed, cancelled, warmup = np.bincount(self.status, minlength=4).tolist()
        return Counts(completed + failed, completed, failed, cancelled, warmup)

    @cached_property
    def tpot_s(self) -> Floats | None:
        """(E2E - TTFT) / (output tokens - 1), NaN for one token or fewer (DESIGN section 1)."""
        if self.ttft_s is None or self.e2e_s is None or self.output_tokens is None:
            return None
        steps = np.where(self.output_tokens > 1, self.output_tokens - 1, np.nan)
        return (self.e2e_s - self.ttft_s) / steps


class Summary(Struct, frozen=True):
    """What an aggregate file states of one metric over its completed requests."""

    percentiles: tuple[tuple[float, float], ...] = ()  # (percent, value in base unit), ascending
    mean: float | None = None
    min: float | None = None
    max: float | None = None
    n: int | None = None  # values behind it, where the tool says so


class Aggregate(Struct, frozen=True):
    """Percentiles only. Joint goodput is known only by its bounds."""

    summaries: Mapping[str, Summary]  # by metric
    method: str = "linear"  # or inverted_cdf, exclusive
    rounding_s: float = 0.0  # values are known to within this: half the last printed digit
    settled_by: str = ""  # the flag that would give per-request rows, e.g. `--save-detailed`


class Buckets(Struct, frozen=True, eq=False):
    """Counts per bucket of one metric: counts[i] values lie in (edges_s[i - 1], edges_s[i]]."""

    edges_s: Floats  # upper edges, ascending; the last may be inf
    counts: NDArray[np.int64]
    without: int = 0  # completed requests known to have no value (TPOT of one token); the rest must be in it


class Histogram(Struct, frozen=True):
    """Counts per bucket over completed requests. A bound between two edges is known within a bucket."""

    buckets: Mapping[str, Buckets]  # by metric
    settled_by: str = ""  # what would give a finer answer, e.g. a bound on a bucket edge


Evidence: TypeAlias = Requests | Histogram | Aggregate


class Counts(Struct, frozen=True):
    """How many requests of each kind; attempted = completed + failed."""

    attempted: int
    completed: int
    failed: int
    cancelled: int = 0
    warmup: int = 0


class Load(Struct, frozen=True):
    """One load point. Exactly one of concurrency, request_rate and burst is set."""

    concurrency: int | None = None  # closed loop
    request_rate: float | None = None  # open loop, requests/s
    burst: bool = False  # neither rate nor cap: matches no target
    production: bool = False  # real traffic: request_rate is what was seen, or in a target its minimum
    cap: int | None = None  # client cap on an open loop, shown only

    def at(self, share: float) -> Load:
        """A share of this load, as a benchmark makes it: whole requests in flight, one at least."""
        if self.concurrency is not None:
            # 150 % of 2 is 3, whatever the floats say; of a half, the heavier.
            return Load(concurrency=max(1, math.floor(round(self.concurrency * share, 9) + 0.5)))
        return Load(
            request_rate=float(f"{(self.request_rate or 0.0) * share:.10g}"), production=self.production
        )

    @property
    def number(self) -> str:
        """The load as a command line takes it; two different ones never have the same."""
        return str(self.concurrency) if self.concurrency is not None else f"{self.request_rate or 0:.10g}"

    def __str__(self) -> str:
        if self.concurrency is not None:
            return f"concurrency {self.concurrency}"
        if self.production:
            return f"production, {self.request_rate or 0:.4g} req/s"
        if self.request_rate is not None:
            capped = f" (client cap {self.cap})" if self.cap is not None else ""
            return f"{self.request_rate:g} req/s{capped}"
        return "burst"


class ToolReported(Struct, frozen=True):
    """The tool's own percentiles of one metric, by its own definition and method."""

    percentiles: tuple[tuple[float, float], ...]
    method: str  # e.g. "numpy linear over completed requests"
    mean: float | None = None


class Run(Struct, frozen=True, eq=False):
    """One measured load point of one execution of one tool."""

    input: str  # the file as the caller named it
    sha256: str  # of its bytes as stored
    format: str  # e.g. "vllm detailed"
    tool: str
    evidence: Evidence
    counts: Counts
    tool_version: str | None = None
    model: str | None = None
    hardware: str | None = None
    session: str | None = None
    interaction: str | None = None
    scenario: str | None = None  # a workload the tool names; runs of two never pool
    load: Load | None = None
    duration_s: float | None = None
    date: str | None = None  # of the measurement, YYYY-MM-DD, as the file states it
    total_output_tokens: float | None = None  # of completed requests
    streaming: bool | None = None
    definitions: Mapping[str, str] = field(default_factory=dict)  # metric -> the tool's own formula
    tool_reported: Mapping[str, ToolReported] = field(default_factory=dict)  # by metric
    doubts: tuple[Doubt, ...] = ()
    # Metric, error_rate or goodput -> what to know wherever it is judged.
    caveats: Mapping[str, str] = field(default_factory=dict)
    stated: frozenset[str] = frozenset()  # facts the caller stated with --set
    notes: tuple[str, ...] = ()
    content_sha256: str = ""  # of its bytes unpacked; the set of files fills it in
    measurement: str = ""  # digest of its latencies or statistics, filled in likewise; "": too few to tell
    tokenizer: str | None = None  # the client's, by name: token counts of another do not compare
    prompts: int | None = None  # different prompt texts of the requests; None: the file holds no text
    columns: Mapping[str, str] = field(default_factory=dict)  # stated by the caller: ours -> the file's name
    failures: Mapping[str, int] = field(default_factory=dict)  # what requests failed with -> how many

    def doubt(self, of: str) -> Doubt | None:
        """The first doubt about all requests of a metric, goodput, error_rate or attempted."""
        return next((doubt for doubt in self.doubts if doubt.requests is None and of in doubt.of), None)

    @property
    def doubted(self) -> dict[str, str]:
        """What is doubted -> why, the first doubt of each; also where it is about some requests only."""
        return {of: doubt.why for doubt in reversed(self.doubts) for of in doubt.of}


class Baseline(Struct, frozen=True, eq=False):
    """What the judged runs are compared with."""

    runs: tuple[Run, ...]
    same_session: bool = False  # stated by the caller: one job on one node measured both sides
    allowed: frozenset[str] = frozenset()  # facts that may differ: tool, model, hardware, load, ...
    notes: tuple[str, ...] = ()
    reported: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of a result -> the report of it
    fault: str = ""  # why it cannot be read at all; then it has no runs
    remembered: bool = False  # its runs are sessions of a history, the newest first
