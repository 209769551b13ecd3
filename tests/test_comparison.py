"""docs/comparison.md: what it says of slo-gate is what slo-gate says now."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("compare_rivals")


def documented() -> dict[str, dict[str, str]]:
    """Of the page's tables: the first cell of a row -> column -> cell, of the first row that has it."""
    found: dict[str, dict[str, str]] = {}
    head: list[str] = []
    for line in (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")] if line.startswith("|") else []
        if cells and not head:
            head = cells
        elif cells and not cells[0].startswith("---"):
            found.setdefault(cells[0], dict(reversed([*zip(head[1:], cells[1:], strict=False)])))
        elif not cells:
            head = []
    return found


def test_no_trap_passes_and_each_stops_as_the_page_says(compare: ModuleType, tmp_path: Path) -> None:
    asked = [job for job in compare.jobs(0) if job.kind.startswith("trap ")]
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps(compare.written(asked, tmp_path)), encoding="utf-8")
    said = compare.verdicts(compare.RIVALS[0], asked, file)
    shown = documented()
    words = {"fail": "fails", "pass": "**passes**"}
    for job, verdict in zip(asked, said, strict=True):
        cell = verdict.partition(":")[0]
        assert words.get(cell, cell) == shown[job.kind.removeprefix("trap ")]["slo-gate"], job.kind
    assert "pass" not in said
    assert shown[f"*passes, of {len(asked)}*"]["slo-gate"] == "0"


def test_the_page_says_that_the_same_build_passes_and_no_false_fail_was_seen() -> None:
    row = documented()["slo-gate"]
    passes = int(row["passes, 3 + 3 runs"])
    assert (passes >= 50, row["false FAIL, 3 + 3"], row["found, 3 + 3"]) == (True, "0", "100")


def test_what_does_not_install_is_a_row_with_the_reason(compare: ModuleType) -> None:
    text = compare.page([], {"slo-gate": [], "other": "No matching distribution found for other"}, 0)
    assert "| other | not compared: No matching distribution found for other |" in text
