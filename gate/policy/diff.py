"""What changed between two policies, in plain words: looser, stricter, or only different."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from .. import units
from ..model import (
    HistoryRules,
    Kind,
    Level,
    Load,
    Objective,
    Policy,
    RequestBound,
    TokenRule,
    Waiver,
)
from . import _grammar as grammar
from ._build import stem
from ._profiles import NO_PROFILE

Effect: TypeAlias = Literal["looser", "stricter", "different"]
_WEIGHT = {Level.BLOCK: 2, Level.WARN: 1, Level.INFO: 0}
_BURDEN = {"block": 2, "lean": 1, "allow": 0}
_MISSES = {"miss": 1, "exclude": 0, "ignore": 0}
_DECIDE = {"confident": 1, "point": 0}
_STATED = ("workload.model", "workload.hardware", "workload.interaction", "evidence.tool", "headroom")


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
    differences = list(base)
    for name in sorted(key for key in {*old, *new} if key is not None):
        if name not in new or name not in old:
            text = "a new profile" if name in new else "the profile is gone"
            differences.append(Difference("different", f"profiles.{name}", text, profile=name))
        else:
            own = [one for one in _compared(old[name], new[name]) if one not in base]
            differences += [Difference(one.effect, one.id, one.text, one.line, name) for one in own]
    if None in old and None in new:
        differences += _default(old, new)
    order = ("looser", "stricter", "different")
    return tuple(sorted(differences, key=lambda one: (order.index(one.effect), one.profile or "")))


def _default(old: Mapping[str | None, Policy], new: Mapping[str | None, Policy]) -> Iterator[Difference]:
    """What judges where no profile is named, as far as it is another profile than before."""
    was, now = (versions[None].default_profile or NO_PROFILE for versions in (old, new))
    if was == now:
        return
    before, after = (
        versions.get(None if name == NO_PROFILE else name) for versions, name in ((old, was), (new, now))
    )
    assert before
    assert after
    effects = {one.effect for one in _compared(before, after)}
    effect: Effect = next((one for one in ("looser", "stricter") if one in effects), "different")
    yield Difference(effect, "default_profile", f"without --profile it is judged by {now}, was {was}")


def _compared(old: Policy, new: Policy) -> Iterator[Difference]:
    yield from _objectives(old, new)
    yield from _request_bounds(old.goodput_bounds, new.goodput_bounds)
    yield from _load(old.workload.target, new.workload.target)
    yield from _sweep(old.workload.sweep, new.workload.sweep)
    yield from _tokens("workload.input_tokens", old.workload.input_tokens, new.workload.input_tokens)
    yield from _tokens("workload.output_tokens", old.workload.output_tokens, new.workload.output_tokens)
    text = "the endpoint makes no tokens: an answer without any is no failure"
    if old.tokenless:
        text = "an answer without any token is a failure again"
    yield from _moved("workload.output_tokens", old.tokenless, new.tokenless, text)
    was, now = old.evidence, new.evidence
    text = f"verdicts hold with {_share(now.confidence)}, was {_share(was.confidence)}"
    yield from _moved("evidence.confidence", was.confidence, now.confidence, text, larger="stricter")
    yield from _ordered("evidence.decide", was.decide, now.decide, _DECIDE)
    text = f"below five runs, latencies may differ by {_share(now.run_spread)}, was {_share(was.run_spread)}"
    yield from _moved("evidence.run_spread", was.run_spread, now.run_spread, text, larger="stricter")
    if was.warmup != now.warmup:
        text = f"requests dropped as warm-up: {now.warmup}, was {was.warmup}"
        yield Difference("different", "evidence.warmup", text)
    yield from _ignored(was.ignore, now.ignore)
    yield from _ordered("undecided", old.undecided, new.undecided, _BURDEN)
    yield from _ordered("semantics.cancelled", old.cancelled, new.cancelled, _MISSES)
    yield from _ordered("semantics.single_token_tpot", old.single_token_tpot, new.single_token_tpot, _MISSES)
    yield from _history(old.history, new.history)
    yield from _waivers(old.waivers, new.waivers)
    if old.name != new.name and not any(one.name == stem(one.path) for one in (old, new)):
        yield Difference("different", "name", f"{old.name} is now called {new.name}")


def _history(old: HistoryRules | None, new: HistoryRules | None) -> Iterator[Difference]:
    if old is None or new is None:
        text = f"growth is judged against the sessions of {(old or new or HistoryRules('', '', 0)).store}"
        if old is not None:
            text = f"no longer: {text}"
        yield from _moved("history", old is not None, new is not None, text, larger="stricter")
        return
    for name in HistoryRules.__struct_fields__:
        was, now = getattr(old, name), getattr(new, name)
        if was != now:
            yield Difference("different", f"history.{name}", f"is {now}, was {was}")


def _moved(
    id: str, old: float | None, new: float | None, text: str, line: int = 0, larger: Effect = "looser"
) -> Iterator[Difference]:
    """A figure that is another one: `larger` is what a larger one means."""
    if old != new:
        smaller: Effect = "stricter" if larger == "looser" else "looser"
        yield Difference(larger if (new or 0) > (old or 0) else smaller, id, text, line)


def _ordered(id: str, old: str, new: str, rank: Mapping[str, int]) -> Iterator[Difference]:
    yield from _moved(id, rank[old], rank[new], f"is {new}, was {old}", larger="stricter")


def _share(value: float | None) -> str:
    return units.show(value, units.SHARE)


def _time(value_s: float | None) -> str:
    return units.show(value_s or 0.0, units.SECONDS)


# ---- objectives -----------------------------------------------------------------------------


def _objectives(old: Policy, new: Policy) -> Iterator[Difference]:
    before, after = ({rule.id: rule for rule in policy.objectives} for policy in (old, new))
    gone = {key: rule for key, rule in before.items() if key not in after}
    come = {key: rule for key, rule in after.items() if key not in before}
    for now in list(come.values()):  # the same rule for other requests
        same = [was for was in gone.values() if _subject(was) == _subject(now)]
        if now.kind is Kind.LATENCY and len(same) == 1:
            name = f"{now.statistic.upper()} {now.metric.upper()}"
            text = f"{name} is about {_whose(now)}, was about {_whose(same[0])}"
            yield Difference(_scope(same[0], now), now.id, text, now.line)
            yield from _changed(same[0], now)
            del gone[same[0].id], come[now.id]
    for was in gone.values():
        weight = "is no longer asked" if was.level is Level.BLOCK else f"(level {was.level.value}) is gone"
        yield Difference("looser" if _WEIGHT[was.level] else "different", was.id, f"{_demand(was)} {weight}")
    for now in come.values():
        text = f"{_demand(now)} is new, at level {now.level.value}"
        yield Difference("stricter" if _WEIGHT[now.level] else "different", now.id, text, now.line)
    for key, now in after.items():
        if key in before:
            yield from _changed(before[key], now)


def _subject(rule: Objective) -> tuple[Kind, str, str]:
    return rule.kind, rule.metric, rule.statistic


def _scope(old: Objective, new: Objective) -> Effect:
    was, now = (grammar.population(rule.when) for rule in (old, new))
    if _within(now, was):
        return "looser"
    return "stricter" if _within(was, now) else "different"


def _within(inner: Mapping[str, tuple[float, float]], outer: Mapping[str, tuple[float, float]]) -> bool:
    ranges = [(inner.get(column, (0.0, float("inf"))), outer[column]) for column in outer]
    return all(mine[0] >= whole[0] and mine[1] <= whole[1] for mine, whole in ranges)


def _whose(rule: Objective) -> str:
    return f"requests with {rule.when.text}" if rule.when else "all requests"


def _changed(old: Objective, new: Objective) -> Iterator[Difference]:
    text = f"{_demand(new)} is at level {new.level.value}, was {old.level.value}"
    yield from _moved(new.id, _WEIGHT[old.level], _WEIGHT[new.level], text, new.line, larger="stricter")
    if old.bound != new.bound and None not in (old.bound, new.bound):
        larger: Effect = "looser" if new.operator == "<=" else "stricter"
        text = f"{_name(new)} is {new.operator} {_bound(new)}, was {_bound(old)}"
        yield from _moved(new.id, old.bound, new.bound, text, new.line, larger)
    elif old.id in _STATED and old.expected != new.expected:
        yield Difference("different", new.id, f"asks for {new.expected}, was {old.expected}", new.line)
    text = f"growth is fine below {_time(new.floor_s)}, was {_time(old.floor_s)}"
    yield from _moved(new.id, old.floor_s, new.floor_s, text, new.line)
    text = f"a missing baseline {'blocks' if new.required else 'no longer blocks'}"
    yield from _moved(new.id, old.required, new.required, text, new.line, larger="stricter")


def _bound(rule: Objective) -> str:
    return units.show(rule.bound, units.SHARE if rule.unit == units.RATIO else rule.unit)


def _name(rule: Objective) -> str:
    name = f"{rule.statistic.upper()} {rule.metric.upper()}"
    if rule.kind is Kind.REGRESSION:
        return f"growth of {name}"
    if rule.kind in (Kind.LATENCY, Kind.MEAN):
        return f"{name} for {_whose(rule)}" if rule.when else name
    return rule.id.replace("_", " ")


def _demand(rule: Objective) -> str:
    if rule.kind is Kind.RULE or rule.bound is None:
        return f"{rule.id} ({rule.expected})" if rule.expected else rule.id
    return f"{_name(rule)} {rule.operator} {_bound(rule)}"


# ---- the rest -------------------------------------------------------------------------------


def _request_bounds(old: Sequence[RequestBound], new: Sequence[RequestBound]) -> Iterator[Difference]:
    """What a good request is; goodput itself, where it came or went, is said as an objective."""
    keys = [{(b.metric, f"[{b.when.text}]" if b.when else ""): b for b in bounds} for bounds in (old, new)]
    for metric, when in dict.fromkeys((*keys[0], *keys[1])) if old and new else ():
        was, now = (bounds.get((metric, when)) for bounds in keys)
        id, name = f"goodput.request.{metric}{when}", metric.upper()
        if was and now:
            text = f"a good request has {name} <= {_time(now.max_s)}, was {_time(was.max_s)}"
            yield from _moved(id, was.max_s, now.max_s, text, now.line)
        elif now:
            text = f"a good request also meets {name} <= {_time(now.max_s)}"
            yield Difference("stricter", id, text, now.line)
        elif was:
            yield Difference("looser", id, f"a good request no longer meets {name} <= {_time(was.max_s)}")


def _load(old: Load | None, new: Load | None) -> Iterator[Difference]:
    if old is None or new is None or old == new:  # came or went: said as an objective
        return
    effect: Effect = "different"
    for was, now in ((old.concurrency, new.concurrency), (old.request_rate, new.request_rate)):
        if was is not None and now is not None and was != now and old.production == new.production:
            effect = "looser" if now < was else "stricter"
    yield Difference(effect, "workload.load", f"is judged at {new}, was at {old}")


def _sweep(old: tuple[float, ...], new: tuple[float, ...]) -> Iterator[Difference]:
    gone, come = (", ".join(map(_share, sorted(points))) for points in ({*old} - {*new}, {*new} - {*old}))
    if old and new and gone:
        yield Difference("looser", "workload.sweep", f"no longer asks for runs at {gone} of the load")
    if old and new and come:
        yield Difference("stricter", "workload.sweep", f"also asks for runs at {come} of the load")


def _tokens(id: str, old: TokenRule | None, new: TokenRule | None) -> Iterator[Difference]:
    if old is None or new is None:
        return
    text = f"mean length is {new.mean:g} tokens, was {old.mean:g}"
    yield from _moved(id, old.mean, new.mean, text, larger="stricter")
    if old.stddev != new.stddev:
        was, now = ("not asked" if rule.stddev is None else f"{rule.stddev:g}" for rule in (old, new))
        effect: Effect = "looser" if new.stddev is None else "stricter" if old.stddev is None else "different"
        yield Difference(effect, id, f"spread of lengths is {now}, was {was}")
    text = f"lengths may differ by {_share(new.tolerance)}, was {_share(old.tolerance)}"
    yield from _moved(id, old.tolerance, new.tolerance, text)


def _ignored(old: Sequence[str], new: Sequence[str]) -> Iterator[Difference]:
    for pattern in dict.fromkeys((*old, *new)):
        if pattern not in old:
            yield Difference("looser", "evidence.ignore", f"files called {pattern} are left out")
        elif pattern not in new:
            yield Difference("stricter", "evidence.ignore", f"files called {pattern} are read again")


def _waivers(old: Sequence[Waiver], new: Sequence[Waiver]) -> Iterator[Difference]:
    before, after = ({waiver.objective: waiver for waiver in waivers} for waivers in (old, new))
    for name in dict.fromkeys((*before, *after)):
        was, now, id = before.get(name), after.get(name), f"waivers.{name}"
        if now is None:
            yield Difference("stricter", id, f"the waiver of {name} is gone")
        elif was is None:
            text = f"a failure of {name} is waived until {now.until} by {now.owner}: {now.reason}"
            yield Difference("looser", id, text, now.line)
        else:
            text = f"the waiver of {name} ends {now.until}, was {was.until}"
            yield from _moved(id, was.until.toordinal(), now.until.toordinal(), text, now.line)
