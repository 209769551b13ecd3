"""What others rely on (docs/compatibility.md): a change of it, meant or not, is a changed golden file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest

from gate import policy, saved
from gate.cli import COMMANDS, cli
from gate.emit import EMITTERS
from gate.errors import Exit
from gate.model import Report
from gate.publish import Post, marker
from gate.readers.baseline import read_baseline
from tests.conftest import ROOT
from tests.emit.reports import CASES

OLDER = sorted((ROOT / "tests" / "fixtures" / "older").glob("*.json"))
EVERYTHING = """\
version: 1
name: everything
workload: {model: m*, hardware: 8xH100, load: {concurrency: 64, sweep: [50%, 100%, 150%]},
  input_tokens: {mean: 800, stddev: 300}, output_tokens: {mean: 150}}
slo:
  ttft: {p50: 400ms, p90: 500ms, p99: 800ms}
  tpot: {p99: 25ms}
  itl: {p99: 90ms}
  e2e: {p99: {max: 3s, when: output_tokens < 300}}
goodput: {min: 99%, request: {ttft: 800ms, tpot: 25ms, e2e: 3s}}
limits:
  error_rate: {max: 1%}
  throughput: {min: 2000 tok/s}
  headroom: {max_drop: 5pt, from: 100%, to: 150%}
regression: {ttft: {p99: {max: 10%, and_at_least: 20ms}}}
evidence:
  runs: {min: 30}
  requests_per_run: {min: 100}
  tool: {name: vllm, version: required}
  prompts: varied
"""


def parameters(command: click.Command) -> Iterator[str]:
    """Each option and argument of a command, with the values it takes."""
    for one in command.params:
        values = f" {'|'.join(map(str, one.type.choices))}" if isinstance(one.type, click.Choice) else ""
        if isinstance(one, click.Option):
            flag = " (flag)" if one.is_flag else " (repeatable)" if one.multiple else ""
            yield f"{', '.join((*one.opts, *one.secondary_opts))}{flag}{values}"
        else:
            yield f"{(one.name or '').upper()}{' ...' if one.nargs == -1 else ''}{values}"


def commands(command: click.Command, name: str) -> Iterator[str]:
    yield name
    yield from (f"  {line}" for line in sorted(parameters(command)))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in sorted(command.list_commands(context)):
            found = command.get_command(context, word)
            assert found is not None
            yield from commands(found, f"{name} {word}")


def test_commands_and_options(golden: Callable[[str, str], None]) -> None:
    text = "\n".join(commands(cli, "slo-gate"))
    assert all(f"slo-gate {name}\n" in text for name in COMMANDS)
    golden("compatibility/commands.txt", f"{text}\n")


def test_exit_codes(golden: Callable[[str, str], None]) -> None:
    golden("compatibility/exit-codes.txt", "".join(f"{int(code)} {code.name.lower()}\n" for code in Exit))


def test_objective_ids(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    """They are JUnit's test-case names and the anchors of the docs."""
    (tmp_path / "slo.yaml").write_text(EVERYTHING, encoding="utf-8")
    found = policy.load(str(tmp_path / "slo.yaml"))
    golden("compatibility/objectives.txt", "".join(f"{one.id}\n" for one in found.objectives))


def keys(schema: dict[str, Any], node: Any, path: str, seen: tuple[str, ...] = ()) -> Iterator[str]:
    """Every key that a document of a JSON Schema may have, with its place."""
    if isinstance(node, list):
        for one in node:
            yield from keys(schema, one, path, seen)
    elif isinstance(node, dict):
        reference = node.get("$ref", "")
        if reference and reference not in seen:
            target: Any = schema
            for part in reference.removeprefix("#/").split("/"):
                target = target[part]
            yield from keys(schema, target, path, (*seen, reference))
        for name, below in node.get("properties", {}).items():
            yield f"{path}.{name}"
            yield from keys(schema, below, f"{path}.{name}", seen)
        for word, mark in (("items", "[]"), ("additionalProperties", ".*"), ("patternProperties", ".*")):
            below = node.get(word)
            below = list(below.values()) if word == "patternProperties" and below else below
            yield from keys(schema, below, f"{path}{mark}", seen)
        for word in ("anyOf", "oneOf", "allOf", "then", "prefixItems"):
            yield from keys(schema, node.get(word), path, seen)


@pytest.mark.parametrize("path", sorted((ROOT / "schemas").glob("*.json")), ids=lambda path: path.name)
def test_keys_of_the_schemas(path: Path, golden: Callable[[str, str], None]) -> None:
    schema = json.loads(path.read_text(encoding="utf-8"))
    text = "\n".join(sorted({one.lstrip(".") for one in keys(schema, schema, "")}))
    golden(f"compatibility/{path.name.split('.')[0]}-keys.txt", f"{text}\n")


def required(node: Any, path: str = "") -> Iterator[str]:
    """What a document must have, by the place in the schema."""
    if isinstance(node, dict):
        if isinstance(node.get("required"), list):
            yield from (f"{path}: {name}" for name in node["required"])
        for name, below in node.items():
            yield from required(below, f"{path}/{name}")
    elif isinstance(node, list):
        for at, below in enumerate(node):
            yield from required(below, f"{path}/{at}")


def test_a_report_of_version_1_never_needs_a_new_key(golden: Callable[[str, str], None]) -> None:
    """A key that comes later is optional, or reports that were saved before it could not be read."""
    schema = json.loads((ROOT / "schemas" / "report.schema.json").read_text(encoding="utf-8"))
    golden("compatibility/report-required.txt", "".join(f"{line}\n" for line in sorted(required(schema))))


def test_names_in_junit(golden: Callable[[str, str], None]) -> None:
    lines = set()
    for case in ("fail", "warn", "inconclusive", "error"):
        for node in ElementTree.fromstring(EMITTERS["junit"](CASES[case]())).iter():
            told = f" {node.get('name')}" if node.tag in ("testcase", "property", "testsuite") else ""
            lines.add(f"{node.tag}{told}: {', '.join(sorted(node.keys()))}")
    golden("compatibility/junit.txt", "".join(f"{line}\n" for line in sorted(lines)))


def test_the_marker_of_a_comment(golden: Callable[[str, str], None]) -> None:
    """By it a comment of an older version is found and replaced."""
    post = Post("text", job="gate", key="nightly", policy="slo.yaml", name="chat", profile="pr", green=True)
    golden("compatibility/marker.txt", f"{marker(post)}\n")


@pytest.mark.parametrize("path", OLDER, ids=lambda path: path.name)
def test_a_report_of_an_older_version_is_shown_and_compared_with(path: Path) -> None:
    report = saved.load(path.read_bytes(), path.name)
    assert isinstance(report, Report)
    document = json.loads(path.read_bytes())
    assert report.headline == document["headline"]
    for name, emit in EMITTERS.items():
        assert document["policy"]["name"] in emit(report), name
    assert len(read_baseline([str(path)]).runs) == len(document["runs"])
