"""What fuzzing found once (make fuzz), tried for ever after; and each target takes its own seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import FIXTURES
from tests.fuzz.targets import TARGETS, content

FOUND = sorted(path for path in (FIXTURES / "found").glob("*/*") if path.is_file())


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}-{path.name[:14]}")
def test_what_was_found_is_refused_or_judged(path: Path) -> None:
    TARGETS[path.parent.name].run(content(path))


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_takes_its_seeds(name: str) -> None:
    seeds = TARGETS[name].seeds()
    assert seeds, name
    TARGETS[name].run(seeds[0])
    TARGETS[name].run(seeds[-1][: len(seeds[-1]) // 2])
