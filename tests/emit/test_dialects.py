"""JUnit dialects, held to the schemas of the readers and read back by other people's readers."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from junit2htmlreport.parser import Junit
from junitparser import JUnitXml, TestSuite
from msgspec.structs import replace

from gate.emit.junit import DIALECTS, emit
from tests.emit.reports import CASES, GOODPUT_FAIL, failing, hostile, make_report, make_run

SCHEMAS = Path(__file__).parent / "schemas"
# Control characters, a non-character, half a surrogate pair, the end of a CDATA section.
ILLEGAL = "a\x00b\x1b[31mc\ufffe\ud800 ]]> &amp; <x>"


@cache
def schema(name: str) -> Any:
    """Imported and built where it is asked for: that takes two seconds of each worker."""
    import xmlschema

    return xmlschema.XMLSchema(SCHEMAS / f"{name}.xsd")


@pytest.mark.parametrize("case", CASES)
def test_the_generic_dialect_is_valid_for_jenkins_xunit(case: str) -> None:
    schema("xunit").validate(emit(CASES[case](), timestamp="2027-01-12T08:00:00Z"))


@pytest.mark.parametrize("case", CASES)
def test_the_surefire_dialect_is_valid_for_surefire(case: str) -> None:
    schema("surefire").validate(emit(CASES[case](), "surefire", timestamp="2027-01-12T08:00:00Z"))


def test_surefire_refuses_what_the_generic_dialect_writes_so_the_schema_is_not_idle() -> None:
    assert not schema("surefire").is_valid(emit(failing()))
    assert not schema("xunit").is_valid(emit(failing(), "gitlab"))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("text", [ILLEGAL, "\ud83d", "\x0b\x0c\x7f", "\uffff"])
def test_illegal_characters_leave_well_formed_xml_in_every_dialect(dialect: str, text: str) -> None:
    document = emit(hostile(text), dialect)
    root = ET.fromstring(document.encode("utf-8"))
    allowed = {0x9, 0xA, 0xD}
    assert all(ord(c) in allowed or 0x20 <= ord(c) < 0xD800 or 0xE000 <= ord(c) < 0xFFFE for c in document)
    assert {case.get("classname") for case in root.iter("testcase")} != {None}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("case", CASES)
def test_junitparser_counts_the_same_cases_in_every_dialect(dialect: str, case: str) -> None:
    report = CASES[case]()
    parsed = JUnitXml.fromstring(emit(report, dialect).encode())
    suites = [parsed] if isinstance(parsed, TestSuite) else list(parsed)
    checks = getattr(report, "checks", (None,))
    assert sum(len(list(suite)) for suite in suites) == len(checks)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_junit2html_shows_failures_and_properties_in_every_dialect(dialect: str, tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    path.write_text(emit(failing(), dialect), encoding="utf-8")
    report = Junit(str(path))
    (suite,) = report.suites
    assert sorted(case.name for case in suite.failed()) == ["goodput", "ttft.p99"]
    said = {one.name: one.value for one in suite.properties}
    assert (said["tool"], said["tool version"]) == ("vllm", "0.11.0")
    assert (said["model"], said["load"]) == ("meta-llama/Llama-3.3-70B-Instruct", "concurrency 64")
    assert "goodput" in report.html()


@pytest.mark.parametrize(
    ("dialect", "file", "line"),
    [
        ("generic", None, None),
        ("surefire", None, None),
        ("gitlab", "slo.yaml", None),
        ("buildkite", "slo.yaml", None),
        ("github", "slo.yaml", "18"),
    ],
)
def test_a_case_points_at_the_policy_where_its_reader_looks_for_it(
    dialect: str, file: str | None, line: str | None
) -> None:
    root = ET.fromstring(emit(make_report(checks=(GOODPUT_FAIL,)), dialect))
    (case,) = root.iter("testcase")
    assert (case.get("file"), case.get("line")) == (file, line)


def test_an_embedded_policy_is_not_a_file_of_the_repository() -> None:
    report = failing()
    preset = replace(report, policy=replace(report.policy, path="preset:chat"))
    assert 'file="' not in emit(preset, "github")


def test_a_time_stamp_is_there_only_when_given() -> None:
    assert "timestamp" not in emit(failing())
    suite = ET.fromstring(emit(failing(), timestamp="2027-01-12T08:00:00Z"))
    assert suite.get("timestamp") == "2027-01-12T08:00:00Z"


def test_the_facts_of_runs_that_differ_stand_side_by_side_and_unjudged_runs_are_left_out() -> None:
    runs = (
        make_run(tool_version="1"),
        make_run(tool_version="2"),
        make_run(tool_version="3", at_target=False),
    )
    (suite,) = JUnitXml.fromstring(emit(make_report(runs=runs)).encode())
    said = {one.name: one.value for one in suite.properties()}
    assert said["tool version"] == "1, 2"
