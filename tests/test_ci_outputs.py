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
    suite = ET.parse(folder / "j.xml").getroot()
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


# ---- the policy's place in the repository --------------------------------------------------


def places(folder: Path) -> set[str]:
    """What every file for a CI system calls the policy."""
    (case,) = ET.parse(folder / "j.xml").iter("testcase")
    (finding,) = json.loads((folder / "q.json").read_text())
    report = json.loads((folder / "r.json").read_text())
    return {case.get("file") or "", finding["location"]["path"], report["policy"]["repository_path"]}


FILES = ("--junit", "j.xml", "--junit-dialect", "gitlab", "--codequality", "q.json", "--json", "r.json")


@pytest.mark.parametrize("root", ["CI_PROJECT_DIR", "GITHUB_WORKSPACE", "git", "none"])
@pytest.mark.parametrize("named", ["slo.yaml", "./slo.yaml", "../a/slo.yaml", "absolute", "found"])
def test_the_policy_is_named_from_the_root_of_the_repository(
    root: str, named: str, folder: Path, slo_gate: Process
) -> None:
    service = folder / "services" / "a"
    service.mkdir(parents=True)
    for name in ("slo.yaml", "bad.jsonl"):
        (folder / name).rename(service / name)
    env = {root: str(folder)} if root.isupper() else {}
    if root == "git":
        (folder / ".git").mkdir()
    policy = (
        [] if named == "found" else ["--policy", str(service / "slo.yaml") if named == "absolute" else named]
    )
    done = slo_gate("check", "bad.jsonl", *policy, *FILES, "--format", "github", cwd=service, **env)
    assert done.returncode == 1
    expected = "slo.yaml" if root == "none" else "services/a/slo.yaml"
    assert places(service) == {expected}
    assert [one["file"] for one in runner(done.stdout)] == [expected]


def test_a_policy_outside_of_the_repository_has_no_place_in_it(folder: Path, slo_gate: Process) -> None:
    checkout = folder / "checkout"
    checkout.mkdir()
    done = slo_gate(
        "check", "../bad.jsonl", "--policy", "../slo.yaml", *FILES, "--format", "github",
        cwd=checkout, GITHUB_WORKSPACE=str(checkout),
    )  # fmt: skip
    assert done.returncode == 1
    (annotation,) = runner(done.stdout)
    assert "file" not in annotation
    assert json.loads((checkout / "r.json").read_text())["policy"]["repository_path"] == ""


@pytest.mark.parametrize(
    "words", [["--policy", "slo.yaml"], [], ["--policy", "slo.yaml", "--fail-on", "never"]]
)
def test_an_error_names_the_gate_it_is_about(words: list[str], folder: Path, slo_gate: Process) -> None:
    done = slo_gate("check", "none.jsonl", *words, "--json", "r.json")
    assert done.returncode in (2, 3)
    said = json.loads((folder / "r.json").read_text())["policy"]
    assert said == {"name": "chat", "path": "slo.yaml", "profile": None}


def test_an_error_of_a_policy_that_cannot_be_loaded_names_its_path(folder: Path, slo_gate: Process) -> None:
    (folder / "slo.yaml").write_text("version: 7\n", encoding="utf-8")
    slo_gate("check", "good.jsonl", "--profile", "pr", "--json", "r.json")
    said = json.loads((folder / "r.json").read_text())["policy"]
    assert said == {"name": None, "path": "slo.yaml", "profile": "pr"}
    (folder / "slo.yaml").unlink()
    slo_gate("check", "good.jsonl", "--json", "r.json")
    assert json.loads((folder / "r.json").read_text())["policy"] is None
