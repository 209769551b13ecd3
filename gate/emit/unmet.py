"""The rules that did not hold, as findings on a line of the policy, and ids that are unique in a report."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Check, Report
from . import format as f

_SHOWN = ("Failures", "Inconclusive", "Warnings")


def unmet(report: Report) -> list[tuple[str, Check]]:
    """(unique id, check) of failures, inconclusive and warnings, most urgent first."""
    names = dict(zip(map(id, report.checks), unique_ids(report.checks), strict=True))
    shown = [check for one in f.sections(report) if one.title in _SHOWN for check in one.checks]
    return [(names[id(check)], check) for check in shown]


def unique_ids(checks: Sequence[Check]) -> list[str]:
    """Objective ids; a repeated one is numbered, because CI systems drop a second case of the same name."""
    names: list[str] = []
    for check in checks:
        name, number = f.plain(check.id), 1
        while (candidate := name if number == 1 else f"{name} ({number})") in names:
            number += 1
        names.append(candidate)
    return names


def sentence(check: Check) -> str:
    """What was seen against the rule, and what to do where more data is not all it takes."""
    return f.summary(check) + (f"; {f.plain(check.remedy)}" if check.remedy else "")


def stops(check: Check, report: Report) -> bool:
    """Whether this rule, on its own, keeps the change out."""
    return check.blocks and not check.waived and not report.report_only


def file_of(report: Report) -> str:
    """The policy as a path inside the repository; empty for an embedded one and one outside of it."""
    path = report.policy.repository_path
    if path is None:  # whoever made the report did not say: as it was named
        path = "" if report.policy.path.startswith("preset:") else report.policy.path
    return f.plain(path).removeprefix("./")


def fingerprint(report: Report, name: str) -> str:
    """The same for a rule whatever was measured, another for each policy file, name and profile."""
    policy = report.policy
    return digest(file_of(report) or f.plain(policy.path), policy.name, policy.profile or "", name)


def digest(*parts: str) -> str:
    """SHA-256 of texts, each apart."""
    import hashlib

    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
