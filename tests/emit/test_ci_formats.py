"""Annotations, code quality and metrics, as GitHub, GitLab and Prometheus read them."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from gate.emit import github, gitlab, openmetrics
from gate.model import AnyReport, ErrorReport, PolicyName
from tests.emit.reports import (
    CASES,
    GOODPUT_FAIL,
    POLICY,
    TTFT_FAIL,
    TTFT_WARN,
    UNDECIDED,
    failed_to_read,
    failing,
    hostile,
    make_check,
    make_report,
)
from tests.emit.test_inert import ANY_TEXT, PUNCTUATION

COMMAND = re.compile(r"::(?P<name>[a-z-]+)(?: (?P<properties>.*?))?::(?P<data>.*)")


def runner(log: str) -> list[dict[str, str]]:
    """What GitHub's runner makes of a log: actions/runner, src/Runner.Common/ActionCommand.cs."""
    found = []
    for line in re.split(r"\r\n|\r|\n", log):
        if match := COMMAND.match(line.lstrip()):
            said = dict(item.split("=", 1) for item in (match["properties"] or "").split(",") if "=" in item)
            for code, char in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
                said = {key: value.replace(code, char) for key, value in said.items()}
            data = match["data"].replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
            found.append({"command": match["name"], "data": data, **said})
    return found


def test_one_annotation_a_rule_on_the_line_of_the_policy() -> None:
    first, second, third = runner(github.emit(failing()))
    assert (first["command"], first["file"], first["line"]) == ("error", "slo.yaml", "12")
    assert first["title"] == "FAIL ttft.p99"
    assert first["data"] == "P99 TTFT 948.4 ms > 800 ms: 96 of 3,000 missed, 30 may"
    assert (second["command"], second["title"]) == ("error", "FAIL goodput")
    assert (third["command"], third["title"]) == ("warning", "WARN ttft.p90")


def test_a_pass_is_not_annotated() -> None:
    assert github.emit(make_report()) == ""
    assert json.loads(gitlab.emit(make_report())) == []


def test_an_error_is_one_annotation_with_the_next_step() -> None:
    (only,) = runner(github.emit(CASES["error"]()))
    assert only["command"] == "error"
    assert only["data"].endswith("Next: run the benchmark again, or copy the file whole")


@pytest.mark.parametrize("many", [9, 10, 25])
def test_at_most_nine_annotations_and_how_many_more(many: int) -> None:
    checks = tuple(make_check(**as_dict(TTFT_FAIL, id=f"ttft.p{n}")) for n in range(many))
    found = runner(github.emit(make_report(checks=checks)))
    assert len(found) == min(many, 9) + (many > 9)
    if many > 9:
        assert found[-1]["data"].startswith(f"and {many - 9} more rules")


def as_dict(check: Any, **changes: Any) -> dict[str, Any]:
    return {**{name: getattr(check, name) for name in check.__struct_fields__}, **changes}


def test_report_only_and_waived_rules_are_no_errors() -> None:
    for report in (
        replace(failing(), report_only=True),
        make_report(checks=(replace(TTFT_FAIL, waived="until 2027-01-31, serving: fix"),)),
    ):
        assert {one["command"] for one in runner(github.emit(report))} == {"warning"}
        assert {one["severity"] for one in json.loads(gitlab.emit(report))} == {"minor"}


def test_unproven_and_let_through_is_a_notice() -> None:
    (only,) = runner(github.emit(make_report(checks=(replace(UNDECIDED, blocks=False),))))
    assert only["command"] == "notice"


def test_an_embedded_policy_has_no_file_to_annotate() -> None:
    report = failing()
    preset = replace(report, policy=replace(report.policy, path="preset:chat"))
    assert all("file" not in one for one in runner(github.emit(preset)))


@settings(max_examples=100, deadline=None)
@given(ANY_TEXT | PUNCTUATION | st.sampled_from(["x\n::error::y", "%0A::stop-commands::z", "::add-mask::a"]))
def test_no_name_adds_ends_or_changes_an_annotation(name: str) -> None:
    found = runner(github.emit(hostile(name)))
    waived = "warning" if name else "error"  # nothing is written in the waiver of an empty name
    assert [one["command"] for one in found] == ["error", waived]
    assert {key for one in found for key in one} <= {"command", "data", "file", "line", "title"}


def test_a_message_as_long_as_a_book_is_cut() -> None:
    text = github.emit(make_report(checks=(replace(TTFT_FAIL, id="i" * 9000, summary="r" * 90000),)))
    (only,) = runner(text)
    assert len(only["title"]) <= 255
    assert len(only["data"]) <= 4000
    assert only["data"].endswith(" ...")


GITLAB_SEVERITIES = {"info", "minor", "major", "critical", "blocker"}


@pytest.mark.parametrize("case", CASES)
def test_code_quality_has_every_key_gitlab_requires(case: str) -> None:
    found = json.loads(gitlab.emit(CASES[case]()))
    for one in found:
        assert {type(one[key]) for key in ("description", "check_name", "fingerprint")} == {str}
        assert one["severity"] in GITLAB_SEVERITIES
        assert one["location"]["lines"]["begin"] >= 1
        assert not one["location"]["path"].startswith("./")
    assert len({one["fingerprint"] for one in found}) == len(found)


def test_a_finding_is_pinned_to_the_rule_and_survives_another_value() -> None:
    first, *_ = json.loads(gitlab.emit(failing()))
    assert first["location"] == {"path": "slo.yaml", "lines": {"begin": 12}}
    worse = replace(TTFT_FAIL, observed=1.2, observed_text="1.2 s", summary="worse", misses=300)
    again, *_ = json.loads(gitlab.emit(make_report(checks=(TTFT_WARN, worse))))
    assert (again["fingerprint"], again["description"] == first["description"]) == (
        first["fingerprint"],
        False,
    )


@pytest.mark.parametrize("report", [failing(), failed_to_read()], ids=("rules", "error"))
def test_two_services_whose_policies_have_one_name_keep_their_findings(report: AnyReport) -> None:
    found = []
    for service in ("a", "b"):
        path = f"services/{service}/slo.yaml"
        if isinstance(report, ErrorReport):
            placed = replace(report, policy=PolicyName(POLICY.name, path, None))
        else:
            placed = replace(report, policy=replace(report.policy, repository_path=path))
        found += json.loads(gitlab.emit(placed))
    assert len({one["fingerprint"] for one in found}) == len(found)


def test_an_error_of_a_policy_is_on_its_line_in_the_repository() -> None:
    error = ErrorReport(2, "ERROR", "unknown key", "./slo.yaml:4", "", PolicyName(None, "a/b/slo.yaml", None))
    (finding,) = json.loads(gitlab.emit(error))
    assert finding["location"] == {"path": "a/b/slo.yaml", "lines": {"begin": 4}}


def test_what_blocks_weighs_more_than_what_does_not() -> None:
    checks = (GOODPUT_FAIL, TTFT_WARN, replace(UNDECIDED, id="b"))
    said = {one["check_name"]: one["severity"] for one in json.loads(gitlab.emit(make_report(checks=checks)))}
    assert said == {"goodput": "critical", "b": "major", "ttft.p90": "minor"}


def gauges(report: AnyReport) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    families = text_string_to_metric_families(openmetrics.emit(report))
    return {
        family.name: {tuple(sorted(one.labels.items())): one.value for one in family.samples}
        for family in families
    }


@pytest.mark.parametrize("case", CASES)
def test_metrics_parse_as_openmetrics(case: str) -> None:
    found = gauges(CASES[case]())
    assert sum(len(samples) for samples in found.values()) == openmetrics.emit(CASES[case]()).count("\nslo_")
    assert "slo_gate_exit_code" in found


def test_metrics_hold_the_reports_numbers() -> None:
    found = gauges(failing())
    policy = ("policy", "chat-70b")
    assert found["slo_gate_goodput_ratio"] == {(policy,): 0.918}
    p99 = (("metric", "ttft"), policy, ("quantile", "0.99"))
    assert found["slo_gate_latency_seconds"][p99] == 0.9121
    assert found["slo_gate_requests"][(("kind", "good"), policy)] == 2754
    met = {dict(key)["objective"]: value for key, value in found["slo_gate_objective_met"].items()}
    assert (met["ttft.p99"], met["tpot.p99"]) == (0, 1)
    assert "regression.ttft.p99" not in met  # skipped: neither met nor missed


def test_what_is_not_known_has_no_line() -> None:
    found = gauges(CASES["sweep"]())
    assert not {"slo_gate_goodput_ratio", "slo_gate_latency_seconds"} & set(found)
    unbounded = make_check(observed=math.inf)
    assert "slo_gate_objective_observed" not in gauges(make_report(checks=(unbounded,)))


@settings(max_examples=60, deadline=None)
@given(ANY_TEXT | PUNCTUATION)
def test_no_name_breaks_the_metrics_text(name: str) -> None:
    found = gauges(hostile(name))
    assert len(found["slo_gate_objective_met"]) == 3
