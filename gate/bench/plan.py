"""What is run, in which order, and when it is looked at: fixed before the first run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path

from msgspec import Struct

from ..errors import UsageError
from ..model import Load, Policy

PLACEHOLDERS = ("load", "seed", "run", "out", "dir")
LOOKS = 5  # STATS 9E: at 20, 40, 60, 80 and 100 % of the budget, each at alpha / 5
CLUSTERS = 5  # from this many runs on, runs are the independent units (docs/statistics.md)
CANDIDATE, BASELINE = "candidate", "baseline"
CONFIRM = "confirm"  # the folder of the second measurement, which no later check pools with the first
_BRACES = re.compile(r"\{([a-z_]+)\}")
_SECRET_NAME = re.compile(r"(?:^|[-_])(?:key|token|secret|password|passwd|auth|authorization)$", re.I)
_SECRET_PART = re.compile(
    r"(authorization\W+|api-key\W+|bearer\s+|//[^/@\s:]*:(?=[^/@\s]*@)).+?(?=@|$)", re.I
)


class Side(Struct, frozen=True):
    """One server and the command that benchmarks it."""

    name: str  # CANDIDATE or BASELINE
    command: tuple[str, ...]
    witness: str | None = None  # URL of the server's metrics
    image: str | None = None  # digest of the server's image, as the caller states it


class Budget(Struct, frozen=True):
    """What may be spent; whichever is used up first ends the session."""

    runs: int  # at the target load, of each side
    requests: int | None = None  # attempted, of all sides and loads
    wall_s: float | None = None  # of the runs; what lies between an interruption and the next start is free


class Point(Struct, frozen=True):
    """One load of the sweep."""

    text: str  # what {load} becomes; empty where the policy declares no load
    load: Load | None
    target: bool


class Slot(Struct, frozen=True):
    """One run that has to be made."""

    round: int  # from 1
    side: str
    point: Point
    seed: int  # the same on both sides, never the same twice on one
    confirms: bool = False  # of the second measurement of a regression that failed

    @property
    def key(self) -> str:
        """Names the slot in the journal and on disk."""
        load = "" if self.point.target else f"-at-{self.point.text}"
        return f"{f'{CONFIRM}/' * self.confirms}{self.side}/run-{self.round:04d}{load}"


class Plan(Struct, frozen=True):
    """Everything that is fixed before the first run."""

    sides: tuple[Side, ...]  # in the order they are run: baseline first
    points: tuple[Point, ...]  # the target first
    budget: Budget
    seed: int = 1
    looks: int = LOOKS
    until: str = "verdict"  # or all: see stopping
    side_by_side: bool = False
    timeout_s: float = 3600.0
    max_failures: int = 3
    confirm: bool = False  # a regression that fails is measured once more

    @property
    def planned_looks(self) -> int:
        """Never more looks than rounds."""
        return max(1, min(self.looks, self.budget.runs))

    @property
    def shares(self) -> int:
        """Into how many parts alpha is cut: each look has one, and the second measurement."""
        return self.planned_looks + self.confirm

    @property
    def takes_load(self) -> bool:
        """Whether the commands are told the load."""
        return any("{load}" in word for side in self.sides for word in side.command)


def points(policy: Policy, commands: Sequence[Sequence[str]]) -> tuple[Point, ...]:
    """The loads to measure: the target, then the rest of the sweep where the command takes a {load}.

    Raises UsageError for a {load} that the policy does not declare.
    """
    target = policy.workload.target
    if not any("{load}" in word for command in commands for word in command):
        return (Point("", target, True),)
    if target is None or target.production or (target.concurrency is None and target.request_rate is None):
        raise UsageError(
            "the command takes a {load}, and the policy declares none to run at",
            policy.path,
            "add workload.load, e.g. `load: {concurrency: 64}`, or write the load into the command",
        )
    loads = dict.fromkeys(target.at(share) for share in (1.0, *policy.workload.sweep))
    return tuple(Point(load.number, load, load == target.at(1.0)) for load in loads)


def groups(plan: Plan) -> Iterator[tuple[Slot, ...]]:
    """Slots in order; a group holds the sides of one round and load, which are run one after the other.

    A seed belongs to a round and a load: both sides get the same prompts, and no server the same ones
    twice, which its prefix cache would answer.
    """
    for number in range(1, plan.budget.runs + 1):
        for place, point in enumerate(plan.points):
            if point.target or number <= CLUSTERS:  # enough for an interval
                seed = plan.seed + (number - 1) * len(plan.points) + place
                yield tuple(Slot(number, side.name, point, seed) for side in plan.sides)


def confirming(plan: Plan, rounds: int) -> Iterator[tuple[Slot, ...]]:
    """The slots of a second measurement of as many rounds at the target, with seeds that were never used."""
    for number in range(plan.budget.runs + 1, plan.budget.runs + rounds + 1):
        seed = plan.seed + (number - 1) * len(plan.points)
        yield tuple(Slot(number, side.name, plan.points[0], seed, confirms=True) for side in plan.sides)


def fill(command: Sequence[str], slot: Slot, folder: Path) -> list[str]:
    """The command of one run; other braces (JSON, for one) stay as they are."""
    values = {
        "load": slot.point.text,
        "seed": str(slot.seed),
        "run": str(slot.round),
        "out": str(folder / "result.json"),
        "dir": str(folder),
    }
    return [
        _BRACES.sub(lambda found: values.get(found[1], found[0]), word) if "{" in word else word
        for word in command
    ]


def redacted(command: Sequence[str]) -> list[str]:
    """The command as it may be stored: sidecars and journals are uploaded with results, keys must not be."""
    shown, hide = [], False
    for word in command:
        name, equals, _ = word.partition("=")
        secret = _SECRET_NAME.search(name) is not None
        shown.append(
            "***" if hide else f"{name}=***" if secret and equals else _SECRET_PART.sub(r"\1***", word)
        )
        hide = secret and not equals and name.startswith("-")
    return shown


def check_command(command: Sequence[str], option: str) -> None:
    """Raises UsageError for a command that writes no result where it is looked for, or a misspelt word."""
    from difflib import get_close_matches

    used = {name for word in command for name in _BRACES.findall(word)}
    for name in sorted(used - set(PLACEHOLDERS)):
        if near := get_close_matches(name, PLACEHOLDERS, 1, cutoff=0.7):
            raise UsageError(f"{{{name}}} is no placeholder", option, f"did you mean {{{near[0]}}}?")
    if not used & {"out", "dir"}:
        raise UsageError(
            "the command does not say where its result goes",
            option,
            "write {out} where the tool takes its result file, or {dir} where it takes a folder",
        )


# ---- looks --------------------------------------------------------------------------------


class Spent(Struct, frozen=True):
    """What the complete runs have used."""

    rounds: int = 0  # complete: every side and load of them
    requests: int = 0
    wall_s: float = 0.0
    slowest_s: float = 0.0  # the longest a group of runs has taken: what the next one may take


def used(plan: Plan, spent: Spent) -> float:
    """The share of the budget that is used, 1 where no further run fits."""
    shares = [spent.rounds / plan.budget.runs]
    if plan.budget.requests is not None:
        shares.append(spent.requests / plan.budget.requests)
    if plan.budget.wall_s is not None:
        fits = spent.wall_s + spent.slowest_s <= plan.budget.wall_s
        shares.append(spent.wall_s / plan.budget.wall_s if fits else 1.0)
    return min(1.0, max(shares))


def look_due(plan: Plan, spent: Spent, taken: int) -> int | None:
    """The number of the look that is due, None before it. One that was jumped over is lost, not made up for.

    Thresholds are compared in whole rounds where rounds lead, so that 6 of 30 is 20 %.
    """
    share = used(plan, spent)
    number = taken
    for look in range(taken + 1, plan.planned_looks + 1):
        if spent.rounds >= ceil(plan.budget.runs * look / plan.planned_looks) or (
            share * plan.planned_looks >= look
        ):
            number = look
    return number if number > taken else None
