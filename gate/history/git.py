"""A branch of a git repository as the store of history: `git:BRANCH`, or `git:REMOTE#BRANCH`.

The branch has no commit in common with the code. It is fetched shallow into a repository of its own, so that
the checkout keeps its refs, its objects and its depth, and it is always the remote's: what is checked out
may be the change that is judged.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import unquote

from ..errors import InputError, UsageError
from .lines import MOST_BYTES

PREFIX = "git:"
_BRANCH = re.compile(r"(?!.*(\.\.|//|/\.|\.lock(/|$)))[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}(?<![./])")
_TRIES = 12
_FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")
_WHO = {"NAME": "slo-gate", "EMAIL": "slo-gate@localhost"}
# How the checkout reaches its remote: proxies, headers with tokens, keys, other addresses.
_TRANSPORT = r"^(http|https|credential|url|ssh|core\.sshcommand|protocol)(\.|$)"
_OVERTAKEN = (  # what git and servers say when somebody else was first; hooks and rules say other things
    "fetch first",
    "non-fast-forward",
    "cannot lock ref",
    "failed to update ref",
    "incorrect old value",
    "reference already exists",
)
_LIMIT_S = 300  # of one command of git
_SLOW = {"LIMIT": "1000", "TIME": "60"}  # bytes a second over HTTP, and for how many seconds


class Branch:
    """Files at the root of a branch."""

    def __init__(self, name: str) -> None:
        self.name = without_secrets(name)
        remote, mark, branch = name.removeprefix(PREFIX).rpartition("#")
        if not _BRANCH.fullmatch(branch):
            raise UsageError(f'"{branch}" is no name of a branch', self.name, "write it like git:slo-history")
        if (mark and not remote) or remote.startswith("-"):
            raise UsageError(
                f'"{without_secrets(remote)}" is no repository',
                self.name,
                "write it like git:origin#slo-history",
            )
        self._remote, self._ref = remote, f"refs/heads/{branch}"
        self._folder = ""
        self._environment: dict[str, str] = {}
        self._cwd = ""
        self._urls = "", ""

    # ---- reading ------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """The names of the files at the root of the branch; none where there is no branch yet."""
        return list(self._files(self._fetched()))

    def read(self, names: Sequence[str]) -> Iterator[tuple[str, bytes | str]]:
        """The bytes of each file of the branch as `names` has seen it."""
        files = self._files(self._tip())
        wanted: list[tuple[str, str]] = []
        for name in names:
            mode, blob, size = files.get(name, ("", "", "-"))
            if not mode.startswith("100"):
                yield name, "it is no regular file"
            elif int(size) > MOST_BYTES:
                yield name, f"it has more than {MOST_BYTES:,} bytes"
            else:
                wanted.append((name, blob))
        asked = "".join(f"{blob}\n" for _, blob in wanted)
        answer, at = self._git("cat-file", "--batch", stdin=asked.encode()).stdout, 0
        for name, _ in wanted:
            head, at = answer[at : (end := answer.index(b"\n", at))], end + 1
            size_ = int(head.rpartition(b" ")[2])
            yield name, answer[at : at + size_]
            at += size_ + 1

    def _files(self, tip: str) -> dict[str, tuple[str, str, str]]:
        """Of each file its mode, its blob and its size."""
        if not tip:
            return {}
        found = {}
        for row in self._git("ls-tree", "-z", "-l", tip).stdout.split(b"\0")[:-1]:
            facts, _, name = row.partition(b"\t")
            mode, _, blob, size = facts.decode("ascii").split()
            found[name.decode("utf-8", "replace")] = mode, blob, size
        return found

    # ---- writing ------------------------------------------------------------------------------

    def write(self, lines: Mapping[str, bytes]) -> None:
        """A commit with these files on top of whatever the branch has by then."""
        self._commit(lines, (), f"Add {len(lines)} to the history")

    def remove(self, names: Iterable[str]) -> None:
        """A commit without these files; older commits of the branch keep them."""
        gone = tuple(names)
        self._commit({}, gone, f"Take {len(gone)} out of the history")

    def _commit(self, lines: Mapping[str, bytes], gone: Sequence[str], message: str) -> None:
        for attempt in range(_TRIES):
            tip = self._fetched()
            there = self._files(tip)
            new = {name: data for name, data in lines.items() if name not in there}
            left = [name for name in gone if name in there]
            if not new and not left:
                return
            commit = self._made(tip, new, left, message)
            pushed = self._git("push", "--quiet", self._urls[1], f"{commit}:{self._ref}", fails=True)
            if not pushed.returncode:
                return
            why = pushed.stderr.decode("utf-8", "replace")
            if attempt == _TRIES - 1 or not any(word in why for word in _OVERTAKEN):
                break
            time.sleep((0.05 + os.urandom(1)[0] / 1700) * 1.6**attempt)
        raise self._refused("cannot be pushed", pushed)

    def _made(self, tip: str, new: Mapping[str, bytes], gone: Sequence[str], message: str) -> str:
        """The commit with these files more and those less."""
        self._git("read-tree", *([tip] if tip else ["--empty"]))
        rows = [f"0 {'0' * 40}\t{name}\0" for name in gone]
        for name, data in new.items():
            blob = self._git("hash-object", "-w", "--stdin", stdin=data).stdout.decode().strip()
            rows.append(f"100644 {blob}\t{name}\0")
        self._git("update-index", "-z", "--index-info", stdin="".join(rows).encode())
        tree = self._git("write-tree").stdout.decode().strip()
        parent = ("-p", tip) if tip else ()
        return self._git("commit-tree", *parent, "-m", message, tree).stdout.decode().strip()

    # ---- the repository of its own --------------------------------------------------------------

    def _fetched(self) -> str:
        """The commit of the branch as the remote has it now; empty where it has no such branch."""
        self._ready()
        words = ("fetch", "--quiet", "--no-tags", "--depth=1", self._urls[0], f"+{self._ref}:{self._ref}")
        fetched = self._git(*words, fails=True)
        if not fetched.returncode:
            return self._tip()
        asked = self._git("ls-remote", "--exit-code", "--heads", self._urls[0], self._ref, fails=True)
        if asked.returncode != 2:
            raise self._refused("cannot be fetched", asked if asked.returncode else fetched)
        self._git("update-ref", "-d", self._ref)
        return ""

    def _tip(self) -> str:
        found = self._git("rev-parse", "--verify", "--quiet", self._ref, fails=True)
        return found.stdout.decode("ascii", "replace").strip()

    def _ready(self) -> None:
        if self._folder:
            return
        self._urls = self._addresses()
        self._folder = mkdtemp(prefix="slo-gate-history-")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._git("init", "--quiet", "--bare", self._folder)
        self._environment = {**self._transport(), "GIT_DIR": self._folder}

    def _addresses(self) -> tuple[str, str]:
        """Where to fetch from and to push to. A repository without a remote keeps its history itself."""
        root = git_lines("rev-parse", "--show-toplevel")
        self._cwd = root[0] if root else os.getcwd()  # noqa: PTH109
        remote = self._remote or "origin"
        url = git_lines("config", "--get", f"remote.{remote}.url")
        if url:
            push = git_lines("config", "--get", f"remote.{remote}.pushurl")
            return url[0], (push or url)[0]
        if self._remote:
            return self._remote, self._remote
        if not root:
            hint = "run it in a checkout, or name the repository: `git:URL#BRANCH`"
            raise UsageError("there is no repository of git here", self.name, hint)
        return self._cwd, self._cwd

    @staticmethod
    def _transport() -> dict[str, str]:
        """The checkout's own settings for reaching remotes, for the environment of git."""
        words = ("config", "--local", "--includes", "--null", "--get-regexp", _TRANSPORT)
        first = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
        found: dict[str, str] = {}
        pairs = [one.partition("\n") for one in git_output(*words).split("\0")[:-1]]
        for at, (key, _, value) in enumerate(pairs, first):
            found |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": value}
        return {**found, "GIT_CONFIG_COUNT": str(first + len(pairs))}

    def _git(
        self, *words: str, stdin: bytes = b"", fails: bool = False
    ) -> subprocess.CompletedProcess[bytes]:
        """Git in the repository of its own. Raises InputError where it fails and may not."""
        done = _run(*words, stdin=stdin, cwd=self._cwd, env=self._environment)
        if done.returncode and not fails:
            raise self._refused(f"git {words[0]} fails", done)
        return done

    def _refused(self, what: str, done: subprocess.CompletedProcess[bytes]) -> InputError:
        said = [line.strip() for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        why = next((line for line in said if line.startswith(("fatal:", "error:", "!"))), "".join(said[:1]))
        hint = "look at the name of the remote and of the branch, and at the permissions of the job"
        return InputError(f"{what}: {without_secrets(why) or 'git does not say why'}", self.name, hint)


def without_secrets(text: str) -> str:
    """Text without what stands before the @ of a URL, and without its query."""
    return re.sub(r"(://[^\s?#']*)\?[^\s#']*", r"\1", re.sub(r"(?<=://)[^/?\s]+@", "", text))


def tracked(store: str) -> bool:
    """Whether a repository has files of this store, or a link on the way; also where git cannot tell.

    Of a folder, or of a repository (or bundle) that `git:PATH#BRANCH` names by its path.
    """
    if store.startswith(PREFIX):
        return _tracked_repository(store.removeprefix(PREFIX).rpartition("#")[0])
    if not os.path.isdir(store):  # noqa: PTH112 it may be a URL, which pathlib would change
        return False
    path = Path(store).absolute()
    return _held(path.resolve()) or _tracked_link(path)


def _tracked_repository(remote: str) -> bool:
    if not remote or git_lines("config", "--get", f"remote.{remote}.url"):
        return False  # a remote by its name: the configuration of git is no file of a commit
    root = git_lines("rev-parse", "--show-toplevel")
    path = Path(*root, unquote(remote.removeprefix("file://"))).absolute()
    if "://" in str(remote.removeprefix("file://")) or not os.path.lexists(path):
        return False
    there = path.resolve()
    # Asked from above: inside of it git would look at the repository itself.
    return _held(there.parent, there.name) or _tracked_link(path)


def _tracked_link(path: Path) -> bool:
    """Whether a commit holds a link on the way to a place."""
    links = [one for one in (path, *path.parents) if one.is_symlink()]
    return any(_held(one.parent.resolve(), one.name) for one in links)


def _held(folder: Path, *names: str) -> bool:
    """Whether a repository has files in there, of these names alone where any is given."""
    words = ("-c", "safe.bareRepository=explicit", "--literal-pathspecs", "ls-files", "--", *names)
    try:
        done = _run(*words, cwd=str(folder))
    except (UsageError, InputError):
        return True
    if done.returncode:
        return b"not a git repository" not in done.stderr
    return bool(done.stdout)


def git_lines(*words: str) -> list[str]:
    """What git prints about the working folder; nothing where it fails."""
    return git_output(*words).splitlines()


def git_output(*words: str) -> str:
    """The same, whole."""
    done = _run("-c", "safe.bareRepository=explicit", *words)
    return "" if done.returncode else done.stdout.decode("utf-8", "replace")


def _run(
    *words: str, stdin: bytes = b"", cwd: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    whole = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    whole |= {f"GIT_{role}_{what}": said for role in ("AUTHOR", "COMMITTER") for what, said in _WHO.items()}
    whole = {f"GIT_HTTP_LOW_SPEED_{what}": said for what, said in _SLOW.items()} | whole
    whole |= {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C", **(env or {})}
    try:
        return subprocess.run(
            ["git", *words],
            input=stdin,
            env=whole,
            cwd=cwd or None,
            capture_output=True,
            check=False,
            timeout=_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        hint = "look at the network and at the server of the repository"
        raise InputError(f"git has not ended after {_LIMIT_S} s", "git", hint) from None
    except OSError as error:
        why = f"git cannot be started: {error.strerror or error}"
        raise UsageError(why, "git", "install git, or name a folder as the store") from None
