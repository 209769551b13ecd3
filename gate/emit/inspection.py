"""`slo-gate inspect` as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ..model import Inspection
from ..units import SECONDS, show
from . import format as f
from .layout import GAP, MOST, capped, prose, rows, table
from .tables import METRIC_HEADERS, Table, metric_rows, run_latencies

_RUNS = 8  # with a row
_KINDS = 3  # of a fact that differs between runs, shown


def emit(
    inspections: Sequence[Inspection], notes: Sequence[str] = (), *, width: int = 100, verbose: bool = False
) -> str:
    """One block a run where `verbose` or MOST lines hold them, else one row a run and what they share.

    `notes` are about the set of files.
    """
    told = [line for note in notes for line in prose(f.plain(note), width, "- ")]
    lines = [line for one in inspections for line in (*_block(one, width), "")][:-1] + told
    if not verbose and sum(rows(line, width) for line in lines) > MOST:
        several = len(inspections) > 1
        brief = _overview(inspections, width) if several else _block(inspections[0], width, brief=True)
        lines = capped([*brief, *told], width)
    return "".join(line.rstrip() + "\n" for line in lines)


def _overview(inspections: Sequence[Inspection], width: int) -> Iterator[str]:
    """What the runs are of, one row each, and what can be judged of how many."""
    runs = [one.run for one in inspections]
    of = {
        "format": [run.format for run in runs],
        "version": [run.tool_version or "not stated" for run in runs],
        "model": [run.model or "not stated" for run in runs],
        "hardware": [run.hardware or "not stated" for run in runs],
    }
    yield f"{len(runs)} runs"
    for name, values in of.items():
        yield from prose(_shared(values), width, f"  {name:9} ")
    yield ""
    yield from table(run_latencies(runs[:_RUNS]), width)
    if len(runs) > _RUNS:
        yield f"{GAP}and {len(runs) - _RUNS} more runs: -v shows them"
    for title, known in (
        ("Can be judged", [one.judged for one in inspections]),
        ("Cannot be judged", [one.unjudged for one in inspections]),
    ):
        names = dict.fromkeys(name for said in known for name in said)
        said = {name: _shared([one[name] for one in known if name in one], len(runs)) for name in names}
        yield from ("", f"{GAP}{title}") if said else ()
        yield from _alike(said, width)
    if notes := [note for run in runs for note in run.notes]:
        yield from ("", f"{GAP}Notes")
        for note, number in Counter(notes).items():
            yield from prose(f"{f.plain(note)} ({number} of {len(runs)} runs)", width, "    - ")


def _alike(said: Mapping[str, str], width: int) -> Iterator[str]:
    """What is said of names; those of which the same is said together."""
    for how in dict.fromkeys(said.values()):
        names = ", ".join(name for name in said if said[name] == how)
        lead = f"    {names:10} " if len(names) <= 10 else f"    {names}: "
        yield from prose(f.plain(how), width, lead, 15)


def _shared(values: Sequence[str], whole: int = 0) -> str:
    """The values, most frequent first, with how many runs have each where not all `whole` of them do."""
    number = Counter(values)
    alike = len(number) == 1 and len(values) == (whole or len(values))
    said = [f.plain(one) + ("" if alike else f" ({n} runs)") for one, n in number.most_common(_KINDS)]
    return "; ".join((*said, *((f"and {len(number) - _KINDS} more",) if len(number) > _KINDS else ())))


def _block(inspection: Inspection, width: int, *, brief: bool = False) -> list[str]:
    """One run; `brief` leaves out how the tool defines its metrics."""
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
            lines += _alike(said, width)
    if inspection.definitions and brief:
        lines.append("  -v shows the tool's definitions")
    elif inspection.definitions:
        lines.append("  The tool's definitions")
        for name, formula in inspection.definitions.items():
            lines += prose(f.plain(formula), width, f"    {name:10} ")
    notes = [note for note in run.notes if note not in inspection.unjudged.values()]
    if notes:
        lines.append("  Notes")
        for note in notes:
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
