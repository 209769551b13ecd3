"""What is shipped: the wheel holds the schemas and presets, and an installed one judges."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.conftest import ROOT


def test_the_wheel_holds_schemas_presets_templates_and_no_tests(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wheel = next(tmp_path.glob("*.whl"))
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
