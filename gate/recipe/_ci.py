"""The CI file that runs the benchmark and the gate: GitHub Actions, GitLab CI or Jenkins."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from ..model import Kind, Policy
from ._script import plain, policy_path, preset_name
from ._tools import Tool

FILES = {
    "github": ".github/workflows/slo-gate.yml",
    "gitlab": "slo-gate.gitlab-ci.yml",
    "jenkins": "Jenkinsfile.slo-gate",
}
# It is on no package index, where anybody could take its name: a commit of a repository is what it says.
_PACKAGE = "git+https://github.com/your-org/slo-gate@0123456789abcdef0123456789abcdef01234567"


def gate_command(policy: Policy, tool: Tool, *, outputs: str = "") -> str:
    """The `slo-gate check` of a recipe, for a shell. Facts the tool's files lack are stated."""
    words = ["slo-gate", "check", "results/head"]
    name = preset_name(policy)
    words += ["--preset", name] if name else ["--policy", policy_path(policy)]
    words += ["--profile", policy.profile] if policy.profile else []
    stated = {
        "tool_version": tool.version if policy.evidence.tool_version_required else None,
        "hardware": policy.workload.hardware,
        "interaction": policy.workload.interaction,
    }
    for key, value in stated.items():
        if value and key not in tool.writes:
            words += ["--set", f"{key}={plain(value) or 'STATE-IT'}"]
    baseline = " --baseline results/base --same-session" if compares(policy) else ""
    return shlex.join(words) + baseline + outputs


def compares(policy: Policy) -> bool:
    """Whether the policy has a regression, which needs the baseline measured in the same session."""
    return any(objective.kind is Kind.REGRESSION for objective in policy.objectives)


def ci_file(system: str, policy: Policy, tool: Tool) -> tuple[str, str]:
    """(file name, text) for github, gitlab or jenkins."""
    return FILES[system], _WRITERS[system](policy, tool)


def _trigger(policy: Policy) -> str:
    """When it runs follows from the profile's name: pr, nightly, release, or pr where it is another."""
    said = (policy.profile or "").lower()
    return next((word for word in ("nightly", "release") if word in said), "pr")


def _servers(policy: Policy) -> list[tuple[str, str]]:
    both = [("URL", "the server of the build under test")]
    return both + ([("BASE_URL", "the server of the base branch's build")] if compares(policy) else [])


_GITHUB_ON = {
    "pr": "  pull_request:\n",
    "nightly": '  schedule:\n    - cron: "17 2 * * *"\n  workflow_dispatch:\n',
    "release": '  push:\n    tags: ["v*"]\n  workflow_dispatch:\n',
}


_GITHUB_KEEP = """\
      - name: Keep the results
        if: always()
        uses: actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02 # v4.6.2
        with:
          name: slo-gate
          path: |
            results/
            report.json
            junit.xml
"""


def _fork_guard(policy: Policy) -> str:
    if _trigger(policy) != "pr":
        return ""
    return (
        "    # Not for forks: their code would run on the machine that holds the GPUs.\n"
        "    if: github.event.pull_request.head.repo.full_name == github.repository\n"
    )


def _github(policy: Policy, tool: Tool) -> str:
    env = "".join(f"      {name}: ${{{{ vars.SLO_{name} }}}} # {what}\n" for name, what in _servers(policy))
    outputs = " \\\n            --format github --junit junit.xml --json report.json"
    outputs += ' --markdown "$GITHUB_STEP_SUMMARY"'
    return f"""\
# Runs the benchmark in bench.sh and blocks on the policy. Written by `slo-gate recipe`.
name: slo-gate
on:
{_GITHUB_ON[_trigger(policy)]}permissions:
  contents: read
concurrency:
  group: slo-gate # two benchmarks at once would measure each other
jobs:
  slo-gate:
{_fork_guard(policy)}    runs-on: [self-hosted, gpu] # the machine that can reach the servers
    timeout-minutes: 360
    env:
{env}      SLO_GATE: {_PACKAGE} # what pip installs: put in the commit you trust, or a wheel
    steps:
      - uses: actions/checkout@8e8c483db84b4bee98b60c0593521ed34d9990e8 # v6.0.1
        with:
          persist-credentials: false
      - name: Install
        run: |
          python3 -m venv .slo-gate
          . .slo-gate/bin/activate
          pip install "$SLO_GATE"
          {tool.install}
      - name: Benchmark
        run: |
          . .slo-gate/bin/activate
          bash bench.sh
      - name: Gate
        run: |
          . .slo-gate/bin/activate
          {gate_command(policy, tool, outputs=outputs)}
{_GITHUB_KEEP}"""


_GITLAB_RULES = {
    "pr": '$CI_PIPELINE_SOURCE == "merge_request_event"',
    "nightly": '$CI_PIPELINE_SOURCE == "schedule"',
    "release": "$CI_COMMIT_TAG",
}


def _gitlab(policy: Policy, tool: Tool) -> str:
    variables = "".join(
        f"  # Set SLO_{name} in the project's CI variables: {what}.\n" for name, what in _servers(policy)
    )
    exports = "".join(f'    - export {name}="$SLO_{name}"\n' for name, _ in _servers(policy))
    outputs = " --junit junit.xml --json report.json --codequality gl-code-quality-report.json"
    return f"""\
# include: this file in .gitlab-ci.yml. Runs bench.sh and blocks on the policy. Written by `slo-gate recipe`.
slo-gate:
{variables}  tags: [gpu] # the runner that can reach the servers
  resource_group: slo-gate # two benchmarks at once would measure each other
  timeout: 6h
  rules:
    - if: '{_GITLAB_RULES[_trigger(policy)]}'
  variables:
    SLO_GATE: {_PACKAGE} # what pip installs: put in the commit you trust, or a wheel
  script:
    - python3 -m venv .slo-gate
    - . .slo-gate/bin/activate
    - pip install "$SLO_GATE"
    - |
      {tool.install}
{exports}    - bash bench.sh
    - |
      {gate_command(policy, tool, outputs=outputs)}
  artifacts:
    when: always
    paths: [results/, report.json]
    reports:
      junit: junit.xml
      codequality: gl-code-quality-report.json
"""


_JENKINS_KEEP = """\
  post {
    always {
      junit testResults: 'junit.xml', allowEmptyResults: true
      archiveArtifacts artifacts: 'results/**, report.json, junit.xml', allowEmptyArchive: true
    }
  }
}
"""


def _jenkins(policy: Policy, tool: Tool) -> str:
    trigger = "  triggers { cron('H 2 * * *') }\n" if _trigger(policy) == "nightly" else ""
    env = "".join(
        f"    {name} = \"${{env.SLO_{name} ?: ''}}\" // {what}\n" for name, what in _servers(policy)
    )
    return f"""\
// Runs the benchmark in bench.sh and blocks on the policy. Written by `slo-gate recipe`.
pipeline {{
  agent {{ label 'gpu' }} // the machine that can reach the servers
  options {{
    disableConcurrentBuilds() // two benchmarks at once would measure each other
    timeout(time: 6, unit: 'HOURS')
  }}
{trigger}  environment {{
{env}    SLO_GATE = '{_PACKAGE}' // what pip installs: put in the commit you trust, or a wheel
  }}
  stages {{
    stage('Install') {{
      steps {{
        sh '''
          python3 -m venv .slo-gate
          . .slo-gate/bin/activate
          pip install "$SLO_GATE"
          {tool.install}
        '''
      }}
    }}
    stage('Benchmark') {{
      steps {{ sh '. .slo-gate/bin/activate && bash bench.sh' }}
    }}
    stage('Gate') {{
      steps {{
        sh '''
          . .slo-gate/bin/activate
          {gate_command(policy, tool, outputs=" --junit junit.xml --json report.json")}
        '''
      }}
    }}
  }}
{_JENKINS_KEEP}"""


_WRITERS: dict[str, Callable[[Policy, Tool], str]] = {
    "github": _github,
    "gitlab": _gitlab,
    "jenkins": _jenkins,
}
