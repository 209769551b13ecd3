"""A result file's bytes: read once, unpacked, hashed; and errors that name the file."""

from __future__ import annotations

import os
import stat
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
PACKED = (".gz", ".zst")  # endings of names
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"  # how such files begin
_FACTS = frozenset(
    ("_seen", "sha256", "content_sha256", "size", "length", "shape", "_fault", "keys", "places")
)
KEPT = 64 << 20  # bytes of the files of a set that stay in memory until they are asked for again
_CONTENT = frozenset(("_stored", "_hasher", "data", "head", "_first"))  # what holds it, or is made of it
_BOM = b"\xef\xbb\xbf"


# What a way of packing is called, what opens a packed file, and what it raises for a damaged one.
Unpacker: TypeAlias = "tuple[str, Callable[[Any], Any], tuple[type[Exception], ...]]"


def _gzip() -> Unpacker:
    import gzip
    import zlib

    return "gzip", lambda file: gzip.GzipFile(fileobj=file), (EOFError, OSError, zlib.error)


def unpacked_name(name: str) -> str:
    """What a file is called once it is unpacked."""
    return next((name.removesuffix(ending) for ending in PACKED if name.endswith(ending)), name)


class Shelf:
    """The files of one set whose content is in memory: where they are too many, the oldest are let go."""

    def __init__(self) -> None:
        self._sizes: dict[Stored, int] = {}

    def put(self, file: Stored, size: int) -> None:
        """Keep one more, and let go of others."""
        self._sizes.pop(file, None)
        while self._sizes and sum(self._sizes.values()) + size > KEPT:
            oldest = next(iter(self._sizes))
            del self._sizes[oldest]
            oldest.let_go()
        self._sizes[file] = size


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
        self.shelf: Shelf | None = None  # of the set of files that this one is read with
        self.advance: Callable[[int], None] | None = None  # told of stored bytes as they are read
        self._told = 0
        self._seen: tuple[int, ...] | None = None  # which file was opened, as long as and when it was written

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
                found = os.fstat(file.fileno())
                if stat.S_ISREG(found.st_mode):
                    seen = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
                    if self._seen not in (None, seen):
                        raise self.fail(
                            "changed while it was read", hint="wait until it is whole, then try again"
                        )
                    self._seen = seen
                if found.st_size <= _MAPPED_FROM:
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

    @cached_property
    def size(self) -> int:
        """Bytes as stored."""
        return self.size_on_disk or len(self._stored)

    @property
    def size_on_disk(self) -> int:
        """Bytes of a file that may be read again; 0 for any other, and for what is not there."""
        return disk.size(self.path) if self.path is not None else 0

    @cached_property
    def length(self) -> int:
        """Bytes of the content, unpacked."""
        return len(self.data)

    def known(self) -> dict[str, Any]:
        """What was found out of the file, without its content: for `learn`, in another process."""
        return {name: vars(self)[name] for name in _FACTS & vars(self).keys()}

    def learn(self, known: Mapping[str, Any]) -> None:
        """Take over what was found out elsewhere."""
        vars(self).update(known)

    def unmap(self) -> None:
        """Let go of a large file: its pages count as memory of this process."""
        if not isinstance(vars(self).get("data", b""), bytes):
            self.let_go()

    def let_go(self) -> None:
        """Give the content's memory back; it is read again where it is asked for. What is known of it stays.

        Raises nothing. The content of stdin and of pipes, which are read once, is kept.
        """
        if self._seen is not None and "data" in self.__dict__:
            _ = self.sha256, self.size, self.length, self.data is self._stored and self.content_sha256
            for name in _CONTENT & self.__dict__.keys():
                del self.__dict__[name]

    @cached_property
    def data(self) -> Buffer:
        """The content, decompressed. Raises InputError when it cannot be read."""
        try:
            stored = self._stored
            if "sha256" not in self.__dict__:
                _ = self._hasher
            data: Buffer
            if stored[:2] == _GZIP or stored[:4] == _ZSTD:
                data = self._unpacked(stored)
            else:
                data = stored[3:] if stored[:3] == _BOM else stored
            if self.shelf is not None:
                self.shelf.put(self, len(stored) + (0 if data is stored else len(data)))
            return data
        except MemoryError:
            pass
        raise self.too_large()

    def _unpacked(self, stored: Buffer) -> bytes:
        import io

        kind, unpacker, faults = self._zstd() if stored[:4] == _ZSTD else _gzip()
        unpacked = io.BytesIO()  # gives its bytes away without a copy of them
        try:
            packed = io.BytesIO(stored) if isinstance(stored, bytes) else stored  # no copy either way
            with unpacker(packed) as file:
                while piece := file.read(_PIECE):
                    unpacked.write(piece if unpacked.tell() else piece.removeprefix(_BOM))
                    if unpacked.tell() > _UNPACKED_MAX:
                        why = f"unpacks to more than {_UNPACKED_MAX >> 30} GiB"
                        raise self.fail(why, hint="unpack it first")
        except faults as error:
            raise self.fail(f"the {kind} data is damaged or cut short ({error})", hint=WHOLE) from None
        return unpacked.getvalue()

    def _zstd(self) -> Unpacker:
        """The standard library's since Python 3.14. Raises InputError where it is in no package either."""
        from importlib import import_module

        for name in ("compression.zstd", "backports.zstd"):
            try:
                found = import_module(name)
            except ImportError:
                continue
            return "zstd", found.ZstdFile, (EOFError, OSError, found.ZstdError)
        hint = "install the extra `zst`: python -m pip install backports.zstd; or pack it as .gz"
        raise self.fail("is packed as zstd, by a package that is not installed", hint=hint)

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
        path, head = self.path.with_name(name), self.name.rpartition("/")[0]
        named = f"{head}/{name}" if "://" in self.name else str(Path(self.name).with_name(name))
        try:
            return type(self)(path, named) if disk.is_file(path) else None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", named) from None

    def too_large(self) -> InputError:
        """What a MemoryError says to people. Raised behind its handler, where what was held is free."""
        why = "is too large for the memory that this process may use"
        return self.fail(why, hint="use a machine with more memory, or pass parts of the run as files")

    def fail(self, why: str, at: str = "", hint: str = "") -> InputError:
        """An InputError about this file; `at` is a JSON path or a line."""
        return InputError(why, f"{self.name}: {at}" if at else self.name, hint)
