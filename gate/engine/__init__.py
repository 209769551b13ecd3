"""Where files are read: in this process, or in several at once. The runs and their order are the same.

What the readers' room asks for is an `Elsewhere`: it looks at files before their turn, each by itself, and
what it cannot find out is found out here, at the file's turn, with the message it has there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from .. import remote

if TYPE_CHECKING:
    from ..readers import Elsewhere, Look
    from ..readers.source import Source

# Bytes from which more processes are faster than one: each takes a fifth of a second to start.
LARGE = 200 << 20
_MOST = 8  # processes where nobody says how many: this one gathers what they find, and each needs memory


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
        jobs = min(cores(), _MOST) if sum(source.size_on_disk for source in stored) >= LARGE else 1
    jobs = min(jobs, len(stored))
    if jobs < 2:
        return {}
    from .processes import look  # only here: it costs start-up time

    return look(stored, tool, jobs, several=len(sources) > 1)


def cores(root: Path = Path("/")) -> int:
    """Processors that this process may use: by its affinity, and by the CPU quotas of its control groups."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([found, *(max(1, ceil(quota)) for quota in _quotas(root))])


def _quotas(root: Path) -> Iterator[float]:
    """Processors' worth of time for each control group around this process that limits it (Linux).

    `cpu.max` of https://docs.kernel.org/admin-guide/cgroup-v2.html, or version 1's `cpu.cfs_quota_us`.
    """
    for controllers, group in re.findall(r"(?m)^\d+:(.*?):/?(.*)$", _text(root / "proc/self/cgroup")):
        if controllers and "cpu" not in controllers.split(","):
            continue
        inner = root / "sys/fs/cgroup" / ("cpu" if controllers else "") / group
        for folder in (inner, *inner.parents):  # within a container, the innermost may be named and not there
            one = _text(folder / "cpu.max") or " ".join(
                _text(folder / f"cpu.cfs_{part}_us") for part in ("quota", "period")
            )
            if limit := re.match(r"(\d+)\s+([1-9]\d*)\s*$", one):
                yield int(limit[1]) / int(limit[2])


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
