"""`slo-gate whatif`: goodput as bounds move, and the bounds at which the policy would be met."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..errors import Exit, UsageError
from ._lines import show
from ._shared import (
    advice_json,
    aligned,
    chosen_policy,
    jobs_option,
    named,
    policy_options,
    read_results,
    reading_options,
)

if TYPE_CHECKING:
    from ..model import Move, MovedObjective, MovedPoint, Needed, WhatIf

_RANGE = "LOW:HIGH[:STEP]"
_EXITS = """\b
Exit codes:
  0   shown, whatever the verdict: a what-if gates nothing
  2   usage or policy error, or no bound of that metric to move
  3   result file missing, unreadable, or without per-request rows of one load"""


@click.command(name="whatif", epilog=_EXITS)
@click.argument("results", nargs=-1, type=named)
@policy_options
@click.option("--ttft", metavar=_RANGE, help="Move the per-request TTFT bound, e.g. 300ms:1s.")
@click.option("--tpot", metavar=_RANGE, help="Move the per-request TPOT bound, e.g. 10ms:30ms:2ms.")
@click.option("--e2e", metavar=_RANGE, help="Move the per-request E2E bound. Default: half to twice each.")
@reading_options
@jobs_option
@click.option("--json", "json", is_flag=True, help="Print JSON, with the grid of two bounds.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(**options: Any) -> int:
    """Show goodput of benchmark RESULTS as the policy's bounds move, one by one."""
    from ..advise.whatif import whatif
    from ..model import REQUEST_METRICS

    ranges = {name: _span(options[name], name) for name in REQUEST_METRICS if options[name]}
    policy = chosen_policy(options)
    reading = read_results(options, "name one: `slo-gate whatif RESULTS`", policy)
    found = whatif(policy, reading.runs, ranges)
    if options["json"]:
        click.echo(advice_json(found))
    else:
        show(*_text(found))
    return Exit.PASS


def _span(text: str, name: str) -> tuple[float, ...]:
    from ..advise.whatif import span
    from ..units import SECONDS, parse

    parts = text.split(":")
    if len(parts) not in (2, 3):
        raise UsageError(f'--{name} "{text}" is not a range', "", "write it like 10ms:30ms or 10ms:30ms:2ms")
    try:
        return span(*(parse(part, SECONDS) for part in parts))
    except ValueError as error:
        raise UsageError(f"--{name}: {error}", "", "write it like 10ms:30ms or 10ms:30ms:2ms") from None


# ---- text ---------------------------------------------------------------------------------


def _text(found: WhatIf) -> list[str]:
    from ..emit.format import plain

    lines = _head(found)
    for move in found.moves:
        rows = [_row(point, move, found) for point in move.points]
        rest = "the others stay" if len(found.moves) > 1 else "the only bound"
        lines += ["", f"{_name(move.id)} moves, {rest}: {_answer(move, found)}"]
        lines += aligned(
            [("bound", "goodput", "good", "verdict" if found.target else "", ""), *rows], range(3)
        )
    if found.objectives:
        lines += ["", "Percentiles"]
        lines += [f"  {_objective(one, found)}" for one in found.objectives]
    return [*lines, "", *(f"- {plain(note)}" for note in found.notes)]


def _row(point: MovedPoint, move: Move, found: WhatIf) -> tuple[str, ...]:
    from ..units import SECONDS, show

    own = "<- the policy" if point.max_s == move.max_s else ""
    numbers = (show(point.max_s, SECONDS), _share(point.fraction, found), f"{point.good:,}")
    return (*numbers, point.verdict, own)


def _head(found: WhatIf) -> list[str]:
    from ..emit.format import plain

    name = plain(found.policy.name)
    if found.good is None:
        return [f"{name}: no goodput section; {found.attempted:,} requests"]
    shown = f"{_share(found.good / found.attempted, found)} ({found.good:,} of {found.attempted:,})"
    against = f", target {_share(found.target, found)}: {found.verdict}" if found.target is not None else ""
    lines = [f"{name}: goodput {shown}{against}"]
    if found.binding is None:
        lines.append("No bound binds: no request misses one alone")
        return lines
    move = next(move for move in found.moves if move.id == found.binding)
    without = _share(found.good / found.attempted + move.gain_at_most, found)
    lines.append(
        f"{_name(move.id)} binds: {move.only:,} requests miss it alone; without it goodput would be {without}"
    )
    return lines


def _answer(move: Move, found: WhatIf) -> str:
    """`would pass at TTFT <= 640 ms (95% confidence); by the estimate at 612 ms`."""
    from ..units import POINTS, show

    gains = (move.gain_at_10_percent, move.gain_at_most)
    looser, most = (show(gain, POINTS) if gain else "nothing" for gain in gains)
    gain = f"10% looser gains {looser}, without it {most}"
    if found.target is None:
        return gain
    return f"{_would(move.needed, _name(move.id), found)}; {gain}"


def _would(needed: Needed, name: str, found: WhatIf) -> str:
    from ..units import SECONDS, SHARE, show

    if needed.point is None:
        return str(needed.why)
    estimate = show(needed.point, SECONDS)
    if found.confidence is None:
        return f"would pass at {name} <= {estimate} (estimate, without confidence)"
    if needed.confident is None:
        return f"by the estimate {name} <= {estimate} would do; {needed.why}"
    shown, confidence = show(needed.confident, SECONDS), show(found.confidence, SHARE)
    return f"would pass at {name} <= {shown} ({confidence} confidence; by the estimate at {estimate})"


def _objective(one: MovedObjective, found: WhatIf) -> str:
    from ..units import SECONDS, show

    metric, _, scope = one.id.partition("[")
    metric, _, statistic = metric.partition(".")
    name = f"{statistic.upper()} {metric.upper()}"
    said = _would(one.needed, name, found)
    return f"{one.id} <= {show(one.bound, SECONDS)}: {said}{f' for {scope[:-1]}' if scope else ''}"


def _name(move_id: str) -> str:
    metric, bracket, scope = move_id.partition("[")
    return metric.upper() + bracket + scope


def _share(value: float | None, found: WhatIf) -> str:
    from ..units import SHARE, show

    return show(value, SHARE, found.target)
