"""The whole answer, and what is said where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from gate.model.charts import Charts
from gate.model.judged import (
    Attribution,
    Capacity,
    Check,
    Comparison,
    Effort,
    Goodput,
    InputFile,
    LoadReport,
    MetricStats,
    RunReport,
    Verdict,
)
from gate.model.policy import Policy
from gate.model.run import ToolReported


class Inspection(Struct, frozen=True):
    """What one run holds: every metric under both conventions, and what it can prove."""

    run: RunReport
    judged: Mapping[str, str]  # metric, goodput or error_rate -> how it can be judged
    unjudged: Mapping[str, str]  # the same -> why not, and what would settle it
    definitions: Mapping[str, str]  # metric -> the tool's own formula
    tool_reported: Mapping[str, ToolReported]


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
    effort: Effort | None = None  # None where no more data of this kind decides
    measure_next: str = ""  # one paragraph, only where the data shows a weakness
    charts: Charts | None = None  # None unless asked for: `evaluate(..., charts=whatif)`


class PolicyName(Struct, frozen=True):
    """Which gate an error is about, as far as it is known."""

    name: str | None  # None where the policy cannot be loaded
    path: str  # from the repository's root where it has a place there, else as the caller named it
    profile: str | None


class ErrorReport(Struct, frozen=True):
    """What the requested outputs say when there is no verdict: exit 2, 3 or 70."""

    exit_code: int
    headline: str
    message: str
    where: str
    hint: str
    policy: PolicyName | None = None  # None where no policy is named and none is found


AnyReport: TypeAlias = Report | ErrorReport
