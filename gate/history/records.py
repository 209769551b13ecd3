"""A saved report -> the record of its session, and whether that session belongs in a baseline."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from math import isclose
from typing import Any

import msgspec

from ..errors import InputError
from ..model import (
    HISTORY_VERSION,
    Check,
    ErrorReport,
    Level,
    MetricStats,
    Policy,
    RecordedMetric,
    RecordedObjective,
    RecordedPolicy,
    RecordedRun,
    Report,
    RunReport,
    SessionRecord,
    Verdict,
)
from .lines import faults, verdict_faults

FIGURES = 4  # different statistics that agree; fewer may by chance, in a tool that rounds them
_HINT = "give the file that `slo-gate check RESULTS --json FILE` wrote"
_REGRESSION = "regression."  # what lacks a baseline says nothing of the session's own soundness


def record_of(
    data: bytes, commit: str, branch: str, time: str, tags: Iterable[str] = (), *, path: str = "report"
) -> SessionRecord:
    """The record of the report JSON in `data`, without its id.

    Raises InputError for what is no report, one without a verdict, and one that contradicts itself.
    """
    from .. import saved  # only where a session is added: costs start-up time

    report = saved.load(data, path)
    if isinstance(report, ErrorReport):
        raise InputError("the report has no verdict, so there is no session to record", path, _HINT)
    if fault := next(_contradictions(report), ""):
        raise InputError(f"the report contradicts itself: {fault}", path, _HINT)
    digests = {file.path: file.sha256 for file in report.inputs}
    record = SessionRecord(
        schema_version=HISTORY_VERSION,
        time=time,
        commit=commit,
        branch=branch,
        tags=tuple(sorted(set(tags))),
        policy=_policy(report.policy, stated="workload" in json.loads(data)["policy"]),
        report_sha256=hashlib.sha256(data).hexdigest(),
        verdict=report.verdict,
        exit_code=report.exit_code,
        objectives=tuple(map(_objective, report.checks)),
        runs=tuple(_run(run, digests[run.input]) for run in report.runs),
    )
    if fault := next(faults(record), ""):
        raise InputError(f"the report cannot be recorded: {fault}", path, _HINT)
    return record


def _policy(policy: Policy, *, stated: bool) -> RecordedPolicy:
    workload = msgspec.structs.replace(policy.workload, sweep=()) if stated else None
    return RecordedPolicy(policy.name, policy.sha256, policy.profile, policy.undecided, workload)


def _objective(check: Check) -> RecordedObjective:
    return RecordedObjective(**{name: getattr(check, name) for name in RecordedObjective.__struct_fields__})


def _run(run: RunReport, sha256: str) -> RecordedRun:
    same: dict[str, Any] = {name: getattr(run, name, None) for name in RecordedRun.__struct_fields__}
    same |= {
        "sha256": sha256,
        "goodput": run.goodput.fraction if run.goodput else None,
        "metrics": _metrics(run.metrics),
    }
    return RecordedRun(**same)


def _metrics(metrics: Mapping[str, MetricStats | None]) -> dict[str, RecordedMetric]:
    """Without what is doubted: it is shown in a report and never judged."""
    return {
        name: RecordedMetric(found.n, found.p50, found.p90, found.p99, found.mean)
        for name, found in metrics.items()
        if found is not None and found.doubt is None
    }


# ---- what a report cannot say -------------------------------------------------------------------


def _contradictions(report: Report) -> Iterator[str]:
    """Facts of a report that cannot all be true, a sentence each."""
    known = {file.path for file in report.inputs}
    for run in report.runs:
        if run.input not in known:
            yield f"{run.input} is a run and not among the inputs"
        yield from _of_run(run)
    yield from verdict_faults(report.verdict, report.checks)
    codes = {Verdict.FAIL: {1}, Verdict.INCONCLUSIVE: {0, 4}, Verdict.WARN: {0, 5}, Verdict.PASS: {0}}
    if report.exit_code not in ({0} if report.report_only else codes[report.verdict]):
        yield f"the verdict is {report.verdict.value} and the exit code {report.exit_code}"


def _of_run(run: RunReport) -> Iterator[str]:
    good, counts = run.goodput, run.counts
    if (
        good
        and counts
        and good.attempted not in (None, counts.attempted, counts.attempted + counts.cancelled)
    ):
        yield f"{run.input} attempted {counts.attempted} requests, and {good.attempted} are in its goodput"
    if good is None or good.good is None or good.fraction is None or not good.attempted:
        return
    if not isclose(good.good / good.attempted, good.fraction, rel_tol=1e-6, abs_tol=1e-9):
        yield f"{run.input} has a goodput that is not its good requests over the attempted ones"


# ---- what belongs in a baseline -----------------------------------------------------------------


class Measured:
    """What sessions measured, the newest first: judged and recorded again it is no further session.

    A run is known by its file, and by its figures where enough of them differ: files are packed anew.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[str, ...], str] = {}

    def again(self, record: SessionRecord) -> str:
        """The commit of the newer session that has a run of this one; empty where it is the first."""
        # Another profile judges the same runs anew; another policy is another thing that is followed.
        marks = [(record.branch, record.policy.name, mark) for mark in measurements(record)]
        first = next((self._held[mark] for mark in marks if mark in self._held), "")
        for mark in marks:
            self._held.setdefault(mark, record.commit[:12])
        return first


def measurements(record: SessionRecord) -> Iterator[str]:
    """The SHA-256 of each result file, and the figures of each run."""
    for run in record.runs:
        yield run.sha256
        figures = [
            (name, value)
            for name, found in sorted(run.metrics.items())
            for value in (found.p50, found.p90, found.p99, found.mean)
        ]
        if len({value for _, value in figures} - {None}) >= FIGURES:
            yield repr(figures)


def why_left_out(record: SessionRecord, accepted: frozenset[str] = frozenset()) -> str:
    """Why a session is left out of a baseline; empty where it is in it.

    A session belongs in it that passed, or was only undecided, with evidence and without a failed request;
    or that somebody accepted.
    """
    if record.id in accepted:
        return ""
    blocking = [one for one in record.objectives if one.level is Level.BLOCK]
    if failed := [one.id for one in blocking if one.verdict is Verdict.FAIL]:
        return f"failed: {', '.join(failed)}"
    unfit = (one for one in blocking if one.cause == "evidence" and not one.id.startswith(_REGRESSION))
    if lacking := [one.id for one in unfit]:
        return f"lacked evidence: {', '.join(lacking)}"
    judged = [run for run in record.runs if run.at_target]
    if not judged:
        return "no run at the target"
    if any(run.counts is None for run in judged):
        return "does not state its failed requests"
    if not any(run.counts.attempted for run in judged if run.counts):
        return "no request was measured"
    failures = sum(run.counts.failed for run in judged if run.counts)
    return f"{failures} failed request{'s' * (failures > 1)}" if failures else ""
