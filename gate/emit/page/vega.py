"""Vega-Lite specifications -> inline SVG, drawn by vl-convert (extra `report`): no browser, no network.

Colours are CSS variables, so that one drawing serves dark, light and paper. What comes back is parsed
and only drawing elements and attributes are kept: whatever a name in the data holds, it stays text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ...units import SHARE, show
from ..tables import Table
from . import engine

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

Spec = dict[str, Any]

WIDTH = 520  # px of the plotted area; the page scales it
_KEPT = frozenset(("svg", "g", "path", "line", "rect", "text", "tspan"))
_ATTRIBUTES = frozenset(
    (
        *("viewBox", "width", "height", "x", "y", "x1", "y1", "x2", "y2", "d", "transform", "opacity"),
        *("fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-miterlimit"),
        *("fill-opacity", "stroke-opacity", "font-size", "font-weight", "font-style", "text-anchor"),
    )
)
_SHARED = ("fill", "stroke", "stroke-width", "fill-opacity", "font-size", "text-anchor")  # inherited
_NAMESPACES = re.compile(r' xmlns(?::\w+)?="[^"]*"')
_SECONDS = (  # of an axis; the only place outside of units where one is scaled: Vega chooses the ticks
    "datum.value >= 1 || datum.value == 0 ? format(datum.value, '~r') + ' s' : "
    "datum.value >= 0.001 ? format(datum.value * 1e3, '~r') + ' ms' : format(datum.value * 1e6, '~r') + ' us'"
)


class Picture(Struct, frozen=True):
    """One figure of the page."""

    id: str  # an anchor
    title: str
    says: str  # what to see in it, one or two sentences
    spec: Spec
    table: Table | None  # its numbers, for who does not see it
    wide: bool = False  # two columns of the page


def draw(specs: Sequence[Spec], labels: Sequence[str]) -> list[str]:
    """Each drawing as one inline `<svg>`; a label is what a screen reader says of it.

    Marks with a `description` have it as their `<title>`: hover without a script. Raises engine.Undrawn.
    """
    config = json.loads(Path(__file__).with_name("vega.json").read_bytes())
    drawn = engine.draw([{**spec, "config": config} for spec in specs])
    return [_inline(one, label) for one, label in zip(drawn, labels, strict=True)]


def _inline(drawn: str, label: str) -> str:
    import xml.etree.ElementTree as ET

    root = ET.fromstring(_NAMESPACES.sub("", drawn, count=2))
    _clean(root)
    root.attrib = {
        "viewBox": root.get("viewBox", ""),
        "role": "img",
        "aria-label": label,
        "style": f"max-width:{root.get('width', WIDTH)}px",
    }
    return ET.tostring(root, encoding="unicode")


def _clean(element: Element) -> None:
    """Keep drawing elements and attributes; a description becomes a title; shared attributes are hoisted."""
    import xml.etree.ElementTree as ET

    said = element.get("aria-label", "")
    element.attrib = {name: value for name, value in element.attrib.items() if name in _ATTRIBUTES}
    for child in list(element):
        if child.tag not in _KEPT or child.get("display") == "none" or child.get("d") == "":
            element.remove(child)
        else:
            _clean(child)
            if not len(child) and not child.attrib and not child.text:
                element.remove(child)
    _hoist(element)
    if said and element.tag in ("path", "rect", "line", "text"):
        title = ET.Element("title")
        title.text = said
        element.insert(0, title)


def _hoist(group: Element) -> None:
    """Thousands of marks say the same: their group says it once."""
    if group.tag != "g" or len(group) < 2:
        return
    for name in _SHARED:
        values = {child.get(name) for child in group}
        value = values.pop() if len(values) == 1 else None
        if value is not None and name not in group.attrib:
            group.set(name, value)
            for child in group:
                del child.attrib[name]


# ---- parts of specifications ----------------------------------------------------------------


def seconds(field: str, title: str, *, log: bool = False) -> Spec:
    """A channel in seconds, its axis in us, ms or s."""
    scale = {"type": "log", "nice": False} if log else {"zero": True, "nice": True}
    return _quantity(field, title, {"labelExpr": _SECONDS, "labelOverlap": True}, scale)


def number(field: str, title: str, *, log: bool = False, **scale: Any) -> Spec:
    """A channel that counts."""
    axis = {"labelOverlap": True, "format": "~s" if log else "~r"}
    return _quantity(field, title, axis, {**({"type": "log"} if log else {}), **scale})


def percent(field: str, title: str, *, signed: bool = False, zero: bool = False) -> Spec:
    """A channel of shares, its axis in percent."""
    return _quantity(field, title, {"format": "+~%" if signed else "~%"}, {"zero": zero, "nice": True})


def _quantity(field: str, title: str, axis: Spec, scale: Spec) -> Spec:
    return {"field": field, "type": "quantitative", "title": title, "axis": axis, "scale": scale}


def kinds(field: str, colours: Mapping[str, str], shapes: Mapping[str, str] | None = None) -> Spec:
    """Colour, and shape beside it, by the values of a nominal field: colour alone tells nobody anything."""
    channels = {
        "color": {name: f"var(--{colour})" for name, colour in colours.items()},
        "shape": shapes or {},
    }
    return {
        channel: {
            "field": field,
            "type": "nominal",
            "scale": {"domain": list(colours), "range": [values[name] for name in colours]},
        }
        for channel, values in channels.items()
        if values
    }


def layer(mark: str, data: Sequence[Mapping[str, Any]], encoding: Spec, **options: Any) -> Spec:
    """One layer; a row's `said` is its title."""
    told = any(row.get("said") for row in data)
    described = {"description": {"field": "said", "type": "nominal"}} if told else {}
    return {
        "mark": {"type": mark, "aria": told, **options},
        "data": {"values": list(data)},
        "encoding": {**encoding, **described},
    }


def dashed(data: Sequence[Mapping[str, Any]], encoding: Spec, **options: Any) -> Spec:
    """Bounds and targets."""
    return layer("rule", data, encoding, strokeDash=[5, 4], strokeWidth=1.5, **options)


def target(share: float, axis: Spec, channel: str = "y") -> Spec:
    """A dashed line where goodput should be; the field of `axis` is y."""
    said = [{"y": share, "said": f"target {show(share, SHARE)}"}]
    return dashed(said, {channel: axis}, color="var(--fg)")


def panel(layers: Sequence[Spec], height: int = 230, width: int = WIDTH) -> Spec:
    """Layers on one pair of axes."""
    return {"width": width, "height": height, "layer": list(layers)}
