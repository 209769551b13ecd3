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

AFTER_S = 1.0  # of reading; a bar before that would only flash
LARGE = 200 << 20  # bytes: surely as long, and decoding one file of them leaves a thread no time to draw


@contextmanager
def progress() -> Iterator[Watch | None]:
    """Who to tell of bytes read; None where nobody looks at stderr."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from threading import Timer

    shown: list[Progress] = []
    read, whole = [0], [0]

    def begin(total: int) -> Callable[[int], None]:
        whole[0] = total
        if total >= LARGE:
            show()
        return advance

    def advance(size: int) -> None:
        read[0] += size
        for bar in shown:
            bar.update(bar.task_ids[0], completed=read[0])

    def show() -> None:
        if shown:
            return
        bar = _bar()
        bar.add_task("reading", total=whole[0] or None, completed=read[0])
        bar.start()  # it draws itself from then on, however long one file takes
        shown.append(bar)

    timer = Timer(AFTER_S, show)
    timer.daemon = True
    timer.start()
    try:
        yield begin
    finally:
        timer.cancel()
        timer.join()
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
        TimeElapsedColumn as Elapsed,
        TimeRemainingColumn as Remaining,
        TransferSpeedColumn as Rate,
    )

    columns = (TextColumn("reading"), BarColumn(), TaskProgressColumn(), Rate(), Elapsed(), Remaining())
    return Progress(*columns, console=Console(stderr=True), transient=True)
