"""What a command line asks for that click refuses: its files must not keep an old verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import click

from ..errors import UsageError
from ..remote import shown
from ._shared import FILES


def stated_options(command: click.Command, words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The options with a value that `words` hold, where click could not make sense of them; what may be read.

    A word after an option that is not known is taken for its value. Where options end at the first
    argument (`run`), that of another program is never taken for ours.
    """
    options = {name: one for one in command.params if isinstance(one, click.Option) for name in one.opts}
    found: dict[str, str] = {}
    inputs: list[str] = []  # every word but the names of outputs
    left = iter(words)
    for word in left:
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            inputs.append(word)
            if command.context_settings.get("allow_interspersed_args", True):
                continue
            break
        name, given, value = word.partition("=")
        option = options.get(name)
        if not given and (option is None or not option.is_flag):
            value = next(left, "")
            if option is None and value.startswith("-"):  # an unknown flag
                left = chain((value,), left)
        if option is not None and option.name:
            found[option.name] = _shown(value)
        if option is None or option.name not in FILES:
            inputs.append(value)
    return found, list(map(_shown, (*inputs, *left)))


def _shown(value: str) -> str:
    """The value without what a URL may hold of secrets."""
    try:
        return shown(value)
    except UsageError as error:
        return error.where


def stated_outputs(options: Mapping[str, str]) -> list[tuple[str, str]]:
    """The files that such options ask for."""
    return [
        (name, options[key]) for key, (name, _) in FILES.items() if options.get(key, "-") not in ("", "-")
    ]
