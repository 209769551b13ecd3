"""What is found and judged: verdicts, figures, attribution, capacity, comparison."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field

from gate.model.doubts import Doubt, Why
from gate.model.policy import Level, Policy
from gate.model.run import Counts, Load


class Verdict(str, Enum):
    """Of an objective (pass, fail, inconclusive, skipped) or of the whole (no skipped)."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    SKIPPED = "skipped"
    ERROR = "error"


class InputFile(Struct, frozen=True):
    """One file that was read."""

    path: str
    sha256: str
    format: str
    tool: str
    tool_version: str | None


class Check(Struct, frozen=True, kw_only=True):
    """One objective, judged. `interval` is [1 - alpha/2 lower, 1 - alpha/m upper], one-sided each."""

    id: str
    metric: str
    statistic: str
    level: Level
    expected: str = ""  # the rule for a reader, e.g. "P99 TTFT <= 800 ms"
    operator: str
    bound: float | None
    unit: str
    observed: float | None = None
    observed_text: str = ""  # formatted so that it cannot contradict the verdict
    share: float | None = None  # share that met the bound, where the rule is about a share
    interval: tuple[float, float] | None = None
    interval_of: str | None = None  # share, ratio, points or tok_per_s
    n: int | None = None
    requests: int | None = None  # attempted, that it rests on; of a comparison, those of the smaller side
    misses: int | None = None
    misses_range: tuple[int, int] | None = None
    n_eff: float | None = None
    deff: float | None = None
    verdict: Verdict
    cause: str | None = None  # of an inconclusive: evidence or undecided
    doubts: tuple[Why, ...] = ()  # why the evidence is doubted, where that decided
    blocks: bool = False  # this check alone keeps the gate from exiting 0
    reason: str  # the statistics: rule, observed, interval, n, misses, what would settle it
    summary: str = ""  # one line without statistics: what was seen against the rule, and what is missing
    remedy: str = ""  # what a person does about it; empty where only more requests decide
    implied_by: str | None = None  # the objective whose verdict this one follows from
    more_requests: int | None = None  # about how many more would decide
    more_range: tuple[int, int] | None = None  # where the spread of so few runs leaves that number
    headroom: float | None = None  # bound / observed, of a pass
    of_bound: float | None = None  # observed / bound of a percentile of all requests, whatever its verdict
    of_attempted: bool = False  # that percentile is not the one of completed requests: failures are misses
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
    doubt: Why | None = None  # why it must not be judged, though it is shown


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

    by_input_length: tuple[LengthBucket, ...]  # quarters of the requests, fewer where lengths repeat
    by_output_length: tuple[LengthBucket, ...]
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
    counts: Counts | None  # None: the file does not state them
    duration_s: float | None
    goodput: Goodput | None
    metrics: Mapping[str, MetricStats | None]  # by column name: ttft_s, ...
    notes: tuple[str, ...]
    doubts: tuple[Doubt, ...] = ()
    input_tokens: float | None = None  # mean of completed requests
    output_tokens: float | None = None
    failures: Mapping[str, int] = field(default_factory=dict)  # what requests failed with -> how many
    interaction: str | None = None


class LoadReport(Struct, frozen=True):
    """The runs of one load together: a point of the goodput-load curve."""

    load: Load | None
    at_target: bool
    runs: int
    counts: Counts | None  # None: a run does not state its own
    goodput: Goodput | None
    metrics: Mapping[str, MetricStats | None]
    verdict: Verdict | None = None  # of the blocking percentiles, goodput and error rate, were it the target


class Capacity(Struct, frozen=True):
    """The highest load that meets the policy, of those that were measured."""

    load: Load | None  # it meets the policy, and no lower one fails; None: no load is shown to
    fails: Load | None  # the lowest load that fails
    monotone: bool  # False: a load passes above one that fails, or goodput surely rises with load
    text: str  # "at least concurrency 64; concurrency 96 fails (ttft.p99)"


class Effort(Struct, frozen=True):
    """What would decide what is open: runs like those there are, or longer ones instead of them."""

    runs: tuple[int, int]  # at least, and where the spread of few runs leaves it at most
    requests: int  # judged, of each run
    warmup: int  # dropped of each: sent too
    again: bool  # the runs there are too short to count
    seconds: tuple[float, float] | None  # of all of them at the rate there was


class Change(Struct, frozen=True):
    """How one percentile moved against the baseline: growth is candidate / baseline - 1."""

    metric: str
    statistic: str  # "p99"
    baseline_s: float  # geometric mean over its runs
    candidate_s: float
    growth: float  # of the runs' ratios, or of the sides' means
    interval: tuple[float, float] | None  # of growth, one-sided 1 - alpha each; null where nothing gives one
    method: str  # "10 paired runs", "10 against 5 runs", ...
    past_s: tuple[float, ...] = ()  # of each session of a history, oldest first: geometric mean over its runs


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
