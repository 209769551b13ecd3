"""Where a policy stands in its repository: what annotations, JUnit and comments call it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..remote import is_url

if TYPE_CHECKING:
    from ..model import AnyReport, Policy, PolicyName

_ROOTS = ("CI_PROJECT_DIR", "GITHUB_WORKSPACE")


def repository_path(path: str) -> str:
    """`path` from the root of its repository, with /; empty for a file outside.

    The root is the nearest folder above the file that git made, else what the CI system calls its
    checkout, else the working folder.
    """
    if is_url(path):
        return ""
    for place in dict.fromkeys((os.path.abspath(path), os.path.realpath(path))):  # noqa: PTH100
        for root in _roots(place):
            if Path(place).is_relative_to(root):
                return Path(place).relative_to(root).as_posix()
    return ""


def _roots(place: str) -> Iterator[str]:
    git = next((folder for folder in Path(place).parents if (folder / ".git").exists()), None)
    if git is not None:
        yield str(git)
    for name in _ROOTS:
        if folder := os.environ.get(name):
            yield from dict.fromkeys((folder, os.path.realpath(folder)))
    yield os.getcwd()  # noqa: PTH109


def placed(policy: Policy, path: str) -> Policy:
    """The policy with its place in the repository; `path` is as on the command line, empty for a preset."""
    from msgspec.structs import replace

    return replace(policy, repository_path=repository_path(path) if path else "")


def policy_name(options: Mapping[str, Any]) -> PolicyName | None:
    """Which gate `options` are about; None where they name no policy and none is found."""
    from .. import policy
    from ..model import PolicyName
    from ._shared import chosen_policy

    if options.get("max_growth"):
        return PolicyName("growth", "built-in:growth", None)
    known = {"policy_from": "head", **dict.fromkeys(("policy_path", "preset", "profile")), **options}
    path = f"preset:{known['preset']}" if known["preset"] else known["policy_path"]
    try:
        path = path or policy.find()
        return name_of(chosen_policy(known))
    except Exception:  # that is told elsewhere: here it only means that its name is not known
        place = "" if known["preset"] or not path else repository_path(path)
        profile = None if known["profile"] == policy.NO_PROFILE else known["profile"]
        return PolicyName(None, place or path, profile) if path else None


def name_of(policy: Policy) -> PolicyName:
    """What tells a gate from others: its policy's name, place and profile."""
    from ..model import PolicyName

    return PolicyName(policy.name, policy.repository_path or policy.path, policy.profile)


def subject(report: AnyReport) -> PolicyName | None:
    """Which gate a report is about; None where an error does not know it."""
    from ..model import ErrorReport

    return report.policy if isinstance(report, ErrorReport) else name_of(report.policy)
