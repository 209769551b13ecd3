"""Where files are read: in this process, or in several at once. The runs and their order are the same.

What the readers' room asks for is an `Elsewhere`: it looks at files before their turn, each by itself, and
what it cannot find out is found out here, at the file's turn, with the message it has there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from .. import remote

if TYPE_CHECKING:
    from ..readers import Elsewhere, Look
    from ..readers.source import Source

LARGE = (
    200 << 20
)  # bytes from which more processes are faster than one: each takes a fifth of a second to start


def elsewhere(jobs: int | None) -> Elsewhere | None:
    """How files are looked at before their turn, by so many processes; None: as many as pay."""
    return None if jobs == 1 else partial(_in_processes, jobs=jobs)


def _in_processes(sources: Sequence[Source], tool: str | None, *, jobs: int | None) -> Mapping[Source, Look]:
    # Of a store, this process alone knows what lies beside a file.
    stored = [
        source
        for source in sources
        if source.size_on_disk and not (source.path and remote.url_of(source.path))
    ]
    if jobs is None:
        jobs = cores() if sum(source.size_on_disk for source in stored) >= LARGE else 1
    jobs = min(jobs, len(stored))
    if jobs < 2:
        return {}
    from .processes import look  # only here: it costs start-up time

    return look(stored, tool, jobs, several=len(sources) > 1)


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
