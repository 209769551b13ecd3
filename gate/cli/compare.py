"""`slo-gate compare`: how much every percentile moved between two builds, without a policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..errors import Exit, UsageError
from ._baseline import baseline_options, read_baseline
from ._lines import show
from ._shared import (
    aligned,
    columns,
    jobs_option,
    named,
    read_results,
    reading_options,
)

if TYPE_CHECKING:
    from ..model import Change, Comparison

_EXITS = """\b
Exit codes:
  0   shown, whatever moved: a comparison without a policy gates nothing
  2   usage error
  3   a file is missing or unreadable, or the baseline is of another benchmark"""


@click.command(name="compare", epilog=_EXITS)
@click.argument("baseline", type=named)
@click.argument("results", nargs=-1, required=True, type=named)
@baseline_options
@reading_options
@jobs_option
@click.option(
    "--warmup",
    default="auto",
    show_default=True,
    metavar="auto|N",
    help="Requests dropped from the start of each run, as evidence.warmup of a policy.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show every percentile and note.")
@click.option("--json", "json", is_flag=True, help="Print JSON.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(**options: Any) -> int:
    """Compare RESULTS with BASELINE (each a file, folder or glob; the baseline also a saved report)."""
    from ..evaluate import compare_loads
    from ..model import EvidenceRules

    evidence = EvidenceRules(warmup=_warmup(options["warmup"]))
    reading = read_results(options, "")
    found = compare_loads(reading.runs, read_baseline([options["baseline"]], options, gaps=False), evidence)
    if options["json"]:
        from ..emit.json_ import comparisons

        click.echo(comparisons(found), nl=False)
    else:
        from ..emit.layout import MOST, capped, rows

        lines, width = list(_text(found, reading.notes)), columns()
        if not options["verbose"] and sum(rows(line, width) for line in lines) > MOST:
            lines = capped(list(_text(found, reading.notes, moved=True)), width)
        show(*lines)
    return Exit.PASS


def _warmup(text: str) -> int | str:
    if text == "auto":
        return text
    if not text.isdecimal() or len(text) > 9:
        raise UsageError(f'--warmup "{text}" is no number of requests', "", "write auto, 0 or a whole number")
    return int(text)


def _text(found: Sequence[Comparison], notes: Sequence[str], *, moved: bool = False) -> Iterator[str]:
    """Every percentile of every load, or only those that moved."""
    for number, one in enumerate(found):
        if number:
            yield ""
        load = str(one.load) if one.load is not None else "a load that is not stated"
        runs = f"{one.runs[1]} run{'s' * (one.runs[1] > 1)}"
        yield f"{load}: {runs} against {one.runs[0]} of {one.name}, {_weight(one)}"
        shown = [change for change in one.changes if not moved or _said(change)]
        yield from _table(shown) if shown else ()
        if left := len(one.changes) - len(shown):
            yield f"  {left} percentile{'s' * (left > 1)} without a change that is shown: -v has them"
        for note in one.notes:
            yield f"  - {note}"
    if notes:
        yield ""
        yield from (f"- {note}" for note in notes)


def _weight(one: Comparison) -> str:
    known = {"same session": "of one session", "stored sessions": f"{one.sessions} stored sessions"}
    return known.get(one.kind, "stored: sessions differ by 3 to 5% with no change of the build")


def _table(changes: Sequence[Change]) -> Iterator[str]:
    from ..emit.format import growth
    from ..units import SECONDS, show

    rows = [("", "baseline", "now", "change", "interval", "", "from")]
    for one in changes:
        span = " to ".join(map(growth, one.interval)) if one.interval is not None else "-"
        rows.append(
            (
                f"{one.statistic.upper()} {one.metric.upper()}",
                show(one.baseline_s, SECONDS),
                show(one.candidate_s, SECONDS),
                growth(one.growth),
                span,
                _said(one),
                one.method,
            )
        )
    return aligned(rows, right=range(1, 6))


def _said(one: Change) -> str:
    """Whether the interval leaves 0 out: said for a slowdown, and for a gain."""
    if one.interval is None or one.interval[0] <= 0 <= one.interval[1]:
        return ""
    return "slower" if one.interval[0] > 0 else "faster"
