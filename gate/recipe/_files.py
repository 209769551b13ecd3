"""The files of a recipe: one shell script, the CI file that runs it, the page that explains both."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from .. import units
from ..emit.format import PERCENTILES, markdown, plain
from ..emit.templates import markup, render
from ..model import REQUEST_METRICS, Kind, Objective, Policy
from . import _commands as commands
from ._lengths import command_lengths, left_out
from ._plan import Plan
from ._tools import Tool

TEMPLATES = Path(__file__).with_name("templates")
FILES = {
    "github": ".github/workflows/slo-gate.yml",
    "gitlab": "slo-gate.gitlab-ci.yml",
    "jenkins": "Jenkinsfile.slo-gate",
}
FACTS = frozenset(("tool_version", "model", "hardware"))  # that bench.sh puts beside a file without them
_CI = {"github": "github.yml.j2", "gitlab": "gitlab.yml.j2", "jenkins": "jenkins.groovy.j2"}
# It is on no package index, where anybody could take its name: a commit of a repository is what it says.
_PACKAGE = "git+https://github.com/your-org/slo-gate@0123456789abcdef0123456789abcdef01234567"

# Makes the client's environment, with the Python that the client supports.
_UV = "uv==0.13.9"
# What bench.sh takes from the environment, and so from the variables SLO_... of a CI system.
_VARIABLES = {
    "MODEL": "the model as the server names it",
    "TOKENIZER": "its tokenizer, where that has another name: a folder or a name on the hub",
    "DATASET": "the JSONL file of prompts",
    "HARDWARE": "what serves the model, such as 8xH100",
}


def script(
    policy: Policy, tool: Tool, plan: Plan, never: Sequence[tuple[str, str]]
) -> tuple[str, tuple[str, ...]]:
    """`bench.sh` (warm-up, every load, every run, baseline and candidate in turn), and notes about it.

    `never` are the ids of what blocks and can never pass, and why.
    """
    lengths = command_lengths(tool, plan)
    notes, unproven = (*tool.notes, *lengths.notes), dict(left_out(policy, tool))
    text = render(
        TEMPLATES / "bench.sh.j2",
        shlex.quote,
        policy=policy,
        tool=tool,
        plan=plan,
        notes=(*plan.notes, *notes),
        never=never,
        unproven=unproven,
        open_loop=plan.open_loop,
        inputs=lengths.inputs,
        outputs=lengths.outputs,
        ratio=lengths.ratio,
        most_output=max(1, round(2 * plan.output_tokens.mean)),
        model=markup(commands.inert(policy.workload.model)),
        hardware=markup(commands.inert(policy.workload.hardware)),
        warmup=max(50, plan.target.load.concurrency or 0),
        installed=markup(tool.installed),
        lacking=FACTS - tool.writes,
        compares=commands.compares(policy),
        gate=markup(commands.gate_command(policy, unproven)),
        until_certain=markup(commands.until_certain(policy, unproven, plan.until_certain)),
        needs_baseline=commands.needs_baseline(policy),
        comment=lambda words: markup(plain(words)),
    )
    return text, notes


def ci_file(system: str, policy: Policy, tool: Tool, script: str) -> tuple[str, str]:
    """(file name, text) for a key of FILES, to run a `bench.sh`.

    A profile says when it runs: pr, nightly, release, or as pr.
    """
    profile = (policy.profile or "").lower()
    text = render(
        TEMPLATES / _CI[system],
        shlex.quote,
        trigger=next((word for word in ("nightly", "release") if word in profile), "pr"),
        compares=commands.compares(policy),
        package=_PACKAGE,
        uv=_UV,
        python=tool.python,
        variables={name: what for name, what in _VARIABLES.items() if f"${{{name}:" in script},
        install=markup(tool.install),
        gate=markup(commands.gate_command(policy, dict(left_out(policy, tool)), ci=True)),
    )
    return FILES[system], text


def page(
    policy: Policy,
    tool: Tool,
    plan: Plan,
    objectives: Sequence[tuple[Objective, str]],
    files: Sequence[tuple[str, str]],
    notes: Sequence[str],
    never: Sequence[tuple[str, str]],
) -> str:
    """What is promised, how it is measured, how it is judged, as Markdown.

    `objectives` are the objectives with their rule in words, `files` the script and the CI file.
    """
    target = next((one.bound for one, _ in objectives if one.kind is Kind.GOODPUT), None)
    unproven = dict(left_out(policy, tool))
    latency = [objective for objective in policy.objectives if objective.kind is Kind.LATENCY]

    def cell(metric: str, statistic: str) -> list[Objective]:
        return [one for one in latency if (one.metric, one.statistic) == (metric, statistic)]

    return render(
        TEMPLATES / "page.md.j2",
        markdown,
        policy=policy,
        tool=tool,
        plan=plan,
        rules=[(one, words) for one, words in objectives if one.kind is not Kind.RULE],
        goodput_target="" if target is None else units.show(target, units.SHARE),
        percentiles={metric.upper(): [cell(metric, at) for at in PERCENTILES] for metric in REQUEST_METRICS},
        files=files,
        notes=(*plan.notes, *notes),
        never=never,
        unproven=unproven,
        compares=commands.compares(policy),
        gate=commands.gate_command(policy, unproven),
        until_certain=commands.until_certain(policy, unproven, plan.until_certain),
        time=lambda seconds: units.show(seconds, units.SECONDS),
        sentence=lambda words: words[0].upper() + words[1:],
        verbatim=markup,
    )
