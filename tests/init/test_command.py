"""`slo-gate init` as a process: what it asks, refuses and reads from results."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from gate import policy
from gate.recipe import TOOLS, recipe
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


@pytest.mark.parametrize("lengths", [("800:240", "150:100"), ("20:5", "8:4"), ("60:3", "500:480")])
@pytest.mark.parametrize("client", sorted(TOOLS))
def test_the_policy_has_what_the_named_client_draws_where_it_cannot_draw_what_was_asked_for(
    client: str, lengths: tuple[str, str], slo_gate: Process, tmp_path: Path
) -> None:
    words = ("--input-tokens", lengths[0], "--output-tokens", lengths[1], "--client", client)
    done = slo_gate("init", "--for", "chat", "--concurrency", "8", *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"next: slo-gate recipe --for {client}\n")
    text = (tmp_path / "slo.yaml").read_text()
    workload = yaml.safe_load(text)["workload"]
    for side, asked in zip(("input", "output"), lengths, strict=True):
        written = "{mean:g}:{stddev:g}".format(**workload[f"{side}_tokens"])
        changed = f"cannot draw {side} tokens of {asked.replace(':', ' +- ')}" in done.stdout
        assert (written != asked) is changed
        assert (f"# {asked.replace(':', ' +- ')} were asked for" in text) is changed
    made = recipe(policy.parse(text.encode(), "slo.yaml", profile="nightly"), client)
    assert not {"workload.input_tokens", "workload.output_tokens"} & set(dict(made.never))


def test_vllm_draws_150_tokens_with_a_spread_of_87_at_most(slo_gate: Process, tmp_path: Path) -> None:
    """By hand: whole numbers on [1, 300] have the mean 150.5 and a spread of 300 / sqrt(12) = 86.6."""
    words = ("init", "--for", "chat", "--concurrency", "8", "--output-tokens", "150:100", "--client", "vllm")
    assert slo_gate(*words).returncode == 0
    drawn = yaml.safe_load((tmp_path / "slo.yaml").read_text())["workload"]["output_tokens"]
    assert drawn["mean"] == pytest.approx(150.5, abs=0.5)
    assert drawn["stddev"] == pytest.approx(86.6, abs=1)
    other = slo_gate(*words, "--force", "--from", str(GOOD))
    assert other.returncode == 2
    assert "--client and --from exclude each other" in other.stderr


def test_off_a_terminal_nothing_is_asked_and_no_slo_is_made_up(slo_gate: Process, tmp_path: Path) -> None:
    for words in ((), ("--peak", "32")):
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


def test_a_folder_of_the_policy_is_made(slo_gate: Process, tmp_path: Path) -> None:
    assert slo_gate("init", "--for", "chat", "-o", ".github/slo.yaml").returncode == 0
    assert (tmp_path / ".github" / "slo.yaml").is_file()


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
        (("--output", "/dev/null/slo.yaml"), "cannot be written"),
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


def test_of_several_loads_the_one_with_the_most_runs_is_the_target(slo_gate: Process, tmp_path: Path) -> None:
    assert "at concurrency 16" in slo_gate("init", "--from", GOOD).stdout  # 30 runs, 8 at each of the others
    assert "concurrency: 16" in (tmp_path / "slo.yaml").read_text()
    (tmp_path / "slo.yaml").unlink()
    even = [path for load in ("c004", "c024") for path in sorted(GOOD.glob(f"{load}*"))]
    done = slo_gate("init", *(word for path in even for word in ("--from", path)))
    assert done.returncode == 2
    assert "2 loads: concurrency 24, concurrency 4" in done.stderr
    other = slo_gate("init", "--for", "chat", "--from", GOOD, "--concurrency", "17")
    assert other.returncode == 2
    assert "no run is at concurrency 17; the results are at concurrency 16, concurrency 24" in other.stderr
    assert not (tmp_path / "slo.yaml").exists()


def rows(path: Path, text: str, seconds: float = 0.2, failed: int = 0) -> None:
    """150 requests of a home-made harness, one after another, `text` in its header."""
    names = text.split(",")
    lines = [text]
    for n in range(150):
        ttft, tokens = 0.1 + 0.0005 * (n % 37), 40 + n % 21
        cells = {
            "start_s": f"{n * seconds:.3f}",
            "ttft_s": f"{ttft:.4f}",
            "e2e_s": f"{ttft + tokens * 0.01:.4f}",
            "output_tokens": str(tokens),
            "input_tokens": str(100 + (n * 7) % 50),
            "concurrency": "4",
            "error": "HTTP 500" if n < failed else "",
        }
        lines.append(",".join(cells[name] for name in names))
    path.write_text("\n".join(lines) + "\n")


ALL = "start_s,ttft_s,e2e_s,output_tokens,input_tokens,concurrency,error"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ALL, ()),
        (ALL.replace(",concurrency", ""), ()),
        (ALL.replace(",concurrency", ""), ("--concurrency", "4")),
        (ALL.replace(",concurrency", ""), ("--set", "concurrency=4")),
        (ALL.replace(",error", ""), ()),
        ("ttft_s,e2e_s,concurrency", ()),
        ("e2e_s,output_tokens", ("--set", "concurrency=4")),
    ],
)
def test_the_first_run_on_healthy_rows_ends_green_with_the_command_that_init_prints(
    text: str, words: tuple[str, ...], slo_gate: Process, tmp_path: Path
) -> None:
    rows(tmp_path / "r.csv", text)
    done = slo_gate("init", "--from", "r.csv", *words)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("next: ")]
    name, *command = shlex.split(line.removeprefix("next: "))
    assert name == "slo-gate"
    judged = slo_gate(*command)
    assert judged.returncode == 0, judged.stdout
    assert "(profile pr" in judged.stdout.splitlines()[0]


def test_rows_that_no_verdict_can_rest_on_are_refused_with_the_reason(
    slo_gate: Process, tmp_path: Path
) -> None:
    rows(tmp_path / "r.csv", "start_s,e2e_s")
    done = slo_gate("init", "--from", "r.csv")
    assert done.returncode == 2
    assert "no percentile that a policy could bound can be read: " in done.stderr
    assert "token" in done.stderr


def test_the_first_run_fails_an_outage_and_a_regression_and_passes_the_good_build(
    slo_gate: Process, tmp_path: Path
) -> None:
    rows(tmp_path / "good.csv", ALL)
    assert slo_gate("init", "--from", "good.csv").returncode == 0
    for failed in (15, 75, 150):
        rows(tmp_path / "outage.csv", ALL, failed=failed)
        judged = slo_gate("check", "outage.csv")
        assert judged.returncode == 1, judged.stdout
        assert "FAIL chat (profile pr, blocked)" in judged.stdout
    assert slo_gate("init", "--from", GOOD, "--force").returncode == 0
    assert slo_gate("check", GOOD).returncode == 0
    regressed = GOOD.parent / "regressed"
    against = ("--baseline", f"{GOOD}/c016_run0*", "--same-session")
    assert slo_gate("check", regressed, *against).returncode == 1
    good = [GOOD / f"c016_run{n}.json.gz" for n in range(11, 20)]
    assert slo_gate("check", *good, *against).returncode == 0


@pytest.mark.parametrize(
    "folder",
    ["vllm-0.33.0/a_clean_chat", "aiperf-0.13.0/clean", "guidellm-0.8.1/clean", "sglang-0.5.23/a_clean_chat"],
)
def test_the_first_run_on_real_healthy_results_ends(
    folder: str, slo_gate: Process, tmp_path: Path, shared: Path
) -> None:
    source = shared / "results" / folder
    if not source.is_dir():
        pytest.skip(f"{source} is missing")
    shutil.copytree(source, tmp_path / "results", ignore=shutil.ignore_patterns("truth.jsonl"))
    assert slo_gate("init", "--from", "results").returncode == 0
    judged = slo_gate("check", "results")
    assert judged.returncode == 0, judged.stdout
    for profile in ("nightly", "release"):  # those prove, and ask for more
        assert slo_gate("check", "results", "--profile", profile).returncode == 4


def test_results_that_cannot_be_read_are_an_input_error(slo_gate: Process, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text("{}")
    assert slo_gate("init", "--for", "chat", "--from", "r.json").returncode == 3
    assert slo_gate("init", "--for", "chat", "--from", "missing.json").returncode == 3
