"""`slo-gate run` drives a real client of the field against a streaming server: `make test-e2e`.

SLO_GATE_E2E names the folder of programs that `make test-e2e` installs; without it these tests skip.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.conftest import Session, server, session  # noqa: F401
from tests.conftest import ROOT

TTFT_S, TPOT_S, REQUESTS, TOKENS = 0.040, 0.006, 60, 16
POLICY = """\
version: 1
name: engine-room
workload: {{load: {{concurrency: 4}}}}
goodput:
  min: 80%
  request: {{ttft: 400ms, tpot: 60ms}}
limits: {{error_rate: {{max: 1%}}}}
evidence: {{decide: point, tool: {{name: aiperf, version: required}}}}
{more}
"""


@pytest.fixture(scope="module")
def programs() -> Path:
    folder = os.environ.get("SLO_GATE_E2E")
    if not folder:
        pytest.skip("make test-e2e installs the clients")
    return Path(folder)


@pytest.fixture(scope="module")
def tokenizer(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    words = [programs / "python", Path(__file__).with_name("make_tokenizer.py"), folder]
    subprocess.run([*words, *sorted((ROOT / "docs").glob("*.md"))], check=True, capture_output=True)
    return folder


def aiperf(programs: Path, tokenizer: Path, url: str) -> list[str]:
    fixed = ("env", "-u", "PYTHONPATH", "-u", "HF_HUB_OFFLINE", programs / "aiperf", "profile")
    asked = ("-m", "loopback", "--url", url, "--endpoint-type", "chat", "--streaming")
    sizes = ("--request-count", REQUESTS, "--isl", 64, "--osl", TOKENS, "--tokenizer", tokenizer)
    rest = (
        "--concurrency",
        "{load}",
        "--random-seed",
        "{seed}",
        "--ui-type",
        "none",
        "--artifact-dir",
        "{dir}",
    )
    return [str(word) for word in (*fixed, *asked, *sizes, *rest)]


def test_aiperf_is_run_until_certain_through_a_kill(
    session: Session,  # noqa: F811
    server: Callable[..., str],  # noqa: F811
    programs: Path,
    tokenizer: Path,
) -> None:
    session.policy(text=POLICY)
    url = server("--ttft-ms", TTFT_S * 1e3, "--tpot-ms", TPOT_S * 1e3)
    command = aiperf(programs, tokenizer, url)
    options = ("--runs", 2, "--witness", f"{url}/metrics")
    process = session.start(*options, command=command)
    session.wait_for("pid", 1, process)
    session.kill(process)

    report = session.report(*options, command=command)

    assert report["verdict"] == "pass", report["headline"]
    assert report["goodput"]["attempted"] == 2 * REQUESTS
    assert [one["tool"] for one in report["runs"]] == ["aiperf", "aiperf"]
    ttft, tpot = (report["metrics"][name]["p50"] for name in ("ttft_s", "tpot_s"))
    assert TTFT_S <= ttft < 10 * TTFT_S, "never sooner than the server, and not ten times as late"
    assert 0.9 * TPOT_S <= tpot < 10 * TPOT_S
    for path in session.folder.rglob("candidate/**/*.slo.json"):
        assert json.loads(path.read_text())["witness"]["finished"] == REQUESTS
    assert len(session.journal("end")) == 2
    assert len(session.journal("interrupted")) == 1


def test_aiperf_against_a_slow_server_fails(
    session: Session,  # noqa: F811
    server: Callable[..., str],  # noqa: F811
    programs: Path,
    tokenizer: Path,
) -> None:
    session.policy(text=POLICY)
    url = server("--ttft-ms", 500, "--tpot-ms", 5)
    report = session.report("--runs", 1, command=aiperf(programs, tokenizer, url))
    assert report["verdict"] == "fail", report["headline"]
    assert report["goodput"]["good"] == 0
    assert report["goodput"]["misses"]["ttft"] == REQUESTS
