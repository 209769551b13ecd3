"""The page of a trend in a real browser: it draws, asks for nothing, and is accessible."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gate.advise.trend import trend
from gate.emit import page
from gate.model import RecordedPolicy
from tests.history import made
from tests.html.conftest import Opened

CHARTS = ("ttft", "tpot", "e2e", "goodput", "error_rate")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, a change point, a release, another policy and a failing objective."""
    pytest.importorskip("vl_convert")
    records = made.sessions()
    records += [
        made.sealed(
            made.replace(
                one, commit=made.commit(200 + at), tags=("v1",) * (at == 5), report_sha256=f"{at + 500:064x}",
                policy=RecordedPolicy("chat", ("a" if at < 9 else "b") * 64),
            )
        )
        for at, one in enumerate(made.sessions(15, step=0.5, at=8, model="other-70b", hardware="8xH200"))
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("trend-page") / "trend.html"
    path.write_text(page.emit_trend(trend(records, "main", {}, ("one file is damaged",))), "utf-8")
    return path


@pytest.fixture(params=["light", "dark", "narrow"])
def opened_trend(chromium: Any, written: Path, request: pytest.FixtureRequest) -> Iterator[Opened]:
    size = {"width": 360 if request.param == "narrow" else 1280, "height": 900}
    scheme = "dark" if request.param == "dark" else "light"
    context = chromium.new_context(viewport=size, color_scheme=scheme)
    yield Opened(context.new_page(), written)
    context.close()


def test_it_is_silent_drawn_and_accessible(opened_trend: Opened, written: Path, axe: str) -> None:
    opened_trend.page.wait_for_timeout(200)
    assert opened_trend.requests == [written.as_uri()]
    assert opened_trend.said == []
    heights = opened_trend.page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('figure')].map((figure) =>"
        " [figure.id, figure.querySelector('svg').getBoundingClientRect().height]))"
    )
    assert set(heights) == {f"load-{at}-{name}" for at in (0, 1) for name in CHARTS}
    assert min(heights.values()) > 40
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth + 1"
    assert opened_trend.page.evaluate(wide)
    opened_trend.page.evaluate(axe)
    found = opened_trend.page.evaluate("axe.run(document).then((result) => result.violations)")
    assert [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found] == []


def test_marks_say_figure_commit_and_change(opened_trend: Opened) -> None:
    marks = opened_trend.page.evaluate(
        "[...document.querySelectorAll('[data-said]')].map((m) => m.dataset.said)"
    )
    assert any(re.match(r"P99 TTFT [\d.]+ ms, [0-9a-f]{12}, 2027-01-01, PASS", said) for said in marks)
    assert any(said.startswith("change point at session 41") for said in marks)
    assert any("release, v1" in said for said in marks)
    assert any("policy, policy bbbb" in said for said in marks)
