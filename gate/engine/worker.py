"""A process that looks at one file after another, as it is asked on its standard input."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import IO

from .. import disk
from ..readers import ahead, by_name, looked
from ..readers.source import Source
from .messages import Answer, Task, receive, send

_COLLECT = 50  # files after which what refers to itself is looked for: a worker may read thousands


def main() -> None:
    """Answer until nobody asks any more."""
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks is interrupted, and closes the pipe
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not stand among the answers
    serve(sys.stdin.buffer, answers)


def serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    """The same on any two pipes."""
    number = 0
    while True:
        try:
            task = receive(questions)
        except EOFError:
            return
        try:
            send(answers, answered(task))
        except OSError:  # who asked has ended
            return
        number += 1
        if number % _COLLECT == 0:
            gc.collect()


def answered(task: Task) -> Answer:
    """What is found out of one file. Raises nothing: what is wrong with it is said where it is asked."""
    disk.forget()
    source = Source(task.path, task.name, gaps=task.gaps, attempted_counter=task.attempted_counter)
    source.columns = task.columns
    try:
        look = looked(source, by_name(task.tool) if task.tool else None, several=task.several)
        runs = ahead(source, look)
        source.let_go()
        return Answer(look.with_runs(runs), source.known(), disk.opened_files())
    except Exception:
        return Answer()
