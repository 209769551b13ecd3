"""`<result>.slo.json`, which `slo-gate run` writes beside each result: what the result cannot hold."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec.structs import replace

from .. import disk
from ..errors import InputError
from ..model import Load, Run
from .facts import added
from .files import STDIN

SUFFIX = ".slo.json"
BUSY = 0.9  # share of the machine's cores: what is left is too little for a client to keep its times
LATE_S = 0.02  # a timer that fires this late stamps first tokens this late
_FACTS = ("session", "tool_version", "model", "hardware")
_MOST_BYTES = 1 << 20
_MOST_CHARACTERS = 200
_MOST_NOTES = 20
_HINT = "remove the sidecar, or let `slo-gate run` write it again"


class _Result(msgspec.Struct):
    sha256: str | None = None


class _Client(msgspec.Struct):
    machine_busy: float | None = None
    event_loop_lag_p99_s: float | None = None


class _Sidecar(msgspec.Struct):
    """The part of a sidecar that is read; other keys are for people."""

    session: str | None = None
    tool_version: str | None = None
    model: str | None = None
    hardware: str | None = None
    load: Load | None = None
    result: _Result | None = None
    client: _Client | None = None
    columns: dict[str, str] = {}  # of home-made rows: our column -> the file's name for it
    notes: tuple[str, ...] = ()


def columns(path: Path | None) -> dict[str, str]:
    """Which columns of a file of home-made rows are ours, where its sidecar says so.

    Raises InputError for a sidecar that is broken.
    """
    beside = None if path is None else path.with_name(path.name + SUFFIX)
    return dict(_decoded(beside).columns) if beside is not None and _is_there(beside) else {}


def apply(run: Run) -> Run:
    """The run with what its sidecar adds, where it has one.

    Raises InputError for a sidecar that is broken, belongs to other bytes, or says otherwise than the file.
    """
    if run.input == STDIN or not _is_there(path := disk.place(run.input + SUFFIX)):
        return run
    where, said = disk.shown(path), _decoded(path)
    if said.result is not None and said.result.sha256 not in (None, run.sha256):
        raise InputError("the sidecar was written for other content than the file holds", where, _HINT)
    facts = {name: getattr(said, name) for name in _FACTS} | {"load": _load(said.load, where)}
    missing = added(run, facts, "the sidecar says", "the result", where, _HINT)
    stated = run.stated | missing.keys() - {"session"}
    return replace(run, **missing, stated=stated, notes=(*run.notes, *_notes(said)))


def _is_there(path: Path) -> bool:
    try:
        return os.path.lexists(path) or disk.is_file(path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", disk.shown(path)) from None


def _decoded(path: Path) -> _Sidecar:
    where = disk.shown(path)
    try:
        with disk.opened(path) as file:
            said = msgspec.json.decode(file.read(_MOST_BYTES), type=_Sidecar)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where, _HINT) from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(f"is no sidecar of slo-gate run: {error}", where, _HINT) from None
    for name in _FACTS:
        value = getattr(said, name)
        if value is not None and not 0 < len(value) <= _MOST_CHARACTERS:
            raise InputError(f"a {name} has 1 to {_MOST_CHARACTERS} characters", where, _HINT)
    return said


def _load(said: Load | None, where: str) -> Load | None:
    """The load the command was told."""
    numbers = [n for n in (said.concurrency, said.request_rate) if n is not None] if said else []
    if len(numbers) > 1 or not all(0 < number < float("inf") for number in numbers):
        raise InputError("a load is one positive concurrency or request rate", where, _HINT)
    return Load(said.concurrency, said.request_rate) if said and numbers else None


def _notes(said: _Sidecar) -> list[str]:
    """Words without numbers, so that runs share them."""
    found = [note[:_MOST_CHARACTERS] for note in said.notes[:_MOST_NOTES]]
    client = said.client or _Client()
    if (client.machine_busy or 0) > BUSY:
        found.append("the client's machine was busy (over 90% of its cores): it may have measured itself")
    if (client.event_loop_lag_p99_s or 0) > LATE_S:
        found.append("timers on the client's machine fired over 20 ms late: latencies may hold that delay")
    return found
