"""What `slo-gate` is called with to judge what a recipe measures."""

from __future__ import annotations

import re
import shlex

from ..model import Kind, Policy
from ._tools import Tool

# Text of a policy that may stand in a script, a CI file or a command line as it is. Anything else (quotes,
# dollars, globs, a leading dash) could be read as code there and has to be given by the caller instead.
_INERT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*(?: [A-Za-z0-9._:/@+-]+)*")

_PATH = re.compile(r"[A-Za-z0-9._/][A-Za-z0-9._/-]*")
_PRESET = re.compile(r"preset:([a-z0-9.-]+)")


def inert(text: str | None) -> str:
    """`text` where it is no code in a shell, a YAML block or Groovy, else empty."""
    return text if text and _INERT.fullmatch(text) else ""


def compares(policy: Policy) -> bool:
    """Whether the policy has a regression, which needs the baseline measured in the same session."""
    return any(objective.kind is Kind.REGRESSION for objective in policy.objectives)


def needs_baseline(policy: Policy) -> bool:
    """Whether the gate blocks without a baseline."""
    return any(objective.kind is Kind.REGRESSION and objective.required for objective in policy.objectives)


def gate_command(policy: Policy, tool: Tool) -> str:
    """The `slo-gate check` of a recipe, for a shell. Facts the tool's files lack are stated."""
    words = ["slo-gate", "check", "results/head", *_policy(policy)]
    stated = {
        "tool_version": tool.version if policy.evidence.tool_version_required else None,
        "hardware": policy.workload.hardware,
        "interaction": policy.workload.interaction,
    }
    for key, value in stated.items():
        if value and key not in tool.writes:
            words += ["--set", f"{key}={inert(value) or 'STATE-IT'}"]
    # bench.sh measures the baseline where it has a server for it, and nowhere else.
    baseline = " ${BASE_URL:+--baseline results/base --same-session}" if compares(policy) else ""
    return shlex.join(words) + baseline


def until_certain(policy: Policy) -> str:
    """The `slo-gate run` that stops as soon as the verdict is certain, instead of all runs."""
    once = "bash bench.sh once {load} {seed} {dir}"
    words = shlex.join(["slo-gate", "run", *_policy(policy)])
    if compares(policy):  # a red is measured once more before it counts
        words += f' ${{BASE_URL:+--baseline-command "{once} $BASE_URL" --confirm}}'
    return f"{words} -- {once}"


def _policy(policy: Policy) -> list[str]:
    """The options that name it; slo.yaml where its path is no plain one."""
    preset = _PRESET.fullmatch(policy.path)
    path = policy.path if _PATH.fullmatch(policy.path) else "slo.yaml"
    words = ["--preset", preset[1]] if preset else ["--policy", path]
    return words + (["--profile", policy.profile] if policy.profile else [])
