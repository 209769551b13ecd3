"""What a place in a policy takes: how its value is read, and what the JSON Schema says of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from . import _grammar as grammar
from ._problems import suggest
from ._yaml import Node

_MAX_COUNT = 1_000_000_000


class MisfitError(Exception):
    """What a key must be, said after its path; a ValueError says what is wrong with a value."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Scalar(Struct, frozen=True):
    """One value. `parse` raises ValueError or MisfitError; `schema` says the same to an editor."""

    parse: Callable[[Node], Any]
    schema: dict[str, Any]
    unit: str = ""  # of a quantity


class Many(Struct, frozen=True):
    """A list; where it may be `single`, an item alone is a list of one."""

    item: Scalar | Shape
    demand: str  # after "must"
    most: int | None = None  # with at least one
    hint: str = ""
    single: bool = False


class Choice(Struct, frozen=True):
    """Keys of which one must be there, or exactly one."""

    keys: tuple[str, ...]
    none: str  # what a mapping without any of them does
    hint: str
    exactly: bool = False


class Key(Struct, frozen=True):
    """What stands under a key."""

    type: Scalar | Many | Shape
    about: str = ""
    default: str | int | None = None  # as YAML writes it
    required: bool = False
    nullable: bool = False  # only in a profile, where null removes the key


class Shape:
    """A mapping: `keys` and, by name, those that Python can name. Compared by identity, never changed."""

    def __init__(
        self,
        keys: Mapping[str, Key] | None = None,
        *,
        about: str = "",
        choice: Choice | None = None,
        short: str = "",
        word: str = "",
        percentile: Key | None = None,
        noun: str = "",
        refused: Mapping[str, tuple[str, str]] | None = None,
        **more: Key,
    ) -> None:
        self.keys = {**(keys or {}), **more}
        self.about = about
        self.choice = choice
        self.short = short  # a value that is no mapping stands under this key
        self.word = word  # may stand in the place of the mapping
        self.percentile = percentile  # what stands under p50, p99.9 and so on
        self.noun = noun or ("statistic" if percentile else "key")
        self.refused = refused or {}  # keys whose refusal has its own message and hint

    def key(self, name: str) -> Key | None:
        """What stands under `name`; None where nothing may."""
        named = self.keys.get(name)
        return self.percentile if named is None and grammar.percentile(name) is not None else named


Type: TypeAlias = "Scalar | Many | Shape"


def must(type: Type, about: str = "") -> Key:
    """A key that must be there."""
    return Key(type, about, required=True)


def fixed(values: Sequence[str | int], demand: str, hint: str = "", because: str = "") -> Scalar:
    """One of a few values."""

    def parse(node: Node) -> Any:
        boolean = isinstance(node.value, bool) == isinstance(values[0], bool)  # else true would be 1
        if node.value in values and boolean:
            return node.value
        near = suggest(node.value, map(str, values)) if isinstance(node.value, str) else ""
        raise MisfitError(f"must be {demand}, got {node.shown}{because}", hint or near)

    return Scalar(parse, {"enum": list(values)})


def word(*words: str, hint: str = "", because: str = "") -> Scalar:
    """One of a few words."""
    return fixed(words, f"one of {', '.join(words)}", hint, because)


def quantity(unit: str, number: str, suffix: str, demand: str, example: str) -> Scalar:
    """NUMBER [space] UNIT, in the base unit; `number` and `suffix` are patterns."""
    pattern, wanted = f"^{number} *{suffix}$", f'{demand}, like "{example}"'

    def parse(node: Node) -> float:
        return grammar.quantity(_single(node), unit, pattern, wanted)

    about = f"{wanted[0].upper()}{wanted[1:]}."
    return Scalar(parse, {"description": about, **_text(grammar.MAX_QUANTITY, pattern)}, unit)


def count(least: int, word: str = "") -> Scalar:
    """A whole number of things, or a word for it."""
    schema: dict[str, Any] = {"type": "integer", "minimum": least, "maximum": _MAX_COUNT}

    def parse(node: Node) -> int | str:
        if word and node.value == word:
            return word
        if word and isinstance(node.value, str):
            raise MisfitError(f"must be {word} or a whole number, got {node.shown}")
        number = _number(node)
        if number is not None and number >= least and number == int(number):
            return int(number)
        raise ValueError(f"expected a whole number from {least} to a billion, got {node.shown}")

    return Scalar(parse, {"anyOf": [{"enum": [word]}, schema]} if word else schema)


def number(*, zero: bool) -> Scalar:
    """A plain number up to a billion, above 0 or from 0."""

    def parse(node: Node) -> float:
        number = _number(node)
        if number is not None and (number > 0 or (zero and number == 0)):
            return number
        raise ValueError(f"expected a plain number {'from' if zero else 'above'} 0, got {node.shown}")

    least = "minimum" if zero else "exclusiveMinimum"
    return Scalar(parse, {"type": "number", least: 0, "maximum": _MAX_COUNT})


def text(longest: int) -> Scalar:
    """Some text, with runs of white space as one space."""

    def parse(node: Node) -> str:
        value = _single(node)
        if not isinstance(value, str):
            raise ValueError(f'expected text, got {node.shown}; write "{node.shown}" in quotes')
        if len(value) > longest or not re.fullmatch(grammar.TEXT, value):
            raise ValueError(f"expected 1 to {longest} characters of text without control characters")
        return " ".join(value.split())

    return Scalar(parse, _text(longest, grammar.TEXT))


def language(parse_text: Callable[[str], object], **schema: object) -> Scalar:
    """Text in a small language, such as `when` or a day."""

    def parse(node: Node) -> object:
        if not isinstance(node.value, str):
            raise ValueError(f"expected text, got {node.shown}")
        return parse_text(node.value)

    return Scalar(parse, {"type": "string", **schema})


def _text(longest: int, pattern: str) -> dict[str, Any]:
    return {"type": "string", "maxLength": longest, "pattern": pattern}


def _single(node: Node) -> Any:
    if isinstance(node.value, (dict, list)):
        raise ValueError(f"expected one value, got {node.shown}")
    return node.value


def _number(node: Node) -> float | None:
    if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
        return None
    return float(node.value) if node.value <= _MAX_COUNT else None
