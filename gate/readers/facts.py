"""`--set key=value`: facts a file cannot hold, stated by the caller and shown as such."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from .. import units
from ..errors import InputError, UsageError
from ..model import Load, Run

_FACTS = ("tool_version", "model", "hardware", "interaction")
KEYS = (*_FACTS, "concurrency", "request_rate")  # `slo-gate explain set` says what each is


def parse(items: Iterable[str]) -> dict[str, str]:
    """key=value pairs as a mapping. Raises UsageError for an unknown key or a malformed pair."""
    stated: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        key, value = key.strip(), value.strip()
        if not equals or not value:
            raise UsageError(
                "expected key=value", f"--set {item}", f"one of {', '.join(KEYS)}: `slo-gate explain set`"
            )
        if key not in KEYS:
            from difflib import get_close_matches  # only when something is wrong: costs start-up time

            near = get_close_matches(key, KEYS, 1)
            hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(KEYS)}: `slo-gate explain set`"
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
                "ours come first: e2e_ms, ttft_ms, output_tokens, ... (`slo-gate tools generic`)",
            )
        if found.get(ours, theirs) != theirs or theirs in [t for o, t in found.items() if o != ours]:
            raise UsageError("a column is mapped twice", where, "map each column once")
        found[ours] = theirs
    return found


def apply(run: Run, stated: Mapping[str, str]) -> Run:
    """The run with what was stated. Raises InputError where the file says otherwise."""
    hint = "state only what the file cannot hold"
    facts: dict[str, Any] = {key: value for key, value in stated.items() if key in _FACTS}
    missing = added(run, {**facts, "load": _load(stated)}, "--set says", "the file", run.input, hint)
    return replace(run, **missing, stated=frozenset(facts) | (missing.keys() & {"load"}))


def added(run: Run, facts: Mapping[str, Any], says: str, other: str, where: str, hint: str) -> dict[str, Any]:
    """Those of these facts (None: not known) that the run does not state.

    Raises InputError where it states another one: `says` and `other` name the two that disagree.
    """
    missing = {}
    for name, value in facts.items():
        known = getattr(run, name)
        if value is None or known == value:
            continue
        by = " (stated by the caller)" if name in run.stated else ""
        if known is None:
            missing[name] = value
        elif name != "load":
            raise InputError(f'{says} {name} is "{value}", {other} says "{known}"{by}', where, hint)
        elif (value.concurrency, value.request_rate) != (known.concurrency, known.request_rate):
            raise InputError(f"{says} the load is {value}, {other} says {known}{by}", where, hint)
    return missing


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
