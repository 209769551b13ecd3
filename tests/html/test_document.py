"""The page as a document: size, bytes, what it says where charts cannot be drawn."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from gate.advise.whatif import whatif
from gate.emit.page import emit, engine
from gate.evaluate import evaluate
from gate.model import Report, Status
from tests.conftest import ROOT, Process
from tests.emit.reports import CASES
from tests.html import results
from tests.runs import goodput, latency, make_policy, make_requests, make_run

VOID = {"meta", "br", "img", "link", "input", "hr", "wbr"}
NEEDS_VEGA = pytest.mark.skipif(
    importlib.util.find_spec("vl_convert") is None, reason="vl-convert is not installed"
)


class Outline(HTMLParser):
    """Elements that are open, identifiers, links, and whether every element was closed where it should."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.wrong: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def large(n: int) -> Report:
    """A report of n requests with every scatter full and failures everywhere."""
    rng = np.random.default_rng(7)
    output = rng.integers(2, 400, n)
    ttft = rng.gamma(4, 0.1, n)
    requests = make_requests(
        ttft,
        ttft + rng.gamma(40, 5e-4, n) * (output - 1),
        output,
        status=np.where(rng.random(n) < 0.05, Status.FAILED, Status.COMPLETED),
        start_s=np.sort(rng.uniform(0, 5000, n)),
        input_tokens=rng.integers(10, 4000, n),
    )
    policy = make_policy(
        *(latency("ttft", 99, 0.8), latency("tpot", 99, 0.03), latency("e2e", 99, 9.0), goodput(0.99)),
        bounds={"ttft": 0.8, "tpot": 0.03, "e2e": 9.0},
    )
    return evaluate(policy, [make_run(requests)], date(2027, 1, 12), charts=whatif)


@NEEDS_VEGA
def test_a_page_of_a_hundred_thousand_requests_stays_below_two_megabytes() -> None:
    page = emit(large(100_000))
    assert page.count("<figure") == 10
    assert len(page.encode()) < 2_000_000


@NEEDS_VEGA
def test_the_same_report_gives_the_same_bytes() -> None:
    report = large(500)
    assert emit(report) == emit(report)


@NEEDS_VEGA
def test_drawings_are_well_formed_and_every_link_stays_on_the_page() -> None:
    outline = Outline(emit(large(300)))
    assert outline.wrong == []
    assert outline.open == []
    assert len(set(outline.ids)) == len(outline.ids)
    assert all(link.startswith("#") and link[1:] in outline.ids for link in outline.links)


@NEEDS_VEGA
def test_a_specification_that_cannot_be_drawn_costs_the_drawings_and_not_the_page() -> None:
    with pytest.raises(engine.Undrawn, match="ended with 1"):
        engine.draw([{"mark": "point", "data": {"values": []}}, {"mark": 5}])
    assert len(engine.draw([{"mark": "point", "data": {"values": []}}])) == 1


@NEEDS_VEGA
def test_the_engine_loads_no_data_from_a_disk_or_a_network(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('[{"a": 1}]', encoding="utf-8")
    for url in ((tmp_path / "secret.json").as_uri(), "http://127.0.0.1:9/data.json"):
        spec = {"mark": "text", "data": {"url": url}, "encoding": {"text": {"field": "a"}}}
        try:
            (drawn,) = engine.draw([spec])
        except engine.Undrawn:
            continue
        assert "<text" not in drawn


@pytest.mark.parametrize("case", CASES)
def test_every_verdict_is_a_whole_document(case: str) -> None:
    outline = Outline(emit(CASES[case]()))
    assert outline.wrong == []
    assert outline.open == []
    assert len(set(outline.ids)) == len(outline.ids)
    assert all(link.startswith("#") and link[1:] in outline.ids for link in outline.links)


def test_without_vl_convert_the_page_has_the_numbers_and_says_how_to_get_charts(tmp_path: Path) -> None:
    results.write(tmp_path)
    (tmp_path / "slo.yaml").write_text(results.POLICY, encoding="utf-8")
    # As Python sees a package that is not installed.
    script = (
        "import sys; sys.modules['vl_convert'] = None; from gate.cli import run; "
        "sys.exit(run(['check', 'results.jsonl', '--policy', 'slo.yaml', '--html', 'report.html']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1, 4), done.stderr
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "pip install &#39;.[report]&#39;" in page
    assert "<svg" not in page
    assert "How TTFT is distributed" in page


@pytest.mark.parametrize(
    ("arguments", "code"), [(("nothing.json",), 3), (("results.jsonl", "--tool", "x"), 2)]
)
def test_an_error_leaves_a_page_that_says_so(
    tmp_path: Path, slo_gate: Process, arguments: tuple[str, ...], code: int
) -> None:
    results.write(tmp_path, per_run=20)
    (tmp_path / "slo.yaml").write_text(results.POLICY, encoding="utf-8")
    (tmp_path / "report.html").write_text("an old PASS", encoding="utf-8")
    done = slo_gate("check", *arguments, "--policy", "slo.yaml", "--html", "report.html")
    assert done.returncode == code
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"ERROR (exit {code}, no verdict)" in page
    assert "an old PASS" not in page
    assert '<header class="error">' in page


def test_a_page_changes_neither_verdict_nor_exit_code(tmp_path: Path, slo_gate: Process) -> None:
    results.write(tmp_path)
    (tmp_path / "slo.yaml").write_text(results.POLICY, encoding="utf-8")
    plain = slo_gate("check", "results.jsonl", "--policy", "slo.yaml", "--json", "-")
    beside = slo_gate("check", "results.jsonl", "--policy", "slo.yaml", "--json", "-", "--html", "r.html")
    assert (plain.returncode, plain.stdout) == (beside.returncode, beside.stdout)
