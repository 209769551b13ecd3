"""Which commit a change is made against, as the event of a GitHub Actions job says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from ..errors import UsageError

SHA = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_WHERE = "--policy-from base"
_HINT = "judge on pull_request, merge_group or a push to the default branch, or name a commit"


def base_commit(env: Mapping[str, str]) -> str:
    """The full SHA of the base in the event that `env` names. Raises UsageError where it names none.

    Never a commit that the change itself could have made: its own policy would judge it.
    """
    name, event = env.get("GITHUB_EVENT_NAME", ""), event_of(env)
    if name.startswith("pull_request"):
        commit, why = text_of(event, "pull_request", "base", "sha"), f"the {name} event names no base"
    elif name == "merge_group":
        commit, why = text_of(event, "merge_group", "base_sha"), "the merge_group event names no base"
    elif name == "push":
        commit, why = _before(event)
    else:
        commit, why = "", f"the event is {name or 'not named'}, which has no base"
    if SHA.fullmatch(commit) and set(commit) != {"0"}:
        return commit
    raise UsageError(why, _WHERE, _HINT)


def _before(event: Mapping[str, object]) -> tuple[str, str]:
    """The commit before a push to the default branch; an earlier push to any other is of the same change."""
    default, ref = text_of(event, "repository", "default_branch"), text_of(event, "ref")
    if not default or ref != f"refs/heads/{default}":
        return "", f"a push has a base on the default branch alone, and this one is to {ref or 'no branch'}"
    return text_of(event, "before"), f"{default} did not exist before this push"


def event_of(env: Mapping[str, str], where: str = _WHERE) -> Mapping[str, object]:
    """The event of a job of GitHub Actions. Raises UsageError."""
    hint = "run it in a job of GitHub Actions, or name a commit"
    path = env.get("GITHUB_EVENT_PATH", "")
    if not path:
        raise UsageError("GITHUB_EVENT_PATH is not set, so no base is known", where, hint)
    try:
        event = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"the event of this job cannot be read: {error}", path, hint) from None
    if not isinstance(event, dict):
        raise UsageError("the event of this job is no JSON object", path, hint)
    return event


def text_of(event: object, *keys: str) -> str:
    """The text under these keys; empty where there is none."""
    for key in keys:
        event = event.get(key) if isinstance(event, dict) else None
    return event if isinstance(event, str) else ""
