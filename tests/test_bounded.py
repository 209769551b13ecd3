"""A wrong or hostile file is refused at a cost that its size explains: real processes, as the kernel saw."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import ROOT

POLICY = "version: 1\nname: c\ngoodput: {min: 95%, request: {ttft: 800ms}}\n"
ROW = '{"start_s": 1, "ttft_s": 0.1, "e2e_s": 1.0, "output_tokens": 50, "input_tokens": 60}\n'
KEYS = 300_000
# A start and a refusal cost 0.3 s; most of these cost 8 to 60 s before.
PATIENCE_S = 5.0
MIB = 1 << 20


class Cost(NamedTuple):
    code: int
    said: str
    cpu_s: float
    memory: int  # bytes


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., Cost]:
    (tmp_path / "p.yaml").write_text(POLICY)

    def run(name: str, policy: str = "p.yaml") -> Cost:
        command = [sys.executable, "-m", "gate", "check", name, "-p", policy]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with (tmp_path / "said").open("wb") as said:
            child = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=said, stderr=said)
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)  # else it is waited for again
        unit = 1 if sys.platform == "darwin" else 1024
        text = (tmp_path / "said").read_text()
        return Cost(child.returncode, text, used.ru_utime + used.ru_stime, used.ru_maxrss * unit)

    return run


NAMES = [f"key_{number}" for number in range(9000)]


WRONG_POLICIES = {
    "a result": {"ttfts": [0.1], "completed": 1, **dict.fromkeys(NAMES, 1)},
    "keys": {"version": 1, "slo": {"ttft": {"p99": "1s"}}, **dict.fromkeys(NAMES, 1)},
    "statistics": {"version": 1, "slo": {"ttft": dict.fromkeys(NAMES, "1s")}},
    "waivers": {"version": 1, "slo": {"ttft": {"p99": "1s"}}, "waivers": [{"a": 1}] * 3000},
    "rules": {
        "version": 1,
        "slo": {"ttft": {f"p{50 + number / 100:g}": "1s" for number in range(4000)}},
        "waivers": [
            {"objective": f"ttft.p99.x{number}", "until": "2030-01-01", "owner": "x", "reason": "y"}
            for number in range(1000)
        ],
    },
    "in every profile": {
        "version": 1,
        "slo": {"ttft": {"p99": "1s"}},
        "profiles": {f"p{number}": {"evidence": dict.fromkeys(NAMES[:400], 1)} for number in range(20)},
    },
}


@pytest.mark.parametrize("kind", WRONG_POLICIES)
def test_a_wrong_file_as_the_policy_is_refused_at_once_and_in_few_words(
    kind: str, tmp_path: Path, check: Callable[..., Cost]
) -> None:
    (tmp_path / "r.jsonl").write_text(ROW)
    (tmp_path / "v.json").write_text(json.dumps(WRONG_POLICIES[kind]))
    cost = check("r.jsonl", policy="v.json")
    assert (cost.code, len(cost.said.splitlines()) < 25) == (2, True)
    assert cost.cpu_s < PATIENCE_S


def test_a_result_as_the_policy_is_named_as_what_it_is_not(
    tmp_path: Path, check: Callable[..., Cost]
) -> None:
    (tmp_path / "v.json").write_text(json.dumps(WRONG_POLICIES["a result"]))
    cost = check("v.json", policy="v.json")
    assert "v.json: is no policy: none of its 9,002 keys is one of a policy" in cost.said


@pytest.mark.parametrize("line", ["a: 1\n", "x{}: 1_0\n"], ids=["the same key", "traps"])
def test_ten_thousand_bad_lines_of_a_policy_are_not_all_read(
    line: str, tmp_path: Path, check: Callable[..., Cost]
) -> None:
    (tmp_path / "v.yaml").write_text("version: 1\n" + "".join(line.format(n) for n in range(9000)))
    cost = check("p.yaml", policy="v.yaml")
    assert (cost.code, "100 problems or more in one file" in cost.said) == (2, True)
    assert cost.cpu_s < PATIENCE_S


def test_gzip_takes_its_content_once(tmp_path: Path, check: Callable[..., Cost]) -> None:
    with gzip.open(tmp_path / "b.json.gz", "wb", 1) as file:
        for _ in range(512):
            file.write(b"a" * MIB)
    cost = check("b.json.gz")
    assert cost.code == 3
    assert cost.memory < 512 * MIB * 1.5


def test_a_bom_inside_gzip_is_no_part_of_the_content(tmp_path: Path, check: Callable[..., Cost]) -> None:
    rows = "".join(ROW.replace("0.1,", f"0.{100 + n},") for n in range(300))
    (tmp_path / "r.jsonl.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + rows.encode()))
    (tmp_path / "p.yaml").write_text(f"{POLICY}evidence: {{decide: point}}\n")
    assert check("r.jsonl.gz").code == 0


def _object(more: str = "") -> str:
    return "{" + more + ",".join(f'"key_{number}":1' for number in range(KEYS)) + "}"


CROWDED: dict[str, tuple[str, Callable[[], str]]] = {
    "an object": ("o.json", _object),
    "lines": ("o.jsonl", lambda: (_object() + "\n") * 2),
    "rows": ("o.jsonl", lambda: (_object('"ttft_s":1,"e2e_s":2,') + "\n") * 2),
    "an array": ("o.json", lambda: f"[{_object()}]"),
    "a cell": ("o.jsonl", lambda: f'{{"ttft_s":0.1,"e2e_s":1.0,"meta":{_object()}}}\n'),
    "an error": ("o.jsonl", lambda: f'{{"ttft_s":0.1,"e2e_s":1.0,"error":{_object()}}}\n'),
}


@pytest.mark.parametrize("kind", CROWDED)
def test_an_object_of_many_keys_is_refused_early(
    kind: str, tmp_path: Path, check: Callable[..., Cost]
) -> None:
    name, text = CROWDED[kind]
    (tmp_path / name).write_text(text())
    cost = check(name)
    assert (cost.code, name in cost.said) == (3, True)
    assert cost.cpu_s < PATIENCE_S


@pytest.mark.parametrize("kind", ["rows", "an object", "an array", "a table", "lines of NUL"])
def test_a_tail_of_nul_bytes_is_refused_early_and_named(
    kind: str, tmp_path: Path, check: Callable[..., Cost]
) -> None:
    whole = {
        "rows": ("r.jsonl", ROW * 300 + "\0" * 8 * MIB),
        "an object": ("r.json", '{"a": 1}' + "\0" * 8 * MIB),
        "an array": ("r.json", "[1, 2" + "\0" * 8 * MIB),
        "a table": ("r.csv", "ttft_s,e2e_s\n" + "0.1,1.0\n" * 20_000 + "\0" * 8 * MIB),
        "lines of NUL": ("r.jsonl", ROW * 300 + "\0\n" * 2 * MIB),
    }
    name, text = whole[kind]
    (tmp_path / name).write_text(text)
    cost = check(name)
    assert (cost.code, "ends in NUL bytes: it was not written to its end" in cost.said) == (3, True)
    assert cost.cpu_s < PATIENCE_S


def test_an_array_that_is_no_result_is_not_kept_in_memory(tmp_path: Path, check: Callable[..., Cost]) -> None:
    (tmp_path / "a.json").write_text("[" + "0," * 20_000_000 + "0]")  # 40 MB
    cost = check("a.json")
    assert cost.code == 3
    assert cost.memory < 600 * MIB  # 9 GB where its elements were kept; about 400 MiB pass by


def test_nesting_without_end_is_refused(tmp_path: Path, check: Callable[..., Cost]) -> None:
    for name, text in (("a.json", "[" * 20 * MIB), ("o.json", '{"a":' * 4 * MIB)):
        (tmp_path / name).write_text(text)
        cost = check(name)
        assert (cost.code, cost.cpu_s < PATIENCE_S) == (3, True)
