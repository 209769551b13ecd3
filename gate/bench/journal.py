"""What happened, a line an event, on disk before the next thing is done.

Whoever dies at any moment leaves a journal whose last line may be torn; the next start cuts that line
off and goes on. Nothing is ever rewritten.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..errors import InputError, UsageError

NAME = "journal.slo.jsonl"


class Journal:
    """The journal of one session folder, locked while it is open."""

    def __init__(self, folder: Path) -> None:
        """Raises UsageError when the folder cannot be made or another process holds it."""
        self.path = folder / NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise UsageError(
                f"the session folder cannot be used: {error.strerror or error}",
                str(folder),
                "name another --dir",
            ) from None
        self._lock()
        sync_folder(folder)
        self.events = self._read()

    def _lock(self) -> None:
        try:
            import fcntl  # freed by the kernel when this process ends, however it ends
        except ImportError:
            hint = "use Linux, macOS or WSL"
            raise UsageError(
                "slo-gate run needs locks that this system has not", str(self.path), hint
            ) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise UsageError(
                "another slo-gate run is at work here", str(self.path), "wait for it, or name another --dir"
            ) from None

    def _read(self) -> list[dict[str, Any]]:
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):  # torn by a kill: what it says has not happened
            os.ftruncate(self._fd, whole)
        events = []
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                events.append(msgspec.json.decode(line, type=dict[str, Any]))
            except (msgspec.MsgspecError, RecursionError) as error:
                raise InputError(
                    f"is no journal of slo-gate run: {error}", f"{self.path}:{number}", "name another --dir"
                ) from None
        return events

    def write(self, event: str, **facts: Any) -> None:
        """Append one event; it is on the disk when this returns."""
        record = {"event": event, **facts}
        os.write(self._fd, msgspec.json.encode(record) + b"\n")
        os.fsync(self._fd)
        self.events.append(record)

    def close(self) -> None:
        """Let the next one in."""
        with contextlib.suppress(OSError):
            os.close(self._fd)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_files(paths: Sequence[Path]) -> None:
    """Make what other processes wrote last."""
    for path in paths:
        sync_folder(path)  # fsync needs no write access
