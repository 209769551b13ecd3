"""What `slo-gate run` says on stderr while it works: one line that moves in a terminal, else only faults."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from ..units import printable, show

if TYPE_CHECKING:
    from ..bench.session import Event
    from ..model import Check, Report


class Progress:
    """Takes the events of a session."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self._interval = ""
        self._shown = False

    def tell(self, event: Event) -> None:
        """Show one event."""
        if event.kind in ("failed", "resumed"):
            self.clear()
            click.echo(f"slo-gate run: {printable(event.text)}", err=True)
            return
        if not self.live:
            return
        if event.report is not None:
            self._interval = _interval(event.report)
        parts = [printable(event.text), f"{event.used:.0%} of the budget used", printable(self._interval)]
        line = " | ".join(part for part in parts if part)
        click.echo("\r\x1b[2K" + line[: _columns() - 1], err=True, nl=False)
        self._shown = True

    def clear(self) -> None:
        """Leave the line empty for what comes next."""
        if self._shown:
            click.echo("\r\x1b[2K", err=True, nl=False)
            self._shown = False


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 100  # a terminal may not know
    except (OSError, ValueError):
        return 100


def _interval(report: Report) -> str:
    """The objective that decides least, as it stands: goodput where it is one of several."""
    judged = [one for one in report.checks if one.interval is not None]
    judged.sort(key=lambda one: (not one.blocks, one.id != "goodput"))
    return _words(judged[0]) if judged else ""


def _words(one: Check) -> str:
    assert one.interval is not None
    unit = "share" if one.interval_of == "share" else one.unit
    low, high = (show(edge, unit) for edge in one.interval)
    share = show(one.share, "share") if one.interval_of == "share" else one.observed_text
    return f"{one.expected}: {share} [{low}, {high}]"
