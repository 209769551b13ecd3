"""Writers at the same time lose nothing, and one that is killed leaves a store that is read."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gate import history
from gate.errors import InputError
from gate.history import git
from gate.model import SessionRecord
from tests.conftest import ROOT
from tests.history.test_baselines import bare, records, reports  # noqa: F401 fixtures

# Adds one record after another, each of another report, and says so once it is kept.
WRITER = """
import hashlib, sys
from msgspec.structs import replace
from gate import history
store, seed, who, number = history.open_store(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
record = history.decode(open(seed, "rb").read())
for at in range(number):
    digest = hashlib.sha256(f"{who}-{at}".encode()).hexdigest()
    history.add(store, [replace(record, report_sha256=digest)])
    print(digest, flush=True)
"""


@pytest.fixture
def seed(records: tuple[SessionRecord, ...], tmp_path: Path) -> Path:  # noqa: F811
    path = tmp_path / "seed.json"
    path.write_bytes(history.encode(records[0]))
    return path


def writer(store: str, seed: Path, who: str, number: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WRITER, store, str(seed), who, str(number)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(seed.parent)}  # a killed one leaves its own
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> set[str]:
    out, _ = process.communicate(timeout=300)
    return set(out.split())


def kept(store: str) -> set[str]:
    found = history.load(history.open_store(store))
    assert found.notes == ()
    return {record.report_sha256 for record in found.records}


@pytest.mark.parametrize("kind", ["folder", "branch"])
def test_two_that_add_at_once_lose_nothing(kind: str, seed: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "store") if kind == "folder" else bare(tmp_path / "bare.git")
    number = int(os.environ.get("SLO_GATE_WRITES", 100 if kind == "folder" else 5))
    both = [writer(store, seed, who, number) for who in ("one", "other")]
    added = [said(process) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert len(added[0] | added[1]) == 2 * number
    assert kept(store) == added[0] | added[1]


def test_the_same_record_by_two_at_once_is_there_once(seed: Path, tmp_path: Path) -> None:
    both = [writer(str(tmp_path / "store"), seed, "same", 50) for _ in range(2)]
    assert said(both[0]) == said(both[1]) == kept(str(tmp_path / "store"))
    assert len(list((tmp_path / "store").iterdir())) == 50


def test_what_a_hook_declines_is_pushed_once(
    records: tuple[SessionRecord, ...],  # noqa: F811
    tmp_path: Path,
) -> None:
    """Only who was overtaken tries again."""
    store = bare(tmp_path / "bare.git")
    hook = tmp_path / "bare.git" / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho x >> {tmp_path}/tries\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(InputError, match="pre-receive hook declined"):
        history.add(history.open_store(store), records[:1])
    assert (tmp_path / "tries").read_text() == "x\n"


def test_a_server_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git, "_LIMIT_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"git:http://127.0.0.1:{silent.getsockname()[1]}/x.git#slo-history"
        begun = time.monotonic()
        with pytest.raises(InputError, match="git has not ended after 1 s"):
            history.load(history.open_store(url))
        assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("git:https://user:p@ss@host/x#b", "git:https://host/x#b"),
        ("git:https://t0ken@host/x@y.git#b", "git:https://host/x@y.git#b"),
        ("fatal: https://h:1/x?k=a@b is not", "fatal: https://h:1/x is not"),
        ("git:git@host:x.git#b", "git:git@host:x.git#b"),
    ],
)
def test_what_stands_before_the_last_at_of_a_host_is_no_name(text: str, plain: str) -> None:
    assert git.without_secrets(text) == plain


@pytest.mark.parametrize("kind", ["folder", "branch"])
def test_a_writer_that_is_killed_leaves_a_store_that_is_read(kind: str, seed: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "store") if kind == "folder" else bare(tmp_path / "bare.git")
    chance = random.Random(7)
    all_said: set[str] = set()
    for number in range(8 if kind == "folder" else 3):
        process = writer(store, seed, f"w{number}", 10_000)
        assert process.stdout
        all_said.add(process.stdout.readline().strip())  # it has begun
        time.sleep(chance.uniform(0, 0.2))
        os.kill(process.pid, signal.SIGKILL)
        all_said |= {line for line in said(process) if len(line) == 64}
        assert all_said <= kept(store)
