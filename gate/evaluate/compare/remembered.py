"""Which remembered sessions the judged runs may be compared with: each is held to the rules of a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...errors import InputError
from ...model import Baseline, Policy, Remembered, Run, TokenRule, Workload
from .. import loads
from ..prepare import Prepared, prepare
from .baseline import same_benchmark
from .itself import refuse_itself

_ITSELF = "it is the session that is judged"
_NAMED = 3  # sessions that a note names beside a reason why they are left out


def choose_sessions(
    policy: Policy, runs: Sequence[Run], offered: Iterable[Remembered], last: int, allowed: frozenset[str]
) -> tuple[Baseline | None, tuple[str, ...]]:
    """The first `last` of the offered sessions that compare with the judged runs, and notes about the others.

    None where there is none. Nothing else is mixed in: a session of another model, load, tool, hardware or
    workload is left out with its reason, where a baseline that the caller names is refused.
    """
    chosen = loads.select([prepare(run, policy) for run in runs], policy)
    if chosen.reason:
        return Baseline(()), ()
    judged = {digest for run in runs for digest in (run.sha256, run.content_sha256)}
    sessions = {run.session for run in runs if run.session}
    taken: list[Remembered] = []
    pool: list[Prepared] = []
    others: dict[str, list[str]] = {}
    for session in offered:
        if len(taken) == last:
            break
        every = [prepare(run, policy) for run in session.runs]
        why = _why_not(session, every, chosen.runs, policy, allowed, judged, sessions)
        if why or (why := _other_than(pool, every, chosen.runs, allowed)):
            others.setdefault(why, []).append(session.name)
        elif first := next((one for one in taken if one.results & session.results), None):
            others.setdefault(f"holds a run of the session of {first.name}", []).append(session.name)
        else:
            taken.append(session)
            pool += every
    notes = list(_left_out(others))
    if not taken:
        return None, tuple(notes)
    try:
        base = same_benchmark(chosen.runs, pool, allowed, [])
    except InputError as error:
        return None, (*notes, f"the sessions do not compare together: {error.message}")
    names = ", ".join(one.name for one in taken)
    notes.insert(0, f"compared with {_number(len(taken))}: {names}")
    return Baseline(tuple(one.run for one in base), allowed=allowed, remembered=True), tuple(notes)


def _other_than(
    pool: Sequence[Prepared], every: Sequence[Prepared], judged: Sequence[Prepared], allowed: frozenset[str]
) -> str:
    """Why a session is not of the benchmark of the newer ones, where the judged runs leave it open."""
    column = "input_tokens"
    known = any(one.lengths(column) is not None or one.stated(column) is not None for one in judged)
    try:
        if pool:
            same_benchmark(pool, every, allowed | {"load"} | ({column} if known else set()), [])
    except InputError as error:
        return error.message.removeprefix("the baseline is of ").removesuffix("results") + "newer sessions"
    return ""


def _why_not(
    session: Remembered,
    every: Sequence[Prepared],
    judged: Sequence[Prepared],
    policy: Policy,
    allowed: frozenset[str],
    digests: set[str],
    sessions: set[str],
) -> str:
    """Why a session is no baseline; empty where it is one."""
    if session.results & digests or any(run.session in sessions for run in session.runs):
        return _ITSELF
    if session.left_out:
        return session.left_out
    if other := next(_other_workload(session.workload, policy.workload, allowed), ""):
        return f"another workload: {other}"
    try:
        refuse_itself(judged, Baseline(session.runs), every)
    except InputError:
        return _ITSELF
    try:
        same_benchmark(judged, every, allowed, [])
    except InputError as error:
        return error.message.removeprefix("the baseline is of ")
    return ""


def _other_workload(was: Workload | None, now: Workload, allowed: frozenset[str]) -> Iterator[str]:
    """What was promised then and is not now; what a policy does not say is no difference."""
    if was is None:
        return
    names = {"model": "model", "hardware": "hardware", "interaction": "interaction", "load": "target"}
    for name, field in names.items():
        before, after = getattr(was, field), getattr(now, field)
        if name not in allowed and None not in (before, after) and before != after:
            yield f"the policy asked for {name} {before} and asks for {after}"
    for name in ("input_tokens", "output_tokens"):
        before, after = getattr(was, name), getattr(now, name)
        if name not in allowed and before and after and _lengths(before) != _lengths(after):
            yield f"the policy asked for {name} of mean {before.mean:g} and asks for {after.mean:g}"


def _lengths(rule: TokenRule) -> tuple[float, float | None]:
    return rule.mean, rule.stddev


def _left_out(others: dict[str, list[str]]) -> Iterator[str]:
    for why, names in others.items():
        shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        yield f"{_number(len(names))} left out ({shown}): {why}"


def _number(sessions: int) -> str:
    return f"{sessions} session{'s' * (sessions != 1)}"
