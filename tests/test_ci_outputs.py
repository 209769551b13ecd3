"""What CI systems read, from the real process: annotations in the log, report files, JUnit dialects."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.conftest import Process
from tests.emit.test_ci_formats import runner
from tests.test_cli import POLICY, rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "slo.yaml").write_text(POLICY, encoding="utf-8")
    (tmp_path / "good.jsonl").write_text(rows(), encoding="utf-8")
    (tmp_path / "bad.jsonl").write_text(rows(ttft_s=0.9), encoding="utf-8")
    return tmp_path


def test_the_github_format_is_the_text_report_with_annotations_after_it(
    folder: Path, slo_gate: Process
) -> None:
    text, github = (slo_gate("check", "bad.jsonl", "--format", name) for name in ("text", "github"))
    assert (text.returncode, github.returncode) == (1, 1)
    assert github.stdout.startswith(text.stdout)
    (only,) = runner(github.stdout)
    assert (only["command"], only["file"], only["line"]) == ("error", "slo.yaml", "4")


def test_a_pass_in_the_github_format_is_the_text_report(folder: Path, slo_gate: Process) -> None:
    text, github = (slo_gate("check", "good.jsonl", "--format", name) for name in ("text", "github"))
    assert github.stdout == text.stdout


def test_an_error_is_annotated_too(folder: Path, slo_gate: Process) -> None:
    done = slo_gate("check", "none.jsonl", "--format", "github")
    assert done.returncode == 3
    assert [one["command"] for one in runner(done.stdout)] == ["error"]


def test_files_for_gitlab_are_written_in_one_run_and_do_not_change_the_code(
    folder: Path, slo_gate: Process
) -> None:
    options = (
        "--codequality",
        "q.json",
        "--metrics",
        "m.txt",
        "--junit",
        "j.xml",
        "--junit-dialect",
        "gitlab",
    )
    done = slo_gate("check", "bad.jsonl", *options)
    assert done.returncode == 1
    (finding,) = json.loads((folder / "q.json").read_text())
    assert finding["location"] == {"path": "slo.yaml", "lines": {"begin": 4}}
    assert (
        'slo_gate_objective_met{policy="chat",objective="ttft.p90",level="block"} 0\n'
        in (folder / "m.txt").read_text()
    )
    (case,) = ET.parse(folder / "j.xml").iter("testcase")
    assert case.get("file") == "slo.yaml"


def test_a_time_stamp_is_written_as_given(folder: Path, slo_gate: Process) -> None:
    slo_gate("check", "good.jsonl", "--junit", "j.xml", "--junit-timestamp", "2027-01-12T08:00:00Z")
    (suite,) = ET.parse(folder / "j.xml").getroot()
    assert suite.get("timestamp") == "2027-01-12T08:00:00Z"


def test_a_time_stamp_that_is_none_exits_2_and_replaces_the_stale_report(
    folder: Path, slo_gate: Process
) -> None:
    (folder / "r.json").write_text("PASS", encoding="utf-8")
    done = slo_gate("check", "good.jsonl", "--junit-timestamp", "tbd", "--json", "r.json")
    assert (done.returncode, "is no ISO 8601 time" in done.stderr) == (2, True)
    assert json.loads((folder / "r.json").read_text())["verdict"] == "error"


def test_errors_are_written_to_every_file_a_ci_system_reads(folder: Path, slo_gate: Process) -> None:
    done = slo_gate("check", "none.jsonl", "--codequality", "q.json", "--metrics", "m.txt")
    assert done.returncode == 3
    assert json.loads((folder / "q.json").read_text())[0]["severity"] == "blocker"
    assert (folder / "m.txt").read_text().splitlines()[-2:] == ["slo_gate_exit_code 3", "# EOF"]


def test_code_quality_on_stdout_is_the_file(folder: Path, slo_gate: Process) -> None:
    slo_gate("check", "bad.jsonl", "--codequality", "q.json")
    assert slo_gate("check", "bad.jsonl", "--format", "gitlab").stdout == (folder / "q.json").read_text()
