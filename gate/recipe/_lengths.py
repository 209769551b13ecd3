"""Token lengths as the commands of the tools take them (templates/clients): whole numbers, one law each."""

from __future__ import annotations

import math

from msgspec import Struct

from ._plan import Lengths, Plan


class Law(Struct, frozen=True):
    """Whole tokens of a command line."""

    mean: int  # the longest length, to SGLang
    stddev: int
    low: int  # three standard deviations below the mean
    high: int


class CommandLengths(Struct, frozen=True):
    """What the template of a tool's command is given."""

    inputs: Law
    outputs: Law
    ratio: str  # of the tools with one uniform law for both
    notes: tuple[str, ...]  # for people


def command_lengths(tool: str, plan: Plan) -> CommandLengths:
    """The lengths of a plan in the law of a tool: uniform to vLLM and SGLang, normal to the others."""
    inputs, outputs = plan.input_tokens, plan.output_tokens
    # A uniform length on mean x [1 - half, 1 + half] has the stddev half x mean / sqrt(3).
    half = min(0.95, math.sqrt(3) * inputs.stddev / inputs.mean)
    if tool == "vllm":
        ratio = half = round(half, 2)
        law = f"mean x [1 - {ratio:g}, 1 + {ratio:g}]"
        longest = 1.0
    elif tool == "sglang":  # on [longest x ratio, longest]
        ratio = round((1 - half) / (1 + half), 2)
        half = (1 - ratio) / (1 + ratio)
        law = f"[{ratio:g}, 1] x the length on the command line"
        longest = 2 / (1 + ratio)
    else:
        return CommandLengths(_law(inputs), _law(outputs), "", ())
    notes = (f"lengths are uniform on {law}", *_spread(half * outputs.mean / math.sqrt(3), outputs))
    return CommandLengths(_law(inputs, longest), _law(outputs, longest), f"{ratio:g}", notes)


def _law(lengths: Lengths, longest: float = 1.0) -> Law:
    low, mean, stddev = (
        max(1, round(tokens))
        for tokens in (lengths.mean - 3 * lengths.stddev, longest * lengths.mean, lengths.stddev)
    )
    return Law(mean, stddev, low, max(low, round(lengths.mean + 3 * lengths.stddev)))


def _spread(stddev: float, wanted: Lengths) -> tuple[str, ...]:
    """A note where a tool cannot shape the second length as it shapes the first."""
    if abs(stddev - wanted.stddev) <= max(0.1 * wanted.stddev, 1):
        return ()
    return (
        f"this tool has one spread for input and output: outputs get a stddev of {stddev:.0f} tokens,"
        f" not {wanted.stddev:g}",
    )
