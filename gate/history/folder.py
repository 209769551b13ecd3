"""A folder as the store of history: the default, and what a cache or an artifact of CI holds."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from .. import disk
from ..errors import InputError
from .lines import MOST_BYTES

_HALF = ".history-"  # begins the name of a file that is still written, or whose writer died


class Folder:
    """Files of a folder; links are not followed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._path = Path(name)

    def names(self) -> list[str]:
        """The names in the folder, hidden ones left out."""
        try:
            return [path.name for path in self._path.iterdir() if not path.name.startswith(".")]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._refused(error) from None

    def read(self, names: Sequence[str]) -> Iterator[tuple[str, bytes | str]]:
        """The bytes of each file, or why it cannot be read."""
        for name in names:
            path = self._path / name
            try:
                found = os.lstat(path)
                if not stat.S_ISREG(found.st_mode):
                    yield name, "it is no regular file"
                elif found.st_size > MOST_BYTES:
                    yield name, f"it has more than {MOST_BYTES:,} bytes"
                else:
                    with disk.opened(path) as file:
                        yield name, file.read(MOST_BYTES + 1)
            except OSError as error:
                yield name, error.strerror or str(error)

    def write(self, lines: Mapping[str, bytes]) -> None:
        """Each line as a file that appears whole or not at all, also where the machine stops."""
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            for name, data in lines.items():
                self._whole(self._path / name, data)
            if lines and os.name == "posix":
                self._kept(self._path)
        except OSError as error:
            raise self._refused(error) from None

    def _whole(self, path: Path, data: bytes) -> None:
        half = path.with_name(f"{_HALF}{os.getpid()}-{path.name}")
        try:
            with half.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # the same line: its name says its bytes
                os.link(half, path)
        finally:
            half.unlink(missing_ok=True)

    @staticmethod
    def _kept(path: Path) -> None:
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, names: Iterable[str]) -> None:
        """Take these files away."""
        try:
            for name in names:
                (self._path / name).unlink(missing_ok=True)
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> InputError:
        what = error.strerror or str(error)
        return InputError(f"cannot be used as a store of history: {what}", self.name, "name a folder")
