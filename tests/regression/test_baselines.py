"""The real process with a baseline: result files, saved reports, sidecars, refusals; and the error rates."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT, Process

CHAT = ROOT / "examples" / "chat"
BENCHMARKS = ROOT / "benchmarks"
POLICY = """\
version: 1
name: reg
slo: {ttft: {p99: {max: 9s, level: warn}}}
regression: {ttft: {p50: {max: 5%}}, e2e: {p90: {max: 5%, and_at_least: 1ms}}}
evidence: {warmup: auto, decide: confident}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "slo.yaml").write_text(POLICY, encoding="utf-8")
    for name, source in (("old", "good"), ("new", "regressed")):
        (tmp_path / name).mkdir()
        for i in (1, 2, 3):
            shutil.copy(CHAT / source / f"c016_run0{i}.json.gz", tmp_path / name)
    return tmp_path


def report_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return json.loads(done.stdout)


def test_the_third_line_is_the_change_with_its_interval(folder: Path, slo_gate: Process) -> None:
    done = slo_gate("check", "new", "--baseline", "old", "--same-session")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].startswith("FAIL reg (blocked): P50 TTFT +15.3% against the baseline")
    assert done.stdout.splitlines()[2].startswith("Change: P50 TTFT +15.3% (")
    assert done.stdout.splitlines()[2].endswith("against old (3 files), 3 paired runs")


def test_the_json_holds_the_baseline_and_validates(folder: Path, slo_gate: Process) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    report = report_of(slo_gate("check", "new", "--baseline", "old", "--same-session", "--format", "json"))
    schema = json.loads((ROOT / "schemas" / "report.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(report)
    assert (report["baseline"]["kind"], report["baseline"]["runs"]) == (
        "same session",
        {"baseline": 3, "candidate": 3},
    )
    assert len(report["baseline"]["changes"]) == 9
    rule = next(one for one in report["objectives"] if one["id"] == "regression.ttft.p50")
    assert (rule["verdict"], rule["interval_of"], rule["unit"]) == ("fail", "ratio", "ratio")
    assert rule["interval"][0] > rule["bound"] == 0.05


def test_the_reproduce_line_names_the_baseline(folder: Path, slo_gate: Process) -> None:
    import shlex

    said = ["--baseline", "old", "--same-session", "--allow-baseline", "model", "--format", "json"]
    first = slo_gate("check", "new", *said)
    command = shlex.split(report_of(first)["provenance"]["reproduce"])
    assert slo_gate(*command[1:], "--format", "json").stdout == first.stdout


def test_a_stored_baseline_exits_0_and_warns(folder: Path, slo_gate: Process) -> None:
    done = slo_gate("check", "new", "--baseline", "old")
    assert (done.returncode, done.stdout.split()[0]) == (0, "WARN")
    assert slo_gate("check", "new", "--baseline", "old", "--fail-on", "warn").returncode == 5


def test_sidecars_of_one_session_do_what_same_session_states(folder: Path, slo_gate: Process) -> None:
    for file in [*(folder / "old").iterdir(), *(folder / "new").iterdir()]:
        file.with_name(file.name + ".slo.json").write_text('{"session": "job 7", "other": [1]}')
    done = slo_gate("check", "new", "--baseline", "old", "--format", "json")
    assert (done.returncode, report_of(done)["runs"][0]["session"]) == (1, "job 7")


@pytest.mark.parametrize(
    "text", ["{", '{"session": 7}', '{"session": ""}', "[]", '{"session": "' + "x" * 201]
)
def test_a_broken_sidecar_exits_3_with_its_name(text: str, folder: Path, slo_gate: Process) -> None:
    (folder / "new" / "c016_run01.json.gz.slo.json").write_text(text)
    done = slo_gate("check", "new", "--baseline", "old")
    assert done.returncode == 3
    assert "c016_run01.json.gz.slo.json" in done.stderr


# ---- saved reports ------------------------------------------------------------------------------


@pytest.fixture
def saved(folder: Path, slo_gate: Process) -> Path:
    """The report of the old runs."""
    slo_gate("check", "old", "--json", "old.json")
    return folder / "old.json"


def test_a_saved_report_is_a_baseline_with_the_percentiles_of_its_runs(
    saved: Path, folder: Path, slo_gate: Process
) -> None:
    report = report_of(
        slo_gate("check", "new", "--baseline", "old.json", "--same-session", "--format", "json")
    )
    p50 = [run["metrics"]["ttft_s"]["p50"] for run in json.loads(saved.read_text())["runs"]]
    change = report["baseline"]["changes"][0]
    assert change["baseline_s"] == pytest.approx(np.exp(np.mean(np.log(p50))))
    assert change["method"] == "3 runs against 3"  # a report holds no prompts: nothing can be paired


def test_ten_saved_reports_are_ten_sessions(saved: Path, folder: Path, slo_gate: Process) -> None:
    report = json.loads(saved.read_text())
    for number in range(10):
        factor = 1 + 0.01 * (number % 3 - 1)
        for run in report["runs"]:
            for name in ("p50", "p90", "p99"):
                run["metrics"]["ttft_s"][name] *= factor
        for file in report["inputs"]:
            file["sha256"] = f"{number}" * 64
        (folder / f"night-{number}.json").write_text(json.dumps(report))
    done = slo_gate("check", "new", "--baseline", "night-*.json", "--format", "json")
    found = report_of(done)["baseline"]
    assert (found["kind"], found["sessions"]) == ("stored sessions", 10)


def test_two_reports_of_the_same_results_are_one_session(
    saved: Path, folder: Path, slo_gate: Process
) -> None:
    (folder / "again.json").write_text(saved.read_text() + " ")
    done = slo_gate("check", "new", "--baseline", "old.json", "--baseline", "again.json", "--format", "json")
    report = report_of(done)
    assert report["baseline"]["sessions"] == 1
    assert any("a report of the same results" in note for note in report["notes"])


def test_a_report_of_the_very_results_is_no_baseline_of_them(saved: Path, slo_gate: Process) -> None:
    done = slo_gate("check", "old", "--baseline", "old.json")
    assert (done.returncode, "among the results" in done.stderr) == (3, True)


def test_a_saved_report_is_no_result(saved: Path, slo_gate: Process) -> None:
    assert slo_gate("check", "old.json").returncode == 3


HOSTILE = [
    ("nothing", lambda report: report.update(runs=[])),
    ("negative", lambda report: report["runs"][0]["metrics"]["ttft_s"].update(p50=-1.0)),
    ("falling", lambda report: report["runs"][0]["metrics"]["ttft_s"].update(p50=9.0, p90=1.0)),
    ("counts", lambda report: report["runs"][0]["counts"].update(failed=7)),
    ("text", lambda report: report["runs"][0]["metrics"]["ttft_s"].update(p50="fast")),
    ("error", lambda report: report.update(verdict="error")),
]


@pytest.mark.parametrize(("name", "spoil"), HOSTILE, ids=[name for name, _ in HOSTILE])
def test_a_report_that_contradicts_itself_exits_3(
    name: str, spoil: Any, saved: Path, folder: Path, slo_gate: Process
) -> None:
    report = json.loads(saved.read_text())
    spoil(report)
    (folder / "bad.json").write_text(json.dumps(report))
    done = slo_gate("check", "new", "--baseline", "bad.json")
    assert (done.returncode, "bad.json" in done.stderr) == (3, True)
    assert "Traceback" not in done.stderr


def test_names_in_a_report_drive_no_terminal(saved: Path, folder: Path, slo_gate: Process) -> None:
    report = json.loads(saved.read_text())
    report["runs"][0]["model"] = "x\x1b[31m\n::error::"
    (folder / "bad.json").write_text(json.dumps(report))
    done = slo_gate("check", "new", "--baseline", "bad.json")
    assert done.returncode == 3
    assert "\x1b" not in done.stderr
    assert not any(line.startswith("::") for line in done.stderr.splitlines())


# ---- usage --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--same-session"], "none is given"),
        (["--allow-baseline", "model"], "none is given"),
        (["--baseline", "old", "--allow-baseline", "weather"], "nothing a baseline may differ in"),
        (["--baseline", "-"], "not read from stdin"),
    ],
)
def test_a_baseline_that_is_asked_for_wrongly_exits_2(
    more: list[str], said: str, folder: Path, slo_gate: Process
) -> None:
    done = slo_gate("check", "new", *more)
    assert (done.returncode, said in done.stderr) == (2, True)


def test_a_baseline_of_another_load_exits_3_and_names_the_way_out(folder: Path, slo_gate: Process) -> None:
    shutil.copy(CHAT / "good" / "c004_run01.json.gz", folder)
    done = slo_gate("check", "new", "--baseline", "c004_run01.json.gz")
    assert (done.returncode, "--allow-baseline load" in done.stderr) == (3, True)


def test_compare_shows_every_percentile_without_a_policy(folder: Path, slo_gate: Process) -> None:
    (folder / "slo.yaml").unlink()
    done = slo_gate("compare", "old", "new", "--same-session")
    assert done.returncode == 0
    rows = [line.split()[:2] for line in done.stdout.splitlines() if line.startswith("  P")]
    assert rows == [[p, m] for m in ("TTFT", "TPOT", "E2E") for p in ("P50", "P90", "P99")]
    found = json.loads(slo_gate("compare", "old", "new", "--same-session", "--json").stdout)
    assert [one["growth"] > 0.09 for one in found["comparisons"][0]["changes"]] == [True] * 9


def test_compare_of_several_loads_shows_what_moved_in_forty_lines(tmp_path: Path, slo_gate: Process) -> None:
    done = slo_gate("compare", CHAT / "good", CHAT / "good", COLUMNS="80")
    assert done.returncode == 3  # a copy of itself
    good = sorted((CHAT / "good").glob("*.gz"))
    for name, paths in (("old", good[::2]), ("new", good[1::2])):
        (tmp_path / name).mkdir()
        for path in paths:
            shutil.copy(path, tmp_path / name)
    brief = slo_gate("compare", "old", "new", COLUMNS="80").stdout.splitlines()
    assert sum(-(-len(line) // 80) or 1 for line in brief) <= 40
    assert [line.split(":")[0] for line in brief if line[:1] == "c"] == [
        f"concurrency {load}" for load in (4, 8, 16, 24)
    ]
    whole = slo_gate("compare", "old", "new", "-v").stdout
    assert sum(line.startswith("  P") for line in whole.splitlines()) == 36


# ---- error rates: a short version of benchmarks/calibrate_regression.py ------------------------------


@pytest.fixture
def calibrate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("calibrate_regression")


@pytest.mark.slow(reason="a study of eleven designs and of real runs: half a minute of a core")
def test_the_error_rates_of_every_design_are_within_their_limits() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "calibrate_regression.py"), "--quick"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # headers, eleven designs of made-up pairs, three of real runs
    assert done.stdout.count("\n| ") == 2 + 11 + 3


def test_ten_pairs_find_twenty_percent_on_p99_ttft(calibrate: ModuleType) -> None:
    binom = pytest.importorskip("scipy.stats").binom
    design = next(one for one in calibrate.DESIGNS if one.name == "10 x 300 paired")
    result = calibrate.measure(design, 60, seed=77)
    assert result.fails["ttft", 0.99, 0.05, calibrate.SLOWER] >= binom.ppf(0.001, 60, 0.6) / 60
    assert result.mean_alarms(0.05) <= 0.05


def test_the_calibration_would_see_a_rule_that_alarms(calibrate: ModuleType) -> None:
    control = calibrate.measure(calibrate.CONTROL, 40, seed=5)
    assert calibrate.complaints({"control": control}, 200)
