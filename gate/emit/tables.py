"""What emitters show in rows: checks, percentiles, runs. Cells are text, already inert on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ..model import Change, Check, Counts, MetricStats, Report, RunReport
from ..units import SECONDS, show
from . import format as f
from .spark import SHOWN, spark

METRIC_HEADERS = ("metric", "P50", "P90", "P99", "n")


class Table(Struct, frozen=True):
    """Cells as text. Columns in `numbers` are aligned to the right; file names come last."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str] = frozenset()


def table_of(rows: Sequence[Mapping[str, str]], numbers: Iterable[str]) -> Table:
    """Without the columns that are empty in every row."""
    headers = tuple(name for name in rows[0] if any(row[name] for row in rows))
    cells = tuple(tuple(row[name] or "-" for name in headers) for row in rows)
    return Table(headers, cells, frozenset(numbers))


def as_markdown(table: Table) -> str:
    """The table of GitHub and GitLab Markdown, its cells inert."""
    rule = tuple("---:" if name in table.numbers else "---" for name in table.headers)
    escaped = [tuple(map(_cell, row)) for row in (table.headers, *table.rows)]
    rows = (escaped[0], rule, *escaped[1:])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(text: str) -> str:
    """A mark at the end stands before the space of the bar, so that it is no emphasis either."""
    return re.sub(r" &#42;$", " *", f.markdown(text))


def check_table(checks: Sequence[Check], report: Report) -> Table:
    """One row a check: rule beside value, always."""
    rows = [
        {
            "objective": f.plain(check.id),
            "rule": f.expected(check),
            "observed": f.observed(check),
            "interval": f.interval(check),
            "misses": f.misses(check),
            "headroom": f.headroom(check),
            "policy": f.place(check, report),
        }
        for check in checks
    ]
    return table_of(rows, ("observed", "misses", "headroom"))


def growth_table(report: Report) -> Table | None:
    """Base, head and change of each percentile, those with a rule first; None without a baseline."""
    if report.baseline is None or not report.baseline.changes:
        return None
    rules = {check.id: check for check in report.checks}
    known = [(rules.get(f"regression.{one.metric}.{one.statistic}"), one) for one in report.baseline.changes]
    rows = []
    for rule, one in sorted(known, key=lambda pair: pair[0] is None):
        judged = rule is not None and rule.interval_of == "ratio" and rule.interval
        span = judged or one.interval
        rows.append(
            {
                "metric": f"{one.statistic.upper()} {one.metric.upper()}",
                "base": show(one.baseline_s, SECONDS),
                "head": show(one.candidate_s, SECONDS),
                "change": f.growth(one.growth)
                + (f" ({f.growth(span[0])} to {f.growth(span[1])})" if span else ""),
                "allowed": f.bound(rule) if rule else "",
                "verdict": f.mark(rule) if rule else "",
                "sessions, then head": _past(one),
            }
        )
    return table_of(rows, ("base", "head", "change"))


def _past(one: Change) -> str:
    """The last SHOWN sessions of a history and the head as a line; empty without a history."""
    if not one.past_s:
        return ""
    drawn = spark((*one.past_s[-SHOWN:], one.candidate_s), unicode=True)
    return f"{drawn[:-1]} {drawn[-1]}"


def bound_table(checks: Sequence[Check]) -> Table:
    """What decides, in as few columns as that takes."""
    rows = [
        {
            "metric": f.plain(check.id),
            "bound": f.bound(check),
            "observed": f.observed(check),
            "missed": f.misses(check) if check.misses is not None or check.misses_range is not None else "",
            "verdict": f.mark(check),
        }
        for check in checks
    ]
    return table_of(rows, ("observed", "missed"))


def pass_table(checks: Sequence[Check]) -> Table:
    """One short row a check, for a terminal: the id carries the rule's scope, the foot the policy's path.

    Evidence rules, which have no numbers to align, say their demand in words.
    """
    rows = [
        {
            "objective": f"{f.mark(check)}  {f.plain(check.id)}",
            "observed": f.observed(check),
            "rule": f.expected(check) if check.n is None else f.bound(check),
            "interval": f.interval(check).removesuffix(f.MET),
            "headroom": f.headroom(check),
            "line": str(check.policy_line or ""),
        }
        for check in checks
    ]
    return table_of(rows, ("observed", "headroom", "line"))


def short_passes(checks: Sequence[Check]) -> Table:
    """The same in as few columns as say that it passed and how far inside it is."""
    rows = [
        {
            "objective": f"{f.mark(check)}  {f.plain(check.id)}",
            "observed": f.observed(check),
            "rule": f.bound(check),
            "missed": f.misses(check) if check.misses is not None or check.misses_range is not None else "",
            "headroom": f.headroom(check),
        }
        for check in checks
    ]
    return table_of(rows, ("observed", "missed", "headroom"))


def latency_table(report: Report, *, own: bool = True, most: int = f.CAP) -> Table:
    """P50, P90, P99 of TTFT, TPOT and E2E always; by run where no single load was judged.

    Where a rule judges a percentile, the value it judged stands there. `own` adds the tool's own.
    """
    if any(report.metrics.values()) or not report.runs:
        return percentile_table(report.metrics, f.judged(report), own=own)
    return (
        percentile_table(report.runs[0].metrics)
        if len(report.runs) == 1
        else run_latencies(report.runs[:most])
    )


def percentile_table(
    metrics: Mapping[str, MetricStats | None],
    judged: Mapping[tuple[str, str], Check] = {},
    *,
    own: bool = True,
) -> Table:
    """ITL only where known; the tool's own percentiles under ours, judged values instead of ours."""
    rows: list[tuple[str, ...]] = []
    for column, label in f.LABELS.items():
        stats = metrics.get(column)
        if stats is None and column == "itl_s":
            continue
        reported = (stats and stats.tool_reported) or {} if own else {}
        ours = {
            name: f"{f.plain(judged[column, name].observed_text)} *"
            for name in f.PERCENTILES
            if (column, name) in judged
        }
        rows += metric_rows(label, stats, reported, ours)
    return Table(METRIC_HEADERS, tuple(rows), frozenset(METRIC_HEADERS[1:]))


def metric_rows(
    label: str,
    stats: MetricStats | None,
    reported: Mapping[str, float | str | None],
    judged: Mapping[str, str] = {},
) -> Iterator[tuple[str, ...]]:
    """Our percentiles of a metric, judged ones as they were judged, and the tool's own where it has some."""
    ours = [judged.get(name) or show(getattr(stats, name, None), SECONDS) for name in f.PERCENTILES]
    yield (label, *ours, f.count(getattr(stats, "n", None)))
    if any(name in reported for name in f.PERCENTILES):
        own = [reported.get(name) for name in f.PERCENTILES]
        shown = (f.plain(value) if isinstance(value, str) else show(value, SECONDS) for value in own)
        yield (f"{label}, tool's own", *shown, "-")


def run_latencies(runs: Sequence[RunReport]) -> Table:
    """One row a run with the P99 of each metric."""
    rows = []
    for run in runs:
        stats = {f"{label} P99": run.metrics.get(column) for column, label in f.LABELS.items()}
        values = {name: show(known.p99, SECONDS) if known else "" for name, known in stats.items()}
        rows.append({"load": _load(run), **values, "input": f.plain(run.input)})
    return table_of(rows, set(rows[0]) - {"load", "input"})


def load_table(report: Report, *, brief: bool = False) -> Table:
    """One row a load: the goodput-load curve, with the P99 of each metric; `brief` leaves the counts out."""
    target = f.goodput_target(report)
    rows = []
    for point in report.loads[: f.CAP] if brief else report.loads:
        stats = {f"{label} P99": point.metrics.get(column) for column, label in f.LABELS.items()}
        rows.append(
            {
                "load": str(point.load) if point.load else "not stated",
                "judged": "yes" if point.at_target else "no",
                "runs": f.count(point.runs),
                "attempted": _count(point.counts, "attempted"),
                "failed": _count(point.counts, "failed"),
                "goodput": f.goodput_share(point.goodput, target) if point.goodput else "",
                "policy": f.met(point.verdict),
                **{name: show(known.p99, SECONDS) if known else "" for name, known in stats.items()},
            }
        )
    for row in rows if brief else ():
        row |= dict.fromkeys(("attempted", "failed", "ITL P99"), "")
    return table_of(rows, set(rows[0]) - {"load", "judged", "policy"})


def _count(counts: Counts | None, kind: str) -> str:
    return "not stated" if counts is None else f.count(getattr(counts, kind))


def run_table(report: Report) -> Table:
    """The first f.CAP runs with their counts, judged ones first, and which were judged where not all were."""
    mixed = len({run.at_target for run in report.runs}) > 1
    target = f.goodput_target(report)
    rows = [
        {
            "load": _load(run),
            "judged": ("yes" if run.at_target else "no") if mixed else "",
            "attempted": _count(run.counts, "attempted"),
            "failed": _count(run.counts, "failed"),
            "cancelled": _count(run.counts, "cancelled"),
            "warm-up": _count(run.counts, "warmup"),
            "goodput": f.goodput_share(run.goodput, target) if run.goodput else "",
            "input": f.plain(run.input),
        }
        for run in sorted(report.runs, key=lambda run: not run.at_target)[: f.CAP]
    ]
    return table_of(rows, set(rows[0]) - {"load", "judged", "input"})


def _load(run: RunReport) -> str:
    return str(run.load) if run.load else "not stated"
