"""A check run of GitHub: one verdict on one commit, beside the job that gave it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from . import _github
from ._body import shorten
from ._nouns import Environment, PublishError

CONCLUSIONS = ("success", "failure", "neutral")
_DENIED = (
    "the token may not write check runs: the job needs `permissions: checks: write`, which a pull request "
    "from a fork never has"
)
_MOST = 50  # annotations the API takes at a time
_CHARACTERS = 65_535  # of a summary
_NAME = 255


class CheckRun(Struct, frozen=True):
    """What is to be said about a commit."""

    name: str  # the same for each run of one gate, and another for each other gate: the latest one counts
    conclusion: str  # of CONCLUSIONS
    title: str
    markdown: str
    annotations: Sequence[Mapping[str, Any]]  # as the API takes them


def create(run: CheckRun, env: Environment, timeout_s: float) -> str:
    """Its address, once it is made for the commit of this job. Raises PublishError."""
    here = _github.job(env)
    if not here.commit:
        raise PublishError("no commit is known that was measured", "", "set GITHUB_SHA")
    api = _github.api_of(here.api, here.token, timeout_s, _DENIED)
    path = f"/repos/{_github.path_of(here.repository)}/check-runs"
    first, *more = [run.annotations[at : at + _MOST] for at in range(0, len(run.annotations), _MOST)] or [()]
    body = {
        "name": run.name[:_NAME],
        "head_sha": here.commit,
        "status": "completed",
        "conclusion": run.conclusion,
        "output": _output(run, first),
    }
    answer, _ = api.call("POST", path, body | ({"details_url": here.run_url} if here.run_url else {}))
    number = answer.get("id") if isinstance(answer, dict) else None
    if not isinstance(number, int):
        raise PublishError("the answer is not a check run", "", "check that the API address is GitHub's")
    for some in more:  # an update adds to the annotations that are there
        api.call("PATCH", f"{path}/{number}", {"output": _output(run, some)})
    return str(answer.get("html_url") or "")


def _output(run: CheckRun, annotations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    summary = shorten(run.markdown, _CHARACTERS, _CHARACTERS)
    return {"title": run.title[:_NAME], "summary": summary, "annotations": [dict(one) for one in annotations]}
