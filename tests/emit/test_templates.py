"""The one place that makes text of templates: no value passes it unescaped."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from jinja2 import UndefinedError

from gate.emit.templates import markup, render
from gate.recipe import TOOLS
from tests.conftest import ROOT

SHELL = "{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %}printf '%s\\0' {{ a }} {{ twice(a) }} {{ b ~ a }}\n"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("templates") / "words.sh.j2"
    path.write_text(SHELL)
    return path


@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=20))
def test_a_shell_sees_every_value_as_one_word(shell: Path, text: str) -> None:
    script = render(shell, shlex.quote, a=text, b="-")
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert done.stdout.decode() == f"{text}\0{text}{text}\0-{text}\0"


def test_only_markup_passes_as_it_is_and_a_forgotten_value_is_an_error(shell: Path) -> None:
    assert render(shell, shlex.quote, a=markup("$x"), b="").startswith("printf '%s\\0' $x $x$x ")
    with pytest.raises(UndefinedError, match="'b' is undefined"):
        render(shell, shlex.quote, a="x")


def test_every_tool_has_its_command_and_no_template_is_left_over() -> None:
    clients = {path.name for path in (ROOT / "gate" / "recipe" / "templates" / "clients").iterdir()}
    assert clients == {f"{name}.sh.j2" for name in TOOLS}
