"""The report as JUnit XML: one test case an objective, named by its id.

junit-xml builds the cases. What it writes beyond the schema of Jenkins' xUnit plugin (junit-10.xsd:
no `disabled`, no `file` or `line` on a case) is taken off again, and the times it leaves out are put
back, as 0: nothing here was timed, and equal inputs give equal bytes. Other readers want more, or
less: DIALECTS says what.

The root states failures, errors and skipped cases in every dialect: readers that add nothing up take a
case for passed that it does not count. junit-10.xsd allows no `skipped` on a <testsuites>, so that
where it must hold the suite itself is the root.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..model import AnyReport, Check, ErrorReport, Report, RunReport, Verdict
from . import format as f, tables as t
from .unmet import file_of, unique_ids

# What each reader takes beyond junit-10.xsd; `surefire` (surefire-test-report.xsd) takes less.
DIALECTS: Mapping[str, tuple[str, ...]] = {
    "generic": (),  # Jenkins (xUnit and junit steps), Azure, and every other reader: the suite is the root
    "gitlab": ("file",),  # shown as the place of a case
    "github": ("file", "line"),  # where reporters put their annotations
    "buildkite": ("file",),  # Test Engine's location
    "surefire": (),
}


_LONGEST = 240  # characters of a message


def emit(report: AnyReport, dialect: str = "generic", timestamp: str | None = None) -> str:
    """The report as one test suite; an error report is one case with one <error>.

    INCONCLUSIVE is <error> where it blocks, else <skipped>; a failure that does not block (warn,
    info, waived) is a passing case whose <system-out> says so. `timestamp` is the caller's ISO 8601
    time of the measurement; without one there is none, because a wrong one misleads more. Surefire's
    schema has no place for it.
    """
    # Imported here: a check that writes no JUnit must not pay for it at start-up.
    from junit_xml import TestSuite

    if isinstance(report, ErrorReport):
        return _serialise(TestSuite("slo-gate", [_error_case(report)], timestamp=timestamp), dialect)
    names = unique_ids(report.checks)
    cases = [_case(check, name, report, dialect) for check, name in zip(report.checks, names, strict=True)]
    suite = TestSuite(f.plain(report.policy.name), cases, timestamp=timestamp, properties=_properties(report))
    suite.stdout = "\n".join(map(f.plain, report.notes)) or None
    return _serialise(suite, dialect)


def _class(report: Report) -> str:
    """GitLab and Jenkins group by it; the profile keeps two checks of one policy apart."""
    return ".".join(f.plain(part) for part in ("slo-gate", report.policy.name, report.policy.profile) if part)


def _properties(report: Report) -> dict[str, str]:
    facts = {
        **_measured(report.runs),
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


def _measured(runs: Iterable[RunReport]) -> dict[str, str]:
    """What was measured: of the judged runs, or of all where none was; several values side by side."""
    runs = tuple(runs)
    judged = [run for run in runs if run.at_target] or runs
    facts: dict[str, list[str | None]] = {
        "tool": [run.tool for run in judged],
        "tool version": [run.tool_version for run in judged],
        "model": [run.model for run in judged],
        "hardware": [run.hardware for run in judged],
        "load": [str(run.load) if run.load else None for run in judged],
    }
    return {name: ", ".join(dict.fromkeys(filter(None, values))) for name, values in facts.items()}


def _case(check: Check, name: str, report: Report, dialect: str) -> Any:
    from junit_xml import TestCase

    case = TestCase(name, _class(report))
    if file := file_of(report):
        case.file = file if "file" in DIALECTS[dialect] else None
        case.line = check.policy_line or None if "line" in DIALECTS[dialect] else None
    message, body = _message(check), _body(check, report)
    mark = f.mark(check)
    if mark == "PASS":
        case.stdout = body
    elif mark in ("WARN", "INFO", "WAIVED"):
        case.stdout = f"{mark}: does not block\n{body}"
    elif mark == "FAIL":
        case.add_failure_info(message, body, "fail")
    elif mark == "SKIPPED" or (check.verdict == Verdict.INCONCLUSIVE and not check.blocks):
        case.add_skipped_info(message if mark == "SKIPPED" else f"{message} (does not block)", body)
    else:
        case.add_error_info(message, body, check.verdict.value)
    return case


def _message(check: Check) -> str:
    """What was seen, on one line that a list can show; the body has the numbers and the statistics."""
    reason = f.summary(check)
    return reason if len(reason) <= _LONGEST else f"{reason[: _LONGEST - 4].rsplit(' ', 1)[0]} ..."


def _body(check: Check, report: Report) -> str:
    facts = {**f.facts(check), "policy": f.place(check, report)}
    said = [f.summary(check)] if f.summary(check) != f.why(check) else []
    return "\n".join([*said, *(f"{name}: {text}" for name, text in facts.items() if text), f.why(check)])


def _error_case(report: ErrorReport) -> Any:
    from junit_xml import TestCase

    case = TestCase("check", "slo-gate")
    facts = {"what": report.message, "where": report.where, "next": report.hint}
    lines = [f"{name}: {f.plain(text)}" for name, text in facts.items() if text]
    lines.append(f"exit code: {report.exit_code}")
    case.add_error_info(f.plain(report.headline), "\n".join(lines), "error")
    return case


def _serialise(suite: Any, dialect: str) -> str:
    import xml.etree.ElementTree as ET

    element = suite.build_xml_doc()
    counted = ("name", "tests", "failures", "errors", "skipped", "timestamp")
    kept = {name: value for name in counted if (value := element.get(name)) is not None}
    element.attrib = {**kept, "time": "0"}
    for case in element.iter("testcase"):
        case.set("time", "0")
    _order(element, ("properties", "testcase", "system-out"))
    root = (
        element if dialect == "generic" else _surefire(element) if dialect == "surefire" else _suites(element)
    )
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suites(element: Any) -> Any:
    import xml.etree.ElementTree as ET

    root = ET.Element("testsuites", {"name": "slo-gate"})
    for name in ("tests", "failures", "errors", "skipped", "time"):
        root.set(name, element.get(name))
    root.append(element)
    return root


def _surefire(element: Any) -> Any:
    """One suite as the root, no output of its own, no type on what is skipped, no time stamp."""
    _order(element, ("properties", "testcase"))
    element.attrib.pop("timestamp", None)
    for skipped in element.iter("skipped"):
        skipped.attrib.pop("type", None)
    return element


def _order(element: Any, tags: Iterable[str]) -> None:
    """Ant's and GitLab's readers expect a suite's own output after its cases."""
    element[:] = [child for tag in tags for child in element.findall(tag)]
