"""`slo-gate inspect`: what result files hold and what they can prove."""

from __future__ import annotations

from typing import Any

import click

from ..errors import Exit
from ._shared import columns, jobs_option, named, read_results, reading_options


@click.command(name="inspect")
@click.argument("results", nargs=-1, type=named)
@reading_options
@jobs_option
@click.option("-v", "--verbose", is_flag=True, help="Show every run in full.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(**options: Any) -> int:
    """Show what RESULTS hold: counts, every metric under both conventions, and what can be judged."""
    from ..emit import inspection, json_
    from ..evaluate import inspect_runs

    reading = read_results(options, "name one: `slo-gate inspect RESULTS`", gaps=True)
    found = inspect_runs(reading.runs)
    if options["as_json"]:
        click.echo(json_.inspections(found), nl=False)
        return Exit.PASS
    said = {"width": max(60, columns()), "verbose": options["verbose"]}
    click.echo(inspection.emit(found, reading.notes, **said), nl=False)
    return Exit.PASS
