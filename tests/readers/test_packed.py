"""Results packed as zstd: read like those packed as gzip, within the same limits."""

from __future__ import annotations

import gzip
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gate import readers
from gate.errors import InputError
from gate.readers import stored
from tests.conftest import FIXTURES, ROOT, Process

RESULT = ROOT / "examples/chat/good/c016_run01.json.gz"


@pytest.fixture(scope="module")
def zstd() -> Any:
    try:
        return import_module("compression.zstd")
    except ImportError:
        return pytest.importorskip("backports.zstd")


def test_a_result_packed_as_zstd_is_the_result(zstd: Any, tmp_path: Path) -> None:
    content = gzip.decompress(RESULT.read_bytes())
    (tmp_path / "r.json.zst").write_bytes(zstd.compress(content))
    (run,), (other,) = readers.read([str(tmp_path)]).runs, readers.read([str(RESULT)]).runs
    assert (run.counts, run.content_sha256) == (other.counts, other.content_sha256)
    assert run.sha256 != other.sha256
    (tmp_path / "r.json.gz").write_bytes(RESULT.read_bytes())
    assert len(readers.read([str(tmp_path)]).runs) == 1, "the same content counts once"


def test_companions_are_found_packed(zstd: Any, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    packed = tmp_path / "packed"
    for folder in (plain, packed):
        folder.mkdir()
    for file in (FIXTURES / "aiperf/typical").glob("profile_export*"):
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        (plain / file.name.removesuffix(".gz")).write_bytes(content)
        (packed / f"{file.name.removesuffix('.gz')}.zst").write_bytes(zstd.compress(content))
    here, there = readers.read([str(plain)]), readers.read([str(packed)])
    assert [(run.counts, run.load, run.model) for run in there.runs] == [
        (run.counts, run.load, run.model) for run in here.runs
    ]
    assert len(there.notes) == len(here.notes)


def test_zstd_that_is_damaged_cut_short_or_too_large_is_an_error(
    zstd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = {zstd.CompressionParameter.checksum_flag: 1}
    whole = zstd.compress(gzip.decompress(RESULT.read_bytes()), options=checked)
    path = tmp_path / "r.json.zst"
    for wrong in (whole[:-40], whole[:2000], whole[:100] + b"\0" * 100 + whole[200:]):
        path.write_bytes(wrong)
        with pytest.raises(InputError, match="zstd data is damaged or cut short"):
            readers.read([str(path)])
    path.write_bytes(zstd.compress(b"[" + b" " * (64 << 20) + b"]"))
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(stored, "_UNPACKED_MAX", 32 << 20)
    with pytest.raises(InputError, match="unpacks to more than"):
        readers.read([str(path)])


def test_without_the_extra_the_error_says_what_to_install(interpreter: Process, tmp_path: Path) -> None:
    for package in ("backports", "compression"):
        (tmp_path / f"{package}.py").write_text("raise ImportError", encoding="utf-8")
    (tmp_path / "r.json.zst").write_bytes(b"\x28\xb5\x2f\xfd and so on")
    done = interpreter("inspect", "r.json.zst", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert done.returncode == 3
    assert "r.json.zst: is packed as zstd, by a package that is not installed" in done.stderr
    assert "python -m pip install backports.zstd" in done.stderr
