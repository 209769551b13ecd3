"""A policy read by its tables; what is wrong is noted with its line and reads as absent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..model import Level
from . import _grammar as grammar
from ._problems import Problems, suggest
from ._tables import TOP
from ._types import Many, MisfitError, Scalar, Shape, Type
from ._yaml import Node

_MOST_PLACES = 3  # a key of more, such as level, says nothing by its places
_STATISTICS = ("p50", "p90", "p95", "p99")  # what an unknown one is compared with


class Section:
    """A mapping: its values by key, in base units; mappings in it are Sections, lists are lists."""

    def __init__(self, node: Node, at: str, problems: Problems, shape: Shape) -> None:
        self.at = at  # "slo.ttft", "" at the top
        self.line = node.line
        self.problems = problems
        self.shape = shape
        self._values: dict[str, Any] = {}
        self._lines: dict[str, int] = {}
        self.good = True  # what is needed of it is there and right
        if node.entries is not None:
            self._read(node.entries)
        elif shape.short:
            self._add(shape.short, node, at)
        else:
            what = "a mapping of keys" + (f" or {shape.word}" if shape.word else "")
            needed = next((key for key, kind in shape.keys.items() if kind.required), "")
            shown = node.value if needed and _fits(node, shape.keys[needed].type) else None
            hint = (
                f"write {{{needed}: {shown}}}"
                if shown is not None
                else f"its keys are {', '.join(self._known())}"
            )
            self.problem(f"must be {what}, got {node.shown}", hint)

    def _read(self, entries: Mapping[str, Node]) -> None:
        if not entries:
            self.problem("is empty", "fill it in or remove it")
        for key, node in entries.items():
            if self.shape.key(key) is None:
                self._unknown(key, node.line)
            elif node.value is None:
                self.problem("has no value", "fill it in or remove it", key, node.line)
            else:
                self._add(key, node, self.path(key))
        for key, kind in self.shape.keys.items():
            if kind.required and key not in entries:
                self.problem(
                    f'lacks the key "{key}"', f"add `{key}: 1`" if key == "version" else f"add `{key}:`"
                )
        if choice := self.shape.choice:
            named = [key for key in choice.keys if key in self._lines]
            if not named:
                self.problem(choice.none, choice.hint)
            elif choice.exactly and len(named) > 1:
                self.problem(f"names {' and '.join(named)}", choice.hint)

    def _unknown(self, key: str, line: int) -> None:
        inside = f" in {self.at}" if self.at else ""
        message, hint = f'unknown {self.shape.noun} "{key}"{inside}', ""
        if key in self.shape.refused:
            message, hint = self.shape.refused[key]
        elif self.shape.percentile:
            hint = grammar.about_statistic(key)
        self.problems.add(line, message, hint or misplaced(key) or suggest(key, self._known()))

    def _known(self) -> tuple[str, ...]:
        return (*(_STATISTICS if self.shape.percentile else ()), *self.shape.keys)

    def _add(self, key: str, node: Node, at: str) -> None:
        kind = self.shape.key(key)
        assert kind is not None
        self._lines[key] = node.line
        value = _value(node, kind.type, at, self.problems)
        if value is not None:
            self._values[key] = value
        elif kind.required or isinstance(kind.type, Scalar) or self.shape.choice:
            self.good = False

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __getitem__(self, key: str) -> Any:
        """The value of a key. Where it is absent: its default, an empty Section, or None."""
        if key in self._values:
            return self._values[key]
        kind = self.shape.keys[key]
        if isinstance(kind.type, Shape):
            return Section(Node({}, self.line), self.path(key), Problems(""), kind.type)
        if kind.default is None or isinstance(kind.type, Many):
            return None
        return kind.type.parse(Node(kind.default, self.line))

    @property
    def level(self) -> Level:
        """The `level` of the rule."""
        return Level(self["level"])

    def line_of(self, key: str) -> int:
        """The line of a key, or of the section where it has none."""
        return self._lines.get(key, self.line)

    def path(self, key: str = "") -> str:
        """The dotted path of a key, for a message."""
        return ".".join(part for part in (self.at, key) if part) or "the policy"

    def problem(self, message: str, hint: str = "", key: str = "", line: int = 0) -> None:
        """Note what is wrong with a key, or with the section."""
        self.good = False
        self.problems.add(line or self.line_of(key), f"{self.path(key)} {message}", hint)


def misplaced(key: str) -> str:
    """A hint for a key that stands at the wrong level; empty for one that is known nowhere."""
    if grammar.percentile(key) is not None:
        return f"{key} stands under a metric, such as slo.ttft.{key}"
    places = list(dict.fromkeys(_places(TOP, "", key)))
    if "" in places:
        return f'"{key}" is a top-level key: move it to the left margin'
    if not places or len(places) > _MOST_PLACES:
        return ""
    return f'"{key}" is a key of {" and of ".join(places)}: move it there'


def _places(kind: Type, at: str, key: str) -> Iterator[str]:
    """The path of every mapping that has this key."""
    kind = kind.item if isinstance(kind, Many) else kind
    if not isinstance(kind, Shape):
        return
    if key in kind.keys:
        yield at
    for name, inner in kind.keys.items():
        yield from _places(inner.type, f"{at}.{name}".lstrip("."), key)


def _fits(node: Node, kind: Scalar | Many | Shape) -> bool:
    """Whether the value may stand under a key of this type: what a hint writes out must hold."""
    try:
        return isinstance(kind, Scalar) and kind.parse(node) is not None
    except (ValueError, MisfitError):
        return False


def _value(node: Node, kind: Type, at: str, problems: Problems) -> Any:
    """What a node holds; None where it is wrong, which is noted."""
    if isinstance(kind, Many):
        return _items(node, kind, at, problems)
    if isinstance(kind, Shape):
        if kind.word and node.value == kind.word:
            return kind.word
        section = Section(node, at, problems, kind)
        return section if section.good else None
    try:
        return kind.parse(node)
    except MisfitError as misfit:
        problems.add(node.line, f"{at} {misfit}", misfit.hint)
    except ValueError as error:
        problems.add(node.line, f"{at}: {error}")
    return None


def _items(node: Node, kind: Many, at: str, problems: Problems) -> list[Any] | None:
    if not isinstance(node.value, list) and kind.single:
        value = _value(node, kind.item, at, problems)
        return None if value is None else [value]
    if not isinstance(node.value, list) or (kind.most and not 1 <= len(node.value) <= kind.most):
        got = "" if isinstance(node.value, list) else f", got {node.shown}"
        problems.add(node.line, f"{at} must {kind.demand}{got}", kind.hint)
        return None
    items = (_value(item, kind.item, f"{at}[{n}]", problems) for n, item in enumerate(node.value))
    return [item for item in items if item is not None]
