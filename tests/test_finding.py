"""A folder or a glob loses nothing: what is left out is said, what is unreadable refused. Real processes."""

from __future__ import annotations

import glob
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gate import policy, readers
from gate.errors import InputError, UsageError
from gate.policy.diff import diff
from tests.conftest import ROOT, Process

POLICY = "version: 1\nname: p\ngoodput: {min: 95%, request: {ttft: 800ms}}\nevidence: {decide: point}\n"


def rows(ttft_s: float) -> str:
    row = {"model": "m", "concurrency": 8, "e2e_s": 1.0, "output_tokens": 50, "input_tokens": 60}
    times = ({"start_s": n * 0.05, "ttft_s": ttft_s + n / 1e4} for n in range(400))
    return "".join(json.dumps({**row, **time}) + "\n" for time in times)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for number, folder in enumerate(("r", "base"), 1):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.jsonl").write_text(rows(number / 10))
    (tmp_path / "p.yaml").write_text(POLICY)
    return tmp_path


READING = {
    "check": ["check", "r", "-p", "p.yaml"],
    "check a glob": ["check", "r/*", "-p", "p.yaml"],
    "a baseline": ["check", "base", "--baseline", "r", "-p", "p.yaml"],
    "inspect": ["inspect", "r"],
    "plan": ["plan", "r", "-p", "p.yaml"],
    "whatif": ["whatif", "r", "-p", "p.yaml"],
    "compare": ["compare", "base", "r"],
    "compare with it": ["compare", "r", "base"],
    "init": ["init", "--for", "chat", "--from", "r", "-o", "-"],
}


@pytest.mark.parametrize("name", READING)
def test_a_stray_file_is_refused_and_the_hint_leaves_it_out(
    name: str, place: Path, slo_gate: Process
) -> None:
    (place / "r/its [meta] 'data'.json").write_text('{"something": "else"}')
    refused = slo_gate(*READING[name])
    assert refused.returncode == 3
    hint = re.search(
        r"pass the results instead of the folder, or leave it out with (--ignore .*)", refused.stderr
    )
    assert hint is not None
    done = slo_gate(*READING[name], *shlex.split(hint[1]))
    assert done.returncode == 0, done.stderr


def test_what_is_left_out_is_in_every_report(place: Path, slo_gate: Process) -> None:
    for name in ("meta-1.json", "meta-2.json"):
        (place / "r" / name).write_text("{}")
    words = ["--ignore", "meta-*.json", "--ignore", "nothing.json"]
    outputs = ["--json", "o.json", "--markdown", "o.md", "--html", "o.html"]
    done = slo_gate("check", "r", "-p", "p.yaml", "-v", *words, *outputs)
    assert done.returncode == 0
    said = ["ignored by meta-*.json: 2 files, r/meta-1.json, r/meta-2.json"]
    said += ["ignored by nothing.json: nothing, no result has such a name"]
    report = json.loads((place / "o.json").read_text())
    assert set(said) <= set(report["notes"])
    text = " ".join(done.stdout.split())
    assert all(note in text for note in said)
    for page in ("o.md", "o.html"):
        words_of = (place / page).read_text().replace("\\", "").replace("&#42;", "*")
        assert "2 files, r/meta-1.json" in words_of, page
    again = shlex.split(report["provenance"]["reproduce"])
    assert again[1:] == ["check", "r", "--policy", "p.yaml", *words]


def test_a_policy_leaves_out_as_the_option_does_and_a_new_pattern_is_looser() -> None:
    texts = [POLICY, POLICY.replace("decide: point", "decide: point, ignore: ['meta*.json', logs]")]
    old, new = (policy.versions(text.encode(), "p.yaml") for text in texts)
    rules = new[None].evidence
    assert rules.ignore == ("meta*.json", "logs")
    assert [(one.effect, one.id) for one in diff(old, new)] == [("looser", "evidence.ignore")] * 2
    assert [(one.effect, one.id) for one in diff(new, old)] == [("stricter", "evidence.ignore")] * 2


@pytest.mark.parametrize("command", ["check", "plan", "whatif"])
def test_a_policy_leaves_files_out(command: str, place: Path, slo_gate: Process) -> None:
    (place / "r/meta.json").write_text("{}")
    (place / "p.yaml").write_text(POLICY.replace("point", "point, ignore: [meta.json]"))
    done = slo_gate(command, "r", "-p", "p.yaml")
    assert done.returncode == 0, done.stderr


def test_run_leaves_out_what_the_command_writes_besides(place: Path, slo_gate: Process) -> None:
    script = "import pathlib, sys; d = pathlib.Path(sys.argv[1]); (d / 'meta.json').write_text('{}');"
    script += "(d / 'a.jsonl').write_text(pathlib.Path('r/a.jsonl').read_text().replace('0.05', sys.argv[2]))"
    words = ["run", "-p", "p.yaml", "--runs", "1", "--max-failures", "1"]
    command = ["--", sys.executable, "-c", script, "{dir}", "{seed}"]
    assert slo_gate(*words, "--dir", "one", *command).returncode == 3
    done = slo_gate(*words, "-v", "--dir", "two", "--ignore", "meta.json", *command)
    assert done.returncode == 0, done.stderr
    assert "ignored by meta.json: 1 file, meta.json" in " ".join(done.stdout.split())
    assert slo_gate("run", "-p", "p.yaml", "--again", "--dir", "two").returncode == 0


PATTERNS = {
    "b.json": {"r/a.json", "r/x/a.json", "r/x/y/c.json"},
    "?.json": set(),
    "x": {"r/a.json", "r/b.json"},
    "x/*.json": {"r/a.json", "r/b.json", "r/x/y/c.json"},
    "r/x/y": {"r/a.json", "r/b.json", "r/x/a.json", "r/x/b.json"},
    "./r/b.json": {"r/a.json", "r/x/a.json", "r/x/b.json", "r/x/y/c.json"},
    "r": {"r/a.json", "r/b.json", "r/x/a.json", "r/x/b.json", "r/x/y/c.json"},
}


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", ["r", "r/**", "all"])
def test_a_pattern_is_about_the_end_of_a_path_below_what_is_named(
    name: str, pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    every = {"r/a.json", "r/b.json", "r/x/a.json", "r/x/b.json", "r/x/y/c.json"}
    for path in every:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("{}")
    names = sorted(every) if name == "all" else [name]
    left = PATTERNS[pattern]
    if name == "all" and pattern in ("x", "r/x/y"):
        left = every  # a file that is named itself is left out by its own name
    if not left:
        with pytest.raises(InputError, match=r"besides what is ignored|left out|no file matches"):
            readers.files.find(names, ignore=[pattern])
        return
    sources, notes = readers.files.find(names, ignore=[pattern])
    assert {source.name for source in sources} == left
    assert any("ignored by" in note for note in notes)


@pytest.mark.parametrize("pattern", ["", ".", "/"])
def test_a_pattern_that_is_none_is_refused(pattern: str, place: Path) -> None:
    with pytest.raises(UsageError, match="no pattern of file names"):
        readers.files.find([str(place / "r")], ignore=[pattern])


def test_companions_and_sidecars_are_read_though_they_are_ignored(place: Path) -> None:
    """Less is never greener: what a tool says against its own run is not left out."""
    (place / "r/a.jsonl.slo.json").write_text('{"hardware": "8xH100"}')
    reading = readers.read([str(place / "r")], ignore=["*.slo.json"])
    assert reading.runs[0].hardware == "8xH100"


# ---- what cannot be read ---------------------------------------------------------------------

NAMED = {
    "a result": (["check", "pipe", "-p", "p.yaml"], 3),
    "in a folder": (["check", "f", "-p", "p.yaml"], 3),
    "in a glob": (["check", "f/*", "-p", "p.yaml"], 3),
    "a baseline": (["check", "r", "--baseline", "pipe", "-p", "p.yaml"], 3),
    "a policy": (["check", "r", "-p", "pipe"], 2),
    "a policy that is found": (["plan"], 2),
    "a policy to validate": (["policy", "validate", "pipe"], 2),
    "a saved report": (["comment", "--report", "pipe"], 3),
    "a data set": (["run", "-p", "p.yaml", "--dataset", "pipe", "--", "true", "{out}"], 2),
    "a sidecar": (["check", "s/a.jsonl", "-p", "p.yaml"], 3),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes as files")
@pytest.mark.parametrize("name", NAMED)
def test_a_named_pipe_is_refused_without_waiting(name: str, place: Path, slo_gate: Process) -> None:
    words, code = NAMED[name]
    shutil.copytree(place / "r", place / "s")
    (place / "f").mkdir()
    for path in ("pipe", "f/x.jsonl", "slo.yaml", "s/a.jsonl.slo.json"):
        os.mkfifo(place / path)
    done = slo_gate(*words)  # waits 120 s at most
    assert done.returncode == code, done.stderr
    assert "a named pipe, not a file" in done.stderr


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a device that never ends")
@pytest.mark.parametrize(
    "words", [["/dev/zero", "-p", "p.yaml"], ["r", "-p", "/dev/zero"]], ids=["result", "policy"]
)
def test_a_device_is_refused_at_once(words: list[str], place: Path, slo_gate: Process) -> None:
    done = slo_gate("check", *words)
    assert "it is a device, not a file" in done.stderr


@pytest.mark.skipif(
    shutil.which("bash") is None or not Path("/dev/fd").exists(), reason="needs bash and /dev/fd"
)
@pytest.mark.parametrize(
    "words",
    [
        "check <(cat r/a.jsonl) -p p.yaml",
        "check r -p <(cat p.yaml)",
        "check /dev/stdin -p p.yaml < r/a.jsonl",
    ],
)
def test_what_a_shell_hands_over_as_a_descriptor_is_read(words: str, place: Path) -> None:
    line = f"{shlex.quote(sys.executable)} -m gate {words}"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", line], cwd=place, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def as_nobody(words: list[str], place: Path) -> subprocess.CompletedProcess[str]:
    """The command as somebody whom permissions hold: as root, setpriv makes one."""
    drop: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("nothing stops root, and setpriv is missing")
        drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        for folder in (place, *list(place.parents)[:2]):
            folder.chmod(0o755)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [*drop, sys.executable, "-m", "gate", *words], cwd=place, env=env, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    "name", ["r", "r/*/*.jsonl", "r/**/*.jsonl", "r/**", "r/*/b.jsonl", "r/closed/b.jsonl"]
)
@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_a_folder_that_cannot_be_looked_into_is_refused(name: str, mode: int, place: Path) -> None:
    (place / "r/open").mkdir()
    (place / "r/closed").mkdir()
    for folder in ("open", "closed"):
        (place / "r" / folder / "b.jsonl").write_text(rows(0.3))
    (place / "r/closed").chmod(mode)
    try:
        done = as_nobody(["inspect", name], place)
        left_out = as_nobody(["inspect", name, "--ignore", "closed"], place)
    finally:
        (place / "r/closed").chmod(0o755)
    if "No module named" in done.stderr or "Permission denied: '/" in done.stderr:
        pytest.skip("the environment is not readable by others")
    assert done.returncode == 3, done.stderr
    assert "r/closed" in done.stderr
    if name != "r/closed/b.jsonl":
        assert left_out.returncode == 0, left_out.stderr


@pytest.mark.parametrize(
    "pattern", ["r/*", "r/*.json", "r/**/*.json", "*/x/*", "r/[ab].json", "**/a.json", "r/.*"]
)
def test_a_glob_finds_what_the_standard_library_finds(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (
        "r/a.json",
        "r/.hidden.json",
        "r/x/a.json",
        "r/.dot/a.json",
        "r/x/y/b.json",
        "c.json",
        "a.json",
    ):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("{}")
    wanted: set[str] = set()
    for found in glob.glob(pattern, recursive=True):  # noqa: PTH207 the rule of shells
        inside = Path(found).rglob("*") if Path(found).is_dir() else [Path(found)]
        wanted |= {str(path) for path in inside if path.is_file()}
    assert {source.name for source in readers.files.find([pattern])[0]} == wanted


def test_circles_of_links_end(place: Path) -> None:
    for name in ("one", "two"):
        (place / "r" / name).symlink_to("..", target_is_directory=True)
    found = [str(place / name) for name in ("r/a.jsonl", "base/a.jsonl")]
    for name, more in (("r", [str(place / "p.yaml")]), ("r/**/*.jsonl", [])):
        sources, _ = readers.files.find([str(place / name)])
        assert sorted(os.path.realpath(source.name) for source in sources) == sorted([*found, *more])


def test_a_link_to_nothing_may_have_been_a_folder_of_results(place: Path) -> None:
    (place / "r/run-2").symlink_to("gone")
    with pytest.raises(InputError, match="is a link to gone, which is not there, not a file"):
        readers.files.find([str(place / "r")])
    assert len(readers.files.find([str(place / "r")], ignore=["run-2"])[0]) == 1


# ---- names and sizes -------------------------------------------------------------------------

EMPTY = [
    ["check", ""],
    ["check", "r", "--baseline", ""],
    ["check", "r", "-p", ""],
    ["check", "r", "--json", ""],
    ["check", "r", "--ignore", ""],
    ["compare", "", "r"],
    ["inspect", ""],
    ["policy", "validate", ""],
    ["run", "--dir", "", "--", "true"],
    ["synth", ""],
]


@pytest.mark.parametrize("words", EMPTY, ids=" ".join)
def test_an_empty_name_is_refused(words: list[str], place: Path, slo_gate: Process) -> None:
    done = slo_gate(*words, *(["--junit", "o.xml"] if words[0] == "check" else []))
    assert done.returncode == 2
    assert "the name is empty" in done.stderr
    if words[0] == "check":
        assert "the name is empty" in (place / "o.xml").read_text()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a limit of memory that holds")
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_does_not_fit_into_memory_is_an_input_error(packed: bool, place: Path) -> None:
    import gzip

    name = "big.jsonl.gz" if packed else "big.jsonl"
    line = (json.dumps({"ttft_s": 0.1, "e2e_s": 1, "output_tokens": 5, "prompt": "x" * 200}) + "\n").encode()
    with (gzip.open if packed else open)(place / name, "wb") as file:  # type: ignore[operator]
        for _ in range(1000):
            file.write(line * 1000)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (420 << 20, 420 << 20))

    environment: dict[str, Any] = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "gate", "check", name, "-p", "p.yaml", "--json", "o.json"],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        preexec_fn=limit,
    )
    assert done.returncode == 3, done.stderr
    assert "the memory that this process may use" in done.stderr or "Cannot allocate memory" in done.stderr
    assert json.loads((place / "o.json").read_text())["exit_code"] == 3
