"""One mapping of a policy, read key by key; what is wrong is noted with its line and never raised."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from ..model import Level
from . import _grammar as grammar
from ._problems import Problems, suggest
from ._yaml import Node

LEVELS = tuple(level.value for level in Level)
T = TypeVar("T")


class Section:
    """A mapping with known keys. Reading a key that is absent or wrong gives None (or the default)."""

    def __init__(
        self,
        node: Node,
        at: str,
        problems: Problems,
        allowed: Sequence[str] | None = None,
        required: Iterable[str] = (),
    ) -> None:
        self.at = at  # "slo.ttft", "" at the top
        self.line = node.line
        self.problems = problems
        self._entries = node.entries or {}
        if node.entries is None:
            self.problem(node.line, f"must be a mapping of keys, got {node.shown}")
            return
        if not node.entries:
            self.problem(node.line, "is empty", "fill it in or remove it")
        for key, child in node.entries.items():
            if allowed is not None and key not in allowed:
                inside = f" in {at}" if at else ""
                problems.add(child.line, f'unknown key "{key}"{inside}', suggest(key, allowed))
            elif child.value is None:
                self.problem(child.line, "has no value", "fill it in or remove it", key)
        for key in required:
            if key not in node.entries:
                self.problem(node.line, f'lacks the key "{key}"', f"add `{key}:`")

    def __iter__(self) -> Iterator[str]:
        return (key for key, node in self._entries.items() if node.value is not None)

    def __contains__(self, key: str) -> bool:
        return key in self._entries and self._entries[key].value is not None

    def path(self, key: str = "") -> str:
        """The dotted path of a key, for a message."""
        return ".".join(part for part in (self.at, key) if part) or "the policy"

    def problem(self, line: int, message: str, hint: str = "", key: str = "") -> None:
        """Note what is wrong with a key, or with the section."""
        self.problems.add(line, f"{self.path(key)} {message}", hint)

    def node(self, key: str) -> Node | None:
        """The node of a key that has a value."""
        return self._entries[key] if key in self else None

    def at_line(self, key: str) -> int:
        """The line of a key, or of the section where it has none."""
        return self._entries[key].line if key in self._entries else self.line

    def child(
        self, key: str, allowed: Sequence[str] | None = None, required: Iterable[str] = ()
    ) -> Section | None:
        """The mapping under a key."""
        node = self.node(key)
        return None if node is None else Section(node, self.path(key), self.problems, allowed, required)

    def choice(self, key: str, options: Sequence[str], default: str) -> str:
        """One of a few words."""
        node = self.node(key)
        if node is None:
            return default
        if isinstance(node.value, str) and node.value in options:
            return node.value
        hint = suggest(str(node.value), options) if isinstance(node.value, str) else ""
        self.problem(node.line, f"must be one of {', '.join(options)}, got {node.shown}", hint, key)
        return default

    def level(self, default: Level = Level.BLOCK) -> Level:
        """The `level` of the rule: block unless said otherwise."""
        return Level(self.choice("level", LEVELS, default.value))

    def quantity(self, key: str, kind: grammar.Quantity) -> float | None:
        """NUMBER [space] UNIT, in the base unit."""
        return self._parsed(key, lambda value: grammar.quantity(value, kind))

    def _parsed(self, key: str, parse: Callable[[object], T]) -> T | None:
        node = self.node(key)
        if node is None:
            return None
        try:
            if isinstance(node.value, (dict, list)):
                raise ValueError(f"expected one value, got {node.shown}")
            return parse(node.value)
        except ValueError as error:
            self.problems.add(node.line, f"{self.path(key)}: {error}")
            return None

    def whole(self, key: str, least: int = 1) -> int | None:
        """A whole number of things."""

        def parse(value: object) -> int:
            good = isinstance(value, (int, float)) and not isinstance(value, bool) and value == int(value)
            if not good or not least <= int(value) <= grammar.MAX_COUNT:  # type: ignore[call-overload]
                shown = f'"{value}"' if isinstance(value, str) else value
                raise ValueError(f"expected a whole number from {least} to a billion, got {shown}")
            return int(value)  # type: ignore[call-overload,no-any-return]

        return self._parsed(key, parse)

    def number(self, key: str, *, zero: bool = False) -> float | None:
        """A plain number, up to a billion, above 0 (or from 0 where `zero`)."""

        def parse(value: object) -> float:
            real = isinstance(value, (int, float)) and not isinstance(value, bool)
            if real and (0 if zero else 1e-300) <= value <= grammar.MAX_COUNT:  # type: ignore[operator]
                return float(value)  # type: ignore[arg-type]
            shown = f'"{value}"' if isinstance(value, str) else value
            raise ValueError(f"expected a plain number {'from' if zero else 'above'} 0, got {shown}")

        return self._parsed(key, parse)

    def text(self, key: str, longest: int = 500) -> str | None:
        """Some text, with runs of white space as one space."""

        def parse(value: object) -> str:
            if not isinstance(value, str):
                raise ValueError(f'expected text, got {value}; write "{value}" in quotes')
            if len(value) > longest or not re.fullmatch(grammar.TEXT, value):
                raise ValueError(f"expected 1 to {longest} characters of text without control characters")
            return " ".join(value.split())

        return self._parsed(key, parse)

    def parsed_text(self, key: str, parse: Callable[[str], T]) -> T | None:
        """Text in a small language, such as `when` or a day."""

        def checked(value: object) -> T:
            if not isinstance(value, str):
                raise ValueError(f"expected text, got {value}")
            return parse(value)

        return self._parsed(key, checked)
