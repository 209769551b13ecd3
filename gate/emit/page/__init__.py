"""The report as one HTML page. What draws and lays it out is imported by the call that needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...model import AnyReport, Trend


def emit(report: AnyReport) -> str:
    """The report as one HTML document; it has charts where `report.charts` and vl-convert are there."""
    from .document import render

    return render(report)


def emit_trend(trend: Trend) -> str:
    """A trend as one HTML document; it has charts where vl-convert is there."""
    from .trendpage import render

    return render(trend)


def warm_up() -> None:
    """Start what draws the charts beside other work, where vl-convert is installed."""
    from .engine import warm_up

    warm_up()
