"""Files in, Runs out. One module a tool; exactly one reader claims a file.

A new reader is one module here, its name in READERS, a fixture folder and a row in docs/readers.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..model import Run
from ._source import Source


class Reader(Protocol):
    """What a reader module offers; mypy checks each module in READERS against it."""

    NAME: str  # what --tool takes
    TITLE: str  # the tool's own name, for people
    SIDE_FILES: Mapping[str, str]  # file name pattern -> what it is, when it is not a result

    def sniff(self, source: Source, /) -> bool:
        """Whether the file is this tool's, by its content. Raises InputError only if unreadable."""

    def read(self, source: Source, /) -> Sequence[Run]:
        """The runs in the file. Raises InputError when it holds none or contradicts itself."""

    def companions(self, sources: Sequence[Source], /) -> Mapping[Source, str]:
        """Of the files this reader claimed, those another one already covers, and why."""


READERS: tuple[Reader, ...] = ()
