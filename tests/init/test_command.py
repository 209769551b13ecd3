"""`slo-gate init` as a process: what it asks, refuses and reads from results."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from gate import policy
from tests.conftest import ROOT, Process

GOOD = ROOT / "examples" / "chat" / "good"


def test_the_shortest_call_writes_a_policy_that_validates(slo_gate: Process, tmp_path: Path) -> None:
    done = slo_gate("init", "--for", "chat")
    assert done.returncode == 0, done.stderr
    assert slo_gate("policy", "validate", "slo.yaml").returncode == 0
    assert "load" not in yaml.safe_load((tmp_path / "slo.yaml").read_text())["workload"]


def test_init_recipe_and_bash_fit_together(slo_gate: Process, tmp_path: Path) -> None:
    words = ("--for", "voice", "--peak", "20", "--model", "org/m", "--hardware", "8xH100")
    assert slo_gate("init", *words, "--input-tokens", "300:120", "--output-tokens", "60:25").returncode == 0
    done = slo_gate("recipe", "--profile", "nightly", "--for", "vllm")
    assert done.returncode == 0, done.stderr
    # the target is 40; 30 runs of max(300, 400) and twice 40 for the ends
    assert "    40) echo 480 ;;" in done.stdout
    assert re.search(r"^measure 3 40 30 ", done.stdout, re.MULTILINE)
    assert subprocess.run(["bash", "-n"], input=done.stdout, text=True).returncode == 0


def test_off_a_terminal_nothing_is_asked_and_no_slo_is_made_up(slo_gate: Process, tmp_path: Path) -> None:
    for words in ((), ("--peak", "32"), ("--from", str(GOOD), "--concurrency", "16")):
        done = slo_gate("init", *words, input="chat\n")
        assert done.returncode == 2
        assert "--for" in done.stderr
        assert not (tmp_path / "slo.yaml").exists()


def test_a_file_is_overwritten_only_by_force(slo_gate: Process, tmp_path: Path) -> None:
    path = tmp_path / "slo.yaml"
    path.write_text("mine")
    done = slo_gate("init", "--for", "chat")
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert path.read_text() == "mine"
    assert slo_gate("init", "--for", "chat", "--force").returncode == 0
    assert path.read_text() != "mine"


def test_stdout_gets_the_policy_alone(slo_gate: Process, tmp_path: Path) -> None:
    done = slo_gate("init", "--for", "batch", "--output", "-")
    assert policy.parse(done.stdout.encode(), "x", profile="release").name == "batch"
    assert not (tmp_path / "slo.yaml").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--concurrency", "4", "--peak", "2"), "exclude each other"),
        (("--request-rate", "8"), "has no unit"),
        (("--request-rate", "0/s"), "cannot be made"),
        (("--input-tokens", "800,300"), "write it like 800:300"),
        (("--input-tokens", "800:900"), "below the mean"),
        (("--output-tokens", "nan:nan"), "are no lengths"),
        (("--model", "a\nb"), "characters that no policy may have"),
        (("--output", "no/such/folder.yaml"), "cannot be written"),
    ],
)
def test_an_answer_that_makes_no_sense_is_a_sentence(
    words: tuple[str, ...], said: str, slo_gate: Process, tmp_path: Path
) -> None:
    done = slo_gate("init", "--for", "chat", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "slo.yaml").exists()


def test_on_a_terminal_it_asks_and_empty_answers_leave_things_open(tmp_path: Path) -> None:
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "gate", "init"],
        cwd=tmp_path,
        stdin=inner,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.close(inner)
    os.write(outer, b"nonsense\nchat-70b\norg/m\n\n0\n32\n800:x\n800:300\n\n")
    _, err = process.communicate(timeout=60)
    os.close(outer)
    assert process.returncode == 0, err
    assert b"What do users do with it" in err
    document = yaml.safe_load((tmp_path / "slo.yaml").read_text())
    assert document["name"] == "chat-70b"
    assert document["workload"]["model"] == "org/m"
    assert document["workload"]["load"]["peak"] == 32
    assert document["workload"]["input_tokens"]["mean"] == 800
    assert "hardware" not in document["workload"]
    assert "output_tokens" not in document["workload"]


# ---- from results ---------------------------------------------------------------------------


def measured_by_hand() -> dict[str, np.ndarray]:
    """TTFT, TPOT, E2E and lengths of the sweep at 16, start-up burst and ramp-down dropped, by numpy."""
    cells: dict[str, list[np.ndarray]] = {"ttft": [], "tpot": [], "e2e": []}
    for path in sorted(GOOD.glob("c016_*.json.gz")):
        document = json.loads(gzip.decompress(path.read_bytes()))
        by_start = np.argsort(document["start_times"], kind="stable")[16:-16]
        ttft, e2e, n = (np.array(document[key])[by_start] for key in ("ttfts", "latencies", "output_lens"))
        cells["ttft"].append(ttft)
        cells["e2e"].append(e2e)
        cells["tpot"].append(((e2e - ttft) / (n - 1))[n > 1])
    return {key: np.concatenate(parts) for key, parts in cells.items()}


def test_bounds_from_results_lie_a_quarter_above_what_numpy_measures(
    slo_gate: Process, tmp_path: Path
) -> None:
    done = slo_gate("init", "--for", "chat", "--from", GOOD, "--concurrency", "16")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "slo.yaml").read_text()
    rules = {one.id: one for one in policy.parse(text.encode(), "x", profile="release").objectives}
    for metric, values in measured_by_hand().items():
        for share in (90, 99):
            seen = np.percentile(values, share, method="inverted_cdf")
            bound = rules[f"{metric}.p{share}"].bound
            assert bound is not None
            assert 1.25 * seen <= bound <= 1.25 * seen * 1.1
    document = yaml.safe_load(text)["workload"]
    assert document["model"] == "mock-model"
    assert document["load"]["concurrency"] == 16
    assert document["input_tokens"]["mean"] > 0


def test_the_results_it_was_written_from_do_not_fail_it(slo_gate: Process) -> None:
    assert slo_gate("init", "--for", "chat", "--from", GOOD, "--concurrency", "16").returncode == 0
    report = json.loads(slo_gate("check", GOOD, "--profile", "nightly", "--format", "json").stdout)
    judged = {one["id"]: one["verdict"] for one in report["objectives"]}
    assert {judged[f"{metric}.p99"] for metric in ("ttft", "tpot", "e2e")} == {"pass"}
    assert judged["goodput"] == "pass"
    assert report["verdict"] != "fail"


def test_several_loads_need_a_target_that_the_files_hold(slo_gate: Process, tmp_path: Path) -> None:
    done = slo_gate("init", "--for", "chat", "--from", GOOD)
    assert done.returncode == 2
    assert "concurrency 4" in done.stderr
    assert "concurrency 24" in done.stderr
    other = slo_gate("init", "--for", "chat", "--from", GOOD, "--concurrency", "17")
    assert other.returncode == 2
    assert "no run at" in other.stderr
    assert not (tmp_path / "slo.yaml").exists()


def test_results_that_cannot_be_read_are_an_input_error(slo_gate: Process, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text("{}")
    assert slo_gate("init", "--for", "chat", "--from", "r.json").returncode == 3
    assert slo_gate("init", "--for", "chat", "--from", "missing.json").returncode == 3
