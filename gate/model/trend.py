"""What many sessions say together: figures over commits, where they changed, and how much they vary.

The shape of `Trend` is published as schemas/trend.schema.json: keys may be added, and a key that is there
keeps its name, type, unit and meaning.
"""

from __future__ import annotations

from msgspec import Struct

from gate.model.judged import Verdict
from gate.model.policy import Level

TREND_VERSION = 1


class TrendMark(Struct, frozen=True):
    """What else was different from the session before: a reason for a figure to move that is no code."""

    kind: str  # policy, workload, tool, release or waiver
    text: str


class TrendSession(Struct, frozen=True, kw_only=True):
    """One session of a subject."""

    id: str
    time: str  # UTC, 2027-01-12T08:00:00Z
    commit: str
    verdict: Verdict
    left_out: str = ""  # why no baseline has it; empty where one may
    marks: tuple[TrendMark, ...] = ()


class TrendSeries(Struct, frozen=True, kw_only=True):
    """One figure over the sessions of its subject, in their order."""

    id: str  # ttft.p99, goodput, error_rate
    unit: str  # s or share
    values: tuple[float | None, ...]  # None: not measured there
    bounds: tuple[float | None, ...]  # that the policy had then; None: none, or another load was judged

    @property
    def median(self) -> float | None:
        """The median of the values that are known, of an even number the lower one."""
        known = sorted(value for value in self.values if value is not None)
        return known[(len(known) - 1) // 2] if known else None

    @property
    def operator(self) -> str:
        """How a value stands to a bound that it keeps."""
        return ">=" if self.id == "goodput" else "<="


class TrendMove(Struct, frozen=True, kw_only=True):
    """How a series moved at a change point."""

    series: str  # its id
    before: float  # the typical session before, geometric mean of seconds
    after: float
    change: float  # after / before - 1, or after - before of shares
    interval: tuple[float, float]  # of the change, 95 %
    interval_of: str  # ratio or points
    worse: bool


class TrendChange(Struct, frozen=True, kw_only=True):
    """A change point: the session from which figures stay at another level.

    It happened after the session `good` and not after the session `bad` (99 %); indices into the sessions.
    """

    at: int
    good: int
    bad: int
    commit: str  # of the session `at`
    good_commit: str
    bad_commit: str
    bisect: str  # the command that starts a search of the commit; empty where no other commit was measured
    moves: tuple[TrendMove, ...]  # the clearest first


class TrendLoad(Struct, frozen=True, kw_only=True):
    """One load of a subject."""

    load: str
    judged: bool  # whether the newest session was judged at it
    series: tuple[TrendSeries, ...]
    changes: tuple[TrendChange, ...]


class TrendObjective(Struct, frozen=True, kw_only=True):
    """An objective of the newest session's policy, and since when it fails."""

    id: str
    level: Level
    verdict: Verdict
    failing: int  # sessions in a row up to the newest that knows it; 0: it does not fail
    since: str = ""  # commit of the first of them
    since_time: str = ""


class TrendSubject(Struct, frozen=True, kw_only=True):
    """What is followed: sessions of one policy with one tool, model and hardware."""

    policy: str
    tool: str
    model: str  # empty: not stated
    hardware: str
    interaction: str
    sessions: tuple[TrendSession, ...]
    objectives: tuple[TrendObjective, ...]
    loads: tuple[TrendLoad, ...]  # the judged ones first


class Trend(Struct, frozen=True, kw_only=True):
    """What a store says of one branch; the same whichever store holds the sessions."""

    schema_version: int
    branch: str
    sessions: int
    first_time: str  # empty: no session
    last_time: str
    alpha: float  # level that all series share: docs/trend.md has the error rates
    subjects: tuple[TrendSubject, ...]
    notes: tuple[str, ...] = ()


class NoiseFigure(Struct, frozen=True, kw_only=True):
    """How much one figure varies without a change; standard deviations of its natural logarithm."""

    id: str
    sessions: int
    runs: int
    run_sigma: float  # between runs of a session
    session_sigma: float  # between sessions, beyond what their runs explain
    same_job_growth: float | None  # smallest growth that a pull request shows, base and head in one job
    stored_growth: float | None  # and against the stored sessions; None: fewer than a band needs
    max: float | None  # smallest `max` of a rule that an unchanged build passes; None: too few runs


class NoiseLoad(Struct, frozen=True, kw_only=True):
    """The noise of one load of a subject, of its accepted sessions."""

    policy: str
    tool: str
    model: str
    hardware: str
    load: str
    judged: bool
    sessions: int
    left_out: int
    figures: tuple[NoiseFigure, ...]


class Noise(Struct, frozen=True, kw_only=True):
    """How much the accepted sessions of a branch vary, and the rules of growth that follow."""

    store: str
    branch: str
    runs: int  # of a pull request
    confidence: float
    power: float
    loads: tuple[NoiseLoad, ...]
    regression: str  # the section of a policy, YAML; empty where nothing follows
    notes: tuple[str, ...] = ()
