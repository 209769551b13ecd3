"""Nothing but publish opens a connection, and `run`, which scrapes the server that it benchmarks."""

from __future__ import annotations

import ast

from tests.conftest import ROOT

NETWORK = {"socket", "http", "urllib3", "requests", "httpx", "ftplib", "smtplib", "aiohttp", "ssl"}


def test_no_room_that_makes_a_verdict_uses_the_network() -> None:
    users = set()
    for path in (ROOT / "gate").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [node.module]
            if any(name.split(".")[0] in NETWORK or name == "urllib.request" for name in names):
                users.add(path.relative_to(ROOT / "gate").parts[0])
    assert "publish" in users
    # What fetches results, metrics or a history judges nothing.
    assert users <= {"publish", "bench", "live", "remote.py"}
