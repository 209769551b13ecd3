"""Any URL that fsspec knows as the store of history: one object a line, so that two writers never meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from .. import remote
from ..errors import InputError
from .lines import MOST_BYTES


class Objects:
    """Objects below a URL such as s3://bucket/path."""

    def __init__(self, name: str) -> None:
        self.name = remote.shown(name.rstrip("/"))
        self._paths: dict[str, Path] = {}

    def names(self) -> list[str]:
        """The names below the URL; none where nothing is there yet."""
        try:
            found = {url.removeprefix(f"{self.name}/"): path for path, url in self._found()}
        except OSError as error:
            raise self._refused(error) from None
        self._paths = {name: path for name, path in found.items() if "/" not in name}
        if not found and (why := self._absent()):
            raise InputError(f"cannot be used as a store of history: {why}", self.name, "check the URL")
        return list(self._paths)

    def _absent(self) -> str:
        try:
            return remote.absent(self.name)
        except OSError as error:
            raise self._refused(error) from None

    def _found(self) -> Iterator[tuple[Path, str]]:
        for place in remote.find(self.name):
            if place.is_folder:  # what is not there is taken for a file
                yield from ((path, str(remote.url_of(path))) for path in place.files)

    def read(self, names: Sequence[str]) -> Iterator[tuple[str, bytes | str]]:
        """The bytes of each object, or why it cannot be read; several are fetched at once."""
        paths = {name: self._paths[name] for name in names}
        faults = remote.fetch(paths.values())
        for name, path in paths.items():
            if fault := faults.get(path):
                yield name, fault.strerror or str(fault)
            elif path.stat().st_size > MOST_BYTES:
                yield name, f"it has more than {MOST_BYTES:,} bytes"
            else:
                yield name, path.read_bytes()

    def write(self, lines: Mapping[str, bytes]) -> None:
        """An object for each line; it appears whole or not at all."""
        try:
            for name, data in lines.items():
                remote.write(f"{self.name}/{name}", data)
        except OSError as error:
            raise self._refused(error) from None

    def remove(self, names: Iterable[str]) -> None:
        """Take these objects away."""
        try:
            for name in names:
                remote.remove(f"{self.name}/{name}")
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> InputError:
        what = error.strerror or str(error)
        return InputError(f"cannot be used as a store of history: {what}", self.name, "check the URL")
