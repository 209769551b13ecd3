"""The pictures of what-if: goodput as one bound moves, and at each pair of two bounds."""

from __future__ import annotations

from typing import Any

from ...model import Charts, Grid, Move, WhatIf
from ...units import SECONDS, SHARE, show
from .. import format as f
from ..tables import Table
from . import vega as v
from .vega import Picture

_COLOURS = ("c1", "c2", "c3", "fg")
_SHAPES = {"pass": "circle", "undecided": "square", "fail": "diamond"}


def moves(charts: Charts) -> Picture | None:
    """Goodput as each bound moves alone, on one scale: times the bound that the policy has."""
    found = charts.whatif
    if found is None or found.good is None or not found.moves:
        return None
    values = [row for move in found.moves for row in _points(move, found.target)]
    x, y = v.number("times", "times the bound of the policy", zero=False), v.percent("y", "goodput")
    colour = v.kinds("bound", {_bound(move.id): _COLOURS[at % 4] for at, move in enumerate(found.moves)})
    shape = v.kinds("verdict", dict.fromkeys(_SHAPES, "fg"), _SHAPES)["shape"] if found.target else {}
    silent = [{key: row[key] for key in ("s", "own", "y", "bound")} for row in values]
    layers = [
        v.layer("line", silent, {"x": x, "y": y, **colour}, strokeWidth=2),
        v.layer("point", values, {"x": x, "y": y, **colour, **({"shape": shape} if shape else {})},
                filled=True, size=55),
        v.layer("rule", [{"s": 1, "own": 1}], {"x": x}, color="var(--line)"),
    ]  # fmt: skip
    for layer in layers:
        layer["transform"] = [{"calculate": "datum.s / datum.own", "as": "times"}]
    if found.target is not None:
        layers.append(v.target(found.target, y))
    says = "One bound moves, the others stay; upright: the policy. " + (
        "Dashed: the target. A circle would pass, a diamond fail, a square stay undecided."
        if found.target is not None
        else ""
    )
    headers = ("bound", "now", "goodput would be met at", "miss it alone", "gain without it")
    table = Table(headers, tuple(map(_moved, found.moves)), frozenset(headers[1:]))
    return Picture("moves", "If a bound were looser or tighter", says.strip(), v.panel(layers), table)


def _points(move: Move, target: float | None) -> list[dict[str, Any]]:
    return [
        {
            "s": point.max_s,
            "own": move.max_s,
            "y": point.fraction,
            "bound": _bound(move.id),
            "verdict": point.verdict or "shown",
            "said": f"{_bound(move.id)} <= {show(point.max_s, SECONDS)}: goodput"
            f" {f.share(point.fraction, target)}{', ' * bool(point.verdict)}{point.verdict}",
        }
        for point in move.points
    ]


def _moved(move: Move) -> tuple[str, ...]:
    point = move.needed.point
    needed = "no bound" if point is None else show(point, SECONDS)
    now, gain = show(move.max_s, SECONDS), show(move.gain_at_most, SHARE)
    return _bound(move.id), now, needed, f.count(move.only), gain


def _bound(id: str) -> str:
    metric, bracket, scope = id.partition("[")
    return metric.upper() + bracket + scope


def grid(charts: Charts) -> Picture | None:
    """Goodput at each pair of two bounds: darker is more, a border where the target is met."""
    found = charts.whatif
    if found is None or found.grid is None:
        return None
    cells = found.grid
    axis = {"labelAngle": 0, "grid": False, "labelOverlap": True, "labelFontSize": 10}
    title = f"{_bound(cells.x)} bound"
    x: v.Spec = {"field": "x", "type": "ordinal", "sort": None, "title": title, "axis": axis}
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
    spec = v.panel(layers if own else layers[:2], height=260)
    return Picture("grid", "Two bounds at once", says, spec, None)


def _cells(whatif: WhatIf, cells: Grid) -> list[dict[str, Any]]:
    own, target = {move.id: move.max_s for move in whatif.moves}, whatif.target
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
