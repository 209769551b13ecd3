"""Annotations for GitHub: one workflow command for each rule that did not hold, on its line of the policy.

GitHub shows 10 annotations of a level for a step and drops the rest without a word
(https://github.com/orgs/community/discussions/26680), so at most MOST are written and the last
says how many are not. Escaping as in actions/toolkit, packages/core/src/command.ts.
"""

from __future__ import annotations

from ..model import AnyReport, Check, ErrorReport, Report, Verdict
from . import format as f, unmet as u

MOST = 9
_TITLE = 200  # characters; the API takes 255
_MESSAGE = 4000  # characters; the API takes 64 KB


def emit(report: AnyReport) -> str:
    """Workflow commands, one a line; nothing where every rule holds."""
    if isinstance(report, ErrorReport):
        return command("error", "slo-gate", " Next: ".join(filter(None, (report.headline, report.hint))))
    found = u.unmet(report)
    lines = [_annotation(name, check, report) for name, check in found[:MOST]]
    if len(found) > MOST:
        rest = f"and {len(found) - MOST} more rules; the step summary and the JSON report have all"
        lines.append(command("warning", "slo-gate", rest))
    return "".join(lines)


def _annotation(name: str, check: Check, report: Report) -> str:
    where = {"file": file} if (file := u.file_of(report)) else {}
    if file and check.policy_line:
        where["line"] = str(check.policy_line)
    return command(_level(check, report), f"{f.mark(check)} {name}", u.sentence(check), **where)


def _level(check: Check, report: Report) -> str:
    if u.stops(check, report):
        return "error"
    return "notice" if check.verdict == Verdict.INCONCLUSIVE else "warning"


def on_check_run(report: AnyReport) -> list[dict[str, str | int]]:
    """All annotations as the API of check runs takes them; a policy outside of the repository has none."""
    levels = {"error": "failure", "warning": "warning", "notice": "notice"}
    if isinstance(report, ErrorReport) or not (file := u.file_of(report)):
        return []
    return [
        {
            "path": file,
            "start_line": max(check.policy_line, 1),
            "end_line": max(check.policy_line, 1),
            "annotation_level": levels[_level(check, report)],
            "title": _cut(f"{f.mark(check)} {name}", _TITLE),
            "message": _cut(u.sentence(check), _MESSAGE),
        }
        for name, check in u.unmet(report)
    ]


def command(level: str, title: str, message: str, **properties: str) -> str:
    """One annotation: `level` is error, warning or notice."""
    shown = {**properties, "title": _cut(title, _TITLE)}
    written = ",".join(f"{name}={_property(value)}" for name, value in shown.items())
    return f"::{level} {written}::{_data(_cut(message, _MESSAGE))}\n"


def _cut(text: str, most: int) -> str:
    text = f.plain(text)
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
