"""A result file's bytes: read once, unpacked, hashed; and errors that name the file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import disk
from ..errors import InputError

# What only some files need is imported where it is used: this module is part of every start.
if TYPE_CHECKING:
    import threading
    from mmap import mmap

    from typing_extensions import Self

Buffer: TypeAlias = "bytes | mmap"
WHOLE = "run the benchmark again, or copy the file whole"
AGAIN = "run the benchmark again, or use the file as the tool wrote it"

# A map costs no memory, but a file cut short while it is read kills the process: only where it pays.
_MAPPED_FROM = 32 << 20
_UNPACKED_MAX = 4 << 30  # a small .gz must not be able to fill the memory
_PIECE = 16 << 20
_BOM = b"\xef\xbb\xbf"


class Stored:
    """A file (or stdin), read lazily. `gaps` says whether inter-chunk gaps are wanted.

    `attempted_counter` is the policy's `evidence.attempted`: the gateway's counter of all requests.
    """

    def __init__(
        self, path: Path | None, name: str, *, gaps: bool = False, attempted_counter: str | None = None
    ) -> None:
        self.path = path  # None is stdin
        self.name = name  # as the caller named it; shown in every message
        self.gaps = gaps
        self.attempted_counter = attempted_counter
        self.columns: Mapping[str, str] = {}  # of home-made rows: our column -> the file's name for it
        self.advance: Callable[[int], None] | None = None  # told of stored bytes as they are read
        self._told = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    # ---- bytes ----------------------------------------------------------------------------

    @cached_property
    def _stored(self) -> Buffer:
        if self.path is None:
            disk.keep_stdin()
            return self._capped(sys.stdin.buffer.read(_UNPACKED_MAX + 1))
        try:
            with disk.opened(self.path) as file:
                if os.fstat(file.fileno()).st_size <= _MAPPED_FROM:
                    return self._capped(file.read(_UNPACKED_MAX + 1))  # a pipe may never end
                from mmap import ACCESS_READ, mmap

                return mmap(file.fileno(), 0, access=ACCESS_READ)
        except FileNotFoundError:
            raise self.fail("no such file", hint="check the path, or the step that writes it") from None
        except OSError as error:
            raise self.fail(f"cannot be read: {error.strerror or error}") from None

    def _capped(self, data: bytes) -> bytes:
        if len(data) > _UNPACKED_MAX:
            raise self.fail(f"holds more than {_UNPACKED_MAX >> 30} GiB", hint="pass it as a file, unpacked")
        return data

    @cached_property
    def _hasher(self) -> tuple[threading.Thread, Any]:
        # hashlib lets go of the GIL, so a large file is hashed beside its decoding.
        import hashlib
        import threading

        digest = hashlib.sha256()
        thread = threading.Thread(target=digest.update, args=(self._stored,), daemon=True)
        thread.start()
        return thread, digest

    @cached_property
    def sha256(self) -> str:
        """Of the bytes as stored (compressed if they are)."""
        thread, digest = self._hasher
        thread.join()
        return str(digest.hexdigest())

    @cached_property
    def content_sha256(self) -> str:
        """Of the content unpacked, by which the same measurement is known in two wrappings."""
        import hashlib

        return self.sha256 if self.data is self._stored else hashlib.sha256(self.data).hexdigest()

    @property
    def size(self) -> int:
        """Bytes as stored."""
        return len(self._stored)

    @cached_property
    def data(self) -> Buffer:
        """The content, decompressed. Raises InputError when it cannot be read."""
        try:
            stored = self._stored
            _ = self._hasher
            if stored[:2] == b"\x1f\x8b":
                return self._unpacked(stored)
            return stored[3:] if stored[:3] == _BOM else stored
        except MemoryError:
            pass
        raise self.too_large()

    def _unpacked(self, stored: Buffer) -> bytes:
        import gzip
        import io
        import zlib

        unpacked = io.BytesIO()  # gives its bytes away without a copy of them
        try:
            packed = io.BytesIO(stored) if isinstance(stored, bytes) else stored  # no copy either way
            with gzip.GzipFile(fileobj=packed) as file:
                while piece := file.read(_PIECE):
                    unpacked.write(piece if unpacked.tell() else piece.removeprefix(_BOM))
                    if unpacked.tell() > _UNPACKED_MAX:
                        why = f"unpacks to more than {_UNPACKED_MAX >> 30} GiB"
                        raise self.fail(why, hint="unpack it first")
        except (EOFError, OSError, zlib.error) as error:
            raise self.fail(f"the gzip data is damaged or cut short ({error})", hint=WHOLE) from None
        return unpacked.getvalue()

    @cached_property
    def head(self) -> str:
        """The first 64 KiB as text, for looking at what it is."""
        return bytes(self.data[:65536]).decode("utf-8-sig", "replace")

    def progressed(self, share: float = 1.0) -> None:
        """Tell who watches that this share of the file has been read."""
        if self.advance is not None:
            reached = int(share * self.size)
            self.advance(reached - self._told)
            self._told = reached

    # ---- around it ------------------------------------------------------------------------

    def beside(self, name: str) -> Self | None:
        """The file of that name in the same folder, if there is one."""
        if self.path is None:
            return None
        path = self.path.with_name(name)
        try:
            return type(self)(path, disk.shown(path)) if disk.is_file(path) else None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", disk.shown(path)) from None

    def too_large(self) -> InputError:
        """What a MemoryError says to people. Raised behind its handler, where what was held is free."""
        why = "is too large for the memory that this process may use"
        return self.fail(why, hint="use a machine with more memory, or pass parts of the run as files")

    def fail(self, why: str, at: str = "", hint: str = "") -> InputError:
        """An InputError about this file; `at` is a JSON path or a line."""
        return InputError(why, f"{self.name}: {at}" if at else self.name, hint)
