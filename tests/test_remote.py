"""Files by URL, as the store of fsspec that lives in the process keeps them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gate import remote
from gate.errors import UsageError

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
    below = [remote.url_of(path) for path in remote.find("memory://runs")]
    assert below == ["memory://runs/a.json", "memory://runs/b.json", "memory://runs/deep/c.csv"]
    assert [remote.url_of(path) for path in remote.find("memory://runs/*.json")] == below[:2]
    assert [remote.url_of(path) for path in remote.find("memory://runs/a.json")] == below[:1]
    assert remote.read("memory://runs/deep/c.csv") == b"three"
    remote.write("memory://runs/a.json", b"1")
    remote.forget()
    assert remote.read("memory://runs/a.json") == b"1"
    remote.remove("memory://runs/a.json")
    remote.remove("memory://runs/a.json")
    remote.forget()
    with pytest.raises(FileNotFoundError):
        remote.read("memory://runs/a.json")


def test_what_lies_beside_a_file_is_fetched_when_it_is_asked_for() -> None:
    remote.write("memory://runs/result.json", b"{}")
    remote.write("memory://runs/result.json.slo.json", b"{}")
    (path,) = remote.find("memory://runs/result.json")
    assert remote.fetch([path]) == {}
    assert path.read_bytes() == b"{}"
    assert remote.is_file(path.with_name("result.json.slo.json"))
    assert path.with_name("result.json.slo.json").read_bytes() == b"{}"
    assert not remote.is_file(path.with_name("other.json"))


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
