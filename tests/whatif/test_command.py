"""`slo-gate whatif` through real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import FIXTURES, Process

POLICY = """\
version: 1
name: {name}
slo: {{ttft: {{p90: 400ms}}}}
goodput: {{min: 90%, request: {{ttft: 500ms, tpot: 20ms}}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """200 requests: TTFT 10, 20, ... 2000 ms; TPOT 10 ms; every tenth failed."""
    rows = [
        {
            "ttft_s": i / 100,
            "e2e_s": i / 100 + 0.99,
            "output_tokens": 100,
            "error": "HTTP 500" if i % 10 == 0 else None,
        }
        for i in (
            1 + 37 * place % 200 for place in range(200)
        )  # in no order: sorted times would be one slow phase
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "slo.yaml").write_text(POLICY.format(name="chat"), encoding="utf-8")
    return tmp_path


def test_the_text_says_which_bound_binds_and_what_stands_in_the_way(folder: Path, slo_gate: Process) -> None:
    """45 of 200 are good (50 minus 5 failed); 180 could be without a TTFT bound; 90 % needs just that."""
    done = slo_gate("whatif", "r.jsonl", "--ttft", "0.5s:2s:0.5s")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "chat: goodput 22.5% (45 of 200), target 90%: fail"
    assert lines[1] == "TTFT binds: 135 requests miss it alone; without it goodput would be 90%"
    assert lines[3].startswith("TTFT moves, the others stay: by the estimate TTFT <= 1.99 s would do; ")
    assert [line.split()[:4] for line in lines[5:9]] == [
        ["500", "ms", "22.5%", "45"],
        ["1", "s", "45%", "90"],
        ["1.5", "s", "67.5%", "135"],
        ["2", "s", "90%", "180"],
    ]
    assert lines[5].endswith("<- the policy")
    assert any(line.startswith("TPOT moves, the others stay: no bound here gets there") for line in lines)


def test_the_json_holds_moves_grid_and_percentiles(folder: Path, slo_gate: Process) -> None:
    done = slo_gate("whatif", "r.jsonl", "--json", "--ttft", "0.5s:2s:0.5s", "--tpot", "5ms:15ms:10ms")
    found = json.loads(done.stdout)
    assert (found["schema_version"], found["attempted"], found["good"]) == (1, 200, 45)
    assert (found["verdict"], found["binding"], found["target"], found["confidence"]) == (
        "fail",
        "ttft",
        0.9,
        0.95,
    )
    assert [move["only"] for move in found["moves"]] == [135, 0]
    assert found["grid"]["x_max_s"] == [0.5, 1.0, 1.5, 2.0]
    assert found["grid"]["y_max_s"] == [0.005, 0.015]
    assert found["grid"]["fraction"] == [[0, 0, 0, 0], [0.225, 0.45, 0.675, 0.9]]
    assert [one["id"] for one in found["objectives"]] == ["ttft.p90"]
    assert set(found["policy"]) == {"name", "path", "sha256", "profile"}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("r.jsonl", "--tpot", "10:30"), 2, "the bare number 10 has no unit"),
        (("r.jsonl", "--tpot", "10ms"), 2, '"10ms" is not a range'),
        (("r.jsonl", "--tpot", "30ms:10ms"), 2, "from a lower bound above 0 to a higher one"),
        (("r.jsonl", "--e2e", "1s:2s"), 2, "no per-request bound on E2E to move (it bounds TPOT, TTFT)"),
        ((), 2, "no result file is named"),
        (("missing.jsonl",), 3, "missing.jsonl"),
        ((str(FIXTURES / "vllm" / "aggregate"),), 3, "what-if counts requests"),
    ],
)
def test_what_cannot_be_answered_is_an_error_with_its_exit_code(
    arguments: tuple[str, ...], code: int, said: str, folder: Path, slo_gate: Process
) -> None:
    done = slo_gate("whatif", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_hostile_name_drives_neither_a_terminal_nor_a_ci_runner(folder: Path, slo_gate: Process) -> None:
    name = '"::error::x ##[error]y"'
    (folder / "slo.yaml").write_text(POLICY.format(name=name), encoding="utf-8")
    for arguments in (("r.jsonl",), ("r.jsonl", "--json")):
        done = slo_gate("whatif", *arguments)
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout
        assert "##[" not in done.stdout
        assert not any(line.startswith("::") for line in done.stdout.splitlines())
