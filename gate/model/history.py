"""What is remembered of a benchmark session: one JSON line each, schemas/history.schema.json.

The shape is published: keys may be added, and a key that is here keeps its name, type, unit and meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field

from gate.model.judged import Verdict
from gate.model.policy import Level, Workload
from gate.model.run import Counts, Load, Run

HISTORY_VERSION = 1


class RecordedMetric(Struct, frozen=True, omit_defaults=True):
    """One metric of one run over its completed requests, in s; percentiles are nearest-rank."""

    n: int | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    mean: float | None = None


class RecordedRun(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One run of a session: the facts that decide what it compares with, and its figures."""

    input: str  # as its report names the file
    sha256: str  # of that file
    tool: str
    tool_version: str | None = None
    model: str | None = None
    hardware: str | None = None
    session: str | None = None
    interaction: str | None = None
    load: Load | None = None
    at_target: bool  # whether it was judged
    counts: Counts | None = None  # None: not stated, which is not zero
    duration_s: float | None = None
    goodput: float | None = None  # share of attempted requests; None without a goodput section
    metrics: Mapping[str, RecordedMetric] = field(default_factory=dict)  # by column name: ttft_s, ...
    input_tokens: float | None = None  # mean of completed requests
    output_tokens: float | None = None

    @property
    def error_rate(self) -> float | None:
        """Failed of attempted requests; None where that is not known or nothing was attempted."""
        return self.counts.failed / self.counts.attempted if self.counts and self.counts.attempted else None


class RecordedPolicy(Struct, frozen=True, omit_defaults=True):
    """What judged a session."""

    name: str
    sha256: str  # of the file's bytes
    profile: str | None = None
    undecided: str = "block"
    workload: Workload | None = None  # what was promised; None: its report is of an older slo-gate


class RecordedObjective(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One objective of the policy and its verdict."""

    id: str
    metric: str
    statistic: str
    level: Level
    operator: str
    bound: float | None = None
    unit: str
    observed: float | None = None
    verdict: Verdict
    cause: str | None = None  # of an inconclusive: evidence or undecided
    waived: str | None = None  # who signed for its failure, until when and why


class SessionRecord(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="kind", tag="session"):
    """One judged benchmark session of one commit.

    `id` is the SHA-256 of the line without it. `time` is UTC to the second, 2027-01-12T08:00:00Z.
    """

    id: str = ""
    schema_version: int
    time: str
    commit: str
    branch: str
    tags: tuple[str, ...] = ()
    policy: RecordedPolicy
    report_sha256: str  # of the report it was made from
    verdict: Verdict
    exit_code: int
    objectives: tuple[RecordedObjective, ...] = ()
    runs: tuple[RecordedRun, ...] = ()


class Acceptance(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="kind", tag="accept"):
    """Somebody takes sessions into the baseline that would be left out of it."""

    id: str = ""
    schema_version: int
    time: str
    commit: str
    sessions: tuple[str, ...]  # ids of the records; later ones of the same commit are not among them
    reason: str = ""


class Remembered(Struct, frozen=True, eq=False):
    """A session of history, offered as baseline."""

    name: str  # for people
    runs: tuple[Run, ...]
    results: frozenset[str]  # SHA-256 of its result files, and what else tells its runs from others
    workload: Workload | None = None  # that its policy promised; None: not known
    left_out: str = ""  # why it must not be in a baseline


HistoryLine: TypeAlias = SessionRecord | Acceptance
