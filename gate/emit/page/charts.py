"""The pictures of the report page: for each its question as a title, what it shows in words, its drawing
as a Vega-Lite specification, and its numbers as a table for who cannot see or does not run charts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...model import Charts, Curve, CurveBound, Report, Scatter, Verdict
from ...units import SECONDS, SHARE, show
from .. import format as f
from ..tables import Table
from . import goodcharts as good, movecharts as moved, vega as v
from .vega import Picture

AXES = {
    "time": "time since the run began (s)",
    "order": "place of the request in its run",
    "input_tokens": "input length (tokens)",
    "output_tokens": "output length (tokens)",
}
TABLE_PERCENTS = (5, 25, 50, 75, 90, 95, 99)
WIDE = 20.0  # times the median: from there on a logarithmic axis shows more
BEYOND = 0.55  # of the axis: a bound further right has its name on its left
ABOVE_LEAST = 1e-5  # share of requests: the end of the percentile axis
_KINDS = {"good": "c1", "completed": "c1", "missed": "bad", "warm-up": "dim"}
_VERDICTS = {"met": "good", "not met": "bad", "not proven": "dim", "bound": "fg"}
_SHAPES = {"good": "circle", "completed": "circle", "missed": "diamond", "warm-up": "cross"}


def pictures(report: Report) -> tuple[Picture, ...]:
    """Every figure that the evidence has data for, in the order of questions: who missed, how far, when."""
    charts = report.charts
    if charts is None:
        return ()
    drawn: list[Picture | None] = [good.misses(charts), *map(_curve, charts.curves)]
    drawn.append(good.loads(charts, f.goodput_target(report)))
    drawn += [_over_time(scatter, charts) for scatter in charts.over_time]
    drawn += [_by_length(scatter, charts) for scatter in charts.by_length]
    drawn += [good.runs(report), good.changes(report), moved.moves(charts), moved.grid(charts)]
    return tuple(picture for picture in drawn if picture is not None)


# ---- distributions --------------------------------------------------------------------------


def _curve(curve: Curve) -> Picture:
    """The ECDF on a percentile axis that gives each nine its room, because bounds live in the tail."""
    label, least = curve.metric.upper(), _least(curve)
    log = _wide((*curve.values_s, *(one.bound_s for one in curve.bounds)), curve.median_s)
    x = v.seconds("s", label, log=log)
    y = {
        "field": "above",
        "type": "quantitative",
        "title": f"share of {'gaps' if curve.of == 'gaps' else 'requests'} within it",
        "scale": {"type": "log", "reverse": True, "domain": [least, 1], "nice": False},
        "axis": {
            "values": [1, 0.5, 0.1, 0.01, 0.001, 0.0001, 0.00001],
            "labelExpr": "format(100 * (1 - datum.value), '.10~g') + '%'",
            "labelOverlap": False,
        },
    }
    line = [{"s": s, "within": share} for s, share in zip(curve.values_s, curve.shares, strict=True)]
    step = "linear" if curve.of == "percentiles" else "step-after"
    drawn = v.layer("line", line, {"x": x, "y": y}, interpolate=step, color="var(--c1)", strokeWidth=2)
    drawn["transform"] = [{"calculate": f"max(1 - datum.within, {least})", "as": "above"}]
    points = [
        {"s": s, "above": 1 - percent / 100, "said": f"P{percent:g} {label}: {show(s, SECONDS)}"}
        for percent, s in curve.percentiles
        if s is not None
    ]
    dots = v.layer("point", points, {"x": x, "y": y}, filled=True, size=22, color="var(--c1)")
    spec = v.panel([drawn, dots, *_bound_layers(curve, x, y, least)])
    title = f"How {label} is distributed"
    return Picture(f"ecdf-{curve.metric}", title, _curve_says(curve), spec, _points(curve))


def _least(curve: Curve) -> float:
    """The end of the percentile axis, as a share above it: a little beyond where the curve ends."""
    return max(0.5 / curve.n, 0.4 * curve.failed / curve.n, ABOVE_LEAST)


def _bound_layers(curve: Curve, x: v.Spec, y: v.Spec, least: float) -> list[v.Spec]:
    """Each bound as a dashed line with its name, and the quantile that is compared with it."""
    if not curve.bounds:
        return []
    ordered = sorted(curve.bounds, key=lambda one: one.bound_s)
    lines = [
        {
            "s": one.bound_s,
            "verdict": _word(one),
            "said": f"{f.plain(one.id)}: bound {show(one.bound_s, SECONDS)}",
        }
        for one in ordered
    ]
    colour = {**v.kinds("verdict", _VERDICTS)["color"], "legend": None}
    rule = v.dashed(lines, {"x": x, "color": colour})
    quantiles = [
        {
            "s": one.value_s,
            "above": max(1 - one.share, least),
            "verdict": _word(one),
            "said": f"{f.plain(one.id)}: {show(one.value_s, SECONDS, one.bound_s)},"
            f" bound {show(one.bound_s, SECONDS)}, {_word(one)}",
        }
        for one in ordered
        if one.value_s is not None and one.share is not None
    ]
    marks = v.layer(
        "point", quantiles, {"x": x, "y": y, "color": colour}, shape="diamond", size=110, filled=True,
        stroke="var(--bg)", strokeWidth=1,
    )  # fmt: skip
    return [rule, *_bound_names(curve, ordered, x), *([marks] if quantiles else [])]


def _bound_names(curve: Curve, ordered: Sequence[CurveBound], x: v.Spec) -> list[v.Spec]:
    """One below the other, on the side where there is room."""
    right = BEYOND * max(*curve.values_s, ordered[-1].bound_s)
    texts = [
        {"s": one.bound_s, "name": f"{f.plain(one.id)} {show(one.bound_s, SECONDS)}", "y": 1 + 14 * place}
        for place, one in enumerate(ordered)
    ]
    return [
        v.layer(
            "text",
            [row for row, one in zip(texts, ordered, strict=True) if (one.bound_s > right) is left],
            {"x": x, "y": {"field": "y", "type": "quantitative", "scale": None}, "text": {"field": "name"}},
            align="right" if left else "left", dx=-4 if left else 4, baseline="top", fontSize=11,
            stroke="var(--bg)", strokeWidth=3,
        )
        for left in (False, True)
    ]  # fmt: skip


def _word(bound: CurveBound) -> str:
    if bound.verdict is None:
        return "bound"
    return {Verdict.PASS: "met", Verdict.FAIL: "not met"}.get(bound.verdict, "not proven")


def _curve_says(curve: Curve) -> str:
    what = "gaps" if curve.of == "gaps" else "attempted requests"
    said = [
        f"The share of {f.count(curve.n)} {what} within each"
        f" {curve.metric.upper()}, with as much room for the last 1% as for the 90% before it."
    ]
    if curve.bounds:
        said.append("Dashed: bounds; diamonds: the quantiles that are compared with them.")
    if curve.failed:
        said.append(f"{f.count(curve.failed)} without a value: the curve ends below 100%.")
    if curve.of == "buckets":
        said.append("Known at the edges of the histogram's buckets.")
    if curve.of == "percentiles":
        said.append("Known at the percentiles the tool states; straight lines between them mean nothing.")
    return " ".join(said)


def _points(curve: Curve) -> Table:
    known, label = dict(curve.percentiles), curve.metric.upper()
    if known:
        rows = [(f"P{percent}", show(known.get(percent), SECONDS)) for percent in TABLE_PERCENTS]
    else:
        pairs = zip(curve.shares, curve.values_s, strict=True)
        rows = [(show(share, SHARE, 1.0), show(value, SECONDS)) for share, value in pairs]
        rows = rows[:: max(1, len(rows) // 20)]
    return Table(("share", label), tuple(rows), frozenset((label,)))


def _wide(values: Iterable[float], median: float) -> bool:
    known = list(values)
    return median > 0 and min(known) > 0 and max(known) > WIDE * median


# ---- requests one by one --------------------------------------------------------------------


def _over_time(scatter: Scatter, charts: Charts) -> Picture:
    label = scatter.metric.upper()
    x, y = v.number("x", AXES[scatter.x]), _latency_axis(scatter)
    windows = [
        {
            "x": window.low,
            "x2": window.high,
            "y": value,
            "line": name,
            "said": f"{name} {label} {show(value, SECONDS)} of {f.count(window.n)} requests from "
            f"{_place(window.low, scatter)} on, {f.count(window.failed)} failed",
        }
        for window in scatter.windows
        for name, value in (("P50", window.p50_s), ("P99", window.p99_s))
        if value is not None
    ]
    colour = v.kinds("line", {"P50": "c2", "P99": "c3"})["color"]
    span = {"x": x, "x2": {"field": "x2"}, "y": {**y, "field": "y"}}
    rules = v.layer("rule", windows, {**span, "color": colour}, strokeWidth=2.5)
    spec = _scatter_spec(scatter, charts, x, y, [rules])
    said = (
        f"{_sampled(scatter)} Lines: P50 and P99 of windows of equal length, over all judged runs laid on one"
        " another. What is high at first is warm-up, a slope is drift, a spike is a burst."
    )
    return Picture(f"time-{scatter.metric}", f"{label} over time", said, spec, _window_table(scatter))


def _by_length(scatter: Scatter, charts: Charts) -> Picture:
    label = scatter.metric.upper()
    log = _wide((dot.x for dot in scatter.dots), scatter.median[0])
    x = v.number("x", AXES[scatter.x], log=log, zero=False)
    axis = "input" if scatter.x == "input_tokens" else "output"
    return Picture(
        f"length-{scatter.metric}",
        f"{label} against {axis} length",
        f"{_sampled(scatter)} A slope says that length, not load, makes {label} slow.",
        _scatter_spec(scatter, charts, x, _latency_axis(scatter), []),
        None,
    )


def _latency_axis(scatter: Scatter) -> v.Spec:
    log = _wide((dot.value_s for dot in scatter.dots), scatter.median[1])
    return v.seconds("s", scatter.metric.upper(), log=log)


def _scatter_spec(scatter: Scatter, charts: Charts, x: v.Spec, y: v.Spec, above: Sequence[v.Spec]) -> v.Spec:
    several = len(charts.inputs) > 1
    dots = [
        {
            "x": dot.x,
            "s": dot.value_s,
            "kind": dot.kind,
            "said": f"{show(dot.value_s, SECONDS)} at {_place(dot.x, scatter)}, {dot.kind};"
            + (f" run {dot.run + 1}," if several else "")
            + f" row {dot.row}",
        }
        for dot in scatter.dots
    ]
    shown = {dot.kind for dot in scatter.dots}
    mark = v.kinds("kind", {k: c for k, c in _KINDS.items() if k in shown}, _SHAPES)
    layers = [v.layer("point", dots, {"x": x, "y": y, **mark}, filled=True, size=20, fillOpacity=0.6)]
    if scatter.failed:
        layers.append(_failures(scatter, x))
    layers += above
    if scatter.bound_s is not None:
        bound = [{"s": scatter.bound_s, "said": f"bound {show(scatter.bound_s, SECONDS)}"}]
        layers.append(v.dashed(bound, {"y": y}, color="var(--fg)"))
    return {**v.panel(layers), "resolve": {"scale": {"color": "independent", "shape": "independent"}}}


def _failures(scatter: Scatter, x: v.Spec) -> v.Spec:
    """Ticks along the upper edge, as wide as the failures are many."""
    ticks = [
        {"x": one.x, "n": one.number, "said": f"{f.count(one.number)} failed at {_place(one.x, scatter)}"}
        for one in scatter.failed
    ]
    scale = {"range": [30, 260], "type": "sqrt"}
    size = {"field": "n", "type": "quantitative", "legend": None, "scale": scale}
    return v.layer(
        "point", ticks, {"x": x, "y": {"value": -7}, "size": size}, shape="triangle-down", filled=True,
        color="var(--bad)", clip=False,
    )  # fmt: skip


def _place(x: float, scatter: Scatter) -> str:
    if scatter.x == "time":
        return show(x, SECONDS)
    return f"request {x:,.0f}" if scatter.x == "order" else f"{x:,.0f} tokens"


def _sampled(scatter: Scatter) -> str:
    failed = scatter.failures
    shown = len(scatter.dots)
    said = (
        f"{f.count(shown)} of {f.count(scatter.n)} requests: the slowest, and an even sample of the rest."
        if shown < scatter.n
        else f"All {f.count(shown)} requests with a value."
    )
    return said + (f" Triangles above: all {f.count(failed)} failed requests." if failed else "")


def _window_table(scatter: Scatter) -> Table | None:
    """Every window; the drawing has a line for each."""
    if not scatter.windows:
        return None
    rows = tuple(
        (
            *(_place(window.low, scatter), f.count(window.n), f.count(window.failed)),
            *(show(window.p50_s, SECONDS), show(window.p99_s, SECONDS)),
        )
        for window in scatter.windows
    )
    headers = ("from", "n", "failed", "P50", "P99")
    return Table(headers, rows, frozenset(headers))
