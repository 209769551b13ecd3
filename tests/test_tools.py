"""`slo-gate tools`: every format that is read, as text and as JSON."""

from __future__ import annotations

import json

import pytest

from gate.errors import Exit
from gate.readers import READERS
from gate.readers.formats import formats
from tests.conftest import Process


def test_every_reader_and_each_of_its_formats_is_listed(slo_gate: Process) -> None:
    done = slo_gate("tools", "-v", COLUMNS="500")
    assert done.returncode == Exit.PASS
    heads = [line for line in done.stdout.splitlines() if line and line[0] != " "]
    assert heads == [f"{reader.NAME}  {reader.TITLE}" for reader in READERS]
    for reader in READERS:
        for one in formats(reader):
            assert one.files.replace("`", "") in done.stdout
            assert one.cannot.replace("`", "") in done.stdout


@pytest.mark.parametrize("width", [60, 80, 132])
def test_the_text_keeps_to_the_width(width: int, slo_gate: Process) -> None:
    lines = slo_gate("tools", "-v", COLUMNS=str(width)).stdout.splitlines()
    for line in lines:
        assert len(line) <= width or len(line.split()) == 1  # a name that is longer stays whole
    assert max(map(len, lines)) > width - 15


def test_without_a_name_each_tool_has_its_flags_in_forty_lines(slo_gate: Process) -> None:
    lines = slo_gate("tools", COLUMNS="80").stdout.splitlines()
    assert len(lines) <= 40
    assert [line.split()[0] for line in lines[1:-2] if line[0] != " "] == [reader.NAME for reader in READERS]
    assert any(line.startswith("vllm ") and "--save-detailed" in line for line in lines)


def test_names_choose_tools(slo_gate: Process) -> None:
    tools = json.loads(slo_gate("tools", "vllm", "llmperf", "--json").stdout)["tools"]
    assert [tool["name"] for tool in tools] == ["vllm", "llmperf"]


def test_json_holds_what_the_readers_say(slo_gate: Process) -> None:
    tools = json.loads(slo_gate("tools", "--json").stdout)["tools"]
    assert [tool["name"] for tool in tools] == [reader.NAME for reader in READERS]
    by_name = {tool["name"]: tool for tool in tools}
    assert by_name["aiperf"]["definitions"]["tpot"].startswith("inter_token_latency = ")  # its word for TPOT
    assert "contains TTFT" in by_name["llmperf"]["definitions"]["itl"]
    assert {one["evidence"] for one in by_name["llmeter"]["formats"]} == {"requests", "aggregate"}


def test_an_unknown_tool_is_refused_with_the_near_name(slo_gate: Process) -> None:
    done = slo_gate("tools", "lmperf")
    assert done.returncode == Exit.USAGE
    assert "did you mean llmperf?" in done.stderr
