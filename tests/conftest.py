"""Shared fixtures: real files beside the repository, golden files, processes, a scrubbed environment."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from tests.forked import forks

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "fixtures"
GOLDEN = ROOT / "tests" / "golden"
SHARED = Path(os.environ.get("SLO_GATE_SHARED", ROOT.parent / "shared"))


# Thousands of tests and what they import stay to the end: collecting garbage among them again and again is a
# quarter of the time until the first test.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files; look at the diff")


@pytest.fixture(autouse=True)
def _scrubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the colours, CI or time zone of the machine it runs on."""
    for name in list(os.environ):
        if name.startswith(("GITHUB_", "GITLAB_", "SLO_GATE_")) or name in (
            "CI",
            "NO_COLOR",
            "FORCE_COLOR",
            "TZ",
        ):
            monkeypatch.delenv(name)


@pytest.fixture
def shared() -> Path:
    """The folder of real result files; the test is skipped where it is not there."""
    if not SHARED.is_dir():
        pytest.skip(f"no shared result files at {SHARED}")
    return SHARED


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with tests/golden/NAME; --update-golden writes it."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        assert path.is_file(), f"{path} is missing: run pytest --update-golden and look at it"
        assert text == path.read_text(encoding="utf-8")

    return compare


Process = Callable[..., "subprocess.CompletedProcess[str]"]


def environment(**env: str) -> dict[str, str]:
    """Of a process of this tree, whose lines have a width."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", **env}


@pytest.fixture
def slo_gate(tmp_path: Path) -> Process:
    """Run `slo-gate` as a process (tests/forked.py); cwd defaults to an empty folder."""

    def run(
        *args: object,
        cwd: Path | None = None,
        input: str | None = None,
        stdout: IO[bytes] | None = None,
        **env: str,
    ) -> subprocess.CompletedProcess[str]:
        words = [str(word) for word in args]
        how = {"cwd": cwd or tmp_path, "env": environment(**env), "input": input, "stdout": stdout}
        return forks().run(words, **how, timeout_s=120)

    return run


@pytest.fixture
def interpreter(tmp_path: Path) -> Process:
    """The same as an interpreter that starts: for imports, and for what a process does as it ends."""

    def run(
        *args: object, cwd: Path | None = None, input: str | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gate", *map(str, args)], cwd=cwd or tmp_path, input=input or "",
            capture_output=True, encoding="utf-8", timeout=120, env=environment(**env),
        )  # fmt: skip

    return run
