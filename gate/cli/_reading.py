"""How far a long read is: a bar on a terminal's stderr, nothing anywhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

    from ..readers import Watch

LONG = 200 << 20  # bytes: about a second of reading; below, a bar would only flash


@contextmanager
def progress() -> Iterator[Watch | None]:
    """Who to tell of bytes read; None where nobody looks at stderr."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    shown: list[Progress] = []

    def begin(total: int) -> Callable[[int], None]:
        if total < LONG:
            return lambda read: None
        bar = _bar()
        shown.append(bar)
        bar.start()
        task = bar.add_task("reading", total=total)
        return lambda read: bar.advance(task, read)

    try:
        yield begin
    finally:
        for bar in shown:
            bar.stop()


def _bar() -> Progress:
    # Imported here: only a long read on a terminal pays for it.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn as Remaining,
        TransferSpeedColumn as Rate,
    )

    columns = (TextColumn("reading"), BarColumn(), TaskProgressColumn(), Rate(), Remaining())
    return Progress(*columns, console=Console(stderr=True), transient=True)
