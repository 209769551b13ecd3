"""`slo-gate inspect` as text."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Inspection
from ..units import SECONDS, show
from . import format as f
from .layout import prose, table
from .tables import METRIC_HEADERS, Table, metric_rows


def emit(inspections: Sequence[Inspection], *, width: int = 100) -> str:
    """One block a run."""
    lines: list[str] = []
    for one in inspections:
        lines += [*_block(one, width), ""]
    return "\n".join(line.rstrip() for line in lines[:-1]) + "\n"


def _block(inspection: Inspection, width: int) -> list[str]:
    run = inspection.run
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
    lines += ["", *table(_metrics(inspection), width)]
    for method in _methods(inspection):
        lines += prose(f.plain(method), width, "  ")
    lines.append("")
    for title, said in (("Can be judged", inspection.judged), ("Cannot be judged", inspection.unjudged)):
        if said:
            lines.append(f"  {title}")
            for name, how in said.items():
                lines += prose(f.plain(how), width, f"    {name:10} ")
    if inspection.definitions:
        lines.append("  The tool's definitions")
        for name, formula in inspection.definitions.items():
            lines += prose(f.plain(formula), width, f"    {name:10} ")
    if run.notes:
        lines.append("  Notes")
        for note in run.notes:
            lines += prose(f.plain(note), width, "    - ")
    return lines


def _metrics(inspection: Inspection) -> Table:
    rows: list[tuple[str, ...]] = []
    for column, label in f.LABELS.items():
        reported = inspection.tool_reported.get(column.removesuffix("_s"))
        own = {} if reported is None else dict.fromkeys(f.PERCENTILES)
        own |= {} if reported is None else {f"p{at:g}": value for at, value in reported.percentiles}
        rows += metric_rows(label, inspection.run.metrics.get(column), own)
    return Table(METRIC_HEADERS, tuple(rows), frozenset(METRIC_HEADERS[1:]))


def _methods(inspection: Inspection) -> list[str]:
    """The tool's own percentile methods, each with the metrics it is of."""
    by: dict[str, list[str]] = {}
    for metric, reported in inspection.tool_reported.items():
        by.setdefault(reported.method, []).append(metric.upper())
    return [f"tool's own {', '.join(metrics)}: {method}" for method, metrics in by.items()]


def note(text: str, *, width: int = 100) -> str:
    """A note about the set of files."""
    return "".join(line + "\n" for line in prose(f.plain(text), width, "- "))
