"""A code-quality report for GitLab: one finding for each rule that did not hold, on its line of the policy.

Keys as GitLab reads them (https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format).
The fingerprint leaves the measured value out, so a rule that fails twice is one finding and not a
new one; it holds the policy's path, so that two services whose policies have one name keep theirs.
"""

from __future__ import annotations

import re
from typing import Any

from ..model import AnyReport, Check, ErrorReport, Report, Verdict
from . import format as f, unmet as u


def emit(report: AnyReport) -> str:
    """A JSON array, pure ASCII; empty where every rule holds."""
    import json

    if isinstance(report, ErrorReport):
        found = [_error(report)]
    else:
        found = [_rule(name, check, report) for name, check in u.unmet(report)]
    text = json.dumps(found, indent=2) + "\n"
    return text.replace("##", "#\\u0023")  # a CI runner obeys `##[command]` anywhere in a line


def _rule(name: str, check: Check, report: Report) -> dict[str, Any]:
    text = f"{f.mark(check)} {name}: {u.sentence(check)}"
    path = u.file_of(report) or f.plain(report.policy.path)
    return _finding(
        name, text, u.fingerprint(report, name), _severity(check, report), path, check.policy_line
    )


def _severity(check: Check, report: Report) -> str:
    if not u.stops(check, report):
        return "minor"
    return "critical" if check.verdict == Verdict.FAIL else "major"


def _error(report: ErrorReport) -> dict[str, Any]:
    where, line = _place(report)
    gate = report.policy
    text = " Next: ".join(f.plain(part) for part in (report.headline, report.hint) if part)
    parts = (gate.path, gate.name or "", gate.profile or "") if gate else (where,)
    return _finding("slo-gate", text, u.digest("error", *parts), "blocker", where, line)


def _place(report: ErrorReport) -> tuple[str, int]:
    """File and line: of the policy from the root of the repository, as GitLab looks for it."""
    known = re.fullmatch(r"(.*?)(?::(\d{1,9}))?", f.plain(report.where).split(": ")[0])
    where, line = (known[1], int(known[2] or 0)) if known else ("", 0)
    policy = f.plain(report.policy.path) if report.policy else ""
    if policy and (not where or policy.endswith(f"/{where.removeprefix('./')}")):
        return policy, line
    return where or "slo.yaml", line


def _finding(name: str, text: str, fingerprint: str, severity: str, path: str, line: int) -> dict[str, Any]:
    return {
        "check_name": name,
        "description": text,
        "fingerprint": fingerprint,
        "severity": severity,
        "location": {"path": path.removeprefix("./"), "lines": {"begin": max(line, 1)}},
    }
