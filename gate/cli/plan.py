"""`slo-gate plan`: what must be measured, before a benchmark starts or after one that did not decide."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ..errors import Exit
from ._lines import show
from ._shared import (
    advice_json,
    aligned,
    chosen_policy,
    jobs_option,
    named,
    needs_gaps,
    policy_options,
    read_results,
    reading_options,
)

if TYPE_CHECKING:
    from ..advise.plan import Need, Plan

_EXITS = """\b
Exit codes:
  0   shown, whatever is needed: a plan gates nothing
  2   usage or policy error
  3   a result file is missing or unreadable"""
_WIDTH = 100


@click.command(name="plan", epilog=_EXITS)
@click.argument("results", nargs=-1, type=named)
@policy_options
@reading_options
@jobs_option
@click.option("--json", "json", is_flag=True, help="Print JSON.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(**options: Any) -> int:
    """Say what a policy needs to decide; with RESULTS, what is still missing."""
    found = _plan(options)
    if options["json"]:
        click.echo(advice_json(found))
    else:
        show(*_text(found))
    return Exit.PASS


def _plan(options: dict[str, Any]) -> Plan:
    from datetime import date

    from ..advise.plan import plan, remaining

    policy = chosen_policy(options)
    if not options["results"]:
        return plan(policy)
    reading = read_results(options, "", policy, gaps=needs_gaps(policy))
    return remaining(policy, reading.runs, date.today())


def _text(found: Plan) -> Iterator[str]:
    yield f"{found.policy.name}: {found.headline}"
    if any(one.least for one in found.needs):
        yield ""
        yield "Requests that can pass without one miss, if they are as good as independent"
        yield from _least([one for one in found.needs if one.least])
    rows = [(one.answer.upper(), one.id, one.level, one.text) for one in found.needs]
    rows += [(one.verdict.value.upper(), one.id, one.level, one.text) for one in found.missing]
    for answer, name, level, text in rows:
        yield ""
        yield f"  {answer}  {name}  ({level})"
        yield from _prose(text)
    if found.notes:
        yield ""
        yield from (f"- {note}" for note in found.notes)


def _least(needs: list[Need]) -> Iterator[str]:
    rows = [("", *(f"{runs} run{'s' * (runs != 1)}" for runs in needs[0].least))]
    rows += [(one.id, *(f"{number:,}" for number in one.least.values())) for one in needs]
    return aligned(rows, right=range(1, len(rows[0])))


def _prose(text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8, break_long_words=False
    )
