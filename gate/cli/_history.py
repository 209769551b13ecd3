"""What commands about history share: which store, which commit and branch, who may write."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..errors import InputError, PolicyError, UsageError
from ._base import event_of, text_of
from ._baseline import checked_allowed
from ._shared import named, together

if TYPE_CHECKING:
    from ..history import Reading, Store
    from ..model import Baseline, Policy, Run

LAST, BRANCH = 30, "main"
HOW_ADDED = "`slo-gate history add --help` says how sessions get there"
_HISTORY = "Compare with the sessions that this store remembers: a folder, git:BRANCH, or a URL."
_BASE = "Branch whose sessions are the baseline.  [default: main]"
_LAST = "At most so many of them, the newest.  [default: 30]"
_NONE = "Leave out the history that the policy names."
history_options = together(  # read by `history_baseline`
    click.option("--history", type=named, metavar="STORE", help=_HISTORY),
    click.option("--no-history", is_flag=True, help=_NONE),
    click.option("--base-branch", type=named, metavar="NAME", help=_BASE),
    click.option("--last", type=click.IntRange(1), metavar="N", help=_LAST),
)
_STORE = "The store: a folder, git:BRANCH, or a URL such as s3://bucket/path. Default: that of the policy."
store_option = click.option("--store", type=named, metavar="STORE", help=_STORE)
_TARGETS = (
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME",
    "CHANGE_TARGET",
    "SYSTEM_PULLREQUEST_TARGETBRANCH",
    "BUILDKITE_PULL_REQUEST_BASE_BRANCH",
)
_SHA = re.compile("[0-9a-f]{7,64}")


def store_of(name: str | None, hint: str = "name one: `--store history`") -> Store:
    """The store of that name, or of the policy that is found. Raises UsageError and PolicyError."""
    from ..history import open_store

    return open_store(name or _policy_store(hint))


def _policy_store(hint: str) -> str:
    """The store that the policy names which is found."""
    from .. import policy

    try:
        found = policy.load(policy.find()).history
    except PolicyError as error:
        raise UsageError(f"no store is named, and no policy says one: {error.message}", "", hint) from None
    if found is None:
        raise UsageError("no store is named, and the policy has no `history:`", "", hint)
    return found.store


# ---- the baseline ----------------------------------------------------------------------------


def shown(store: str) -> str:
    """The name of a store without the secrets of a URL; empty where there is none."""
    if not store:
        return ""
    from ..history.git import without_secrets

    return without_secrets(store)


def wanted(options: Mapping[str, Any], policy: Policy) -> str:
    """The store to compare with; empty where none is asked for. Raises UsageError for options at odds."""
    stated = next((name for name in ("history", "base_branch", "last") if options[name]), "")
    if stated and options["no_history"]:
        raise UsageError(f"--no-history and {_flag(stated)} exclude each other", "", "name one of them")
    if options["history"] and options["baseline"]:
        why = "--history and --baseline exclude each other: runs are compared with one baseline"
        raise UsageError(why, "", "name one of them")
    store = options["history"] or (policy.history.store if policy.history else "")
    if options["no_history"] or options["baseline"]:
        store = ""
    if stated and not store:
        raise UsageError(f"{_flag(stated)} is about history and none is given", "", "add --history STORE")
    return store


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def history_baseline(
    options: Mapping[str, Any], policy: Policy, runs: Sequence[Run], store: str, env: Mapping[str, str]
) -> tuple[Baseline | None, tuple[str, ...]]:
    """The baseline that a store holds for these runs, and notes about it.

    Raises InputError where the store cannot be read, and UsageError for a name that is none.
    """
    from ..evaluate import choose_sessions
    from ..history import Reading, offered, open_store
    from ..model import HistoryRules

    rules = policy.history or HistoryRules("", BRANCH, LAST)
    branch, last = options["base_branch"] or rules.base_branch, options["last"] or rules.last
    allowed = checked_allowed(options)
    opened = open_store(store)
    if why := _not_trusted(opened, env):
        return None, (f"history {opened.name}: not read, {why}",)
    found = Reading(opened)
    baseline, notes = choose_sessions(policy, runs, offered(found, branch, opened.name), last, allowed)
    said = [*notes, *found.notes]
    if baseline is None:
        said.insert(0, f"no session of {branch} compares{_others(found, branch)}")
    return baseline, tuple(f"history {opened.name}: {note}" for note in said)


def _not_trusted(store: Store, env: Mapping[str, str]) -> str:
    """Why a pull request is not judged by this store: it could have written it itself; empty where it may."""
    from ..history.git import tracked

    if not is_request(env):
        return ""
    if is_fork(env):
        return "this is a pull request of a fork"
    return "it is a place that the pull request itself can change" if tracked(store.name) else ""


def _others(found: Reading, branch: str) -> str:
    if not found.names:
        return ": the store is empty"
    records = [record for record, _ in found]
    branches = sorted({record.branch for record in records})
    held = f"{len(records)} sessions of {', '.join(branches[:5])}"
    return "" if branch in branches else f": the store holds {held}"


# ---- commit and branch -----------------------------------------------------------------------


class Place(NamedTuple):
    """Which commit of which branch is measured."""

    commit: str
    branch: str


def place(commit: str | None, branch: str | None, env: Mapping[str, str]) -> Place:
    """As stated, else as the CI system says, else as git says. Raises UsageError where nobody knows."""
    own = _of_ci(env)
    if branch and is_request(env) and (branch != own.branch if own else branch in _targets(env)):
        why = f"a pull request does not write the history of {branch}, only that of its own branch"
        raise UsageError(why, "--branch", "leave out --branch, or add it on a push")
    if not commit or not branch:
        known = own or _of_git()
        commit, branch = commit or known.commit, branch or known.branch
    commit = commit.lower()
    if not _SHA.fullmatch(commit):
        raise UsageError(f'"{commit}" is no SHA of a commit', "--commit", "write 7 to 64 hexadecimal digits")
    if not branch:
        raise UsageError(
            "no branch is checked out, and none is named", "--branch", "name it: `--branch main`"
        )
    return Place(commit, branch)


def is_request(env: Mapping[str, str]) -> bool:
    """Whether a change is judged that its base branch has not taken yet, also in a merge queue."""
    if env.get("GITHUB_EVENT_NAME", "").startswith(("pull_request", "merge_group")):
        return True
    return any(_targets(env))


def _targets(env: Mapping[str, str]) -> list[str]:
    """The branch that GitLab, Jenkins, Azure Pipelines or Buildkite measures a change for."""
    return [env[name].removeprefix("refs/heads/") for name in _TARGETS if env.get(name)]


def refuse_request(env: Mapping[str, str], what: str) -> None:
    """Raises UsageError in a pull request: what it is judged by is not its own to change."""
    if is_request(env):
        raise UsageError(f"a pull request {what}", "", "do it on the base branch, or by hand")


def _of_ci(env: Mapping[str, str]) -> Place | None:
    if env.get("GITHUB_ACTIONS") == "true":
        if not env.get("GITHUB_EVENT_NAME", "").startswith("pull_request"):
            return Place(env.get("GITHUB_SHA", ""), env.get("GITHUB_REF_NAME", ""))
        event = event_of(env, "--commit")
        head, owner = (
            text_of(event, "pull_request", "head", key) for key in ("sha", "label")
        )  # OWNER:BRANCH
        branch = owner if is_fork(env) else env.get("GITHUB_HEAD_REF", "")
        return Place(head or env.get("GITHUB_SHA", ""), branch)
    if env.get("GITLAB_CI") == "true":
        branch = env.get("CI_COMMIT_BRANCH") or env.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME") or ""
        if is_fork(env):
            branch = f"{env.get('CI_MERGE_REQUEST_SOURCE_PROJECT_PATH', 'fork')}:{branch}"
        return Place(env.get("CI_COMMIT_SHA", ""), branch)
    return None


def is_fork(env: Mapping[str, str]) -> bool:
    """Whether a pull request of another repository is measured; also where that cannot be told."""
    if env.get("GITHUB_EVENT_NAME", "").startswith("pull_request"):
        event = event_of(env, "--store")
        head, base = (text_of(event, "pull_request", end, "repo", "full_name") for end in ("head", "base"))
        return not head or head != base
    if env.get("CHANGE_FORK") or env.get("SYSTEM_PULLREQUEST_ISFORK", "").lower() == "true":
        return True
    if theirs := env.get(
        "BUILDKITE_PULL_REQUEST_REPO"
    ):  # git://host/OWNER/NAME.git, and git@host:OWNER/NAME.git
        return _owned(theirs) != _owned(env.get("BUILDKITE_REPO", ""))
    source = env.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID")
    return source is not None and source != env.get("CI_MERGE_REQUEST_PROJECT_ID")


def _owned(url: str) -> list[str]:
    return re.split("[:/]", url.removesuffix(".git"))[-2:]


def why_not_written(env: Mapping[str, str]) -> str:
    """Why a CI job does not write history by itself: only a push to the default branch does; empty there."""
    if env.get("GITHUB_ACTIONS") == "true":
        name = env.get("GITHUB_EVENT_NAME", "")
        if name not in ("push", "schedule"):
            return f"the event is {name or 'not named'}, no push to the default branch"
        if name == "schedule":  # always of the default branch; its event does not name it
            return ""
        default = text_of(event_of(env, "--auto"), "repository", "default_branch")
        ref = env.get("GITHUB_REF", "")
        return (
            "" if default and ref == f"refs/heads/{default}" else f"{ref or 'this'} is not the default branch"
        )
    if env.get("GITLAB_CI") == "true":
        if env.get("CI_PIPELINE_SOURCE") not in ("push", "schedule"):
            return f"the pipeline is of {env.get('CI_PIPELINE_SOURCE') or 'an unknown event'}, no push"
        branch = env.get("CI_COMMIT_BRANCH")
        same = branch is not None and branch == env.get("CI_DEFAULT_BRANCH")
        return "" if same else f"{branch or 'this'} is not the default branch"
    return "this is no job of GitHub Actions or GitLab CI"


def _of_git() -> Place:
    from ..history.git import git_lines

    commit, branch = git_lines("rev-parse", "HEAD"), git_lines("branch", "--show-current")
    if not commit:
        hint = "name them: `--commit SHA --branch main`"
        raise UsageError("no commit is named and none is checked out here", "--commit", hint)
    return Place(commit[0], branch[0] if branch else "")


def now() -> str:
    """The time in UTC to the second."""
    from datetime import datetime, timezone

    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc(text: str, option: str) -> str:
    """A time that somebody wrote, in UTC to the second; UTC where no zone is said. Raises UsageError."""
    from datetime import datetime, timedelta, timezone

    hint = "write it like 2027-01-12T08:00:00Z, or leave it out"
    try:
        stated = datetime.fromisoformat(text.replace("Z", "+00:00"))  # Python 3.10 does not know Z
        stated = stated if stated.tzinfo else stated.replace(tzinfo=timezone.utc)
        found = stated.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise UsageError(f'"{text}" is no ISO 8601 time', option, hint) from None
    if found > datetime.now(timezone.utc) + timedelta(days=1):  # it would stay the newest session for good
        raise UsageError(f'"{text}" is in the future', option, hint)
    return f"{found:%Y-%m-%dT%H:%M:%SZ}"


def read_report(path: str) -> bytes:
    """The bytes of a saved report. Raises InputError."""
    from .. import disk
    from ..saved import MOST_BYTES

    try:
        with disk.opened(path) as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        hint = "give the file that `slo-gate check RESULTS --json FILE` wrote"
        raise InputError(f"cannot be read: {error.strerror or error}", path, hint) from None
