"""The loop: run, keep, look, until the verdict is certain or the budget is spent."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ..errors import InputError
from ..model import Report, Run
from ..readers import Reading
from . import results, stopping
from ._attempt import Attempt, Made, put_aside
from ._process import end_orphan
from .journal import Journal, sync_files, sync_folder
from .plan import BASELINE, CANDIDATE, CLUSTERS, Plan, Slot, Spent, confirming, groups, look_due, used
from .results import How
from .state import State, fold, same_terms

FAILED_SHARE = 0.2  # of the planned rounds: a server that breaks this often is not one that was measured
Held = tuple[Sequence[Run], Sequence[Run] | None]  # runs of the candidate and of the baseline
# what was measured, what was measured once more, notes, and whether it is the report that is shown
Judge = Callable[[Held, Held | None, Sequence[str], bool], Report]


class Event(Struct, frozen=True):
    """What a person who waits may want to see."""

    kind: str  # start, round, failed or resumed
    text: str
    used: float  # share of the budget
    report: Report | None = None  # with `round`, when live: for the eyes only, never a look


class Session:
    """One session folder: its journal, its runs, and what is still to be run."""

    def __init__(
        self,
        journal: Journal,
        plan: Plan,
        how: How,
        judge: Judge,
        tell: Callable[[Event], None],
        *,
        live: bool = False,
    ) -> None:
        """Raises InputError for a journal that means nothing."""
        self.journal, self.folder = journal, journal.path.parent
        self.plan, self.how, self.judge, self.tell, self.live = plan, how, judge, tell, live
        self.state: State = fold(journal.events, str(journal.path))
        self._readings: dict[str, Reading] = {}
        self._row = 0  # failures in a row since this start

    # ---- beginning and end ------------------------------------------------------------------

    def begin(self, terms: Mapping[str, Any], facts: Mapping[str, Any] | None) -> None:
        """Start the session, or go on with it.

        `facts` are of this machine and commit, None when nothing is to be run. Raises UsageError when it was
        started on other terms.
        """
        if self.state.header is None:
            self._write("session", session=uuid.uuid4().hex, terms=terms, facts=facts)
            return
        same_terms(self.state.header, terms, facts, str(self.journal.path))
        self._recover()
        if self.state.done and not self.stopped:
            self.tell(Event("resumed", f"going on after {len(self.state.done)} runs", 0.0))

    def _recover(self) -> None:
        """A run that was cut off by a kill is no run; its command may still be at work."""
        cut = list(self.state.open)
        for one in cut:
            end_orphan(one.get("pid"), one.get("began"))
            put_aside(self.folder, one["folder"])
        if cut:
            self._write("interrupted", runs=[{"key": one["key"]} for one in cut], duration_s=0.0)

    @property
    def id(self) -> str:
        """Of the session, as sidecars and reports name it."""
        assert self.state.header is not None
        return str(self.state.header["session"])

    @property
    def stopped(self) -> bool:
        """Whether nothing is left to be run."""
        state = self.state
        again = not self.plan.confirm or state.confirm == 0 or state.confirmed
        return state.stop is not None and again

    @property
    def finished(self) -> bool:
        """Whether its verdict has been given already."""
        return self.state.stop is not None and self.state.reported is not None

    def reported(self, exit_code: int) -> None:
        """The verdict has been written: the next start must not take it for a new one."""
        if self.state.reported is None:
            self._write("reported", exit_code=exit_code)

    def run(self) -> Report:
        """Run until it stops, and judge.

        Raises InputError when the command keeps failing or no run is complete, KeyboardInterrupt when
        it is interrupted; what is complete is kept.
        """
        if self.state.stop is None:
            self._until_stop()
        assert self.state.stop is not None
        rounds = int(self.state.stop["rounds"])
        if not rounds:
            raise InputError(
                "the budget is spent and no run is complete",
                str(self.folder),
                "allow more --time or --requests",
            )
        if self.plan.confirm and not self.stopped:
            self._measure_again(rounds)
        return self._judged(rounds, self._last_notes(rounds), last=True, again=self.state.confirm or 0)

    def _measure_again(self, rounds: int) -> None:
        """As many rounds with fresh seeds, where nothing but a regression fails. Raises InputError."""
        if self.state.confirm is None:
            asked = stopping.worth_confirming(self._judged(rounds))
            self._write("confirm", rounds=rounds if asked else 0, of=asked)
        for group in confirming(self.plan, self.state.confirm or 0):
            self._make(group, free=True)
        self._write("confirmed")

    def _last_notes(self, rounds: int) -> list[str]:
        plan, stop = self.plan, self.state.stop or {}
        looks = f"look {stop['look']} of {plan.planned_looks}" if stop.get("look") else "no planned look"
        said = [
            f"session {self.id}: {rounds} of {plan.budget.runs} rounds, judged at {looks}"
            f" (each at alpha / {plan.shares}); stopped because {stop['why']}"
        ]
        if self.state.confirm:
            said.append(
                f"what failed was measured once more: {self.state.confirm} rounds with other seeds, judged"
                f" alone at alpha / {plan.shares}; it fails where both fail, and passes where the second does"
            )
        if self.state.failures:
            n = len(self.state.failures)
            said.append(
                f"{n} run{'s' * (n > 1)} failed and {'were' if n > 1 else 'was'} made again:"
                f" {'; '.join(dict.fromkeys(self.state.failures[-3:]))}"
            )
        if not any("{seed}" in word for side in plan.sides for word in side.command):
            said.append("the command takes no {seed}: the same prompts in every run may come from a cache")
        return said

    # ---- rounds and looks -------------------------------------------------------------------

    def _until_stop(self) -> None:
        for number, of_round in groupby(groups(self.plan), key=lambda group: group[0].round):
            spent = self._spent(number - 1)
            if used(self.plan, spent) >= 1.0:
                self._stop(number - 1, self.plan.planned_looks, "the budget is spent")
                return
            keys = []
            for group in of_round:
                if not self._complete(group) and not self._make(group):
                    self._stop(number - 1, self.plan.planned_looks, "the budget is spent")
                    return
                keys += [slot.key for slot in group]
            if self._look(number, self._spent(number)):
                return

    def _spent(self, rounds: int) -> Spent:
        """What had been used when that many rounds were complete."""
        if not rounds:
            return Spent(0, 0, self.state.wall_s if not self.state.done else 0.0)
        keys = [s.key for group in groups(self.plan) if group[0].round == rounds for s in group]
        last = max((self.state.after[key] for key in keys), key=lambda spent: spent.wall_s)
        return replace(last, rounds=rounds)

    def _look(self, rounds: int, spent: Spent) -> bool:
        """Look if one is due; True when that ends the session."""
        plan, due = self.plan, look_due(self.plan, spent, self.state.looks)
        report = None
        if rounds == 1 or due or self.live:
            report = self._judged(rounds)
        self.tell(Event("round", f"round {rounds} of {plan.budget.runs}", used(plan, spent), report))
        if rounds == 1 and report is not None:
            why = stopping.hopeless(report, any(side.name == BASELINE for side in plan.sides))
            if why:
                return self._stop(1, None, f"more runs cannot settle {why}")
        if not due or report is None:
            return False
        spread = rounds >= min(CLUSTERS, plan.budget.runs)
        why = stopping.settled(report, plan.until, spread=spread, confirm=plan.confirm)
        self._write("look", number=due, rounds=rounds, settled=why, verdict=report.verdict.value)
        if why:
            return self._stop(rounds, due, why)
        return self._stop(rounds, due, "the budget is spent") if used(plan, spent) >= 1.0 else False

    def _stop(self, rounds: int, look: int | None, why: str) -> bool:
        self._write("stop", rounds=rounds, look=look, why=why)
        return True

    def _judged(
        self, rounds: int, notes: Sequence[str] = (), *, last: bool = False, again: int = 0
    ) -> Report:
        said: list[str] = []
        first = self._held(takewhile(lambda group: group[0].round <= rounds, groups(self.plan)), said)
        second = self._held(confirming(self.plan, again), said) if again else None
        return self.judge(first, second, (*notes, *results.shared(said)), last)

    def _held(self, made: Iterable[Sequence[Slot]], said: list[str]) -> Held:
        """The runs of complete groups; what is to be said of them goes to `said`."""
        held: dict[str, list[Run]] = {side.name: [] for side in self.plan.sides}
        for slot in (slot for group in made for slot in group):
            reading = self._reading(slot)
            held[slot.side] += reading.runs
            said += results.notes(reading, self.folder / self.state.done[slot.key].folder)
        return held[CANDIDATE], held.get(BASELINE)

    def _reading(self, slot: Slot) -> Reading:
        """The runs of a complete slot, as its files say now. Raises InputError when they were changed."""
        if slot.key not in self._readings:
            done = self.state.done[slot.key]
            reading = results.read(self.folder / done.folder, self.how)
            if _files(reading.runs, self.folder) != done.files:
                why = "the result was changed after it was measured"
                raise InputError(why, str(self.folder / done.folder), "name another --dir for a new session")
            self._readings[slot.key] = reading
        return self._readings[slot.key]

    # ---- one run, or two side by side -------------------------------------------------------

    def _complete(self, group: Sequence[Slot]) -> bool:
        return all(slot.key in self.state.done for slot in group)

    def _make(self, group: Sequence[Slot], *, free: bool = False) -> bool:
        """Make the missing runs of a group; False when the budget ends first. Raises InputError.

        A second measurement is `free`: it was planned beside the budget, not out of it.
        """
        batches = [tuple(group)] if self.plan.side_by_side else [(slot,) for slot in group]
        for batch in batches:
            while not self._complete(batch):
                if (
                    not free
                    and self.plan.budget.wall_s is not None
                    and self.state.wall_s >= self.plan.budget.wall_s
                ):
                    return False
                numbers = [self.state.attempts.get(slot.key, 0) + 1 for slot in batch]
                attempt = Attempt(self.folder, self.plan, self.how, self._write, batch, numbers)
                self.tell(Event("start", attempt.words, used(self.plan, self._now())))
                attempt.run()
                self._twins(attempt)
                self._row = 0 if self._keep(attempt) else self._row + 1
                self._give_up(attempt.made)
        return True

    def _give_up(self, made: Sequence[Made]) -> None:
        most = max(self.plan.max_failures, int(FAILED_SHARE * self.plan.budget.runs))
        failed, row = len(self.state.failures), self._row
        if row < self.plan.max_failures and failed <= most:
            return
        bad = next(one for one in made if one.problem)
        often = (
            f"{row} times in a row" if row >= self.plan.max_failures else f"{failed} times in this session"
        )
        raise InputError(
            f"the benchmark failed {often}, the last time because {bad.problem};"
            f" {len(self.state.done)} complete runs are kept",
            str(bad.log),
            "read the log, fix it, and start the same command again: it goes on where it stopped",
        )

    def _twins(self, attempt: Attempt) -> None:
        """A result that was there before is no new run, whatever its name."""
        known = {sha256: key for key, done in self.state.done.items() for _, sha256 in done.files}
        for place, one in enumerate(attempt.made):
            for run in one.reading.runs if one.reading else ():
                if (twin := known.setdefault(run.sha256, one.slot.key)) != one.slot.key:
                    why = f"its result has the content of {twin}: the command measured nothing new"
                    attempt.made[place] = replace(one, problem=one.problem or why)

    def _keep(self, attempt: Attempt) -> bool:
        """Write down what an attempt gave: runs that count, or why not."""
        bad = [one for one in attempt.made if one.problem]
        if bad:
            for one in attempt.made:
                put_aside(self.folder, one.name)
            why = bad[0].problem
            keys = [{"key": one.slot.key} for one in attempt.made]
            self._write("failed", runs=keys, why=why, log=str(bad[0].log), duration_s=attempt.duration_s)
            self.tell(Event("failed", f"{bad[0].slot.key} failed: {why}; log: {bad[0].log}", 0.0))
            return False
        runs = [self._kept(one, attempt) for one in attempt.made]
        self._write("end", runs=runs, duration_s=attempt.duration_s)
        return True

    def _kept(self, one: Made, attempt: Attempt) -> dict[str, Any]:
        """The sidecars and the journal's entry of one good run, its files safe on disk."""
        assert one.reading is not None
        assert self.state.header is not None
        runs = one.reading.runs
        facts = {
            "session": self.id,
            "load": _load(one.slot) if self.plan.takes_load else None,
            **attempt.facts(one),
            **self.state.header["facts"],
        }
        kept = results.write_sidecars(runs, facts)
        sync_files(kept)
        for folder in dict.fromkeys((*(path.parent for path in kept), one.folder.parent, self.folder)):
            sync_folder(folder)
        return {
            "key": one.slot.key,
            "folder": one.name,
            "files": _files(runs, self.folder),
            "requests": results.attempted(runs),
        }

    # ---- the journal --------------------------------------------------------------------------

    def _now(self) -> Spent:
        state = self.state
        return Spent(0, state.requests, state.wall_s, state.slowest_s)

    def _write(self, event: str, **facts: Any) -> None:
        self.journal.write(event, **facts)
        self.state.take({"event": event, **to_builtins(facts)})

    def close(self) -> None:
        """Let another process go on."""
        self.journal.close()


def _files(runs: Sequence[Run], folder: Path) -> tuple[tuple[str, str], ...]:
    """(path below the session folder, SHA-256) of each file that gave a run."""
    return tuple(dict.fromkeys((str(Path(run.input).relative_to(folder)), run.sha256) for run in runs))


def _load(slot: Slot) -> dict[str, Any] | None:
    load = slot.point.load
    if load is None:
        return None
    return {"concurrency": load.concurrency, "request_rate": load.request_rate}
