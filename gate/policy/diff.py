"""What changed between two policies, in plain words: looser, stricter, or only different."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from .. import units
from ..model import Kind, Level, Load, Objective, Policy, RequestBound, TokenRule, Waiver
from . import _grammar as grammar
from ._build import Source

Effect: TypeAlias = Literal["looser", "stricter", "different"]
_WEIGHT = {Level.BLOCK: 2, Level.WARN: 1, Level.INFO: 0}
_BURDEN = {"block": 2, "lean": 1, "allow": 0}
_MISSES = {"miss": 1, "exclude": 0, "ignore": 0}


class Difference(Struct, frozen=True):
    """One thing that differs."""

    effect: Effect
    id: str  # of the objective, or the key of the policy
    text: str
    line: int = 0  # in the new policy, 0 where it is gone
    profile: str | None = None


def diff(old: Mapping[str | None, Policy], new: Mapping[str | None, Policy]) -> tuple[Difference, ...]:
    """Every difference of the policies as they stand (None) and of each profile, looser ones first.

    What a profile has in common with the policy as it stands is said once.
    """
    base = list(_compared(old[None], new[None])) if None in old and None in new else []
    found = list(base)
    for name in sorted(key for key in {*old, *new} if key is not None):
        if name not in new:
            found.append(Difference("different", f"profiles.{name}", "the profile is gone", profile=name))
        elif name not in old:
            found.append(Difference("different", f"profiles.{name}", "a new profile", profile=name))
        else:
            found += [
                Difference(one.effect, one.id, one.text, one.line, name)
                for one in _compared(old[name], new[name])
                if one not in base
            ]
    order = ("looser", "stricter", "different")
    return tuple(sorted(found, key=lambda one: (order.index(one.effect), one.profile or "")))


def _compared(old: Policy, new: Policy) -> Iterator[Difference]:
    yield from _objectives(old, new)
    yield from _request_bounds(old.goodput_bounds, new.goodput_bounds)
    yield from _load(old.workload.target, new.workload.target)
    yield from _sweep(old.workload.sweep, new.workload.sweep)
    for column in ("input_tokens", "output_tokens"):
        yield from _tokens(column, getattr(old.workload, column), getattr(new.workload, column))
    if old.tokenless != new.tokenless:
        yield _tokenless(new.tokenless)
    yield from _evidence(old, new)
    yield from _ordered("undecided", old.undecided, new.undecided, _BURDEN)
    yield from _ordered("semantics.cancelled", old.cancelled, new.cancelled, _MISSES)
    yield from _ordered("semantics.single_token_tpot", old.single_token_tpot, new.single_token_tpot, _MISSES)
    yield from _waivers(old.waivers, new.waivers)
    if old.name != new.name and not any(one.name == Source(one.path, "").stem for one in (old, new)):
        yield Difference("different", "name", f"{old.name} is now called {new.name}")


# ---- objectives -----------------------------------------------------------------------------


def _objectives(old: Policy, new: Policy) -> Iterator[Difference]:
    before, after = ({one.id: one for one in policy.objectives} for policy in (old, new))
    gone = {key: one for key, one in before.items() if key not in after}
    come = {key: one for key, one in after.items() if key not in before}
    for other in list(come.values()):  # the same rule for other requests
        same = [
            one for one in gone.values() if (one.metric, one.statistic) == (other.metric, other.statistic)
        ]
        if other.kind is Kind.LATENCY and len(same) == 1:
            effect = _scope(same[0], other)
            was, now = _whose(same[0]), _whose(other)
            text = f"{other.statistic.upper()} {other.metric.upper()} is about {now}, was about {was}"
            yield Difference(effect, other.id, text, other.line)
            yield from _changed(same[0], other)
            del gone[same[0].id], come[other.id]
    for one in gone.values():
        weight = "is no longer asked" if one.level is Level.BLOCK else f"(level {one.level.value}) is gone"
        effect_gone: Effect = "looser" if one.level is not Level.INFO else "different"
        yield Difference(effect_gone, one.id, f"{_said(one)} {weight}")
    for one in come.values():
        effect_come: Effect = "stricter" if one.level is not Level.INFO else "different"
        yield Difference(effect_come, one.id, f"{_said(one)} is new, at level {one.level.value}", one.line)
    for key, one in after.items():
        if key in before:
            yield from _changed(before[key], one)


def _scope(old: Objective, new: Objective) -> Effect:
    was, now = (grammar.population(one.when) for one in (old, new))
    if _within(now, was):
        return "looser"
    return "stricter" if _within(was, now) else "different"


def _within(inner: Mapping[str, tuple[float, float]], outer: Mapping[str, tuple[float, float]]) -> bool:
    everything = (0.0, float("inf"))
    return all(
        outer[column][0] <= inner.get(column, everything)[0]
        and inner.get(column, everything)[1] <= outer[column][1]
        for column in outer
    )


def _whose(one: Objective) -> str:
    return f"requests with {one.when.text}" if one.when else "all requests"


def _changed(old: Objective, new: Objective) -> Iterator[Difference]:
    if _WEIGHT[old.level] != _WEIGHT[new.level]:
        effect: Effect = "looser" if _WEIGHT[new.level] < _WEIGHT[old.level] else "stricter"
        text = f"{_said(new)} is at level {new.level.value}, was {old.level.value}"
        yield Difference(effect, new.id, text, new.line)
    if old.kind is not Kind.RULE and old.bound != new.bound and None not in (old.bound, new.bound):
        yield _moved(new, old.bound, new.bound, new.operator == "<=")
    elif old.id.startswith("evidence.") and old.bound != new.bound:
        yield _moved(new, old.bound, new.bound, False)
    elif old.id in _STATED and old.expected != new.expected:
        yield Difference("different", new.id, f"asks for {new.expected}, was {old.expected}", new.line)
    if old.floor_s != new.floor_s:
        was, now = (units.show(one.floor_s or 0.0, units.SECONDS) for one in (old, new))
        larger: Effect = "looser" if (new.floor_s or 0) > (old.floor_s or 0) else "stricter"
        yield Difference(larger, new.id, f"growth is fine below {now}, was {was}", new.line)
    if old.required != new.required:
        needed: Effect = "stricter" if new.required else "looser"
        text = f"a missing baseline {'blocks' if new.required else 'no longer blocks'}"
        yield Difference(needed, new.id, text, new.line)


_STATED = ("workload.model", "workload.hardware", "workload.interaction", "evidence.tool", "headroom")


def _moved(one: Objective, old: float | None, new: float | None, at_most: bool) -> Difference:
    looser = ((new or 0.0) > (old or 0.0)) == at_most
    unit = units.SHARE if one.unit == units.RATIO else one.unit
    text = f"{_name(one)} is {one.operator} {units.show(new, unit)}, was {units.show(old, unit)}"
    return Difference("looser" if looser else "stricter", one.id, text, one.line)


def _name(one: Objective) -> str:
    if one.kind is Kind.REGRESSION:
        return f"growth of {one.statistic.upper()} {one.metric.upper()}"
    if one.kind in (Kind.LATENCY, Kind.MEAN):
        scope = f" for {_whose(one)}" if one.when else ""
        return f"{one.statistic.upper()} {one.metric.upper()}{scope}"
    return one.id.replace("_", " ")


def _said(one: Objective) -> str:
    if one.kind is Kind.RULE or one.bound is None:
        return f"{one.id} ({one.expected})" if one.expected else one.id
    unit = units.SHARE if one.unit == units.RATIO else one.unit
    return f"{_name(one)} {one.operator} {units.show(one.bound, unit)}"


# ---- the rest -------------------------------------------------------------------------------


def _request_bounds(old: Sequence[RequestBound], new: Sequence[RequestBound]) -> Iterator[Difference]:
    """What a good request is."""
    if not old or not new:  # goodput itself came or went, which is said as an objective
        return
    before, after = (
        {(one.metric, one.when.text if one.when else ""): one for one in bounds} for bounds in (old, new)
    )
    for key in dict.fromkeys((*before, *after)):
        was, now = before.get(key), after.get(key)
        name = f"goodput.request.{key[0]}" + (f"[{key[1]}]" if key[1] else "")
        if was is None and now is not None:
            text = f"a good request also meets {key[0].upper()} <= {units.show(now.max_s, units.SECONDS)}"
            yield Difference("stricter", name, text, now.line)
        elif now is None and was is not None:
            text = (
                f"a good request no longer meets {key[0].upper()} <= {units.show(was.max_s, units.SECONDS)}"
            )
            yield Difference("looser", name, text)
        elif was is not None and now is not None and was.max_s != now.max_s:
            shown = [units.show(one.max_s, units.SECONDS) for one in (now, was)]
            effect: Effect = "looser" if now.max_s > was.max_s else "stricter"
            text = f"a good request has {key[0].upper()} <= {shown[0]}, was {shown[1]}"
            yield Difference(effect, name, text, now.line)


def _load(old: Load | None, new: Load | None) -> Iterator[Difference]:
    if old is None or new is None or old == new:  # came or went: said as an objective
        return
    sizes = [(one.concurrency, one.request_rate, one.production) for one in (old, new)]
    effect: Effect = "different"
    for was, now in zip(sizes[0][:2], sizes[1][:2], strict=True):
        if was is not None and now is not None and was != now and old.production == new.production:
            effect = "looser" if now < was else "stricter"
    yield Difference(effect, "workload.load", f"is judged at {new}, was at {old}")


def _sweep(old: tuple[float, ...], new: tuple[float, ...]) -> Iterator[Difference]:
    if not old or not new:
        return
    for effect, points, what in (
        ("looser", sorted(set(old) - set(new)), "no longer"),
        ("stricter", sorted(set(new) - set(old)), "also"),
    ):
        if points:
            shown = ", ".join(units.show(point, units.SHARE) for point in points)
            yield Difference(
                "looser" if effect == "looser" else "stricter",
                "workload.sweep",
                f"{what} asks for runs at {shown} of the load",
            )


def _tokens(column: str, old: TokenRule | None, new: TokenRule | None) -> Iterator[Difference]:
    if old is None or new is None:
        return
    key = f"workload.{column}"
    if old.mean != new.mean:
        shorter: Effect = "looser" if new.mean < old.mean else "stricter"
        yield Difference(shorter, key, f"mean length is {new.mean:g} tokens, was {old.mean:g}")
    if old.stddev != new.stddev:
        was, now = (f"{one.stddev:g}" if one.stddev is not None else "not asked" for one in (old, new))
        gone: Effect = "looser" if new.stddev is None else "stricter" if old.stddev is None else "different"
        yield Difference(gone, key, f"spread of lengths is {now}, was {was}")
    if old.tolerance != new.tolerance:
        was, now = (units.show(one.tolerance, units.SHARE) for one in (old, new))
        wider: Effect = "looser" if new.tolerance > old.tolerance else "stricter"
        yield Difference(wider, key, f"lengths may differ by {now}, was {was}")


def _tokenless(now: bool) -> Difference:
    if now:
        text = "the endpoint makes no tokens: an answer without any is no failure"
        return Difference("looser", "workload.output_tokens", text)
    return Difference("stricter", "workload.output_tokens", "an answer without any token is a failure again")


def _evidence(old: Policy, new: Policy) -> Iterator[Difference]:
    was, now = old.evidence, new.evidence
    if was.confidence != now.confidence:
        less: Effect = "looser" if now.confidence < was.confidence else "stricter"
        shown = [units.show(one.confidence, units.SHARE) for one in (now, was)]
        yield Difference(less, "evidence.confidence", f"verdicts hold with {shown[0]}, was {shown[1]}")
    yield from _ordered("evidence.decide", was.decide, now.decide, {"confident": 1, "point": 0})
    if was.warmup != now.warmup:
        yield Difference(
            "different", "evidence.warmup", f"requests dropped as warm-up: {now.warmup}, was {was.warmup}"
        )


def _ordered(key: str, old: str, new: str, rank: Mapping[str, Any]) -> Iterator[Difference]:
    if old != new:
        yield Difference("looser" if rank[new] < rank[old] else "stricter", key, f"is {new}, was {old}")


def _waivers(old: Sequence[Waiver], new: Sequence[Waiver]) -> Iterator[Difference]:
    before, after = ({one.objective: one for one in waivers} for waivers in (old, new))
    for name in dict.fromkeys((*before, *after)):
        was, now = before.get(name), after.get(name)
        key = f"waivers.{name}"
        if was is None and now is not None:
            text = f"a failure of {name} is waived until {now.until} by {now.owner}: {now.reason}"
            yield Difference("looser", key, text, now.line)
        elif now is None and was is not None:
            yield Difference("stricter", key, f"the waiver of {name} is gone")
        elif was is not None and now is not None and was.until != now.until:
            longer: Effect = "looser" if now.until > was.until else "stricter"
            yield Difference(longer, key, f"the waiver of {name} ends {now.until}, was {was.until}", now.line)
