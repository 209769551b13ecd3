"""`slo-gate comment --check-run`: the verdict as a check run of the commit, on the fake API."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gate.model import AnyReport, PolicyName, Report, Verdict
from tests.emit.reports import (
    POLICY,
    TTFT_FAIL,
    failed_to_read,
    failing,
    hostile,
    inconclusive,
    make_report,
    passing,
    warning,
)
from tests.publish.conftest import Comment
from tests.publish.forges import SHA, FakeGitHub, reply, times

ALONE = ("--check-run", "--mode", "never")


def let_through() -> Report:
    return replace(inconclusive(), exit_code=0)


CONCLUSIONS = [
    (passing(), "success"),
    (warning(), "success"),
    (failing(), "failure"),
    (inconclusive(), "failure"),
    (let_through(), "neutral"),
    (replace(failing(), exit_code=0, report_only=True), "neutral"),
    (replace(warning(), exit_code=5), "failure"),
    (failed_to_read(), "failure"),
]


@pytest.mark.parametrize(("report", "conclusion"), CONCLUSIONS, ids=[str(at) for at in range(8)])
def test_only_what_holds_is_a_success(
    report: AnyReport, conclusion: str, github: FakeGitHub, comment: Comment
) -> None:
    done = comment(report, *ALONE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "check-run https://forge/r/1\n", "")
    (run,) = github.checks
    assert (run["conclusion"], run["status"], run["head_sha"]) == (conclusion, "completed", SHA)
    assert run["output"]["title"] == report.headline[:255]
    assert run["output"]["summary"].startswith(f"### {report.headline[:20]}")
    assert run["details_url"] == "https://github.example/owner/repo/actions/runs/99"
    assert github.comments == []


def test_its_annotations_are_on_the_lines_of_the_policy(github: FakeGitHub, comment: Comment) -> None:
    comment(replace(failing(), policy=replace(POLICY, repository_path="services/a/slo.yaml")), *ALONE)
    first, *_, last = github.checks[0]["output"]["annotations"]
    assert (first["path"], first["start_line"], first["end_line"]) == ("services/a/slo.yaml", 12, 12)
    assert (first["annotation_level"], last["annotation_level"]) == ("failure", "warning")
    assert first["title"] == "FAIL ttft.p99"
    assert "948.4 ms" in first["message"]


def test_more_annotations_than_the_api_takes_at_a_time_are_added(
    github: FakeGitHub, comment: Comment
) -> None:
    checks = tuple(replace(TTFT_FAIL, id=f"ttft.p{n}") for n in range(120))
    comment(make_report(verdict=Verdict.FAIL, exit_code=1, checks=checks), *ALONE)
    titles = [one["title"] for one in github.checks[0]["output"]["annotations"]]
    assert sorted(titles) == sorted(f"FAIL ttft.p{n}" for n in range(120))
    assert github.writes() == ["POST", "PATCH", "PATCH"]


def test_each_gate_has_a_name_of_its_own_that_its_verdict_does_not_change(
    github: FakeGitHub, comment: Comment
) -> None:
    """The latest run of a name counts: a leg that passes must not hide one that fails."""
    gates: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({}, ()),
        ({"path": "services/b/slo.yaml"}, ()),
        ({"profile": "pr"}, ()),
        ({}, ("--job", "gate / h100")),
        ({}, ("--key", "x")),
    ]
    for changes, options in gates:
        policy = replace(POLICY, **changes)
        error = replace(failed_to_read(), policy=PolicyName(policy.name, policy.path, policy.profile))
        for report in (replace(failing(), policy=policy), error):
            comment(report, *ALONE, *options)
    names = [run["name"] for run in github.checks]
    assert len(set(names)) == 5
    assert names == [name for name in dict.fromkeys(names) for _ in range(2)]


def test_a_push_has_a_check_run_though_it_has_no_pull_request(github: FakeGitHub, comment: Comment) -> None:
    done = comment(failing(), *ALONE, event={"ref": "refs/heads/main"}, GITHUB_SHA="f" * 40)
    assert done.stdout == "check-run https://forge/r/1\n"
    assert github.checks[0]["head_sha"] == "f" * 40


def test_a_refusal_is_a_warning_with_the_permission_it_needs(github: FakeGitHub, comment: Comment) -> None:
    refused = {"message": "Resource not accessible by integration"}
    github.faults.append(times(9, "POST", answer=lambda: reply(403, refused)))
    done = comment(failing(), *ALONE)
    assert (done.returncode, done.stdout) == (0, "")
    assert "warning: no check run was made: HTTP 403" in done.stderr
    assert "checks: write" in done.stderr


def test_a_hostile_report_says_nothing_but_its_verdict(github: FakeGitHub, comment: Comment) -> None:
    comment(hostile(), *ALONE)
    (run,) = github.checks
    assert "<script>" not in run["output"]["summary"]
    assert "\n" not in run["name"] + run["output"]["title"]


def test_comment_and_check_run_are_made_at_once(github: FakeGitHub, comment: Comment) -> None:
    done = comment(failing(), "--check-run")
    assert done.stdout == "check-run https://forge/r/1\ncreated https://forge/c/1001\n"
    assert (len(github.checks), len(github.comments)) == (1, 1)
