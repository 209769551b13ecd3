"""A policy as a commit has it: out of git's objects, so that no file of the working tree stands in for it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import PolicyError
from ..policy import MAX_BYTES, parse, versions
from ..remote import is_url
from ._base import SHA, base_commit

if TYPE_CHECKING:
    from ..model import Policy

BASE = "base"  # the revision that the event of a CI job names
_FETCH = "fetch it first; with actions/checkout, `fetch-depth: 0`"
_MERGE = "check the path, or merge the policy into that branch first"
# What git says of a name below a commit that is no file there.
_REFUSED = {
    "dangling": "is a link to nothing",
    "loop": "is a link to itself",
    "notdir": "stands below a file",
    "symlink": "is a link out of the repository, to what no commit holds",
}


class Revision:
    """A policy file as one commit has it, never as the working tree does.

    `path` is as on the command line; `name` is BASE, or any name of a commit in the repository of `path`.
    `where` is the path inside that repository, `commit` the full SHA, `data` the content.
    Raises PolicyError, and UsageError where no base is known.
    """

    def __init__(self, path: str, name: str) -> None:
        if name == BASE:
            name = base_commit(os.environ)
        repository, self.where = _inside(path)
        self.commit = _commit(repository, name)
        self.data = self._content(repository)

    def __str__(self) -> str:
        return f"{self.where} at commit {self.commit[:12]}"

    def _content(self, repository: str) -> bytes:
        asked = f"{self.commit}:{self.where}\n".encode("utf-8", "surrogateescape")
        # Links are followed as the commit has them: the working tree may have made them point elsewhere.
        checked = _git(repository, "cat-file", "--batch-check", "--follow-symlinks", stdin=asked)
        answer = checked.stdout.decode("utf-8", "replace").split("\n")[0]
        blob = re.fullmatch(r"([0-9a-f]{40,64}) blob ([0-9]+)", answer)
        if blob is None:
            why = _REFUSED.get(answer.split(" ")[0]) or _complaint(checked) or "is a folder, not a file"
            why = "there is no such file" if answer.endswith(" missing") else why
            raise PolicyError(why, str(self), _MERGE)
        if int(blob[2]) > MAX_BYTES:
            raise PolicyError("is larger than 1 MB, which no policy is", str(self), "check the path")
        found = _git(repository, "cat-file", "blob", blob[1])
        if found.returncode:
            raise PolicyError(f"cannot be read: {_complaint(found)}", str(self), _FETCH)
        return found.stdout

    def policy(self, profile: str | None) -> Policy:
        """The policy with a profile applied, under its path in the repository. Raises PolicyError."""
        from msgspec.structs import replace

        try:
            loaded = parse(self.data, self.where, profile=profile)
        except PolicyError as error:
            raise self._there(error) from None
        notes = (*loaded.notes, f"the policy is {self}, not that of the working tree")
        return replace(loaded, notes=notes, repository_path=self.where)

    def versions(self) -> dict[str | None, Policy]:
        """The policy and all its profiles, as `policy.versions` has them. Raises PolicyError."""
        try:
            return versions(self.data, self.where)
        except PolicyError as error:
            raise self._there(error) from None

    def _there(self, error: PolicyError) -> PolicyError:
        return PolicyError(error.message, f"{error.where} at commit {self.commit[:12]}", error.hint)


def _inside(path: str) -> tuple[str, str]:
    """The root of the repository that holds `path`, and the path below it, with slashes.

    By names alone: what is judged may have made links of its folders, or removed them.
    """
    if is_url(path):
        raise PolicyError("a file behind a URL is in no commit", path, "leave out --policy-from")
    if "\n" in path or "\0" in path:
        raise PolicyError("a path of several lines names no policy", "--policy", "rename the file")
    whole, complaint = Path(os.path.abspath(path)), ""  # noqa: PTH100 - Path.resolve follows links
    for folder in whole.parents:
        if not folder.is_dir():
            continue
        found = _git(str(folder), "rev-parse", "--show-toplevel")
        complaint = complaint or _complaint(found)
        root = os.fsdecode(found.stdout).removesuffix("\n")
        if root and folder.samefile(root):
            return root, whole.relative_to(folder).as_posix()
    why = f"cannot be read from a commit: {complaint or 'it is in no repository'}"
    raise PolicyError(why, path, "name a policy in a checkout of its repository")


def _commit(repository: str, name: str) -> str:
    """The full SHA of a commit; one that is named in full is fetched where the checkout lacks it."""

    def known() -> str:
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return _git(repository, *words).stdout.decode("ascii", "replace").strip()

    why = f"git knows no such commit in {repository}"
    if not (found := known()) and SHA.fullmatch(name):
        # In a history that is whole, --depth would cut off what is older.
        shallow = _git(repository, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
        depth = ("--depth=1",) if shallow else ()
        fetched = _git(repository, "fetch", "--quiet", "--no-tags", *depth, "origin", name)
        why = f"the checkout in {repository} lacks it, and it cannot be fetched: {_complaint(fetched)}"
        found = known()
    if not found:
        raise PolicyError(why, f"commit {name}", _FETCH)
    return found


def _complaint(done: subprocess.CompletedProcess[bytes]) -> str:
    """The first line of what git complains about."""
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    return lines[0].removeprefix("fatal: ") if lines else ""


def _git(folder: str, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Git in a folder, whatever repository the caller's environment names. Raises PolicyError."""
    env = {name: value for name, value in os.environ.items() if name not in ("GIT_DIR", "GIT_WORK_TREE")}
    env |= {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"}
    # A bare repository inside the tree is content of the change, and no repository to ask.
    command = ["git", "-c", "safe.bareRepository=explicit", "-C", folder, *words]
    try:
        return subprocess.run(command, input=stdin, env=env, capture_output=True, check=False)
    except OSError as error:
        why = f"git cannot be started: {error.strerror or error}"
        raise PolicyError(why, "--policy-from", "install git") from None
