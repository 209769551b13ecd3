"""YAML in, a tree of nodes out: every value with its line, and nothing read as what it is not.

Built from PyYAML's events and not from its composed nodes: composing recurses on nested input and
hides custom tags, while events let depth, size and aliases be refused as they come.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import yaml
from msgspec import Struct, field
from msgspec.structs import replace

from ..errors import PolicyError
from ._problems import Problems
from ._scalars import Scalar, resolve

MAX_BYTES = 1 << 20
_MAX_NODES = 10_000  # aliases count as what they stand for
_MAX_DEPTH = 50
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Mapping: TypeAlias = "dict[str, Node]"
Sequence: TypeAlias = "list[Node]"


class Node(Struct, frozen=True):
    """A value and its line: that of its key, or its own in a list (from 1)."""

    value: Scalar | Mapping | Sequence
    line: int
    size: int = 1  # nodes in it, aliases expanded

    @property
    def entries(self) -> Mapping | None:
        """Its keys and values when it is a mapping."""
        return self.value if isinstance(self.value, dict) else None

    @property
    def shown(self) -> str:
        """What it is, for a message."""
        if isinstance(self.value, (dict, list)):
            return "a mapping" if isinstance(self.value, dict) else "a list"
        if isinstance(self.value, str):
            return f'"{self.value[:60]}..."' if len(self.value) > 60 else f'"{self.value}"'
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return "nothing" if self.value is None else str(self.value)


def read(data: bytes, path: str) -> Node:
    """The mapping at the top of a policy file.

    Raises PolicyError for anything that is not one plain UTF-8 YAML mapping: another encoding, NUL,
    no content, several documents, a list at the top, tags, aliases that explode or recurse, duplicate
    keys, and scalars that YAML 1.1 and 1.2 read differently.
    """
    problems = Problems(path)
    builder = _Builder(path, problems)
    try:
        for event in yaml.parse(_text(data, path), Loader=_LOADER):
            builder.feed(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}" if mark else path
        hint = "indent with spaces, and put a text that starts with a special character in quotes"
        raise PolicyError(f"is not YAML: {error.problem or error.context}", where, hint) from None
    except yaml.YAMLError as error:  # a character YAML does not allow
        why = str(error).splitlines()[0]
        raise PolicyError(f"is not YAML: {why}", path, "take the character out") from None
    problems.check()
    root = builder.root
    if root is None or root.value is None:
        raise PolicyError("the policy is empty", path, "write `slo-gate init --for chat` into it")
    if root.entries is None:
        message = f"a policy is a mapping of keys, and this is {root.shown}"
        raise PolicyError(message, f"{path}:{root.line}", "start with `version: 1`")
    return root


def plain(node: Node) -> object:
    """The node as Python values, as the published schema sees them."""
    if isinstance(node.value, dict):
        return {key: plain(value) for key, value in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value


def _text(data: bytes, path: str) -> str:
    if len(data) > MAX_BYTES:
        raise PolicyError("is larger than 1 MB, which no policy is", path, "check the path")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PolicyError("is not UTF-8 text", f"{path}:{line}", "save the file as UTF-8") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise PolicyError("holds a NUL character", f"{path}:{line}", "save the file as UTF-8 text")
    return text


class _Frame(Struct):
    """A mapping or list that is still open."""

    line: int
    anchor: str | None
    value: Mapping | Sequence
    key: str | None = None
    key_line: int = 0
    size: int = 1


class _Builder(Struct):
    """Events in, nodes out; a stack instead of recursion."""

    path: str
    problems: Problems
    root: Node | None = None
    stack: list[_Frame] = field(default_factory=list)
    anchors: dict[str, Node] = field(default_factory=dict)
    documents: int = 0

    def feed(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                self._refuse("holds several documents", line, "keep one policy in a file; remove `---`")
        elif isinstance(event, yaml.AliasEvent):
            self._alias(str(event.anchor), line)
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event, line)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self._open(event, line)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            frame = self.stack.pop()
            self._add(Node(frame.value, frame.line, frame.size), frame.anchor)

    def _refuse(self, message: str, line: int, hint: str) -> None:
        raise PolicyError(message, f"{self.path}:{line}", hint)

    def _wants_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1].value, dict) and self.stack[-1].key is None

    def _line(self, own: int) -> int:
        """A value in a mapping stands where its key stands."""
        return self.stack[-1].key_line if self.stack and self.stack[-1].key is not None else own

    def _tagged(self, tag: str | None, line: int) -> None:
        if tag is not None:
            self._refuse(f'the tag "{tag}" is not allowed', line, "policies hold plain values; remove it")

    def _open(self, event: yaml.CollectionStartEvent, line: int) -> None:
        self._tagged(event.tag, line)
        if self._wants_key():
            self._refuse("a key must be plain text", line, "check for `{`, `[` or `?` before the colon")
        if len(self.stack) >= _MAX_DEPTH:
            self._refuse("is nested too deeply", line, "no policy needs more than a few levels")
        mapping = isinstance(event, yaml.MappingStartEvent)
        self.stack.append(_Frame(self._line(line), event.anchor, {} if mapping else []))

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        self._tagged(event.tag, line)
        if self._wants_key():
            self._key(event.value, line)
            return
        value: Scalar = event.value
        if event.style is None or event.style == "":
            value, trap = resolve(event.value)
            if trap:
                self.problems.add(line, *trap)
        self._add(Node(value, self._line(line)), event.anchor)

    def _key(self, key: str, line: int) -> None:
        frame = self.stack[-1]
        if key == "<<":
            self._refuse("YAML merge keys are not supported", line, "write the keys out, or use profiles")
        assert isinstance(frame.value, dict)
        if key in frame.value:
            first = frame.value[key].line
            message = f'duplicate key "{key}": first in line {first}'
            self.problems.add(line, message, "keep one of the two")
        frame.key, frame.key_line = key, line

    def _alias(self, anchor: str, line: int) -> None:
        if self._wants_key():
            self._refuse("a key must be plain text, not an alias", line, "write the key out")
        if any(frame.anchor == anchor for frame in self.stack):
            self._refuse(f'the alias "*{anchor}" stands inside itself', line, "write the value out")
        if anchor not in self.anchors:
            self._refuse(f'the alias "*{anchor}" has no anchor "&{anchor}" before it', line, "add it")
        self._add(replace(self.anchors[anchor], line=self._line(line)), None)

    def _add(self, node: Node, anchor: str | None) -> None:
        if anchor is not None:
            self.anchors[anchor] = node
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        frame.size += node.size
        if frame.size > _MAX_NODES:
            message = f"holds more than {_MAX_NODES:,} values once its aliases are expanded"
            self._refuse(message, node.line, "write the values out instead of repeating aliases")
        if isinstance(frame.value, list):
            frame.value.append(node)
        elif frame.key is not None:
            frame.value[frame.key] = node
            frame.key = None


def walk(node: Node, at: str = "") -> Iterator[tuple[str, Node]]:
    """Every node under `node` with its path, such as `slo.ttft.p99`."""
    yield at, node
    if isinstance(node.value, dict):
        for key, child in node.value.items():
            yield from walk(child, f"{at}.{key}" if at else key)
    elif isinstance(node.value, list):
        for number, child in enumerate(node.value):
            yield from walk(child, f"{at}[{number}]")
