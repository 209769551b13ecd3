"""The docs are run: every `$ slo-gate` line works, every command, option and exit code is written down."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest

from gate.cli import COMMANDS, cli
from gate.errors import Exit
from gate.readers import READERS
from tests.conftest import ROOT, Process, environment
from tests.synth.test_docs import commands, shows

DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *DOCS]
RUN = re.compile(r"^\$ slo-gate (.*)$", re.MULTILINE)


def commands_in_docs() -> list[tuple[str, str]]:
    """Lines that can be run as they stand: those whose files are in the repository."""
    found = []
    for page in PAGES:
        for line in RUN.findall(page.read_text(encoding="utf-8")):
            words = shlex.split(line.split("#")[0].split("|")[0])
            if any(word.startswith("examples/") for word in words):
                found.append((page.name, line))
    return found


@pytest.mark.parametrize(("page", "line"), commands_in_docs())
def test_a_command_in_the_docs_gives_a_verdict(page: str, line: str, slo_gate: Process) -> None:
    words = shlex.split(line.split("#")[0].split("|")[0])
    done = slo_gate(*words, cwd=ROOT)
    assert done.returncode in (Exit.PASS, Exit.FAIL, Exit.INCONCLUSIVE), done.stderr
    assert "Traceback" not in done.stderr


def test_the_tool_trap_in_the_docs_is_what_check_says(slo_gate: Process) -> None:
    text = (ROOT / "docs" / "definitions.md").read_text(encoding="utf-8")
    assert "**7.07 ms**" in text
    assert "**12.00 ms**" in text
    for name in ("generic.jsonl", "demo-model_300_100_individual_responses.json"):
        done = slo_gate(
            "check",
            f"examples/tool-trap/{name}",
            "--policy",
            "examples/tool-trap/slo.yaml",
            "--format",
            "json",
            cwd=ROOT,
        )
        report = json.loads(done.stdout)
        assert f"{report['metrics']['tpot_s']['p50'] * 1e3:.2f}" == "7.07"
        assert f"{report['metrics']['ttft_s']['p50'] * 1e3:.0f}" == "500"
    assert any("12.00 ms" in note for note in report["notes"])  # LLMPerf's own convention, under its name


def test_the_failure_in_the_readme_is_the_demo_s(slo_gate: Process) -> None:
    done = slo_gate("check", "chat/regressed", "--policy", "chat/slo.yaml", cwd=ROOT / "examples")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for line in done.stdout.splitlines()[:2]:
        assert line in readme


def test_the_recorded_terminal_is_what_check_prints(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    terminal = importlib.import_module("terminal")

    def words(picture: str) -> list[str]:
        return [text for tag in ElementTree.fromstring(picture).iter("{*}text") for text in tag.itertext()]

    made = terminal.picture(terminal.session())
    if request.config.getoption("--update-golden"):
        terminal.PICTURE.write_text(made, encoding="utf-8")
    kept = terminal.PICTURE.read_text(encoding="utf-8")
    assert "(docs/terminal.svg)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "http" not in kept.replace("http://www.w3.org/", "").replace("https://www.textualize.io", "")
    assert words(kept) == words(made), "run python benchmarks/terminal.py and look at docs/terminal.svg"


def test_every_page_is_in_the_index_and_every_reader_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert "(docs/README.md)" in readme
    for page in DOCS:
        link = f"({page.relative_to(ROOT / 'docs').as_posix()})"
        assert page.name == "README.md" or link in index, f"docs/README.md leads nobody to {page.name}"
    for reader in READERS:
        assert f"`{reader.NAME}`" in readme, f"README.md does not say that {reader.NAME} is read"


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_a_page_that_shows_a_command_says_first_where_it_comes_from(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    command = re.search(r"(?m)^\$ slo-gate |^```bash\nslo-gate ", text)
    if command and page.name != "install.md":
        assert "install.md)" in text[: command.start()], f"{page.name} begins with a command nobody has"


def test_every_command_and_every_reader_is_in_the_changelog() -> None:
    text = (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"slo-gate {name}" in text, name
    for reader in READERS:
        word = {"generic": "generic JSONL", "mlperf-endpoints": "and Endpoints"}.get(reader.NAME)
        assert (word or reader.TITLE.split()[0].rstrip(",")) in text, reader.NAME
    own = [path for path in ROOT.glob("gate/presets/*.yaml") if not path.name.startswith("mlperf-")]
    assert ("seven presets" in text) is (len(own) == 7)


def test_the_text_in_the_docs_is_what_the_demo_prints(slo_gate: Process) -> None:
    done = slo_gate("check", "chat/regressed", "--policy", "chat/slo.yaml", cwd=ROOT / "examples")
    page = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    sample = page.split("## Text")[1].split("```")[1].strip()
    assert sample.startswith("FAIL ")
    assert done.stdout.startswith(sample)
    verdict = (ROOT / "docs" / "reading-a-verdict.md").read_text(encoding="utf-8")
    for line in sample.splitlines():
        assert line in verdict


def all_commands() -> list[tuple[str, click.Command]]:
    context = click.Context(cli)
    found: list[tuple[str, click.Command]] = []
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        found.append((name, command))
        if isinstance(command, click.Group):
            found += [(f"{name} {sub}", command.commands[sub]) for sub in sorted(command.commands)]
    return found


def commands_page() -> str:
    """docs/commands.md, made from --help."""
    lines = ["# Commands", "", "Made from `--help`; a test holds it to that.", ""]
    for name, command in all_commands():
        settings = {**cli.context_settings, "terminal_width": 100}
        parent = click.Context(cli, info_name="slo-gate", **settings)
        context = click.Context(command, parent=parent, info_name=name, **settings)
        text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        lines += [f"## {name}", "", "```", text, "```", ""]
    return "\n".join(lines)


def test_the_commands_page_is_what_help_says(request: pytest.FixtureRequest) -> None:
    path = ROOT / "docs" / "commands.md"
    if request.config.getoption("--update-golden"):
        path.write_text(commands_page(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == commands_page(), (
        "run pytest tests/test_docs.py --update-golden"
    )


def test_every_command_and_option_has_help() -> None:
    for name, command in all_commands():
        assert command.help, name
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{name} {parameter.opts[0]}"


def test_every_exit_code_is_in_the_readme_the_docs_and_the_help() -> None:
    help_text = dict(all_commands())["check"].epilog or ""
    for page in (ROOT / "README.md", ROOT / "docs" / "exit-codes.md"):
        text = page.read_text(encoding="utf-8")
        assert {int(code) for code in Exit} <= {
            int(c) for c in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)
        }
    assert {int(code) for code in Exit} <= {int(c) for c in re.findall(r"^  (\d+) ", help_text, re.MULTILINE)}


def test_every_message_in_troubleshooting_is_printed_with_the_exit_code_of_its_part(
    slo_gate: Process, tmp_path: Path
) -> None:
    ran = 0
    parts = re.split(r"(?m)^## (?=Exit )", (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8"))
    for part in parts:
        exits = re.match(r"Exit (\d+)", part)
        for words, shown in commands(part):
            if words[0] == "cat":
                (tmp_path / words[1]).write_text("\n".join(shown) + "\n", encoding="utf-8")
                continue
            done = slo_gate(*words[1:])
            printed = (done.stdout + done.stderr).splitlines()
            assert shows(shown, printed), f"{words} prints:\n{done.stdout}{done.stderr}"
            assert done.returncode == int(exits[1] if exits else Exit.PASS), words
            ran += 1
    assert ran >= 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_page_of_ours_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_no_machine_path_is_in_the_repository() -> None:
    pattern = re.compile(r"(?<![\w.])/(work|root|home)/")
    for path in [*PAGES, *ROOT.glob("gate/**/*.py"), *ROOT.glob("examples/*.*")]:
        assert not pattern.search(path.read_text(encoding="utf-8")), path


def test_the_demo_fits_on_a_screen_and_runs_what_the_picture_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    command = tmp_path / "slo-gate"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gate "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    done = subprocess.run(
        ["bash", ROOT / "examples" / "demo.sh", command],
        capture_output=True, encoding="utf-8", timeout=120, env=environment(),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) < 40  # and one of make, while it installs
    shown = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    assert shown == list(importlib.import_module("terminal").SESSION)
    assert [line for line in lines if line.startswith("exit code")] == ["exit code: 0", "exit code: 1"]


@pytest.mark.parametrize("build", [("good", 0), ("regressed", 1)])
def test_the_demo_shows_what_it_says(
    build: tuple[str, int], slo_gate: Process, golden: Callable[[str, str], None]
) -> None:
    name, code = build
    done = slo_gate("check", f"chat/{name}", "--policy", "chat/slo.yaml", cwd=ROOT / "examples")
    assert done.returncode == code
    golden(f"demo/{name}.txt", done.stdout)
    full = slo_gate("check", f"chat/{name}", "--policy", "chat/slo.yaml", "-v", cwd=ROOT / "examples")
    golden(f"demo/{name}.v.txt", full.stdout)
    markdown = slo_gate(
        "check", f"chat/{name}", "--policy", "chat/slo.yaml", "--format", "markdown", cwd=ROOT / "examples"
    )
    golden(f"demo/{name}.md", markdown.stdout)
