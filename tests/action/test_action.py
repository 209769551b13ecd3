"""The Action as `act` runs it: real bash, real pip, real processes; only GitHub's API is a stand-in."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pytest_httpserver import HTTPServer

from tests.action.runner import UPLOAD, Ran, act, commit, repository, rows
from tests.conftest import ROOT
from tests.emit.reports import HOSTILE
from tests.publish.forges import TOKEN, FakeGitHub, reply, times

POINT = "version: 1\nname: chat\nslo:\n  ttft: {p90: 500ms}\nevidence: {decide: point}\n"
PROVE = "version: 1\nname: prove\nslo:\n  ttft: {p99: 500ms}\n"
# What a shell, a runner or a terminal would obey.
NAME = "a b;`touch pwned`$(touch pwned)'\"&|{x}\x1b[31m.jsonl"
FILES = ("report-json", "junit", "markdown")


def use(name: str, **inputs: str) -> dict[str, Any]:
    """A step that uses the Action and lets the job go on."""
    known = {"results": "results/good.jsonl", "comment-key": name}
    files = {"report-json": f"{name}/r.json", "junit": f"{name}/j.xml", "markdown": f"{name}/m.md"}
    said = {**known, **files, **{key.replace("_", "-"): value for key, value in inputs.items()}}
    return {"id": name, "name": name, "uses": "./", "continue-on-error": True, "with": said}


def upload(name: str) -> dict[str, Any]:
    """The step of docs/ci/github.md that keeps the artifact of the step `name`."""
    page = (ROOT / "docs/ci/github.md").read_text(encoding="utf-8")
    (block,) = (part for part in page.split("```yaml\n") if "artifact-name }}" in part)
    _, step = yaml.safe_load(block.split("```")[0])["steps"]
    assert step["uses"] == UPLOAD
    words = {
        key: value.replace("gate.outputs", f"{name}.outputs")
        for key, value in step["with"].items()
        if key != "retention-days"
    }
    return {
        **step,
        "id": f"keep-{name}",
        "if": step["if"].replace("gate.outputs", f"{name}.outputs"),
        "with": words,
    }


STEPS = [
    use(
        "pass",
        results="\nresults/good.jsonl\n  results/go*.jsonl  \n\n",
        ignore="old.json\n x/*.log ",
        upload_artifact="true",
    ),
    use("fail", results="results/bad.jsonl", set="model=m\nhardware=8xH100", upload_artifact="true"),
    use("inconclusive", policy="prove.yaml"),
    use("broken", results="results/cut.json"),
    use("nothing", results="results/none-*.json"),
    use(
        "hostile",
        policy="pol$(touch pwned).yaml",
        results=f"results/{NAME}\n-rf.jsonl\n",
        set=f"model={HOSTILE}",
        comment_key=HOSTILE,
    ),
    use("dash", results="-rf.jsonl"),
    use("page", html="page/report.html", baseline="results/base.jsonl\n", same_session="true"),
    use("word", report_only="yes"),
    use("mode", comment="sometimes"),
    use("report", results="results/bad.jsonl", report_only="TRUE"),
    use(
        "folder",
        working_directory="services/a",
        results="bad.jsonl",
        check_run="true",
        sarif="folder/s.sarif",
        pr_number="7",
    ),
    use("elsewhere", working_directory="services/none"),
    use("number", pr_number="7; rm"),
    use("stale"),
    {**use("stale", fail_on="never"), "id": "stale2", "name": "stale2"},
    {"name": "keep", "run": 'cp -r pass fail inconclusive broken hostile page stale "$OUT/"; ls >"$OUT/ls"'},
]


def prepared(folder: Path) -> Path:
    repository(folder)
    (folder / "slo.yaml").write_text(POINT, encoding="utf-8")
    (folder / "prove.yaml").write_text(PROVE, encoding="utf-8")
    hostile = POINT.replace("chat", json.dumps(HOSTILE))
    (folder / "pol$(touch pwned).yaml").write_text(hostile, encoding="utf-8")
    (folder / "results").mkdir()
    (folder / "-rf.jsonl").write_text(rows(200, 0.1), encoding="utf-8")
    (folder / "services" / "a").mkdir(parents=True)
    (folder / "services" / "a" / "slo.yaml").write_text(POINT, encoding="utf-8")
    (folder / "services" / "a" / "bad.jsonl").write_text(rows(200, 0.9), encoding="utf-8")
    for name, text in {
        "good.jsonl": rows(200, 0.1),
        "bad.jsonl": rows(200, 0.9),
        "base.jsonl": rows(200, 0.11),
        "cut.json": '{"ttfts": [0.1, 0.2',
        NAME: rows(200, 0.8),
    }.items():
        (folder / "results" / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def server() -> Iterator[HTTPServer]:
    with HTTPServer() as running:
        yield running


@pytest.fixture(scope="module")
def github(server: HTTPServer) -> FakeGitHub:
    return FakeGitHub(server)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, github: FakeGitHub, kept: Path) -> Ran:
    """One job with every case, in an environment that is made once."""
    folder = prepared(tmp_path_factory.mktemp("action") / "repo")
    # Where the job's own steps install is nothing to the Action.
    pip = {"PIP_USER": "1", "PIP_TARGET": str(kept / "target"), "PIP_REQUIRE_VIRTUALENV": "1"}
    return act(folder, STEPS, api=github.url, OUT=str(kept), ARTIFACTS="/dev/null", **pip)


CASES = [
    ("pass", "success", "pass", "0", "[]"),
    ("fail", "failure", "fail", "1", '["ttft.p90"]'),
    ("inconclusive", "failure", "inconclusive", "4", "[]"),
    ("broken", "failure", "error", "3", "[]"),
    ("nothing", "failure", "error", "3", "[]"),
    ("hostile", "failure", "fail", "1", '["ttft.p90"]'),
    ("dash", "success", "pass", "0", "[]"),
    ("page", "success", "pass", "0", "[]"),
    ("word", "failure", "error", "2", "[]"),
    ("mode", "failure", "error", "2", "[]"),
    ("report", "success", "fail", "0", '["ttft.p90"]'),
    ("folder", "failure", "fail", "1", '["ttft.p90"]'),
    ("elsewhere", "failure", "error", "2", ""),
    ("number", "failure", "error", "2", "[]"),
    ("stale", "success", "pass", "0", "[]"),
    ("stale2", "failure", "error", "2", "[]"),
]


@pytest.mark.parametrize(("step", "outcome", "verdict", "code", "failed"), CASES)
def test_outcome_and_outputs_of_each_case(
    step: str, outcome: str, verdict: str, code: str, failed: str, ran: Ran
) -> None:
    assert ran.steps[step]["outcome"] == outcome, ran.part(step)
    out = ran.outputs(step)
    assert (out["verdict"], out["exit-code"], out.get("failed-objectives", "")) == (verdict, code, failed)


@pytest.mark.parametrize("step", ["pass", "fail", "inconclusive", "broken", "hostile"])
def test_the_report_files_are_written_and_say_the_same(step: str, ran: Ran, kept: Path) -> None:
    out = ran.outputs(step)
    assert [out[name] for name in FILES] == [f"{step}/r.json", f"{step}/j.xml", f"{step}/m.md"]
    report = json.loads((kept / step / "r.json").read_text(encoding="utf-8"))
    assert (report["verdict"], str(report["exit_code"])) == (out["verdict"], out["exit-code"])
    assert "<testsuite" in (kept / step / "j.xml").read_text(encoding="utf-8")


def test_page_and_baseline_are_there_when_asked_for(ran: Ran, kept: Path) -> None:
    assert ran.outputs("page")["html"] == "page/report.html"
    assert ran.outputs("pass")["html"] == ""
    assert "<html" in (kept / "page" / "report.html").read_text(encoding="utf-8")
    report = json.loads((kept / "page" / "r.json").read_text(encoding="utf-8"))
    assert "base.jsonl" in json.dumps(report["baseline"])


def test_a_working_directory_is_where_paths_are_and_the_policy_keeps_its_place(
    ran: Ran, github: FakeGitHub
) -> None:
    out = ran.outputs("folder")
    assert out["report-json"] == "services/a/folder/r.json"
    assert out["sarif"] == "services/a/folder/s.sarif"
    assert "::error file=services/a/slo.yaml,line=4,title=FAIL ttft.p90::" in ran.part("folder")
    (run,) = github.checks
    assert (run["conclusion"], run["output"]["annotations"][0]["path"]) == ("failure", "services/a/slo.yaml")
    assert out["check-run-url"] == "https://forge/r/1"
    assert ran.outputs("fail")["check-run-url"] == ""
    assert 'working-directory is "services/none", which is no folder' in ran.part("elsewhere")
    assert "### ERROR (exit 2, no verdict)" in ran.part("elsewhere").split("Summary - ")[1]
    assert 'pr-number is "7; rm"' in ran.part("number")


def test_what_is_to_be_ignored_reaches_the_check(ran: Ran, kept: Path) -> None:
    notes = json.loads((kept / "pass/r.json").read_text(encoding="utf-8"))["notes"]
    assert [any(glob in note for note in notes) for glob in ("old.json", "x/*.log")] == [True, True]


def test_an_artifact_has_a_name_and_a_folder_of_its_own(ran: Ran) -> None:
    first, second = (ran.outputs(name) for name in ("pass", "fail"))
    assert first["artifact-name"].startswith("slo-gate-gate-pass-")
    assert second["artifact-name"].startswith("slo-gate-gate-fail-")
    assert first["artifact-path"] != second["artifact-path"] != ""


def test_pip_s_settings_of_the_job_are_not_the_action_s(ran: Ran, kept: Path) -> None:
    assert ran.outputs("pass")["verdict"] == "pass"
    assert not (kept / "target").exists()


def test_a_usage_error_takes_the_place_of_the_report_of_an_earlier_run(ran: Ran, kept: Path) -> None:
    for step in ("stale", "stale2"):
        assert [ran.outputs(step)[name] for name in FILES] == ["stale/r.json", "stale/j.xml", "stale/m.md"]
    report = json.loads((kept / "stale" / "r.json").read_text(encoding="utf-8"))
    assert (report["verdict"], report["exit_code"]) == ("error", 2)
    assert "never" in report["error"]["message"]
    assert "<error" in (kept / "stale" / "j.xml").read_text(encoding="utf-8")
    assert (kept / "stale" / "m.md").read_text(encoding="utf-8").startswith("### ERROR (exit 2, no verdict)")


def test_every_step_has_a_summary_that_begins_with_its_verdict(ran: Ran) -> None:
    for step, first in {
        "pass": "### PASS chat",
        "fail": "### FAIL chat (blocked)",
        "inconclusive": "### INCONCLUSIVE prove (blocked)",
        "broken": "### ERROR (exit 3, no verdict)",
        "word": "### ERROR (exit 2, no verdict)",
    }.items():
        assert f"Summary - {first}" in ran.part(step)


def test_a_failure_is_annotated_on_the_line_of_the_policy(ran: Ran) -> None:
    assert "::error file=slo.yaml,line=4,title=FAIL ttft.p90::P90 TTFT 900 ms > 500 ms: " in ran.part("fail")
    assert "::error file=prove.yaml,line=4,title=INCONCLUSIVE ttft.p99::" in ran.part("inconclusive")
    assert "::error" not in ran.part("pass")
    assert "::error title=slo-gate::" in ran.part("broken")


def test_an_unknown_word_is_an_error_that_names_the_words(ran: Ran) -> None:
    assert 'report-only is "yes"; write true or false' in ran.part("word")
    assert 'comment is "sometimes"; write on-change, always, never' in ran.part("mode")


def test_what_a_name_holds_is_never_run(ran: Ran, kept: Path) -> None:
    assert "touch pwned" in ran.part("hostile")  # the name is shown
    there = (kept / "ls").read_text(encoding="utf-8").splitlines()
    assert "slo.yaml" in there
    assert "pwned" not in there


def test_no_name_makes_an_annotation_or_reaches_the_terminal_raw(ran: Ran) -> None:
    for step in ("hostile", "fail"):
        assert "title=x" not in ran.part(step)
        assert "\x1b[31m.jsonl" not in ran.part(step)


def test_each_job_that_is_not_green_has_one_comment(ran: Ran, github: FakeGitHub) -> None:
    urls = {step: ran.outputs(step).get("comment-url", "") for step, *_ in CASES}
    assert {step for step, url in urls.items() if url} == {
        "fail",
        "inconclusive",
        "broken",
        "nothing",
        "hostile",
        "report",
        "folder",
        "stale2",
    }
    assert len(set(urls.values()) - {""}) == len(github.bodies) == 8
    assert all(body.startswith("<!-- slo-gate:comment job=") for body in github.bodies)
    linked = [body for body in github.bodies if "#artifacts)" in body]  # that of `fail`, which uploads
    assert len(linked) == 1
    assert re.search(r"\[report page\]\(https?://\S+/actions/runs/\d+#artifacts\)", linked[0])


def test_the_token_is_in_no_log(ran: Ran) -> None:
    assert TOKEN not in ran.log


def test_a_failure_ends_the_job_though_the_api_refuses_the_comment(
    tmp_path: Path, httpserver: HTTPServer
) -> None:
    forge = FakeGitHub(httpserver)
    refused = {"message": "Resource not accessible by integration"}
    forge.faults.append(times(99, "GET", "POST", answer=lambda: reply(403, refused)))
    step = use("gate", results="results/bad.jsonl")
    del step["continue-on-error"]
    done = act(prepared(tmp_path / "repo"), [step], api=forge.url)
    assert done.code == 1
    assert done.outputs("gate")["exit-code"] == "1"
    assert "::warning title=slo-gate::no comment was written: HTTP 403" in done.part("gate")
    assert "no comment was written: HTTP 403" in done.part("gate").split("Summary - ")[1]


@pytest.fixture(scope="module")
def loosened(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A checkout whose change loosens every policy and repoints every link, and the commit before it."""
    folder = prepared(tmp_path_factory.mktemp("base") / "repo")
    (folder / "ci").mkdir()
    (folder / "ci" / "slo.yaml").write_text(POINT, encoding="utf-8")
    (folder / "linked.yaml").symlink_to("ci/slo.yaml")
    (folder / "slo-gate-report").mkdir()
    (folder / "slo-gate-report" / "base-policy.yaml").write_text("tracked", encoding="utf-8")
    commit(folder)
    words = ["git", "rev-parse", "HEAD"]
    base = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
    loose = POINT.replace("500ms", "950ms")
    for name in ("slo.yaml", "ci/slo.yaml", "new.yaml", "loose.yaml", "ci\\slo.yaml"):
        (folder / name).write_text(loose, encoding="utf-8")
    (folder / "linked.yaml").unlink()
    (folder / "linked.yaml").symlink_to("loose.yaml")
    return folder, base


BAD_ROWS = "results/bad.jsonl"  # the policy of the base fails them, that of the change lets them pass
LOOSER = "::warning title=slo-gate: the policy gets looser::"


def base_use(name: str, **inputs: str) -> dict[str, Any]:
    return use(name, **{"results": BAD_ROWS, "policy": "slo.yaml", "policy_from": "base", **inputs})


@pytest.fixture(scope="module")
def pulled(loosened: tuple[Path, str], server: HTTPServer, kept: Path) -> Ran:
    """One pull request, judged with its policy under many names."""
    folder, base = loosened
    return act(
        folder,
        [
            base_use("head", policy_from="head"),
            base_use("base"),
            base_use("commit", policy_from=base),
            base_use("absolute", policy="${{ github.workspace }}/ci/slo.yaml"),
            base_use("dots", policy="results/../ci/slo.yaml"),
            base_use("link", policy="linked.yaml"),
            base_use("new", policy="new.yaml"),
            base_use("windows", policy="ci\\slo.yaml"),
            base_use("unnamed", policy=""),
            base_use("preset", policy="", preset="chat"),
            base_use("word", policy_from="main\n::error title=x::y"),
            {"name": "keep", "run": 'cp -r base absolute "$OUT/"; git status --porcelain >"$OUT/status"'},
        ],
        api=server.url_for(""),
        base_sha=base,
        OUT=str(kept),
    )


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("head", "0"),
        *[(name, "1") for name in ("base", "commit", "absolute", "dots", "link")],
        *[(name, "2") for name in ("new", "windows", "unnamed", "preset", "word")],
    ],
)
def test_the_policy_of_the_base_branch_judges_or_nothing_does(step: str, code: str, pulled: Ran) -> None:
    assert pulled.outputs(step)["exit-code"] == code, pulled.part(step)


def test_a_looser_policy_is_told_loudly(pulled: Ran) -> None:
    for step in ("base", "commit", "absolute", "dots", "link"):
        assert LOOSER in pulled.part(step)
    assert "LOOSER: slo.yaml against slo.yaml at commit" in pulled.part("base")
    for step in ("head", "new", "windows", "unnamed", "preset", "word"):
        assert "gets looser" not in pulled.part(step)


def test_why_there_is_no_policy_of_the_base_is_said(pulled: Ran) -> None:
    for step, cause in {
        "new": "new.yaml at commit",
        "windows": "there is no such file",
        "unnamed": "no policy file is named",
        "preset": "a preset is in no commit",
    }.items():
        assert f"error: {cause}" in pulled.part(step) or f": {cause}" in pulled.part(step)
        assert "Summary - ### ERROR (exit 2, no verdict)" in pulled.part(step)
    assert "::error title=x" not in pulled.part("word").replace("\\n::error title=x", "")


def test_every_output_names_the_policy_by_its_path_in_the_repository(pulled: Ran, kept: Path) -> None:
    for step, path in {"base": "slo.yaml", "absolute": "ci/slo.yaml"}.items():
        assert f"::error file={path},line=4,title=FAIL ttft.p90::" in pulled.part(step)
        report = json.loads((kept / step / "r.json").read_text(encoding="utf-8"))
        assert report["policy"]["path"] == path
        assert f"{path}, undecided" in (kept / step / "m.md").read_text(encoding="utf-8")


def test_no_file_of_ours_is_left_and_a_tracked_one_is_kept(pulled: Ran, kept: Path) -> None:
    names = {"head", "base", "commit", "absolute", "dots", "link", "new", "unnamed", "preset", "windows"}
    left = (kept / "status").read_text(encoding="utf-8").splitlines()
    assert {line.removeprefix("?? ").rstrip("/") for line in left} <= names  # the reports that were asked for


EVENTS: list[tuple[str, dict[str, Any], str]] = [
    ("merge_group", {"merge_group": {"base_sha": "BASE", "head_sha": "1" * 40}}, "1"),
    ("workflow_dispatch", {"inputs": {}}, "2"),
]


@pytest.mark.parametrize(("event", "payload", "code"), EVENTS, ids=[name for name, *_ in EVENTS])
def test_another_event_is_judged_by_its_base_or_not_at_all(
    event: str, payload: dict[str, Any], code: str, loosened: tuple[Path, str], httpserver: HTTPServer
) -> None:
    told = json.loads(json.dumps(payload).replace("BASE", loosened[1]))
    done = act(loosened[0], [base_use("gate")], api=httpserver.url_for(""), event=event, payload=told)
    assert done.outputs("gate")["exit-code"] == code, done.part("gate")
    assert (LOOSER in done.part("gate")) == (code == "1")


def test_jobs_of_a_matrix_and_policies_of_a_monorepo_have_a_comment_each_unasked(
    tmp_path: Path, httpserver: HTTPServer
) -> None:
    forge = FakeGitHub(httpserver)
    folder = prepared(tmp_path / "repo")
    steps = []
    for service in ("a", "b"):
        (folder / "services" / service).mkdir(parents=True, exist_ok=True)
        (folder / "services" / service / "slo.yaml").write_text(POINT, encoding="utf-8")
        steps.append(
            use(service, results="results/bad.jsonl", policy=f"services/{service}/slo.yaml", comment_key="")
        )
    strategy = {"max-parallel": 1, "matrix": {"gpu": ["h100", "a100"]}}
    for _ in range(2):  # the second run finds them again
        act(folder, steps, api=forge.url, strategy=strategy)
        assert len(set(forge.bodies)) == len({body.split("\n")[0] for body in forge.bodies}) == 4
    assert forge.writes() == ["POST"] * 4


def test_each_use_in_a_job_and_a_matrix_has_its_own_reports_and_artifact(
    tmp_path: Path, httpserver: HTTPServer
) -> None:
    folder = prepared(tmp_path / "repo")
    plain = {"report_json": "", "junit": "slo-gate-report/junit.xml", "markdown": "./slo-gate-report/m.md"}
    steps = [
        use("red", results=BAD_ROWS, upload_artifact="true", **plain),
        upload("red"),
        use("green", upload_artifact="TRUE", comment_key='a: b/c|*?<>"', **plain),
        upload("green"),
        use("off", **plain),
        upload("off"),
    ]
    del steps[0]["with"]["comment-key"]
    strategy = {"max-parallel": 1, "matrix": {"gpu": ["h100", "a100"]}}
    done = act(folder, steps, api=FakeGitHub(httpserver).url, strategy=strategy)
    for number, step, verdict in ((1, "red", "fail"), (2, "green", "pass"), (3, "off", "pass")):
        out = done.outputs(step)
        path = "slo-gate-report" if number == 1 else f"slo-gate-report-{number}"
        assert [out[name] for name in FILES] == [
            f"{path}/{name}" for name in ("report.json", "junit.xml", "m.md")
        ]
        assert (out["verdict"], done.steps[step]["outcome"]) == (
            verdict,
            "failure" if number == 1 else "success",
        )
        assert f"Summary - ### {verdict.upper()} chat" in done.part(step)
    assert done.outputs("off").get("artifact-name", "") == ""
    assert done.steps["keep-off"]["outcome"] == "skipped"
    kept = {path.name: path for path in (tmp_path / "out" / "artifacts").iterdir()}
    assert len(kept) == 4
    for step, verdict in {"red": "fail", "green": "pass"}.items():
        name = done.outputs(step)["artifact-name"]  # of the last leg
        assert done.outputs(f"keep-{step}")["artifact-url"] == f"https://forge/artifacts/{name}"
        assert sorted(path.name for path in kept[name].iterdir()) == ["junit.xml", "report.json", "report.md"]
        assert json.loads((kept[name] / "report.json").read_text(encoding="utf-8"))["verdict"] == verdict
        assert name.startswith("slo-gate-gate-")


def bare_path(folder: Path) -> str:
    """A PATH with a shell's usual programs and no Python."""
    folder.mkdir()
    for name in (
        *("bash", "cat", "cksum", "curl", "env", "git", "ls", "cp", "mkdir", "mktemp", "rm", "sha256sum"),
        *("tail", "tar", "touch", "tr", "uname", "gzip", "sh", "dirname"),
    ):
        found = shutil.which(name)
        assert found, f"{name} is missing on this machine"
        (folder / name).symlink_to(found)
    return str(folder)


def test_without_python_and_with_a_uv_that_is_not_the_one_pinned_nothing_is_judged(
    tmp_path: Path, httpserver: HTTPServer
) -> None:
    httpserver.expect_request("/0.11.12/uv-x86_64-unknown-linux-musl.tar.gz").respond_with_data(b"not uv")
    httpserver.expect_request("/0.11.12/uv-aarch64-unknown-linux-musl.tar.gz").respond_with_data(b"not uv")
    mirror = httpserver.url_for("").rstrip("/")
    done = act(
        prepared(tmp_path / "repo"),
        [use("gate")],
        api=mirror,
        path=bare_path(tmp_path / "bin"),
        SLO_GATE_UV_MIRROR=mirror,
    )
    assert done.steps["gate"]["outcome"] == "failure"
    assert (done.outputs("gate")["verdict"], done.outputs("gate")["exit-code"]) == ("error", "2")
    assert "there is no Python 3.10 or newer, and uv cannot be fetched" in done.part("gate")
    assert [str(request.path) for request, _ in httpserver.log]  # it did ask


def test_a_python_of_the_runner_s_tool_cache_is_found(tmp_path: Path, httpserver: HTTPServer) -> None:
    bin_folder = tmp_path / "out" / "cache" / "tool_cache" / "Python" / "3.99.0" / "x64" / "bin"
    bin_folder.mkdir(parents=True)
    python = bin_folder / "python3"
    real = Path(sys.base_prefix, "bin", "python3").resolve()
    python.write_text(f'#!/bin/sh\nexec "{real}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    done = act(
        prepared(tmp_path / "repo"),
        [use("gate")],
        api=httpserver.url_for(""),
        path=bare_path(tmp_path / "bin"),
    )
    assert done.outputs("gate")["verdict"] == "pass", done.log


def test_a_python_that_is_named_and_too_old_is_an_error(tmp_path: Path, httpserver: HTTPServer) -> None:
    done = act(prepared(tmp_path / "repo"), [use("gate", python="python2.7")], api=httpserver.url_for(""))
    assert done.outputs("gate")["exit-code"] == "2"
    assert 'python is "python2.7", which is no Python 3.10 or newer' in done.part("gate")


def test_the_action_has_every_input_and_output_and_no_other_action() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert {
        "policy",
        "results",
        "preset",
        "profile",
        "baseline",
        "set",
        "tool",
        "fail-on",
        "report-only",
    } <= {*action["inputs"]}
    assert {"comment", "comment-key", "report-json", "junit", "markdown", "html", "python", "extra"} <= {
        *action["inputs"]
    }
    assert set(action["outputs"]) == {
        *("verdict", "exit-code", "goodput", "failed-objectives", "comment-url"),
        *(
            "report-json",
            "junit",
            "markdown",
            "html",
            "sarif",
            "check-run-url",
            "artifact-name",
            "artifact-path",
        ),
    }
    (gate,) = action["runs"]["steps"]  # a runner downloads what others use, also where it is off
    assert "uses" not in gate
    assert "${{" not in gate["run"]


def test_every_input_reaches_the_script_and_no_other() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    step = action["runs"]["steps"][0]
    read = {name for name in step["env"] if name not in ("SLO_GATE_SOURCE", "SLO_GATE_TOKEN")}
    assert read == {
        "SLO_GATE_" + name.upper().replace("-", "_") for name in action["inputs"] if name != "github-token"
    }


def test_the_pre_commit_hook_stops_a_policy_that_means_nothing(tmp_path: Path) -> None:
    hooks = commit(prepared(tmp_path / "repo"))
    work = tmp_path / "work"
    work.mkdir()
    for name, text in {"slo.yaml": POINT, ".slo-gate.yaml": POINT.replace("p90", "p900")}.items():
        (work / name).write_text(text, encoding="utf-8")
    commit(work)
    done = subprocess.run(
        [Path(sys.executable).parent / "pre-commit", "try-repo", hooks, "slo-gate-policy", "--all-files"],
        cwd=work, env={**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home"), "NO_COLOR": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert ".slo-gate.yaml:4" in done.stdout


REPORTS = {"REPORT_JSON": "r.json", "JUNIT": "  j.xml\n", "MARKDOWN": "sub/m m.md", "HTML": "-h.html"}
BAD = "x\n::error title=pwn::pwned ###[error]pwned \x1b[31m"


def step(
    folder: Path, *, old: bool = True, path: str = os.environ["PATH"], **inputs: str
) -> subprocess.CompletedProcess[str]:
    """The first step of the Action, where it ends before anything is installed, on top of old reports."""
    (folder / "sub").mkdir(exist_ok=True)
    for name in REPORTS.values() if old else ():
        (folder / name.strip()).write_text("PASS", encoding="utf-8")
    known = {"SOURCE": str(ROOT), "EXTRA": "", "PYTHON": "", **REPORTS, **inputs}
    env = {
        "PATH": path,
        "RUNNER_TEMP": str(folder / "temp"),
        "GITHUB_OUTPUT": str(folder / "out.txt"),
    }
    env |= {"GITHUB_STEP_SUMMARY": str(folder / "summary"), "GITHUB_WORKSPACE": str(folder)}
    env |= {f"SLO_GATE_{name}": value for name, value in known.items()}
    return subprocess.run(
        ["bash", ROOT / ".github" / "action.sh"],
        cwd=folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip


def obeyed(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What a runner would obey in a log: a command at the start of a line, ##[ anywhere, an escape."""
    lines = (done.stdout + done.stderr).splitlines()
    return [line for line in lines if line.lstrip().startswith("::") or "##[" in line or "\x1b" in line]


OURS = "::error title=slo-gate::Nothing was judged; the log says why."


STOPS = [{name: BAD} for name in ("EXTRA", "PYTHON", "VERSION", "WORKING_DIRECTORY")]


@pytest.mark.parametrize("inputs", STOPS, ids=lambda value: next(iter(value)))
def test_an_input_that_stops_the_step_leaves_no_old_report_and_no_command_in_the_log(
    inputs: dict[str, str], tmp_path: Path
) -> None:
    done = step(tmp_path, **inputs)
    assert done.returncode == 2
    assert obeyed(done) == [OURS]
    left = [path.name for path in tmp_path.rglob("*.*") if path.name != "out.txt"]
    if "WORKING_DIRECTORY" not in inputs:  # where no report can have been
        assert left == []
    summary = (tmp_path / "summary").read_text(encoding="utf-8")
    assert summary.startswith("### ERROR (exit 2, no verdict): nothing was judged\n\n- **What:** `")
    assert "##[" not in summary
    assert "\x1b" not in summary
    assert "verdict=error" in (tmp_path / "out.txt").read_text(encoding="utf-8")


def test_a_report_path_that_is_a_folder_is_an_error_and_the_other_old_reports_go(tmp_path: Path) -> None:
    done = step(tmp_path, REPORT_JSON="sub")
    assert done.returncode == 2
    assert "there is no room for a report at sub" in done.stderr
    assert not (tmp_path / "j.xml").exists()
    assert (tmp_path / "sub").is_dir()


# Where a change may put a link: (link, its target, working directory, report).
LINKS = [
    ("r.json", "../outside/kept", "", "r.json"),
    ("r.json", "../outside/none", "", "./r.json"),  # to nothing, which writing would make
    ("r.json", "sub/j.xml", "", "r.json"),  # inside, on what may be read
    ("slo-gate-report", "../outside", "", ""),
    ("slo-gate-report", "../outside", "", "slo-gate-report/x/y/r.json"),
    ("sub/a", "../../outside", "", "sub/a/r.json"),
    ("sub/a", "../../outside", "", "sub//a/kept"),
    ("sub/a", "../../outside", "", "sub/../sub/a/../outside/kept"),
    ("sub/a", "../../outside", "", "{}/sub/a/kept"),
    ("sub/a", "../../outside", "", "../repo/sub/a/kept"),
    ("work", "../outside", "work", "kept"),
    ("sub/work", "../../outside", "sub/work", ""),
    ("sub/::error::x", "../../outside", "", "sub/::error::x/kept"),
]


@pytest.mark.parametrize(("link", "target", "work", "report"), LINKS)
@pytest.mark.parametrize("name", ["REPORT_JSON", "JUNIT", "MARKDOWN", "HTML", "SARIF"])
def test_no_report_is_written_or_removed_through_a_link(
    name: str, link: str, target: str, work: str, report: str, tmp_path: Path
) -> None:
    folder, outside = tmp_path / "repo", tmp_path / "outside"
    (folder / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "kept").write_text("kept", encoding="utf-8")
    (folder / link).unlink(missing_ok=True)
    (folder / link).symlink_to(target)
    path = report.format(folder) or "slo-gate-report/report.json"
    files = {**dict.fromkeys(REPORTS, ""), "REPORT_JSON": "first.json", name: path}
    done = step(folder, WORKING_DIRECTORY=work, old=False, **files)
    assert done.returncode == 2, done.stderr
    assert "is a link\nhint: a report is written through no link" in done.stderr
    assert obeyed(done) == [OURS]
    assert [(one.name, one.read_text(encoding="utf-8")) for one in outside.iterdir()] == [("kept", "kept")]
    assert (folder / link).is_symlink()
    assert "verdict=error" in (folder / "out.txt").read_text(encoding="utf-8")


def test_a_link_that_is_made_during_the_installation_is_found(tmp_path: Path) -> None:
    python = tmp_path / "python"
    made = 'for last; do :; done; mkdir -p "$last/bin"; cp "$0" "$last/bin/python"; ln -s / slo-gate-report'
    python.write_text(f'#!/bin/sh\ncase "$*" in *"-m venv"*) {made} ;; esac\n', encoding="utf-8")
    python.chmod(0o755)
    files = {**dict.fromkeys(REPORTS, ""), "PYTHON": str(python)}
    done = step(tmp_path, old=False, **files)
    assert (done.returncode, "slo-gate-report is a link" in done.stderr) == (2, True), done.stderr


def test_a_workspace_that_is_reached_through_a_link_is_a_workspace(tmp_path: Path) -> None:
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "linked").symlink_to("real")
    done = step(tmp_path / "linked", EXTRA=BAD)
    assert "extra holds more than names" in done.stderr
    (tmp_path / "real" / "sub" / "a").symlink_to("/")
    done = step(tmp_path / "real", old=False, REPORT_JSON=f"{tmp_path}/linked/sub/a/r.json")
    assert "sub/a is a link" in done.stderr


READ = {
    "RESULTS": [
        "r.json",
        "./r.json",
        "*.json",
        "**/r.json",
        ".",
        "x.json\n  r.json  ",
        "../repo",
        "{}/r.json",
    ],
    "BASELINE": ["r.json", "*.json"],
    "POLICY": ["r.json", "sub/../r.json"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, many in READ.items() for value in many])
@pytest.mark.parametrize("report", ["r.json", "./r.json", "{}/r.json"])
def test_what_is_read_is_not_removed_as_the_report_of_an_earlier_run(
    report: str, name: str, value: str, tmp_path: Path
) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    inputs = {name: value.format(folder), "REPORT_JSON": report.format(folder)}
    done = step(folder, EXTRA=BAD, **inputs)
    assert done.returncode == 2
    assert (folder / "r.json").read_text(encoding="utf-8") == "PASS"


@pytest.mark.parametrize("name", ["COMMENT", "REPORT_ONLY", "SAME_SESSION", "POLICY_FROM", "MARKDOWN"])
def test_no_input_puts_a_command_into_the_log(name: str, tmp_path: Path) -> None:
    value = f"{BAD}{'x' * 300}/m.md" if name == "MARKDOWN" else BAD  # a folder that cannot be made
    env = {"PATH": os.environ["PATH"], f"SLO_GATE_{name}": value}
    done = subprocess.run(
        [sys.executable, "-I", ROOT / ".github" / "action.py"],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert obeyed(done) == [OURS]
    assert "pwned" in done.stderr


def test_where_the_script_itself_fails_the_exit_code_is_no_verdict(tmp_path: Path) -> None:
    """Without cksum nothing can be named after what is installed."""
    bare = Path(bare_path(tmp_path / "bin"))
    (bare / "cksum").unlink()
    done = step(tmp_path, path=str(bare))
    assert (done.returncode, "of action.sh failed" in done.stderr) == (2, True)
    assert "verdict=error\nexit-code=2\n" in (tmp_path / "out.txt").read_text(encoding="utf-8")
    assert (tmp_path / "summary").read_text(encoding="utf-8").startswith("### ERROR (exit 2, no verdict)")


def after_installation(folder: Path, **env: str) -> subprocess.Popen[str]:
    """What action.sh ends with, in a folder with a policy and results; GITHUB_OUTPUT is out.txt."""
    (folder / "slo.yaml").write_text(POINT, encoding="utf-8")
    (folder / "good.jsonl").write_text(rows(200, 0.1), encoding="utf-8")
    known = {"PATH": os.environ["PATH"], "GITHUB_OUTPUT": "out.txt", "SLO_GATE_RESULTS": "good.jsonl", **env}
    return subprocess.Popen(
        [sys.executable, "-I", ROOT / ".github" / "action.py"],
        cwd=folder, env=known, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_outputs_that_cannot_be_written_change_no_exit_code(tmp_path: Path) -> None:
    process = after_installation(tmp_path, GITHUB_OUTPUT="/dev/full")
    out, err = process.communicate()
    assert (process.returncode, out.startswith("PASS chat")) == (0, True)
    assert "GITHUB_OUTPUT cannot be written" in err
    assert "Traceback" not in err


@pytest.mark.skipif(sys.platform != "linux", reason="finds the child in /proc")
def test_a_check_that_is_killed_is_an_error_with_a_code_that_is_documented(tmp_path: Path) -> None:
    process = after_installation(tmp_path, SLO_GATE_RESULTS="-")  # it waits for its stdin
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not (found := children.read_text(encoding="ascii").split()):
        time.sleep(0.02)
    os.kill(int(found[0]), signal.SIGKILL)
    _, err = process.communicate()
    assert (process.returncode, "slo-gate was ended by signal 9" in err) == (70, True), err
    said = (tmp_path / "out.txt").read_text(encoding="utf-8")
    assert said.startswith("verdict=error\nexit-code=70\n")
    assert "report-json=\n" in said


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("PR_NUMBER", "9" * 5000, 'pr-number is "999'),
        ("PR_NUMBER", "\uff17", 'pr-number is "\\uff17"'),
        ("PAGE_URL", "javascript:x", 'page-url is "javascript:x"; write an address'),
        ("TREND_URL", "javascript:x", 'trend-url is "javascript:x"; write an address'),
        ("UPLOAD_ARTIFACT", "yes", 'upload-artifact is "yes"; write true or false'),
        ("REPORT_JSON", "slo.yaml/r.json", 'there is no room for a report at "slo.yaml/r.json"'),
    ],
)
def test_an_input_that_means_nothing_is_an_error_of_usage(
    name: str, value: str, why: str, tmp_path: Path
) -> None:
    process = after_installation(tmp_path, **{f"SLO_GATE_{name}": value})
    _, err = process.communicate()
    assert (process.returncode, why in err, "Traceback" in err) == (2, True, False), err
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").startswith("verdict=error\nexit-code=2\n")


def test_a_report_path_of_several_lines_is_none(tmp_path: Path) -> None:
    done = step(tmp_path, JUNIT="a.xml\nverdict=pass")
    assert (done.returncode, "a report path holds control characters" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("report", "results"),
    [
        ("good.jsonl", "*.jsonl"),
        ("./good.jsonl", "."),
        ("slo.yaml", "good.jsonl"),
        ("hard.json", "good.jsonl"),
    ],
)
def test_a_report_that_would_replace_what_is_read_is_refused_and_is_no_output(
    report: str, results: str, tmp_path: Path
) -> None:
    def files() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name != "out.txt"}

    (tmp_path / "good.jsonl").write_text("", encoding="utf-8")
    (tmp_path / "hard.json").hardlink_to(tmp_path / "good.jsonl")
    process = after_installation(tmp_path, SLO_GATE_REPORT_JSON=report, SLO_GATE_RESULTS=results)
    before = files()
    _, err = process.communicate()
    assert (process.returncode, "would overwrite what is read" in err) == (2, True), err
    assert files() == before
    said = (tmp_path / "out.txt").read_text(encoding="utf-8")
    assert said.startswith("verdict=error\nexit-code=2\n")
    assert "report-json=\n" in said
