"""A trend as one HTML page: the charts of each load with bounds, change points and what else changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from ...model import Trend, TrendLoad, TrendSeries, TrendSession, TrendSubject
from ...units import SECONDS
from .. import format as f, trend as t
from ..tables import Table, table_of
from . import vega as v
from .document import document, drawn
from .vega import Picture

DRAWN = 200  # sessions of a chart; the JSON has all
_LOADS = 30  # that are drawn
_COLOURS = {"P50": "c1", "P90": "c2", "P99": "c3", "goodput": "c1", "error rate": "bad"}
_SHAPES = {
    "P50": "circle",
    "P90": "square",
    "P99": "triangle-up",
    "goodput": "circle",
    "error rate": "diamond",
}
_GROUPS = {
    "TTFT": "ttft",
    "TPOT": "tpot",
    "ITL": "itl",
    "E2E": "e2e",
    "Goodput": "goodput",
    "Error rate": "error_rate",
}
_WIDTH = 1100  # px of the plotted area


class _Part(Struct, frozen=True):
    """One load of a subject."""

    id: str
    title: str
    table: Table
    figures: Sequence[tuple[Picture, str]]
    no_charts: str


def render(trend: Trend) -> str:
    """One HTML document, whole without JavaScript; charts where vl-convert is installed."""
    parts = list(_parts(trend))
    grid = t.matrix(trend)
    rows = [
        {
            "since": t.change_day(subject, change),
            "moved": ", ".join(map(t.move, change.moves)),
            "after": change.good_commit[:12],
            "up to": change.bad_commit[:12],
            "of": f"{t.name(subject)}, {f.plain(load.load)}",
        }
        for subject, load, change in t.newest_changes(trend)
    ]
    searches = [change.bisect or t.between(change)[0] for *_, change in t.newest_changes(trend)]
    return document(
        "trend.html.j2",
        title=t.head(trend),
        summary=t.summary(trend),
        changes=table_of(rows, ()) if rows else None,
        searches=list(dict.fromkeys(searches)),
        failing=t.failing(trend),
        matrix=grid,
        parts=parts,
        notes=trend.notes or ("Every file of the store was read.",),
        contents=(
            ("changes", "Change points"),
            ("failing", "Failing"),
            *((("matrix", "Models and hardware"),) if grid else ()),
            *((part.id, part.title) for part in parts),
            ("notes", "Notes"),
        ),
    )


def _parts(trend: Trend) -> Iterator[_Part]:
    """Each load with its charts; all of them are drawn at once."""
    loads = [(subject, load) for subject in trend.subjects for load in subject.loads]
    made = [list(_pictures(f"load-{at}", *one)) if at < _LOADS else [] for at, one in enumerate(loads)]
    figures, why = drawn([picture for pictures in made for picture in pictures])
    left = iter(figures)
    for at, ((subject, load), pictures) in enumerate(zip(loads, made, strict=True)):
        yield _Part(
            id=f"load-{at}",
            title=f"{t.name(subject)}, {f.plain(load.load)}",
            table=t.figure_table(subject, load, unicode=True),
            figures=[next(left) for _ in pictures],
            no_charts={0: why, _LOADS: f"Only the first {_LOADS} loads have charts."}.get(at, ""),
        )


def _pictures(prefix: str, subject: TrendSubject, load: TrendLoad) -> Iterator[Picture]:
    first = max(len(subject.sessions) - DRAWN, 0)
    for title, metric in _GROUPS.items():
        lines = [one for one in load.series if one.id.partition(".")[0] == metric]
        if any(value is not None for one in lines for value in one.values[first:]):
            yield _picture(f"{prefix}-{metric}", title, lines, subject, load, first)


def _picture(
    id_: str, title: str, lines: Sequence[TrendSeries], subject: TrendSubject, load: TrendLoad, first: int
) -> Picture:
    sessions = subject.sessions[first:]
    unit = lines[0].unit
    x = v.number("session", "session")
    y = v.seconds("value", title) if unit == SECONDS else v.percent("value", title)
    y["scale"] = {"zero": False, "nice": True}
    points = [
        {
            "session": first + at + 1,
            "value": one.values[first + at],
            "figure": _short(one),
            "said": f"{t.label(one.id)} {t.value(one, first + at)}, {_session(session)}",
        }
        for one in lines
        for at, session in enumerate(sessions)
        if one.values[first + at] is not None
    ]
    names = {_short(one) for one in lines}
    kinds = v.kinds("figure", {k: c for k, c in _COLOURS.items() if k in names}, _SHAPES)
    ranges = [
        {
            "session": change.at + 1,
            "from": change.good + 1.5,
            "to": change.bad + 1.5,
            "said": f"change point at session {change.at + 1}, {_session(subject.sessions[change.at])}: "
            + ", ".join(map(t.move, change.moves)),
        }
        for change in load.changes
        if change.at >= first
    ]
    marks = [
        {
            "session": first + at + 1,
            "said": f"session {first + at + 1}: {f.plain(mark.kind)}, {f.plain(mark.text)}",
        }
        for at, session in enumerate(sessions)
        for mark in session.marks
    ]
    spans = {"x": {**x, "field": "from"}, "x2": {"field": "to"}}
    layers = [
        *([v.layer("rect", ranges, spans, color="var(--c2)", opacity=0.25)] if ranges else []),
        *([v.layer("rule", ranges, {"x": x}, color="var(--c2)", strokeWidth=2)] if ranges else []),
        *(_bound_layer(one, first, x, y) for one in lines if any(b is not None for b in one.bounds[first:])),
        v.layer("line", [{**row, "said": ""} for row in points], {"x": x, "y": y, "color": kinds["color"]}),
        v.layer("point", points, {"x": x, "y": y, **kinds}, filled=True, size=28),
        *([_marks_layer(marks, x)] if marks else []),
    ]
    return Picture(
        id_,
        f"{title} over sessions",
        _says(unit, ranges, marks, first),
        v.panel(layers, 240, _WIDTH),
        _numbers(lines, sessions, first),
        wide=True,
    )


def _bound_layer(one: TrendSeries, first: int, x: v.Spec, y: v.Spec) -> v.Spec:
    rows = [
        {"session": first + at + 1, "value": bound}
        for at, bound in enumerate(one.bounds[first:])
        if bound is not None
    ]
    return v.layer(
        "line",
        rows,
        {"x": x, "y": y},
        interpolate="step",
        strokeDash=[5, 4],
        strokeWidth=1.5,
        color="var(--fg)",
    )


def _marks_layer(marks: Sequence[dict[str, Any]], x: v.Spec) -> v.Spec:
    at = {"y": {"value": 236}}
    return v.layer(
        "point", marks, {"x": x, **at}, shape="triangle-up", filled=True, size=60, color="var(--fg)"
    )


def _says(unit: str, ranges: Sequence[object], marks: Sequence[object], first: int) -> str:
    what = "geometric mean of its runs" if unit == SECONDS else "share of all its requests"
    said = [f"Each session's {what}, in the order of time."]
    if ranges:
        said.append("Bands: where a change may have happened; lines: the likeliest session.")
    said.append("Dashed: the bound of the policy then.")
    if marks:
        said.append("Triangles at the bottom: another policy, workload or tool, a release or a waiver.")
    if first:
        said.append(f"The newest {DRAWN} sessions; the JSON has all.")
    return " ".join(said)


def _numbers(lines: Sequence[TrendSeries], sessions: Sequence[TrendSession], first: int) -> Table:
    rows = [
        {
            "session": str(first + at + 1),
            "day": session.time[:10],
            "commit": session.commit[:12],
            "verdict": session.verdict.name,
            **{t.label(one.id): t.value(one, first + at) for one in lines},
            "also": f.plain("; ".join(f"{mark.kind} {mark.text}" for mark in session.marks)),
        }
        for at, session in enumerate(sessions)
    ]
    return table_of(rows, ("session", *(t.label(one.id) for one in lines)))


def _short(one: TrendSeries) -> str:
    return t.label(one.id).partition(" ")[0] if one.unit == SECONDS else t.label(one.id)


def _session(session: TrendSession) -> str:
    return f"{session.commit[:12]}, {session.time[:10]}, {session.verdict.name}"
