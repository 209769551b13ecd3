"""The Action run by `act`, without Docker: a repository of its own, a workflow, a fake API on loopback."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import ROOT
from tests.publish.forges import SHA, TOKEN

ACTION = (
    "action.yml",
    ".github",
    ".pre-commit-hooks.yaml",
    "gate",
    "schemas",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)
# The step of the docs; act takes a stand-in for it, because it reaches no github.com.
UPLOAD, *_ = re.findall(
    r"uses: (actions/upload-artifact@[0-9a-f]{40}) # v", (ROOT / "docs/ci/github.md").read_text("utf-8")
)
CHECKOUT = {"uses": "actions/checkout@v4"}


def repository(folder: Path) -> Path:
    """A checkout that holds the Action at its root, as `uses: ./` wants it."""
    folder.mkdir()
    for name in ACTION:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "workflows")
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)
    return folder


def rows(n: int, ttft_s: float, **more: Any) -> str:
    """A generic JSONL of n requests; the tail of the E2E makes each row another one."""
    row = {"ttft_s": ttft_s, "e2e_s": ttft_s + 1, "output_tokens": 100, "concurrency": 8, **more}
    return "".join(json.dumps({**row, "e2e_s": row["e2e_s"] + i / 1e6}) + "\n" for i in range(n))


def commit(folder: Path) -> Path:
    """All of a folder as one commit of a repository of its own."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q", "."], ["add", "-A"], ["commit", "-qm", "x", "--allow-empty"]):
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)
    return folder


class Ran:
    """What a run of act left."""

    def __init__(self, done: subprocess.CompletedProcess[str], steps: dict[str, Any]) -> None:
        self.code = done.returncode
        self.log = done.stdout + done.stderr
        self.steps = steps

    def outputs(self, step: str) -> dict[str, str]:
        found: dict[str, str] = self.steps[step]["outputs"]
        return found

    def part(self, name: str) -> str:
        """The log of one step, by its name."""
        found = re.search(
            rf"(?s)Run Main {re.escape(name)}\n.*?(?:Success|Failure) - Main {re.escape(name)} ", self.log
        )
        assert found, f"no step {name} in:\n{self.log}"
        return found[0]


def act(
    folder: Path,
    steps: list[dict[str, Any]],
    *,
    api: str,
    path: str | None = None,
    event: str = "pull_request",
    base_sha: str = "",
    payload: object = None,
    strategy: dict[str, Any] | None = None,
    **env: str,
) -> Ran:
    """Run one job of these steps; what they output is dumped by a last one.

    `payload` is the event file; without it the pull request 7, whose base is `base_sha`.
    """
    out = folder.parent / "out"  # act copies the repository: nothing it writes may be inside
    out.mkdir(exist_ok=True)
    dump = {
        "if": "always()",
        "name": "dump",
        "env": {"STEPS": "${{ toJSON(steps) }}"},
        "run": f'echo "$STEPS" >"{out}/steps.json"',
    }
    job = {"runs-on": "ubuntu-latest", "steps": [CHECKOUT, *steps, dump]}
    job |= {"strategy": strategy} if strategy else {}
    workflow = folder / ".github" / "workflows" / "gate.yml"
    workflow.parent.mkdir(exist_ok=True)
    workflow.write_text(
        yaml.safe_dump({"name": "gate", "on": event, "jobs": {"gate": job}}), encoding="utf-8"
    )
    commit(folder)
    base = {"sha": base_sha} if base_sha else {}
    request = {"number": 7, "head": {"sha": SHA}, "base": base}
    told = {"pull_request": request} if payload is None else payload
    (out / "event.json").write_text(json.dumps(told))
    known = {"GITHUB_API_URL": api, "GITHUB_REPOSITORY": "owner/repo", "no_proxy": "127.0.0.1"}
    known |= {"ARTIFACTS": str(out / "artifacts"), **env}
    words = [
        str(Path(sys.executable).parent / "act"),
        event,
        "-P",
        "ubuntu-latest=-self-hosted",
        "-e",
        str(out / "event.json"),
    ]
    words += [word for name, value in known.items() for word in ("--env", f"{name}={value}")]
    words += ["--local-repository", f"{UPLOAD}={Path(__file__).parent / 'upload-artifact'}"]
    words += ["-s", f"GITHUB_TOKEN={TOKEN}", "--insecure-secrets", "--action-cache-path", str(out / "cache")]
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "SLO_GATE_"))
    }
    clean |= {"XDG_CACHE_HOME": str(out / "cache"), "PATH": path or _path()}
    done = subprocess.run(
        words, cwd=folder, env=clean, capture_output=True, text=True, timeout=600, check=False
    )
    dumped = out / "steps.json"
    return Ran(done, json.loads(dumped.read_text()) if dumped.is_file() else {})


def _path() -> str:
    """With the Python the tests were made with first, not their own environment."""
    return os.pathsep.join([str(Path(sys.base_prefix) / "bin"), os.environ.get("PATH", "")])
