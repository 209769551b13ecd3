"""What `slo-gate` is called with to judge what a recipe measures."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from ..model import Kind, Policy

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


def gate_command(policy: Policy, unproven: Iterable[str], *, ci: bool = False) -> str:
    """The `slo-gate check` of a recipe, for a shell; in CI with the baseline only where its server is set.

    `unproven` are the ids of rules that no file of the client shows.
    """
    words = shlex.join(["slo-gate", "check", "results/head", *_terms(policy, unproven)])
    baseline = "--baseline results/base --same-session" if compares(policy) else ""
    return f"{words} {f'${{BASE_URL:+{baseline}}}' if ci else baseline}" if baseline else words


def until_certain(policy: Policy, unproven: Iterable[str], runs: int) -> str:
    """The `slo-gate run` on the same terms, of at most so many runs, which stops as soon as it is certain."""
    once = "bash bench.sh once {load} {seed} {dir}"
    servers, words = (
        "URL=http://server:8000",
        ["slo-gate", "run", *_terms(policy, unproven), "--runs", str(runs)],
    )
    if compares(policy):  # a red is measured once more before it counts
        servers += " BASE_URL=http://base:8000"
        words += ["--baseline-command", f"{once} base", "--confirm"]
    return f"{servers} {shlex.join(words)} -- {once}"


def _terms(policy: Policy, unproven: Iterable[str]) -> list[str]:
    """What both judge by: the policy, and what no client writes down and bench.sh does not know."""
    left_out = [word for name in unproven for word in ("--unproven", name)]
    interaction = policy.workload.interaction
    return [*_policy(policy), *(["--set", f"interaction={interaction}"] if interaction else []), *left_out]


def _policy(policy: Policy) -> list[str]:
    """The options that name it; slo.yaml where its path is no plain one."""
    preset = _PRESET.fullmatch(policy.path)
    path = policy.path if _PATH.fullmatch(policy.path) else "slo.yaml"
    words = ["--preset", preset[1]] if preset else ["--policy", path]
    return words + (["--profile", policy.profile] if policy.profile else [])
