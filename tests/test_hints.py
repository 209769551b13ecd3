"""Every command that the tool prints works as printed: collected in many situations, and run.

A command is what stands in backquotes and begins with `slo-gate`, or after `next:`; an option in backquotes
is one of the command that printed it. Words in capitals are filled in.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gate.cli import COMMANDS, run
from gate.cli.explain import entries
from gate.cli.history import command as histories
from gate.cli.policy import command as policies
from tests.conftest import ROOT

GOOD = sorted((ROOT / "examples" / "chat" / "good").glob("c016_run0*"))
SLOWER = sorted((ROOT / "examples" / "chat" / "regressed").glob("c016_run0*"))
# What a capital word stands for in the folder of a situation.
FILLED = {
    "RESULTS": "results", "FILES": "old", "FILE": "report.json", "BASELINE": "old", "NAME": "vllm", "N": "16",
    "VERSION": "1", "OLD": "old.yaml", "NEW": "slo.yaml", "COMMAND": "true", "RULE": "evidence.runs",
    "YOURS": "latency", "SHA": "0123456",
}  # fmt: skip
SITUATIONS = [
    "", "policy", "chek", "policy sho", "check", "check results", "check results --preset cht",
    "check results --preset chat", "check results --preset chat --profile relase",
    "check results -p none.yaml", "check results --preset chat --baseline old",
    "check results --max-growth 10%", "check results --nope",
    "check results --baseline old --max-growth 10%", "check outage --preset chat",
    "check missing --preset chat", "check short.csv --preset chat",
    "check short.csv --preset chat --profile release", "check near.csv --preset chat",
    "check odd.txt --preset chat", "check results --preset chat --set modl=x",
    "check status.csv --preset chat", "check results --preset chat --map zz=b",
    "check results -p several.yaml", "check results -p broken.yaml", "check results -p empty.yaml",
    "check results --preset chat --fail-on", "check results --tool vlm --preset chat", "init",
    "init --for chat", "init --for chat --concurrency 8 -o other.yaml", "init --from results",
    "init --from short.csv", "init --for chat -o several.yaml", "init --from near.csv",
    "recipe --preset chat --for vllm", "recipe --for vllm", "recipe -p load.yaml --for vllm -o results",
    "plan", "plan --preset chat", "plan results --preset chat", "inspect", "inspect results",
    "inspect odd.txt", "tools vlm", "tools generic", "explain", "explain undecidd", "explain zz",
    "policy presets", "policy show", "policy validate broken.yaml", "policy diff old.yaml several.yaml",
    "whatif", "whatif results --preset chat", "compare old results", "compare old", "run",
    "run --preset chat", "synth results --format vllm", "schema", "comment --report none.json",
    "completion", "check mixed --preset chat", "check results --preset chat --baseline short.csv",
    "check results --preset chat --ignore results", "check results --preset chat --json results/x.slo.json",
    "inspect missing", "inspect mixed", "compare missing results", "compare short.csv results",
    "plan missing --preset chat", "plan results -p none.yaml", "whatif missing --preset chat",
    "whatif results -p none.yaml", "whatif results --preset chat --tpot 3", "recipe -p none.yaml --for vllm",
    "recipe --preset chat --for vlm", "policy show -p none.yaml", "policy show --preset cht",
    "policy show -p several.yaml --profile c", "policy validate none.yaml", "policy diff none.yaml old.yaml",
    "policy diff old.yaml", "policy presets x", "init --from missing", "init --for caht", "tools vllm",
    "comment --report report.json", "comment --report report.json --page x", "schema polcy", "schema report",
    "run -p none.yaml -- true", "run -p load.yaml", "synth odd.txt --format vllm", "synth s --format vlm",
    "export", "export results", "export results -o x.txt", "export results -o x.csv",
    "export missing -o x.csv",
    "completion bsh", "completion bash", "explain evidence", "check outage --preset chat --profile nightly",
    "check results --preset chat -v", "check outage --preset chat --format github",
]  # fmt: skip
SITUATIONS += [
    "history", "history list", "history list --store st", "history list --store file.txt", "history sho",
    "history add report.json --store st", "history add none.json --store st",
    "history add report.json --store st --commit zz --branch main", "history show zz --store st",
    "history show ab --store kept", "history accept zz --store kept", "history prune --store kept",
    "history export --store kept", "history export --format csv --store kept -o none/x.csv",
    "history list --store git:-x", "history list --store zz://b", "check results --preset chat --history st",
    "check results --preset chat --last 3", "check results --preset chat --history st --baseline old",
    "check results --preset chat --history file.txt", "check results --preset chat --history st --no-history",
    "history export --format parquet --store kept", "schema history", "trend", "trend st", "trend kept",
    "history noise --store kept", "init --for chat --from-history st", "trend kept --branch none",
    "trend kept --html -",
    "trend file.txt", "trend kept --format txt",
]  # fmt: skip
NAMES = [*COMMANDS, *(f"policy {name}" for name in ("diff", "presets", "show", "validate"))]
NAMES += [f"history {name}" for name in histories.commands]
# A slip of the finger in each command, and an option that none has.
SITUATIONS += [slip for name in NAMES for slip in (f"{name} --nope", f"{name}s", f"{name} --hlep")]
# A policy that means nothing, in each way that a hand errs.
MEANS_NOTHING = (
    "version: 2", "slo: {ttft: {p99: 1s}}", "version: 1\nslo: {ttf: {p99: 1s}}",
    "version: 1\nslo: {ttft: {p99: 1}}",
    "version: 1\nslo: {ttft: {p99: -1s}}", "version: 1\nslo: {ttft: {p0: 1s}}", "version: 1\ngoodput: 99%",
    "version: 1\ngoodput: {min: 99%}", "version: 1\nslo: {throughput: {min: 3 tok/s}}", "version: 1\nslo: [",
    "version: 1\nslo: {ttft: {p99: 1s}}\nslo: {tpot: {p99: 1s}}",
    "version: 1\nslo: {ttft: {p99: 1s}}\nundecided: no",
    "version: 1\nslo: {ttft: {p99: 1s}}\nevidence: {warmup: some}", "version: 1\nslo: {ttft: {mean: 1s}}",
    "version: 1\nslo: {ttft: {p99: 1s}}\ndefault_profile: pr", "version: 1\nregression: {ttft: {p99: 1s}}",
    "version: 1\nslo: {ttft: {p99: 1s}}\nwaivers: [{objective: ttft.p99}]", "- 1", "version: 1",
)  # fmt: skip
SITUATIONS += [f"{name} policy{n}.yaml" for n in range(len(MEANS_NOTHING)) for name in ("check results -p",)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with results of every kind, in which the program runs."""
    for name, paths in (("results", SLOWER[:3]), ("old", GOOD[:3])):
        (tmp_path / name).mkdir()
        for path in paths:
            shutil.copy(path, tmp_path / name)
    head = "start_s,ttft_s,e2e_s,output_tokens,concurrency,error"
    for name, failed in (("short.csv", 0), ("outage", 150)):
        rows = [f"{n},0.1{n % 9},1.{n % 7},{50 + n % 5},4,{'HTTP 500' * (n < failed)}" for n in range(150)]
        (tmp_path / name).write_text("\n".join((head, *rows)) + "\n")
    (tmp_path / "near.csv").write_text("start,ttft_ms,latency\n0,1.5,3.5\n1,1.7,3.2\n")
    (tmp_path / "status.csv").write_text("ttft_s,e2e_s,status\n0.1,1,ok\n0.1,1,bad\n")
    (tmp_path / "odd.txt").write_text("nothing of a benchmark\n")
    policy = "version: 1\nslo: {ttft: {p99: 1s}}\n"
    several = policy + "profiles: {a: {undecided: lean}, b: {undecided: allow}}\n"
    files = {"several": several, "broken": "version: 1\nslo: {undecided: lean}\nmin: 3\n", "empty": ""}
    files |= {"old": policy, "load": policy + "workload: {load: {concurrency: 16}}\n"}
    files |= {f"policy{n}": text for n, text in enumerate(MEANS_NOTHING)}
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    (tmp_path / "mixed").mkdir()
    for number in range(40):  # of two tools, some broken, some none
        text = ("{", "hello\n", "[]", f"{head}\n0,0.1{number},1.1,50,4,\n")[number % 4]
        (tmp_path / "mixed" / f"{number}.{('json', 'txt', 'json', 'csv')[number % 4]}").write_text(text)
    (tmp_path / "file.txt").write_text("no store\n")
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "tests" / "golden" / "emit" / "fail.json", "report.json")
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "GITHUB_TOKEN", "GITLAB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def commands(text: str, said_by: list[str]) -> Iterator[list[str]]:
    """The command lines in what was printed; the wrapping of a narrow terminal is undone."""
    flat = re.sub(r"\s*\n\s+", " ", text)
    for quoted in re.findall(r"`([^`\n]+)`", flat):
        words = shlex.split(quoted)
        if words[0] == "slo-gate":
            yield words[1:]
        elif words[0].startswith("--") and said_by:
            yield [*without(said_by, words[0]), *words]
    for line in re.findall(r"^next: slo-gate (.*)$", text, re.MULTILINE):
        yield shlex.split(line)


def without(words: list[str], option: str) -> list[str]:
    """The command line without what the hint replaces: the option itself, with its value."""
    if option in words:
        at = words.index(option)
        return words[:at] + words[at + 2 :]
    return words


def filled(words: list[str]) -> list[str]:
    found = [FILLED.get(word, word) for word in words]
    return [re.sub(r"(?<==)[A-Z]+\b", lambda name: FILLED.get(name[0], name[0]), word) for word in found]


def works(words: list[str]) -> bool:
    """Whether a command line does what it is printed for; a benchmark is not started, only its line read."""
    if not words or words[0] == "run":
        return run([*words, "--help"]) == 0
    if "..." in words:
        return True
    if words[0] == "comment":
        return run([*words, "--help"]) == 0
    return run(words) in (0, 1, 4)


def context() -> None:
    """A policy, which the next command of a hint may take for granted."""
    shutil.copy("load.yaml", "slo.yaml")


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_is_printed_as_a_command_works(
    situation: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(situation)
    run(words)
    said = capsys.readouterr()
    for found in commands(said.out + "\n" + said.err, words):
        line = filled(found)
        before = {path.name for path in folder.iterdir()}
        good = works(line)
        if not good and "no policy found" in capsys.readouterr().err:
            context()
            good = works(line)
        assert good, f"`slo-gate {shlex.join(line)}`, as `{situation}` says:\n{capsys.readouterr().err}"
        for name in {path.name for path in folder.iterdir()} - before:  # the next one starts as this one did
            made = folder / name
            shutil.rmtree(made) if made.is_dir() else made.unlink()


def test_what_explain_says_as_a_command_works(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--from", "results"]) == 0
    texts = [text for words in entries().values() for said in words.values() for text in said]
    found = {tuple(filled(one)) for text in texts for one in commands(text, [])}
    assert len(found) > 8
    for line in sorted(found):
        assert works(list(line)), f"`slo-gate {shlex.join(line)}`: {capsys.readouterr().err}"


def test_every_command_is_tried_in_some_situation() -> None:
    assert {situation.partition(" ")[0] for situation in SITUATIONS} >= set(COMMANDS)
    for group, commands_of in (("policy", policies), ("history", histories)):
        sub = {situation.split()[1] for situation in SITUATIONS if situation.startswith(f"{group} ")}
        assert sub >= set(commands_of.commands)


def test_no_hint_names_a_page_that_pip_does_not_install(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for situation in SITUATIONS:
        run(shlex.split(situation))
    said = capsys.readouterr()
    assert not re.search(r"(?<![\w/])docs/\w", re.sub(r"https?://\S+", "", said.out + said.err))
