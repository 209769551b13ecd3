"""What is shipped: the wheel holds the schemas and presets, and an installed one judges."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.conftest import ROOT


def test_the_wheel_holds_schemas_presets_and_no_tests(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wheel = next(tmp_path.glob("*.whl"))
    names = set(zipfile.ZipFile(wheel).namelist())
    presets = {path.name for path in (ROOT / "gate" / "presets").glob("*.yaml")}
    assert {f"gate/presets/{name}" for name in presets} <= names
    assert {"gate/schemas/policy.schema.json", "gate/schemas/report.schema.json"} <= names
    assert not [name for name in names if name.startswith(("tests", "examples", "benchmarks"))]
    # The code as shipped, without the checkout beside it.
    away = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(away)
    code = "from gate._schemas import load; from gate import policy; load('report'); policy.preset('chat')"
    run = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(away)!r}); {code}"]
    assert subprocess.run(run, cwd=tmp_path, capture_output=True, text=True).stderr == ""
