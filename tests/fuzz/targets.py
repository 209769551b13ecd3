"""What is fuzzed: bytes from a stranger, into every place of gate that takes such bytes.

A target's `run` may raise nothing: what slo-gate refuses with a documented error is caught here, and all
else is a bug.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from gate import disk, history, policy, readers, saved
from gate.emit import EMITTERS
from gate.errors import GateError
from gate.evaluate import evaluate
from gate.readers import READERS
from gate.readers.baseline import read_baseline
from tests.conftest import FIXTURES, ROOT

MOST_BYTES = 1 << 16  # of an input: a fixture that is larger is no seed
TODAY = date(2027, 1, 1)
RULES = b"""\
version: 1
name: fuzz
slo:
  ttft: {p50: 1s, p99: 10s}
  tpot: {p90: 1s}
  e2e: {p99: {max: 100s, when: output_tokens < 300}}
goodput: {min: 90%, request: {ttft: 1s, tpot: 1s, e2e: 100s}}
limits: {error_rate: {max: 1%}, throughput: {min: 1 tok/s}}
evidence: {runs: {min: 2}, tool: {version: required}, prompts: varied}
"""
POLICY = policy.parse(RULES, "slo.yaml")
RESULT = b'{"ttft_s": 0.1, "e2e_s": 1, "output_tokens": 9}\n' * 3


@dataclass(frozen=True)
class Target:
    """One place that takes bytes: what it is tried with first, and what is done with an input."""

    name: str
    seeds: Callable[[], list[bytes]]
    run: Callable[[bytes], None]


def judged(folder: Path) -> None:
    """Read a folder of results, judge it, and write every format; refusals are fine."""
    disk.forget()
    try:
        reading = readers.read([str(folder)])
        report = evaluate(POLICY, reading.runs, TODAY, notes=reading.notes)
    except GateError:
        return
    for emit in EMITTERS.values():
        emit(report)


# ---- readers ------------------------------------------------------------------------------------


def cases(tool: str) -> list[tuple[Path, Path]]:
    """(folder, file) of every fixture of a tool; the first byte of an input says which file it stands for."""
    found = [path for path in sorted((FIXTURES / tool).rglob("*")) if path.is_file() and path.suffix != ".md"]
    return [(path.parent, path) for path in found][:256]


def content(path: Path) -> bytes:
    """As stored, unpacked: a mutation of a .gz says only that it is damaged."""
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def reader(tool: str) -> Target:
    """A tool's files as they are, but for one, which holds the input."""
    files = cases(tool)

    def seeds() -> list[bytes]:
        found = [bytes([at]) + content(path) for at, (_, path) in enumerate(files)]
        return [one for one in found if len(one) <= MOST_BYTES]

    def run(data: bytes) -> None:
        folder, path = files[(data[0] if data else 0) % len(files)]
        with tempfile.TemporaryDirectory(dir=_memory()) as name:
            laid = Path(name) / folder.name
            shutil.copytree(folder, laid)
            (laid / path.name).unlink()
            (laid / path.name.removesuffix(".gz")).write_bytes(data[1:])
            judged(laid)

    return Target(f"reader-{tool}", seeds, run)


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


# ---- what is not a result ----------------------------------------------------------------------


def sidecar(data: bytes) -> None:
    """Facts beside a result."""
    with tempfile.TemporaryDirectory(dir=_memory()) as name:
        (Path(name) / "r.jsonl").write_bytes(RESULT)
        (Path(name) / "r.jsonl.slo.json").write_bytes(data)
        judged(Path(name))


def policy_file(data: bytes) -> None:
    """A policy, with all its profiles."""
    try:
        policy.versions(data, "slo.yaml")
    except GateError:
        return


def saved_report(data: bytes) -> None:
    """A saved report, rendered by every emitter, and as a session of the history."""
    try:
        report = saved.load(data, "report.json")
    except GateError:
        return
    for emit in EMITTERS.values():
        emit(report)
    try:
        history.encode(history.record_of(data, "0" * 40, "main", "2027-01-01T00:00:00Z"))
    except GateError:
        return


def history_line(data: bytes) -> None:
    """A line of the history."""
    try:
        found = history.decode(data)
    except ValueError:
        return
    history.encode(found)


def baseline(data: bytes) -> None:
    """A saved report as the baseline of another run."""
    disk.forget()
    with tempfile.TemporaryDirectory(dir=_memory()) as name:
        result, report = Path(name) / "r.jsonl", Path(name) / "report.json"
        result.write_bytes(RESULT)
        report.write_bytes(data)
        try:
            reading = readers.read([str(result)])
            compared = read_baseline([str(report)])
            evaluate(GROWTH, reading.runs, TODAY, baseline=compared)
        except GateError:
            return


GROWTH = policy.growth("10%", ("ttft", "tpot", "e2e"))


def _files(*patterns: str) -> Callable[[], list[bytes]]:
    return lambda: [
        data
        for pattern in patterns
        for path in sorted(ROOT.glob(pattern))
        if len(data := path.read_bytes()) <= MOST_BYTES
    ]


def _reports() -> list[bytes]:
    from tests.emit.reports import CASES

    return [EMITTERS["json"](make()).encode() for make in CASES.values()]


def _lines() -> list[bytes]:
    from tests.emit.reports import CASES

    found = []
    for data in (EMITTERS["json"](make()).encode() for make in CASES.values()):
        try:
            record = history.record_of(data, "0" * 40, "main", "2027-01-01T00:00:00Z", ["v1"])
        except GateError:
            continue
        found.append(history.encode(record))
    return found


def _sidecars() -> list[bytes]:
    facts = {
        "tool_version": "1",
        "model": "m",
        "hardware": "8xH100",
        "concurrency": 4,
        "session": "s",
        "side": "base",
    }
    return [
        json.dumps(facts).encode(),
        b"{}",
        *_files("tests/fixtures/**/*.slo.json", "examples/**/*.slo.json")(),
    ]


OTHERS = (
    Target("policy", _files("gate/presets/*.yaml", "examples/**/*.yaml"), policy_file),
    Target("report", _reports, saved_report),
    Target("baseline", _reports, baseline),
    Target("sidecar", _sidecars, sidecar),
    Target("history", _lines, history_line),
)
TARGETS = {one.name: one for one in (*(reader(one.NAME) for one in READERS), *OTHERS)}
