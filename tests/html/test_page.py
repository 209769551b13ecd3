"""The page as a reader meets it: in a browser, from the disk, with and without JavaScript."""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gate.emit.page import emit
from tests.conftest import ROOT, Process
from tests.emit.reports import CASES
from tests.html.conftest import Opened

CHARTS = {
    *("misses", "ecdf-ttft", "ecdf-tpot", "ecdf-e2e", "loads", "time-ttft", "time-e2e"),
    *("length-ttft", "length-e2e", "runs", "changes", "moves", "grid"),
}
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
SCREENSHOT = ROOT / "docs" / "report-page.png"


def test_the_page_opens_from_the_disk_in_silence_and_asks_for_nothing(opened: Opened, report: Path) -> None:
    opened.page.wait_for_timeout(300)
    assert opened.requests == [report.as_uri()]
    assert opened.said == []
    assert opened.page.evaluate("performance.getEntriesByType('resource').length") == 0


def test_every_chart_is_drawn_and_has_marks_that_say_their_value(opened: Opened) -> None:
    found = opened.page.evaluate(
        """Object.fromEntries([...document.querySelectorAll('figure')].map((figure) => [figure.id, {
            height: figure.querySelector('svg').getBoundingClientRect().height,
            marks: [...figure.querySelectorAll('[data-said]')].map((mark) => mark.dataset.said),
            wide: figure.scrollWidth > figure.clientWidth}]))"""
    )
    assert set(found) == CHARTS
    for name, chart in found.items():
        assert chart["height"] > 60, name
        assert chart["marks"], name
        assert all(re.search(r"\d", said) for said in chart["marks"]), name
        assert not chart["wide"], name


def test_a_mark_stands_where_its_value_is_on_the_axis(opened: Opened) -> None:
    # TTFT over time: of two requests the slower one stands higher, and the later one further right.
    marks = opened.page.evaluate(
        """[...document.querySelectorAll('#time-ttft [data-said]')].map((mark) => {
            const box = mark.getBoundingClientRect();
            return [mark.dataset.said, box.left + box.width / 2, box.top + box.height / 2]})"""
    )
    dots = []
    for said, x, y in marks:
        if match := re.match(r"([\d.,]+) (us|ms|s) at ([\d.,]+) (ms|s|us), (?:good|missed)", said):
            value, unit, at, at_unit = match.groups()
            dots.append((float(value) * SECONDS[unit], float(at) * SECONDS[at_unit], x, y))
    assert len(dots) > 300
    by_value, by_time = sorted(dots), sorted(dots, key=lambda dot: dot[1])
    assert all(later[3] <= sooner[3] + 0.5 for sooner, later in pairwise(by_value))
    assert all(later[2] >= sooner[2] - 0.5 for sooner, later in pairwise(by_time))


def test_a_click_on_a_column_sorts_by_quantity_and_a_second_one_turns_it_round(opened: Opened) -> None:
    page = opened.page
    table = page.locator("table.sort", has=page.locator("caption", has_text="Worst completed requests"))
    head = table.locator("th", has_text=re.compile("^TTFT"))

    def shown() -> list[float]:
        column = head.evaluate("(head) => head.cellIndex")
        cells = table.locator(f"tbody tr td:nth-child({column + 1})").all_inner_texts()
        return [float(number) * SECONDS[unit] for number, unit in (cell.split() for cell in cells)]

    before = shown()
    assert before != sorted(before)
    head.locator("button").click()
    assert shown() == sorted(before)
    assert head.get_attribute("aria-sort") == "ascending"
    head.locator("button").press("Enter")
    assert shown() == sorted(before, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"


def test_pointing_at_a_mark_shows_what_it_says_and_leaving_it_hides_it(opened: Opened) -> None:
    page = opened.page
    bar = page.locator("#misses [data-said]").first
    bar.scroll_into_view_if_needed()
    bar.hover()
    tip = page.locator(".tip:visible")
    assert tip.inner_text() == bar.get_attribute("data-said")
    page.mouse.move(2, 2)
    assert page.locator(".tip:visible").count() == 0


def test_a_chart_can_be_read_with_the_keyboard_alone(opened: Opened) -> None:
    page = opened.page
    drawing = page.locator("#ecdf-ttft .drawing")
    for _ in range(200):
        page.keyboard.press("Tab")
        if drawing.evaluate("(drawing) => drawing === document.activeElement"):
            break
    else:
        pytest.fail("the chart is not reached by Tab")
    page.keyboard.press("ArrowRight")
    first = drawing.locator(".said").inner_text()
    page.keyboard.press("ArrowRight")
    second = drawing.locator(".said").inner_text()
    assert first.startswith("P5 TTFT: ")
    assert second.startswith("P10 TTFT: ")
    assert page.locator(".tip:visible").inner_text() == second
    page.keyboard.press("Escape")
    assert page.locator(".tip:visible").count() == 0


def test_without_javascript_tables_charts_and_values_are_there(chromium: Any, report: Path) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("h1").inner_text().startswith("FAIL chat (blocked)")
    assert page.locator("#ecdf-ttft svg path title").count() >= 20
    assert page.locator("table tbody tr").count() > 20
    assert page.locator("th button").count() == 0
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(chromium: Any, report: Path, axe: str, scheme: str) -> None:
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(report.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.evaluate(axe)
    found = page.evaluate("axe.run(document)")
    faults = [
        f"{fault['id']} ({fault['impact']}): {node['html'][:150]}"
        for fault in found["violations"]
        for node in fault["nodes"]
        if fault["impact"] in ("serious", "critical")
    ]
    assert faults == []
    assert len(found["passes"]) > 20
    context.close()


def test_dark_light_and_paper_have_their_own_colours(opened: Opened) -> None:
    page = opened.page

    def colours() -> tuple[str, str]:
        return tuple(
            page.evaluate(
                """[getComputedStyle(document.body).backgroundColor,
                    getComputedStyle(document.querySelector('#ecdf-ttft svg text')).fill]"""
            )
        )

    page.emulate_media(color_scheme="light")
    light = colours()
    page.emulate_media(color_scheme="dark")
    dark = colours()
    page.emulate_media(color_scheme="dark", media="print")
    paper = colours()
    assert light[0] == paper[0] == "rgb(255, 255, 255)"
    assert dark[0] != light[0]
    assert dark[1] != light[1]
    assert not page.locator("nav").is_visible()


def test_on_paper_no_table_is_cut_off(chromium: Any, report: Path) -> None:
    context = chromium.new_context(viewport={"width": 718, "height": 1000})  # A4 less its margins
    page = context.new_page()
    page.goto(report.as_uri())
    page.emulate_media(media="print")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    cut = page.evaluate(
        """[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth + 1)
            .map((one) => one.getAttribute('aria-label'))"""
    )
    assert cut == []
    context.close()


def test_a_narrow_screen_scrolls_tables_and_not_the_page(chromium: Any, report: Path) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    context.close()


@pytest.mark.parametrize("case", ["demo", *CASES])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_value_of_the_objectives_is_read_without_scrolling(
    chromium: Any, report: Path, tmp_path: Path, case: str, width: int
) -> None:
    path = report
    if case != "demo":
        path = tmp_path / "report.html"
        path.write_text(emit(CASES[case]()), encoding="utf-8")
    context = chromium.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    page.goto(path.as_uri())
    outside = page.evaluate(
        """[...document.querySelectorAll('.rules td, .rules .place')]
            .filter((cell) => cell.matches('td') && cell.scrollWidth > cell.clientWidth + 1
                || cell.getBoundingClientRect().right > window.innerWidth)
            .map((cell) => cell.textContent)"""
    )
    assert outside == []
    if case != "error":
        assert page.locator(".rules tbody").count() == page.locator(".rules .why").count() > 0
        values = page.evaluate(
            """[...document.querySelectorAll('.rules td[data-name]')].filter((cell) => cell.offsetParent)
                .map((cell) => [cell.textContent, getComputedStyle(cell, '::before').content])"""
        )
        assert values
        if width == 390:  # without a head, each value has its name beside it, and what is not known no line
            assert [text for text, name in values if text == "-" or name == "none"] == []
    context.close()


def test_an_objective_is_sorted_together_with_its_reason(opened: Opened) -> None:
    page = opened.page

    def shown() -> list[tuple[str, str]]:
        return page.evaluate(
            """[...document.querySelectorAll('.rules tbody')].map((one) => [one.id,
                one.querySelector('.name').textContent, one.querySelector('.why').textContent])"""
        )

    before = shown()
    page.locator(".rules th", has_text="objective").locator("button").click()
    assert shown() != before
    assert sorted(before, key=lambda one: one[1]) == shown()


def test_names_from_files_run_nothing_and_add_nothing(
    chromium: Any, tmp_path: Path, slo_gate: Process
) -> None:
    pytest.importorskip("vl_convert")
    bad = '</title></style></script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>&"x'
    name = "a<img src=x onerror=window.pwned=1>&\"'<script>window.pwned=1<script>.jsonl"
    lines = [
        f'{{"run": {run}, "ttft_s": {0.1 + 0.01 * row}, "e2e_s": 1.0, "output_tokens": 50, "concurrency": 4}}'
        for run in (1, 2)
        for row in range(30)
    ]
    (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    policy = f"version: 1\nname: '{bad}'\nslo: {{ttft: {{p90: 300ms}}}}\ngoodput: {{min: 90%}}\n"
    (tmp_path / "slo.yaml").write_text(policy, encoding="utf-8")
    done = slo_gate("check", name, "--policy", "slo.yaml", "--set", f"model={bad}", "--html", "report.html")
    assert done.returncode in (0, 1, 4), done.stderr
    context = chromium.new_context()
    opened = Opened(context.new_page(), tmp_path / "report.html")
    opened.page.wait_for_timeout(200)
    assert opened.page.evaluate("window.pwned") is None
    assert opened.page.locator("script").count() == 1
    assert opened.page.locator("img, iframe, object, embed, link, svg a, svg image, svg use").count() == 0
    assert opened.requests == [(tmp_path / "report.html").as_uri()]
    assert opened.said == []
    assert bad in opened.page.locator("header").inner_text()
    marks = opened.page.locator("#runs [data-said]")
    assert any(name in said for said in marks.evaluate_all("(marks) => marks.map((one) => one.dataset.said)"))
    context.close()


def test_the_picture_in_the_docs_is_of_this_page(
    chromium: Any, report: Path, request: pytest.FixtureRequest
) -> None:
    context = chromium.new_context(viewport={"width": 1280, "height": 820})
    page = context.new_page()
    page.goto(f"{report.as_uri()}#charts")
    told = page.locator(".figures").all_inner_texts()
    mark = hashlib.sha256("\n".join(told).encode()).hexdigest().encode()
    shot = page.screenshot()
    assert shot.startswith(b"\x89PNG")
    if request.config.getoption("--update-golden"):
        SCREENSHOT.write_bytes(labelled(shot, mark))
    assert mark in SCREENSHOT.read_bytes(), (
        "the page says other things: run make test-html PYTEST=--update-golden"
    )
    assert SCREENSHOT.stat().st_size < 250_000
    context.close()


def labelled(png: bytes, text: bytes) -> bytes:
    """The picture with a text chunk in front of its end, which says of what page it is."""
    chunk = b"tEXtpage\0" + text
    whole = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return png[:-12] + whole + png[-12:]
