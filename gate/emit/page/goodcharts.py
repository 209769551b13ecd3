"""The pictures of goodput: which bounds broke together, by load, run by run, against a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...model import REQUEST_METRICS, Change, Charts, Check, MissSet, Report, RunReport
from ...units import SECONDS, show
from .. import format as f
from ..tables import Table
from . import vega as v
from .vega import Picture

_NAMES = {**{metric: metric.upper() for metric in REQUEST_METRICS}, "failed": "failed"}
RUNS_MOST = 120  # drawn; the table has all
_ROW, _DOT = 22, 56  # px
_PERCENTILES = {"P50": "c1", "P90": "c2", "P99": "c3"}
_SHAPES = {"P50": "circle", "P90": "square", "P99": "triangle-up"}


def misses(charts: Charts) -> Picture | None:
    """Which bounds a miss broke: a matrix of dots names the set, a bar counts it."""
    if not charts.misses:
        return None
    known = [name for name in _NAMES if any(name in one.broke for one in charts.misses)]
    rows = tuple((_broke(one), f.count(one.number)) for one in charts.misses)
    return Picture(
        "misses",
        "Which bounds the misses broke",
        "Requests that were not good, by exactly the bounds they broke; failed requests broke all of them.",
        {"hconcat": [_matrix(charts, known), _bars(charts, v.WIDTH - _DOT * len(known) - 70)]},
        Table(("broke", "requests"), rows, frozenset(("requests",))),
    )


def _broke(miss: MissSet) -> str:
    return " and ".join(_NAMES[name] for name in miss.broke)


def _matrix(charts: Charts, known: Sequence[str]) -> v.Spec:
    cells = [
        {"set": place, "bound": _NAMES[name], "in": "yes" if name in one.broke else "no"}
        for place, one in enumerate(charts.misses)
        for name in known
    ]
    inside = {"condition": {"test": "datum.in == 'yes'", "value": "var(--bad)"}, "value": "var(--grid)"}
    x = {
        "field": "bound", "type": "nominal", "sort": [_NAMES[name] for name in known], "title": None,
        "axis": {"orient": "top", "labelAngle": 0, "domain": False, "ticks": False, "grid": False},
    }  # fmt: skip
    encoding = {"x": x, "y": {"field": "set", "type": "ordinal", "axis": None}, "color": inside}
    return {
        "width": _DOT * len(known),
        "height": _ROW * len(charts.misses),
        **v.layer("circle", cells, encoding, size=150, opacity=1),
    }


def _bars(charts: Charts, width: int) -> v.Spec:
    counts = [
        {"set": place, "n": one.number, "text": f.count(one.number)}
        for place, one in enumerate(charts.misses)
    ]
    bars = [
        {**row, "said": f"{row['text']} requests: {_broke(one)}"}
        for row, one in zip(counts, charts.misses, strict=True)
    ]
    x = {"field": "n", "type": "quantitative", "axis": None, "scale": {"nice": False}}
    y = {"field": "set", "type": "ordinal", "axis": None}
    text = {"x": x, "y": y, "text": {"field": "text"}}
    drawn = v.layer("bar", bars, {"x": x, "y": y}, color="var(--bad)", height=14)
    return v.panel([drawn, v.layer("text", counts, text, align="left", dx=5)], _ROW * len(bars), width)


def loads(charts: Charts, target: float | None) -> Picture | None:
    """Goodput against load; nothing to see at a single load."""
    points = charts.loads
    if len(points) < 2:
        return None
    closed = points[0].load.concurrency is not None
    title = "concurrency" if closed else "request rate (req/s)"
    values = [
        {
            "x": one.load.concurrency if closed else one.load.request_rate,
            "y": one.fraction,
            "low": one.interval[0] if one.interval else one.fraction,
            "high": one.interval[1] if one.interval else one.fraction,
            "at": "judged" if one.at_target else "shown",
            "said": f"{one.load}: goodput {f.share(one.fraction, target)}"
            + (f" ({' to '.join(f.share(end, target) for end in one.interval)})" if one.interval else "")
            + f" of {f.count(one.n)} requests in {one.runs} runs" + (", judged" if one.at_target else ""),
        }
        for one in points
    ]  # fmt: skip
    silent = [{key: row[key] for key in ("x", "y", "low", "high")} for row in values]
    x, y = v.number("x", title), v.percent("y", "goodput")
    kinds = v.kinds("at", {"judged": "c2", "shown": "c1"}, {"judged": "diamond", "shown": "circle"})
    layers = [
        v.layer("line", silent, {"x": x, "y": y}, color="var(--c1)", strokeWidth=2),
        v.layer("rule", silent, {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
                color="var(--c1)", strokeWidth=1.5),
        v.layer("point", values, {"x": x, "y": y, **kinds}, filled=True, size=90),
    ]  # fmt: skip
    if target is not None:
        layers.append(v.target(target, y))
    says = "The interval of each load comes from its own runs; dashed: the target."
    return Picture("loads", "Goodput against load", says, v.panel(layers), None)


def runs(report: Report) -> Picture | None:
    """Goodput and percentiles of each judged run: one run that differs is seen at once."""
    judged = [run for run in report.runs if run.at_target][:RUNS_MOST]
    if len(judged) < 2:
        return None
    height = max(90, min(14 * len(judged), 420))
    panels = [_run_panel(column, label, judged, height) for column, label in f.LABELS.items()]
    drawn: list[v.Spec] = [panel for panel in panels if panel is not None]
    if any(run.goodput and run.goodput.fraction is not None for run in judged):
        drawn.insert(0, _goodput_panel(judged, height, f.goodput_target(report)))
    if not drawn:
        return None
    width = (2 * v.WIDTH + 160 - 36 * (len(drawn) - 1)) // len(drawn)
    panels_drawn = [_numbered(panel, width, first=panel is drawn[0]) for panel in drawn]
    says = f"{len(judged)} judged runs from top to bottom, each with its own percentiles."
    spec, table = {"hconcat": panels_drawn}, _run_table(judged, report)
    return Picture("runs", "How runs differ", says, spec, table, wide=True)


def _numbered(panel: v.Spec, width: int, *, first: bool) -> v.Spec:
    """Only the first panel numbers the runs: the others stand beside it."""
    for part in panel.get("layer", [panel]):
        if not first and "y" in part["encoding"]:
            part["encoding"]["y"] |= {"title": None, "axis": {"labels": False, "grid": False}}
    return {**panel, "width": width}


def _run_panel(column: str, label: str, judged: Sequence[RunReport], height: int) -> v.Spec | None:
    values = [
        {
            "run": number,
            "s": value,
            "line": name,
            "said": f"run {number}: {name} {label} {show(value, SECONDS)}; {f.plain(run.input)}",
        }
        for number, run in enumerate(judged, 1)
        if (known := run.metrics.get(column)) is not None
        for name, value in (("P50", known.p50), ("P90", known.p90), ("P99", known.p99))
        if value is not None
    ]
    if not values:
        return None
    x = v.seconds("s", label)
    x["axis"]["tickCount"] = 4
    mark = v.kinds("line", _PERCENTILES, _SHAPES)
    return {
        "height": height,
        **v.layer("point", values, {"x": x, "y": _by_run(len(judged)), **mark}, filled=True, size=36),
    }


def _by_run(number: int) -> v.Spec:
    axis = {"tickCount": 4, "format": "d", "grid": False, "tickMinStep": 1}
    return {
        "field": "run", "type": "quantitative", "title": "run", "axis": axis,
        "scale": {"reverse": True, "domain": [0.5, number + 0.5], "nice": False},
    }  # fmt: skip


def _goodput_panel(judged: Sequence[RunReport], height: int, target: float | None) -> v.Spec:
    values = [
        {
            "run": number,
            "y": run.goodput.fraction,
            "said": f"run {number}: goodput {f.share(run.goodput.fraction, target)}; {f.plain(run.input)}",
        }
        for number, run in enumerate(judged, 1)
        if run.goodput and run.goodput.fraction is not None
    ]
    x = v.percent("y", "goodput")
    x["axis"]["tickCount"] = 3
    encoding = {"x": x, "y": _by_run(len(judged))}
    layers = [v.layer("point", values, encoding, filled=True, size=36, color="var(--good)", shape="diamond")]
    if target is not None:
        layers.append(v.target(target, x, "x"))
    return {"height": height, "layer": layers}


def _run_table(judged: Sequence[RunReport], report: Report) -> Table:
    target = f.goodput_target(report)
    columns = [column for column in f.LABELS if any(run.metrics.get(column) for run in judged)]
    rows = []
    for number, run in enumerate(judged, 1):
        cells = [str(number), f.goodput_share(run.goodput, target)]
        for column in columns:
            known = run.metrics.get(column)
            cells += [show(getattr(known, name, None), SECONDS) for name in f.PERCENTILES]
        rows.append((*cells, f.plain(run.input)))
    percentiles = (f"{f.LABELS[column]} {name.upper()}" for column in columns for name in f.PERCENTILES)
    headers = ("run", "goodput", *percentiles, "input")
    return Table(headers, tuple(rows), frozenset(headers[:-1]))


# ---- against a baseline -----------------------------------------------------------------------


def changes(report: Report) -> Picture | None:
    """Growth of each percentile with its interval; a diamond where the policy has a limit."""
    compared = report.baseline
    if compared is None or not compared.changes:
        return None
    rules = {check.id: check for check in report.checks if check.id.startswith("regression.")}
    values = [_change(one, rules.get(f"regression.{one.metric}.{one.statistic}")) for one in compared.changes]
    y = {"field": "name", "type": "nominal", "sort": None, "title": None, "axis": {"grid": False}}
    x = v.percent("growth", "change against the baseline", signed=True, zero=True)
    spans = [{key: row[key] for key in ("name", "low", "high", "kind")} for row in values if "low" in row]
    limits = [
        {"name": row["name"], "growth": row["limit"], "said": row["bound"]}
        for row in values
        if "limit" in row
    ]
    mark = v.kinds(
        "kind",
        {"surely faster": "good", "surely slower": "bad", "not shown to differ": "dim"},
        {"surely faster": "circle", "surely slower": "diamond", "not shown to differ": "square"},
    )
    layers = [
        v.layer("rule", [{"growth": 0}], {"x": x}, color="var(--line)"),
        v.layer("rule", spans, {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y,
                                "color": mark["color"]}, strokeWidth=2.5),
        v.layer("point", values, {"x": x, "y": y, **mark}, filled=True, size=70),
    ]  # fmt: skip
    if limits:
        layers.append(v.layer("tick", limits, {"x": x, "y": y}, color="var(--fg)", thickness=2, size=16))
    says = (
        f"Growth of each percentile, {compared.changes[0].method}; one-sided intervals; right of 0 is slower."
        + (" Upright ticks: the most that the policy lets it grow." if limits else "")
    )
    rows = tuple((row["name"], row["shown"], row["span"]) for row in values)
    return Picture(
        "changes", "Change against the baseline", says,
        v.panel(layers, _ROW * len(values), v.WIDTH - 70),
        Table(("percentile", "change", "interval"), rows, frozenset(("change", "interval"))),
    )  # fmt: skip


def _change(change: Change, rule: Check | None) -> dict[str, Any]:
    name = f"{change.statistic.upper()} {change.metric.upper()}"
    interval = rule.interval if rule and rule.interval_of == "ratio" and rule.interval else change.interval
    span = f"{f.growth(interval[0])} to {f.growth(interval[1])}" if interval else "-"
    row: dict[str, Any] = {
        "name": name,
        "growth": change.growth,
        "shown": f.growth(change.growth),
        "span": span,
        "kind": "not shown to differ",
        "said": f"{name} {f.growth(change.growth)} ({span}): {show(change.candidate_s, SECONDS)} against"
        f" {show(change.baseline_s, SECONDS)}",
    }
    if interval:
        row |= {"low": interval[0], "high": interval[1]}
        row["kind"] = (
            "surely slower" if interval[0] > 0 else "surely faster" if interval[1] < 0 else row["kind"]
        )
    if rule is not None and rule.bound is not None:
        row |= {"limit": rule.bound, "bound": f"{name}: at most {f.growth(rule.bound)}"}
    return row
