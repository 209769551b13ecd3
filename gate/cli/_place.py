"""Where a policy stands in its repository: what annotations, JUnit and comments call it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..model import AnyReport, Policy, PolicyName

_ROOTS = ("CI_PROJECT_DIR", "GITHUB_WORKSPACE")


def repository_path(path: str) -> str:
    """`path` from the root of its repository, with /; empty for an embedded policy and a file outside.

    The root is the nearest folder above the file that git made, else what the CI system calls its
    checkout, else the working folder.
    """
    if path.startswith("preset:"):
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


def placed(policy: Policy) -> Policy:
    """The policy with its place in the repository."""
    from msgspec.structs import replace

    return replace(policy, repository_path=repository_path(policy.path))


def policy_name(options: Mapping[str, Any]) -> PolicyName | None:
    """Which gate `options` are about; None where they name no policy and none is found."""
    from .. import policy
    from ..model import PolicyName

    preset, profile = options.get("preset"), options.get("profile")
    path = f"preset:{preset}" if preset else options.get("policy_path")
    try:
        path = path or policy.find()
        known = policy.preset(preset, profile=profile) if preset else policy.load(path, profile=profile)
    except Exception:  # that is told elsewhere: here it only means that its name is not known
        return PolicyName(None, repository_path(path) or path, profile) if path else None
    return PolicyName(known.name, repository_path(path) or path, known.profile)


def name_of(report: AnyReport) -> PolicyName | None:
    """Which gate a report is about; None where an error does not know it."""
    from ..model import ErrorReport, PolicyName

    if isinstance(report, ErrorReport):
        return report.policy
    policy = report.policy
    return PolicyName(policy.name, policy.repository_path or policy.path, policy.profile)
