"""The benchmark tools a recipe can be written for: tools.yaml says what each is, and what its words mean."""

from __future__ import annotations

from pathlib import Path

import msgspec


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
    traps: tuple[str, ...]
    notes: tuple[str, ...] = ()  # about its command
    open_loop: bool = True


_FILE = Path(__file__).with_name("tools.yaml")
TOOLS = {tool.name: tool for tool in msgspec.yaml.decode(_FILE.read_bytes(), type=list[Tool], strict=True)}
