"""What a report says about going on: is the verdict certain, or beyond what more runs can cure."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Check, Level, Report, Verdict

_DECIDED = (Verdict.PASS, Verdict.FAIL, Verdict.SKIPPED)
# Facts of the benchmark, the same in every run of a session.
_FACTS = ("workload.load", "workload.model", "workload.hardware", "workload.interaction", "evidence.tool")


def settled(report: Report, until: str, *, spread: bool, confirm: bool = False) -> str:
    """Why no further run is needed, or "".

    verdict: a blocking objective failed, or every blocking one is decided. all: every one that can
    block or warn is decided. Nothing passes early before `spread`: enough runs to see how they differ.
    With `confirm` a regression that fails alone is no end, because a second measurement may turn it.
    """
    if until == "verdict":
        failed = [one for one in _of(report, Level.BLOCK) if one.verdict is Verdict.FAIL and not one.waived]
        if failed and not (confirm and worth_confirming(report)):
            return f"{failed[0].id} fails, and nothing can turn that"
    if not spread:
        return ""
    asked = _of(report, Level.BLOCK) or _of(report, Level.WARN)
    if until == "all":
        asked = _of(report, Level.BLOCK, Level.WARN)
    if asked and all(one.verdict in _DECIDED for one in asked):
        return "every objective is decided" if until == "all" else "every blocking objective is decided"
    return ""


def worth_confirming(report: Report) -> list[str]:
    """The blocking regressions that fail, by id, where nothing else does: measured again it may turn."""
    failed = [one for one in _of(report, Level.BLOCK) if one.verdict is Verdict.FAIL and not one.waived]
    return [one.id for one in failed] if all(one.id.startswith("regression.") for one in failed) else []


def hopeless(report: Report, with_baseline: bool) -> str:
    """Why more runs of the same command cannot help, or "": known after the first round."""
    for one in _of(report, Level.BLOCK):
        fact = one.id in _FACTS or (one.id.startswith("regression.") and not with_baseline)
        if fact and one.verdict is Verdict.INCONCLUSIVE and one.cause == "evidence":
            return f"{one.id}: {one.reason}"
    return ""


def _of(report: Report, *levels: Level) -> Sequence[Check]:
    return [one for one in report.checks if one.level in levels]
