"""docs/policy.md: its examples load, and it names every key there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gate import _schemas, policy

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=[text.split("\n")[0][:30] for text in EXAMPLES])
def test_an_example_loads(example: str) -> None:
    if not example.startswith("version:"):  # a section shown alone: the rest is the smallest policy
        slo = "" if "slo:" in example else "slo: {ttft: {p99: 800ms}}\n"
        example = f"version: 1\n{slo}{example}"
    assert policy.parse(example.encode(), "docs/policy.md").objectives


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 10


def test_every_key_of_the_schema_is_described() -> None:
    properties = _schemas.load("policy")["properties"]
    for name, section in properties.items():
        assert f"\n## `{name}`\n" in PAGE, name
        for key in section.get("properties", {}):
            assert f"`{key}`" in PAGE, f"{name}.{key}"


@pytest.mark.parametrize("name", [name for name in policy.PRESETS if not name.startswith("mlperf-")])
def test_every_preset_is_in_the_table(name: str) -> None:
    assert f"| `{name}` |" in PAGE
