"""Reports out: one module a format, each `emit(report) -> str`. They lay out and compute nothing.

A new format is one module here, its name in EMITTERS, its goldens and a section in docs/reports.md.
Modules are light to import: jinja2, junit-xml and rich are loaded by the call that needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..model import AnyReport
from . import json_, junit, markdown, text

Emitter = Callable[[AnyReport], str]

EMITTERS: Mapping[str, Emitter] = {
    "json": json_.emit,
    "junit": junit.emit,
    "markdown": markdown.emit,
    "text": text.emit,
}
