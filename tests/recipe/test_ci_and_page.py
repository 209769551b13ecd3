"""CI files that their systems take, and the page that explains a recipe."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from gate import policy
from gate.cli import cli
from gate.cli.check import command as check
from gate.evaluate import describe
from gate.recipe import FILES, TOOLS, markdown, recipe
from tests.conftest import Process
from tests.recipe.test_recipe import OPEN, POLICY, parsed

HOSTILE = "a|b`x`@team <!-- slo-gate --> <script> ::error::x ##[error]y ${{ secrets.X }} %0A"


def page(text: str = POLICY, tool: str = "vllm", ci: str | None = None) -> str:
    loaded = parsed(text)
    return markdown(recipe(loaded, tool, ci=ci), [(one, describe(one)) for one in loaded.objectives])


def prose(text: str) -> str:
    """A page without its fenced code."""
    return re.sub(r"^(`{3,})\w*\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)


# ---- CI files -----------------------------------------------------------------------------


@pytest.mark.parametrize(("system", "schema"), [("github", "github-workflows"), ("gitlab", "gitlab-ci")])
def test_ci_files_fit_the_schema_of_their_system(system: str, schema: str, tmp_path: Path) -> None:
    paths = []
    for profile in ("pr", "nightly", "release"):
        loaded = parsed(POLICY.replace("  pr:", f"  {profile}:"), profile)
        for tool in TOOLS:
            name, text = recipe(loaded, tool, ci=system).files[1]
            assert FILES[system] == name
            paths.append(tmp_path / f"{profile}-{tool}.yml")
            paths[-1].write_text(text)
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_workflow_pins_what_it_uses_and_grants_nothing(tmp_path: Path) -> None:
    path = tmp_path / "slo-gate.yml"
    path.write_text(recipe(parsed(), "vllm", ci="github").files[1][1])
    command = [str(Path(sys.executable).with_name("zizmor")), "--offline", "--no-progress", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("system", FILES)
def test_a_ci_file_runs_the_benchmark_and_then_the_gate_as_check_takes_it(system: str) -> None:
    text = recipe(parsed(), "llmperf", ci=system).files[1][1]
    line = next(line.strip() for line in text.replace(" \\\n", " ").splitlines() if "slo-gate check" in line)
    words = expanded(line.replace("$GITHUB_STEP_SUMMARY", "summary.md"), BASE_URL="http://base")
    assert words[:3] == ["slo-gate", "check", "results/head"]
    parent = click.Context(cli, **cli.context_settings)  # a command keeps the --help of its first context
    context = check.make_context("check", words[2:], parent=parent)
    assert isinstance(context, click.Context)
    assert context.params["profile"] == "pr"
    assert context.params["baseline"] == ("results/base",)
    assert context.params["same_session"] is True
    assert context.params["junit"] == "junit.xml"
    # LLMPerf writes version and hardware itself; the interaction nobody does
    assert context.params["stated"] == ("interaction=streaming-chat",)
    assert text.index("bench.sh", text.index("venv")) < text.index(line.split(" --")[0])


@pytest.mark.parametrize("system", FILES)
@pytest.mark.parametrize("tool", TOOLS)
def test_what_bench_sh_takes_from_the_environment_reaches_it(system: str, tool: str) -> None:
    script, text = (made for _, made in recipe(parsed(), tool, ci=system).files)
    names = {name for name in ("MODEL", "TOKENIZER", "DATASET", "HARDWARE") if f"${{{name}:" in script}
    assert "MODEL" in names
    assert {name for name in ("MODEL", "TOKENIZER", "DATASET", "HARDWARE") if f"SLO_{name}" in text} == names
    assert f"--python {TOOLS[tool].python} .client" in text, "the client has an environment of its own"


@pytest.mark.parametrize("system", FILES)
def test_a_second_job_in_one_workspace_starts_clean(system: str) -> None:
    text = recipe(parsed(), "vllm", ci=system).files[1][1]
    assert text.index("rm -rf results junit.xml report.json") < text.index("bench.sh", text.index("rm -rf"))
    assert "uv venv --clear" in text


def expanded(line: str, **env: str) -> list[str]:
    """The words of a command as a shell makes them."""
    script = f'set -u; printf "%s\\0" {line}'
    path = {"PATH": os.environ["PATH"]}
    done = subprocess.run(["bash", "-c", script], env={**path, **env}, capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("system", FILES)
@pytest.mark.parametrize("env", [{}, {"BASE_URL": ""}], ids=("unset", "empty"))
def test_without_a_server_of_the_baseline_no_baseline_is_given(system: str, env: dict[str, str]) -> None:
    text = recipe(parsed(), "vllm", ci=system).files[1][1]
    line = next(line.strip() for line in text.replace(" \\\n", " ").splitlines() if "slo-gate check" in line)
    words = expanded(line.replace("$GITHUB_STEP_SUMMARY", "summary.md"), **env)
    assert "--junit" in words
    assert not {"--baseline", "--same-session", ""} & set(words)


def test_a_fork_fails_on_a_machine_without_gpus_and_is_never_skipped() -> None:
    """A job that is skipped counts as a success of a required check."""
    document = yaml.safe_load(recipe(parsed(), "vllm", ci="github").files[1][1])
    job = document["jobs"]["slo-gate"]
    assert "if" not in job
    first = job["steps"][0]
    assert first["if"] == "github.event.pull_request.head.repo.full_name != github.repository"
    done = subprocess.run(["bash", "-c", first["run"]], capture_output=True, text=True)
    assert (done.returncode, done.stdout.startswith("::error title=slo-gate::")) == (1, True)
    assert re.search(
        r"""== github.repository && '\["self-hosted", "gpu"\]' \|\| '\["ubuntu""", job["runs-on"]
    )


def test_jenkins_clears_what_an_earlier_build_of_the_workspace_left(tmp_path: Path) -> None:
    text = recipe(parsed(), "vllm", ci="jenkins").files[1][1]
    clear = next(line.strip() for line in text.splitlines() if line.strip().startswith("rm -rf"))
    for name in ("results/head", "results/base"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("junit.xml", "report.json", "bench.sh"):
        (tmp_path / name).write_text("old")
    subprocess.run(["sh", "-xec", clear], cwd=tmp_path, check=True, capture_output=True)
    assert [path.name for path in tmp_path.iterdir()] == ["bench.sh"]
    assert text.index(clear) < text.index("bash bench.sh")


def test_a_required_baseline_is_asked_for_before_anything_is_measured() -> None:
    required = POLICY.replace("regression: {", "regression: {required: true, ")
    assert required != POLICY
    asked = ': "${BASE_URL:?set BASE_URL'
    assert asked in recipe(parsed(required), "vllm").files[0][1]
    assert asked not in recipe(parsed(), "vllm").files[0][1]


def test_what_no_file_of_a_tool_holds_is_measured_and_not_typed_into_the_gate() -> None:
    """bench.sh writes it beside each result; the interaction is of the policy, and nobody can measure it."""
    for tool in TOOLS:
        made = recipe(parsed(), tool)
        assert re.findall(r"--set (\S+)", made.gate) == ["interaction=streaming-chat"]
        lacks = {"tool_version", "model", "hardware"} - TOOLS[tool].writes
        assert (".slo.json" in made.files[0][1]) is bool(lacks)
    assert "--set" not in recipe(policy.preset("chat"), "vllm", peak=4).gate


def test_the_trigger_follows_the_profile() -> None:
    for profile, key in (("pr", "pull_request"), ("nightly", "schedule"), ("release", "push")):
        loaded = parsed(POLICY.replace("  pr:", f"  {profile}:"), profile)
        document = yaml.safe_load(recipe(loaded, "vllm", ci="github").files[1][1])
        assert key in document[True]  # YAML 1.1 reads `on` as true
        job = document["jobs"]["slo-gate"]
        assert ("head.repo" in str(job["runs-on"])) is (profile == "pr")


@pytest.mark.parametrize("system", FILES)
def test_nothing_of_a_hostile_policy_is_code_in_a_ci_file(system: str) -> None:
    document = yaml.safe_load(POLICY)
    for key in ("model", "hardware"):
        document["workload"][key] = HOSTILE + "'''\n${{ env.Y }}".replace("\n", " ")
    document["name"] = HOSTILE
    text = recipe(parsed(yaml.safe_dump(document)), "aiperf", ci=system).files[1][1]
    for word in ("secrets.X", "env.Y", "<script>", "@team", "##[error]"):
        assert word not in text


# ---- the page -----------------------------------------------------------------------------


def test_the_page_has_every_part() -> None:
    text = page(ci="github")
    heads = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    assert heads == [
        "Benchmark recipe: demo, profile pr with vLLM bench serve 0.33.0",
        "SLO",
        "Goodput",
        "Percentiles",
        "Measured like this",
        "`bench.sh`",
        "`.github/workflows/slo-gate.yml`",
        "Tool trap",
        "Pass or fail",
        "What to measure next",
    ]
    assert "| ttft.p99 | block | P99 TTFT ≤ 800 ms |" in text
    assert "| TTFT | shown | <= 500 ms | <= 800 ms |" in text
    assert "TTFT <= 800 ms and TPOT <= 25 ms, all at once, / (completed + failed)" in text
    assert f"**{700 / 99:.2f} ms**" in text
    assert f"**{1200 / 100:.2f} ms**" in text
    assert "| 50% | 4 | 2 | 108 |\n| 100% | 8 | 2 | 215 |" in text


@pytest.mark.parametrize("tool", TOOLS)
def test_the_page_says_how_the_tool_s_words_differ(tool: str) -> None:
    text = page(tool=tool)
    assert TOOLS[tool].definition in text
    assert TOOLS[tool].differs in text
    assert f"an environment of its own, with Python {TOOLS[tool].python}" in text
    assert "Throughput and means never decide" in text


def test_an_open_loop_page_speaks_of_rates() -> None:
    assert "| of the target | req/s | runs | requests a run |" in page(OPEN)


def test_a_hostile_policy_is_inert_on_the_page() -> None:
    document = yaml.safe_load(POLICY)
    document["name"] = document["workload"]["model"] = HOSTILE
    text = page(yaml.safe_dump(document))
    shown = prose(text)
    for word in ("<script>", "<!--", "@team", "`x`", "a|b"):
        assert word not in shown
    assert "##[error]" not in text
    assert not re.search(r"^\s*::", text, re.MULTILINE)


def test_the_page_is_printed_by_the_command(slo_gate: Process, tmp_path: Path) -> None:
    (tmp_path / "slo.yaml").write_text(POLICY)
    done = slo_gate("recipe", "--profile", "pr", "--for", "vllm", "--format", "markdown")
    assert done.stdout == page()
