"""Every emitter, every verdict: the exact bytes, reviewed as a diff."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from gate.emit import EMITTERS
from tests.conftest import ROOT
from tests.emit.reports import CASES

SUFFIX = {
    "text": "txt",
    "text, verbose": "v.txt",
    "json": "json",
    "junit": "xml",
    "markdown": "md",
    "github": "github.txt",
    "gitlab": "codequality.json",
    "html": "html",
    "openmetrics": "prom",
    "sarif": "sarif",
    "summary": "summary.txt",
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", SUFFIX)
def test_every_emitter_shows_every_verdict_as_reviewed(
    name: str, case: str, golden: Callable[[str, str], None]
) -> None:
    emitter, _, verbose = name.partition(", ")
    golden(
        f"emit/{case}.{SUFFIX[name]}",
        EMITTERS[emitter](CASES[case](), **({verbose: True} if verbose else {})),
    )


def test_every_emitter_has_its_goldens() -> None:
    assert {name.partition(", ")[0] for name in SUFFIX} == set(EMITTERS)


@pytest.mark.parametrize("name", EMITTERS)
def test_equal_reports_give_equal_bytes_in_another_process(name: str) -> None:
    script = (
        "import sys; from gate.emit import EMITTERS; from tests.emit.reports import CASES; "
        f"sys.stdout.buffer.write(EMITTERS[{name!r}](CASES['fail']()).encode())"
    )
    other = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=True, env={"PYTHONHASHSEED": "7"}
    )
    assert other.stdout.decode() == EMITTERS[name](CASES["fail"]())


def test_loading_the_emitters_loads_none_of_their_libraries() -> None:
    script = (
        "import sys, gate.emit; "
        "print(sorted({'jinja2', 'junit_xml', 'rich', 'markupsafe', 'xml'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=True, text=True
    )
    assert done.stdout.strip() == "[]"


def test_plain_text_never_loads_rich() -> None:
    script = (
        "import sys; from gate.emit import text; from tests.emit.reports import CASES; "
        "[text.emit(make()) for make in CASES.values()]; print('rich' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=True, text=True
    )
    assert done.stdout.strip() == "False"


def test_every_format_has_its_section_in_the_docs() -> None:
    docs = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    for name in EMITTERS:
        assert f"\n## {name}\n" in docs.lower()
