"""Whoever named a file, wrote a policy or answered for an API drives neither a terminal nor a CI runner."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Process

HOSTILE = "x\x1b[31m\x9b2J\u202e ##[error]y\n::error::z"
MODEL = "m \x85 ::error:: \u202e ##[error]"  # no control character that a policy refuses
POLICY = f"""\
version: 1
workload: {{{{model: {json.dumps(MODEL)}, load: {{{{concurrency: 8}}}}}}}}
slo: {{{{ttft: {{{{p90: 500ms}}}}}}}}
goodput: {{{{min: {{least}}, request: {{{{ttft: 500ms}}}}}}}}
profiles: {{{{pr: {{{{undecided: lean}}}}}}}}
"""
RESULT, POLICY_FILE = f"{HOSTILE}.jsonl", f"{HOSTILE}.yaml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, first_s in ((RESULT, 0.1), (f"2{RESULT}", 0.2)):
        rows = (
            {"ttft_s": first_s, "e2e_s": 1 + n / 1e4, "output_tokens": 50, "concurrency": 8, "model": HOSTILE}
            for n in range(120)
        )
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / POLICY_FILE).write_text(POLICY.format(least="80%"))
    (tmp_path / f"2{POLICY_FILE}").write_text(POLICY.format(least="90%"))
    return tmp_path


COMMANDS: list[tuple[int, list[str]]] = [
    (0, ["inspect", RESULT]),
    (0, ["inspect", RESULT, "--json"]),
    (0, ["compare", RESULT, f"2{RESULT}"]),
    (4, ["check", RESULT, "-p", POLICY_FILE]),
    (0, ["plan", "-p", POLICY_FILE]),
    (0, ["plan", RESULT, "-p", POLICY_FILE]),
    (0, ["whatif", RESULT, "-p", POLICY_FILE]),
    (0, ["policy", "show", "-p", POLICY_FILE]),
    (0, ["policy", "validate", POLICY_FILE]),
    (2, ["policy", "validate", HOSTILE]),
    (0, ["policy", "diff", POLICY_FILE, f"2{POLICY_FILE}"]),
    (0, ["policy", "diff", POLICY_FILE, f"2{POLICY_FILE}", "--json"]),
    (0, ["init", "--for", "chat", "-o", f"3{POLICY_FILE}"]),
    (0, ["recipe", "--for", "vllm", "-p", POLICY_FILE, "-o", HOSTILE]),
    (0, ["synth", f"{HOSTILE}-s", "--requests", "10"]),
    (3, ["comment", "--report", HOSTILE]),
    (2, ["run", "--dir", HOSTILE, "--again", "-p", POLICY_FILE]),
    (2, ["check", RESULT, "-p", POLICY_FILE, "--json", RESULT]),
]


@pytest.mark.parametrize(("code", "words"), COMMANDS, ids=str)
def test_nothing_in_a_name_or_a_policy_is_printed_as_it_is(
    code: int, words: list[str], folder: Path, slo_gate: Process
) -> None:
    done = slo_gate(*words)
    assert done.returncode == code, done.stderr
    printed = done.stdout + done.stderr
    assert "x" in printed
    assert not re.search(r"(?m)^\s*::", printed)
    assert not re.search(r"#\w*#\[", printed)
    assert [char for char in printed if not (char.isprintable() or char == "\n")] == []
