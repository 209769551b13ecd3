"""`--policy-from`: the policy of a commit, out of real git repositories, or exit 2 with what is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Process

STRICT = "version: 1\nname: chat\nslo:\n  ttft: {p90: 500ms}\nevidence: {decide: point}\n"
LOOSE = STRICT.replace("500ms", "950ms")  # what the change would like to be judged by
IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *IDENTITY, "-c", "protocol.file.allow=always", *words],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def committed(folder: Path) -> str:
    """Everything in the folder as a commit; its SHA."""
    if not (folder / ".git").exists():
        git(folder, "init", "-q", "-b", "main", ".")
        git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x", "--allow-empty")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A checkout without a commit yet, and results that only the loose policy lets pass."""
    row = {"ttft_s": 0.9, "e2e_s": 2.0, "output_tokens": 100, "concurrency": 8}
    rows = [json.dumps({**row, "e2e_s": 2.0 + i / 1e6}) + "\n" for i in range(200)]
    (tmp_path / "bad.jsonl").write_text("".join(rows), encoding="utf-8")
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


@pytest.fixture
def check(work: Path, slo_gate: Process) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(policy: object, source: str, *more: object, **how: Any) -> subprocess.CompletedProcess[str]:
        how.setdefault("cwd", work)
        words = ("--policy", policy, "--policy-from", source, "--format", "json", *more)
        return slo_gate("check", work.parent / "bad.jsonl", *words, **how)

    return run


def judged_by(done: subprocess.CompletedProcess[str], path: str) -> None:
    """The strict policy judged, under its path in the repository."""
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert report["policy"]["path"] == path
    assert report["objectives"][0]["bound"] == 0.5


def refused(done: subprocess.CompletedProcess[str], cause: str) -> None:
    assert done.returncode == 2, done.stdout
    assert cause in done.stderr
    assert json.loads(done.stdout)["verdict"] == "error"


# ---- the file is the commit's, however it is named ---------------------------------------------


@pytest.mark.parametrize(
    "name", ["slo.yaml", "./slo.yaml", "sub/../slo.yaml", "absolute", "-slo.yaml", "ß :x.yaml"]
)
def test_a_path_is_read_from_the_commit_however_it_is_written(name: str, work: Path, check: Any) -> None:
    file = "slo.yaml" if name == "absolute" or name.endswith("/slo.yaml") else name
    write(work / file, STRICT)
    base = committed(work)
    write(work / file, LOOSE)
    assert check(f"./{file}", "head").returncode == 0
    asked = str(work / file) if name == "absolute" else name
    judged_by(check(f"./{asked}" if asked.startswith("-") else asked, base), file)


def test_a_policy_below_the_folder_of_work_has_its_path_in_the_repository(work: Path, check: Any) -> None:
    write(work / "services/a/slo.yaml", STRICT)
    base = committed(work)
    write(work / "services/a/slo.yaml", LOOSE)
    judged_by(check("a/slo.yaml", base, cwd=work / "services"), "services/a/slo.yaml")
    judged_by(check("../a/slo.yaml", base, cwd=work / "services" / "a"), "services/a/slo.yaml")


def test_a_checkout_in_a_subfolder_is_asked_and_not_the_folder_of_work(work: Path, check: Any) -> None:
    app = work / "app"
    write(app / "ci/slo.yaml", STRICT)
    base = committed(app)
    write(app / "ci/slo.yaml", LOOSE)
    judged_by(check("app/ci/slo.yaml", base), "ci/slo.yaml")
    outer = committed(work)  # a repository around it is another one
    refused(check("app/ci/slo.yaml", outer), f"commit {outer}")


def test_a_linked_checkout_is_entered(work: Path, check: Any) -> None:
    write(work / "slo.yaml", STRICT)
    base = committed(work)
    write(work / "slo.yaml", LOOSE)
    (work.parent / "link").symlink_to(work)
    judged_by(check(work.parent / "link" / "slo.yaml", base, cwd=work.parent), "slo.yaml")


def test_a_worktree_and_git_variables_of_another_repository_change_nothing(work: Path, check: Any) -> None:
    write(work / "slo.yaml", STRICT)
    base = committed(work)
    git(work, "worktree", "add", "-q", "-b", "change", "../tree")
    write(work.parent / "tree" / "slo.yaml", LOOSE)
    other = work.parent / "other"
    write(other / "slo.yaml", LOOSE)
    committed(other)
    env = {"GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other)}
    judged_by(check("slo.yaml", base, cwd=work.parent / "tree", **env), "slo.yaml")


# ---- what the change did to the file ------------------------------------------------------------


def test_links_are_followed_as_the_commit_has_them(work: Path, check: Any) -> None:
    write(work / "policies/strict.yaml", STRICT)
    write(work / "policies/loose.yaml", LOOSE)
    (work / "slo.yaml").symlink_to("policies/strict.yaml")
    (work / "ci").symlink_to("policies")
    base = committed(work)
    (work / "slo.yaml").unlink()
    (work / "slo.yaml").symlink_to("policies/loose.yaml")
    (work / "ci").unlink()
    write(work / "ci/strict.yaml", LOOSE)
    judged_by(check("slo.yaml", base), "slo.yaml")
    judged_by(check("ci/strict.yaml", base), "ci/strict.yaml")


def test_a_folder_that_became_a_link_to_another_is_still_the_commits(work: Path, check: Any) -> None:
    write(work / "ci/slo.yaml", STRICT)
    write(work / "examples/slo.yaml", LOOSE)
    base = committed(work)
    shutil.rmtree(work / "ci")
    (work / "ci").symlink_to("examples")
    assert check("ci/slo.yaml", "head").returncode == 0
    judged_by(check("ci/slo.yaml", base), "ci/slo.yaml")


def test_a_folder_that_became_a_bare_repository_is_not_asked(work: Path, check: Any) -> None:
    """With the same commit in it and the root of its work tree here, slo.yaml would be another file."""
    write(work / "slo.yaml", LOOSE)
    write(work / "ci/slo.yaml", STRICT)
    base = committed(work)
    shutil.rmtree(work / "ci")
    git(work, "clone", "-q", "--bare", ".", "ci")
    git(work / "ci", "config", "core.bare", "false")
    git(work / "ci", "config", "core.worktree", ".")
    judged_by(check("ci/slo.yaml", base), "ci/slo.yaml")


def test_a_policy_that_the_change_removed_still_judges(work: Path, check: Any) -> None:
    write(work / "ci/slo.yaml", STRICT)
    base = committed(work)
    shutil.rmtree(work / "ci")
    judged_by(check("ci/slo.yaml", base), "ci/slo.yaml")


def test_replaced_objects_are_not_taken(work: Path, check: Any) -> None:
    write(work / "slo.yaml", STRICT)
    base = committed(work)
    write(work / "slo.yaml", LOOSE)
    git(work, "replace", base, committed(work))
    judged_by(check("slo.yaml", base), "slo.yaml")


def test_nothing_is_written_into_the_checkout(work: Path, check: Any) -> None:
    write(work / "slo.yaml", STRICT)
    write(work / "base-policy.yaml", "kept")
    base = committed(work)
    done = check("slo.yaml", base, "--markdown", "../m.md", "--junit", "../j.xml")
    judged_by(done, "slo.yaml")
    assert git(work, "status", "--porcelain", "--ignored") == ""


def test_every_output_says_whose_policy_it_is(work: Path, check: Any) -> None:
    write(work / "slo.yaml", STRICT)
    base = committed(work)
    write(work / "slo.yaml", LOOSE)
    done = check(work / "slo.yaml", base, "--markdown", "../m.md", "--junit", "../j.xml")
    note = f"the policy is slo.yaml at commit {base[:12]}, not that of the working tree"
    assert note in json.loads(done.stdout)["notes"]
    assert note in (work.parent / "m.md").read_text(encoding="utf-8")
    assert 'name="policy" value="slo.yaml' in (work.parent / "j.xml").read_text(encoding="utf-8")
    shown = check(work / "slo.yaml", base, "--format", "github").stdout
    assert "::error file=slo.yaml,line=4,title=FAIL ttft.p90::" in shown


def test_the_reproduce_line_names_the_commit_of_a_branch(work: Path, check: Any, slo_gate: Process) -> None:
    write(work / "slo.yaml", STRICT)
    base = committed(work)
    done = check("slo.yaml", "main")
    assert f"--policy slo.yaml --policy-from {base}" in json.loads(done.stdout)["provenance"]["reproduce"]


# ---- where it cannot be had: exit 2 with the cause -------------------------------------------------


@pytest.fixture
def base(work: Path) -> str:
    """A commit with everything that is no policy under its name."""
    write(work / "folder/slo.yaml", STRICT)
    write(work / "broken.yaml", "version: 1\nslo: {ttft: {p900: 1s}}\n")
    write(work / "large.yaml", "#" * (1 << 20) + "\n")
    for name, target in {
        "loop": "loop",
        "out": "/etc/hostname",
        "up": "../bad.jsonl",
        "lost": "none",
    }.items():
        (work / name).symlink_to(target)
    found = committed(work)
    for name in ("new.yaml", "folder\\slo.yaml", "lost", "broken.yaml", "large.yaml"):
        (work / name).unlink(missing_ok=True)
        write(work / name, LOOSE)  # what must not judge instead
    return found


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("new.yaml", "there is no such file"),
        ("folder\\slo.yaml", "there is no such file"),
        ("folder", "is a folder"),
        ("broken.yaml/x", "stands below a file"),
        ("loop", "is a link to itself"),
        ("loop/slo.yaml", "is a link to itself"),
        ("out", "is a link out of the repository"),
        ("up", "is a link out of the repository"),
        ("lost", "is a link to nothing"),
        ("broken.yaml", "p900"),
        ("large.yaml", "larger than 1 MB"),
        ("two\nlines", "several lines"),
        ("/etc/hostname", "cannot be read from a commit: not a git repository"),
    ],
)
def test_what_is_no_policy_in_the_commit_is_an_error(name: str, cause: str, base: str, check: Any) -> None:
    refused(check(name, base), cause)


def test_a_commit_that_is_not_there_is_an_error_with_what_git_says(work: Path, base: str, check: Any) -> None:
    write(work / "slo.yaml", LOOSE)
    for name in ("none", "-h", "HEAD:folder", "", "1" * 39):
        refused(check("slo.yaml", name), "git knows no such commit")
    refused(check("slo.yaml", "1" * 40), "cannot be fetched: 'origin' does not appear to be a git repository")


def test_a_repository_of_somebody_else_is_an_error_with_what_git_says(
    work: Path, base: str, check: Any
) -> None:
    write(work / "slo.yaml", LOOSE)
    env = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}  # as in a container
    refused(check("slo.yaml", base, **env), "dubious ownership")


def test_without_git_nothing_is_judged(work: Path, base: str, check: Any) -> None:
    refused(check("folder/slo.yaml", base, PATH=str(work)), "git cannot be started")


@pytest.mark.parametrize(
    ("more", "cause"), [((), "no policy file is named"), (("--preset", "chat"), "a preset")]
)
def test_a_policy_without_a_file_is_in_no_commit(
    more: tuple[str, ...], cause: str, work: Path, base: str, slo_gate: Process
) -> None:
    write(work / "slo.yaml", LOOSE)
    done = slo_gate("check", "../bad.jsonl", "--policy-from", base, *more, cwd=work)
    assert (done.returncode, cause in done.stderr) == (2, True)


# ---- shallow and partial checkouts -----------------------------------------------------------------


def test_a_commit_that_a_shallow_checkout_lacks_is_fetched(work: Path, check: Any) -> None:
    write(work / "slo.yaml", STRICT)
    base = committed(work)
    write(work / "slo.yaml", LOOSE)
    committed(work)
    shallow = work.parent / "shallow"
    git(work.parent, "clone", "-q", "--depth=1", f"file://{work}", str(shallow))
    judged_by(check("slo.yaml", base, cwd=shallow), "slo.yaml")
    assert git(shallow, "rev-parse", "--is-shallow-repository") == "true"


def test_a_whole_history_stays_whole_when_a_commit_is_fetched(work: Path, check: Any) -> None:
    write(work / "slo.yaml", STRICT)
    committed(work)
    whole = work.parent / "whole"
    git(work.parent, "clone", "-q", f"file://{work}", str(whole))
    base = committed(work)
    write(whole / "slo.yaml", LOOSE)
    judged_by(check("slo.yaml", base, cwd=whole), "slo.yaml")
    assert git(whole, "rev-parse", "--is-shallow-repository") == "false"


# ---- which commit the base is ----------------------------------------------------------------------

MAIN = {"default_branch": "main"}
EVENTS = [
    ("pull_request", {"pull_request": {"base": {"sha": "BASE"}}}),
    ("pull_request_target", {"pull_request": {"base": {"sha": "BASE"}}}),
    ("pull_request_review", {"pull_request": {"base": {"sha": "BASE"}}}),
    ("merge_group", {"merge_group": {"base_sha": "BASE", "head_sha": "HEAD"}}),
    ("push", {"ref": "refs/heads/main", "before": "BASE", "after": "HEAD", "repository": MAIN}),
]
PULL = {"base": {"sha": "BASE"}}
NONE = [
    ("push", {"ref": "refs/heads/change", "before": "BASE", "repository": MAIN}, "refs/heads/change"),
    ("push", {"ref": "refs/tags/main", "before": "BASE", "repository": MAIN}, "refs/tags/main"),
    ("push", {"ref": "refs/heads/main", "before": "BASE"}, "on the default branch alone"),
    ("push", {"ref": "refs/heads/main", "before": "0" * 40, "repository": MAIN}, "did not exist before"),
    ("issue_comment", {"issue": {"pull_request": {}}, "comment": {}}, "the event is issue_comment"),
    ("workflow_dispatch", {"inputs": {}, "pull_request": PULL}, "the event is workflow_dispatch"),
    ("schedule", {"pull_request": PULL}, "the event is schedule"),
    ("", {"pull_request": PULL}, "not named"),
    ("merge_group", {"pull_request": PULL}, "names no base"),
    ("merge_group", {"merge_group": "BASE"}, "names no base"),
    ("pull_request", {"pull_request": [PULL]}, "names no base"),
    ("pull_request", {"pull_request": {"base": {"sha": "main"}}}, "names no base"),
    ("pull_request", {"pull_request": {"base": {"sha": ["BASE"]}}}, "names no base"),
    ("pull_request", {}, "names no base"),
    ("pull_request", [{"pull_request": PULL}], "no JSON object"),
    ("pull_request", "BASE", "no JSON object"),
    ("pull_request", None, "no JSON object"),
]


@pytest.fixture
def change(work: Path) -> tuple[str, str]:
    """A base with the strict policy and a change that loosens it in two commits, by their SHAs."""
    write(work / "slo.yaml", STRICT)
    base = committed(work)
    write(work / "slo.yaml", LOOSE)
    return base, committed(work)


def event(work: Path, name: str, told: object, change: tuple[str, str]) -> dict[str, str]:
    text = json.dumps(told).replace("BASE", change[0]).replace("HEAD", change[1])
    write(work.parent / "event.json", text)
    return {"GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(work.parent / "event.json")}


@pytest.mark.parametrize(("name", "told"), EVENTS, ids=[name for name, _ in EVENTS])
def test_the_base_is_what_the_event_names(
    name: str, told: Any, work: Path, change: tuple[str, str], check: Any
) -> None:
    judged_by(check("slo.yaml", "base", **event(work, name, told, change)), "slo.yaml")


@pytest.mark.parametrize(("name", "told", "cause"), NONE)
def test_an_event_without_a_base_is_an_error_with_the_cause(
    name: str, told: object, cause: str, work: Path, change: tuple[str, str], check: Any
) -> None:
    refused(check("slo.yaml", "base", **event(work, name, told, change)), cause)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_an_event_that_is_no_json_is_an_error(
    data: bytes, work: Path, change: tuple[str, str], check: Any
) -> None:
    env = event(work, "pull_request", {}, change)
    (work.parent / "event.json").write_bytes(data)
    refused(check("slo.yaml", "base", **env), "the event of this job cannot be read")


def test_a_job_without_an_event_is_an_error(work: Path, change: tuple[str, str], check: Any) -> None:
    refused(check("slo.yaml", "base"), "GITHUB_EVENT_PATH is not set")
    refused(check("slo.yaml", "base", GITHUB_EVENT_PATH=str(work / "none")), "cannot be read")


# ---- what the change loosens -----------------------------------------------------------------------


def test_the_old_side_of_a_difference_is_taken_from_a_commit(
    work: Path, change: tuple[str, str], slo_gate: Process
) -> None:
    words = ("policy", "diff", "--fail-on-looser", "slo.yaml", "slo.yaml", "--old-from")
    done = slo_gate(*words, change[0], cwd=work)
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        1,
        f"LOOSER: slo.yaml against slo.yaml at commit {change[0][:12]}: 1 looser, 0 stricter, 1 in all",
    )
    assert slo_gate(*words, "head", cwd=work).returncode == 0
    env = event(work, "merge_group", {"merge_group": {"base_sha": "BASE"}}, change)
    assert slo_gate(*words, "base", cwd=work, **env).returncode == 1
