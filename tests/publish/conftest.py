"""A forge on loopback, and `slo-gate comment` as a job of a pull request runs it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from gate.emit import EMITTERS
from gate.model import AnyReport
from tests.conftest import Process
from tests.publish.forges import SHA, TOKEN, FakeGitHub

Done = subprocess.CompletedProcess[str]
Comment = Callable[..., Done]


@pytest.fixture
def github(httpserver: HTTPServer) -> FakeGitHub:
    return FakeGitHub(httpserver)


@pytest.fixture
def comment(tmp_path: Path, slo_gate: Process, httpserver: HTTPServer) -> Comment:
    """Run `slo-gate comment` on a report as a job of pull request 7 would."""

    def run(report: AnyReport, *options: object, event: object = None, **env: str) -> Done:
        (tmp_path / "report.json").write_text(EMITTERS["json"](report), encoding="utf-8")
        said = {"pull_request": {"number": 7, "head": {"sha": SHA}}} if event is None else event
        (tmp_path / "event.json").write_text(json.dumps(said), encoding="utf-8")
        known = {
            "GITHUB_API_URL": httpserver.url_for("").rstrip("/"),
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_REPOSITORY": "owner/repo",
            "GITHUB_RUN_ID": "99",
            "GITHUB_EVENT_PATH": "event.json",
            "GITHUB_TOKEN": TOKEN,
            "no_proxy": "*",
        }
        done = slo_gate("comment", "--report", "report.json", *options, **{**known, **env})
        assert TOKEN not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run
