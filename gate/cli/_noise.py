"""`slo-gate history noise`: how much sessions vary without a change, and the rules of growth that follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ..errors import Exit
from ._history import store_option
from ._lines import show
from ._shared import aligned, as_json

if TYPE_CHECKING:
    from ..model import Noise, NoiseLoad

_RUNS = "Runs that a pull request measures.  [default: 5]"


@click.command(name="noise")
@store_option
@click.option("--branch", metavar="NAME", help="Whose sessions. Default: main, else the one that has most.")
@click.option("--runs", type=click.IntRange(2), metavar="N", help=_RUNS)
@click.option("--json", "json", is_flag=True, help="Print JSON.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(store: str | None, branch: str | None, runs: int | None, json: bool, debug: bool) -> int:
    """Show how much sessions vary, and the rules that follow.

    Of those that a baseline may hold: the growth that can be shown, and the `regression` of a policy.
    """
    from ..advise.noise import RUNS, noise
    from .trend import sessions_of

    held = sessions_of(store, branch)
    found = noise(held.records, held.store, held.branch, held.left_out, runs or RUNS, held.notes)
    if json:
        from msgspec import to_builtins

        click.echo(as_json(to_builtins(found)))
    else:
        show(*_text(found))
    return Exit.PASS


def _text(found: Noise) -> Iterator[str]:
    from ..advise.noise import why_no_rule
    from ..units import SHARE, show as shown

    power, confidence = shown(found.power, SHARE), shown(found.confidence, SHARE)
    yield f"Noise of {found.store}, branch {found.branch}; a pull request of {found.runs} runs"
    for load in found.loads:
        yield ""
        yield from _load(load)
    yield ""
    yield "run, session: standard deviations of the logarithm. one job, stored: growth"
    yield f"that {power} of pull requests show at {confidence}, base and head in one job, or against"
    yield "the stored sessions."
    if found.regression:
        yield f"max: what an unchanged build passes with {power}. The policy that follows:"
        yield ""
        yield from found.regression.splitlines()
    else:
        yield f"No rule follows: {why_no_rule(found)}."
    yield from (f"- {note}" for note in found.notes)


def _load(load: NoiseLoad) -> Iterator[str]:
    from ..units import SHARE, show as shown

    facts = f"{load.model or 'model not stated'} on {load.hardware or 'hardware not stated'}"
    left = f", {load.left_out} left out" if load.left_out else ""
    judged = "" if load.judged else " (not judged)"
    yield f"{load.policy}: {facts}, {load.tool}"
    number = f"{load.sessions} session{'s' * (load.sessions != 1)} fit for a baseline"
    yield f"  {load.load}{judged}: {number}{left}"
    if not load.figures:
        yield "  nothing to compare: two sessions of two runs or more are the least"
        return

    def percent(value: float | None) -> str:
        return "-" if value is None else shown(float(f"{value:.3g}"), SHARE)

    rows = [("figure", "sessions", "runs", "run", "session", "one job", "stored", "max")]
    for one in load.figures:
        metric, _, percentile = one.id.partition(".")
        values = (one.run_sigma, one.session_sigma, one.same_job_growth, one.stored_growth, one.max)
        cells = tuple(map(percent, values))
        name = f"{percentile.upper()} {metric.upper()}"
        rows.append((name, str(one.sessions), str(one.runs), *cells))  # type: ignore[arg-type]
    yield from aligned(rows, set(range(1, 8)))
