"""One benchmark command as a child process: its log, time limit, end, and how busy the machine was."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from msgspec import Struct

GRACE_S = 10.0  # from SIGTERM to SIGKILL
_TICK_S = 0.02
_LEAST_S = 1.0  # the kernel counts in hundredths of a second: less shows nothing


class Finished(Struct, frozen=True):
    """How a command ended."""

    code: int | None  # exit status, negative for a signal; None: it did not end in time
    started: str  # ISO 8601, UTC
    ended: str
    duration_s: float
    problem: str = ""  # why it could not be started


class Client(Struct, frozen=True):
    """How busy the machine of the client was. A starved client measures itself."""

    cores: int
    cpu_s: float  # of the commands that ran, and of what they waited for
    machine_busy: float | None  # share of all cores; None where the kernel does not tell, or under 1 s
    event_loop_lag_p99_s: float | None  # how late a timer of 20 ms fires in an idle loop; None under 1 s


def stamp() -> str:
    """Now, as ISO 8601 in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


async def execute(
    command: Sequence[str], log: Path, timeout_s: float, started: Callable[[int, int | None], None]
) -> Finished:
    """Run to its end or its time limit; output goes to `log`. `started` gets the pid and its start time.

    When this is cancelled the command and its children are ended first.
    """
    at, clock = stamp(), time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        try:
            child = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )
        except (OSError, ValueError) as error:
            why = f"cannot be started: {getattr(error, 'strerror', None) or error}"
            return Finished(127, at, stamp(), 0.0, why)
        try:
            started(child.pid, start_time(child.pid))
            code: int | None = await asyncio.wait_for(child.wait(), timeout_s)
        except (asyncio.TimeoutError, TimeoutError):
            code = None
        finally:
            await _end(child)
    return Finished(code, at, stamp(), time.monotonic() - clock)


async def _end(child: asyncio.subprocess.Process) -> None:
    """End what is left of the command: itself, and children it left behind in its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGTERM)
    if child.returncode is None:
        with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
            await asyncio.wait_for(child.wait(), GRACE_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    await child.wait()


# ---- a command that outlived its slo-gate run -----------------------------------------------


def start_time(pid: int) -> int | None:
    """When a process began, in ticks since boot: with its pid it names one process for good."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        return int(text.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def end_orphan(pid: object, began: object) -> bool:
    """End the group of a command whose parent was killed; only if it is that very process."""
    if not isinstance(pid, int) or pid <= 1 or began is None or start_time(pid) != began:
        return False
    for number, wait_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, 1.0)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
        until = time.monotonic() + wait_s
        while start_time(pid) == began and not _zombie(pid) and time.monotonic() < until:
            time.sleep(_TICK_S)
    return True


def _zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return True


# ---- how busy the machine is ----------------------------------------------------------------


class Meter:
    """Measures the machine of the client between `start` and `stop`."""

    async def start(self) -> None:
        """Begin; the loop of the caller must be idle meanwhile."""
        self._cpu_s, self._ticks, self._begun = _children_s(), _ticks(), time.monotonic()
        self._late: list[float] = []
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _TICK_S
            await asyncio.sleep(_TICK_S)
            self._late.append(loop.time() - due)

    async def stop(self) -> Client:
        """The figures since `start`."""
        import numpy as np

        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        before, after = self._ticks, _ticks()
        busy = late = None
        if time.monotonic() - self._begun >= _LEAST_S:
            if before and after and after[1] > before[1]:
                busy = round((after[0] - before[0]) / (after[1] - before[1]), 4)
            late = round(max(float(np.percentile(self._late, 99)), 0.0), 6) if self._late else None
        return Client(os.cpu_count() or 1, round(_children_s() - self._cpu_s, 3), busy, late)


def _children_s() -> float:
    import resource

    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _ticks() -> tuple[int, int] | None:
    """(busy, all) of the machine since boot."""
    try:
        with Path("/proc/stat").open(encoding="ascii") as file:
            numbers = [int(word) for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    idle = sum(numbers[3:5])  # idle and waiting for a disk
    return sum(numbers) - idle, sum(numbers)
