"""The real process: exit codes, messages, outputs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Process

POLICY = """\
version: 1
name: chat
slo:
  ttft: {p90: 500ms}
evidence: {decide: point}
"""


def rows(n: int = 200, ttft_s: float = 0.1, **more: Any) -> str:
    row = {"ttft_s": ttft_s, "e2e_s": ttft_s + 1, "output_tokens": 100, **more}
    return "".join(json.dumps({**row, "e2e_s": row["e2e_s"] + i / 1e6}) + "\n" for i in range(n))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "slo.yaml").write_text(POLICY, encoding="utf-8")
    (tmp_path / "good.jsonl").write_text(rows(), encoding="utf-8")
    (tmp_path / "bad.jsonl").write_text(rows(ttft_s=0.9), encoding="utf-8")
    (tmp_path / "empty.json").write_text("", encoding="utf-8")
    (tmp_path / "cut.json").write_text('{"ttfts": [0.1, 0.2', encoding="utf-8")
    (tmp_path / "log.txt").write_text("INFO: Starting benchmark\nTTFT 12 ms\n", encoding="utf-8")
    return tmp_path


def test_a_pass_exits_0(folder: Path, slo_gate: Process) -> None:
    done = slo_gate("check", "good.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("PASS chat: P90 TTFT 100 ms <= 500 ms")


def test_a_failed_objective_exits_1(folder: Path, slo_gate: Process) -> None:
    done = slo_gate("check", "bad.jsonl")
    assert done.returncode == 1
    assert done.stdout.startswith("FAIL chat (blocked): P90 TTFT 900 ms > 500 ms")


def test_undecided_exits_4_and_never_reads_as_a_pass(folder: Path, slo_gate: Process) -> None:
    (folder / "p99.yaml").write_text("version: 1\nname: p\nslo: {ttft: {p99: 500ms}}\n", encoding="utf-8")
    done = slo_gate("check", "good.jsonl", "--policy", "p99.yaml")
    assert done.returncode == 4
    assert done.stdout.startswith("INCONCLUSIVE p (blocked)")


def test_a_warning_exits_0_and_5_with_fail_on_warn(folder: Path, slo_gate: Process) -> None:
    text = POLICY.replace("{p90: 500ms}", "{p90: 500ms, p50: {max: 50ms, level: warn}}")
    (folder / "slo.yaml").write_text(text, encoding="utf-8")
    assert slo_gate("check", "good.jsonl").returncode == 0
    done = slo_gate("check", "good.jsonl", "--fail-on", "warn")
    assert (done.returncode, done.stdout.split()[0]) == (5, "WARN")


def test_report_only_exits_0_and_says_so_in_headline_and_json(folder: Path, slo_gate: Process) -> None:
    done = slo_gate("check", "bad.jsonl", "--report-only", "--json", "r.json")
    report = json.loads((folder / "r.json").read_text())
    assert (done.returncode, report["exit_code"], report["verdict"]) == (0, 0, "fail")
    assert "report only" in done.stdout.splitlines()[0]
    assert report["report_only"] is True


USAGE = [
    (["check", "good.jsonl", "--no-such-option"], "no-such-option"),
    (["check"], "no result file is named"),
    (["check", "good.jsonl", "--policy", "none.yaml"], "none.yaml"),
    (["check", "good.jsonl", "--policy", "slo.yaml", "--preset", "chat"], "exclude each other"),
    (["check", "good.jsonl", "--preset", "chatt"], "chat"),
    (["check", "good.jsonl", "--tool", "vlm"], "did you mean vllm?"),
    (["check", "good.jsonl", "--set", "modle=x"], "did you mean model?"),
    (["check", "good.jsonl", "--set", "model"], "key=value"),
    (["check", "good.jsonl", "--format", "json", "--junit", "-"], "two outputs go to stdout"),
    (["check", "good.jsonl", "--json", "no/such/folder/r.json"], "cannot write"),
    (["chekc"], "chekc"),
]


@pytest.mark.parametrize(
    ("arguments", "said"), USAGE, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_a_usage_error_exits_2_with_a_sentence(
    arguments: list[str], said: str, folder: Path, slo_gate: Process
) -> None:
    done = slo_gate(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


INPUT = [
    ("missing.json", "no such file"),
    ("empty.json", "empty"),
    ("cut.json", "ends in the middle"),
    ("log.txt", "console log"),
    ("nothing-*.json", "no file matches"),
    ("slo.yaml", "no result among the files"),
]


@pytest.mark.parametrize(("name", "said"), INPUT)
def test_a_bad_result_file_exits_3_with_its_name(
    name: str, said: str, folder: Path, slo_gate: Process
) -> None:
    done = slo_gate("check", name)
    assert done.returncode == 3
    assert name in done.stderr
    assert said in done.stderr
    assert done.stderr.splitlines()[-1].startswith("hint: ")


def test_a_name_cannot_command_a_ci_runner_through_an_error(folder: Path, slo_gate: Process) -> None:
    done = slo_gate("check", "x\n::error::y ###[error]z\x1b[31m.json", "--tool", "##[warning]w")
    assert done.returncode == 2
    done2 = slo_gate("check", "x\n::error::y ###[error]z\x1b[31m.json")
    assert done2.returncode == 3
    for text in (done.stderr, done2.stderr):
        assert "##[" not in text
        assert "\x1b" not in text
        assert all(line.startswith(("error: ", "hint: ")) for line in text.splitlines())


def test_a_contradiction_of_the_file_exits_3(folder: Path, slo_gate: Process) -> None:
    (folder / "m.jsonl").write_text(rows(model="llama"), encoding="utf-8")
    done = slo_gate("check", "m.jsonl", "--set", "model=qwen")
    assert done.returncode == 3
    assert 'the file says "llama"' in done.stderr


def test_a_folder_with_one_unreadable_result_is_never_half_read(folder: Path, slo_gate: Process) -> None:
    (folder / "set").mkdir()
    (folder / "set" / "a.jsonl").write_text(rows(), encoding="utf-8")
    (folder / "set" / "b.json").write_text("{", encoding="utf-8")
    done = slo_gate("check", "set")
    assert done.returncode == 3
    assert "b.json" in done.stderr


NO_POLICY = [
    ("", "empty"),
    ("version: 1\nname: x\n", "objective"),
    ("version: 1\nslo: {ttft: {mean: {max: 1s, level: info}}}\n", "P99"),
    ("version: 1\nlimits: {throughput: {min: 100 tok/s}}\n", "throughput"),
]


@pytest.mark.parametrize(("text", "said"), NO_POLICY)
def test_a_policy_that_gates_on_nothing_exits_2(
    text: str, said: str, folder: Path, slo_gate: Process
) -> None:
    (folder / "slo.yaml").write_text(text, encoding="utf-8")
    done = slo_gate("check", "good.jsonl")
    assert done.returncode == 2
    assert said in done.stderr


def test_no_policy_at_all_exits_2_and_names_the_way_out(folder: Path, slo_gate: Process) -> None:
    (folder / "slo.yaml").unlink()
    done = slo_gate("check", "good.jsonl")
    assert done.returncode == 2
    assert "--preset chat" in done.stderr


def test_a_bug_exits_70_and_never_1(folder: Path, slo_gate: Process) -> None:
    (folder / "sitecustomize.py").write_text(
        "import gate.evaluate\ngate.evaluate.evaluate = lambda *a, **k: 1 / 0\n", encoding="utf-8"
    )
    done = slo_gate("check", "good.jsonl", "--json", "r.json", PYTHONPATH=f"{folder}:{ROOT}")
    assert done.returncode == 70
    assert "ZeroDivisionError" in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads((folder / "r.json").read_text())["exit_code"] == 70


def test_a_broken_install_exits_70(folder: Path, slo_gate: Process) -> None:
    (folder / "click.py").write_text("raise ImportError('no click')", encoding="utf-8")
    assert slo_gate("check", "good.jsonl", PYTHONPATH=f"{folder}:{ROOT}").returncode == 70


def test_on_an_error_every_requested_output_replaces_the_stale_one(folder: Path, slo_gate: Process) -> None:
    for name in ("r.json", "j.xml", "m.md"):
        (folder / name).write_text("PASS", encoding="utf-8")
    done = slo_gate("check", "empty.json", "--json", "r.json", "--junit", "j.xml", "--markdown", "m.md")
    assert done.returncode == 3
    report = json.loads((folder / "r.json").read_text())
    assert (report["verdict"], report["exit_code"]) == ("error", 3)
    assert set(report["error"]) == {"message", "where", "hint"}
    assert len(ET.parse(folder / "j.xml").findall(".//testcase/error")) == 1
    assert "PASS" not in (folder / "m.md").read_text()


REFUSED = [
    ["--fail-on", "bogus"],
    ["--junit-dialect", "nope"],
    ["--format", "xml"],
    ["--no-such-option", "--report-only=yes"],
    ["--no-such-option", "value"],
    ["--format", "json", "--metrics", "-"],
    ["--html", "./st.json"],
    ["--junit-timestamp", "noon"],
    ["--policy"],
]


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_a_command_line_that_is_refused_leaves_no_green_report(
    words: list[str], folder: Path, slo_gate: Process
) -> None:
    assert slo_gate("check", "good.jsonl", "--json", "st.json", "--junit", "j.xml").returncode == 0
    assert json.loads((folder / "st.json").read_text())["verdict"] == "pass"
    done = slo_gate("check", "good.jsonl", "--json=st.json", "--junit", "j.xml", *words)
    assert done.returncode == 2
    report = json.loads((folder / "st.json").read_text())
    assert (report["verdict"], report["exit_code"]) == ("error", 2)
    assert report["error"]["message"] in done.stderr
    assert len(ET.parse(folder / "j.xml").findall(".//testcase/error")) == 1


def test_an_option_in_front_of_the_command_leaves_no_green_report(folder: Path, slo_gate: Process) -> None:
    slo_gate("check", "good.jsonl", "--json", "st.json")
    assert slo_gate("--debug", "check", "good.jsonl", "--json", "st.json").returncode == 2
    assert json.loads((folder / "st.json").read_text())["verdict"] == "error"


def test_run_replaces_its_own_stale_report_and_no_file_of_the_benchmark(
    folder: Path, slo_gate: Process
) -> None:
    for name in ("st.json", "theirs.json"):
        (folder / name).write_text("{}", encoding="utf-8")
    done = slo_gate(
        "run", "--json", "st.json", "--bogus", "1", "--looks", "2", "--", "bench", "--json", "theirs.json"
    )
    assert done.returncode == 2
    assert json.loads((folder / "st.json").read_text())["verdict"] == "error"
    slo_gate("run", "--looks", "99", "bench", "--json", "theirs.json")
    assert (folder / "theirs.json").read_text() == "{}"


@pytest.mark.parametrize("words", [["--junit", "no/such/x.xml"], ["--markdown", "results"]], ids=" ".join)
@pytest.mark.parametrize("results", ["good.jsonl", "empty.json"])
def test_an_output_that_cannot_be_written_makes_the_others_say_so(
    words: list[str], results: str, folder: Path, slo_gate: Process
) -> None:
    (folder / "results").mkdir()
    for name in ("ok.json", "z.txt"):
        (folder / name).write_text("PASS", encoding="utf-8")
    done = slo_gate("check", results, "--json", "ok.json", *words, "--metrics", "z.txt")
    code = 2 if results == "good.jsonl" else 3
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.count("cannot write the") == 1
    assert json.loads((folder / "ok.json").read_text())["exit_code"] == code
    assert f"slo_gate_exit_code {code}" in (folder / "z.txt").read_text()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_makes_the_other_files_say_so(folder: Path, slo_gate: Process) -> None:
    done = slo_gate("check", "good.jsonl", "--json", "ok.json", "--junit", "/dev/full")
    assert done.returncode == 2
    assert "cannot write the junit report: No space left" in done.stderr
    assert json.loads((folder / "ok.json").read_text())["verdict"] == "error"


def test_a_bug_of_one_format_makes_the_other_files_say_so(folder: Path, slo_gate: Process) -> None:
    (folder / "sitecustomize.py").write_text(
        "import gate.emit.junit as junit\nwas = junit.emit\n"
        "junit.emit = lambda r, **k: was(r, **k) if hasattr(r, 'hint') else 1 / 0\n",
        encoding="utf-8",
    )
    words = ("--json", "ok.json", "--junit", "j.xml")
    assert slo_gate("check", "good.jsonl", *words, PYTHONPATH=f"{folder}:{ROOT}").returncode == 70
    assert json.loads((folder / "ok.json").read_text())["exit_code"] == 70


def test_a_shorter_report_leaves_nothing_of_a_longer_one_and_a_pipe_is_a_file(
    folder: Path, slo_gate: Process
) -> None:
    (folder / "r.json").write_text("x" * 1_000_000, encoding="utf-8")
    done = slo_gate(
        "check", "good.jsonl", "--json", "r.json", "--junit", "/dev/stderr", "--html", "/dev/null"
    )
    assert done.returncode == 0
    assert json.loads((folder / "r.json").read_text())["verdict"] == "pass"
    assert ET.fromstring(done.stderr).tag == "testsuite"  # the root of the generic dialect


@pytest.mark.parametrize("name", ["text", "json", "junit", "markdown"])
def test_no_format_changes_the_exit_code(name: str, folder: Path, slo_gate: Process) -> None:
    assert slo_gate("check", "good.jsonl", "--format", name).returncode == 0
    assert slo_gate("check", "bad.jsonl", "--format", name).returncode == 1


def test_outputs_of_one_run_agree_with_stdout(folder: Path, slo_gate: Process) -> None:
    files = ["--json", "r.json", "--junit", "j.xml", "--markdown", "m.md"]
    done = slo_gate("check", "bad.jsonl", *files)
    assert slo_gate("check", "bad.jsonl", "--format", "json").stdout == (folder / "r.json").read_text()
    assert slo_gate("check", "bad.jsonl", "--junit", "-").stdout == (folder / "j.xml").read_text()
    assert json.loads((folder / "r.json").read_text())["headline"] == done.stdout.splitlines()[0]


def test_a_reader_of_the_pipe_that_leaves_does_not_change_the_verdict(folder: Path) -> None:
    command = f"{sys.executable} -m gate check bad.jsonl --format json | head -c 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "{", "")


def test_debug_shows_the_traceback_and_still_exits_70(folder: Path, slo_gate: Process) -> None:
    (folder / "sitecustomize.py").write_text(
        "import gate.evaluate\ngate.evaluate.evaluate = lambda *a, **k: 1 / 0\n", encoding="utf-8"
    )
    done = slo_gate("check", "good.jsonl", "--debug", PYTHONPATH=f"{folder}:{ROOT}")
    assert (done.returncode, "Traceback" in done.stderr) == (70, True)


def test_stdin_is_read_as_a_file(folder: Path, slo_gate: Process) -> None:
    done = slo_gate("check", "-", "-v", input=rows())
    assert (done.returncode, "stdin" in done.stdout) == (0, True)


def test_the_same_content_under_two_names_is_counted_once(folder: Path, slo_gate: Process) -> None:
    (folder / "copy.jsonl").write_bytes((folder / "good.jsonl").read_bytes())
    report = json.loads(slo_gate("check", "good.jsonl", "copy.jsonl", "--format", "json").stdout)
    assert len(report["runs"]) == 1
    assert any("same content" in note for note in report["notes"])


def test_the_reproduce_line_gives_the_same_bytes(folder: Path, slo_gate: Process) -> None:
    import shlex

    first = slo_gate("check", "good.jsonl", "--set", "model=a b", "--format", "json").stdout
    command = json.loads(first)["provenance"]["reproduce"]
    again = slo_gate(*shlex.split(command)[1:], "--format", "json").stdout
    assert again == first


def test_color_follows_the_environment(folder: Path, slo_gate: Process) -> None:
    assert "\x1b[" not in slo_gate("check", "good.jsonl").stdout
    assert "\x1b[" in slo_gate("check", "good.jsonl", FORCE_COLOR="1").stdout
    assert "\x1b[" not in slo_gate("check", "good.jsonl", FORCE_COLOR="1", NO_COLOR="1").stdout


def test_a_terminal_that_is_not_utf8_gets_every_line(folder: Path, slo_gate: Process) -> None:
    (folder / "slo.yaml").write_text(POLICY.replace("chat", '"chät ✓"'), encoding="utf-8")
    assert slo_gate("check", "good.jsonl", PYTHONIOENCODING="ascii").returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["policy", "validate", "slo.yaml"],
        ["policy", "show"],
        ["policy", "show", "--preset", "chat"],
        ["schema", "policy"],
        ["schema", "report"],
        ["completion", "bash"],
        ["--help"],
        ["--version"],
    ],
    ids=" ".join,
)
def test_the_other_commands_answer(arguments: list[str], folder: Path, slo_gate: Process) -> None:
    done = slo_gate(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


@pytest.mark.parametrize("option", ["--json", "--junit", "--markdown", "--html"])
@pytest.mark.parametrize("target", ["bad.jsonl", "slo.yaml"])
def test_an_output_never_overwrites_what_is_read(
    option: str, target: str, folder: Path, slo_gate: Process
) -> None:
    before = (folder / target).read_bytes()
    done = slo_gate("check", "bad.jsonl", "--policy", "slo.yaml", option, target)
    assert (done.returncode, "would overwrite" in done.stderr) == (2, True)
    assert (folder / target).read_bytes() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("redirect", [">/dev/full", ">&-"])
@pytest.mark.parametrize(("name", "code"), [("good.jsonl", 0), ("bad.jsonl", 1)])
def test_a_stdout_that_cannot_be_written_does_not_change_the_verdict(
    redirect: str, name: str, code: int, folder: Path
) -> None:
    command = f"{sys.executable} -m gate check {name} --json r.json {redirect}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert json.loads((folder / "r.json").read_text())["exit_code"] == code


def test_policy_validate_checks_every_profile_without_one_being_named(
    folder: Path, slo_gate: Process
) -> None:
    text = POLICY + "profiles: {pr: {undecided: lean}, nightly: {undecided: allow}}\n"
    (folder / "slo.yaml").write_text(text, encoding="utf-8")
    done = slo_gate("policy", "validate", "slo.yaml")
    assert (done.returncode, done.stdout) == (0, "slo.yaml: valid, 1 objectives, profiles pr, nightly\n")


def test_policy_validate_looks_at_every_file_it_is_given(folder: Path, slo_gate: Process) -> None:
    (folder / "a.yaml").write_text(POLICY.replace("p90", "q90"), encoding="utf-8")
    (folder / "c.yaml").write_text(POLICY.replace("500ms", "500"), encoding="utf-8")
    done = slo_gate("policy", "validate", "a.yaml", "slo.yaml", "none.yaml", "c.yaml")
    assert (done.returncode, done.stdout) == (2, "slo.yaml: valid, 1 objectives\n")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert [line.split(":")[1].strip() for line in errors] == ["a.yaml", "none.yaml", "c.yaml"]


def test_policy_validate_names_the_line(folder: Path, slo_gate: Process) -> None:
    (folder / "slo.yaml").write_text(POLICY.replace("p90", "p900"), encoding="utf-8")
    done = slo_gate("policy", "validate", "slo.yaml")
    assert done.returncode == 2
    assert "slo.yaml:4" in done.stderr


def test_check_does_not_import_what_it_does_not_use(folder: Path, slo_gate: Process) -> None:
    (folder / "sitecustomize.py").write_text(
        "import atexit, sys\n"
        "heavy = ('jsonschema', 'rich', 'jinja2', 'junit_xml', 'scipy', 'urllib3', 'fsspec', 'pyarrow')\n"
        "atexit.register(lambda: sys.stderr.write(' '.join(m for m in heavy if m in sys.modules)))\n",
        encoding="utf-8",
    )
    done = slo_gate("check", "good.jsonl", "--json", "r.json", PYTHONPATH=f"{folder}:{ROOT}")
    assert (done.returncode, done.stderr) == (0, "")
