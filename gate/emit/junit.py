"""The report as JUnit XML: one test case an objective, named by its id.

junit-xml builds the cases. What it writes beyond the schema of Jenkins' xUnit plugin (junit-10.xsd:
no `disabled`, no `file` or `line` on a case, no `skipped` on the root) is taken off again, and the
times it leaves out are put back, as 0: nothing here was timed, and equal inputs give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..model import AnyReport, Check, ErrorReport, Report, Verdict
from . import _format as f
from . import _tables as t


def emit(report: AnyReport) -> str:
    """The report as one test suite; an error report is one case with one <error>.

    INCONCLUSIVE is <error> where it blocks, else <skipped>; a failure that does not block (warn,
    info, waived) is a passing case whose <system-out> says so.
    """
    # Imported here: a check that writes no JUnit must not pay for it at start-up.
    from junit_xml import TestSuite

    if isinstance(report, ErrorReport):
        return _serialise(TestSuite("slo-gate", [_error_case(report)]))
    cases = [_case(check, name, report) for check, name in zip(report.checks, _names(report), strict=True)]
    suite = TestSuite(f.plain(report.policy.name), cases, properties=_properties(report))
    suite.stdout = "\n".join(map(f.plain, report.notes)) or None
    return _serialise(suite)


def _class(report: Report) -> str:
    """GitLab and Jenkins group by it; the profile keeps two checks of one policy apart."""
    return ".".join(f.plain(part) for part in ("slo-gate", report.policy.name, report.policy.profile) if part)


def _names(report: Report) -> list[str]:
    """Objective ids; GitLab drops a second case of the same name, so a repeated one is numbered."""
    names: list[str] = []
    for check in report.checks:
        name, number = f.plain(check.id), 1
        while (candidate := name if number == 1 else f"{name} ({number})") in names:
            number += 1
        names.append(candidate)
    return names


def _properties(report: Report) -> dict[str, str]:
    facts = {
        "headline": report.headline,
        "next": f.next_action(report),
        "change": report.change,
        "policy": f.policy_line(report),
        "provenance": report.provenance.line,
        "goodput": f.goodput_line(report),
        "goodput misses": f.misses_line(report),
        "reproduce": report.provenance.reproduce,
    }
    latency = t.percentile_table(report.metrics)
    for metric, *cells in latency.rows:
        shown = zip(latency.headers[1:], cells, strict=True)
        facts[f"latency {metric}"] = ", ".join(f"{name} {cell}" for name, cell in shown)
    files = {f"sha256 {number}": line for number, line in enumerate(f.digests(report))}
    files["sha256 more"] = f.more(len(report.inputs), "files", f.FILES)
    return {name: f.plain(text) for name, text in {**facts, **files}.items() if text}


def _case(check: Check, name: str, report: Report) -> Any:
    from junit_xml import TestCase

    case = TestCase(name, _class(report))
    message, body = _message(check), _body(check, report)
    mark = f.mark(check)
    if mark == "PASS":
        case.stdout = body
    elif mark in ("WARN", "INFO", "WAIVED"):
        case.stdout = f"{mark}: does not block\n{body}"
    elif mark == "FAIL":
        case.add_failure_info(message, body, "fail")
    elif mark == "SKIPPED" or (check.verdict == Verdict.INCONCLUSIVE and not check.blocks):
        case.add_skipped_info(message, body)
    else:
        case.add_error_info(message, body, check.verdict.value)
    return case


def _message(check: Check) -> str:
    """One line with the numbers: what most CI systems show without a click."""
    numbers = "; ".join(filter(None, (f.seen(check), f.weight(check))))
    return f"{f.expected(check)}: {numbers or f.why(check)}"


def _body(check: Check, report: Report) -> str:
    facts = {
        "expected": f.expected(check),
        "observed": f.seen(check),
        "headroom": f.headroom(check),
        "unproven": f.weight(check),
        "policy": f.place(check, report),
    }
    return "\n".join([*(f"{name}: {text}" for name, text in facts.items() if text), f.why(check)])


def _error_case(report: ErrorReport) -> Any:
    from junit_xml import TestCase

    case = TestCase("check", "slo-gate")
    facts = {"what": report.message, "where": report.where, "next": report.hint}
    lines = [f"{name}: {f.plain(text)}" for name, text in facts.items() if text]
    lines.append(f"exit code: {report.exit_code}")
    case.add_error_info(f.plain(report.headline), "\n".join(lines), "error")
    return case


def _serialise(suite: Any) -> str:
    import xml.etree.ElementTree as ET

    element = suite.build_xml_doc()
    counted = ("name", "tests", "failures", "errors", "skipped")
    element.attrib = {**{name: element.get(name) for name in counted}, "time": "0"}
    for case in element.iter("testcase"):
        case.set("time", "0")
    _order(element, ("properties", "testcase", "system-out"))
    root = ET.Element("testsuites", {"name": "slo-gate"})
    for name in ("tests", "failures", "errors", "time"):
        root.set(name, element.get(name))
    root.append(element)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _order(element: Any, tags: Iterable[str]) -> None:
    """Ant's and GitLab's readers expect a suite's own output after its cases."""
    element[:] = [child for tag in tags for child in element.findall(tag)]
