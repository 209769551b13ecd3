"""The two printed ways to a verdict, run as they are printed: all runs and `check`, or `run` until certain.

bench.sh runs for real, and so does slo-gate; only the client is a program of ours that takes no time.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from gate import policy, readers
from gate.recipe import recipe
from tests.conftest import ROOT

POLICY = """\
version: 1
name: demo
workload: {model: m, hardware: 8xH100, interaction: streaming-chat, load: {concurrency: 8}}
slo: {ttft: {p90: 5s}}
regression: {ttft: {p50: {max: 10%, and_at_least: 1ms}}}
evidence: {tool: {version: required}}
default_profile: strict
profiles:
  strict: {evidence: {runs: {min: 3}, requests_per_run: {min: 300}}}
  blind: {regression: {ttft: {p50: {level: info}}}}
"""
# What stands in for `python -m sglang...`: rows of a made-up server, slower where the address says so.
CLIENT = f"""\
#!/bin/bash
if [ "$1" = -c ]; then echo "0.5.99"; exit; fi
while [ $# -gt 1 ]; do
  case "$1" in
    --base-url) url="$2" ;; --output-file) file="$2" ;; --seed) seed="$2" ;; --num-prompts) n="$2" ;;
  esac
  shift
done
slower=1.001 # no copy of the baseline
case "$url" in */slow) slower=1.3 ;; */base) slower=1 ;; esac
exec {sys.executable} -S {ROOT}/tests/bench/simulate.py --out "$file" --seed "$seed" --requests "$n" \\
  --slower "$slower" --misses 0.02 --phi 0.5
"""


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with slo-gate and a client, in a folder with policy and script."""
    tools = tmp_path / "bin"
    tools.mkdir()
    programs = {"python": CLIENT, "slo-gate": f'#!/bin/bash\nexec {sys.executable} -m gate "$@"\n'}
    for name, text in programs.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    (tmp_path / "slo.yaml").write_text(POLICY)
    loaded = policy.parse(POLICY.encode(), "slo.yaml")
    (tmp_path / "bench.sh").write_text(recipe(loaded, "sglang").files[0][1])
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


@pytest.fixture
def server(httpserver: HTTPServer) -> str:
    """Two servers and a baseline behind one address, each of which says that it serves `m`."""
    for side in ("slow", "same", "base"):
        models = {"object": "list", "data": [{"id": "m"}, {"id": "other"}]}
        httpserver.expect_request(f"/{side}/v1/models").respond_with_json(models)
    return httpserver.url_for("").rstrip("/")


def printed(folder: Path, label: str) -> str:
    """A command of the script's head."""
    text = (folder / "bench.sh").read_text()
    return re.search(rf"^# {label}: +(.*)$", text, re.MULTILINE)[1]  # type: ignore[index]


@pytest.mark.parametrize(("side", "code"), [("slow", 1), ("same", 0)])
def test_the_two_printed_ways_to_a_verdict_agree(
    side: str, code: int, server: str, tmp_path: Path, shell: dict[str, str]
) -> None:
    """A candidate 30 % slower than its baseline fails by both, an equal one passes by both."""

    def run(label: str) -> int:
        line = printed(tmp_path, label).replace("http://base:8000", f"{server}/base")
        line = line.replace("http://server:8000", f"{server}/{side}")
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=shell, capture_output=True, text=True)
        print(done.stdout, done.stderr)
        return done.returncode

    assert run("Then") == 0
    assert run("Gate") == code
    assert run("Or both, until the verdict is certain") == code
    # ... by the same facts: what no file of this client says was asked of it and of the server, not typed.
    runs = readers.read(
        [str(tmp_path / "results" / "head"), str(tmp_path / "slo-gate-run" / "candidate")]
    ).runs
    assert len(runs) == 6
    assert {(one.tool_version, one.hardware, one.model) for one in runs} == {("0.5.99", "8xH100", "m")}
    assert all({"tool_version", "hardware"} <= one.stated for one in runs)


def test_without_the_baseline_s_server_the_printed_run_is_no_verdict(
    server: str, tmp_path: Path, shell: dict[str, str]
) -> None:
    """Never a green one: what was to be compared was not."""
    line = printed(tmp_path, "Or both, until the verdict is certain").replace("BASE_URL=http://base:8000", "")
    line = line.replace("http://server:8000", f"{server}/slow")
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=shell, capture_output=True, text=True)
    assert done.returncode == 3
    logs = "".join(path.read_text() for path in (tmp_path / "slo-gate-run" / "logs").rglob("*.log"))
    assert "set BASE_URL to the server of the baseline, or leave out --baseline-command" in logs


@pytest.mark.parametrize(
    ("line", "model"),
    [
        ({"server_info": None}, "m"),  # of a server that is not SGLang's own
        ({"server_info": {"model_path": "/models/m"}}, None),
    ],
)
def test_the_model_is_asked_of_the_server_only_where_the_file_has_none(
    line: dict[str, object], model: str | None, server: str, tmp_path: Path, shell: dict[str, str]
) -> None:
    (tmp_path / "bin" / "python").write_text(
        '#!/bin/bash\nwhile [ $# -gt 1 ]; do if [ "$1" = --output-file ]; then file="$2"; fi; shift; done\n'
        f'if [ -n "${{file:-}}" ]; then echo \'{json.dumps(line)}\' >"$file"; fi\n'
    )
    (tmp_path / "one").mkdir()
    words = ["bash", "bench.sh", "once", "8", "1", "one"]
    done = subprocess.run(
        words, cwd=tmp_path, env={**shell, "URL": f"{server}/same"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    beside = json.loads((tmp_path / "one" / "result.jsonl.slo.json").read_text())
    assert beside.get("model") == model
    assert "tool_version" not in beside, "a client that does not say its version is not given one"
    assert "the version of this client cannot be asked here" in done.stderr
