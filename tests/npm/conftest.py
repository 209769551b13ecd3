"""Programs from npm that others wrote; `make test-action` installs them, else their tests skip."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

NPM = ROOT / ".cache" / "npm" / "node_modules"
# The paths of GitHub's API that slo-gate uses: Prism takes a minute to read all of them.
PATHS = (
    "/user",
    "/repos/{owner}/{repo}/pulls",
    "/repos/{owner}/{repo}/issues/{issue_number}/comments",
    "/repos/{owner}/{repo}/issues/comments/{comment_id}",
    "/repos/{owner}/{repo}/check-runs",
    "/repos/{owner}/{repo}/check-runs/{check_run_id}",
    "/repos/{owner}/{repo}/commits/{ref}/check-runs",
)


def installed(name: str) -> Path:
    """A file below node_modules; skips the test where it is missing, unless NEED_NPM is set."""
    path = NPM / name
    if not path.exists() and not os.environ.get("NEED_NPM"):
        pytest.skip(f"{name} is not installed: make test-action installs it")
    return path


class Prism:
    """A proxy that holds each request to GitHub's OpenAPI description, and its log."""

    def __init__(self, port: int, log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._log = log

    def requests(self) -> int:
        """How many went through it."""
        return self._log.read_text(encoding="utf-8").count("Request received")

    def violations(self) -> list[str]:
        """Of requests; those of the stand-in's answers, which are but a part of GitHub's, do not count."""
        lines = self._log.read_text(encoding="utf-8").splitlines()
        return [line for line in lines if "iolation: request" in line or "No path matched" in line
                or "error     Request terminated" in line]  # fmt: skip


@pytest.fixture(scope="session")
def description(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GitHub's own description of the paths that slo-gate uses."""
    whole = installed("@octokit/openapi/generated/api.github.com.deref.json")
    document: dict[str, Any] = json.loads(whole.read_bytes())
    document |= {"paths": {name: document["paths"][name] for name in PATHS}, "components": {}}
    document.pop("x-webhooks", None)
    path = tmp_path_factory.mktemp("openapi") / "github.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.fixture
def prism(description: Path, tmp_path: Path) -> Iterator[Callable[[str], Prism]]:
    """Starts Prism before the API at an address."""
    started: list[subprocess.Popen[bytes]] = []

    def start(upstream: str) -> Prism:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        log = tmp_path / "prism.log"
        words = [installed(".bin/prism"), "proxy", description, upstream, "-h", "127.0.0.1", "-p", port]
        with log.open("wb") as file:
            command = list(map(str, words))
            started.append(subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT))
        for _ in range(600):
            if "Prism is listening" in log.read_text(encoding="utf-8"):
                return Prism(port, log)
            assert started[-1].poll() is None, log.read_text(encoding="utf-8")
            time.sleep(0.1)
        raise AssertionError(log.read_text(encoding="utf-8"))

    yield start
    for process in started:
        process.terminate()
        process.wait()
