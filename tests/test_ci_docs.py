"""Pipelines in docs/ci and examples are parsed and held to the schemas of the systems they are for."""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema
from jsonschema import Draft7Validator

from gate.cli import COMMANDS, cli
from gate.errors import Exit
from tests.conftest import ROOT, Process

PAGES = sorted((ROOT / "docs" / "ci").glob("*.md"))
FENCE = re.compile(r"(?ms)^( *)```(\S+)(?: (\S+))?\n(.*?)^\1```$")
TEMPLATE = ROOT / "examples" / "gitlab" / "slo-gate.gitlab-ci.yml"


def blocks(language: str) -> list[tuple[str, str, str]]:
    """(page, schema, text) of every fenced block of a language."""
    return [
        (page.name, schema, text)
        for page in PAGES
        for _, found, schema, text in FENCE.findall(page.read_text(encoding="utf-8"))
        if found == language
    ]


def faults(schema: str, document: Any) -> list[str]:
    known = get_builtin_schema(f"vendor.{schema}")
    return [f"{fault.json_path}: {fault.message}" for fault in Draft7Validator(known).iter_errors(document)]


@pytest.mark.parametrize(("page", "schema", "text"), blocks("yaml"), ids=lambda value: value[:30])
def test_every_pipeline_in_the_docs_parses_and_is_valid(page: str, schema: str, text: str) -> None:
    document = yaml.safe_load(text)
    assert isinstance(document, dict)
    if schema:
        # YAML 1.1 reads the key `on` of a workflow as true; GitHub does not.
        assert (
            faults(schema, {("on" if key is True else key): value for key, value in document.items()}) == []
        )


def kubernetes() -> list[Any]:
    """The manifests of Kubernetes itself."""
    found = [yaml.safe_load(text) for _, _, text in blocks("yaml")]
    return [one for one in found if str(one.get("apiVersion", "x/")).split("/")[0] in ("v1", "apps", "batch")]


def test_manifests_are_what_kubernetes_publishes() -> None:
    manifests = kubernetes()
    assert manifests
    for manifest in manifests:
        kubernetes_validate.validate(manifest, "1.31", strict=True)
    wrong = copy.deepcopy(manifests[0])
    wrong["spec"]["template"]["spec"]["containers"][0]["arguments"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.31", strict=True)


def test_a_job_of_kubernetes_has_a_name_of_its_own_each_time() -> None:
    (job,) = kubernetes()
    assert "name" not in job["metadata"]
    assert job["metadata"]["generateName"].startswith("slo-gate-")


@pytest.mark.parametrize(
    ("conditions", "code"),
    [("Complete", 0), ("SuccessCriteriaMet Complete", 0), ("Failed", 1), ("FailureTarget Failed", 1)],
)
def test_the_deploy_waits_for_success_and_for_failure(conditions: str, code: int, tmp_path: Path) -> None:
    (script,) = (text for page, _, text in blocks("bash") if page == "kubernetes.md")
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        "#!/bin/sh\n"
        'echo "$@" >>calls\n'
        'case "$*" in create*) echo job.batch/slo-gate-x7 ;; "get job"*) '
        f'[ -e twice ] && printf "%s" "{conditions}"; touch twice ;; esac\n'
        "exit 0\n",
        encoding="utf-8",
    )
    kubectl.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True, check=False
    )
    calls = (tmp_path / "calls").read_text(encoding="utf-8")
    assert (done.returncode, "rollout restart" in calls) == (code, code == 0), done.stderr
    assert "job-name=slo-gate-x7" in calls


def test_in_jenkins_a_failed_installation_is_no_verdict() -> None:
    """`returnStatus` is around nothing but the gate."""
    ((_, _, text),) = blocks("groovy")
    (judged,) = re.findall(r"(?s)returnStatus: true, script: \'\'\'(.*?)\'\'\'", text)
    assert "slo-gate check" in judged
    assert "pip" not in judged
    assert "pip install" in text


def test_a_pipeline_that_is_wrong_would_be_found() -> None:
    assert faults("gitlab-ci", {"job": {"script": 7}})
    assert faults("buildkite", {"steps": [{"command": 7}]})
    assert faults("azure-pipelines", {"steps": [{"script": 7}]})
    assert faults("github-workflows", {"on": "pull_request"})


def test_every_system_of_the_issue_has_a_page() -> None:
    assert {page.stem for page in PAGES} >= {
        *("github", "forks", "gitlab", "jenkins", "buildkite", "azure"),
        *("argo-rollouts", "kubernetes", "pre-commit"),
    }


def test_the_gitlab_template_has_typed_inputs_and_a_valid_job() -> None:
    spec, job = yaml.safe_load_all(TEMPLATE.read_text(encoding="utf-8"))
    used = set(re.findall(r"\$\[\[ inputs\.([a-z]+) \]\]", TEMPLATE.read_text(encoding="utf-8")))
    assert used == set(spec["spec"]["inputs"])
    assert faults("gitlab-ci", job) == []


def scripts() -> list[tuple[str, str]]:
    """Every shell text of the docs and the template."""
    _, job = yaml.safe_load_all(TEMPLATE.read_text(encoding="utf-8"))
    found = [("template", "\n".join(job["slo-gate"]["script"]))]
    found += [(page, text) for page, _, text in blocks("bash") + blocks("console")]
    for page, _, text in blocks("yaml"):
        found += [(page, str(word)) for word in texts(yaml.safe_load(text))]
    found += [
        ("jenkins.md", part)
        for _, _, text in blocks("groovy")
        for part in re.findall(r"(?s)'''(.*?)'''", text)
    ]
    return [
        (page, text) for page, text in found if re.search(r"\bslo-gate (check|comment|policy|schema)", text)
    ]


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [one for item in value.values() for one in texts(item)]
    if isinstance(value, list):
        if value[:1] == ["check"]:  # the arguments of a container
            return ["slo-gate " + " ".join(map(str, value))]
        return [one for item in value for one in texts(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize(("page", "text"), scripts(), ids=lambda value: value[:12])
def test_every_command_in_a_pipeline_has_only_options_that_exist(page: str, text: str) -> None:
    joined = text.replace("\\\n", " ").replace("\n  ", " ") if "check results" in text else text
    for line in joined.replace("\\\n", " ").splitlines():
        for called in re.findall(r"slo-gate ((?:check|comment|policy|schema)\b[^|;&<>]*)", line):
            words = shlex.split(called.split(" || ")[0], comments=True)
            command = cli.get_command(cli.make_context("slo-gate", [], resilient_parsing=True), words[0])
            assert words[0] in COMMANDS
            assert command is not None
            known = {name for parameter in command.params for name in parameter.opts}
            used = {word.split("=")[0] for word in words if word.startswith("--")}
            assert used <= known, f"{page}: {used - known}"


@pytest.mark.parametrize(("page", "text"), [b[::2] for b in blocks("bash")])
def test_shell_scripts_in_the_docs_parse(page: str, text: str) -> None:
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_exit_codes_in_pipelines_are_ours() -> None:
    known = {int(code) for code in Exit}
    _, job = yaml.safe_load_all(TEMPLATE.read_text(encoding="utf-8"))
    codes = set(job["slo-gate"]["allow_failure"]["exit_codes"])
    for _, schema, text in blocks("yaml"):
        if schema == "gitlab-ci":
            codes |= set(yaml.safe_load(text)["slo-gate"]["allow_failure"]["exit_codes"])
        if schema == "buildkite":
            codes |= {one["exit_status"] for one in yaml.safe_load(text)["steps"][1]["soft_fail"]}
    assert codes
    assert codes <= known - {0, 1}  # a failure is never made soft


def test_the_two_workflows_for_forks_keep_to_the_rules() -> None:
    folder = ROOT / "examples" / "fork-prs" / ".github" / "workflows"
    gate, comment = (
        yaml.safe_load((folder / f"{name}.yml").read_text()) for name in ("gate", "gate-comment")
    )
    assert gate[True] == "pull_request"
    assert gate["jobs"]["gate"]["permissions"] == {"contents": "read"}
    assert comment[True]["workflow_run"]["workflows"] == [gate["name"]]
    job = comment["jobs"]["comment"]
    assert job["permissions"]["pull-requests"] == "write"
    for step in job["steps"]:  # nothing of the pull request is checked out
        if step.get("uses", "").startswith("actions/checkout"):
            assert step["with"]["repository"] == "your-org/slo-gate"
    for step in [*gate["jobs"]["gate"]["steps"], *job["steps"]]:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step.get("uses", f"x@{'0' * 40}"))


def test_the_dockerfile_installs_as_the_readme_does_and_runs_as_nobody_special() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "pip install" in text
    assert "`pip install .`" in (ROOT / "README.md").read_text(encoding="utf-8")
    copied = {word for line in re.findall(r"(?m)^COPY (?!--from)(.*)$", text) for word in line.split()[:-1]}
    assert all((ROOT / name).exists() for name in copied)
    assert {"README.md", "LICENSE", "gate", "schemas", "pyproject.toml"} <= copied  # what the build reads
    assert re.search(r"(?m)^USER \d+$", text)
    assert 'ENTRYPOINT ["slo-gate"]' in text


def test_the_pre_commit_hook_finds_the_names_that_check_looks_for() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    from gate.policy import NAMES

    assert hook["entry"] == "slo-gate policy validate"
    for name in NAMES:
        assert re.search(hook["files"], name)
    assert not re.search(hook["files"], "docs/slo.md")
    assert not re.search(hook["files"], "kubernetes/not-slo.yaml")


def test_paths_in_the_examples_are_relative() -> None:
    for path in [*PAGES, TEMPLATE, *(ROOT / "examples" / "fork-prs").rglob("*.yml")]:
        assert not re.search(r"(?<![\w.])/(work|root|home)/", Path(path).read_text(encoding="utf-8"))


def test_the_policy_schema_is_one_that_schemastore_takes() -> None:
    """Draft 7 at most, an id below its own address, a title, and no reference to another file."""
    schema = json.loads((ROOT / "schemas" / "policy.schema.json").read_text(encoding="utf-8"))
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert re.fullmatch(r"https://json\.schemastore\.org/[a-z0-9-]+\.json", schema["$id"])
    assert schema["title"]
    refs = re.findall(r'"\$ref": "([^"]+)"', json.dumps(schema))
    assert refs
    assert all(ref.startswith("#/") for ref in refs)
    Draft7Validator.check_schema(schema)


def test_schema_prints_the_published_files(slo_gate: Process) -> None:
    for name in ("policy", "report", "history"):
        done = slo_gate("schema", name)
        published = (ROOT / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8")
        assert json.loads(done.stdout) == json.loads(published)
