"""The Action with a history, as `act` runs it: a push adds, a pull request compares, a fork does neither."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from tests.action.runner import act, repository, rows
from tests.publish.forges import FakeGitHub

POLICY = """version: 1
name: chat
slo:
  ttft: {p90: 500ms}
regression:
  ttft: {p90: {max: 5%}}
evidence: {decide: point}
"""
REPOSITORY = {"default_branch": "main", "full_name": "owner/repo"}
PUSH = {"ref": "refs/heads/main", "repository": REPOSITORY, "before": "0" * 40}


def request(head: str) -> dict[str, Any]:
    ends = {"base": ("owner/repo", "main"), "head": (head, "change")}
    ends_ = {
        end: {
            "sha": "c" * 40,
            "ref": ref,
            "label": f"{name.split('/')[0]}:{ref}",
            "repo": {"full_name": name},
        }
        for end, (name, ref) in ends.items()
    }
    return {"pull_request": {"number": 7, **ends_}, "repository": REPOSITORY, "number": 7}


EVENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "push": ("push", PUSH),
    "branch": ("push", {**PUSH, "ref": "refs/heads/topic"}),
    "same": ("pull_request", request("owner/repo")),
    "fork": ("pull_request", request("stranger/repo")),
}


@pytest.fixture(scope="module")
def branch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bare repository that holds the history."""
    path = tmp_path_factory.mktemp("remote") / "bare.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(path)], check=True)
    return path


def held(branch: Path) -> list[str]:
    words = ["git", "-C", str(branch), "ls-tree", "--name-only", "refs/heads/slo-history"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, branch: Path) -> dict[str, Any]:
    """Each event after the others: its run, its report, and how many sessions there are then."""
    found = {}
    with HTTPServer() as server:
        forge = FakeGitHub(server)
        for number, (name, (event, payload)) in enumerate(EVENTS.items()):
            folder = repository(tmp_path_factory.mktemp(name) / "repo")
            (folder / "slo.yaml").write_text(POLICY, encoding="utf-8")
            (folder / "good.jsonl").write_text(rows(200 + number, 0.1 + number / 100), encoding="utf-8")
            out = folder.parent / "kept.json"
            inputs = {
                "results": "good.jsonl",
                "history": f"git:{branch}#slo-history",
                "history-write": "auto",
                "report-json": "r.json",
                "comment": "always",
                "trend-url": "https://reports.example/trend.html",
            }
            steps = [
                {"id": "gate", "name": "gate", "uses": "./", "continue-on-error": True, "with": inputs},
                {"name": "keep", "run": 'cp r.json "$KEPT"'},
            ]
            env = {"GITHUB_BASE_REF": "main"} if event == "pull_request" else {}
            done = act(folder, steps, api=forge.url, event=event, payload=payload, KEPT=str(out), **env)
            assert out.is_file(), done.log
            found[name] = done, json.loads(out.read_text(encoding="utf-8")), len(held(branch))
            found[f"{name} comments"] = list(forge.bodies)
    return found


def test_a_push_to_the_default_branch_adds(ran: dict[str, Any]) -> None:
    done, report, sessions = ran["push"]
    assert sessions == 1, done.part("gate")
    assert report["baseline"] is None
    assert "1 session of" in done.part("gate")
    assert "(main) added" in done.part("gate")


def test_a_push_to_another_branch_compares_and_adds_nothing(ran: dict[str, Any]) -> None:
    done, report, sessions = ran["branch"]
    assert sessions == 1
    assert report["baseline"]["sessions"] == 1
    assert "nothing added: refs/heads/topic is not the default branch" in done.part("gate")


def test_a_pull_request_compares_and_adds_nothing(ran: dict[str, Any]) -> None:
    done, report, sessions = ran["same"]
    assert sessions == 1
    assert report["baseline"]["sessions"] == 1
    (rule,) = [one for one in report["objectives"] if one["id"] == "regression.ttft.p90"]
    assert rule["observed"] == pytest.approx(0.2)  # 120 ms against 100 ms
    assert "nothing added: the event is pull_request" in done.part("gate")


def test_the_comment_of_a_pull_request_links_to_the_trend(ran: dict[str, Any]) -> None:
    assert ran["branch comments"] == []
    (body,) = ran["same comments"]
    assert "[trend](https://reports.example/trend.html)" in body


def test_a_pull_request_of_a_fork_reads_nothing_and_writes_nothing(ran: dict[str, Any]) -> None:
    done, report, sessions = ran["fork"]
    assert sessions == 1
    assert report["baseline"] is None
    assert any("not read, this is a pull request of a fork" in note for note in report["notes"])
    assert "nothing added: the event is pull_request" in done.part("gate")
    assert done.outputs("gate")["exit-code"] == "0"
