"""Comments on pull requests of github.com and GitHub Enterprise Server."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from ._http import Api, Forge, RefusedError
from ._nouns import Comment, Environment, Place, PublishError

_HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
_DENIED = (
    "the token may not comment: the job needs `permissions: pull-requests: write`, and a pull request from a "
    "fork two workflows: https://github.com/your-org/slo-gate/blob/main/docs/ci/forks.md"
)
_NO_PR = "name it with --pr NUMBER, or run on pull_request or workflow_run"


def api_of(api: str, token: str, timeout_s: float, denied: str = _DENIED) -> Api:
    """The REST API; `denied` is what to do about a 401 or 403. Raises PublishError."""
    return Api(api, token, _HEADERS, timeout_s, denied)


def place(env: Environment, number: str, timeout_s: float) -> Place:
    """The pull request of this job, or `number` where it is not "auto". Raises PublishError.

    In a workflow_run it is found from the head SHA and the head repository of the run that GitHub
    names, never from anything that run has written.
    """
    event = _event(env)
    here = _job(env, event)
    if number != "auto":
        return replace(here, number=int(number))
    # What is posted is about a pull request's own commit: GITHUB_SHA is that of its merge with the base.
    here = replace(here, commit=_commit(event))
    return replace(here, number=_number(event, here, timeout_s))


def job(env: Environment) -> Place:
    """This job, whatever it is about, without a pull request. Raises PublishError."""
    return _job(env, _event(env))


def _job(env: Environment, event: dict[str, Any]) -> Place:
    repository = env.get("GITHUB_REPOSITORY", "")
    if not repository:
        raise PublishError(
            "GITHUB_REPOSITORY is not set", "", "run in GitHub Actions, or set it to owner/name"
        )
    token = env.get("GITHUB_TOKEN") or env.get("GH_TOKEN") or ""
    if not token:
        raise PublishError(
            "GITHUB_TOKEN is not set", "", "give the step `env: GITHUB_TOKEN: ${{ github.token }}`"
        )
    api = (env.get("GITHUB_API_URL") or "https://api.github.com").rstrip("/")
    commit = _commit(event) or env.get("GITHUB_SHA", "")
    return Place(api, repository, 0, token, commit, _run_url(env, repository))


def _event(env: Environment) -> dict[str, Any]:
    path = env.get("GITHUB_EVENT_PATH", "")
    try:
        event = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError) as error:
        raise PublishError(f"the event cannot be read: {error}", path, _NO_PR) from None
    return event if isinstance(event, dict) else {}


def _dig(noun: Any, *names: str) -> Any:
    for name in names:
        noun = noun.get(name) if isinstance(noun, dict) else None
    return noun


def _commit(event: dict[str, Any]) -> str:
    found = _dig(event, "pull_request", "head", "sha") or _dig(event, "workflow_run", "head_sha")
    return str(found or "")


def _run_url(env: Environment, repository: str) -> str:
    server, run = env.get("GITHUB_SERVER_URL", ""), env.get("GITHUB_RUN_ID", "")
    return f"{server}/{repository}/actions/runs/{run}" if server and run else ""


def _number(event: dict[str, Any], here: Place, timeout_s: float) -> int:
    number = _dig(event, "pull_request", "number")
    if isinstance(number, int):
        return number
    run = _dig(event, "workflow_run")
    if not isinstance(run, dict) or run.get("event") != "pull_request":
        raise PublishError("this job is not about a pull request", "", _NO_PR)
    return _number_of_run(run, here, timeout_s)


def _number_of_run(run: dict[str, Any], here: Place, timeout_s: float) -> int:
    """The open pull request whose head is the commit that was measured, in the repository it came from."""
    sha, source, branch = (
        run.get("head_sha"),
        _dig(run, "head_repository", "full_name"),
        run.get("head_branch"),
    )
    if not (sha and source and branch):
        raise PublishError("the workflow_run names no head commit, repository and branch", "", _NO_PR)
    owner = str(source).split("/")[0]
    pulls = list(
        api_of(here.api, here.token, timeout_s).pages(
            f"/repos/{path_of(here.repository)}/pulls", state="open", head=f"{owner}:{branch}"
        )
    )
    from_there = [pull for pull in pulls if _dig(pull, "head", "repo", "full_name") == source]
    found = [pull["number"] for pull in from_there if _dig(pull, "head", "sha") == sha]
    if len(found) == 1 and isinstance(found[0], int):
        return found[0]
    if from_there and not found:
        raise PublishError(
            f"the pull request has moved on from commit {str(sha)[:12]}, so its verdict is not posted", "", ""
        )
    what = "several open pull requests have" if found else "no open pull request has"
    raise PublishError(f"{what} the measured commit as head", "", "name it with --pr NUMBER")


def path_of(repository: str) -> str:
    """A repository as a part of an address."""
    return quote(repository, safe="/")


class GitHub(Forge):
    """The comments of one pull request (an issue, to this API)."""

    def __init__(self, here: Place, timeout_s: float) -> None:
        issues = f"/repos/{path_of(here.repository)}/issues"
        api = api_of(here.api, here.token, timeout_s)
        super().__init__(api, f"{issues}/{here.number}/comments", f"{issues}/comments")

    def comments(self) -> list[Comment]:
        """Of every page, oldest first."""
        return [self.decoded(item) for item in self._api.pages(self._every)]

    def wrote(self, comment: Comment) -> bool:
        """A job's own token cannot ask who it is: there any bot's comment with the marker is ours.

        A person's is only if the token is that person's; else a stranger could plant a marker, have
        the verdict written into a comment of theirs, and change it afterwards.
        """
        return comment.bot or comment.author == self._me

    @cached_property
    def _me(self) -> str:
        try:
            answer, _ = self._api.call("GET", "/user")
        except RefusedError:
            return ""
        return str(_dig(answer, "login") or "")

    def decoded(self, item: Any) -> Comment:
        """A comment of an issue."""
        number = _dig(item, "id")
        if not isinstance(number, int):
            raise PublishError("the answer is not a comment", "", "check that the API address is GitHub's")
        user = _dig(item, "user")
        return Comment(
            number,
            str(_dig(item, "body") or ""),
            str(_dig(user, "login") or ""),
            _dig(user, "type") == "Bot",
            str(_dig(item, "html_url") or ""),
        )
