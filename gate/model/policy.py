"""What a policy asks."""

from __future__ import annotations

from datetime import date
from enum import Enum

from msgspec import Struct

from gate.model.run import Load


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
    unproven: bool = False  # of a rule: it is information where no row shows it, as the caller states


class TokenRule(Struct, frozen=True):
    """Declared token lengths of the workload."""

    mean: float
    stddev: float | None = None
    tolerance: float = 0.1  # share of the mean


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
    run_spread: float = 0.05  # by which latencies of runs may differ, where fewer than five do not show it
    runs_min: int | None = None
    requests_per_run_min: int | None = None
    tool_version_required: bool = False
    tool_name: str | None = None
    warmup: int | str = 0  # requests dropped from the start of each run, or "auto"
    attempted: str | None = None  # the gateway counter of answers, for metrics scraped from engines
    ignore: tuple[str, ...] = ()  # patterns of files that are left out


class Waiver(Struct, frozen=True):
    """A blocking failure somebody has signed for, until a day."""

    objective: str
    until: date
    owner: str
    reason: str
    line: int = 0


class HistoryRules(Struct, frozen=True):
    """Which remembered sessions are the baseline."""

    store: str
    base_branch: str
    last: int


class Policy(Struct, frozen=True):
    """A loaded and checked policy, profile applied."""

    name: str
    path: str
    sha256: str
    objectives: tuple[Objective, ...]
    goodput_bounds: tuple[RequestBound, ...] = ()  # empty without a goodput section
    profile: str | None = None
    default_profile: str | None = None  # what judges where no profile is named
    undecided: str = "block"  # block, lean or allow
    workload: Workload = Workload()
    profiles: tuple[str, ...] = ()  # every profile the file has
    tokenless: bool = False  # the endpoint makes no tokens (embeddings, rerank): stated, not guessed
    evidence: EvidenceRules = EvidenceRules()
    cancelled: str = "exclude"  # or miss
    single_token_tpot: str = "ignore"  # or miss
    waivers: tuple[Waiver, ...] = ()
    history: HistoryRules | None = None
    notes: tuple[str, ...] = ()
    repository_path: str | None = None  # from the repository's root; empty outside; None: not known

    @property
    def requires_baseline(self) -> bool:
        """Whether the gate blocks without a baseline to compare with."""
        return any(one.required and one.level is Level.BLOCK for one in self.objectives)
