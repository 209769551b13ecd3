"""The GitHub file of a recipe, run by act as it was written, with a real client and two streaming servers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gate import policy
from gate.recipe import recipe
from tests.action.runner import commit
from tests.clients.conftest import ROWS, python_of
from tests.clients.test_clients import POLICY, SERVER
from tests.conftest import ROOT

CLIENT = "inference-perf"  # the smallest that installs with what the recipe prints
KEEP = """\
name: A stand-in for actions/upload-artifact
inputs: {name: {required: true}, path: {required: true}}
runs:
  using: composite
  steps:
    - shell: bash
      env: {PATHS: "${{ inputs.path }}"}
      run: mkdir -p "$ARTIFACTS" && cp -r $PATHS "$ARTIFACTS"
"""


def prepared(folder: Path) -> Path:
    """A repository with the policy and what `slo-gate recipe --ci github -o .` writes."""
    text = POLICY.format(sweep="")
    for name, made in recipe(
        policy.parse(text.encode(), "slo.yaml", profile="pr"), CLIENT, ci="github"
    ).files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [  # as the file asks: what pip installs is put in
            line.partition("SLO_GATE:")[0] + f"SLO_GATE: {ROOT}" if "SLO_GATE: git+" in line else line
            for line in made.splitlines()
        ]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "slo.yaml").write_text(text, encoding="utf-8")
    commit(folder)
    remote = ["git", "remote", "add", "origin", "https://github.com/owner/repo"]
    subprocess.run(remote, cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("slower", [1.3, 1.0], ids=["slower", "equal"])
def test_the_written_workflow_blocks_a_slower_build_and_lets_an_equal_one_through(
    slower: float, cache: Path, tokenizer: Path, server: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "repository").mkdir()
    folder = prepared(tmp_path / "repository")
    out = tmp_path / "out"
    (out / "upload").mkdir(parents=True)
    (out / "upload" / "action.yml").write_text(KEEP, encoding="utf-8")
    text = (folder / ".github" / "workflows" / "slo-gate.yml").read_text("utf-8")
    (upload,) = re.findall(r"uses: (actions/upload-artifact@[0-9a-f]{40}) ", text)
    request: dict[str, Any] = {"number": 7, "head": {"sha": "0" * 40, "repo": {"full_name": "owner/repo"}}}
    (out / "event.json").write_text(json.dumps({"pull_request": request}), encoding="utf-8")
    variables = {"SLO_BASE_URL": server(*SERVER), "SLO_URL": server(*SERVER, "--slower", slower)}
    variables |= {"SLO_MODEL": "loopback", "SLO_TOKENIZER": str(tokenizer), "SLO_HARDWARE": "a-laptop"}
    words = [str(Path(sys.executable).parent / "act"), "pull_request", "-e", str(out / "event.json")]
    words += [
        "-P",
        "self-hosted=-self-hosted",
        "-P",
        "gpu=-self-hosted",
        "--action-cache-path",
        str(out / "cache"),
    ]
    words += [word for name, value in variables.items() for word in ("--var", f"{name}={value}")]
    words += ["--env", f"ARTIFACTS={out / 'artifacts'}", "--env", "no_proxy=127.0.0.1"]
    words += ["--env", "GITHUB_REPOSITORY=owner/repo", "--local-repository", f"{upload}={out / 'upload'}"]
    env = {
        key: value for key, value in os.environ.items() if not key.startswith(("GITHUB_", "PYTHON", "HF_"))
    }
    places = [Path(python_of(version)).parent for version in ("3.11", "3.12")]
    env |= {
        "PATH": os.pathsep.join([*map(str, places), os.environ["PATH"]]),
        "XDG_CACHE_HOME": str(out / "home"),
    }

    done = subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, timeout=1700, check=False
    )
    log = done.stdout + done.stderr

    kept = out / "artifacts" / "report.json"
    assert kept.is_file(), log[-6000:]
    report = json.loads(kept.read_text("utf-8"))
    wanted = ("fail", 1) if slower > 1 else ("pass", 0)
    assert (report["verdict"], report["exit_code"]) == wanted, report["headline"]
    assert (done.returncode != 0) is (slower > 1), log[-6000:]
    assert {one["hardware"] for one in report["runs"]} == {"a-laptop"}
    assert {one["id"] for one in report["objectives"] if one["verdict"] == "fail"} == (
        {"regression.ttft.p50", "regression.tpot.p50"} if slower > 1 else set()
    )
    row = ROWS.setdefault(
        f"{CLIENT}, GitHub file", {"version": report["runs"][0]["tool_version"], "parses": "yes"}
    )
    row["verdict"] = ", ".join(filter(None, [row.get("verdict"), f"{slower:g} x: {report['verdict']}"]))
