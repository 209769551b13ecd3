"""What the journal says has been done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ..errors import InputError, UsageError
from .plan import Plan, Spent, redacted
from .results import How

_NEW = "name another --dir for a new session"
_FREE = ("timeout_s", "max_failures")  # may change from start to start
_WORDS = {
    "sides": "command, witness or image",
    "points": "load",
    "reading": "--tool, --set, --map or --ignore",
}


class Done(Struct, frozen=True):
    """A run that counts."""

    folder: str  # below the session folder
    files: tuple[tuple[str, str], ...]  # (path below the session folder, SHA-256)


class State(Struct):
    """The journal, folded. Written by `take` alone, so that a second start sees what the first one saw."""

    header: dict[str, Any] | None = None
    done: dict[str, Done] = {}
    after: dict[str, Spent] = {}  # what was spent when that run was complete; rounds are not counted here
    attempts: dict[str, int] = {}
    open: list[dict[str, Any]] = []  # started and not ended
    failures: list[str] = []  # why, of every failed attempt
    wall_s: float = 0.0
    slowest_s: float = 0.0
    requests: int = 0
    looks: int = 0  # number of the last look taken
    stop: dict[str, Any] | None = None
    confirm: int | None = None  # rounds of the second measurement; 0: nothing asks for one
    confirmed: bool = False  # it is complete
    reported: int | None = None  # exit code that was given

    def take(self, event: Mapping[str, Any]) -> None:
        """Fold one event in."""
        kind = event["event"]
        if kind == "session":
            self.header = dict(event)
        elif kind == "start":
            self.open.append(dict(event))
            self.attempts[event["key"]] = event["attempt"]
        elif kind == "pid":
            for one in self.open:
                if one["key"] == event["key"]:
                    one |= {"pid": event["pid"], "began": event["began"]}
        elif kind in ("end", "failed", "interrupted"):
            self._ended(kind, event)
        elif kind == "look":
            self.looks = event["number"]
        elif kind == "stop":
            self.stop = dict(event)
        elif kind == "confirm":
            self.confirm = int(event["rounds"])
        elif kind == "confirmed":
            self.confirmed = True
        elif kind == "reported":
            self.reported = event["exit_code"]

    def _ended(self, kind: str, event: Mapping[str, Any]) -> None:
        keys = [one["key"] for one in event["runs"]]
        self.open = [one for one in self.open if one["key"] not in keys]
        self.wall_s += event["duration_s"]
        if kind == "failed":
            self.failures.append(event["why"])
        if kind != "end":
            return
        self.slowest_s = max(self.slowest_s, event["duration_s"])
        self.requests += sum(one["requests"] for one in event["runs"])
        for one in event["runs"]:
            files = tuple((path, sha256) for path, sha256 in one["files"])
            self.done[one["key"]] = Done(one["folder"], files)
            self.after[one["key"]] = Spent(0, self.requests, self.wall_s, self.slowest_s)


def fold(events: Sequence[Mapping[str, Any]], where: str) -> State:
    """The state after these events. Raises InputError for a journal that means nothing."""
    state = State()
    try:
        for event in events:
            state.take(event)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"is no journal of slo-gate run: {error!r}", where, _NEW) from None
    if events and state.header is None:
        raise InputError("is no journal of slo-gate run: it has no header", where, _NEW)
    return state


def terms(plan: Plan, policy_sha256: str, profile: str | None, how: How) -> dict[str, Any]:
    """What must be the same whenever a session goes on: looks fixed in advance mean nothing otherwise."""
    fixed = msgspec.to_builtins(plan)
    for free in _FREE:
        del fixed[free]
    for side in fixed["sides"]:
        side["command"] = redacted(side["command"])
        side["witness"] = redacted([side["witness"]])[0] if side["witness"] else None
    return {"policy": policy_sha256, "profile": profile, **fixed, "reading": msgspec.to_builtins(how)}


def same_terms(
    header: Mapping[str, Any], now: Mapping[str, Any], facts: Mapping[str, Any] | None, where: str
) -> None:
    """Raises UsageError when the second start asks for something else, or for another build."""
    before = {"confirm": False, **header["terms"]}
    here = msgspec.json.decode(msgspec.json.encode(now))
    for name in here:
        if before.get(name) != here[name]:
            what = _WORDS.get(name, name.replace("_", " "))
            raise UsageError(f"the session was started with another {what}", where, _NEW)
    if facts is None:
        return
    for name, key, what in (("git", "sha", "commit"), ("dataset", "sha256", "data set")):
        old, new = ((said.get(name) or {}).get(key) for said in (header["facts"], facts))
        if old != new:
            raise UsageError(f"the session was started at another {what} ({old}, now {new})", where, _NEW)


def past(events: Sequence[Mapping[str, Any]], where: str) -> tuple[Plan, How]:
    """What a session was started with. Raises UsageError for one that never was."""
    header = fold(events, where).header
    if header is None:
        raise UsageError("no session was ever started here", where, "leave out --again")
    said = header["terms"]
    try:
        return msgspec.convert(said, Plan), msgspec.convert(said["reading"], How)
    except (KeyError, msgspec.MsgspecError) as error:
        raise InputError(f"is no journal of slo-gate run: {error}", where, _NEW) from None
