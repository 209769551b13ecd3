"""Token lengths as the commands of the tools take them (templates/clients), and what the tools draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from statistics import NormalDist, fmean, pstdev

from msgspec import Struct

from ..model import METRICS, Level, Policy, TokenRule
from ..policy import PROVABLE
from ._plan import Lengths, Plan
from ._tools import TOOLS, Tool

SIDES = ("input_tokens", "output_tokens")
RATIOS = [step / 100 for step in range(100)]  # of a uniform law, as a command line takes them
CLOSE = 0.03  # relative: a spread this near is the one that was asked for
_Z = [NormalDist().inv_cdf((step + 0.5) / 1000) for step in range(1000)]


class Law(Struct, frozen=True):
    """Whole tokens of a command line."""

    mean: int  # the longest length, to SGLang
    stddev: int
    low: int  # three standard deviations below the mean; the shortest, where that is uniform
    high: int


class CommandLengths(Struct, frozen=True):
    """What the template of a tool's command is given, and what the tool makes of it."""

    inputs: Law
    outputs: Law
    ratio: str  # of the tools with a uniform law: a number, or one for each side as JSON
    drawn: tuple[Lengths, Lengths] | None  # of prompts and of outputs; None where a data set has them
    notes: tuple[str, ...]  # for people


def command_lengths(tool: Tool, plan: Plan) -> CommandLengths:
    """The lengths of a plan in the law of a tool."""
    wanted = plan.input_tokens, plan.output_tokens
    if tool.draws in ("around", "alike"):
        single = _nearest(_around, *wanted)
        ratios = (single, single)
        near = all(_off(_around(one, single), one) <= CLOSE for one in wanted)
        if tool.draws == "around" and not near:
            ratios = _nearest(_around, wanted[0]), _nearest(_around, wanted[1])
        said, different = f"{ratios[0]:g}", ratios[0] != ratios[1]
        if different:
            said = f'{{"input":{ratios[0]:g},"output":{ratios[1]:g}}}'
        drawn = _around(wanted[0], ratios[0]), _around(wanted[1], ratios[1])
        spans = (f"mean x [1 - {ratio:g}, 1 + {ratio:g}]" for ratio in dict.fromkeys(ratios))
        note = f"lengths are uniform on {', those of outputs on '.join(spans)}"
        return CommandLengths(_law(wanted[0]), _law(wanted[1]), said, drawn, (note,))
    if tool.draws == "below":
        ratio = _nearest(_below, *wanted)
        if not all(_off(_below(one, ratio), one) <= CLOSE for one in wanted):
            ratio = _nearest(_below, wanted[0])  # no ratio suits both: prompts come first
        longest = 2 / (1 + ratio)
        note = f"lengths are uniform on [{ratio:g}, 1] x the length on the command line"
        drawn = _below(wanted[0], ratio), _below(wanted[1], ratio)
        return CommandLengths(
            _law(wanted[0], longest), _law(wanted[1], longest), f"{ratio:g}", drawn, (note,)
        )
    if tool.draws == "between":
        first, second = _span(wanted[0]), _span(wanted[1])
        between = _uniform(first.low, first.high), _uniform(second.low, second.high)
        return CommandLengths(first, second, "", between, ("lengths are uniform between two whole numbers",))
    if tool.draws == "data set":
        return CommandLengths(_law(wanted[0]), _law(wanted[1]), "", None, ())
    (inputs, prompts), (answers, outputs) = (_bent(one, again=tool.draws == "again") for one in wanted)
    return CommandLengths(inputs, answers, "", (prompts, outputs), ())


def left_out(policy: Policy, tool: Tool) -> list[tuple[str, str]]:
    """(id, why) of what blocks and is said of the benchmark, where no file of this tool shows it."""
    return [(name, why) for name, why in _unshown(policy, tool) if name in PROVABLE]


def unmet(policy: Policy, tool: Tool, plan: Plan) -> Iterator[tuple[str, str]]:
    """(id, why) of what blocks and no benchmark with this tool can decide, and is not left out."""
    for name, why in _unshown(policy, tool):
        if name not in PROVABLE:
            yield name, f"{why}; `level: info` in the profile leaves the rule out"
    for side, drawn in drawn_otherwise(policy, tool, plan).items():
        if f"workload.{side}" not in _blocking(policy) or side in tool.cannot_show:
            continue
        rule: TokenRule = getattr(policy.workload, side)
        others = [one.title for one in TOOLS.values() if _could(one, plan, SIDES.index(side), rule)]
        way = f"use {' or '.join(others)}, or declare" if others else "declare"
        made, asked = (f"{one.mean:.4g} +- {one.stddev or 0:.3g}" for one in (drawn, rule))
        yield (
            f"workload.{side}",
            f"{tool.title} draws {made} tokens, {asked} are declared; {way} what it draws",
        )


def drawn_otherwise(policy: Policy, tool: Tool, plan: Plan) -> dict[str, Lengths]:
    """What a tool draws instead of the declared lengths that it cannot draw, by side."""
    pairs = zip(SIDES, command_lengths(tool, plan).drawn or (), strict=False)
    rules = {side: getattr(policy.workload, side) for side in SIDES}
    return {side: drawn for side, drawn in pairs if rules[side] and not _meets(drawn, rules[side])}


def _unshown(policy: Policy, tool: Tool) -> Iterator[tuple[str, str]]:
    blocking = _blocking(policy)
    for one in policy.objectives:
        bounds = {bound.metric for bound in policy.goodput_bounds} if one.metric == "goodput" else set()
        lacking = sorted(tool.cannot_show & {one.metric, *bounds})
        if one.id in blocking and lacking:
            names = (name.upper() if name in METRICS else name.replace("_", " ") for name in lacking)
            yield one.id, f"no row of {tool.title} shows {' and '.join(names)}"


def _blocking(policy: Policy) -> set[str]:
    return {one.id for one in policy.objectives if one.level is Level.BLOCK}


def _could(tool: Tool, plan: Plan, index: int, rule: TokenRule) -> bool:
    drawn = command_lengths(tool, plan).drawn
    open_loop = tool.open_loop or not plan.open_loop
    return drawn is not None and open_loop and not tool.cannot_show and _meets(drawn[index], rule)


def _meets(drawn: Lengths, rule: TokenRule) -> bool:
    """Within half of the tolerance: the other half is for the draw."""
    pairs = [(drawn.mean, rule.mean), *([] if rule.stddev is None else [(drawn.stddev, rule.stddev)])]
    return all(abs(made - asked) <= rule.tolerance / 2 * asked for made, asked in pairs)


# ---- laws -----------------------------------------------------------------------------------


def _nearest(law: Callable[[Lengths, float], Lengths], *wanted: Lengths) -> float:
    """The ratio whose worst spread is nearest to what is wanted."""
    return min(RATIOS, key=lambda ratio: max(_off(law(one, ratio), one) for one in wanted))


def _off(drawn: Lengths, wanted: Lengths) -> float:
    return abs(drawn.stddev - wanted.stddev) / max(wanted.stddev, 1)


def _around(wanted: Lengths, ratio: float) -> Lengths:
    """Of vLLM: whole lengths on [mean (1 - ratio), mean (1 + ratio)], rounded outwards."""
    mean = max(1, round(wanted.mean))
    return _uniform(max(1, math.floor(mean * (1 - ratio))), math.ceil(mean * (1 + ratio)))


def _below(wanted: Lengths, ratio: float) -> Lengths:
    """Of SGLang: whole lengths on [longest x ratio, longest], where the longest is on its command line."""
    longest = max(1, round(2 * wanted.mean / (1 + ratio)))
    return _uniform(max(1, int(longest * ratio)), longest)


def _span(wanted: Lengths) -> Law:
    """Of evalscope: whole lengths on [low, high], as many of them as have the spread."""
    number = max(1, round(math.sqrt(12 * wanted.stddev**2 + 1)))
    low = max(1, round(wanted.mean - (number - 1) / 2))
    return Law(round(wanted.mean), round(wanted.stddev), low, low + number - 1)


def _uniform(low: int, high: int) -> Lengths:
    return Lengths((low + high) / 2, math.sqrt(((high - low + 1) ** 2 - 1) / 12))


def _bent(wanted: Lengths, *, again: bool) -> tuple[Law, Lengths]:
    """The normal law from which lengths of at least one token come out as wanted, and what does come out."""
    asked = wanted
    for _ in range(20):
        made = _normal(asked, again=again)
        if max(_off(made, wanted), abs(made.mean - wanted.mean) / wanted.mean) <= CLOSE / 3:
            break
        mean, stddev = asked.mean + wanted.mean - made.mean, asked.stddev + wanted.stddev - made.stddev
        asked = Lengths(max(1.0, mean), max(0.0, stddev))
    law = _law(asked)
    return law, _normal(Lengths(law.mean, law.stddev), again=again)


def _normal(law: Lengths, *, again: bool) -> Lengths:
    values = [law.mean + law.stddev * z for z in _Z]
    if again:  # what is below one token is drawn again, else cut off there
        values = [value for value in values if value >= 1] or [1.0]
    whole = [max(1, round(value)) for value in values]
    return Lengths(fmean(whole), pstdev(whole))


def _law(lengths: Lengths, longest: float = 1.0) -> Law:
    low, mean, stddev = (
        max(1, round(tokens))
        for tokens in (lengths.mean - 3 * lengths.stddev, longest * lengths.mean, lengths.stddev)
    )
    return Law(mean, stddev, low, max(low, round(lengths.mean + 3 * lengths.stddev)))
