"""`slo-gate inspect`: what result files hold and what they can prove."""

from __future__ import annotations

from typing import Any

import click

from ..errors import Exit, UsageError
from ._shared import columns


@click.command(name="inspect")
@click.argument("results", nargs=-1)
@click.option("--tool", metavar="NAME", help="Force a reader instead of recognising the file.")
@click.option(
    "--set", "stated", multiple=True, metavar="KEY=VALUE", help="State a fact the files cannot hold."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(**options: Any) -> int:
    """Show what RESULTS hold: counts, every metric under both conventions, and what can be judged."""
    from .. import readers
    from ..emit import inspection, json_
    from ..evaluate import inspect_runs

    if not options["results"]:
        raise UsageError("no result file is named", "", "slo-gate inspect results.json")
    reading = readers.read(options["results"], tool=options["tool"], stated=options["stated"], gaps=True)
    found = inspect_runs(reading.runs)
    if options["as_json"]:
        click.echo(json_.inspections(found), nl=False)
        return Exit.PASS
    width = max(60, columns())
    click.echo(inspection.emit(found, width=width), nl=False)
    for note in reading.notes:
        click.echo(inspection.note(note, width=width), nl=False)
    return Exit.PASS
