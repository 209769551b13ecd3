"""`slo-gate explain`: what an objective, a rule, a verdict, a code or a doubt means, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from ..errors import Exit, UsageError
from ._completing import completed
from ._lines import show
from ._shared import columns

_PATH = Path(__file__).with_suffix(".yaml")


def entries() -> Mapping[str, Mapping[str, tuple[str, str, str]]]:
    """Of each kind its words: what each means, why it is said, what to do."""
    import yaml

    found: Mapping[str, Mapping[str, tuple[str, str, str]]] = yaml.safe_load(_PATH.read_text("utf-8"))
    return found


def _names(context: click.Context) -> Iterable[str]:
    return (name for kind in entries().values() for name in kind)


@click.command(name="explain")
@click.argument("name", required=False, shell_complete=completed(_names))
def command(name: str | None) -> int:
    """Say what NAME means, why it is reported and what to do: an objective, rule, verdict, code or doubt.

    Names are as reports have them, such as ttft.p99, evidence.runs, undecided, 4 or not_streamed.
    """
    from ..emit.layout import prose

    width, known = max(60, columns()), entries()
    if name is None:
        for kind, words in known.items():
            show(*prose(", ".join(words), width, f"{kind:12}"))
        return Exit.PASS
    found = {word: said for kind in known.values() for word, said in kind.items()}
    word = _word(name, found)
    show(name if word == name else f"{name} ({word})")
    for lead, text in zip(("means", "why", "do"), found[word], strict=True):
        show(*prose(text, width, f"  {lead:7}"))
    return Exit.PASS


def _word(name: str, found: Mapping[str, object]) -> str:
    """The entry of a name; an objective's is that of its metric. Raises UsageError, with the near one."""
    base = re.sub(r"\[.*", "", name.lower())
    for word in (
        base,
        base.replace("-", "_"),
        *(["mean"] if base.endswith(".mean") else []),
        base.split(".")[0],
    ):
        if word in found:
            return word
    from difflib import get_close_matches  # only when something is wrong: costs start-up time

    near = get_close_matches(base, found, 1)
    hint = f"did you mean `slo-gate explain {near[0]}`?" if near else "`slo-gate explain` lists all names"
    raise UsageError(f'nothing is known of "{name[:60]}"', "slo-gate explain", hint)
