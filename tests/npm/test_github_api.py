"""What slo-gate asks of GitHub, held to GitHub's own OpenAPI description by Prism."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError

from msgspec.structs import replace
from pytest_httpserver import HTTPServer

from gate.emit import EMITTERS
from gate.model import AnyReport
from tests.conftest import Process
from tests.emit.reports import (
    TTFT_FAIL,
    failed_to_read,
    failing,
    hostile,
    inconclusive,
    make_report,
    passing,
    sweep,
    warning,
)
from tests.npm.conftest import Prism
from tests.publish.forges import SHA, TOKEN, FakeGitHub

Start = Callable[[str], Prism]


def job(folder: Path, prism: Prism, report: AnyReport, event: object) -> dict[str, str]:
    """The environment of a job on GitHub whose API is behind Prism, with its report and event written."""
    (folder / "report.json").write_text(EMITTERS["json"](report), encoding="utf-8")
    (folder / "event.json").write_text(json.dumps(event), encoding="utf-8")
    return {
        "GITHUB_API_URL": prism.url,
        "GITHUB_SERVER_URL": "https://github.example",
        "GITHUB_REPOSITORY": "owner/repo",
        "GITHUB_RUN_ID": "99",
        "GITHUB_EVENT_PATH": "event.json",
        "GITHUB_TOKEN": TOKEN,
        "no_proxy": "*",
    }


REQUEST = {"pull_request": {"number": 7, "head": {"sha": SHA}}}


def test_prism_finds_a_request_that_is_wrong(prism: Start, httpserver: HTTPServer) -> None:
    proxy = prism(FakeGitHub(httpserver).url)
    url = f"{proxy.url}/repos/owner/repo/issues/7/comments"
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    wrong = urllib.request.Request(url, b'{"body": 7}', headers)
    with suppress(HTTPError):  # the stand-in cannot read it either
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(wrong)
    assert len(proxy.violations()) == 1


def test_comments_are_made_brought_up_to_date_and_removed_as_github_describes_it(
    prism: Start, httpserver: HTTPServer, tmp_path: Path, slo_gate: Process
) -> None:
    forge = FakeGitHub(httpserver)
    proxy = prism(forge.url)
    for report in (failing(), failed_to_read(), passing(), hostile(), sweep(), inconclusive()):
        env = job(tmp_path, proxy, report, REQUEST)
        done = slo_gate("comment", "--report", "report.json", **env)
        assert (done.returncode, done.stderr) == (0, "")
    forge.add(forge.bodies[0])
    done = slo_gate("comment", "--report", "report.json", **job(tmp_path, proxy, warning(), REQUEST))
    assert (done.returncode, done.stderr) == (0, "")
    assert {"POST", "PATCH", "DELETE"} == set(forge.writes())
    assert proxy.violations() == []
    assert proxy.requests() == len(forge.calls)


def test_the_pull_request_of_a_fork_is_looked_for_as_github_describes_it(
    prism: Start, httpserver: HTTPServer, tmp_path: Path, slo_gate: Process
) -> None:
    forge = FakeGitHub(httpserver)
    head = {"sha": SHA, "ref": "fix", "user": "stranger", "repo": {"full_name": "stranger/repo"}}
    forge.pulls = [{"number": 7, "head": head}]
    run = {"event": "pull_request", "head_sha": SHA, "head_branch": "fix"}
    event = {"workflow_run": {**run, "head_repository": {"full_name": "stranger/repo"}}}
    proxy = prism(forge.url)
    done = slo_gate("comment", "--report", "report.json", **job(tmp_path, proxy, failing(), event))
    assert done.stdout.startswith("created"), done.stderr
    assert proxy.violations() == []


def test_check_runs_are_made_as_github_describes_it(
    prism: Start, httpserver: HTTPServer, tmp_path: Path, slo_gate: Process
) -> None:
    forge = FakeGitHub(httpserver)
    proxy = prism(forge.url)
    many = tuple(replace(TTFT_FAIL, id=f"ttft.p{n}") for n in range(60))
    reports = (failing(), failed_to_read(), passing(), hostile(), inconclusive(), make_report(checks=many))
    for report in reports:
        env = job(tmp_path, proxy, report, REQUEST)
        done = slo_gate("comment", "--report", "report.json", "--mode", "never", "--check-run", **env)
        assert (done.returncode, done.stderr) == (0, "")
    assert len(forge.checks) == len(reports)
    assert "PATCH" in forge.writes()
    assert proxy.violations() == []
