"""Which runs are judged: grouped by what makes them comparable, chosen by the declared target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from ..model import InputFile, Load, Policy, Run
from .prepare import Prepared

RATE_TOLERANCE = 1e-3  # a rate of 20 written as 19.99 by a tool is the same load


class Selection(Struct, frozen=True):
    """The one group at the target, or why there is none."""

    runs: tuple[Prepared, ...]
    reason: str  # empty when there is a group


def select(prepared: Sequence[Prepared], policy: Policy) -> Selection:
    """Runs pool only when tool, version, model, hardware and load agree (DESIGN section 2)."""
    target = policy.workload.target
    groups = grouped([one for one in prepared if target is None or matches(one.run.load, target)])
    if len(groups) == 1:
        return Selection(tuple(next(iter(groups.values()))), "")
    held = list(dict.fromkeys(one.run.load for one in prepared))
    if not groups:
        why = f"nothing was measured at {target}, only at {listed(held)}; run the benchmark at {target}"
        return Selection((), why)
    if target is None and len({key[-1] for key in groups}) > 1:
        why = (
            f"the results have {len(held)} loads ({listed(held)}) and the policy does not say which to judge"
        )
        return Selection((), f"{why}; set workload.load in the policy, or pass the results of one load")
    why = f"these runs cannot be judged together: {_difference(list(groups))}; pass those of one benchmark"
    return Selection((), why)


def listed(held: Sequence[Load | None], most: int = 4) -> str:
    """Loads in words, what they have in common once: `concurrency 4, 8 and 16`."""
    names = [str(load) if load is not None else "an unknown load" for load in held]
    rest = len(names) - most
    shown = names[:most]
    for kind in ("concurrency ", " req/s"):
        if len(shown) > 1 and all(kind in name and name.replace(kind, "").isdigit() for name in shown):
            numbers = [name.replace(kind, "") for name in shown]
            said = _joined([*numbers, *([f"{rest} more"] if rest > 0 else [])])
            return kind + said if kind.endswith(" ") else said + kind
    return _joined([*shown, *([f"{rest} more"] if rest > 0 else [])])


def _joined(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def grouped(prepared: Sequence[Prepared]) -> dict[tuple[object, ...], list[Prepared]]:
    """Runs that may pool, by tool, version, model, hardware and load, in ascending load."""
    groups: dict[tuple[object, ...], list[Prepared]] = {}
    for one in prepared:
        run = one.run
        key = (run.tool, run.tool_version, run.model, run.hardware, run.scenario, run.load)
        groups.setdefault(key, []).append(one)
    return dict(sorted(groups.items(), key=lambda item: _ascending(item[1][0].run.load)))


def _ascending(load: Load | None) -> tuple[int, float]:
    if load is None:
        return 3, 0.0
    if load.burst:
        return 2, 0.0
    return (0, float(load.concurrency)) if load.concurrency is not None else (1, load.request_rate or 0.0)


def matches(load: Load | None, target: Load) -> bool:
    """Closed loop by concurrency, open loop by rate; a burst matches no target."""
    if load is None or load.burst:
        return False
    if target.concurrency is not None:
        return load.concurrency == target.concurrency
    if target.request_rate is None or load.request_rate is None or load.production != target.production:
        return False
    if target.production:
        return load.request_rate >= target.request_rate
    return abs(load.request_rate - target.request_rate) <= RATE_TOLERANCE * target.request_rate


def loads(prepared: Sequence[Prepared]) -> str:
    """The loads of the runs with how many runs each has: `8 at concurrency 4, 1 at burst`."""
    number = Counter(str(one.run.load) if one.run.load is not None else "an unknown load" for one in prepared)
    return ", ".join(f"{n} at {name}" for name, n in number.items())


def _difference(keys: Sequence[tuple[object, ...]]) -> str:
    for position, what in enumerate(("tool", "tool version", "model", "hardware", "scenario", "load")):
        values = list(
            dict.fromkeys(str(key[position]) if key[position] is not None else "not stated" for key in keys)
        )
        if len(values) > 1:
            return f"{what} is {' and '.join(values[:4])}"
    return "they differ"


def inputs(runs: Sequence[Run]) -> tuple[InputFile, ...]:
    """The files behind these runs, each once."""
    files = {
        run.input: InputFile(run.input, run.sha256, run.format, run.tool, run.tool_version) for run in runs
    }
    return tuple(files.values())
