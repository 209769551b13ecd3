"""`slo-gate completion`: scripts for shells."""

from __future__ import annotations

import click

from ..errors import Exit


@click.command(name="completion")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def command(shell: str) -> int:
    """Print the completion script for a SHELL; source it from the shell's start-up file."""
    from click.shell_completion import get_completion_class

    from . import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "slo-gate", "_SLO_GATE_COMPLETE").source())
    return Exit.PASS
