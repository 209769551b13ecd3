"""Several processes read files, each one at a time; this one asks them and gathers what they say."""

from __future__ import annotations

import json
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .. import disk
from ..errors import InputError
from ..readers import Look
from ..readers.source import Source
from .messages import Answer, Task, receive, send

# The modules of this process and no others: without -I, what lies in the current folder would come first.
_COMMAND = (
    "import json, sys\nsys.path[:] = json.loads(sys.argv[1])\nfrom gate.engine.worker import main\nmain()\n"
)


class Worker:
    """One process, and the file that it looks at. Raises OSError where none can be started."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-c", _COMMAND, json.dumps(sys.path)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.source: Source | None = None

    def ask(self, source: Source, task: Task) -> None:
        """Begin with a file. Raises InputError where the process has ended."""
        assert self.process.stdin is not None
        self.source = source
        try:
            send(self.process.stdin, task)
        except OSError:
            raise self._ended() from None

    def answer(self) -> Answer:
        """What it found out; waits for it. Raises InputError where the process ended instead."""
        assert self.process.stdout is not None
        try:
            answer: Answer = receive(self.process.stdout)
        except EOFError:
            raise self._ended() from None
        return answer

    def _ended(self) -> InputError:
        code = self.process.wait()
        assert self.source is not None
        how = f"with exit code {code}"
        if code < 0:
            with suppress(ValueError):
                how = f"by {signal.Signals(-code).name}"
        hint = "try again with --jobs 1; a machine that is short of memory ends processes so"
        return self.source.fail(f"the process that was reading it ended {how}", hint=hint)

    def end(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self.process.wait()


def look(sources: Sequence[Source], tool: str | None, jobs: int, *, several: bool) -> Mapping[Source, Look]:
    """Look at files with so many processes, or as many of them as start, the largest first.

    Raises InputError for the file of a process that died.
    """
    waiting = sorted(sources, key=lambda source: source.size_on_disk)
    found: dict[Source, Look] = {}
    workers: list[Worker] = []
    try:
        with selectors.DefaultSelector() as ready:
            for _ in range(jobs):
                try:
                    worker = Worker()
                except OSError:  # a limit of processes, memory or open files: those there are do it
                    break
                workers.append(worker)
                assert worker.process.stdout is not None
                ready.register(worker.process.stdout, selectors.EVENT_READ, worker)
                _next(worker, waiting, tool, several=several)
            while any(worker.source for worker in workers):
                for key, _ in ready.select():
                    worker = key.data
                    source, answer = worker.source, worker.answer()
                    disk.opened_elsewhere(answer.opened, source.name)
                    if answer.look is not None:
                        source.learn(answer.known)
                        found[source] = answer.look
                        source.progressed()
                    if not _next(worker, waiting, tool, several=several):
                        ready.unregister(key.fileobj)
    finally:
        for worker in workers:
            worker.end()
    return found


def _next(worker: Worker, waiting: list[Source], tool: str | None, *, several: bool) -> bool:
    """Give a worker its next file; False where none is left."""
    worker.source = None
    if not waiting:
        return False
    source = waiting.pop()
    assert source.path is not None
    task = Task(
        source.path, source.name, source.gaps, source.attempted_counter, source.columns, tool, several
    )
    worker.ask(source, task)
    return True
