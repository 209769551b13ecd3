"""One attempt at one run, or at two side by side: the commands, the server's metrics, what they left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from ..errors import GateError, UsageError
from ..readers import Reading
from ..readers.prometheus.scrapes import Scrape
from . import _results, _witness
from ._plan import Plan, Side, Slot, fill, redacted
from ._process import Client, Finished, Meter, execute
from ._results import How


class Made(Struct, frozen=True):
    """One slot of an attempt."""

    slot: Slot
    folder: Path
    log: Path
    command: tuple[str, ...]
    finished: Finished
    problem: str = ""  # why it is no data; else empty
    reading: Reading | None = None
    seen: _witness.Seen | None = None
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
        self.batch, self.numbers = batch, numbers
        self.made: list[Made] = []
        self.client: Client | None = None
        self.duration_s = 0.0

    @property
    def words(self) -> str:
        """What is about to be run."""
        first = self.batch[0]
        sides = " and ".join(slot.side for slot in self.batch)
        load = f", load {first.point.text}" if first.point.text else ""
        again = f", attempt {self.numbers[0]}" if self.numbers[0] > 1 else ""
        return f"round {first.round} of {self.plan.budget.runs}: {sides}{load}, seed {first.seed}{again}"

    def run(self) -> None:
        """Do it. Raises KeyboardInterrupt, after the commands are ended and the journal says so."""
        begun = time.monotonic()
        for place in range(len(self.batch)):
            self._begin(place)
        before = [self._scrape(slot, n, "before") for slot, n in zip(self.batch, self.numbers, strict=True)]
        if any(isinstance(one, str) for one in before):
            self.made = [self._made(place, _NOT_RUN, str(before[place])) for place in range(len(self.batch))]
            self.duration_s = time.monotonic() - begun
            return
        try:
            ended = asyncio.run(self._execute())
        except (KeyboardInterrupt, asyncio.CancelledError):
            for place in range(len(self.batch)):
                put_aside(self.folder, self._name(place))
            keys = [{"key": slot.key} for slot in self.batch]
            self.write("interrupted", runs=keys, duration_s=time.monotonic() - begun)
            raise KeyboardInterrupt from None
        self.duration_s = time.monotonic() - begun
        self.made = [self._looked_at(place, end, before[place]) for place, end in enumerate(ended)]

    def facts(self, one: Made) -> dict[str, Any]:
        """Of one run, for its sidecar."""
        place = self.batch.index(one.slot)
        return {
            "side": one.slot.side,
            "run": one.slot.round,
            "seed": one.slot.seed,
            "attempt": self.numbers[place],
            "command": redacted(one.command),
            "image_digest": self._side(one.slot).image,
            "started": one.finished.started,
            "ended": one.finished.ended,
            "duration_s": round(one.finished.duration_s, 3),
            "exit_code": one.finished.code,
            "client": to_builtins(self.client),
            "witness": to_builtins(one.seen) if one.seen else None,
            "notes": one.notes,
        }

    # ---- commands -----------------------------------------------------------------------------

    async def _execute(self) -> list[Finished]:
        meter = Meter()
        await meter.start()
        work = [self._command(place) for place in range(len(self.batch))]
        ended = list(await asyncio.gather(*work))
        self.client = await meter.stop()
        return ended

    async def _command(self, place: int) -> Finished:
        def started(pid: int, began: int | None) -> None:
            self.write("pid", key=self.batch[place].key, pid=pid, began=began)

        words = self._words(place)
        return await execute(words, self._log(place), self.plan.timeout_s, started)

    def _begin(self, place: int) -> None:
        # Written before the command is started: its folder is used up, whatever happens now.
        folder = self._folder(place)
        self.write("start", key=self.batch[place].key, attempt=self.numbers[place], folder=self._name(place))
        folder.mkdir(parents=True, exist_ok=True)

    # ---- what they left -------------------------------------------------------------------------

    def _looked_at(self, place: int, end: Finished, before: Scrape | str | None) -> Made:
        """Whether the run is data. A command that cannot be started at all is a UsageError."""
        slot = self.batch[place]
        if end.problem:
            side = "--baseline-command" if slot.side == "baseline" else "COMMAND"
            raise UsageError(f"the command {end.problem}", side, "name a program that is installed")
        if end.code is None:
            return self._made(place, end, f"it did not end within {self.plan.timeout_s:g} s")
        if end.code:
            return self._made(place, end, _how_it_ended(end.code))
        seen, problem = self._witnessed(slot, place, before)
        if problem:
            return self._made(place, end, problem)
        try:
            reading = _results.read(self._folder(place), self.how)
        except UsageError:
            raise
        except GateError as error:
            return self._made(place, end, f"its result cannot be used: {_results.why(error)}")
        notes: list[str] = []
        if seen is not None:
            notes = _witness.notes(seen, _results.completed(reading.runs), _results.sent(reading.runs))
        return self._made(place, end, "", reading, seen, tuple(notes))

    def _witnessed(
        self, slot: Slot, place: int, before: Scrape | str | None
    ) -> tuple[_witness.Seen | None, str]:
        after = self._scrape(slot, self.numbers[place], "after")
        if isinstance(after, str):
            return None, after
        if after is None or not isinstance(before, Scrape):
            return None, ""
        seen = _witness.compare(before, after)
        return seen, f"{seen.restarted} while it ran" if seen.restarted else ""

    def _scrape(self, slot: Slot, number: int, when: str) -> Scrape | str | None:
        """The server's metrics; a sentence where they cannot be read, None without a witness."""
        url = self._side(slot).witness
        if url is None:
            return None
        path = self.folder / "witness" / f"{slot.key}-attempt-{number}-{when}.prom.gz"
        try:
            return _witness.scrape(url, path)
        except _witness.WitnessError as error:
            return f"{error.message} ({when} the run, {redacted([error.where])[0]})"

    # ---- names ------------------------------------------------------------------------------------

    def _made(
        self,
        place: int,
        end: Finished,
        problem: str,
        reading: Reading | None = None,
        seen: _witness.Seen | None = None,
        notes: tuple[str, ...] = (),
    ) -> Made:
        words = tuple(self._words(place))
        return Made(
            self.batch[place],
            self._folder(place),
            self._log(place),
            words,
            end,
            problem,
            reading,
            seen,
            notes,
        )

    def _side(self, slot: Slot) -> Side:
        return next(side for side in self.plan.sides if side.name == slot.side)

    def _words(self, place: int) -> list[str]:
        slot = self.batch[place]
        return fill(self._side(slot).command, slot, self._folder(place).absolute())

    def _name(self, place: int) -> str:
        """A folder of its own for each attempt: an earlier one may still be writing into the other."""
        number = self.numbers[place]
        return self.batch[place].key + (f"-attempt-{number}" if number > 1 else "")

    def _folder(self, place: int) -> Path:
        return self.folder / self._name(place)

    def _log(self, place: int) -> Path:
        return self.folder / "logs" / f"{self.batch[place].key}-attempt-{self.numbers[place]}.log"


_NOT_RUN = Finished(None, "", "", 0.0)


def _how_it_ended(code: int) -> str:
    return f"it exited with {code}" if code > 0 else f"it was ended by signal {-code}"


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
