"""Notes on merge requests of GitLab."""

from __future__ import annotations

from functools import cached_property
from typing import Any
from urllib.parse import quote

from ._http import Api, Forge
from ._nouns import Comment, Environment, Place, PublishError

_TOKEN = "make a project access token with the scope api, and a masked CI/CD variable GITLAB_TOKEN of it"
_DENIED = (
    f"the token may not write notes: {_TOKEN} (role Developer or above, not expired); CI_JOB_TOKEN cannot, "
    "and a protected variable is empty on branches that are not protected"
)


def place(env: Environment, number: str) -> Place:
    """The merge request of this pipeline, or `number` where it is not "auto". Raises PublishError."""
    token = env.get("GITLAB_TOKEN", "")
    if not token:
        raise PublishError(
            "GITLAB_TOKEN is not set",
            "",
            f"{_TOKEN}: CI_JOB_TOKEN may not write notes",
        )
    iid = env.get("CI_MERGE_REQUEST_IID", "") if number == "auto" else number
    project = env.get("CI_MERGE_REQUEST_PROJECT_ID") or env.get("CI_PROJECT_ID") or ""
    if not (iid.isdecimal() and project):
        hint = "run in a merge-request pipeline (rules: if: $CI_PIPELINE_SOURCE == 'merge_request_event')"
        raise PublishError("this job is not about a merge request", "", hint)
    api = env.get("CI_API_V4_URL") or "https://gitlab.com/api/v4"
    commit, run_url = env.get("CI_COMMIT_SHA", ""), env.get("CI_JOB_URL", "")
    return Place(api.rstrip("/"), project, int(iid), token, commit, run_url)


class GitLab(Forge):
    """The notes of one merge request."""

    changes = "PUT"

    def __init__(self, here: Place, timeout_s: float) -> None:
        notes = f"/projects/{quote(here.repository, safe='')}/merge_requests/{here.number}/notes"
        super().__init__(Api(here.api, here.token, {}, timeout_s, _DENIED), notes, notes)

    def comments(self) -> list[Comment]:
        """Without the system's own."""
        items = self._api.pages(self._every, sort="asc", order_by="created_at")
        return [self.decoded(item) for item in items if not item.get("system")]

    def wrote(self, comment: Comment) -> bool:
        """By the user the token belongs to: a project access token has one of its own."""
        return comment.author == self._me

    @cached_property
    def _me(self) -> str:
        answer, _ = self._api.call("GET", "/user")
        return str(answer.get("username") or "") if isinstance(answer, dict) else ""

    def decoded(self, item: Any) -> Comment:
        """A note."""
        if not isinstance(item, dict) or not isinstance(item.get("id"), int):
            raise PublishError("the answer is not a note", "", "check that the API address is GitLab's")
        author = item.get("author") or {}
        name = str(author.get("username") or "")
        return Comment(item["id"], str(item.get("body") or ""), name, False, "")
