"""The pages about what-if and tails: every command is run, every line they show is what it prints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, Process

PAGES = [ROOT / "docs" / name for name in ("whatif.md", "tail-exercise.md")]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(page: Path | str) -> Iterator[tuple[list[str], list[str]]]:
    """(words, lines shown) of every `$ ` line in the console blocks of a page, or of its text."""
    text = page.read_text(encoding="utf-8") if isinstance(page, Path) else page
    for block in BLOCK.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, *shown = part.rstrip("\n").split("\n")
            yield shlex.split(line), shown


def shows(shown: list[str], printed: list[str]) -> bool:
    """Whether `shown` is `printed`; a line `...` stands for any lines, ` ...` at an end for its rest."""
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(shows(shown[1:], printed[skipped:]) for skipped in range(len(printed) + 1))
    if not printed:
        return False
    start = shown[0].removesuffix(" ...")
    same = printed[0].startswith(start) if start != shown[0] else printed[0] == start
    return same and shows(shown[1:], printed[1:])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_the_page_shows_is_what_its_commands_print(
    page: Path, slo_gate: Process, tmp_path: Path
) -> None:
    ran = 0
    for words, shown in commands(page):
        if words[0] == "cat":
            (tmp_path / words[1]).write_text("\n".join(shown) + "\n", encoding="utf-8")
            continue
        assert words[0] == "slo-gate"
        done = slo_gate(*words[1:])
        assert done.returncode in (0, 1, 4), done.stderr
        printed = done.stdout.splitlines()
        assert shows(shown, printed), f"{shlex.join(words)} prints:\n{done.stdout}"
        ran += 1
    assert ran >= 2


def test_a_page_that_shows_another_line_would_be_found() -> None:
    assert shows(["a", "...", "c"], ["a", "b", "b", "c"])
    assert not shows(["a", "...", "d"], ["a", "b", "c"])
    assert not shows(["a"], ["a", "b"])
    assert shows(["a b ...", "d"], ["a b c", "d"])
    assert not shows(["a c ..."], ["a b c"])


def test_the_tail_exercise_says_in_words_what_its_tables_say() -> None:
    """Figures in the prose are figures of the console blocks, so that neither can change alone."""
    text = (ROOT / "docs" / "tail-exercise.md").read_text(encoding="utf-8")
    shown = "\n".join(BLOCK.findall(text))
    prose = BLOCK.sub("", text)
    figures = re.findall(r"\*\*([\d.,]+(?: ms| s|%))\*\*", prose)
    assert len(figures) >= 6
    for figure in figures:
        assert figure in shown, figure
