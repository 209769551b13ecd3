"""A real Chromium, driven by Playwright; where it is not installed, its tests skip and say so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.html import results

AXE = ROOT / ".cache" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


def missing(what: str) -> None:
    """Skip; but fail under `make test-html`, which installs everything and must not pass without it."""
    said = f"{what} is not installed: run make test-html"
    if os.environ.get("NEED_BROWSER"):
        pytest.fail(said)
    pytest.skip(said)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    path = shutil.which("chromium")
    if path is None:
        missing("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, as npm brings it."""
    if not AXE.is_file():
        missing("axe-core")
    return AXE.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with every chart, written by the real command."""
    pytest.importorskip("vl_convert")
    folder = tmp_path_factory.mktemp("page")
    (folder / "slo.yaml").write_text(results.POLICY, encoding="utf-8")
    results.write(folder, slower=1.3)
    (folder / "base").mkdir()
    results.write(folder / "base")
    words = (
        *("check", "results.jsonl", "--policy", "slo.yaml", "--baseline", "base/results.jsonl"),
        *("--same-session", "--html", "report.html"),
    )
    done = subprocess.run(
        [sys.executable, "-m", "gate", *words],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    return folder / "report.html"


class Opened:
    """A page from the disk with everything it asked for and said."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page = page
        self.requests: list[str] = []
        self.said: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.goto(path.as_uri())


@pytest.fixture
def opened(chromium: Any, report: Path) -> Iterator[Opened]:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    yield Opened(context.new_page(), report)
    context.close()
