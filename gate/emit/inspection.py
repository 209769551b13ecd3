"""`slo-gate inspect` as text."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Inspection, ToolReported
from ..units import SECONDS, show
from . import format as f
from .layout import prose, table
from .tables import Table

_SHOWN = (50.0, 90.0, 99.0)


def emit(inspections: Sequence[Inspection], *, width: int = 100) -> str:
    """One block a run."""
    lines: list[str] = []
    for one in inspections:
        lines += [*_block(one, width), ""]
    return "\n".join(line.rstrip() for line in lines[:-1]) + "\n"


def _block(one: Inspection, width: int) -> list[str]:
    run = one.run
    facts = {
        "tool": f"{run.tool}, version {run.tool_version or 'not stated'}",
        "model": run.model or "not stated",
        "hardware": run.hardware or "not stated",
        "load": str(run.load) if run.load else "not stated",
        "duration": show(run.duration_s, SECONDS) if run.duration_s else "not stated",
        "requests": f.requests_line(run),
    }
    lines = [f"{f.plain(run.input)}: {f.plain(run.format)}"]
    for name, fact in facts.items():
        lines += prose(f.plain(fact), width, f"  {name:9} ")
    lines += ["", *table(_metrics(one), width)]
    for method in _methods(one):
        lines += prose(f.plain(method), width, "  ")
    lines.append("")
    for title, said in (("Can be judged", one.judged), ("Cannot be judged", one.unjudged)):
        if said:
            lines.append(f"  {title}")
            for name, how in said.items():
                lines += prose(f.plain(how), width, f"    {name:10} ")
    if one.definitions:
        lines.append("  The tool's definitions")
        for name, formula in one.definitions.items():
            lines += prose(f.plain(formula), width, f"    {name:10} ")
    if run.notes:
        lines.append("  Notes")
        for note in run.notes:
            lines += prose(f.plain(note), width, "    - ")
    return lines


def _metrics(one: Inspection) -> Table:
    rows = []
    for column, label in f.LABELS.items():
        stats = one.run.metrics.get(column)
        values = [getattr(stats, name, None) for name in f.PERCENTILES]
        rows.append((label, *(show(value, SECONDS) for value in values), f.count(getattr(stats, "n", None))))
        reported = one.tool_reported.get(column.removesuffix("_s"))
        if reported is not None:
            shown = [show(value, SECONDS) for value in _percentiles(reported)]
            rows.append((f"{label}, tool's own", *shown, "-"))
    headers = ("metric", "P50", "P90", "P99", "n")
    return Table(headers, tuple(rows), frozenset(headers[1:]))


def _methods(one: Inspection) -> list[str]:
    """The tool's own percentile methods, each with the metrics it is of."""
    by: dict[str, list[str]] = {}
    for metric, reported in one.tool_reported.items():
        by.setdefault(reported.method, []).append(metric.upper())
    return [f"tool's own {', '.join(metrics)}: {method}" for method, metrics in by.items()]


def _percentiles(reported: ToolReported) -> list[float | None]:
    at = dict(reported.percentiles)
    return [at.get(percent) for percent in _SHOWN]


def note(text: str, *, width: int = 100) -> str:
    """A note about the set of files."""
    return "".join(line + "\n" for line in prose(f.plain(text), width, "- "))
