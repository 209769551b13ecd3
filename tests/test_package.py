"""What is shipped: the wheel holds the schemas and presets, and an installed one judges."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


def test_the_wheel_says_that_it_is_typed_and_where_the_project_is(wheel: Path) -> None:
    content = zipfile.ZipFile(wheel)
    assert "gate/py.typed" in content.namelist()
    name = next(name for name in content.namelist() if name.endswith(".dist-info/METADATA"))
    urls = Parser().parsestr(content.read(name).decode()).get_all("Project-URL") or []
    known = dict(url.split(", ") for url in urls)
    assert set(known) == {"Homepage", "Documentation", "Changelog", "Issues"}
    for kind, folder in (("Documentation", "tree/main/"), ("Changelog", "blob/main/")):
        assert (ROOT / known[kind].partition(folder)[2]).exists()


def test_the_image_is_built_from_what_it_copies_alone() -> None:
    words = [line.split() for line in (ROOT / "Dockerfile").read_text().splitlines()]
    copied = {name for line in words if line[:1] == ["COPY"] and line[1][0] != "-" for name in line[1:-1]}
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied


def test_the_wheel_holds_schemas_presets_templates_and_no_tests(wheel: Path, tmp_path: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "gate").rglob("*.*") if path.suffix != ".pyc"}
    assert {"gate/presets/chat.yaml", "gate/recipe/templates/clients/vllm.sh.j2"} <= files <= names
    assert {"gate/schemas/policy.schema.json", "gate/schemas/report.schema.json"} <= names
    assert not [name for name in names if name.startswith(("tests", "examples", "benchmarks"))]
    # The code as shipped, without the checkout beside it.
    away = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(away)
    code = (
        "from gate._schemas import load; load('report'); from gate import policy; "
        "chat = policy.preset('chat'); from gate.recipe import markdown, recipe; "
        "markdown(recipe(chat, 'vllm', ci='gitlab', peak=4), []); "
        "from gate.recipe.init import Answers, policy_text; policy_text(Answers('one-shot', 'urn:x')); "
        "from gate.model import ErrorReport; from gate.emit import EMITTERS; "
        "error = ErrorReport(2, 'a', 'b', 'c', 'd'); EMITTERS['html'](error); EMITTERS['markdown'](error)"
    )
    run = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(away)!r}); {code}"]
    assert subprocess.run(run, cwd=tmp_path, capture_output=True, text=True).stderr == ""


def test_a_wheel_has_the_same_bytes_wherever_and_whenever_it_is_built(wheel: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "checkout"
    for name in ("gate", "schemas"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    for path in copy.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, umask=0o077)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()
