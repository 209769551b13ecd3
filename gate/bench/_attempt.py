"""One attempt at one run, or at two side by side: the commands, the server's metrics, what they left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ..errors import GateError, UsageError
from ..readers import Reading
from ..readers.prometheus.scrapes import Scrape
from . import results
from ._process import Client, Finished, Meter, execute
from .plan import BASELINE, Plan, Side, Slot, fill, redacted
from .results import How
from .witness import Seen, WitnessError, compare, notes, scrape


class Made(Struct, frozen=True):
    """One slot of an attempt, and what came of it."""

    slot: Slot
    side: Side
    number: int  # of the attempt, from 1
    name: str  # of its folder, below the session's
    folder: Path
    log: Path
    command: tuple[str, ...]
    finished: Finished = Finished(None, "", "", 0.0)
    problem: str = ""  # why it is no data; else empty
    reading: Reading | None = None
    seen: Seen | None = None
    notes: tuple[str, ...] = ()


class Attempt:
    """The commands of a batch of slots, run at once."""

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        how: How,
        write: Callable[..., None],
        batch: Sequence[Slot],
        numbers: Sequence[int],
    ) -> None:
        self.folder, self.plan, self.how, self.write = folder, plan, how, write
        self.made = [self._planned(slot, number) for slot, number in zip(batch, numbers, strict=True)]
        self.client: Client | None = None
        self.duration_s = 0.0

    def _planned(self, slot: Slot, number: int) -> Made:
        side = next(side for side in self.plan.sides if side.name == slot.side)
        # A folder of its own for each attempt: an earlier one may still be writing into the other.
        name = slot.key + (f"-attempt-{number}" if number > 1 else "")
        folder, log = self.folder / name, self.folder / "logs" / f"{slot.key}-attempt-{number}.log"
        return Made(slot, side, number, name, folder, log, tuple(fill(side.command, slot, folder.absolute())))

    @property
    def words(self) -> str:
        """What is about to be run."""
        first = self.made[0].slot
        sides = " and ".join(one.slot.side for one in self.made)
        load = f", load {first.point.text}" if first.point.text else ""
        again = f", attempt {self.made[0].number}" if self.made[0].number > 1 else ""
        return f"round {first.round} of {self.plan.budget.runs}: {sides}{load}, seed {first.seed}{again}"

    def run(self) -> None:
        """Do it. Raises KeyboardInterrupt, after the commands are ended and the journal says so."""
        begun = time.monotonic()
        for one in self.made:
            # Written before the command is started: its folder is used up, whatever happens now.
            self.write("start", key=one.slot.key, attempt=one.number, folder=one.name)
            one.folder.mkdir(parents=True, exist_ok=True)
        before = [self._scrape(one, "before") for one in self.made]
        if any(isinstance(page, str) for page in before):
            self.made = [
                replace(one, problem=page if isinstance(page, str) else "")
                for one, page in zip(self.made, before, strict=True)
            ]
            self.duration_s = time.monotonic() - begun
            return
        try:
            ended = asyncio.run(self._execute())
        except (KeyboardInterrupt, asyncio.CancelledError):
            for one in self.made:
                put_aside(self.folder, one.name)
            keys = [{"key": one.slot.key} for one in self.made]
            self.write("interrupted", runs=keys, duration_s=time.monotonic() - begun)
            raise KeyboardInterrupt from None
        self.duration_s = time.monotonic() - begun
        self.made = [
            self._looked_at(replace(one, finished=end), page)
            for one, end, page in zip(self.made, ended, before, strict=True)
        ]

    def facts(self, made: Made) -> dict[str, Any]:
        """Of one run, for its sidecar."""
        return {
            "side": made.slot.side,
            "run": made.slot.round,
            "seed": made.slot.seed,
            "attempt": made.number,
            "command": redacted(made.command),
            "image_digest": made.side.image,
            "started": made.finished.started,
            "ended": made.finished.ended,
            "duration_s": round(made.finished.duration_s, 3),
            "exit_code": made.finished.code,
            "client": to_builtins(self.client),
            "witness": to_builtins(made.seen) if made.seen else None,
            "notes": made.notes,
        }

    # ---- commands -----------------------------------------------------------------------------

    async def _execute(self) -> list[Finished]:
        meter = Meter()
        await meter.start()
        ended = list(await asyncio.gather(*map(self._command, self.made)))
        self.client = await meter.stop()
        return ended

    async def _command(self, one: Made) -> Finished:
        def started(pid: int, began: int | None) -> None:
            self.write("pid", key=one.slot.key, pid=pid, began=began)

        return await execute(one.command, one.log, self.plan.timeout_s, started)

    # ---- what they left -------------------------------------------------------------------------

    def _looked_at(self, one: Made, before: Scrape | str | None) -> Made:
        """Whether the run is data. A command that cannot be started at all is a UsageError."""
        end = one.finished
        if end.problem:
            side = "--baseline-command" if one.slot.side == BASELINE else "COMMAND"
            raise UsageError(f"the command {end.problem}", side, "name a program that is installed")
        if end.code is None:
            return replace(one, problem=f"it did not end within {self.plan.timeout_s:g} s")
        if end.code:
            why = f"it exited with {end.code}" if end.code > 0 else f"it was ended by signal {-end.code}"
            return replace(one, problem=why)
        after = self._scrape(one, "after")
        if isinstance(after, str):
            return replace(one, problem=after)
        seen = compare(before, after) if isinstance(before, Scrape) and after is not None else None
        if seen is not None and seen.restarted:
            return replace(one, problem=f"{seen.restarted} while it ran")
        try:
            reading = results.read(one.folder, self.how)
        except UsageError:
            raise
        except GateError as error:
            return replace(one, problem=f"its result cannot be used: {results.why(error)}")
        said = notes(seen, results.completed(reading.runs), results.sent(reading.runs)) if seen else []
        return replace(one, reading=reading, seen=seen, notes=tuple(said))

    def _scrape(self, one: Made, when: str) -> Scrape | str | None:
        """The server's metrics; a sentence where they cannot be read, None without a witness."""
        if one.side.witness is None:
            return None
        path = self.folder / "witness" / f"{one.slot.key}-attempt-{one.number}-{when}.prom.gz"
        try:
            return scrape(one.side.witness, path)
        except WitnessError as error:
            return f"{error.message} ({when} the run, {redacted([error.where])[0]})"


def put_aside(folder: Path, name: str) -> None:
    """Move what a run that does not count has left to failed/, where no reader looks for results."""
    here = folder / name
    if not here.is_dir():
        return
    there = folder / "failed" / name
    number = 1
    while there.exists():
        number += 1
        there = folder / "failed" / f"{name}.{number}"
    there.parent.mkdir(parents=True, exist_ok=True)
    here.rename(there)
