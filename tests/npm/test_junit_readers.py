"""Readers of JUnit that others wrote agree on how many cases failed, broke, were skipped and passed."""

from __future__ import annotations

import json
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped, TestSuite
from msgspec.structs import replace

from gate.emit.junit import DIALECTS, emit
from gate.model import AnyReport
from tests.conftest import ROOT
from tests.emit.reports import (
    CASES,
    EVIDENCE,
    GOODPUT_FAIL,
    REGRESSION,
    TTFT_FAIL,
    TTFT_WARN,
    UNDECIDED,
    make_check,
    make_report,
)
from tests.npm.conftest import NPM, installed

# One rule of every verdict and weight, and how each is counted: (report, tests, failures, errors, skipped).
ALL = make_report(
    checks=(
        make_check(),
        GOODPUT_FAIL,
        TTFT_FAIL,
        TTFT_WARN,
        replace(TTFT_FAIL, id="waived", waived="until 2027-01-31, serving: fix"),
        EVIDENCE,
        replace(EVIDENCE, id="evidence.runs", blocks=False),
        replace(UNDECIDED, id="undecided"),
        *(replace(UNDECIDED, id=f"open{n}", blocks=False) for n in range(3)),
        REGRESSION,
    )
)
REPORTS: dict[str, tuple[AnyReport, int, int, int, int]] = {
    "all": (ALL, 12, 2, 2, 5),
    "pass": (CASES["pass"](), len(CASES["pass"]().checks), 0, 0, 1),  # type: ignore[union-attr]
    "error": (CASES["error"](), 1, 0, 1, 0),
    "unproven": (
        make_report(checks=tuple(replace(UNDECIDED, id=f"open{n}", blocks=False) for n in range(5))),
        *(5, 0, 0, 5),
    ),
}


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, int]]]:
    """What the readers from npm make of every report in every dialect."""
    for name in ("test-results-parser", "junit-to-ctrf"):
        installed(name)
    folder = tmp_path_factory.mktemp("junit")
    for name, (report, *_) in REPORTS.items():
        for dialect in DIALECTS:
            (folder / f"{name}.{dialect}.xml").write_text(emit(report, dialect), encoding="utf-8")
    script = NPM.parent / "count.mjs"  # modules are looked for beside it
    shutil.copy(ROOT / "tests" / "npm" / "count.mjs", script)
    files = sorted(folder.glob("*.xml"))
    done = subprocess.run(["node", script, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {Path(file).stem: said for file, said in json.loads(done.stdout.splitlines()[-1]).items()}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", REPORTS)
def test_four_readers_agree_on_the_counts(
    name: str, dialect: str, counts: dict[str, dict[str, dict[str, int]]]
) -> None:
    report, tests, failures, errors, skipped = REPORTS[name]
    passed = tests - failures - errors - skipped
    text = emit(report, dialect)
    said = counts[f"{name}.{dialect}"]
    ran = {
        "total": tests - skipped,
        "passed": passed,
        "failed": failures,
        "errors": errors,
        "skipped": skipped,
    }
    assert {key: int(value) for key, value in said["parser"].items()} == ran
    assert [{key: int(value) for key, value in one.items()} for one in said["suites"]] == [ran]
    ctrf = said["ctrf"]  # it knows no errors apart from failures
    assert (ctrf["tests"], ctrf["passed"], ctrf["skipped"]) == (tests, passed, skipped)
    assert ctrf["failed"] == failures + errors
    parsed = JUnitXml.fromstring(text.encode())
    suites = [parsed] if isinstance(parsed, TestSuite) else list(parsed)
    results = [result for suite in suites for case in suite for result in case.result]
    assert [sum(isinstance(one, kind) for one in results) for kind in (Failure, Error, Skipped)] == [
        *(failures, errors, skipped)
    ]
    root = ET.fromstring(text)
    stated = [root.get(key) for key in ("tests", "failures", "errors", "skipped")]
    assert stated == [str(number) for number in (tests, failures, errors, skipped)]
