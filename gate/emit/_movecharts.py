"""The pictures of what-if: goodput as one bound moves, and at each pair of two bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model import Charts, Grid, WhatIf
from ..units import SECONDS, SHARE, show
from . import _format as f
from . import _vega as v
from ._tables import Table
from ._vega import Picture


def moves(charts: Charts) -> list[Picture]:
    """Goodput as each bound moves alone; one drawing a bound, because each has its own seconds."""
    found = charts.whatif
    if found is None or found.good is None:
        return []
    panels, rows = [], []
    for move in found.moves:
        values = [
            {
                "s": point.max_s,
                "y": point.fraction,
                "kind": point.verdict or "shown",
                "said": f"{_bound(move.id)} <= {show(point.max_s, SECONDS)}: goodput"
                f" {f.share(point.fraction, found.target)}{', ' * bool(point.verdict)}{point.verdict}",
            }
            for point in move.points
        ]
        rows.append(_moved(move.id, move.max_s, move.needed.point, move.only, move.gain_at_most))
        panels.append(_move_panel(_bound(move.id), move.max_s, values, found.target))
    width = (v.WIDTH - 70 * (len(panels) - 1)) // max(len(panels), 1)
    spec = {
        "hconcat": [{**panel, "width": width} for panel in panels],
        "resolve": {"scale": {"y": "shared", "color": "shared", "shape": "shared"}},
    }
    says = "One bound moves, the others stay. Upright: where the policy has it; dashed: the target."
    headers = ("bound", "now", "goodput would be met at", "miss it alone", "gain without it")
    table = Table(headers, tuple(rows), frozenset(headers[1:]))
    return [Picture("moves", "If a bound were looser or tighter", says, spec, table)]


def _moved(id: str, max_s: float, point: float | None, only: int, most: float) -> tuple[str, ...]:
    needed = "no bound" if point is None else show(point, SECONDS)
    return _bound(id), show(max_s, SECONDS), needed, f.count(only), show(most, SHARE)


def _bound(id: str) -> str:
    metric, bracket, scope = id.partition("[")
    return metric.upper() + bracket + scope


def _move_panel(label: str, own: float, values: Sequence[dict[str, Any]], target: float | None) -> v.Spec:
    x, y = v.seconds("s", f"{label} bound", zero=False), v.percent("y", "goodput")
    x["axis"]["tickCount"] = 3
    silent = [{"s": row["s"], "y": row["y"]} for row in values]
    mark = v.kinds(
        "kind",
        {"pass": "good", "undecided": "dim", "fail": "bad"} if target is not None else {"shown": "c1"},
        {"pass": "circle", "undecided": "square", "fail": "diamond", "shown": "circle"},
    )
    layers = [
        v.layer("line", silent, {"x": x, "y": y}, color="var(--line)", strokeWidth=1.5),
        v.layer(
            "rule", [{"s": own, "said": f"the policy: {show(own, SECONDS)}"}], {"x": x}, color="var(--fg)"
        ),
        v.layer("point", values, {"x": x, "y": y, **mark}, filled=True, size=50),
    ]
    if target is not None:
        layers.append(v.target(target, y))
    return {"height": 200, "layer": layers}


def grid(charts: Charts) -> Picture | None:
    """Goodput at each pair of two bounds: darker is more, a border where the target is met."""
    found = charts.whatif
    if found is None or found.grid is None:
        return None
    cells = found.grid
    axis = {"labelAngle": 0, "grid": False, "labelOverlap": True, "labelFontSize": 10}
    x: v.Spec = {
        "field": "x",
        "type": "ordinal",
        "sort": None,
        "title": f"{_bound(cells.x)} bound",
        "axis": axis,
    }
    y = {**x, "field": "y", "title": f"{_bound(cells.y)} bound"}
    y["sort"] = [show(value, SECONDS) for value in reversed(cells.y_max_s)]
    shade: v.Spec = {"field": "share", "type": "quantitative", "legend": None}
    shade["scale"] = {"range": [0, 0.55], "zero": False}
    border = {"condition": {"test": "datum.met == 'yes'", "value": "var(--good)"}, "value": "var(--bg)"}
    values = _cells(found, cells)
    silent = [{key: row[key] for key in ("x", "y", "text", "own")} for row in values]
    own = [row for row in silent if row["own"] == "yes"]
    place = {"x": x, "y": y}
    layers = [
        v.layer("rect", values, {**place, "fillOpacity": shade, "stroke": border},
                fill="var(--c1)", strokeWidth=2),
        v.layer("text", silent, {**place, "text": {"field": "text"}}, fontSize=10),
        v.layer("rect", own, place, filled=False, stroke="var(--fg)", strokeWidth=2.5),
    ]  # fmt: skip
    met = " In green frames the estimate meets the target." if found.target is not None else ""
    says = (
        f"Goodput in percent at each pair of two bounds, the others as they are. Bold frame: the policy.{met}"
    )
    spec = {"width": v.WIDTH, "height": 260, "layer": layers if own else layers[:2]}
    return Picture("grid", "Two bounds at once", says, spec, None)


def _cells(found: WhatIf, cells: Grid) -> list[dict[str, Any]]:
    own, target = {move.id: move.max_s for move in found.moves}, found.target
    return [
        {
            "x": show(x, SECONDS),
            "y": show(y, SECONDS),
            "share": share,
            "text": f.share(share, target).removesuffix("%"),
            "met": "yes" if target is not None and share >= target else "no",
            "own": "yes" if (x, y) == (own[cells.x], own[cells.y]) else "no",
            "said": f"{_bound(cells.x)} <= {show(x, SECONDS)} and {_bound(cells.y)} <= {show(y, SECONDS)}:"
            f" goodput {f.share(share, target)}",
        }
        for y, row in zip(cells.y_max_s, cells.fraction, strict=True)
        for x, share in zip(cells.x_max_s, row, strict=True)
    ]
