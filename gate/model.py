"""Every noun of slo-gate, frozen: what readers give, what a policy asks, what a report says.

Seconds, tokens and shares throughout; the unit is in the name. Verbs live elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from enum import Enum
from functools import cached_property
from typing import TypeAlias

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

SAVED_REPORT = "slo-gate report"  # the format of a run read back from a report
METRICS = ("ttft", "tpot", "itl", "e2e")  # as a policy spells them; columns add _s
REQUEST_METRICS = ("ttft", "tpot", "e2e")  # one value a request: these may be in goodput


# ---- what a result file holds -------------------------------------------------------------


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
    # Metric or error_rate -> why not judged; "attempted" -> why it is not known how many were attempted, so
    # that failures may be missing from the file: a FAIL stands, a PASS does not.
    unsuitable: Mapping[str, str] = field(default_factory=dict)
    stated: frozenset[str] = frozenset()  # facts the caller stated with --set
    notes: tuple[str, ...] = ()
    content_sha256: str = ""  # of its bytes unpacked; the set of files fills it in
    tokenizer: str | None = None  # the client's, by name: token counts of another do not compare
    prompts: int | None = None  # different prompt texts of the requests; None: the file holds no text


class Baseline(Struct, frozen=True, eq=False):
    """What the judged runs are compared with."""

    runs: tuple[Run, ...]
    same_session: bool = False  # stated by the caller: one job on one node measured both sides
    allowed: frozenset[str] = frozenset()  # facts that may differ: tool, model, hardware, load, ...
    notes: tuple[str, ...] = ()
    reported: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of a result -> the report of it


# ---- what a policy asks -------------------------------------------------------------------


class Level(str, Enum):
    """How much an objective weighs: only a blocking one can fail the gate."""

    BLOCK = "block"
    WARN = "warn"
    INFO = "info"


class Condition(Struct, frozen=True):
    """One comparison of a `when`."""

    column: str  # input_tokens or output_tokens
    op: str  # < <= > >=
    value: int


class When(Struct, frozen=True):
    """The requests a bound is about: all conditions hold."""

    conditions: tuple[Condition, ...]
    text: str  # canonical, e.g. "output_tokens<300"


class RequestBound(Struct, frozen=True):
    """One per-request bound of goodput."""

    metric: str  # one of REQUEST_METRICS
    max_s: float
    when: When | None = None
    line: int = 0


class Kind(str, Enum):
    """What judges an objective."""

    LATENCY = "latency"  # share of requests within `bound` is at least `share`
    MEAN = "mean"  # shown, never judged
    GOODPUT = "goodput"
    ERROR_RATE = "error_rate"
    THROUGHPUT = "throughput"
    HEADROOM = "headroom"  # goodput drops by at most `bound` from one load to a higher one
    REGRESSION = "regression"  # growth of a percentile against a baseline is at most `bound`
    RULE = "rule"  # evidence and conformance: met, missing or different


class Objective(Struct, frozen=True):
    """One thing the policy asks, as declared."""

    id: str  # "ttft.p99", "goodput", "evidence.runs", ...
    kind: Kind
    level: Level
    metric: str
    statistic: str = ""  # "p99", "mean", "share", "min", ...
    operator: str = "<="
    bound: float | None = None  # base unit of `unit`
    unit: str = ""  # units.SECONDS, units.SHARE, ...
    share: float | None = None  # for percentiles and goodput: the share that must meet the bound
    when: When | None = None
    expected: str = ""  # a rule's demand in words, e.g. the model glob
    line: int = 0  # in the policy file, from 1
    floor_s: float | None = None  # of a regression: growth by less than this is fine whatever its share
    required: bool = False  # of a regression: a missing baseline blocks
    between: tuple[float, float] | None = None  # of headroom: the two loads as shares of the target


class TokenRule(Struct, frozen=True):
    """Declared token lengths of the workload."""

    mean: float
    stddev: float | None
    tolerance: float  # share of the mean


class Workload(Struct, frozen=True):
    """The benchmark that was promised."""

    model: str | None = None  # glob
    hardware: str | None = None
    interaction: str | None = None
    target: Load | None = None  # where objectives are judged
    sweep: tuple[float, ...] = ()  # shares of the target that must be covered
    input_tokens: TokenRule | None = None
    output_tokens: TokenRule | None = None


class EvidenceRules(Struct, frozen=True):
    """How certain a verdict must be and what the evidence must hold."""

    confidence: float = 0.95
    decide: str = "confident"  # or point
    runs_min: int | None = None
    requests_per_run_min: int | None = None
    tool_version_required: bool = False
    tool_name: str | None = None
    warmup: int | str = 0  # requests dropped from the start of each run, or "auto"
    attempted: str | None = None  # the gateway counter of answers, for metrics scraped from engines


class Waiver(Struct, frozen=True):
    """A blocking failure somebody has signed for, until a day."""

    objective: str
    until: date
    owner: str
    reason: str
    line: int = 0


class Policy(Struct, frozen=True):
    """A loaded and checked policy, profile applied."""

    name: str
    path: str
    sha256: str
    objectives: tuple[Objective, ...]
    goodput_bounds: tuple[RequestBound, ...] = ()  # empty without a goodput section
    profile: str | None = None
    undecided: str = "block"  # block, lean or allow
    workload: Workload = Workload()
    evidence: EvidenceRules = EvidenceRules()
    cancelled: str = "exclude"  # or miss
    single_token_tpot: str = "ignore"  # or miss
    waivers: tuple[Waiver, ...] = ()
    notes: tuple[str, ...] = ()


# ---- what a report says -------------------------------------------------------------------


class Verdict(str, Enum):
    """Of an objective (pass, fail, inconclusive, skipped) or of the whole (no skipped)."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    SKIPPED = "skipped"
    ERROR = "error"


class Check(Struct, frozen=True):
    """One objective, judged. `interval` is [1 - alpha/2 lower, 1 - alpha/m upper], one-sided each."""

    id: str
    metric: str
    statistic: str
    level: Level
    operator: str
    bound: float | None
    unit: str
    verdict: Verdict
    reason: str  # a sentence: rule, observed, interval, n, misses, what would settle it
    expected: str = ""  # the rule for a reader, e.g. "P99 TTFT <= 800 ms"
    observed: float | None = None
    observed_text: str = ""  # formatted so that it cannot contradict the verdict
    share: float | None = None  # share that met the bound, where the rule is about a share
    interval: tuple[float, float] | None = None
    interval_of: str | None = None  # share, ratio, points or tok_per_s
    n: int | None = None
    misses: int | None = None
    misses_range: tuple[int, int] | None = None
    n_eff: float | None = None
    deff: float | None = None
    cause: str | None = None  # of an inconclusive: evidence or undecided
    blocks: bool = False  # this check alone keeps the gate from exiting 0
    more_requests: int | None = None  # about how many more would decide
    headroom: float | None = None  # bound / observed, of a pass
    policy_line: int = 0
    waived: str | None = None  # "until 2027-01-31, serving: kernel fix in flight"


class MetricStats(Struct, frozen=True):
    """One metric over completed requests; percentiles are nearest-rank (numpy inverted_cdf)."""

    n: int | None
    p50: float | None
    p90: float | None
    p99: float | None
    mean: float | None
    min: float | None
    max: float | None
    tool_reported: Mapping[str, float | str] | None = None


class Misses(Struct, frozen=True):
    """Attempted requests that were not good, by the only bound they broke."""

    ttft: int
    tpot: int
    e2e: int
    several: int
    failed: int


class Goodput(Struct, frozen=True):
    """Goodput of the runs at the target (or of one run). Nulls where it cannot be known."""

    fraction: float | None
    interval: tuple[float, float] | None
    good: int | None
    attempted: int | None
    requests_per_s: float | None
    tokens_per_s: float | None
    misses: Misses | None
    range: tuple[float, float] | None = None  # of the fraction, from marginals


class Percentiles(Struct, frozen=True):
    """P50, P90 and P99 of one latency over completed requests, nearest rank."""

    p50: float
    p90: float
    p99: float


class LengthBucket(Struct, frozen=True):
    """The requests whose input or output length lies in [low, high] tokens."""

    low: int
    high: int
    n: int  # attempted by input length, completed by output length: a failed one has no output
    good: int | None  # None without a goodput section
    misses: Misses | None
    ttft_s: Percentiles | None
    e2e_s: Percentiles | None


class TtftParts(Struct, frozen=True):
    """Where the time to the first token goes, as means (which add up) and P99s (which do not), in s."""

    of: str  # "completed", or "missed ttft": those that broke their TTFT bound
    n: int
    client_queue: tuple[float, float] | None  # (mean, P99), before the request was sent: on top of TTFT
    server_queue: tuple[float, float] | None  # (mean, P99)
    rest: tuple[float, float]  # (mean, P99) of TTFT less the server's queue: network and prefill


class WorstRequest(Struct, frozen=True):
    """A completed request far from its bounds."""

    input: str
    row: int  # place in its run as the file has it, from 0
    id: str | None
    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None
    input_tokens: int | None
    output_tokens: int | None
    broke: tuple[str, ...]  # the metrics whose bound it broke
    times_bound: float | None  # its worst value / bound; None without a goodput section


class WorstRun(Struct, frozen=True):
    """A judged run with more misses than others."""

    input: str
    good: int
    attempted: int
    share_of_misses: float  # of all misses of the judged runs


class Attribution(Struct, frozen=True):
    """Which of the judged requests missed, and where the time went."""

    by_input: tuple[LengthBucket, ...]  # quarters of the requests, fewer where lengths repeat
    by_output: tuple[LengthBucket, ...]
    ttft_parts: tuple[TtftParts, ...]  # empty where no file has a queue time
    worst_runs: tuple[WorstRun, ...]  # with far more misses than others, most first; empty for one run
    worst_requests: tuple[WorstRequest, ...]


class Needed(Struct, frozen=True):
    """The bound at which a share would be met, all else as it is. Rounded up to three digits."""

    point: float | None  # s, by the estimate; None: at no bound
    confident: float | None  # s, with the policy's confidence; None under `decide: point`, or at no bound
    why: str = ""  # why there is none


class MovedPoint(Struct, frozen=True):
    """Goodput at another bound."""

    max_s: float
    good: int
    fraction: float
    verdict: str  # pass, fail or undecided, as the policy decides


class Move(Struct, frozen=True):
    """One per-request bound, moved while the others stay."""

    id: str  # "ttft", "e2e[output_tokens<300]"
    metric: str
    max_s: float  # as the policy has it
    points: tuple[MovedPoint, ...]  # ascending, the policy's own bound among them where it is in range
    needed: Needed
    only: int  # misses that break this bound alone: what removing it would gain
    gain_at_10_percent: float  # goodput gained by a bound 10 % looser, as a share
    gain_at_most: float  # goodput gained without the bound


class MovedObjective(Struct, frozen=True):
    """A percentile objective and the bound at which it would be met."""

    id: str
    bound: float
    needed: Needed


class Grid(Struct, frozen=True):
    """Goodput at each pair of two bounds."""

    x: str  # id of a Move
    y: str
    x_max_s: tuple[float, ...]
    y_max_s: tuple[float, ...]
    fraction: tuple[tuple[float, ...], ...]  # one row for each of y_max_s


class WhatIf(Struct, frozen=True):
    """Goodput as its bounds move."""

    policy: Policy
    inputs: tuple[str, ...]
    attempted: int
    good: int | None  # None without a goodput section
    target: float | None
    confidence: float | None  # None under `decide: point`
    verdict: str | None  # of goodput as it is
    binding: str | None  # the Move whose removal gains most; None where nothing is gained
    moves: tuple[Move, ...]
    grid: Grid | None
    objectives: tuple[MovedObjective, ...]
    notes: tuple[str, ...] = ()


class RunReport(Struct, frozen=True):
    """One run as the report shows it."""

    input: str
    format: str
    tool: str
    tool_version: str | None
    model: str | None
    hardware: str | None
    session: str | None
    load: Load | None
    evidence: str  # requests, histogram or aggregate
    at_target: bool
    counts: Counts
    duration_s: float | None
    goodput: Goodput | None
    metrics: Mapping[str, MetricStats | None]  # by column name: ttft_s, ...
    notes: tuple[str, ...]
    input_tokens: float | None = None  # mean of completed requests
    output_tokens: float | None = None


class LoadReport(Struct, frozen=True):
    """The runs of one load together: a point of the goodput-load curve."""

    load: Load | None
    at_target: bool
    runs: int
    counts: Counts
    goodput: Goodput | None
    metrics: Mapping[str, MetricStats | None]
    verdict: Verdict | None = None  # of the blocking percentiles, goodput and error rate, were it the target


class Capacity(Struct, frozen=True):
    """The highest load that meets the policy, of those that were measured."""

    load: Load | None  # it meets the policy, and no lower one fails; None: no load is shown to
    fails: Load | None  # the lowest load that fails
    monotone: bool  # False: a load passes above one that fails, or goodput surely rises with load
    text: str  # "at least concurrency 64; concurrency 96 fails (ttft.p99)"


class Change(Struct, frozen=True):
    """How one percentile moved against the baseline: growth is candidate / baseline - 1."""

    metric: str
    statistic: str  # "p99"
    baseline_s: float  # geometric mean over its runs
    candidate_s: float
    growth: float  # of the runs' ratios, or of the sides' means
    interval: tuple[float, float] | None  # of growth, one-sided 1 - alpha each; null where nothing gives one
    method: str  # "10 paired runs", "10 against 5 runs", ...


class Comparison(Struct, frozen=True):
    """The judged runs of one load beside the baseline."""

    name: str  # of the baseline, for people
    load: Load | None
    inputs: tuple[InputFile, ...]  # of the baseline
    kind: str  # same session, stored sessions (ten or more: a band), or stored (advisory)
    sessions: int  # of the baseline
    runs: tuple[int, int]  # compared: of the baseline, of the candidate
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = ()


# ---- what a picture shows: thinned, so that a page stays small; only where it is asked for ----


class CurveBound(Struct, frozen=True):
    """A bound on a curve, and the quantile that is compared with it."""

    id: str  # of the objective; "goodput" for its per-request bound
    bound_s: float
    share: float | None  # that must be within it; None for a per-request bound
    value_s: float | None  # the quantile at that share; None where failures push it out of reach
    verdict: Verdict | None  # of the objective


class Curve(Struct, frozen=True):
    """What share of all attempted requests had a latency within how many seconds."""

    metric: str
    of: str  # requests, gaps, buckets (exact at their edges) or percentiles (as the tool states them)
    n: int
    failed: int  # of n without a value, so that the curve ends below 100 %
    values_s: tuple[float, ...]  # ascending
    shares: tuple[float, ...]  # of n within each value
    percentiles: tuple[tuple[float, float | None], ...]  # (percent, s): P5 to P95, P99; None out of reach
    bounds: tuple[CurveBound, ...]
    median_s: float  # where half of n is reached, else the largest value


class Dot(Struct, frozen=True):
    """One request of a scatter."""

    x: float  # s, place in the run, or tokens
    value_s: float
    run: int  # place in Charts.inputs
    row: int  # place in its run as the file has it, from 0
    kind: str  # good, missed, warm-up, or completed where the policy has no goodput section


class Failed(Struct, frozen=True):
    """Failed requests that stand at one place."""

    x: float
    number: int


class Window(Struct, frozen=True):
    """The requests that began between low and high."""

    low: float
    high: float
    n: int  # attempted
    failed: int
    p50_s: float | None  # of the completed
    p99_s: float | None


class Scatter(Struct, frozen=True):
    """One latency against time or length: a sample with every extreme in it, and all failures."""

    metric: str
    x: str  # time (s since the run began), order (place in the run), input_tokens or output_tokens
    n: int  # requests the sample stands for
    dots: tuple[Dot, ...]
    failed: tuple[Failed, ...]
    windows: tuple[Window, ...]  # of time or order; empty for a length
    bound_s: float | None  # the per-request bound, where one holds for every request
    failures: int  # of all places in `failed`
    median: tuple[float, float]  # of x and of value_s, over the n requests


class MissSet(Struct, frozen=True):
    """Requests that broke exactly these bounds."""

    broke: tuple[str, ...]  # metrics, or failed alone
    number: int


class LoadPoint(Struct, frozen=True):
    """Goodput at one load."""

    load: Load
    at_target: bool
    runs: int
    n: int
    fraction: float
    interval: tuple[float, float] | None


class Charts(Struct, frozen=True):
    """The data of every picture. Empty where the evidence has none."""

    inputs: tuple[str, ...]  # of the judged runs; Dot.run counts in it
    curves: tuple[Curve, ...]
    over_time: tuple[Scatter, ...]
    by_length: tuple[Scatter, ...]
    misses: tuple[MissSet, ...]  # most first
    loads: tuple[LoadPoint, ...]  # ascending
    whatif: WhatIf | None


class Inspection(Struct, frozen=True):
    """What one run holds: every metric under both conventions, and what it can prove."""

    run: RunReport
    judged: Mapping[str, str]  # metric, goodput or error_rate -> how it can be judged
    unjudged: Mapping[str, str]  # the same -> why not, and what would settle it
    definitions: Mapping[str, str]  # metric -> the tool's own formula
    tool_reported: Mapping[str, ToolReported]


class InputFile(Struct, frozen=True):
    """One file that was read."""

    path: str
    sha256: str
    format: str
    tool: str
    tool_version: str | None


class Provenance(Struct, frozen=True):
    """Where the numbers come from, as one line of every output."""

    line: str
    reproduce: str = ""  # the command; the caller knows it


class Report(Struct, frozen=True):
    """The whole answer. Emitters only lay it out."""

    verdict: Verdict
    exit_code: int
    headline: str
    next_action: str
    policy: Policy
    inputs: tuple[InputFile, ...]
    runs: tuple[RunReport, ...]
    checks: tuple[Check, ...]  # in policy order
    goodput: Goodput | None
    metrics: Mapping[str, MetricStats | None]
    notes: tuple[str, ...]
    provenance: Provenance
    change: str = ""  # against the baseline, with its interval
    report_only: bool = False
    loads: tuple[LoadReport, ...] = ()  # ascending; runs of one load that must not pool stand apart
    baseline: Comparison | None = None
    attribution: Attribution | None = None  # None where a judged run has no rows
    capacity: Capacity | None = None  # None where fewer than two loads were measured
    measure_next: str = ""  # one paragraph, only where the data shows a weakness
    charts: Charts | None = None  # None unless asked for: `evaluate(..., charts=True)`


class ErrorReport(Struct, frozen=True):
    """What the requested outputs say when there is no verdict: exit 2, 3 or 70."""

    exit_code: int
    headline: str
    message: str
    where: str
    hint: str


AnyReport: TypeAlias = Report | ErrorReport
