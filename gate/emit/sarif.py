"""A SARIF 2.1.0 log for code scanning: one result for each rule that did not hold, on its line of the policy.

Keys as OASIS publishes them (sarif-schema-2.1.0.json) and GitHub reads them
(https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning).
An error is a result too: an upload without results would close what an earlier one has found.
"""

from __future__ import annotations

from typing import Any

from ..model import AnyReport, Check, ErrorReport, PolicyName, Report, Verdict
from . import format as f, unmet as u

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def emit(report: AnyReport) -> str:
    """One log with one run, pure ASCII."""
    import json

    run = _error(report) if isinstance(report, ErrorReport) else _run(report)
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    text = json.dumps(log, indent=2) + "\n"
    return text.replace("##", "#\\u0023")  # a CI runner obeys `##[command]` anywhere in a line


def _run(report: Report) -> dict[str, Any]:
    names = u.unique_ids(report.checks)
    rules = [_rule(name, f.expected(check)) for name, check in zip(names, report.checks, strict=True)]
    results = [_result(name, check, names.index(name), report) for name, check in u.unmet(report)]
    gate = PolicyName(report.policy.name, u.file_of(report) or report.policy.path, report.policy.profile)
    return _log(gate, report.exit_code, rules, results)


def _result(name: str, check: Check, index: int, report: Report) -> dict[str, Any]:
    text = f"{f.mark(check)} {name}: {u.sentence(check)}"
    result = _finding(name, index, _level(check, report), text, u.file_of(report), check.policy_line)
    if check.waived:
        result["suppressions"] = [{"kind": "external", "justification": f.plain(check.waived)}]
    return {**result, "partialFingerprints": {"sloGate/v1": u.fingerprint(report, name)}}


def _level(check: Check, report: Report) -> str:
    if u.stops(check, report):
        return "error"
    return "note" if check.verdict == Verdict.INCONCLUSIVE else "warning"


def _error(report: ErrorReport) -> dict[str, Any]:
    text = " Next: ".join(filter(None, (report.headline, report.hint)))
    gate = report.policy or PolicyName(None, "", None)
    path = "" if gate.path.startswith("preset:") else f.plain(gate.path)
    result = _finding("slo-gate", 0, "error", text, path, 0)
    return _log(gate, report.exit_code, [_rule("slo-gate", "a verdict can be given")], [result])


def _log(gate: PolicyName, code: int, rules: list[Any], results: list[Any]) -> dict[str, Any]:
    from .. import __version__

    parts = (f.plain(part) for part in ("slo-gate", gate.path, gate.name, gate.profile) if part)
    failed = code in (2, 3, 70)
    return {
        "tool": {"driver": {"name": "slo-gate", "version": __version__, "rules": rules}},
        # What keeps the results of two gates of one commit apart, as GitHub's category does.
        "automationDetails": {"id": "/".join(parts) + "/"},
        "invocations": [{"executionSuccessful": not failed, "exitCode": code}],
        "columnKind": "utf16CodeUnits",
        "results": results,
    }


def _rule(name: str, expected: str) -> dict[str, Any]:
    text = {"text": _text(expected or name)}
    return {"id": name, "shortDescription": text, "fullDescription": text, "help": text}


def _finding(name: str, index: int, level: str, text: str, path: str, line: int) -> dict[str, Any]:
    from urllib.parse import quote

    found = {"ruleId": name, "ruleIndex": index, "level": level, "message": {"text": _text(text)}}
    if not path or path.startswith("/"):  # an embedded policy, or one outside of the repository
        return found
    place = {"uri": quote(path.removeprefix("./")), "uriBaseId": "%SRCROOT%"}
    return {
        **found,
        "locations": [
            {"physicalLocation": {"artifactLocation": place, "region": {"startLine": max(line, 1)}}}
        ],
    }


def _text(text: str) -> str:
    """Plain: a viewer makes a link of [words](place)."""
    return f.plain(text).replace("](", "] (")
