"""Which runs of a baseline the judged runs may be compared with, and whether they did the same work.

The unit of a regression is the session: one benchmark job on one node (DESIGN section 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from ... import units
from ...errors import InputError
from ...model import SAVED_REPORT, Baseline, Floats, Policy, Requests, Status
from .. import loads
from ..prepare import Prepared, prepare
from .itself import refuse_itself

BAND_FROM = 10  # stored sessions from which their spread is known well enough to block by
FACTS = ("tool", "model", "hardware", "interaction")  # one value a run, the same on both sides
ALLOWABLE = (*FACTS, "load", "input_tokens", "output_tokens")
LENGTH_TOLERANCE = 0.1  # of the mean number of tokens
SPREAD_TOLERANCE = 0.5  # of the interquartile range: less is another workload
_HINT = "give a baseline of the same workload, or allow the difference with --allow-baseline {}"

SAME, BAND, STORED = "same session", "stored sessions", "stored"


class Sides(Struct, frozen=True, eq=False):
    """The runs of both sides that are compared."""

    base: tuple[Prepared, ...]
    candidate: tuple[Prepared, ...]
    kind: str  # SAME, BAND or STORED
    paired: bool  # run i of both sides did the same work
    sessions: tuple[tuple[tuple[Prepared, ...], ...], tuple[tuple[Prepared, ...], ...]]  # of both sides
    notes: tuple[str, ...]
    other_outputs: str = ""  # why E2E cannot be compared: outputs of another length
    remembered: bool = False  # the sessions of the base are those of a history, the newest first


def choose_sides(candidate: Sequence[Prepared], baseline: Baseline, policy: Policy) -> Sides:
    """Choose what is compared. Raises InputError for a baseline of another benchmark."""
    every = [prepare(run, policy) for run in baseline.runs]
    refuse_itself(candidate, baseline, every)
    notes = list(baseline.notes)
    base = same_benchmark(candidate, every, baseline.allowed, notes)
    kind, base, candidate = _by_session(candidate, base, baseline.same_session, notes)
    held = _sessions(base), _sessions(candidate)
    within = kind == SAME and not baseline.same_session
    pairs = None if kind == BAND else _pairs(base, candidate, within)
    if pairs is not None:
        left = len(base) + len(candidate) - 2 * len(pairs)
        if left:
            notes.append(f"{left} runs have no partner of the same workload and are not compared")
        base, candidate = [one for one, _ in pairs], [other for _, other in pairs]
    notes += _versions(base, candidate)
    other = "" if "output_tokens" in baseline.allowed else _outputs(base, candidate, pairs is not None)
    if other:
        notes.append(other)
    paired, past = pairs is not None, baseline.remembered
    return Sides(tuple(base), tuple(candidate), kind, paired, held, tuple(notes), other, past)


# ---- the same benchmark ---------------------------------------------------------------------


def same_benchmark(
    candidate: Sequence[Prepared], every: Sequence[Prepared], allowed: frozenset[str], notes: list[str]
) -> list[Prepared]:
    """The runs of a baseline at the load of the judged ones. Raises InputError for another benchmark."""
    base = _at_load(candidate, every, allowed, notes)
    _same_facts(candidate, base, allowed, notes)
    _same_inputs(candidate, base, allowed, notes)
    return base


def _at_load(
    candidate: Sequence[Prepared], base: Sequence[Prepared], allowed: frozenset[str], notes: list[str]
) -> list[Prepared]:
    """The baseline's runs at the load of the judged ones."""
    load = candidate[0].run.load
    if "load" in allowed:
        return list(base)
    same = [one for one in base if one.run.load == load or (load and loads.matches(one.run.load, load))]
    where = str(load) if load is not None else "a load that is not stated"
    if not same:
        raise InputError(
            f"the baseline holds no run at {where}, where the results are judged; it holds"
            f" {loads.loads(base)}",
            _where(base),
            _HINT.format("load"),
        )
    if len(same) < len(base):
        others = [one for one in base if one not in same]
        notes.append(f"the baseline's runs at other loads are not compared: {loads.loads(others)}")
    return same


def _same_facts(
    candidate: Sequence[Prepared], base: Sequence[Prepared], allowed: frozenset[str], notes: list[str]
) -> None:
    for fact in FACTS:
        mine, theirs = _said(candidate, fact), _said(base, fact)
        if mine - {None} and theirs - {None} - mine:
            shown = [" and ".join(sorted(str(value) for value in side - {None})) for side in (theirs, mine)]
            text = f"{fact} is {shown[0]} in the baseline and {shown[1]} in the results"
            where = _where([one for one in base if getattr(one.run, fact) not in mine])
            notes.append(_allowed(fact, f"another {fact}: {text}", where, allowed))
        elif fact != "interaction" and None in mine ^ theirs:
            side = "results" if None in mine else "baseline"
            notes.append(f"{fact} is not stated in the {side}, and taken to be the same")


def _said(runs: Sequence[Prepared], fact: str) -> set[str | None]:
    return {getattr(one.run, fact) for one in runs}


def _same_inputs(
    candidate: Sequence[Prepared], base: Sequence[Prepared], allowed: frozenset[str], notes: list[str]
) -> None:
    """Prompts of another length are another workload, and so are prompts of one length."""
    mine, theirs = _lengths(candidate, "input_tokens"), _lengths(base, "input_tokens")
    if mine is None or theirs is None:
        notes.append("prompt lengths are not known on both sides, and taken to be the same")
        return
    other = abs(mine.mean - theirs.mean) > LENGTH_TOLERANCE * theirs.mean + _noise(mine, theirs)
    if mine.middle is not None and theirs.middle is not None:
        narrow, wide = sorted((mine.middle, theirs.middle))
        other |= narrow < SPREAD_TOLERANCE * wide and wide - narrow > LENGTH_TOLERANCE * theirs.mean
    if not other:
        return
    text = f"another workload: prompts are {theirs} in the baseline and {mine} in the results"
    notes.append(_allowed("input_tokens", text, _where(base), allowed))


def _allowed(fact: str, text: str, where: str, allowed: frozenset[str]) -> str:
    """The note about a difference that is allowed. Raises InputError where it is not."""
    if fact not in allowed:
        raise InputError(f"the baseline is of {text}", where, _HINT.format(fact))
    return f"{text.partition(': ')[2]}; allowed by --allow-baseline {fact}"


class _Lengths(Struct, frozen=True):
    """Token lengths of one side's completed requests; only the mean from saved reports."""

    mean: float
    n: int
    spread: float | None = None  # standard deviation
    middle: float | None = None  # interquartile range: few long prompts do not move it

    def __str__(self) -> str:
        return f"{self.mean:.0f} tokens" + (f" (stddev {self.spread:.0f})" if self.spread is not None else "")


def _lengths(runs: Sequence[Prepared], column: str) -> _Lengths | None:
    cells: list[Floats] = []
    stated: list[tuple[float, int]] = []
    for one in runs:
        if (summary := one.stated(column)) is not None:
            stated += [(summary.mean, one.counts.completed)] if summary.mean is not None else []
        elif (known := one.lengths(column)) is not None:
            cells.append(known)
            stated += [(float(cells[-1].mean()), cells[-1].size)] if cells[-1].size else []
    n = sum(number for _, number in stated)
    if not n:
        return None
    mean = sum(value * number for value, number in stated) / n
    if len(cells) < len(runs):
        return _Lengths(mean, n)
    tokens = np.concatenate(cells)
    low, high = np.quantile(tokens, (0.25, 0.75))
    return _Lengths(mean, n, float(tokens.std()), float(high - low))


def _noise(one: _Lengths, other: _Lengths) -> float:
    """How far two means of one workload may lie apart by chance: three standard errors."""
    known = [side.spread for side in (one, other) if side.spread is not None]
    spread = max(known) if known else one.mean  # the spread of saved reports is not known: a wide guess
    return 3 * spread * math.sqrt(1 / one.n + 1 / other.n)


def _outputs(base: Sequence[Prepared], candidate: Sequence[Prepared], paired: bool) -> str:
    """Outputs of another length move E2E whatever the server does; of the same prompts, already a little."""
    mine, theirs = _lengths(candidate, "output_tokens"), _lengths(base, "output_tokens")
    if mine is None or theirs is None or not theirs.mean:
        return ""
    share = mine.mean / theirs.mean - 1
    room = LENGTH_TOLERANCE / 2 if paired else LENGTH_TOLERANCE + _noise(mine, theirs) / theirs.mean
    if abs(share) <= room:
        return ""
    how = "shorter" if share < 0 else "longer"
    return (
        f"outputs are {units.show(abs(share), units.SHARE)} {how} than the baseline's"
        f" ({mine.mean:.1f} against {theirs.mean:.1f} tokens)"
    )


def _versions(base: Sequence[Prepared], candidate: Sequence[Prepared]) -> list[str]:
    mine, theirs = _said(candidate, "tool_version"), _said(base, "tool_version")
    if mine == theirs:
        return []
    shown = [", ".join(sorted(str(v or "not stated") for v in side)) for side in (theirs, mine)]
    return [f"the tool's version is {shown[0]} in the baseline and {shown[1]} in the results"]


def _where(runs: Sequence[Prepared]) -> str:
    return runs[0].run.input if runs else ""


# ---- sessions ---------------------------------------------------------------------------------


def _by_session(
    candidate: Sequence[Prepared], base: Sequence[Prepared], stated: bool, notes: list[str]
) -> tuple[str, list[Prepared], list[Prepared]]:
    """One session of both sides where there is one, else all that is stored."""
    named = {one.run.session for one in (*candidate, *base)} - {None}
    if stated:
        if len(named) > 1:
            raise InputError(
                f"--same-session, but the files name {len(named)} sessions:"
                f" {', '.join(sorted(map(str, named))[:4])}",
                _where(base),
                "leave out --same-session",
            )
        return SAME, list(base), list(candidate)
    shared = {one.run.session for one in candidate} & {one.run.session for one in base} - {None}
    if shared:
        mine = [one for one in candidate if one.run.session in shared]
        theirs = [one for one in base if one.run.session in shared]
        if left := len(candidate) + len(base) - len(mine) - len(theirs):
            notes.append(f"{left} runs of sessions that the other side does not have are not compared")
        return SAME, theirs, mine
    return (BAND if len(_sessions(base)) >= BAND_FROM else STORED), list(base), list(candidate)


def _sessions(runs: Sequence[Prepared]) -> tuple[tuple[Prepared, ...], ...]:
    """Runs by session; result files that name none are one session, each saved report is one."""
    held: dict[str, list[Prepared]] = {}
    for one in runs:
        unnamed = one.run.input if one.run.format == SAVED_REPORT else ""
        held.setdefault(f"session {one.run.session}" if one.run.session else unnamed, []).append(one)
    return tuple(tuple(group) for group in held.values())


# ---- pairs ------------------------------------------------------------------------------------


def _pairs(
    base: Sequence[Prepared], candidate: Sequence[Prepared], within: bool
) -> list[tuple[Prepared, Prepared]] | None:
    """Each run with the first unused one of the other side (of its session) that did the same work.

    None unless every run of the smaller side has its partner.
    """
    free, found = list(base), []
    for one in candidate:
        fitting = (b for b in free if not within or b.run.session == one.run.session)
        other = next((b for b in fitting if _same_work(b, one)), None)
        if other is not None:
            free = [b for b in free if b is not other]
            found.append((other, one))
    return found if found and len(found) == min(len(base), len(candidate)) else None


def _same_work(one: Prepared, other: Prepared) -> bool:
    """The same prompt lengths, but for requests that failed: their length is often not recorded."""
    left, right = _prompts(one), _prompts(other)
    if left is None or right is None:
        return False
    (mine, lost), (theirs, missing) = left, right
    if mine.size + lost != theirs.size + missing or min(mine.size, theirs.size) * 2 < mine.size + lost:
        return False
    values, where = np.unique(np.concatenate((mine, theirs)), return_inverse=True)
    counts = np.bincount(where[: mine.size], minlength=values.size)
    gap = counts - np.bincount(where[mine.size :], minlength=values.size)
    return bool(gap[gap > 0].sum() <= missing and -gap[gap < 0].sum() <= lost)


def _prompts(one: Prepared) -> tuple[Floats, int] | None:
    """Prompt lengths of the requests that got an answer, warm-up too, and how many lengths are not known."""
    rows = one.run.evidence
    if not isinstance(rows, Requests) or rows.input_tokens is None:
        return None
    answered = (rows.status == Status.COMPLETED) | (rows.status == Status.WARMUP)
    known = rows.input_tokens[answered & np.isfinite(rows.input_tokens)]
    return known, len(rows) - known.size
