"""`slo-gate schema`: the published JSON Schemas."""

from __future__ import annotations

import click

from ..errors import Exit


@click.command(name="schema")
@click.argument("name", type=click.Choice(("policy", "report", "history", "trend")))
def command(name: str) -> int:
    """Print the published JSON Schema of policies, reports, history or trends."""
    import json

    from .._schemas import load

    click.echo(json.dumps(load(name), indent=2, ensure_ascii=False))
    return Exit.PASS
