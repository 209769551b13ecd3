"""The benchmark tools a recipe can be written for: tools.yaml says what each is, and what its words mean."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

# How a tool draws lengths: uniform around the mean (alike: by one ratio for prompts and answers), below the
# longest or between two, normal and cut off at one token, normal and drawn again below it. Lengths that a
# tool is not told are those of its data set.
Draws: TypeAlias = Literal["around", "alike", "below", "between", "cut off", "again", "data set"]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One benchmark tool, for people."""

    name: str
    title: str
    version: str
    python: str  # that it runs on
    install: str  # a shell command
    installed: str = ""  # a shell command that says the version as its last word; "" where the files do
    why: str
    definition: str  # its TPOT and ITL
    differs: str  # from ours
    writes: frozenset[str]  # facts its files hold; bench.sh puts the others beside them
    draws: Draws
    cannot_show: frozenset[str] = frozenset()  # metrics and rules that its files never decide, as in policies
    traps: tuple[str, ...]
    notes: tuple[str, ...] = ()  # about its command
    open_loop: bool = True


_FILE = Path(__file__).with_name("tools.yaml")
TOOLS = {tool.name: tool for tool in msgspec.yaml.decode(_FILE.read_bytes(), type=list[Tool], strict=True)}
# Tools whose results are read and for which no benchmark can be written: why.
OTHERS = {
    "genai-bench": "it draws lengths and prompts without a seed, so that two sides never get the same work",
    "llmeter": "it is a Python library without a command: call it from a script of your own",
    "llm-load-test": "it runs for a time, not for a number of requests, with the lengths of its data set",
    "lmbenchmark": "its chats have one answer length and a history that grows, not lengths with a spread",
}
RULES = ("ttft", "tpot", "e2e", "error_rate", "input_tokens", "output_tokens", "prompts")
SHORT = {"error_rate": "errors", "input_tokens": "input", "output_tokens": "output"}  # eighty columns


def proofs() -> list[list[str]]:
    """Which rules the files of each tool can prove, as cells under a head."""
    head = ["client", "version", "open", *(SHORT.get(rule, rule) for rule in RULES)]
    rows = [
        [one.name, one.version, _yes(one.open_loop), *(_yes(rule not in one.cannot_show) for rule in RULES)]
        for one in TOOLS.values()
    ]
    return [head, *rows]


def _yes(can: bool) -> str:
    return "yes" if can else "no"
