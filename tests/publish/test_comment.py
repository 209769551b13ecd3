"""`slo-gate comment` against the forges' APIs on loopback: one comment, and a verdict no fault changes."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from gate.model import AnyReport, PolicyName
from tests.conftest import Process
from tests.emit.reports import (
    HOSTILE,
    POLICY,
    TTFT_FAIL,
    failed_to_read,
    failing,
    hostile,
    make_report,
    make_run,
    passing,
    warning,
)
from tests.publish.conftest import Comment
from tests.publish.forges import BOT, SHA, TOKEN, FakeForge, FakeGitHub, FakeGitLab, reply, times

# ---- sticky -------------------------------------------------------------------------------


def test_a_failure_is_posted_once_and_turns_green_in_place(github: FakeGitHub, comment: Comment) -> None:
    first = comment(failing())
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == "created https://forge/c/1001\n"
    assert "FAIL chat-70b" in github.bodies[0]
    second = comment(passing())
    assert second.stdout == "updated https://forge/c/1001\n"
    assert len(github.bodies) == 1
    assert "PASS chat-70b" in github.bodies[0]


def test_the_address_that_the_api_answers_with_drives_no_terminal_and_no_runner(
    github: FakeGitHub, comment: Comment
) -> None:
    address = "https://forge/\x1b[2J\u202ec\n::error::1 ##[error]x"
    github.faults.append(
        lambda request: (
            reply(201, {**github.add("x"), "html_url": address}) if request.method == "POST" else None
        )
    )
    done = comment(failing())
    assert done.returncode == 0
    assert done.stdout == "created https://forge/\\x1b[2J\\u202ec : :error::1 # #[error]x\n"


def test_a_pass_is_silent_on_change_and_posted_always(github: FakeGitHub, comment: Comment) -> None:
    assert comment(passing()).stdout == "skipped\n"
    assert github.comments == []
    assert comment(passing(), "--mode", "always").stdout.startswith("created")


def test_a_warning_is_not_green(github: FakeGitHub, comment: Comment) -> None:
    assert comment(warning()).stdout.startswith("created")


def test_never_asks_nobody(github: FakeGitHub, comment: Comment) -> None:
    assert comment(failing(), "--mode", "never").stdout == ""
    assert github.calls == []


def test_unchanged_text_is_not_sent_again_though_the_forge_changed_line_ends(
    github: FakeGitHub, comment: Comment
) -> None:
    comment(failing())
    github.comments[0]["body"] = github.bodies[0].rstrip().replace("\n", "\r\n")
    assert comment(failing()).stdout.startswith("unchanged")
    assert github.writes() == ["POST"]


def test_a_comment_on_page_3_is_found(github: FakeGitHub, comment: Comment) -> None:
    comment(failing())
    ours = github.comments.pop()
    for number in range(250):
        github.add(f"talk {number}", {"login": "dev", "type": "User"})
    github.comments.append(ours)
    assert comment(warning()).stdout == "updated https://forge/c/1001\n"
    assert len(github.comments) == 251
    pages = [path for method, path in github.calls if method == "GET" and "page=3" in path]
    assert len(pages) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"options": ("--key", "h100")},
        {"options": ("--job", "gate h100")},
        {"env": {"GITHUB_JOB": "nightly"}},
        {"env": {"GITHUB_WORKFLOW": "nightly"}},
        {"policy": {"name": "voice"}},
        {"policy": {"path": "services/b/slo.yaml"}},
        {"policy": {"repository_path": "services/b/slo.yaml"}},
        {"policy": {"profile": "pr"}},
    ],
    ids=str,
)
def test_another_job_key_policy_path_name_or_profile_has_its_own_comment(
    other: dict[str, Any], github: FakeGitHub, comment: Comment
) -> None:
    comment(failing())
    report = replace(failing(), policy=replace(POLICY, **other.get("policy", {})))
    for _ in range(2):
        comment(report, *other.get("options", ()), **other.get("env", {}))
    assert len(github.comments) == 2


def test_what_was_measured_does_not_part_a_comment_from_its_gate(
    github: FakeGitHub, comment: Comment
) -> None:
    """The broken run states no model, or ran on another machine: the mended one heals its comment."""
    for model, hardware in (("?", "1xA100"), (None, None), ("meta-llama/Llama-3.3-70B-Instruct", "8xH100")):
        comment(replace(failing(), runs=(make_run(model=model, hardware=hardware),)))
    comment(passing())
    (body,) = github.bodies
    assert "PASS chat-70b" in body


BROKEN = replace(failed_to_read(), policy=PolicyName(None, POLICY.path, None))
ELSEWHERE = PolicyName("voice", "services/b/slo.yaml", None)


@pytest.mark.parametrize(
    "error",
    [
        replace(failed_to_read(), policy=ELSEWHERE),
        replace(failed_to_read(), policy=replace(ELSEWHERE, name=None)),
        replace(failed_to_read(), policy=replace(ELSEWHERE, path=POLICY.path)),
        replace(BROKEN, policy=PolicyName(None, POLICY.path, "nightly")),
        replace(failed_to_read(), policy=None),
    ],
    ids=("other policy", "other policy, broken", "other name", "other profile", "no policy"),
)
def test_the_error_of_another_gate_replaces_no_verdict(
    error: AnyReport, github: FakeGitHub, comment: Comment
) -> None:
    comment(failing())
    before = github.bodies[0]
    comment(error)
    comment(error)
    assert len(github.bodies) == 2
    assert github.bodies[0] == before
    comment(passing())  # and heals its own alone
    assert ["PASS" in body for body in github.bodies] == [True, False]


def test_a_policy_that_cannot_be_loaded_takes_the_place_of_its_verdict_and_gives_it_back(
    github: FakeGitHub, comment: Comment
) -> None:
    by_default = replace(POLICY, profile="pr")  # the policy's own default: the broken one cannot name it
    for report in (replace(failing(), policy=by_default), BROKEN):
        comment(report)
        assert len(github.bodies) == 1
    assert "the JSON ends in the middle" in github.bodies[0]
    comment(replace(passing(), policy=by_default))
    (body,) = github.bodies
    assert "PASS" in body


def test_a_broken_policy_first_is_found_by_the_verdict_that_follows(
    github: FakeGitHub, comment: Comment
) -> None:
    comment(BROKEN)
    comment(replace(passing(), policy=replace(POLICY, profile="pr")))
    (body,) = github.bodies
    assert "PASS" in body


def test_of_two_verdicts_a_broken_policy_replaces_neither(github: FakeGitHub, comment: Comment) -> None:
    for profile in ("pr", "nightly"):
        comment(replace(failing(), policy=replace(POLICY, profile=profile)))
    comment(BROKEN)
    assert ["FAIL" in body for body in github.bodies] == [True, True, False]


def test_doubles_of_one_marker_are_removed_and_the_oldest_stays(github: FakeGitHub, comment: Comment) -> None:
    comment(failing())
    first = github.comments[0]["id"]
    github.add(github.bodies[0])
    github.add(github.bodies[0], {"login": "mallory", "type": "User"})  # not ours to remove
    github.add("talk")
    comment(passing())
    assert github.comments[0]["id"] == first
    assert ["PASS" in body for body in github.bodies] == [True, False, False]
    comment(passing())  # also where nothing is written anew
    github.add(github.bodies[0])
    comment(passing())
    assert len(github.bodies) == 3


@pytest.mark.parametrize("report", [warning(), passing()], ids=("warning", "green"))
def test_a_comment_that_went_between_list_and_update_is_made_anew(
    report: AnyReport, github: FakeGitHub, comment: Comment
) -> None:
    comment(failing())

    def gone(request: Request) -> Response | None:
        if request.method == "PATCH":
            github.comments.clear()
        return None

    github.faults.append(gone)
    done = comment(report)
    assert (done.stdout, done.stderr) == ("created https://forge/c/1002\n", "")
    assert len(github.bodies) == 1


def test_an_error_takes_the_place_of_the_verdict_and_gives_it_back(
    github: FakeGitHub, comment: Comment
) -> None:
    comment(failing())
    comment(failed_to_read())
    assert len(github.bodies) == 1
    assert "the JSON ends in the middle" in github.bodies[0]
    comment(passing())
    assert len(github.bodies) == 1
    assert "PASS" in github.bodies[0]


def test_an_error_first_is_found_by_the_verdict_that_follows(github: FakeGitHub, comment: Comment) -> None:
    comment(failed_to_read())
    comment(failing())
    assert len(github.bodies) == 1


def test_commit_and_run_are_named_so_that_an_old_comment_is_seen_to_be_old(
    github: FakeGitHub, comment: Comment
) -> None:
    comment(failing())
    last = github.bodies[0].splitlines()[-1]
    assert last == (f"<sub>Commit {SHA[:12]}, [run](https://github.example/owner/repo/actions/runs/99)</sub>")


# ---- strangers ----------------------------------------------------------------------------


def test_a_marker_a_person_planted_is_not_written_into(github: FakeGitHub, comment: Comment) -> None:
    comment(failing())
    planted = github.bodies[0]
    github.comments.clear()
    github.add(planted, {"login": "mallory", "type": "User"})
    assert comment(warning()).stdout.startswith("created")
    assert github.bodies[0] == planted
    assert len(github.bodies) == 2


def test_a_comment_of_the_token_s_own_person_is_brought_up_to_date(
    github: FakeGitHub, comment: Comment
) -> None:
    github.user = {"login": "release-bot-account", "type": "User"}
    comment(failing())
    assert comment(warning()).stdout.startswith("updated")
    assert len(github.bodies) == 1


def test_a_quoted_marker_and_another_bot_are_left_alone(github: FakeGitHub, comment: Comment) -> None:
    comment(failing())
    mark = github.bodies[0].splitlines()[0]
    github.comments.clear()
    github.add(f"> {mark}\nlooks bad", BOT)
    github.add("<!-- other-bot -->\nfine", BOT)
    before = list(github.bodies)
    comment(failing())
    assert github.bodies[:2] == before
    assert len(github.bodies) == 3


def test_a_hostile_report_keeps_one_marker_and_no_mention(github: FakeGitHub, comment: Comment) -> None:
    for _ in range(2):
        comment(hostile())
    (body,) = github.bodies
    assert body.count("<!--") == 1
    assert body.startswith("<!-- slo-gate:comment job=")
    # In <pre> no forge looks for mentions: there the command stands as it must be copied.
    prose = re.sub(r"(?s)<pre>.*?</pre>", "", body)
    assert "team" in prose
    assert "@team" not in prose
    assert "<script>" not in body
    assert HOSTILE not in body


# ---- faults -------------------------------------------------------------------------------


def test_502_twice_then_200_leaves_one_comment(github: FakeGitHub, comment: Comment) -> None:
    github.faults.append(times(2, "GET", "POST", answer=lambda: reply(502, {"message": "Bad Gateway"})))
    done = comment(failing())
    assert (done.returncode, done.stderr, len(github.bodies)) == (0, "", 1)


def test_a_post_that_worked_though_it_said_502_is_not_left_twice(
    github: FakeGitHub, comment: Comment
) -> None:
    first = [True]

    def swallowed(request: Request) -> Response | None:
        if request.method == "POST" and first:
            first.clear()
            github.route(request)
            return reply(502, {})
        return None

    github.faults.append(swallowed)
    assert comment(failing()).returncode == 0
    assert len(github.bodies) == 1
    assert "DELETE" in github.writes()


@pytest.mark.parametrize("status", [403, 429])
def test_a_rate_limit_is_waited_out_as_long_as_it_says(
    status: int, github: FakeGitHub, comment: Comment
) -> None:
    message = {"message": "You have exceeded a secondary rate limit"}
    github.faults.append(times(1, "POST", answer=lambda: reply(status, message, Retry_After="2")))
    began = time.monotonic()
    done = comment(failing())
    assert (done.returncode, done.stderr, len(github.bodies)) == (0, "", 1)
    assert time.monotonic() - began >= 2


@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize("prefix", ["X-RateLimit", "RateLimit"])
def test_a_used_up_limit_is_waited_out_until_its_reset(
    prefix: str, status: int, github: FakeGitHub, comment: Comment
) -> None:
    reset = int(time.time()) + 3

    def limited() -> Response:
        answer = reply(status, {"message": "API rate limit exceeded"})
        answer.headers.update({f"{prefix}-Remaining": "0", f"{prefix}-Reset": str(reset)})
        return answer

    github.faults.append(times(1, "POST", answer=limited))
    done = comment(failing())
    assert (done.returncode, done.stderr, len(github.bodies)) == (0, "", 1)
    assert time.time() >= reset
    assert github.writes() == ["POST", "POST"]


@pytest.mark.parametrize("status", [403, 429])
def test_a_reset_in_an_hour_is_a_warning_not_an_hour(
    status: int, github: FakeGitHub, comment: Comment
) -> None:
    said = {"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": str(int(time.time()) + 3600)}
    github.faults.append(times(9, "GET", answer=lambda: reply(status, {}, **said)))
    done = comment(failing())
    assert (done.returncode, "the rate limit is used up" in done.stderr) == (0, True)
    assert len(github.calls) == 1


def test_a_wait_of_an_hour_is_a_warning_not_an_hour(github: FakeGitHub, comment: Comment) -> None:
    github.faults.append(times(9, "GET", answer=lambda: reply(429, {}, Retry_After="3600")))
    done = comment(failing())
    assert done.returncode == 0
    assert "the rate limit is used up" in done.stderr
    assert len(github.calls) == 1


REFUSALS = [
    (401, "Bad credentials", "the token may not comment"),
    (403, "Resource not accessible by integration", "docs/ci/forks.md"),
    (404, "Not Found", "check the repository and number"),
    (403, "API rate limit exceeded for installation", "the rate limit is used up"),
]


@pytest.mark.parametrize(("status", "message", "hint"), REFUSALS)
def test_a_refusal_is_a_warning_with_what_to_do(
    status: int, message: str, hint: str, github: FakeGitHub, comment: Comment
) -> None:
    github.faults.append(times(99, "POST", answer=lambda: reply(status, {"message": message})))
    done = comment(failing())
    assert done.returncode == 0
    assert f"warning: no comment was written: HTTP {status} to POST: {message}" in done.stderr
    assert "The verdict stands." in done.stderr
    assert hint in done.stderr
    assert github.comments == []


def test_a_server_that_stays_broken_is_a_warning(github: FakeGitHub, comment: Comment) -> None:
    github.faults.append(times(99, "GET", answer=lambda: Response("<html>", 503, {"Retry-After": "0"})))
    done = comment(failing())
    assert (done.returncode, "HTTP 503 to GET" in done.stderr) == (0, True)


def test_a_server_that_does_not_answer_is_a_warning(comment: Comment) -> None:
    # its own socket: what a shared server is late with would reach the next test
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = comment(failing(), "--timeout", "0.2", GITHUB_API_URL=url)
    assert (done.returncode, "no answer" in done.stderr) == (0, True)


def test_nobody_at_the_address_is_a_warning(comment: Comment) -> None:
    done = comment(failing(), GITHUB_API_URL="http://127.0.0.1:9")
    assert (done.returncode, "no answer" in done.stderr) == (0, True)


def test_an_answer_that_is_not_json_is_a_warning(github: FakeGitHub, comment: Comment) -> None:
    github.faults.append(times(1, "GET", answer=lambda: Response("<html>welcome</html>", 200)))
    done = comment(failing())
    assert (done.returncode, "not JSON" in done.stderr) == (0, True)


def test_a_warning_is_an_annotation_and_a_line_of_the_summary(
    github: FakeGitHub, comment: Comment, tmp_path: Path
) -> None:
    evil = "no\n::error::x <b>@team</b>"
    github.faults.append(times(9, "POST", answer=lambda: reply(403, {"message": evil})))
    done = comment(
        failing(), "--step-summary", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md")
    )
    assert done.stdout.startswith("::warning title=slo-gate::no comment was written: HTTP 403")
    assert done.stdout.count("\n") == 1
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("### FAIL chat-70b")
    assert "**Note:** no comment was written" in summary
    assert "<b>" not in summary
    assert "@team" not in summary


@pytest.mark.parametrize("most", [20_000, 4_000])
def test_a_422_for_length_is_answered_with_a_shorter_comment(
    most: int, github: FakeGitHub, comment: Comment
) -> None:
    github.most = most
    checks = tuple(replace(TTFT_FAIL, id=f"ttft.p{n}", reason="r" * 300) for n in range(60))
    done = comment(make_report(headline="FAIL chat-70b", verdict=failing().verdict, checks=checks))
    assert (done.returncode, done.stderr) == (0, "")
    (body,) = github.bodies
    assert len(body.encode()) <= most
    assert body.splitlines()[1] == "### FAIL chat-70b"
    assert "Shortened to fit a comment" in body
    again = comment(make_report(headline="FAIL chat-70b", verdict=failing().verdict, checks=checks))
    assert again.stdout.startswith("unchanged")
    assert len(github.bodies) == 1


# ---- where it goes ------------------------------------------------------------------------


def run_event(**changes: Any) -> dict[str, Any]:
    run = {
        "event": "pull_request",
        "head_sha": SHA,
        "head_branch": "fix",
        "head_repository": {"full_name": "stranger/repo"},
        "pull_requests": [],
    }
    return {"workflow_run": {**run, **changes}}


def pull(number: int, sha: str = SHA, repository: str = "stranger/repo", ref: str = "fix") -> dict[str, Any]:
    owner = repository.split("/")[0]
    return {
        "number": number,
        "head": {"sha": sha, "ref": ref, "user": owner, "repo": {"full_name": repository}},
    }


def test_the_pull_request_of_a_fork_is_found_from_head_commit_and_repository(
    github: FakeGitHub, comment: Comment
) -> None:
    github.pulls = [pull(3, repository="stranger/other"), pull(4, sha="f" * 40), pull(7)]
    assert comment(failing(), event=run_event()).stdout.startswith("created")
    assert len(github.bodies) == 1


@pytest.mark.parametrize(
    ("pulls", "event", "said"),
    [
        ([pull(7, sha="f" * 40)], run_event(), "has moved on from commit 0123456789ab"),
        ([], run_event(), "no open pull request has"),
        ([pull(7, repository="stranger/other")], run_event(), "no open pull request has"),
        ([pull(7), pull(8)], run_event(), "several open pull requests have"),
        ([pull(7)], run_event(event="push"), "not about a pull request"),
        ([pull(7)], run_event(head_repository=None), "names no head commit"),
        ([pull(7)], {"ref": "refs/heads/main"}, "not about a pull request"),
        ([pull(7)], [], "not about a pull request"),
    ],
)
def test_where_no_single_pull_request_is_meant_nothing_is_posted(
    pulls: list[Any], event: object, said: str, github: FakeGitHub, comment: Comment
) -> None:
    github.pulls = pulls
    done = comment(failing(), event=event)
    assert (done.returncode, said in done.stderr, github.writes()) == (0, True, [])


def test_a_number_is_taken_as_it_is(github: FakeGitHub, comment: Comment) -> None:
    assert comment(failing(), "--pr", "7", event={"ref": "x"}).stdout.startswith("created")


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"GITHUB_TOKEN": ""}, "GITHUB_TOKEN is not set"),
        ({"GITHUB_REPOSITORY": ""}, "GITHUB_REPOSITORY is not set"),
        ({"GITHUB_API_URL": "http://forge.example"}, "not https, so no token is sent"),
        ({"GITHUB_TOKEN": "two words\r\nX: y"}, "the token is empty or holds spaces"),
        ({"GITHUB_EVENT_PATH": "none.json"}, "the event cannot be read"),
    ],
)
def test_what_the_job_lacks_is_a_warning_with_the_next_step(
    env: dict[str, str], said: str, github: FakeGitHub, comment: Comment
) -> None:
    done = comment(failing(), **env)
    assert (done.returncode, said in done.stderr) == (0, True)
    assert "two words" not in done.stderr
    assert github.calls == []


def test_the_next_page_on_another_host_gets_no_token(github: FakeGitHub, comment: Comment) -> None:
    def away(request: Request) -> Response | None:
        return reply(200, [], Link='<https://evil.example/x>; rel="next"')

    github.faults.append(away)
    done = comment(failing())
    assert (done.returncode, "on another host" in done.stderr) == (0, True)


# ---- the artifact -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"verdict": "pass"}',
        "[" * 100_000,
        '{"schema_version": 1, "verdict": "error"}',
    ],
    ids=lambda text: text[:20],
)
def test_a_file_that_is_no_report_exits_3_and_nothing_is_posted(
    text: str, tmp_path: Path, slo_gate: Process
) -> None:
    (tmp_path / "r.json").write_text(text, encoding="utf-8")
    done = slo_gate("comment", "--report", "r.json")
    assert (done.returncode, done.stdout) == (3, "")
    assert "r.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_report_exits_3(slo_gate: Process) -> None:
    done = slo_gate("comment", "--report", "none.json")
    assert (done.returncode, "none.json" in done.stderr) == (3, True)


@pytest.mark.parametrize("number", ["0", "-1", "x", "7; rm", "", "７", "9" * 5000])
def test_a_number_that_is_none_exits_2(number: str, slo_gate: Process) -> None:
    assert slo_gate("comment", "--report", "r.json", "--pr", number).returncode == 2


# ---- GitLab -------------------------------------------------------------------------------


def gitlab_env(forge: FakeForge, **changes: str) -> dict[str, str]:
    return {
        "GITLAB_CI": "true",
        "CI_API_V4_URL": f"{forge.url}/api/v4",
        "CI_PROJECT_ID": "41",
        "CI_MERGE_REQUEST_PROJECT_ID": "42",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_COMMIT_SHA": SHA,
        "CI_JOB_URL": "https://gitlab.example/g/p/-/jobs/9",
        "GITLAB_TOKEN": TOKEN,
        **changes,
    }


def test_a_merge_request_note_is_sticky_too(httpserver: HTTPServer, comment: Comment) -> None:
    forge = FakeGitLab(httpserver)
    for number in range(210):
        forge.add(f"talk {number}", {"login": "dev"})
    assert comment(failing(), **gitlab_env(forge)).stdout.startswith("created")
    assert comment(passing(), **gitlab_env(forge)).stdout.startswith("updated")
    assert comment(passing(), **gitlab_env(forge)).stdout.startswith("unchanged")
    assert len(forge.bodies) == 211
    assert "PASS chat-70b" in forge.bodies[-1]
    assert "[run](https://gitlab.example/g/p/-/jobs/9)" in forge.bodies[-1]


def test_a_note_with_the_marker_by_another_user_is_left_alone(
    httpserver: HTTPServer, comment: Comment
) -> None:
    forge = FakeGitLab(httpserver)
    comment(failing(), **gitlab_env(forge))
    forge.comments[0]["author"]["username"] = "mallory"
    assert comment(failing(), **gitlab_env(forge)).stdout.startswith("created")


@pytest.mark.parametrize("status", [401, 403])
def test_what_gitlab_refuses_has_gitlab_s_hint(status: int, httpserver: HTTPServer, comment: Comment) -> None:
    forge = FakeGitLab(httpserver)
    forge.faults.append(times(9, "POST", answer=lambda: reply(status, {"message": f"{status} Forbidden"})))
    done = comment(failing(), **gitlab_env(forge))
    assert done.returncode == 0
    assert "project access token with the scope api" in done.stderr
    assert "pull-requests: write" not in done.stderr


def test_two_jobs_of_a_gitlab_matrix_have_a_note_each(httpserver: HTTPServer, comment: Comment) -> None:
    forge = FakeGitLab(httpserver)
    for name in ("gate: [h100]", "gate: [a100]", "gate: [h100]"):
        comment(failing(), **gitlab_env(forge, CI_JOB_NAME=name))
    assert len(forge.bodies) == 2


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"GITLAB_TOKEN": ""}, "CI_JOB_TOKEN may not write notes"),
        ({"CI_MERGE_REQUEST_IID": ""}, "not about a merge request"),
    ],
)
def test_what_a_gitlab_job_lacks_is_a_warning(
    env: dict[str, str], said: str, httpserver: HTTPServer, comment: Comment
) -> None:
    forge = FakeGitLab(httpserver)
    done = comment(failing(), **gitlab_env(forge, **env))
    assert (done.returncode, said in done.stderr, forge.calls) == (0, True, [])


# ---- the step summary ---------------------------------------------------------------------


def many_reasons(size: int) -> AnyReport:
    checks = tuple(replace(TTFT_FAIL, id=f"ttft.p{n}", reason="r" * 1000) for n in range(size))
    return make_report(headline="FAIL chat-70b", verdict=failing().verdict, checks=checks)


@pytest.mark.parametrize("before", [0, 900_000, 999_900, 1_048_000])
def test_the_step_summary_stays_below_its_limit_whatever_is_there(
    before: int, comment: Comment, tmp_path: Path
) -> None:
    path = tmp_path / "summary.md"
    path.write_text("x" * before, encoding="utf-8")
    done = comment(many_reasons(500), "--mode", "never", "--step-summary", GITHUB_STEP_SUMMARY=str(path))
    assert (done.returncode, done.stderr) == (0, "")
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < 1024 * 1024
    assert ("### FAIL chat-70b" in text) == (before < 999_000)


def test_a_summary_that_cannot_be_written_is_a_warning(comment: Comment) -> None:
    done = comment(failing(), "--mode", "never", "--step-summary", GITHUB_STEP_SUMMARY="/dev/full")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "warning: GITHUB_STEP_SUMMARY cannot be written: No space left on device\n"


def test_without_a_runner_there_is_no_summary_and_no_complaint(comment: Comment) -> None:
    done = comment(failing(), "--mode", "never", "--step-summary")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
