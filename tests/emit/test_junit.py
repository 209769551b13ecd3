"""JUnit as GitLab, Jenkins and junitparser read it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped
from msgspec.structs import replace

from gate.emit.junit import DIALECTS, emit
from gate.model import Level, Verdict
from tests.emit.reports import (
    CASES,
    EVIDENCE,
    GOODPUT_FAIL,
    POLICY,
    REGRESSION,
    TTFT_FAIL,
    TTFT_WARN,
    UNDECIDED,
    failed_to_read,
    make_check,
    make_report,
)

# Attributes that junit-10.xsd of Jenkins' xUnit plugin allows; it refuses a file with any other.
ALLOWED = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time"},
    "testcase": {"name", "classname", "time"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"type", "message"},
    "property": {"name", "value"},
    "properties": set(),
    "system-out": set(),
}


def only_case(check: Any) -> Any:
    (suite,) = JUnitXml.fromstring(emit(make_report(checks=(check,))).encode())
    (case,) = suite
    return case


@pytest.mark.parametrize("case", CASES)
def test_every_report_has_only_elements_and_attributes_that_jenkins_accepts(case: str) -> None:
    root = ET.fromstring(emit(CASES[case]()))
    for element in root.iter():
        assert set(element.attrib) <= ALLOWED[element.tag]
        assert not element.tag.startswith("test") or element.get("time") == "0"
    for element in (root, *root.iter("testsuite")):
        cases = list(element.iter("testcase"))
        assert element.get("tests") == str(len(cases))
        for plural, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert element.get(plural) == str(sum(one.find(tag) is not None for one in cases))


def test_a_case_is_named_by_policy_and_objective() -> None:
    (suite,) = JUnitXml.fromstring(emit(CASES["fail"]()).encode())
    assert suite.name == "chat-70b"
    assert next((case.classname, case.name) for case in suite) == ("slo-gate.chat-70b", "ttft.p90")
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (7, 2, 0, 1)


def test_the_profile_keeps_two_checks_of_one_policy_apart() -> None:
    (suite,) = JUnitXml.fromstring(emit(make_report(policy=replace(POLICY, profile="pr"))).encode())
    assert {case.classname for case in suite} == {"slo-gate.chat-70b.pr"}


def test_two_objectives_of_one_id_keep_two_names() -> None:
    checks = (make_check(), make_check(), make_check(id="tpot.p99 (2)"), make_check())
    (suite,) = JUnitXml.fromstring(emit(make_report(checks=checks)).encode())
    names = [case.name for case in suite]
    assert len(set(names)) == 4
    assert names[:2] == ["tpot.p99", "tpot.p99 (2)"]


def test_a_blocking_failure_is_a_failure_with_its_reason_and_its_numbers() -> None:
    (result,) = only_case(GOODPUT_FAIL).result
    assert isinstance(result, Failure)
    assert result.message == GOODPUT_FAIL.summary
    assert "observed: 91.8% (interval 90.58% to 92.91%); 246 of 3,000 missed" in result.text
    assert "policy: slo.yaml:18" in result.text
    assert GOODPUT_FAIL.reason in result.text


@pytest.mark.parametrize("check", [EVIDENCE, UNDECIDED])
def test_an_inconclusive_that_blocks_is_an_error_else_skipped(check: Any) -> None:
    (blocking,) = only_case(check).result
    (passing,) = only_case(replace(check, blocks=False)).result
    assert isinstance(blocking, Error)
    assert isinstance(passing, Skipped)
    assert "does not block" in passing.message


def test_a_skipped_objective_is_skipped_with_its_reason() -> None:
    (result,) = only_case(REGRESSION).result
    assert isinstance(result, Skipped)
    assert result.message == "There is no baseline: give one with --baseline."


@pytest.mark.parametrize("check", [EVIDENCE, UNDECIDED, GOODPUT_FAIL, TTFT_FAIL, REGRESSION])
def test_the_message_says_what_was_seen_on_one_line_that_a_list_can_show(check: Any) -> None:
    assert only_case(check).result[0].message == (check.summary or check.reason)
    (long,) = only_case(replace(check, summary="", reason="word " * 89 + "word\nend")).result
    assert len(long.message) <= 240
    assert long.message.endswith("word ...")
    assert long.text.endswith("word end")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("case", CASES)
def test_the_root_counts_what_its_cases_are_in_every_dialect(case: str, dialect: str) -> None:
    root = ET.fromstring(emit(CASES[case](), dialect))
    cases = list(root.iter("testcase"))
    for plural, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert root.get(plural) == str(sum(one.find(tag) is not None for one in cases))
    assert root.get("tests") == str(len(cases))


@pytest.mark.parametrize(
    ("check", "word"),
    [
        (TTFT_WARN, "WARN"),
        (replace(TTFT_FAIL, waived="until 2027-01-31, serving: fix"), "WAIVED"),
        (replace(TTFT_FAIL, level=Level.INFO), "INFO"),
    ],
)
def test_a_failure_that_does_not_block_passes_and_says_so(check: Any, word: str) -> None:
    case = only_case(check)
    assert case.result == []
    assert case.system_out.startswith(f"{word}: does not block\n")
    assert check.reason in case.system_out


def test_a_check_that_broke_is_never_a_pass() -> None:
    (result,) = only_case(make_check(verdict=Verdict.ERROR)).result
    assert isinstance(result, Error)


def test_an_error_report_is_one_case_with_one_error() -> None:
    (suite,) = JUnitXml.fromstring(emit(failed_to_read()).encode())
    (case,) = suite
    (result,) = case.result
    assert isinstance(result, Error)
    assert "results/run-01.json: $.ttfts[1711]" in result.text
    assert (suite.tests, suite.errors) == (1, 1)


def test_the_headline_goodput_latency_and_provenance_are_properties() -> None:
    (suite,) = JUnitXml.fromstring(emit(CASES["fail"]()).encode())
    said = {one.name: one.value for one in suite.properties()}
    assert said["headline"] == CASES["fail"]().headline  # type: ignore[union-attr]
    assert said["latency TTFT"] == "P50 212.4 ms, P90 548.2 ms, P99 912.1 ms, n 2,970"
    assert said["goodput misses"].startswith("246: TTFT alone 175,")
    assert said["sha256 0"].endswith("  slo.yaml")


def test_the_end_of_a_cdata_section_in_a_name_stays_text() -> None:
    case = only_case(replace(GOODPUT_FAIL, reason="a ]]> b <![CDATA[ c"))
    assert "a ]]> b <![CDATA[ c" in case.result[0].text
