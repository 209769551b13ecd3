"""Files by what they are and not by what they are called: nothing that is read is written over.

What a process reads is remembered by device and inode, so that a glob, a folder, a link, a companion or
a redirected stdout cannot make one file an input and an output. A process is one command line.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, TypeAlias

from . import remote
from .errors import UsageError

Identity: TypeAlias = tuple[int, int] | str  # device and inode; of a file elsewhere its URL
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_READ: set[Identity] = set()  # opened
_KEPT: set[Identity] = set()  # and what will be, or may have been


def forget() -> None:
    """Begin a command line, or end one: nothing has been read."""
    _READ.clear()
    _KEPT.clear()
    remote.forget()


def shown(path: str | Path) -> str:
    """What messages and reports call a file."""
    return remote.url_of(path) or str(path)


def place(name: str) -> Path:
    """Where the file of that name is on this machine: the copy of one elsewhere, fetched or not.

    Raises OSError for a URL that has no copy.
    """
    return remote.mirrored(name) if remote.is_url(name) else Path(name)


def identity(file: str | Path | int) -> Identity | None:
    """Of a regular file, by its name or descriptor; None where there is none."""
    if not isinstance(file, int) and (url := str(file) if remote.is_url(file) else remote.url_of(file)):
        return url
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def stream(name: str) -> Identity | None:
    """The file that stdin, stdout or stderr stands for, where it is one."""
    try:
        return identity(getattr(sys, name).fileno())
    except (AttributeError, OSError, ValueError):  # closed, or no stream of the system
        return None


def opened(path: str | Path) -> BinaryIO:
    """A file to read, which no output may land on from now on. Never blocks.

    Raises OSError for what cannot be read, a named pipe, a socket and a device among it (the pipe of a
    shell's `<(command)` is read), and UsageError where stdout or stderr is redirected to the file.
    """
    if url := str(path) if remote.is_url(path) else remote.url_of(path):
        _READ.add(url)
        path = remote.fetched(url)
    _refuse_special(os.stat(path), path)  # before it is opened: that alone wakes who waits at a pipe
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 the caller closes it
    try:
        found = os.fstat(file.fileno())
        _refuse_special(found, path)
        if stat.S_ISFIFO(found.st_mode):
            os.set_blocking(file.fileno(), True)
        keep(file.fileno(), path, _READ)
    except BaseException:
        file.close()
        raise
    return file


def keep(file: str | Path | int, name: str | Path, among: set[Identity] = _KEPT) -> None:
    """From now on no output may land on this file. Raises UsageError where stdout or stderr does."""
    if (found := identity(file)) is None:
        return
    among.add(found)
    for other in ("stdout", "stderr"):
        if stream(other) == found:
            raise _overwritten(other, str(name))


def _overwritten(other: str, name: str) -> UsageError:
    why = f"{other} is redirected to a file that is read; with > the shell has emptied it already"
    return UsageError(why, name, "redirect it to another file")


def keep_stdin() -> None:
    """The same of the file that stdin may be."""
    if stream("stdin"):
        keep(sys.stdin.fileno(), "stdin")


def opened_files() -> frozenset[Identity]:
    """What was opened since `forget`."""
    return frozenset(_READ)


def opened_elsewhere(found: frozenset[Identity], name: str) -> None:
    """Another process opened these files for this one: no output may land on them from now on.

    Raises UsageError where stdout or stderr does.
    """
    _READ.update(found)
    for other in ("stdout", "stderr"):
        if stream(other) in found:
            raise _overwritten(other, name)


def let_go(path: str | Path) -> None:
    """The file was looked at and left aside: an output may replace it, if nothing else keeps it."""
    _READ.discard(identity(path) or "")


def is_read(found: Identity | None) -> bool:
    """Whether a file is among those that are read."""
    return found in _READ or found in _KEPT


class Upload(BytesIO):
    """A file elsewhere, which has its old content until it is filled."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url


def to_write(path: str | Path) -> BinaryIO:
    """A file to write, made where it is not there, and as long as it was: nothing is lost by opening it.

    Raises OSError, and UsageError for a file that is read.
    """
    file = Upload(str(path)) if remote.is_url(path) else open(path, "wb", 0, opener=_without_emptying)  # noqa: SIM115
    if is_read(identity(path) if isinstance(file, Upload) else identity(file.fileno())):
        file.close()  # else the caller closes it
        raise UsageError("the output would overwrite what is read", str(path), "name another file")
    return file


def fill(file: BinaryIO, content: bytes) -> None:
    """Make `content` the whole content of what `to_write` gave. Raises OSError, e.g. for a full disk."""
    if isinstance(file, Upload):
        remote.write(file.url, content)
        return
    if identity(file.fileno()):  # a pipe has no length
        file.truncate(0)
    left = memoryview(content)
    while left:
        left = left[file.write(left) or 0 :]


def _without_waiting(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _without_emptying(name: str, flags: int) -> int:
    """Nor waiting: a named pipe that nobody reads is an OSError."""
    waits = getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(name, flags & ~os.O_TRUNC | waits, 0o666)
    if waits:
        os.set_blocking(descriptor, True)  # where somebody reads, all of it is written
    return descriptor


def _refuse_special(found: os.stat_result, path: str | Path) -> None:
    kind = _KINDS.get(stat.S_IFMT(found.st_mode))
    if kind is None or (stat.S_ISFIFO(found.st_mode) and _of_shell(str(path))):
        return
    raise OSError(errno.EINVAL, f"it is {kind}, not a file")


def _of_shell(path: str) -> bool:
    """Whether a path names a descriptor that this process was given, as `<(command)` does."""
    return path == "/dev/stdin" or os.path.dirname(path) in ("/dev/fd", "/proc/self/fd")


# ---- what a name stands for, whoever may not look there -------------------------------------


def is_file(path: str | Path) -> bool:
    """Whether a regular file is there and can be looked at. Raises OSError of a store that fails."""
    return os.path.isfile(path) or remote.is_file(path)


def is_folder(path: str | Path) -> bool:
    """Whether a folder is there and can be looked at."""
    return os.path.isdir(path)


def size(path: str | Path) -> int:
    """Bytes of a regular file; 0 where none is there."""
    return os.path.getsize(path) if os.path.isfile(path) else 0


def kind(path: str | Path) -> str:
    """What is there that is no regular file, in a few words."""
    try:
        return _KINDS.get(stat.S_IFMT(os.stat(path).st_mode), "a folder")
    except OSError as error:
        return f"a link to {os.readlink(path)}, which is not there" if os.path.islink(path) else str(error)


def is_there(path: str | Path) -> bool:
    """Whether anything is there, and is no link to nothing."""
    return os.path.exists(path) or remote.is_file(path)
