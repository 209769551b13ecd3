"""What a file holds may be let go and read again: what is told of it is the same, and memory stays small."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate import readers
from gate.errors import InputError
from gate.model import Run
from gate.readers import READERS, Reader
from gate.readers.source import Source
from gate.readers.stored import KEPT
from tests.conftest import FIXTURES, ROOT


def told(runs: Any) -> bytes:
    """Everything in some runs, as bytes that can be compared."""
    return msgspec.json.encode(list(runs), enc_hook=lambda array: array.tolist())


def results(reader: Reader) -> list[Path]:
    """Files of the reader's fixtures that hold runs by themselves."""
    found = []
    for path in sorted((FIXTURES / reader.NAME).rglob("*")):
        source = Source(path, path.name)
        try:
            if path.is_file() and readers.knows(reader, source) and readers.runs_of(reader, source):
                found.append(path)
        except InputError:
            continue
    return found


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.NAME)
def test_a_file_that_was_let_go_is_read_as_before(reader: Reader) -> None:
    paths = results(reader)
    assert paths
    for path in paths:
        kept, gone = Source(path, path.name), Source(path, path.name)
        readers.looked(gone, None, several=False)
        before = gone.sha256, gone.shape, gone.keys, gone.head
        gone.let_go()
        assert "data" not in vars(gone)
        assert (gone.sha256, gone.shape, gone.keys, gone.head) == before
        gone.let_go()
        runs: tuple[Run, ...] = tuple(readers.runs_of(reader, gone))
        assert told(runs) == told(readers.runs_of(reader, kept))


def test_a_file_that_changes_between_two_looks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"ttft_s": 0.5, "e2e_s": 1.2, "output_tokens": 100}\n' * 3)
    source = Source(path, path.name)
    readers.looked(source, None, several=False)
    source.let_go()
    with path.open("a") as file:
        file.write('{"ttft_s": 0.1, "e2e_s": 1.2, "output_tokens": 100}\n')
    with pytest.raises(InputError, match="changed while it was read"):
        readers.runs_of(readers.by_name("generic"), source)


def test_a_pipe_is_read_once_and_kept() -> None:
    read, write = os.pipe()
    os.write(write, b'{"ttft_s": 0.5, "e2e_s": 1.2, "output_tokens": 100}\n' * 3)
    os.close(write)
    source = Source(Path(f"/dev/fd/{read}"), "pipe")
    readers.looked(source, None, several=False)
    source.let_go()
    assert len(readers.runs_of(readers.by_name("generic"), source)) == 1
    os.close(read)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
def test_a_folder_takes_less_memory_than_its_bytes(tmp_path: Path) -> None:
    row = '{"ttft_s": 0.%d, "e2e_s": 1.%d, "output_tokens": 100, "note": "' + "x" * 4000 + '"}\n'
    for number in range(48):
        rows = (row % (100 + at % 700, 1000 * number + at) for at in range(2000))
        (tmp_path / f"run{number:02}.jsonl").write_text("".join(rows))
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert size > 5 * KEPT
    code = (
        "import gc, re, sys\n"
        "gc.disable()\n"  # as in the program: what refers to itself stays
        "from gate import readers\n"
        "found = readers.read([sys.argv[1]])\n"
        "print(len(found.runs), re.search(r'VmHWM:\\s*(\\d+) kB', open('/proc/self/status').read())[1])\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    runs, peak = map(int, done.stdout.split())
    assert runs == 48
    assert peak * 1024 < size / 2
