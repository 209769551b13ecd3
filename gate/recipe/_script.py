"""The benchmark as one shell script: warm-up, every load, every run, baseline and candidate in turn."""

from __future__ import annotations

import re

from ..emit import format as inert
from ..model import Policy
from ._clients import client
from ._plan import Plan
from ._tools import Tool

# Text of a policy that may stand in a script, a CI file or a command line as it is. Anything else (quotes,
# dollars, globs, a leading dash) could be read as code there and has to be given by the caller instead.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*(?: [A-Za-z0-9._:/@+-]+)*")

_PATH = re.compile(r"[A-Za-z0-9._/][A-Za-z0-9._/-]*")
_PRESET = re.compile(r"preset:([a-z0-9.-]+)")


def plain(text: str | None) -> str | None:
    """`text` where it is inert in a shell, a YAML block and Groovy; None where it is not."""
    return text if text and _PLAIN.fullmatch(text) else None


def script(policy: Policy, tool: Tool, plan: Plan) -> tuple[str, tuple[str, ...]]:
    """`bench.sh`, and what the reader should know about it."""
    body, notes = client(tool.name, plan)
    parts = [
        _header(policy, tool, plan, notes),
        _variables(policy, tool, body),
        _bench(body),
        _measure(plan, body),
    ]
    return "\n".join(parts), notes


def until_certain(policy: Policy) -> str:
    """The `slo-gate run` that stops as soon as the verdict is certain, instead of all runs."""
    name = preset_name(policy)
    which = f"--preset {name}" if name else f"--policy {policy_path(policy)}"
    profile = f" --profile {policy.profile}" if policy.profile else ""
    return f"slo-gate run {which}{profile} -- bash bench.sh once {{load}} {{seed}} {{dir}}"


def policy_path(policy: Policy) -> str:
    """Where the policy lies, for a shell; slo.yaml where its path is no plain one."""
    return policy.path if _PATH.fullmatch(policy.path) else "slo.yaml"


def preset_name(policy: Policy) -> str | None:
    """The preset that a policy is, or None for a file."""
    found = _PRESET.fullmatch(policy.path)
    return found[1] if found else None


def _header(policy: Policy, tool: Tool, plan: Plan, notes: tuple[str, ...]) -> str:
    profile = f", profile {policy.profile}" if policy.profile else ""
    unit = "req/s" if plan.open_loop else "requests in flight"
    lines = [
        f"{tool.title} {tool.version} for the policy {inert.plain(policy.name)}{profile}",
        "",
        f"Why this tool: {tool.why}.",
        f"Its words: {tool.definition}.",
        f"Against ours: {tool.differs}.",
        *(f"Trap: {trap}." for trap in tool.traps),
        *(f"Note: {note}." for note in (*plan.notes, *notes)),
        "",
        f"Loads in {unit}: {', '.join(point.text for point in plan.points)}; judged at {plan.target.text}.",
        f"{plan.target.runs} runs of {plan.target.requests} requests there; {plan.total_requests:,} requests"
        " in all on each side. Runs that are restarted, at another time or on another node are worth more.",
        "",
        f"Install: {tool.install}",
        "Then:    URL=http://server:8000 bash bench.sh",
        f"Or, until the verdict is certain: {until_certain(policy)}",
    ]
    return "\n".join(
        ["#!/usr/bin/env bash", *(f"# {line}".rstrip() for line in lines), "set -euo pipefail", ""]
    )


def _variables(policy: Policy, tool: Tool, body: str) -> str:
    """Those that every script has, and those that the command asks for."""
    hardware = "what serves the model, such as 8xH100"
    lines = [
        'URL="${URL:-http://127.0.0.1:8000}"  # the server of the candidate',
        'BASE_URL="${BASE_URL:-}"  # the server of the baseline, measured in turn with it; empty: none',
        'OUT="${OUT:-results}"  # results: $OUT/head, $OUT/base',
        _variable("MODEL", policy.workload.model, "the model as the server names it"),
    ]
    if "$TOKENIZER" in body:
        lines.append('TOKENIZER="${TOKENIZER:-$MODEL}"  # must be the model\'s own')
    if "$HARDWARE" in body and policy.workload.hardware:
        lines.append(_variable("HARDWARE", policy.workload.hardware, hardware))
    elif "$HARDWARE" in body:
        lines.append(f'HARDWARE="${{HARDWARE:-}}"  # {hardware}')
    if "$DATASET" in body:
        lines.append(': "${DATASET:?set DATASET to the JSONL file of prompts}"')
    if "$VERSION" in body:
        lines.append(f"VERSION={tool.version}")
    return "\n".join(lines) + "\n"


def _variable(name: str, wanted: str | None, what: str) -> str:
    if value := plain(wanted):
        return f'{name}="${{{name}:-{value}}}"  # {what}'
    asked = f"; the policy asks for {inert.plain(wanted)}" if wanted else ""
    return f'# {name}: {what}{asked}\n: "${{{name}:?set {name} to {what}}}"'


def _bench(body: str) -> str:
    indented = "".join(_indent(body))
    return (
        "bench() { # load requests seed out url\n"
        '  local load="$1" requests="$2" seed="$3" out="$4" url="$5"\n'
        f"{indented}}}\n"
    )


def _indent(body: str) -> list[str]:
    """Two spaces before each line, but none inside a here-document, whose end must stand alone."""
    lines, end = [], ""
    for line in body.splitlines(keepends=True):
        lines.append(line if end else f"  {line}")
        if end:
            end = "" if line.strip() == end else end
        elif found := re.search(r"<<'?([A-Z]+)'?", line):
            end = found[1]
    return lines


def _measure(plan: Plan, body: str) -> str:
    sizes = "\n".join(f"    {point.text}) echo {point.requests} ;;" for point in plan.points)
    loads = "\n".join(
        f"measure {number} {point.text} {point.runs} # {point.share:.0%} of the target"
        for number, point in enumerate(plan.points, start=1)
    )
    warm = max(50, 0 if plan.open_loop else int(plan.target.load))
    config = _CONFIG if "$CONFIG" in body else ""
    return f"""\
requests() {{ # load: so many that enough are left when warm-up is dropped
  case "$1" in
{sizes}
    *) echo "no load $1 in this recipe" >&2 && exit 2 ;;
  esac
}}
{config}{_LOOPS.replace("@LOAD", plan.target.text).replace("@WARM", str(warm))}
{loads}
"""


_CONFIG = """\

CONFIG="$(mktemp)" # beside the results it would be taken for one
trap 'rm -f "$CONFIG"' EXIT
"""
_LOOPS = """
if [ "${1:-}" = once ]; then # load seed folder [url]: one run, for `slo-gate run`
  size="$(requests "$2")"
  bench "$2" "$size" "$3" "$4/result" "${5:-$URL}"
  exit
fi

measure() { # number-of-the-load load runs
  local run seed name size
  size="$(requests "$2")"
  for run in $(seq 1 "$3"); do
    seed=$(($1 * 1000 + run)) # differs between runs and loads, is the same for baseline and candidate
    name="$(printf 'load%s_run%02d' "$2" "$run")"
    if [ -n "$BASE_URL" ]; then bench "$2" "$size" "$seed" "$OUT/base/$name" "$BASE_URL"; fi
    bench "$2" "$size" "$seed" "$OUT/head/$name" "$URL"
  done
}

if [ -e "$OUT/head" ]; then
  echo "$OUT/head is there already: results of two benchmarks must not mix; move it away" >&2
  exit 2
fi
mkdir -p "$OUT/head" "$OUT/warmup"
if [ -n "$BASE_URL" ]; then mkdir -p "$OUT/base"; fi

# Warm-up: compiles, fills caches, is not judged. $OUT/warmup is never given to the gate.
if [ -n "$BASE_URL" ]; then bench @LOAD @WARM 0 "$OUT/warmup/base" "$BASE_URL"; fi
bench @LOAD @WARM 0 "$OUT/warmup/head" "$URL"
"""
