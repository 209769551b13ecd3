"""From a policy to the benchmark it asks for, and from answers to a policy. Pure: text in, text out."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..errors import PolicyError
from ..model import Objective, Policy
from ._commands import gate_command
from ._files import FILES, ci_file, page, script
from ._lengths import drawn_otherwise, left_out, unmet
from ._plan import Lengths, Plan, plan
from ._tools import OTHERS, TOOLS, Tool, proofs

__all__ = [
    "FILES",
    "OTHERS",
    "SCRIPT",
    "TOOLS",
    "Recipe",
    "Tool",
    "client",
    "drawable",
    "markdown",
    "proofs",
    "recipe",
]

SCRIPT = "bench.sh"


class Recipe(Struct, frozen=True):
    """How to measure what a policy promises, with one tool."""

    policy: Policy
    tool: Tool
    plan: Plan
    files: tuple[tuple[str, str], ...]  # (name, text): the script, then the CI file if one is asked for
    gate: str  # the `slo-gate check` that judges the results
    notes: tuple[str, ...]  # about the command
    never: tuple[tuple[str, str], ...]  # what blocks and no benchmark with this tool can pass: id, and why
    unproven: tuple[tuple[str, str], ...]  # what the gate leaves out, as no file of this tool shows it


def recipe(policy: Policy, tool_name: str, *, ci: str | None = None, peak: int | None = None) -> Recipe:
    """The recipe for a tool of TOOLS; `ci` is a key of FILES, `peak` stands in for an undeclared load.

    Raises PolicyError where the policy has no load, or one that the tool cannot make.
    """
    tool = TOOLS[tool_name]
    planned = plan(policy, peak=peak)
    if planned.open_loop and not tool.open_loop:
        others = ", ".join(name for name, one in TOOLS.items() if one.open_loop)
        message = f"asks for a request rate, and {tool.title} keeps a number of requests in flight instead"
        raise PolicyError(message, policy.path, f"choose one of {others}, or declare a concurrency")
    never = (*((one.id, one.text) for one in planned.never), *unmet(policy, tool, planned))
    text, notes = script(policy, tool, planned, never)
    files = [(SCRIPT, text)]
    if ci is not None:
        files.append(ci_file(ci, policy, tool, text))
    unproven = left_out(policy, tool)
    gate = gate_command(policy, dict(unproven))
    return Recipe(policy, tool, planned, tuple(files), gate, notes, never, tuple(unproven))


def client(policy: Policy) -> str:
    """The first tool of TOOLS that proves all that blocks, or that leaves the least open."""
    able = [name for name, tool in TOOLS.items() if tool.open_loop or not plan(policy).open_loop]
    made = {name: recipe(policy, name) for name in able}
    return min(able, key=lambda name: len(made[name].never) + len(made[name].unproven))


def drawable(policy: Policy, tool_name: str) -> dict[str, Lengths]:
    """What a tool of TOOLS draws instead of the declared lengths that it cannot draw, by side."""
    peak = 1 if policy.workload.target is None else None  # the load changes no length
    return drawn_otherwise(policy, TOOLS[tool_name], plan(policy, peak=peak))


def markdown(recipe: Recipe, rules: Sequence[tuple[Objective, str]]) -> str:
    """The recipe as one page; `rules` are the policy's objectives, each with its rule in words."""
    return page(recipe.policy, recipe.tool, recipe.plan, rules, recipe.files, recipe.notes, recipe.never)
