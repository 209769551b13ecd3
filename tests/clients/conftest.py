"""Clients in environments of their own, and the table of what each of them proved.

SLO_GATE_CLIENTS names the folder that keeps the environments; without it these tests skip.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gate.recipe import OTHERS, TOOLS
from tests.conftest import ROOT

CLIENTS: dict[str, dict[str, Any]] = {
    one["name"]: one for one in yaml.safe_load(Path(__file__).with_name("clients.yaml").read_text("utf-8"))
}
CLIENTS |= {name: {"cannot": f"no recipe: {why}"} for name, why in OTHERS.items()}
COLUMNS = ("client", "version", "parses", "runs", "files", "verdict", "provenance", "conformance", "pairs")
ROWS: dict[str, dict[str, str]] = {}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The table, as Markdown."""
    if ROWS:
        terminalreporter.write_line(f"\n| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for name, row in ROWS.items():
        cells = row if "reason" not in row else dict.fromkeys(COLUMNS[1:], "-") | {"version": row["reason"]}
        terminalreporter.write_line(f"| {name} | {' | '.join(cells.get(key, '-') for key in COLUMNS[1:])} |")


class Client:
    """One installed client, and the commands that a recipe prints for it."""

    def __init__(self, name: str, programs: Path, tokenizer: Path, folder: Path) -> None:
        self.name, self.folder = name, folder
        known = folder / "bin"
        known.mkdir()
        gate = known / "slo-gate"  # of this checkout, and PYTHONPATH stays unset for the client
        code = (
            f"import runpy, sys; sys.path[0] = {str(ROOT)!r}; runpy.run_module('gate', run_name='__main__')"
        )
        gate.write_text(f'#!/bin/sh\nexec {sys.executable} -c {shlex.quote(code)} "$@"\n', encoding="utf-8")
        gate.chmod(0o755)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HF_"))}
        path = os.pathsep.join([str(programs), str(known), os.environ["PATH"]])
        self.env = {**kept, "PATH": path, "TOKENIZER": str(tokenizer), "COLUMNS": "110"}
        self.env |= {"HF_HUB_OFFLINE": "1"}  # tokenizer and prompts are made here: no hub is asked
        said = {"no_proxy": "127.0.0.1", **CLIENTS[name].get("env", {})}
        self.env = {key: value for key, value in {**self.env, **said}.items() if value is not None}

    def shell(self, line: str, timeout: float = 3000, **env: str) -> subprocess.CompletedProcess[str]:
        """A line as a person would type it, in the folder of the recipe."""
        words = ["bash", "-c", line]
        env = {**self.env, **env}
        return subprocess.run(
            words, cwd=self.folder, env=env, capture_output=True, text=True, timeout=timeout, check=False
        )

    def report(self, line: str, **env: str) -> dict[str, Any]:
        """The JSON report of a printed command."""
        before, dashes, after = line.partition(" -- ")
        done = self.shell(f"{before} --format json{dashes}{after}", **env)
        assert done.stdout.startswith("{"), f"{line}\n{done.stdout}{done.stderr}"
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def printed(self, label: str) -> str:
        """A command of bench.sh's head, such as that behind `# Gate:`."""
        lines = (self.folder / "bench.sh").read_text("utf-8").splitlines()
        (found,) = [line.partition(label)[2].strip() for line in lines if line.startswith(f"# {label}")]
        return found


@pytest.fixture(scope="session")
def cache() -> Path:
    folder = os.environ.get("SLO_GATE_CLIENTS")
    if not folder:
        pytest.skip("make test-clients installs the clients")
    return Path(folder)


def environment(folder: Path, python: str, *packages: list[str]) -> Path:
    """The programs of an environment, made where it is not there yet; each list is one installation."""
    done = folder / ".installed"
    said = json.dumps([python, *packages])
    if not done.is_file() or done.read_text("utf-8") != said:
        uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
        assert uv, "make test-clients installs uv"
        steps = [["venv", "--clear", "--python", python_of(python), str(folder)]]
        steps += [
            ["pip", "install", "--python", str(folder / "bin" / "python"), *words] for words in packages
        ]
        for words in steps:
            made = subprocess.run([uv, "--quiet", *words], capture_output=True, text=True, check=False)
            if made.returncode:
                raise RuntimeError(made.stderr)
        done.write_text(said, encoding="utf-8")
    return folder / "bin"


def python_of(version: str) -> str:
    """One beside this one, as pyenv has them, whose shims uv cannot ask; else what uv finds or fetches."""
    found = sorted(Path(sys.base_prefix).parent.glob(f"{version}.*/bin/python"))
    return str(found[-1]) if found else version


@pytest.fixture(scope="session")
def serving(cache: Path) -> Path:
    """The programs of the server's environment: it counts tokens as the clients do."""
    return environment(cache / "server", "3.12", ["tokenizers", "transformers"])


@pytest.fixture(scope="session")
def tokenizer(serving: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    words = [serving / "python", ROOT / "tests" / "e2e" / "make_tokenizer.py", folder]
    subprocess.run([*words, *sorted((ROOT / "docs").glob("*.md"))], check=True, capture_output=True)
    return folder


@pytest.fixture
def server(serving: Path, tokenizer: Path) -> Iterator[Callable[..., str]]:
    """Start a streaming server with these options; gives its address."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: object) -> str:
        program = [serving / "python", ROOT / "tests" / "streaming_server.py", "--tokenizer", tokenizer]
        process = subprocess.Popen(
            [str(word) for word in (*program, *options)], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        return process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(params=CLIENTS)
def client(request: Any, cache: Path, tokenizer: Path, tmp_path: Path) -> Client:
    """A client; skips with the reason where it does not install here."""
    name = request.param
    known = CLIENTS[name]
    ROWS.setdefault(name, {"reason": known.get("cannot", "not run")})
    if "cannot" in known:
        pytest.skip(f"{name}: {known['cannot']}")
    printed = shlex.split(TOOLS[name].install)
    assert printed[:2] == ["pip", "install"]
    packages = [known.get("install", printed[2:]), *([known["imports"]] if "imports" in known else [])]
    try:
        programs = environment(cache / name, known.get("python", TOOLS[name].python), *packages)
    except RuntimeError as error:
        lines = str(error).strip().splitlines()  # uv says why in a hint, where it knows
        reason = next((line.partition("hint: ")[2] for line in lines if line.startswith("hint: ")), lines[-1])
        ROWS[name] = {"reason": f"does not install here: {reason}"}
        pytest.skip(f"{name}: {ROWS[name]['reason']}")
    return Client(name, programs, tokenizer, tmp_path)
