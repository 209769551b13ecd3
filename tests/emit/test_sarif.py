"""SARIF as GitHub's code scanning reads it; tests/npm holds it to the published schema."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from gate.emit.sarif import emit
from gate.model import AnyReport, PolicyName
from tests.emit.reports import (
    CASES,
    POLICY,
    TTFT_FAIL,
    TTFT_WARN,
    UNDECIDED,
    failed_to_read,
    failing,
    make_report,
)


def run_of(report: AnyReport) -> Any:
    (run,) = json.loads(emit(report))["runs"]
    return run


def test_a_rule_that_did_not_hold_is_a_result_on_its_line_of_the_policy() -> None:
    placed = replace(POLICY, repository_path="services/a b/slo.yaml")
    run = run_of(replace(failing(), policy=placed))
    first = run["results"][0]
    (place,) = first["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "services/a%20b/slo.yaml"
    assert place["physicalLocation"]["region"] == {"startLine": 12}
    assert (first["ruleId"], first["level"]) == ("ttft.p99", "error")
    assert run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == "ttft.p99"
    assert "948.4 ms" in first["message"]["text"]
    assert run["invocations"] == [{"executionSuccessful": True, "exitCode": 1}]


def test_what_does_not_block_weighs_less_and_a_waiver_is_a_suppression() -> None:
    checks = (
        TTFT_WARN,
        replace(UNDECIDED, blocks=False),
        replace(TTFT_FAIL, waived="until 2027-01-31, serving: fix"),
    )
    results = {one["ruleId"]: one for one in run_of(make_report(checks=checks))["results"]}
    levels = {name: one["level"] for name, one in results.items()}
    assert levels == {"goodput": "note", "ttft.p90": "warning", "ttft.p99": "warning"}
    assert results["ttft.p99"]["suppressions"][0]["justification"] == "until 2027-01-31, serving: fix"
    assert "suppressions" not in results["ttft.p90"]


def test_a_pass_has_no_result_and_an_error_has_one() -> None:
    """An upload without results would close what an earlier one has found."""
    assert run_of(make_report())["results"] == []
    run = run_of(failed_to_read())
    (result,) = run["results"]
    assert (result["level"], "the JSON ends in the middle" in result["message"]["text"]) == ("error", True)
    assert run["invocations"] == [{"executionSuccessful": False, "exitCode": 3}]


def test_a_fingerprint_survives_another_value_and_parts_two_services() -> None:
    def prints(**changes: Any) -> set[str]:
        found = run_of(replace(failing(), **changes))["results"]
        return {one["partialFingerprints"]["sloGate/v1"] for one in found}

    said = {"observed": 9.0, "observed_text": "9 s", "reason": "worse"}
    worse = tuple(replace(check, **said) for check in failing().checks)
    assert prints() == prints(checks=worse)
    assert not prints() & prints(policy=replace(POLICY, repository_path="services/b/slo.yaml"))


def test_two_gates_of_one_commit_are_two_categories() -> None:
    paths = ("a/slo.yaml", "b/slo.yaml")
    reports = [replace(failing(), policy=replace(POLICY, repository_path=path)) for path in paths]
    reports += [replace(failed_to_read(), policy=PolicyName(POLICY.name, path, "pr")) for path in paths]
    assert len({run_of(report)["automationDetails"]["id"] for report in reports}) == 4
    error = replace(failed_to_read(), policy=PolicyName(POLICY.name, "a/slo.yaml", None))
    assert run_of(error)["automationDetails"] == run_of(reports[0])["automationDetails"]


@pytest.mark.parametrize("case", CASES)
def test_no_name_makes_a_link_or_a_command(case: str) -> None:
    text = emit(CASES[case]())
    assert text.isascii()
    assert "##" not in text
    for result in run_of(CASES[case]())["results"]:
        assert "](" not in result["message"]["text"]


def test_an_embedded_policy_and_one_outside_have_no_location() -> None:
    for path, place in (("preset:chat", None), ("/etc/slo.yaml", "")):
        policy = replace(POLICY, path=path, repository_path=place)
        assert all("locations" not in one for one in run_of(replace(failing(), policy=policy))["results"])
