"""One comment of several jobs: each brings its own row up to date and loses no other's."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from gate import publish
from gate.emit import EMITTERS
from gate.publish._body import CHARACTERS
from tests.emit.reports import failed_to_read, failing, hostile, passing
from tests.publish.conftest import Comment
from tests.publish.forges import SHA, TOKEN, FakeForge, FakeGitLab
from tests.publish.test_comment import gitlab_env

KEY = ("--join", "--key", "matrix")


def rows(body: str) -> list[tuple[str, str]]:
    """(verdict, benchmark) of each row of the table, as a reader sees them."""
    table = body[body.index("| --- | --- | --- | --- |\n") :].split("\n\n")[0]
    return re.findall(r"^\| (\w+) \| (.*?) \| .* \| .* \|$", table, re.MULTILINE)


def test_each_job_has_a_row_worst_first_with_its_report_folded(
    github: FakeForge,
    comment: Comment,
) -> None:
    assert comment(
        passing(), "--mode", "always", "--join=H100", "--key", "m", "--job", "a"
    ).stdout.startswith("created")
    assert (
        comment(failing(), "--join=A100", "--key", "m", "--job", "b").stdout
        == "updated https://forge/c/1001\n"
    )
    (body,) = github.bodies
    assert rows(body) == [("FAIL", "A100"), ("PASS", "H100")]
    assert "### FAIL: 2 benchmarks: 1 FAIL, 1 PASS\n" in body
    assert body.count("<summary>A100</summary>") == body.count("<summary>H100</summary>") == 1
    assert body.count("[0123456789ab](https://github.example/owner/repo/actions/runs/99)") == 2
    assert comment(passing(), "--join=A100", "--key", "m", "--job", "b").returncode == 0
    (body,) = github.bodies
    assert rows(body) == [("PASS", "A100"), ("PASS", "H100")]
    assert "### PASS: 2 benchmarks: 2 PASS\n" in body


def test_the_uploaded_page_is_linked_and_only_an_address_is_one(github: FakeForge, comment: Comment) -> None:
    page = "https://ci.example/jobs/9/artifacts/file/report.html?a=1&b=%20"
    comment(failing(), "--page", page)
    comment(failing(), *KEY, "--page", page)
    assert (
        f"[run](https://github.example/owner/repo/actions/runs/99), [report page]({page})" in github.bodies[0]
    )
    assert f"[0123456789ab]({page})" in github.bodies[1]
    assert comment(failing(), *KEY, "--page", page).stdout.startswith("unchanged")
    for wrong in ("javascript:alert(1)", "https://x/)-->", "report.html"):
        assert comment(failing(), "--page", wrong).returncode == 2
        assert comment(failing(), "--trend", wrong).returncode == 2


def test_the_page_of_the_trend_is_linked_beside_the_run(github: FakeForge, comment: Comment) -> None:
    page = "https://pages.example/trend.html"
    comment(failing(), "--trend", page)
    assert f"[run](https://github.example/owner/repo/actions/runs/99), [trend]({page})" in github.bodies[0]


def test_a_row_is_named_by_what_was_measured(github: FakeForge, comment: Comment) -> None:
    comment(failing(), *KEY)
    ((verdict, name),) = rows(github.bodies[0])
    assert (verdict, name) == ("FAIL", "chat-70b: meta-llama/Llama-3.3-70B-Instruct, 8xH100, concurrency 64")


def test_an_error_takes_the_place_of_the_verdict_of_its_job(github: FakeForge, comment: Comment) -> None:
    comment(passing(), *KEY, "--mode", "always", "--job", "a")
    comment(failed_to_read(), *KEY, "--job", "a")
    assert [verdict for verdict, _ in rows(github.bodies[0])] == ["ERROR"]


def test_a_green_row_is_silent_until_there_is_a_comment(github: FakeForge, comment: Comment) -> None:
    assert comment(passing(), *KEY).stdout == "skipped\n"
    comment(failing(), *KEY, "--job", "b")
    comment(passing(), *KEY)
    assert len(rows(github.bodies[0])) == 2


def test_another_key_and_a_comment_of_one_job_stay_apart(github: FakeForge, comment: Comment) -> None:
    comment(failing(), *KEY)
    comment(failing(), "--join", "--key", "other")
    comment(failing(), "--key", "matrix")
    assert len(github.bodies) == 3


def test_a_row_of_another_commit_says_so(github: FakeForge, comment: Comment) -> None:
    comment(failing(), *KEY, "--job", "a")
    later = {"pull_request": {"number": 7, "head": {"sha": "f" * 40}}}
    comment(failing(), *KEY, "--job", "b", event=later)
    (body,) = github.bodies
    assert body.count("(another commit)") == 1
    assert re.search(r"\[0123456789ab\]\(\S+\) \(another commit\)", body)


def test_unchanged_rows_are_not_sent_again(github: FakeForge, comment: Comment) -> None:
    comment(failing(), *KEY)
    writes = len(github.writes())
    github.comments[0]["body"] = github.comments[0]["body"].replace("\n", "\r\n").rstrip()
    assert comment(failing(), *KEY).stdout.startswith("unchanged")
    assert len(github.writes()) == writes


def test_a_hostile_report_ends_no_row_and_no_fold(github: FakeForge, comment: Comment) -> None:
    comment(failing(), *KEY, "--job", "a")
    comment(hostile(), *KEY, "--job", "b")
    comment(hostile(), "--join=x | <!-- slo-gate:end --> @team", "--key", "matrix", "--job", "c")
    (body,) = github.bodies
    assert len(rows(body)) == 3
    assert body.count("<!-- slo-gate:end -->") == body.count("<!-- slo-gate:leg ") == 3
    assert "@team" not in re.sub(r"(?s)<pre>.*?</pre>", "", body)  # where forges look for no mention


def test_gitlab_s_jobs_share_a_note(httpserver: HTTPServer, comment: Comment) -> None:
    forge = FakeGitLab(httpserver)
    for job in ("bench: [a]", "bench: [b]"):
        comment(failing(), *KEY, **gitlab_env(forge, CI_JOB_NAME=job))
    assert len(forge.bodies) == 1
    assert len(rows(forge.bodies[0])) == 2


def post(job: str, markdown: str = "") -> publish.Post:
    text = markdown or EMITTERS["markdown"](failing())
    return publish.Post(text, job, "m", "slo.yaml", "chat", None, False, "FAIL", f"leg {job}")


def here(forge: FakeForge) -> tuple[publish.Place, Any]:
    env = {"GITHUB_API_URL": forge.url, "GITHUB_REPOSITORY": "owner/repo", "GITHUB_TOKEN": TOKEN,
           "GITHUB_SHA": SHA, "no_proxy": "*"}  # fmt: skip
    return publish.place(env, "7", 10)


@pytest.mark.parametrize("jobs", [2, 5])
def test_jobs_that_end_at_once_lose_no_row_and_leave_one_comment(
    github: FakeForge,
    monkeypatch: pytest.MonkeyPatch,
    jobs: int,
) -> None:
    monkeypatch.setattr(publish, "SETTLE_S", 0.3)  # the server answers in a millisecond
    monkeypatch.setenv("no_proxy", "*")
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda job: publish.publish(post(str(job)), *here(github)), range(jobs)))
    (body,) = github.bodies
    assert sorted(name for _, name in rows(body)) == [f"leg {job}" for job in range(jobs)]


def test_forty_long_reports_fit_and_keep_every_row(
    github: FakeForge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "SETTLE_S", 0.0)
    monkeypatch.setenv("no_proxy", "*")
    long = "### FAIL chat (blocked)\n\n" + "\n\n".join(f"paragraph {n} " + "x" * 200 for n in range(150))
    for job in range(40):
        publish.publish(post(str(job), long), *here(github))
    (body,) = github.bodies
    assert len(body) <= CHARACTERS
    assert len(rows(body)) == 40
