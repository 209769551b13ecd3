"""Files are read by one process or by several: the same runs, the same faults, and none of them lost."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gate import engine, readers
from gate.engine.messages import Task, receive, send
from gate.engine.processes import Worker, look
from gate.engine.worker import serve
from gate.errors import InputError
from gate.readers.source import Source
from tests.conftest import FIXTURES, ROOT, Process
from tests.readers.test_letting_go import told

ROW = '{"ttft_s": 0.5, "e2e_s": 1.2, "output_tokens": 100}\n'
POLICY = "version: 1\nslo: {ttft: {p90: 2s}, e2e: {p90: 3s}}\n"


@pytest.fixture
def worker() -> Iterator[Worker]:
    found = Worker()
    yield found
    found.end()


def task(path: Path) -> Task:
    return Task(path, path.name, False, None, {}, None, True)


def rows(folder: Path, number: int) -> Path:
    path = folder / f"run{number}.jsonl"
    lines = (ROW.replace("0.5", f"0.{number}{at:03}") for at in range(100))
    path.write_text("".join(lines))
    return path


FOLDERS = sorted(path for path in FIXTURES.glob("*/*") if path.is_dir())


@pytest.mark.parametrize("folder", FOLDERS[::5], ids=lambda path: str(path.relative_to(FIXTURES)))
def test_the_reading_is_the_same_for_any_number_of_processes(folder: Path) -> None:
    def reading(jobs: int) -> object:
        try:
            found = readers.read([str(folder)], elsewhere=engine.elsewhere(jobs))
        except InputError as error:
            return error.message, error.where, error.hint
        return told(found.runs), found.notes

    assert reading(1) == reading(2)


@pytest.mark.parametrize("jobs", [2, 3])
def test_a_report_is_the_same_bytes(jobs: int, tmp_path: Path, slo_gate: Process) -> None:
    (tmp_path / "slo.yaml").write_text(POLICY)
    results = str(ROOT / "examples" / "chat" / "good")
    one, several = (
        slo_gate("check", results, "-p", "slo.yaml", "--format", "json", "--jobs", str(number))
        for number in (1, jobs)
    )
    assert one.stdout == several.stdout
    assert one.returncode == several.returncode == 4


def test_a_broken_file_among_many_is_named_and_nothing_passes(tmp_path: Path, slo_gate: Process) -> None:
    (tmp_path / "slo.yaml").write_text(POLICY)
    results = tmp_path / "results"
    results.mkdir()
    for number in range(6):
        rows(results, number)
    (results / "run3.jsonl").write_text(ROW * 50 + '{"ttft_s": 0.5, "e2e_s"\n' + ROW)
    one, several = (slo_gate("check", "results", "-p", "slo.yaml", "--jobs", jobs) for jobs in ("1", "2"))
    assert several.returncode == one.returncode == 3
    assert "run3.jsonl" in several.stderr
    assert several.stderr == one.stderr


def through_pipes(sources: Sequence[Source], tool: str | None) -> Mapping[Source, readers.Look]:
    """What processes find out of files, by way of their pipes, without the time that they take to start."""
    questions, answers = io.BytesIO(), io.BytesIO()
    for source in sources:
        assert source.path is not None
        send(questions, Task(source.path, source.name, False, None, {}, tool, len(sources) > 1))
    questions.seek(0)
    serve(questions, answers)
    answers.seek(0)
    found = {}
    for source, answer in [(source, receive(answers)) for source in sources]:
        if answer.look is not None:
            source.learn(answer.known)
            found[source] = answer.look
    return found


CUT, MORE = '{"records": [{"ttft_s": 0.5, "e2e_s": 1.2}, {"tt', '{"ttft_s": 0.5} and more'


@pytest.mark.parametrize("content", [CUT, MORE], ids=["cut short", "text behind it"])
@pytest.mark.parametrize("tool", [reader.NAME for reader in readers.READERS])
def test_broken_json_with_a_forced_reader_is_the_same_error(tool: str, content: str, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"run{number}.json").write_text(content + " " * number)

    def error(elsewhere: readers.Elsewhere | None) -> object:
        with pytest.raises(InputError) as refused:
            readers.read([str(tmp_path)], tool=tool, elsewhere=elsewhere)
        return refused.value.message, refused.value.where, refused.value.hint

    assert error(through_pipes) == error(None)


def test_broken_json_with_a_forced_reader_is_unreadable_input(tmp_path: Path, slo_gate: Process) -> None:
    (tmp_path / "slo.yaml").write_text(POLICY)
    (tmp_path / "brk").mkdir()
    for number in range(3):
        (tmp_path / f"brk/run{number}.json").write_text(CUT + " " * number)
    done = slo_gate("check", "brk", "-p", "slo.yaml", "--tool", "aiperf", "--jobs", "2")
    assert done.returncode == 3
    assert "the JSON ends in the middle" in done.stderr


def test_a_file_of_a_process_that_was_killed_is_named(tmp_path: Path, worker: Worker) -> None:
    path = rows(tmp_path, 1)
    worker.ask(Source(path, path.name), task(path))
    assert worker.answer().look is not None
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.wait()
    worker.source = Source(path, path.name)
    with pytest.raises(InputError, match=r"run1\.jsonl: the process that was reading it ended by SIGKILL"):
        worker.answer()


def test_what_lies_in_the_current_folder_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("msgspec", "numpy", "gate", "json"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('imported from where the command runs')")
    path = rows(tmp_path, 1)
    monkeypatch.chdir(tmp_path)
    process = Worker()
    try:
        process.ask(Source(path, path.name), task(path))
        assert process.answer().look is not None
    finally:
        process.end()


def test_an_output_may_not_land_on_what_another_process_read(tmp_path: Path, slo_gate: Process) -> None:
    (tmp_path / "slo.yaml").write_text(POLICY)
    results = tmp_path / "results"
    results.mkdir()
    files = [rows(results, number) for number in range(3)]
    with files[1].open("rb+") as file:
        done = slo_gate("check", "results", "-p", "slo.yaml", "--jobs", "2", stdout=file)
    assert done.returncode == 2


def test_small_sets_are_read_here(tmp_path: Path) -> None:
    sources = [Source(rows(tmp_path, number), f"run{number}") for number in range(3)]
    default = engine.elsewhere(None)
    assert default is not None
    assert default(sources, None) == {}
    assert engine.elsewhere(1) is None


def test_files_are_read_here_where_no_process_can_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        rows(tmp_path, number)
    here = readers.read([str(tmp_path)])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    there = readers.read([str(tmp_path)], elsewhere=engine.elsewhere(2))
    assert told(there.runs) == told(here.runs)


def test_the_processes_that_start_read_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [Source(rows(tmp_path, number), f"run{number}") for number in range(3)]
    start, started = subprocess.Popen.__init__, list[object]()

    def first_only(process: subprocess.Popen[bytes], *words: Any, **more: Any) -> None:
        if started:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        started.append(process)
        start(process, *words, **more)

    monkeypatch.setattr(subprocess.Popen, "__init__", first_only)
    assert set(look(sources, None, 3, several=True)) == set(sources)


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        ("0::/", {}, None),
        ("0::/", {"cpu.max": "max 100000"}, None),
        ("0::/", {"cpu.max": "100000 100000"}, 1),
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "100000 100000"}, 1),
        ("0::/a/b", {"a/b/cpu.max": "100000 100000", "a/cpu.max": "900000 100000"}, 1),
        ("0::/of/the/machine", {"cpu.max": "100000 100000"}, 1),
        ("4:memory:/\n3:cpu,cpuacct:/a", {"cpu/a/cpu.cfs_quota_us": "-1"}, None),
        ("4:memory:/\n3:cpu,cpuacct:/a\n0::/", {"cpu/cpu.cfs_quota_us": "100000"}, 1),
        ("4:memory:/a\n3:cpuset:/a", {"a/cpu.max": "100000 100000"}, None),
        ("", {"cpu.max": "100000 100000"}, None),
        ("0", {"cpu.max": "what is this"}, None),
    ],
)
def test_processors_are_what_a_container_may_use(
    groups: str, files: Mapping[str, str], quota: int | None, tmp_path: Path
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups + "\n")
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
        if name.endswith("quota_us"):
            path.with_name("cpu.cfs_period_us").write_text("100000\n")
    free = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert engine.cores(tmp_path) == (quota or free)


def test_a_quota_between_two_numbers_of_processors_is_the_larger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text("250000 100000\n")
    assert engine.cores(tmp_path) == 3


def test_nobody_gets_more_than_eight_processes_without_asking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [Source(tmp_path / f"run{number}.json", f"run{number}.json") for number in range(10)]
    for source in sources:
        with (tmp_path / source.name).open("wb") as file:
            file.truncate(engine.LARGE // 10)  # takes no place on the disk
    command = tmp_path / "command"  # starts at once, is asked, and ends
    command.write_text(f"#!/bin/sh\nhead -c 1 > {os.devnull}\n")
    command.chmod(0o755)
    start, started = subprocess.Popen.__init__, list[object]()

    def counted(process: subprocess.Popen[bytes], *words: Any, **more: Any) -> None:
        started.append(process)
        start(process, *words, **more)

    monkeypatch.setattr(subprocess.Popen, "__init__", counted)
    monkeypatch.setattr(sys, "executable", str(command))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    default = engine.elsewhere(None)
    assert default is not None
    with pytest.raises(InputError, match="the process that was reading it ended"):
        default(sources, None)
    assert len(started) == min(8, engine.cores())
