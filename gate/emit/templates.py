"""Jinja templates, each beside its module. One escape function stands before every value on its way out.

A template joins no `markup` with other text (`~`, `join`): jinja would escape the other text as HTML.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

Escape = Callable[[str], str]  # foreign text as the language of the template shows it, and nothing more


def render(template: Path, escape: Escape, /, **context: Any) -> str:
    """The text of a template; a value that is not made by `markup` passes through `escape`.

    Raises jinja2.UndefinedError for a name that `context` lacks.
    """
    return _environment(template.parent, escape).get_template(template.name).render(context)


def markup(text: str) -> Markup:
    """Text in the language of the template already."""
    from markupsafe import Markup

    return Markup(text)


@cache
def _environment(folder: Path, escape: Escape) -> Environment:
    # Imported here: an output without a template must not pay for it at start-up.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def finalize(value: Any) -> Markup:
        return value if isinstance(value, Markup) else Markup(escape(str(value)))

    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
