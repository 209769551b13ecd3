"""Small pictures made of characters and of Mermaid, for terminals, logs and comments. Only positions are
worked out here; every value is the report's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from ..model import LoadReport, MetricStats, Report
from ..units import SECONDS, show
from . import format as f

WIDTH = 44  # characters of a bar
POINTS = 20  # of a Mermaid chart: more cannot be read in a comment
# Mermaid's own first colour cannot be seen on white. Blue and vermilion, told apart by every eye.
_COLOURS = '%%{init: {"themeVariables": {"xyChart": {"plotColorPalette": "#0072B2, #D55E00"}}}}%%'
_SIGNS = {  # up to P50, P90, P99, and the bound; by whether more than ASCII can be shown
    False: ("#", "=", "-", "|"),
    True: ("\N{FULL BLOCK}", "\N{DARK SHADE}", "\N{LIGHT SHADE}", "\N{BOX DRAWINGS HEAVY VERTICAL}"),
}


def latency_bars(report: Report, *, unicode: bool = False, width: int = WIDTH) -> list[str]:
    """A legend and one bar a metric, from 0 to the larger of P99 and bound; empty where no P99 is known."""
    metrics = _metrics(report)
    bounds = _bounds(report)
    rows = []
    for column, label in f.LABELS.items():
        stats = metrics.get(column)
        if stats is None or stats.p50 is None or stats.p90 is None or stats.p99 is None:
            continue
        bound = bounds.get(column.removesuffix("_s"))
        judged = f.judged(report)
        values = tuple(
            known.observed
            if (known := judged.get((column, name))) and known.observed is not None
            else getattr(stats, name)
            for name in f.PERCENTILES
        )
        end = max(*values, bound or 0.0)  # of a report that is in order P99 is the largest
        if not 0 < end < math.inf:
            continue
        bar = _bar(values, bound, end, _SIGNS[unicode], width)
        rows.append(f"{label:5} {bar}  {show(end, SECONDS)}")
    if not rows:
        return []
    signs = _SIGNS[unicode]
    to = ", ".join(f"{sign} to {name}" for sign, name in zip(signs, ("P50", "P90", "P99"), strict=False))
    legend = to + (f", {signs[3]} bound" if any(signs[3] in row for row in rows) else "")
    return [legend, *rows]


def _metrics(report: Report) -> Mapping[str, MetricStats | None]:
    """Those that the latency table shows."""
    if any(report.metrics.values()) or len(report.runs) != 1:
        return report.metrics
    return report.runs[0].metrics


def _bounds(report: Report) -> dict[str, float]:
    """Of each metric the bound of its highest percentile that is about every request."""
    found: dict[str, tuple[float, float]] = {}
    for check in report.checks:
        metric, dot, percent = check.id.partition(".p")
        if check.unit != SECONDS or check.bound is None or not dot or not _is_number(percent):
            continue
        found[metric] = max(found.get(metric, (0.0, 0.0)), (float(percent), check.bound))
    return {metric: bound for metric, (_, bound) in found.items()}


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isascii() and text.replace(".", "", 1).isdecimal()


def _bar(values: Sequence[float], bound: float | None, end: float, signs: Sequence[str], width: int) -> str:
    cells = [" "] * width
    start = 0
    for value, sign in zip(values, signs, strict=False):
        stop = _cell(value, end, width)
        if stop > start:
            cells[start:stop] = sign * (stop - start)
            start = stop
    if bound is not None:
        cells[min(width - 1, _cell(bound, end, width))] = signs[3]
    return "".join(cells)


def _cell(value: float, end: float, width: int) -> int:
    """Place on the bar; a saved report may hold any number, also one below 0."""
    return round(min(max(0.0, value) / end, 1.0) * width)


# ---- goodput by load ------------------------------------------------------------------------


def load_bars(report: Report, *, unicode: bool = False, width: int = WIDTH) -> list[str]:
    """One bar a load, as long as its share of good requests; empty for fewer than two loads."""
    points = _points(report)
    target = f.goodput_target(report)
    sign = _SIGNS[unicode][0]
    names = [str(point.load) for point in points]
    return [
        f"{name:{max(map(len, names))}} {sign * int(min(_fraction(point), 1.0) * width):{width}}"
        f"  {f.share(_fraction(point), target)}"
        for name, point in zip(names, points, strict=True)
    ]


def _points(report: Report) -> list[LoadReport]:
    """At most POINTS loads of the kind that was judged, with known goodput; none for fewer than two."""
    known = [one for one in report.loads if one.load and not one.load.burst and _fraction(one) >= 0]
    judged = [one for one in known if one.at_target] or known
    closed = bool(judged) and judged[0].load is not None and judged[0].load.concurrency is not None
    kept = [one for one in known if one.load is not None and (one.load.concurrency is not None) is closed]
    kept = kept[:: -(-len(kept) // POINTS) or 1]
    return kept if len(kept) > 1 else []


def _fraction(point: LoadReport) -> float:
    known = point.goodput.fraction if point.goodput else None
    return -1.0 if known is None else known


# ---- Mermaid --------------------------------------------------------------------------------


def mermaid(report: Report) -> str:
    """An xychart of goodput against load, else of percentiles against bounds; empty where neither is known.

    Nothing but our own words and numbers is in it: Mermaid has no escape that can be trusted.
    """
    points = _points(report)
    return _load_chart(points, f.goodput_target(report)) if points else _bound_chart(report)


def _load_chart(points: Sequence[LoadReport], target: float | None) -> str:
    loads = [point.load for point in points if point.load is not None]
    closed = loads[0].concurrency is not None
    names = [f"{load.concurrency if closed else load.request_rate:g}" for load in loads]
    shares = [_percent(_fraction(point), target) for point in points]
    lines = [f"line [{', '.join(shares)}]"]
    if target is not None:
        lines.append(f"line [{', '.join([_percent(target, None)] * len(points))}]")
    title = "Goodput (%) against load" + (" and its target" if target is not None else "")
    return _chart(
        title, "concurrency" if closed else "requests per second", names, "good requests (%)", lines
    )


def _percent(share: float, against: float | None) -> str:
    return f.share(share, against).removesuffix("%").replace(",", "")


def _bound_chart(report: Report) -> str:
    """Each judged percentile in percent of its bound: what a saved report holds too."""
    known = [
        (f"{check.statistic.upper()} {f.LABELS[column]}", 100 * check.of_bound)
        for check in report.checks
        if (column := f"{check.metric}_s") in f.LABELS and re.fullmatch(r"p[\d.]{1,6}", check.statistic)
        if check.of_bound is not None and check.of_bound >= 0
    ][:POINTS]
    if len(known) < 2:
        return ""
    lines = [
        f"bar [{', '.join(f'{value:.4g}' for _, value in known)}]",
        f"line [{', '.join(['100'] * len(known))}]",
    ]
    return _chart(
        "Percentiles in percent of their bound", "percentile", [name for name, _ in known], "%", lines
    )


def _chart(title: str, x: str, names: Sequence[str], y: str, lines: Sequence[str]) -> str:
    axis = ", ".join(f'"{name}"' for name in names)
    rows = [f'title "{title}"', f'x-axis "{x}" [{axis}]', f'y-axis "{y}"', *lines]
    return "\n".join(("```mermaid", _COLOURS, "xychart-beta", *(f"    {row}" for row in rows), "```"))
