"""A real Prometheus (make test-live) that scrapes two engines: what is pulled, and what goes wrong."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from tests.conftest import ROOT, Process
from tests.live.conftest import Pull

USERS = 'basic_auth_users: {me: "$2b$04$/QAJCJqH2q6We12t8MCnGOGcz.Ix7RxdfPDp/g/G8quJzWBmXUl0a"}\n'  # s3cret
POLICY = """\
version: 1
name: canary
slo: {ttft: {p90: 500ms}, tpot: {p90: 25ms}, e2e: {p90: 3s}}
limits: {error_rate: {max: 1%}}
evidence: {attempted: gateway_requests_total, decide: point}
"""
ME = {"SLO_GATE_PULL_USER": "me", "SLO_GATE_PULL_PASSWORD": "s3cret"}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Deployment:
    """Engines by name, and the server that scrapes them every second."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {"stable": free_port(), "canary": free_port()}
        self.engines: dict[str, subprocess.Popen[bytes]] = {}
        for name, slowness in (("stable", 1.0), ("canary", 1.2)):
            self.start(name, slowness)
        jobs = [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"pod": f"{name}-0"}}
            for name, port in self.ports.items()
        ]
        config = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{"job_name": "engines", "static_configs": jobs}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
        (folder / "web.yml").write_text(USERS, encoding="utf-8")
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        words = [
            *("prometheus", "--config.file=prometheus.yml", f"--storage.tsdb.path={folder / 'data'}"),
            *("--web.config.file=web.yml", f"--web.listen-address=127.0.0.1:{port}"),
        ]
        self.server = subprocess.Popen(
            words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def start(self, name: str, slowness: float) -> None:
        words = [sys.executable, "-m", "tests.live.engine", str(self.ports[name]), str(slowness)]
        self.engines[name] = subprocess.Popen(words, cwd=ROOT)

    def stop(self, name: str) -> None:
        self.engines[name].kill()
        self.engines[name].wait()

    def ready(self) -> None:
        """Until both engines have been scraped."""
        headers = urllib3.make_headers(basic_auth="me:s3cret")
        for _ in range(240):
            time.sleep(0.25)
            try:
                answer = urllib3.request(
                    "GET",
                    f"{self.url}/api/v1/query",
                    fields={"query": "sum(up)"},
                    headers=headers,
                    retries=False,
                )
            except urllib3.exceptions.HTTPError:
                continue
            result = answer.json()["data"]["result"] if answer.status == 200 else []
            if result and result[0]["value"][1] == "2":
                return
        raise AssertionError("no engine was scraped in a minute")

    def end(self) -> None:
        for process in (self.server, *self.engines.values()):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    if not os.environ.get("NEED_PROMETHEUS"):
        pytest.skip("a minute of waiting for scrapes: make test-live installs Prometheus and runs it")
    assert shutil.which("prometheus"), "prometheus is not installed"
    found = Deployment(tmp_path_factory.mktemp("deployment"))
    try:
        found.ready()
        yield found
    finally:
        found.end()


Judge = Callable[..., dict[str, Any]]


@pytest.fixture
def judged(pull: Pull, slo_gate: Process, deployment: Deployment, tmp_path: Path) -> Judge:
    """Pull the last seconds of a pod, and the report of check."""

    def run(pod: str, seconds: int, step: int = 2) -> dict[str, Any]:
        labels = f'{{pod="{pod}-0"}}'
        done = pull(
            deployment.url, "--for", f"{seconds}s", "--step", f"{step}s", "--match", labels,
            "--attempted", f"gateway_requests_total{labels}", "-o", "w.json", **ME,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        (tmp_path / "slo.yaml").write_text(POLICY, encoding="utf-8")
        found: dict[str, Any] = json.loads(
            slo_gate("check", "w.json", "--format", "json", cwd=tmp_path).stdout
        )
        return found

    return run


def test_a_pod_that_is_steady_passes_and_its_requests_are_counted(judged: Judge) -> None:
    time.sleep(12)
    report = judged("canary", 10)
    assert report["verdict"] == "pass", report["headline"]
    run = report["runs"][0]
    assert (run["tool"], run["model"]) == ("vLLM server", "m")
    counts = [one["counts"]["attempted"] for one in report["runs"]]
    assert all(20 <= n <= 400 for n in counts)  # 100 a second on an idle machine, in windows of 2 s
    assert sum(one["counts"]["failed"] for one in report["runs"]) <= 0.1 * sum(
        counts
    )  # on their way at the end


def test_a_wrong_password_is_exit_3(pull: Pull, deployment: Deployment) -> None:
    done = pull(deployment.url, "--for", "10s", "--step", "5s", **{**ME, "SLO_GATE_PULL_PASSWORD": "wr0ng"})
    assert (done.returncode, "HTTP 401" in done.stderr, "wr0ng" in done.stderr) == (3, True, False)


def test_a_time_that_the_server_does_not_have_is_said(pull: Pull, deployment: Deployment) -> None:
    done = pull(deployment.url, "--for", "1h", "--step", "10s", "-o", "long.json", **ME)
    assert (done.returncode, "there is nothing before" in done.stderr) == (0, True)


def test_a_pod_that_is_not_there_is_exit_3(pull: Pull, deployment: Deployment) -> None:
    done = pull(deployment.url, "--for", "10s", "--step", "5s", "--match", '{pod="gone"}', **ME)
    assert (done.returncode, "no series of an engine" in done.stderr) == (3, True)


def test_a_page_of_an_engine_is_read_without_a_server(
    pull: Pull, deployment: Deployment, tmp_path: Path
) -> None:
    pages = [f"http://127.0.0.1:{port}/metrics" for port in deployment.ports.values()]
    done = pull(
        *pages, "--every", "1s", "--for", "3s", "--attempted", "gateway_requests_total", "-o", "p.json"
    )
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "p.json").read_bytes())
    assert len({one["metric"]["instance"] for one in document["data"]["result"]}) == 2


def test_a_restart_and_a_gap_are_never_a_pass(judged: Judge, deployment: Deployment) -> None:
    """The canary is killed, is away for some seconds, and comes back: its counters begin anew."""
    deployment.stop("canary")
    time.sleep(4)
    deployment.start("canary", 1.2)
    time.sleep(10)
    report = judged("canary", 16)
    assert report["verdict"] == "inconclusive"
    said = json.dumps(report["runs"])
    assert "restarted" in said or "vanished" in said or "fell from" in said


def test_a_pod_that_vanished_is_never_a_pass(judged: Judge, deployment: Deployment) -> None:
    deployment.stop("stable")
    time.sleep(6)
    report = judged("stable", 12)
    assert report["verdict"] == "inconclusive", report["headline"]
