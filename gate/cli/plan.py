"""`slo-gate plan`: what must be measured, before a benchmark starts or after one that did not decide."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ..errors import Exit
from ._shared import chosen_policy, policy_options

if TYPE_CHECKING:
    from ..advise.plan import Need, Plan

_EXITS = """\b
Exit codes:
  0   shown, whatever is needed: a plan gates nothing
  2   usage or policy error
  3   a result file is missing or unreadable"""
_WIDTH = 100


@click.command(name="plan", epilog=_EXITS)
@click.argument("results", nargs=-1)
@policy_options
@click.option("--tool", metavar="NAME", help="Force a reader instead of recognising the files.")
@click.option(
    "--set", "stated", multiple=True, metavar="KEY=VALUE", help="State a fact the files cannot hold."
)
@click.option("--json", "json", is_flag=True, help="Print JSON.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(**options: Any) -> int:
    """Say what a policy needs to decide; with RESULTS, what is still missing."""
    found = _plan(options)
    if options["json"]:
        click.echo(_json(found))
    else:
        click.echo("\n".join(_text(found)))
    return Exit.PASS


def _plan(options: dict[str, Any]) -> Plan:
    from datetime import date

    from ..advise.plan import plan, remaining

    policy = chosen_policy(options)
    if not options["results"]:
        return plan(policy)
    from .. import readers

    gaps = any(objective.metric == "itl" for objective in policy.objectives)
    reading = readers.read(options["results"], tool=options["tool"], stated=options["stated"], gaps=gaps)
    return remaining(policy, reading.runs, date.today())


def _json(found: Plan) -> str:
    import json

    from msgspec import to_builtins

    document = to_builtins(found, str_keys=True)
    document["policy"] = {key: document["policy"][key] for key in ("name", "path", "sha256", "profile")}
    # A CI runner obeys `##[command]` anywhere in a line; inside a JSON string \u0023 is the same #.
    return json.dumps({"schema_version": 1, **document}, indent=2, allow_nan=False).replace("##", "#\\u0023")


def _text(found: Plan) -> Iterator[str]:
    from ..units import printable

    yield f"{printable(found.policy.name)}: {printable(found.headline)}"
    if any(one.least for one in found.needs):
        yield ""
        yield "Requests that can pass without one miss, if they are as good as independent"
        yield from _least([one for one in found.needs if one.least])
    rows = [(one.answer.upper(), one.id, one.level, one.text) for one in found.needs]
    rows += [(one.verdict.value.upper(), one.id, one.level, one.text) for one in found.missing]
    for answer, name, level, text in rows:
        yield ""
        yield f"  {answer}  {printable(name)}  ({level})"
        yield from _prose(printable(text))
    if found.notes:
        yield ""
        yield from (f"- {printable(note)}" for note in found.notes)


def _least(needs: list[Need]) -> Iterator[str]:
    rows = [("", *(f"{runs} run{'s' * (runs != 1)}" for runs in needs[0].least))]
    rows += [(one.id, *(f"{number:,}" for number in one.least.values())) for one in needs]
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *cells in rows:
        numbers = "  ".join(cell.rjust(size) for cell, size in zip(cells, sizes[1:], strict=True))
        yield f"  {first.ljust(sizes[0])}  {numbers}"


def _prose(text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8, break_long_words=False
    )
