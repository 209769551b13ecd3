"""A trend as text and as Markdown: change points, what fails since when, and every figure as a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..model import Trend, TrendChange, TrendLoad, TrendMove, TrendSeries, TrendSubject, Verdict
from ..units import POINTS, SHARE, show
from . import format as f
from .layout import capped, prose, table
from .spark import SHOWN, spark
from .tables import Table, as_markdown, table_of

_SHORT = 12  # digits of a commit
_MOVES, _CHANGES = 3, 3  # named before "and N more"
MARKS = {"policy": "P", "workload": "W", "tool": "T", "release": "R", "waiver": "V"}
_CHANGE = "^"


def text(trend: Trend, *, width: int = 80, unicode: bool = False, verbose: bool = False) -> str:
    """Lines of a terminal, the newest change first; without `verbose` as many as it shows at once."""
    lines = [*prose(head(trend), width, "", 2), *prose(summary(trend), width, "", 2)]
    if fails := failing(trend):
        lines += ["", "Failing", *table(fails, width)]
    if grid := matrix(trend):
        lines += ["", "Newest session of each model and hardware", *table(grid, width)]
    changes = list(newest_changes(trend))
    shown = changes if verbose else changes[:_CHANGES]
    if changes:
        lines += ["", "Change points, the newest first"]
    for subject, load, change in shown:
        lines += prose(f"{change_day(subject, change)}  {_where(subject, load)}", width, "  ", 4)
        lines += prose(_moves(change, None if verbose else _MOVES), width, "    ", 6)
        for said in between(change):  # a command is never wrapped
            lines += prose(said, max(width, len(said) + 4), "    ", 6)
    if len(shown) < len(changes):
        lines.append(f"  and {len(changes) - len(shown)} more change points")
    for subject in trend.subjects:
        for load in subject.loads:
            lines += ["", *_figures(subject, load, width, unicode=unicode)]
    lines += [line for note in trend.notes for line in prose(f.plain(note), width, "- ", 2)]
    return "\n".join(line.rstrip() for line in (lines if verbose else capped(lines, width))) + "\n"


def markdown(trend: Trend) -> str:
    """GitHub and GitLab Markdown."""
    blocks = [f"### {f.markdown(head(trend))}", f.markdown(summary(trend))]
    if changes := list(newest_changes(trend)):
        rows = [
            {
                "since": change_day(subject, change),
                "of": _where(subject, load),
                "moved": _moves(change, _MOVES),
                "commits": "; ".join(between(change)),
            }
            for subject, load, change in changes
        ]
        blocks += ["#### Change points", as_markdown(table_of(rows, ()))]
    for title, cells in (("Failing", failing(trend)), ("Models and hardware", matrix(trend))):
        if cells:
            blocks += [f"#### {title}", as_markdown(cells)]
    for subject in trend.subjects:
        for load in subject.loads:
            blocks += [
                f"#### {f.markdown(_where(subject, load))}",
                as_markdown(figure_table(subject, load, unicode=True)),
            ]
    blocks += [f"- {f.markdown(note)}" for note in trend.notes]
    return "\n\n".join(blocks) + "\n"


# ---- what both say, and the page ----------------------------------------------------------------


def head(trend: Trend) -> str:
    """What of, how much and when."""
    days = " to ".join(dict.fromkeys((trend.first_time[:10], trend.last_time[:10])))
    number = f"{trend.sessions:,} session{'s' * (trend.sessions != 1)}"
    return f.plain(f"Trend of {trend.branch}: {number}, {days}")


def summary(trend: Trend) -> str:
    """How many change points and failing objectives there are."""
    changes = sum(len(load.changes) for subject in trend.subjects for load in subject.loads)
    fails = sum(one.failing > 0 for subject in trend.subjects for one in subject.objectives)
    verdicts = {one.verdict for subject in trend.subjects for one in subject.objectives}
    none = "fails" if verdicts - {Verdict.SKIPPED} else "was judged"
    said = [
        f"{changes} change point{'s' * (changes != 1)}" if changes else "no change point",
        f"{fails} objective{'s fail' if fails != 1 else ' fails'}" if fails else f"no objective {none}",
    ]
    return ", ".join(said)


def newest_changes(trend: Trend) -> Iterator[tuple[TrendSubject, TrendLoad, TrendChange]]:
    """Every change point with where it is, the newest first, and of one day what got worse."""
    found = [
        (subject.sessions[change.at].time, change.moves[0].worse, at, subject, load, change)
        for at, subject in enumerate(trend.subjects)
        for load in subject.loads
        for change in load.changes
    ]
    for *_, subject, load, change in sorted(found, key=lambda one: (*one[:2], -one[2]), reverse=True):
        yield subject, load, change


def change_day(subject: TrendSubject, change: TrendChange) -> str:
    """The commit of a change point and the day of its session."""
    return f"{subject.sessions[change.at].time[:10]} {change.commit[:_SHORT]}"


def name(subject: TrendSubject) -> str:
    """What is followed, in words."""
    facts = _what(subject)
    return f.plain(
        f"{subject.policy}: {facts}, {subject.tool}{', ' * bool(subject.interaction)}{subject.interaction}"
    )


def _what(subject: TrendSubject) -> str:
    return f.plain(f"{subject.model or 'model not stated'} on {subject.hardware or 'hardware not stated'}")


def _where(subject: TrendSubject, load: TrendLoad) -> str:
    return f"{name(subject)}, {f.plain(load.load)}"


def move(one: TrendMove) -> str:
    """`P99 TTFT +8.1% (5.2% to 11%)`."""
    unit = SHARE if one.interval_of == "ratio" else POINTS
    low, high = (signed(end, unit) for end in one.interval)
    return f"{label(one.series)} {signed(one.change, unit)} ({low} to {high})"


def signed(value: float, unit: str) -> str:
    """A change with its sign and two digits; a factor where it is more than tenfold."""
    if unit == SHARE and value >= 10:
        return f"x{1 + value:.2g}"
    return ("+" if value > 0 else "") + show(float(f"{value:.2g}"), unit)


def label(series: str) -> str:
    """`ttft.p99` -> `P99 TTFT`."""
    metric, _, statistic = series.partition(".")
    words = {"goodput": "goodput", "error_rate": "error rate"}
    return words.get(metric, f"{statistic.upper()} {metric.upper()}")


def _moves(change: TrendChange, most: int | None) -> str:
    named = ", ".join(map(move, change.moves[:most]))
    rest = len(change.moves) - len(change.moves[:most])
    return named + (f" and {rest} more" if rest else "")


def between(change: TrendChange) -> tuple[str, ...]:
    """Which commits it lies between, and the command that looks for it, a line of its own."""
    good, bad = change.good_commit[:_SHORT], change.bad_commit[:_SHORT]
    if not change.bisect:
        return (f"both sides were measured at {bad}: not the code, but what it ran on or with",)
    return (f"after {good}, up to {bad}", f"git bisect start {bad} {good}")


def failing(trend: Trend) -> Table | None:
    """Each objective that fails, for how many sessions and since which commit; None where none does."""
    rows = [
        {
            "objective": f.plain(one.id),
            "level": one.level.value,
            "failing for": f"{one.failing} session{'s' * (one.failing != 1)}",
            "since": f"{one.since[:_SHORT]} ({one.since_time[:10]})",
            "of": _what(subject) if len(trend.subjects) > 1 else "",
        }
        for subject in trend.subjects
        for one in subject.objectives
        if one.failing
    ]
    return table_of(rows, ()) if rows else None


def matrix(trend: Trend) -> Table | None:
    """Models by hardware with the newest verdict and figures; None for a single subject."""
    if len(trend.subjects) < 2:
        return None
    columns = sorted({subject.hardware for subject in trend.subjects})
    rows: dict[str, dict[str, list[str]]] = {}
    for subject in trend.subjects:
        rows.setdefault(subject.model, {}).setdefault(subject.hardware, []).append(_newest(subject))
    return Table(
        ("model", *(f.plain(column) or "hardware not stated" for column in columns)),
        tuple(
            (f.plain(model) or "not stated", *("; ".join(cells.get(column, ["-"])) for column in columns))
            for model, cells in rows.items()
        ),
    )


def _newest(subject: TrendSubject) -> str:
    load = subject.loads[0]
    known = {one.id: one for one in load.series}
    shown = [known[id_] for id_ in ("goodput", "ttft.p99", "e2e.p99") if id_ in known]
    figures = [f"{label(one.id)} {value(one, -1)}" for one in shown if one.values[-1] is not None]
    return ", ".join((subject.sessions[-1].verdict.name, *figures))


def value(series: TrendSeries, at: int) -> str:
    """One value with the digits that its bound needs; a dash where there is none."""
    return show(series.values[at], series.unit, series.bounds[at])


def figure_table(subject: TrendSubject, load: TrendLoad, *, unicode: bool) -> Table:
    """One row a figure: the newest, the median, the last SHOWN sessions as a line, and the bound."""
    rows = [
        {
            "figure": label(one.id),
            "newest": value(one, -1),
            "median": show(one.median, one.unit, one.bounds[-1]) if one.median is not None else "",
            _line_title(subject): spark(one.values[-SHOWN:], unicode=unicode),
            "bound": _bound(one),
        }
        for one in load.series
    ]
    return table_of(rows, ("newest", "median", "bound")) if rows else Table(("figure",), ())


def _line_title(subject: TrendSubject) -> str:
    number = len(subject.sessions)
    return f"last {SHOWN} of {number:,}" if number > SHOWN else f"{number} session{'s' * (number != 1)}"


def _bound(series: TrendSeries) -> str:
    bound = series.bounds[-1] if series.bounds else None
    if bound is None:
        return ""
    return f"{series.operator} {show(bound, series.unit)}"


def mark_line(subject: TrendSubject, load: TrendLoad) -> str:
    """One sign a session under the lines: where a change point is, else what else changed."""
    changed = {change.at for change in load.changes}
    first = max(len(subject.sessions) - SHOWN, 0)
    return "".join(
        _CHANGE
        if at in changed
        else next((MARKS[mark.kind] for mark in session.marks if mark.kind in MARKS), " ")
        for at, session in list(enumerate(subject.sessions))[first:]
    )


def legend(subject: TrendSubject, load: TrendLoad) -> str:
    """What the signs of the mark line mean; empty where there are none."""
    used = set(mark_line(subject, load))
    words = {_CHANGE: "change point", **{sign: kind for kind, sign in MARKS.items()}}
    return ", ".join(f"{sign} {word}" for sign, word in words.items() if sign in used)


def _figures(subject: TrendSubject, load: TrendLoad, width: int, *, unicode: bool) -> Sequence[str]:
    judged = "" if load.judged else " (not judged)"
    lines = [*prose(f"{_where(subject, load)}{judged}", width, "", 2)]
    figures, marks = figure_table(subject, load, unicode=unicode), mark_line(subject, load)
    if not figures.rows or not marks.strip():
        return [*lines, *table(figures, width)]
    under = tuple(marks if title == _line_title(subject) else "" for title in figures.headers)
    figures = Table(figures.headers, (*figures.rows, under), figures.numbers)
    return [*lines, *table(figures, width), f"  {legend(subject, load)}"]
