"""Reports out: one module a format, `page` for HTML, each `emit(report) -> str`. They compute nothing.

A new format is one module here, its name in EMITTERS, its goldens and a section in docs/reports.md.
A module is imported when its format is wanted; jinja2, junit-xml and rich by the call that needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..model import AnyReport

Emitter = Callable[..., str]  # of a report, and of options that only its format has


def _of(module: str) -> Emitter:
    def emit(report: AnyReport, **options: object) -> str:
        return str(import_module(f".{module}", __name__).emit(report, **options))

    return emit


EMITTERS: Mapping[str, Emitter] = {
    "github": _of("github"),
    "gitlab": _of("gitlab"),
    "html": _of("page"),
    "json": _of("json_"),
    "junit": _of("junit"),
    "markdown": _of("markdown"),
    "openmetrics": _of("openmetrics"),
    "sarif": _of("sarif"),
    "summary": _of("summary"),
    "text": _of("text"),
}
