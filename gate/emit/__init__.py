"""Reports out: one module a format, each `emit(report) -> str`. They lay out and compute nothing.

A new format is one module here, its name in EMITTERS, its goldens and a section in docs/reports.md.
A module is imported when its format is wanted; jinja2, junit-xml and rich by the call that needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from ..model import AnyReport

Emitter = Callable[[AnyReport], str]


def _of(module: str) -> Emitter:
    def emit(report: AnyReport) -> str:
        return str(import_module(f".{module}", __name__).emit(report))

    return emit


EMITTERS: Mapping[str, Emitter] = {
    "json": _of("json_"),
    "junit": _of("junit"),
    "markdown": _of("markdown"),
    "text": _of("text"),
}
