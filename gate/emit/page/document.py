"""The report as one HTML page: no network, whole without JavaScript, charts where the extra is installed.

Every value goes through `format.plain` and then HTML escaping on its way out (jinja2's `finalize`), so that
a name from a file is text. A content security policy allows the page's own script and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...model import AnyReport, Check, ErrorReport, MetricStats, Report, Verdict
from ...units import SECONDS, show
from .. import attribution as a, format as f, tables as t
from ..templates import markup, render as rendered
from .vega import Picture

_FOLDER = Path(__file__).parent
NO_CHARTS = (
    "vl-convert, which draws them, is not installed; the extra `report` of slo-gate brings it"
    " (`pip install '.[report]'` in a checkout)"
)


class _Tile(Struct, frozen=True):
    """One figure at the top."""

    name: str
    value: str
    rule: str  # what it is compared with; may be empty


class _Block(Struct, frozen=True):
    """A section of tables."""

    id: str
    title: str
    tables: tuple[tuple[str, t.Table], ...]  # each with its label
    lines: tuple[str, ...] = ()


def render(report: AnyReport) -> str:
    """The report as one HTML document; it has charts where `report.charts` and vl-convert are there."""
    if isinstance(report, ErrorReport):
        return _render(report, error=True, word="ERROR", title=f"ERROR {report.message}")
    figures, without = _figures(report)
    blocks = _blocks(report)
    charts = (("charts", "Charts"),) if figures or without else ()
    return _render(
        report,
        error=False,
        word=report.verdict.name,
        title=report.headline,
        tiles=_tiles(report),
        contents=(
            ("objectives", "Objectives"),
            ("latency", "Goodput and latency"),
            *charts,
            *((block.id, block.title) for block in blocks),
            ("notes", "Notes and provenance"),
        ),
        sections=f.sections(report),
        latency=t.latency_table(report),
        figures=figures,
        no_charts=without,
        blocks=blocks,
        anchor=_anchors(report.checks),
    )


def _render(report: AnyReport, **context: Any) -> str:
    return document("template.html.j2", report=report, **context)


def document(template: str, **context: Any) -> str:
    """A page of this folder's `template` with the style, and the script that its policy allows."""
    import base64
    import hashlib

    script, css = (
        _squeezed(_FOLDER.joinpath(name).read_text("utf-8")) for name in ("script.js", "style.css")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = rendered(
        _FOLDER / template,
        _html,
        f=f,
        script=markup(script),
        script_hash=markup(f"sha256-{digest}"),
        css=markup(css),
        **context,
    )
    return _squeezed(text).strip() + "\n"


def _html(text: str) -> str:
    from markupsafe import escape

    return escape(f.plain(text))


def _squeezed(text: str) -> str:
    """Without empty lines. The script goes through it before it is hashed, so that its hash holds."""
    return re.sub(r"\n{2,}", "\n", text)


# ---- what is shown ------------------------------------------------------------------------


def _tiles(report: Report) -> tuple[_Tile, ...]:
    """Goodput, requests, and the P99s beside their bounds."""
    tiles = []
    if report.goodput is not None:
        target = f.goodput_target(report)
        needs = "" if target is None else f"needs {f.share(target)}"
        tiles.append(_Tile("Goodput", f.goodput_share(report.goodput, target), needs))
    judged = [one.counts for one in (report.loads or report.runs) if one.at_target]
    if len(judged) == 1 and judged[0] is not None:  # of several loads each has its own row below
        tiles.append(_Tile("Requests", f.count(judged[0].attempted), f"{f.count(judged[0].failed)} failed"))
    for column, label in f.LABELS.items():
        stats = report.metrics.get(column)
        if stats is not None:
            p99 = f.judged(report).get((column, "p99"))
            tiles.append(_metric_tile(label, column.removesuffix("_s"), stats, report.checks, p99))
    return tuple(tiles)


def _metric_tile(
    label: str, metric: str, stats: MetricStats, checks: Sequence[Check], judged: Check | None
) -> _Tile:
    """P99 as it was judged, of the attempted, where a rule judges it; else of the completed."""
    rule = next((check for check in checks if check.id == f"{metric}.p99"), None)
    said = "completed requests"
    if rule is not None and rule.bound is not None:
        said = f"bound {show(rule.bound, rule.unit)}: {_outcome(rule)}"
    value = show(stats.p99, SECONDS)
    if judged is not None:
        value, said = f.plain(judged.observed_text), f"of all attempted; {said}"
    return _Tile(f"{label} P99", value, said)


def _outcome(check: Check) -> str:
    words = {Verdict.PASS: "met", Verdict.FAIL: "not met", Verdict.SKIPPED: "not judged"}
    return words.get(check.verdict, "unproven")


def _figures(report: Report) -> tuple[list[tuple[Picture, str]], str]:
    """Every picture with its drawing, if there is one; why there is none, where that has a remedy."""
    if report.charts is None:
        return [], ""
    from . import charts

    return drawn(charts.pictures(report))


def drawn(pictures: Sequence[Picture]) -> tuple[list[tuple[Picture, str]], str]:
    """Every picture with its drawing, if there is one; why there is none, where that has a remedy."""
    from . import engine, vega

    try:
        if not engine.available():
            raise engine.Undrawn(NO_CHARTS)
        labels = [f"{picture.title}. {picture.says}" for picture in pictures]
        drawings = vega.draw([picture.spec for picture in pictures], labels)
    except engine.Undrawn as why:
        shown = [(picture, "") for picture in pictures if picture.table]
        return shown, f"No charts: {why}. The verdict and every table are the same without."
    return list(zip(pictures, map(markup, drawings), strict=True)), ""


def _blocks(report: Report) -> list[_Block]:
    blocks = []
    worst = a.worst_table(report)
    shown = (*a.length_tables(report), *((("Worst completed requests", worst),) if worst else ()))
    if shown or a.lines(report):
        blocks.append(_Block("who", "Which requests missed", shown, tuple(a.lines(report))))
    if len(report.loads) > 1:
        loads = ("Runs of one load together; latency of completed requests", t.load_table(report))
        ends = f.capacity_line(report)
        blocks.append(_Block("by-load", "Loads", (loads,), (ends,) if ends else ()))
    if report.runs:
        runs = ("Every run", t.run_table(report))
        rest = f.more(len(report.runs), "runs")
        blocks.append(_Block("by-run", "Runs", (runs,), (rest,) if rest else ()))
    return blocks


def _anchors(checks: Sequence[Check]) -> Callable[[Check], str]:
    """Of each check an id of its own that survives in a URL: `<300` and `>300` must not become one."""
    names: dict[int, str] = {}
    for check in checks:
        name = "objective-" + re.sub(r"[^A-Za-z0-9_.]+", "-", check.id).strip("-")
        taken = sum(other == name or other.startswith(f"{name}--") for other in names.values())
        names[id(check)] = f"{name}--{taken + 1}" if taken else name
    return lambda check: names[id(check)]
