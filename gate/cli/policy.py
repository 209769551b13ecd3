"""`slo-gate policy`: check and show policies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import Exit, UsageError
from ._shared import chosen_policy, policy_options

if TYPE_CHECKING:
    from ..model import Objective


@click.group(name="policy")
def command() -> None:
    """Check and show policies."""


@command.command(name="validate")
@click.argument("files", nargs=-1, required=True)
@click.option("--profile", metavar="NAME", help="Also check this profile.")
def policy_validate(files: Sequence[str], profile: str | None) -> int:
    """Check policy FILES against the rules and against the published schema."""
    from .. import policy
    from ..policy._published import faults

    for file in files:
        loaded = policy.load(file, profile=profile)
        for fault in faults(policy.document(Path(file).read_bytes(), file)):
            raise UsageError(f"valid for slo-gate, but not for the published schema: {fault}", file)
        click.echo(f"{file}: valid, {len(loaded.objectives)} objectives")
    return Exit.PASS


@command.command(name="show")
@policy_options
def policy_show(**options: Any) -> int:
    """Print the policy text of a preset, or the effective objectives of a policy."""
    from .. import policy

    if options["preset"] and not options["profile"]:
        click.echo(policy.preset_text(options["preset"]), nl=False)
        return Exit.PASS
    loaded = chosen_policy(options)
    for objective in loaded.objectives:
        click.echo(f"{loaded.path}:{objective.line}: {objective.level.value:5} {_describe(objective)}")
    return Exit.PASS


def _describe(objective: Objective) -> str:
    from ..evaluate import describe

    return f"{objective.id}: {describe(objective)}"
