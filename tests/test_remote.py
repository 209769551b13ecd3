"""Files by URL, as the store of fsspec that lives in the process keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gate import remote
from gate.errors import InputError, UsageError
from gate.readers import read
from gate.readers.files import find
from tests.conftest import ROOT, Process

fsspec = pytest.importorskip("fsspec")


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    remote.forget()
    fsspec.filesystem("memory").store.clear()
    yield
    remote.forget()


def test_what_is_written_is_listed_and_read() -> None:
    remote.write("memory://runs/b.json", b"two")
    remote.write("memory://runs/a.json", b"one")
    remote.write("memory://runs/deep/c.csv", b"three")
    (folder,) = remote.find("memory://runs")
    below = [remote.url_of(path) for path in folder.files]
    assert below == ["memory://runs/a.json", "memory://runs/b.json", "memory://runs/deep/c.csv"]
    assert [place.url for place in remote.find("memory://runs/*.json")] == below[:2]
    assert [place.url for place in remote.find("memory://runs/a.json")] == below[:1]
    assert remote.read("memory://runs/deep/c.csv") == b"three"
    remote.write("memory://runs/a.json", b"1")
    assert remote.read("memory://runs/a.json") == b"1"
    remote.remove("memory://runs/a.json")
    remote.remove("memory://runs/a.json")
    with pytest.raises(FileNotFoundError):
        remote.read("memory://runs/a.json")


def test_what_lies_beside_a_file_is_fetched_when_it_is_asked_for() -> None:
    remote.write("memory://runs/result.json", b"{}")
    remote.write("memory://runs/result.json.slo.json", b"{}")
    path = remote.fetched("memory://runs/result.json")
    assert path.read_bytes() == b"{}"
    beside = path.with_name("result.json.slo.json")
    assert remote.is_file(beside)
    assert remote.fetched(str(remote.url_of(beside))).read_bytes() == b"{}"
    assert not remote.is_file(path.with_name("other.json"))


def test_what_was_found_is_asked_for_once_a_command_line() -> None:
    remote.write("memory://runs/a.json", b"one")
    assert len(remote.find("memory://runs/*")) == 1
    fsspec.filesystem("memory").pipe("/runs/b.json", b"two")
    assert len(remote.find("memory://runs/*")) == 1
    remote.forget()
    assert len(remote.find("memory://runs/*")) == 2


def test_the_results_of_a_store_are_read_like_those_of_a_folder(tmp_path: Path) -> None:
    for file in sorted((ROOT / "examples/chat/good").glob("c016_run0[1-3]*")):
        (tmp_path / file.name).write_bytes(file.read_bytes())
        remote.write(f"memory://bench/{file.name}", file.read_bytes())
    here, there = read([str(tmp_path)]), read(["memory://bench"])
    assert [run.sha256 for run in there.runs] == [run.sha256 for run in here.runs]
    assert [run.counts for run in there.runs] == [run.counts for run in here.runs]
    assert there.runs[0].input == f"memory://bench/{Path(here.runs[0].input).name}"
    assert len(there.runs) == 3


def test_a_name_that_is_shown_holds_no_secret() -> None:
    assert remote.shown("https://me:token@host/a/b.json?X-Amz-Signature=abc#x") == "https://host/a/b.json"
    assert remote.shown("S3://KEY:SECRET@bucket/a.json?versionId=3") == "s3://bucket/a.json"
    assert remote.shown("s3://bucket/a?.json") == "s3://bucket/a?.json"
    assert remote.shown("file:///data/a%20b.json") == "/data/a b.json"
    assert remote.shown("runs/a.json?x=1") == "runs/a.json?x=1"


def test_urls_that_differ_in_their_secrets_alone_are_refused() -> None:
    remote.shown("https://host/a.json?token=1")
    assert remote.shown("https://host/a.json") == "https://host/a.json"
    with pytest.raises(UsageError, match="twice") as refused:
        remote.shown("https://host/a.json?token=2")
    assert "token" not in str(refused.value)


def test_a_scheme_that_nothing_opens_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="nothing that fsspec opens"):
        remote.read("nowhere://a/b.json")


@pytest.mark.parametrize("name", ["memory://a/../b.json", "memory://a//b.json", f"memory://{'x' * 300}.json"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(OSError, match="part of its name"):
        remote.read(name)


def test_a_folder_is_no_file() -> None:
    remote.write("memory://runs/deep/c.csv", b"three")
    with pytest.raises(OSError, match="is a folder"):
        remote.read("memory://runs/deep")


# ---- what a folder of a store holds ---------------------------------------------------------


def test_files_that_are_no_results_are_noted_and_ignored_ones_left_out() -> None:
    for name in ("a.json", "b.json", "notes.log", "logs/c.json", "logs/d.csv"):
        remote.write(f"memory://bench/{name}", b"{}")
    found, notes = find(["memory://bench"], ignore=["logs", "memory://bench/b.json"])
    assert [source.name for source in found] == ["memory://bench/a.json"]
    assert notes == [
        "ignored by logs: 1 folder, memory://bench/logs/",
        "ignored by memory://bench/b.json: 1 file, memory://bench/b.json",
        "memory://bench: skipped what cannot be a result: notes.log",
    ]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("memory://bench/*.csv", "no file matches"),
        ("memory://bench/logs", "holds no result file"),
        ("memory://bench/packed", "is packed in a way"),
        ("https://bench/folder/", "cannot be listed"),
    ],
)
def test_a_place_without_results_is_an_error(name: str, why: str) -> None:
    remote.write("memory://bench/logs/notes.log", b"")
    remote.write("memory://bench/packed/a.json.bz2", b"")
    with pytest.raises(InputError, match=why):
        find([name])


def test_a_file_that_is_not_there_is_told_when_it_is_read() -> None:
    (source,), _ = find(["memory://bench/none.json"])
    with pytest.raises(InputError, match="no such file"):
        _ = source.data


# ---- the command line -----------------------------------------------------------------------

POLICY = ROOT / "examples/chat/slo.yaml"
RESULT = ROOT / "examples/chat/good/c016_run01.json.gz"


def test_a_file_url_is_a_path(slo_gate: Process, tmp_path: Path) -> None:
    plain = slo_gate("check", RESULT, "--policy", POLICY, "--format", "json")
    by_url = slo_gate(
        "check",
        f"file://{RESULT}",
        "--policy",
        f"file://{POLICY}",
        "--json",
        f"file://{tmp_path}/r.json",
        "-q",
    )
    assert by_url.returncode == plain.returncode
    assert (tmp_path / "r.json").read_text(encoding="utf-8") == plain.stdout


def test_without_the_extra_a_url_exits_2_and_says_what_to_install(
    interpreter: Process, tmp_path: Path
) -> None:
    (tmp_path / "fsspec.py").write_text("raise ImportError", encoding="utf-8")
    found = interpreter("check", "s3://bench/a.json", "--preset", "chat", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert found.returncode == 2
    assert found.stderr == (
        "error: s3://bench/a.json: a URL that begins with s3:// is read by packages that are not installed\n"
        "hint: install the extra `remote`: python -m pip install fsspec s3fs aiohttp\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("init", "--for", "chat", "-o", "s3://bench/slo.yaml"),
        ("synth", "s3://bench/out"),
        ("recipe", "--preset", "chat", "-o", "s3://bench/out"),
        ("run", "--dir", "s3://bench/out", "--preset", "chat", "--", "true"),
    ],
)
def test_a_url_where_only_this_machine_can_be_written_exits_2(
    slo_gate: Process, tmp_path: Path, words: tuple[str, ...]
) -> None:
    found = slo_gate(*words)
    assert found.returncode == 2
    assert "a URL stands where only a file of this machine can" in found.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_command_line_that_click_refuses_prints_no_secret(slo_gate: Process) -> None:
    found = slo_gate(
        "check", "https://me:SECRET@host/a.json?SECRET=1", "--json", "nowhere://SECRET@b/r.json", "--no"
    )
    assert found.returncode == 2
    assert "SECRET" not in found.stderr


def test_the_policy_of_a_commit_is_no_url(slo_gate: Process) -> None:
    found = slo_gate("check", RESULT, "--policy", "s3://bench/slo.yaml", "--policy-from", "HEAD")
    assert found.returncode == 2
    assert "a file behind a URL is in no commit" in found.stderr
