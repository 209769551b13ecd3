"""`--set key=value`: facts a file cannot hold, stated by the caller and shown as such."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from .. import units
from ..errors import InputError, UsageError
from ..model import Load, Run

_FACTS = ("tool_version", "model", "hardware", "interaction")
KEYS = (*_FACTS, "concurrency", "request_rate")


def parse(items: Iterable[str]) -> dict[str, str]:
    """key=value pairs as a mapping. Raises UsageError for an unknown key or a malformed pair."""
    stated: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        key, value = key.strip(), value.strip()
        if not equals or not value:
            raise UsageError("expected key=value", f"--set {item}", f"keys: {', '.join(KEYS)}")
        if key not in KEYS:
            from difflib import get_close_matches  # only when something is wrong: costs start-up time

            near = get_close_matches(key, KEYS, 1)
            hint = f"did you mean {near[0]}?" if near else f"keys: {', '.join(KEYS)}"
            raise UsageError(f'unknown key "{key}"', f"--set {item}", hint)
        if key in stated and stated[key] != value:
            raise UsageError(f"{key} is set twice", f"--set {item}", "state each fact once")
        stated[key] = value
    if "concurrency" in stated and "request_rate" in stated:
        raise UsageError(
            "a run has one load", "--set", "state concurrency (closed loop) or request_rate (open loop)"
        )
    return stated


def columns(items: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """ours=theirs pairs as a mapping. Raises UsageError for a malformed pair or an unknown column of ours."""
    found: dict[str, str] = {}
    for item in items:
        ours, equals, theirs = (part.strip() for part in item.partition("="))
        where = f"--map {item}"
        if not equals or not theirs:
            raise UsageError("expected OURS=THEIRS", where, "write it like --map e2e_ms=latency_ms")
        if ours not in known:
            raise UsageError(
                f'"{ours}" is no column of the generic format',
                where,
                "ours stand on the left: e2e_ms, ttft_ms, output_tokens, ... (docs/readers.md#generic)",
            )
        if found.get(ours, theirs) != theirs or theirs in [t for o, t in found.items() if o != ours]:
            raise UsageError("a column is mapped twice", where, "map each column once")
        found[ours] = theirs
    return found


def apply(run: Run, stated: Mapping[str, str]) -> Run:
    """The run with what was stated. Raises InputError where the file says otherwise."""
    facts: dict[str, Any] = {key: value for key, value in stated.items() if key in _FACTS}
    for key, value in facts.items():
        said = getattr(run, key)
        if said is not None and said != value:
            raise _contradiction(run, key, value, said)
    load = _load(stated)
    if load is not None and run.load is not None and not _same(run.load, load):
        raise _contradiction(run, "the load", str(load), str(run.load))
    named = frozenset(facts) | ({"load"} if load is not None and run.load is None else frozenset())
    return replace(run, **facts, load=run.load or load, stated=named)


def _load(stated: Mapping[str, str]) -> Load | None:
    if "concurrency" in stated:
        text = stated["concurrency"]
        if not text.isdecimal() or int(text) == 0:
            raise UsageError(
                f'"{text}" is not a number of requests in flight', "--set concurrency", "write 64"
            )
        return Load(concurrency=int(text))
    if "request_rate" in stated:
        try:
            return Load(request_rate=units.parse(stated["request_rate"], units.RATE))
        except ValueError as error:
            raise UsageError(str(error), "--set request_rate") from None
    return None


def _same(said: Load, stated: Load) -> bool:
    return (said.concurrency, said.request_rate) == (stated.concurrency, stated.request_rate)


def _contradiction(run: Run, key: str, value: str, said: object) -> InputError:
    return InputError(
        f'--set says {key} is "{value}", the file says "{said}"',
        run.input,
        "state only what the file cannot hold",
    )
