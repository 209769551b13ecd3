"""The Action's inputs into one `slo-gate check`, then its summary, comment and outputs.

Only what a command line cannot do is here: inputs are text of several lines, outputs are files. The
exit code is that of `check`; nothing after it changes it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# Those of the YAML 1.2 core schema, as in actions/toolkit; any other word is an error.
BOOLEANS = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
    "": False,
}
TEXTS = ("policy", "preset", "profile", "tool", "fail-on", "junit-dialect", "history", "base-branch")
LINES = ("set", "map", "ignore", "baseline")
SWITCHES = ("report-only", "same-session")
FILES = {
    "report-json": "json",
    "junit": "junit",
    "markdown": "markdown",
    "html": "html",
    "sarif": "sarif",
}  # input -> option
COMMENT_MODES = ("on-change", "always", "never")
HISTORY_MODES = ("never", "auto")
SLO_GATE = (sys.executable, "-I", "-m", "gate")
ARTIFACT = {
    "report-json": "report.json",
    "junit": "junit.xml",
    "markdown": "report.md",
    "html": "report.html",
    "sarif": "report.sarif",
}  # input -> its name in the artifact
NO_REPORT = {"verdict": "error"}
USAGE, BUG = 2, 70
VERDICTS = (0, 1, 4, 5)  # exit codes of a report that holds a session
LINK = re.compile(r"https?://[\w.:/%?=&#~+\-]+")  # as `slo-gate comment --page` takes it
COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


class InputError(Exception):
    """An input that means nothing: what, and what would."""


def given(name: str) -> str:
    """An input as text, without white space around it."""
    return os.environ.get("SLO_GATE_" + name.upper().replace("-", "_"), "").strip()


def lines(name: str) -> Iterator[str]:
    """The lines of an input that hold anything."""
    return (line.strip() for line in given(name).splitlines() if line.strip())


def inert(text: str) -> str:
    """`text` on one line, with nothing in it that a runner or a terminal obeys."""
    line = " ".join(text.split())
    return re.sub("#(?=#)", "# ", "".join(char if char.isprintable() else "?" for char in line))


def shown(text: str) -> str:
    """`text` quoted, with its line ends as escapes."""
    return inert(json.dumps(text))


def switch(name: str) -> bool:
    """A Boolean input. Raises InputError for a word that is neither."""
    if given(name) not in BOOLEANS:
        raise InputError(f"{name} is {shown(given(name))}; write true or false")
    return BOOLEANS[given(name)]


def one_of(name: str, words: tuple[str, ...]) -> str:
    """An input out of a few words; the first where it is empty. Raises InputError."""
    word = given(name) or words[0]
    if word not in words:
        raise InputError(f"{name} is {shown(word)}; write {', '.join(words)}")
    return word


def arguments(files: Mapping[str, str], source: str) -> list[str]:
    """What `check` is called with; = keeps a value that begins with a dash a value."""
    words = ["check", "--format=github", f"--policy-from={source}"]
    words += [f"--{name}={given(name)}" for name in TEXTS if given(name)]
    words += [f"--{name}={line}" for name in LINES for line in lines(name)]
    words += [f"--{name}" for name in SWITCHES if switch(name)]
    words += [f"--{FILES[name]}={path}" for name, path in files.items()]
    words += ["--debug"] if os.environ.get("RUNNER_DEBUG") == "1" else []
    return [*words, "--", *lines("results")]


def policy_source() -> str:
    """Where the policy is taken from: head, base or a commit. Raises InputError."""
    source = given("policy-from") or "head"
    if source not in ("head", "base") and not COMMIT.fullmatch(source):
        raise InputError(f"policy-from is {shown(source)}; write head, base or the full SHA of a commit")
    return source


def tell_what_is_looser(source: str) -> None:
    """Of the policy of this change, against the one that judged it."""
    policy = given("policy")
    words = ("policy", "diff", "--fail-on-looser", f"--old-from={source}", "--", policy, policy)
    if subprocess.run([*SLO_GATE, *words], stdin=subprocess.DEVNULL, check=False).returncode:
        print(
            "::warning title=slo-gate: the policy gets looser::This change loosens the policy, or breaks it; "
            "the log says how. The policy of its base was applied."
        )


def prepare(files: Mapping[str, str]) -> None:
    """Folders for the reports; action.sh has removed those of an earlier run. Raises InputError."""
    for path in map(Path, files.values()):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = f"there is no room for a report at {shown(str(path))}: {error.strerror or error}"
            raise InputError(f"{why}; name another file") from None


def stamp(path: str) -> tuple[int, ...] | None:
    """What another writing changes of a file; None where there is none, or no name that a file can have."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def tell(report: str, mode: str, token: str) -> dict[str, str]:
    """Step summary, comment and check run; their addresses, where there are any."""
    words = ["comment", f"--report={report}", "--step-summary", f"--mode={mode}", f"--job={this_job()}"]
    words += [f"--key={given('comment-key')}", f"--pr={given('pr-number') or 'auto'}"]
    if (join := given("comment-join")) not in ("", "false"):
        words.append("--join" if join == "true" else f"--join={join}")
    words += [f"--page={page}"] if (page := page_url()) else []
    words += [f"--trend={given('trend-url')}"] if given("trend-url") else []
    words += ["--check-run"] if BOOLEANS.get(given("check-run")) else []
    known = {**os.environ, "GITHUB_TOKEN": token}
    try:
        done = subprocess.run(
            [*SLO_GATE, *words],
            env=known,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=600,
            check=False,
        )
    except subprocess.SubprocessError as error:
        print(
            f"warning: no comment was written: {type(error).__name__}. The verdict stands.", file=sys.stderr
        )
        return {}
    print(done.stdout, end="", flush=True)
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    urls = [said[word] for word in ("created", "updated", "unchanged") if word in said]
    return {"comment-url": urls[0] if urls else "", "check-run-url": said.get("check-run", "")}


def history_mode() -> str:
    """Whether a session is added to the history. Raises InputError."""
    mode = one_of("history-write", HISTORY_MODES)
    if mode == "auto" and not given("history"):
        raise InputError("history-write is auto, and history names no store; write it like git:slo-history")
    return mode


def remember(report: str) -> None:
    """Add the session where the event allows it; what goes wrong is a warning."""
    words = ("history", "add", "--auto", f"--store={given('history')}", "--", report)
    try:
        code = subprocess.run(
            [*SLO_GATE, *words], stdin=subprocess.DEVNULL, timeout=600, check=False
        ).returncode
    except subprocess.SubprocessError as error:
        print(f"error: {type(error).__name__}", file=sys.stderr)
        code = BUG
    if code:
        print(
            "::warning title=slo-gate: this session is not remembered::The history could not be written; "
            "the log says why. The verdict stands."
        )


def page_url() -> str:
    """Where the report page is: as given, else the artifacts of this run, which a later step uploads."""
    if given("page-url") or not BOOLEANS.get(given("upload-artifact")):
        return given("page-url")
    server, repository, run = (
        os.environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")
    )
    return f"{server}/{repository}/actions/runs/{run}#artifacts" if server and repository and run else ""


def this_job() -> str:
    """Workflow, job, step and place in the matrix on one line; the last only where there is a matrix."""
    *names, matrix = given("job").split(" / ", 3)
    try:
        values = json.loads(matrix)
    except ValueError:
        return " ".join(given("job").split())
    leg = json.dumps(values, sort_keys=True) if values else ""
    return " ".join(" / ".join(part for part in (*names, leg) if part).split())


def comment_mode() -> str:
    """When to comment: never where no pull request is meant. Raises InputError."""
    mode, number = one_of("comment", COMMENT_MODES), given("pr-number")
    if number and not re.fullmatch("[1-9][0-9]{0,17}", number):
        raise InputError(f"pr-number is {shown(number)}; write a number, or leave it out")
    for name in ("check-run", "upload-artifact"):
        switch(name)
    for name in ("page-url", "trend-url"):
        if given(name) and not LINK.fullmatch(given(name)):
            raise InputError(f"{name} is {shown(given(name))}; write an address that begins with https://")
    event = os.environ.get("GITHUB_EVENT_NAME", "")
    return mode if number or event.startswith(("pull_request", "workflow_run")) else "never"


def read(path: str) -> dict[str, Any]:
    """The report; an error where none was written."""
    try:
        report = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return NO_REPORT
    return report if isinstance(report, dict) else NO_REPORT


def artifact(written: Mapping[str, str]) -> dict[str, str]:
    """Name and folder of the artifact: copies, so that what is uploaded is what was written."""
    if not BOOLEANS.get(given("upload-artifact")) or not written:
        return {}
    folder = Path(given("use"))
    (folder / "artifact").mkdir()
    for name, path in written.items():
        shutil.copyfile(path, folder / "artifact" / ARTIFACT[name])
    whose = "\n".join([this_job(), *map(given, ("comment-key", "policy", "preset", "profile"))])
    label = given("comment-key") or given("policy") or given("preset")
    words = ["slo-gate", os.environ.get("GITHUB_JOB", ""), label]
    words += [hashlib.sha256(whose.encode()).hexdigest()[:8], folder.name.removeprefix("use-")]
    parts = (re.sub("[^A-Za-z0-9._]+", "-", word)[-60:].strip("-.") for word in words)
    return {"artifact-name": "-".join(filter(None, parts)), "artifact-path": str(folder / "artifact")}


def outputs(
    report: Mapping[str, Any], code: int, written: Mapping[str, str], urls: Mapping[str, str]
) -> dict[str, str]:
    """The step's outputs; files only where they were written, from the workspace."""
    folder = Path(given("working-directory"))
    fraction = (report.get("goodput") or {}).get("fraction")
    failed = [o["id"] for o in report.get("objectives", ()) if o["verdict"] == "fail" and o["blocks"]]
    return {
        "verdict": report["verdict"],
        "exit-code": str(code),
        "goodput": "" if fraction is None else str(fraction),
        "failed-objectives": json.dumps(failed),
        "comment-url": "",
        "check-run-url": "",
        **urls,
        **{name: str(folder / written[name]) if name in written else "" for name in FILES},
    }


def append(variable: str, text: str) -> None:
    """To a file the runner reads, where there is a runner; what cannot be written changes no exit code."""
    if path := os.environ.get(variable):
        try:
            with Path(path).open("a", encoding="utf-8", newline="") as file:
                file.write(text)
        except OSError as error:
            print(f"warning: {variable} cannot be written: {inert(str(error))}", file=sys.stderr)


def judge(files: Mapping[str, str], source: str) -> int:
    """The exit code of `check`; a signal that ended it is one too."""
    code = subprocess.run([*SLO_GATE, *arguments(files, source)], check=False).returncode
    if code >= 0:
        return code
    print(f"error: slo-gate was ended by signal {-code}, as for a lack of memory", file=sys.stderr)
    print("::error title=slo-gate::Nothing was judged; the log says why.")
    return BUG


def main() -> int:
    """Check, tell, and exit as `check` did."""
    files = {name: given(name) for name in FILES if given(name)}
    files.setdefault("report-json", "slo-gate-report/report.json")
    token = os.environ.pop("SLO_GATE_TOKEN", "")  # for the comment alone
    os.environ.setdefault("COLUMNS", "120")  # the log of a runner is no terminal
    before = {path: stamp(path) for path in files.values()}  # of what action.sh has left: it is read
    report, urls = files["report-json"], {}
    try:
        prepare(files)
        mode, remembers = comment_mode(), history_mode() == "auto"
        source = policy_source()
        code = judge(files, source)
        if source != "head" and code != USAGE:  # there was a policy to judge by
            tell_what_is_looser(source)
    except (InputError, OSError) as error:
        print(f"error: {inert(str(error))}", file=sys.stderr)
        print("::error title=slo-gate::Nothing was judged; the log says why.")
        code = USAGE
        mode, remembers = "never", False
    written = {name: path for name, path in files.items() if stamp(path) not in (None, before[path])}
    if "report-json" in written:
        urls = tell(report, mode, token)
        if remembers and code in VERDICTS:
            remember(report)
    else:
        append("GITHUB_STEP_SUMMARY", f"### ERROR (exit {code}, no verdict): the log of this step says why\n")
    found = outputs(read(report) if "report-json" in written else NO_REPORT, code, written, urls)
    try:
        found |= artifact(written)
    except OSError as error:
        print(f"warning: no artifact is made: {inert(str(error))}. The verdict stands.", file=sys.stderr)
    append("GITHUB_OUTPUT", "".join(f"{name}={' '.join(value.split())}\n" for name, value in found.items()))
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:
        traceback.print_exc()  # an exit code of 1 would be a verdict
        append(
            "GITHUB_STEP_SUMMARY", f"### ERROR (exit {BUG}): a bug of slo-gate; the log of this step has it\n"
        )
        append("GITHUB_OUTPUT", f"verdict=error\nexit-code={BUG}\n")
        sys.exit(BUG)
