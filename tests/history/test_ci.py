"""Which commit of which branch a CI job measures, and when it may write or read a history."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from gate import history
from gate.cli._history import is_fork, is_request, place, utc, why_not_written
from gate.errors import UsageError
from tests.conftest import Process
from tests.history import sessions as made
from tests.history.test_baselines import bare, records, remembered, reports  # noqa: F401 fixtures

SHA, HEAD = "a" * 40, "b" * 40
GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SHA": SHA,
    "GITHUB_REF_NAME": "main",
    "GITHUB_REF": "refs/heads/main",
}
GITLAB = {"GITLAB_CI": "true", "CI_COMMIT_SHA": SHA, "CI_DEFAULT_BRANCH": "main"}
REPOSITORY = {"repository": {"default_branch": "main"}}


def request(owner: str = "us") -> dict[str, Any]:
    head = {"sha": HEAD, "ref": "change", "label": f"{owner}:change", "repo": {"full_name": f"{owner}/repo"}}
    return {"pull_request": {"head": head, "base": {"repo": {"full_name": "us/repo"}, "ref": "main"}}}


def env(tmp_path: Path, known: dict[str, str], event: dict[str, Any] | None) -> dict[str, str]:
    if event is None:
        return known
    (tmp_path / "event.json").write_text(json.dumps(event))
    return {**known, "GITHUB_EVENT_PATH": str(tmp_path / "event.json")}


PULL = {**GITHUB, "GITHUB_EVENT_NAME": "pull_request", "GITHUB_BASE_REF": "main", "GITHUB_HEAD_REF": "change"}
MERGE = {
    **GITLAB, "CI_PIPELINE_SOURCE": "merge_request_event", "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "change",
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "CI_MERGE_REQUEST_PROJECT_ID": "1",
}  # fmt: skip
PLACES: dict[str, tuple[dict[str, str], dict[str, Any] | None, str, str, bool]] = {
    "push": ({**GITHUB, "GITHUB_EVENT_NAME": "push"}, REPOSITORY, SHA, "main", True),
    "schedule": ({**GITHUB, "GITHUB_EVENT_NAME": "schedule"}, {}, SHA, "main", True),
    "dispatch": ({**GITHUB, "GITHUB_EVENT_NAME": "workflow_dispatch"}, REPOSITORY, SHA, "main", False),
    "topic": (
        {**GITHUB, "GITHUB_EVENT_NAME": "push", "GITHUB_REF": "refs/heads/t", "GITHUB_REF_NAME": "t"},
        REPOSITORY, SHA, "t", False,
    ),
    "tag main": (
        {**GITHUB, "GITHUB_EVENT_NAME": "push", "GITHUB_REF": "refs/tags/main"},
        REPOSITORY, SHA, "main", False,
    ),
    "no default": ({**GITHUB, "GITHUB_EVENT_NAME": "push"}, {}, SHA, "main", False),
    "pull request": (PULL, request(), HEAD, "change", False),
    "fork": (PULL, request("stranger"), HEAD, "stranger:change", False),
    "deleted fork": (
        PULL, {"pull_request": {"head": {"sha": HEAD, "label": "x:main"}}}, HEAD, "x:main", False,
    ),
    "target": ({**PULL, "GITHUB_EVENT_NAME": "pull_request_target"}, request(), HEAD, "change", False),
    "gitlab push": (
        {**GITLAB, "CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BRANCH": "main"}, None, SHA, "main", True,
    ),
    "gitlab web": (
        {**GITLAB, "CI_PIPELINE_SOURCE": "web", "CI_COMMIT_BRANCH": "main"}, None, SHA, "main", False,
    ),
    "gitlab topic": (
        {**GITLAB, "CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BRANCH": "t"}, None, SHA, "t", False,
    ),
    "merge request": ({**MERGE, "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "1"}, None, SHA, "change", False),
    "gitlab fork": (
        {
            **MERGE, "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "2",
            "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": "x/repo",
        },
        None, SHA, "x/repo:change", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("known", "event", "commit", "branch", "writes"), PLACES.values(), ids=PLACES.keys())
def test_what_a_job_measures_and_whether_it_writes(
    known: dict[str, str],
    event: dict[str, Any] | None,
    commit: str,
    branch: str,
    writes: bool,
    tmp_path: Path,
) -> None:
    told = env(tmp_path, known, event)
    found = place(None, None, told)
    assert (found.commit, found.branch) == (commit, branch)
    assert (why_not_written(told) == "") is writes


@pytest.mark.parametrize(("known", "event"), [(PULL, request()), (MERGE, None)], ids=["github", "gitlab"])
def test_a_request_does_not_write_as_the_branch_it_is_judged_by(
    known: dict[str, str], event: dict[str, Any] | None, tmp_path: Path
) -> None:
    told = env(tmp_path, known, event)
    for other in ("main", "release", "Change"):  # the policy may name any branch as the base
        with pytest.raises(UsageError, match=f"does not write the history of {other}"):
            place(SHA, other, told)
    assert place(SHA, "change", told).branch == "change"


QUEUE = {**GITHUB, "GITHUB_EVENT_NAME": "merge_group", "GITHUB_REF_NAME": "gh-readonly-queue/main/pr-1-a"}


@pytest.mark.parametrize("known", [PULL, MERGE, QUEUE], ids=["github", "gitlab", "queue"])
@pytest.mark.parametrize(
    "words", [("add", "r.json", "--branch", "main"), ("accept", made.commit(3)), ("prune", "--keep", "1")]
)
def test_a_request_changes_nothing_that_it_is_judged_by(
    words: tuple[str, ...],
    known: dict[str, str],
    remembered: Path,  # noqa: F811
    reports: Path,  # noqa: F811
    tmp_path: Path,
    slo_gate: Process,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "r.json").write_bytes((reports / "r000.json").read_bytes())
    shutil.copytree(remembered, tmp_path / "store")
    before = sorted(path.name for path in (tmp_path / "store").iterdir())
    for name, value in env(tmp_path, known, request()).items():
        monkeypatch.setenv(name, value)
    done = slo_gate("history", *words, "--store", "store", cwd=tmp_path)
    assert done.returncode == 2
    assert "a pull request " in done.stderr
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == before


OTHERS = {
    "jenkins": ({"CHANGE_TARGET": "main"}, False),
    "jenkins fork": ({"CHANGE_TARGET": "main", "CHANGE_FORK": "stranger"}, True),
    "azure": (
        {"SYSTEM_PULLREQUEST_TARGETBRANCH": "refs/heads/main", "SYSTEM_PULLREQUEST_ISFORK": "False"}, False,
    ),
    "azure fork": (
        {"SYSTEM_PULLREQUEST_TARGETBRANCH": "refs/heads/main", "SYSTEM_PULLREQUEST_ISFORK": "True"}, True,
    ),
    "buildkite": (
        {
            "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main", "BUILDKITE_REPO": "git@github.com:us/repo.git",
            "BUILDKITE_PULL_REQUEST_REPO": "git://github.com/us/repo.git",
        },
        False,
    ),
    "buildkite fork": (
        {
            "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main", "BUILDKITE_REPO": "git@github.com:us/repo.git",
            "BUILDKITE_PULL_REQUEST_REPO": "git://github.com/stranger/repo.git",
        },
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("known", "fork"), OTHERS.values(), ids=OTHERS.keys())
def test_other_ci_systems_have_requests_and_forks_too(known: dict[str, str], fork: bool) -> None:
    assert is_request(known)
    assert is_fork(known) is fork
    with pytest.raises(UsageError, match="does not write the history of main"):
        place(SHA, "main", known)
    assert place(SHA, "change", known).branch == "change"


@pytest.mark.parametrize("who", ["us", "stranger", "queue"])
@pytest.mark.parametrize("kind", ["tracked", "url", "linked", "pointed", "cached", "bare", "bundle"])
def test_a_pull_request_reads_no_folder_that_it_can_change(
    who: str,
    kind: str,
    remembered: Path,  # noqa: F811
    tmp_path: Path,
    slo_gate: Process,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place_ = tmp_path / "work"
    place_.mkdir()
    (place_ / "slo.yaml").write_bytes(made.POLICY)
    (place_ / "new.csv").write_text(made.rows(999, 1.2))
    store = history.open_store(str(remembered))
    kept = place_ / ("kept/store" if kind in ("linked", "pointed") else "store")
    kept.mkdir(parents=True)
    history.open_store(str(kept)).write(
        {name: data for name, data in store.read(store.names()) if isinstance(data, bytes)}
    )
    if kind in ("bare", "bundle"):  # the change commits a repository, or a file that git fetches from too
        history.open_store(bare(tmp_path / "bare.git")).write(
            {name: data for name, data in store.read(store.names()) if isinstance(data, bytes)}
        )
        if kind == "bare":
            shutil.copytree(tmp_path / "bare.git", place_ / "own.git")
            (place_ / "own.git" / "refs" / "kept").write_text("")  # git commits no empty folder
        else:
            words_ = ["bundle", "create", str(place_ / "own.git"), "slo-history"]
            subprocess.run(["git", *words_], cwd=tmp_path / "bare.git", check=True, capture_output=True)
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    if kind in ("linked", "pointed"):  # a folder above the store is a link of the change
        (place_ / "cache").symlink_to("kept")
    added = {"cached": ["add", "slo.yaml"], "pointed": ["add", "slo.yaml", "cache"]}.get(kind, ["add", "-A"])
    for words in (["init", "-q", "."], added, ["commit", "-qm", "x"]):
        subprocess.run(["git", *identity, *words], cwd=place_, check=True, capture_output=True)
    for name, value in env(tmp_path, QUEUE if who == "queue" else PULL, request(who)).items():
        monkeypatch.setenv(name, value)
    named = "cache/store" if kind in ("linked", "pointed") else "store"
    named = "git:./own.git#slo-history" if kind in ("bare", "bundle") else named
    words = ["check", "new.csv", "--set", "hardware=H100", "--json", "out.json"]
    if kind == "url":  # of a policy; what stands on the command line is a path by then
        (place_ / "slo.yaml").write_bytes(
            made.POLICY + b"history: {store: file://store, base_branch: main}\n"
        )
    else:
        words += ["--history", named]
    slo_gate(*words, cwd=place_)
    report = json.loads((place_ / "out.json").read_text())
    read = kind == "cached" and who != "stranger"
    assert (report["baseline"] is not None) is read
    assert any("not read" in note for note in report["notes"]) is not read


def test_a_time_without_a_zone_is_utc_wherever_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `pull --from` takes it: one command line gives one record on every machine."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert utc("2026-01-12T08:00:00", "--time") == "2026-01-12T08:00:00Z"
        assert utc("2026-01-12T08:00:00-05:00", "--time") == "2026-01-12T13:00:00Z"
    finally:
        monkeypatch.undo()
        time.tzset()
