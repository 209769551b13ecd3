"""A session of `slo-gate run` on a made-up benchmark, as processes; a loopback server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import environment
from tests.forked import forks

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parents[1]
POLICY = """\
version: 1
name: simulated
workload: {{load: {{concurrency: 8}}}}
slo:
  ttft: {{p90: 800ms}}
goodput:
  min: 95%
  request: {{ttft: 800ms}}
{more}
"""


def default_signals() -> None:
    """A shell starts its background jobs, and nohup its command, with signals that are ignored."""
    for name in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(name, signal.SIG_DFL)


class Session:
    """A policy and a session folder; `run` starts `slo-gate run` on it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        self.folder = folder / "session"
        self.policy()

    def policy(self, more: str = "", text: str = POLICY) -> None:
        """Write the policy, with more sections."""
        (self.home / "slo.yaml").write_text(text.format(more=more), encoding="utf-8")

    def simulate(self, *words: object) -> list[str]:
        """The command of a run that takes no time."""
        fixed = ("-S", "-E", str(BENCH / "simulate.py"), "--out", "{out}", "--seed", "{seed}")
        return [sys.executable, *fixed, *map(str, words)]

    def arguments(self, options: tuple[object, ...], command: list[str]) -> list[str]:
        """Of the whole process."""
        tail = ["--", *command] if command else []
        words = [sys.executable, "-m", "gate", "run", "-p", "slo.yaml", "--dir", "session"]
        return [*words, *map(str, options), *tail]

    def start(self, *options: object, command: list[str], **more: Any) -> subprocess.Popen[str]:
        """Start it and go on."""
        how: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        how["preexec_fn"] = default_signals
        return subprocess.Popen(
            self.arguments(options, command), cwd=self.home, env=environment(), **(how | more)
        )

    def run(self, *options: object, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Run it to its end, whatever that is."""
        words = self.arguments(options, command)[3:]
        return forks().run(words, cwd=self.home, env=environment(), input=None, timeout_s=110)

    def report(self, *options: object, command: list[str]) -> dict[str, Any]:
        """Its JSON report."""
        done = self.run("--format", "json", *options, command=command)
        assert done.stdout, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def journal(self, kind: str = "") -> list[dict[str, Any]]:
        """Its events, or those of one kind."""
        path = self.folder / "journal.slo.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        events = [json.loads(line) for line in lines]
        return [one for one in events if kind in ("", one["event"])]

    def wait_for(self, kind: str, number: int, process: subprocess.Popen[str]) -> None:
        """Until the journal holds that many events of a kind; the process must be alive then."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            path = self.folder / "journal.slo.jsonl"
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            if text.count(f'{{"event":"{kind}"') >= number:
                assert process.poll() is None, "it ended before it could be killed"
                return
            time.sleep(0.005)
        pytest.fail(f"no {number} events {kind} within a minute")

    def kill(self, process: subprocess.Popen[str]) -> None:
        """As the machine's out-of-memory killer would."""
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=20)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


@pytest.fixture
def server() -> Iterator[Callable[..., str]]:
    """Start a loopback server with these options; gives its address."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: object) -> str:
        words = [sys.executable, str(ROOT / "tests" / "streaming_server.py"), *map(str, options)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        return process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.communicate()


def client(url: str, *options: object) -> list[str]:
    """The command of the light client against a server."""
    fixed = ("--url", url, "--out", "{out}", "--seed", "{seed}", "--concurrency", "{load}")
    return [sys.executable, str(BENCH / "client.py"), *fixed, *map(str, options)]
