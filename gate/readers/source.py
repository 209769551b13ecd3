"""One result file, opened once: its shape and its JSON, decoded as far as it is used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from ..errors import InputError
from .doc import BROKEN as BROKEN, Doc as Doc
from .stored import AGAIN, WHOLE, Buffer, Stored

T = TypeVar("T")
COLUMNAR = ("parquet", "arrow")  # shapes of tables
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MOST_KEYS = 10_000  # of one object: what has more is no result, and every reader would look at each
_TAIL = 4096  # bytes at the end that are looked at
_CHUNK = 2 << 20  # bytes of JSON lines decoded at a time: bounds memory, stays near the caches
# Strings are matched first so that a NaN inside a text is left alone.
_HALF = (  # a high surrogate without its low one, or the other way round
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_CONSTANT = rb'"(?:[^"\\]|\\.)*"|-?\b(?:NaN|nan|Infinity|inf)\b'


class Source(Stored):
    """A result file as JSON, text or bytes, by its shape."""

    @cached_property
    def places(self) -> dict[Any, int | None]:
        """Of lists of kinds that were asked for, the place of this file's; None: it is of none of them."""
        return {}

    @property
    def header(self) -> list[str]:
        """The cells of the first line of a text, as of a plain CSV; empty for anything else."""
        return self.head.partition("\n")[0].rstrip("\r").split(",") if self.shape == "text" else []

    # ---- shape ----------------------------------------------------------------------------

    @cached_property
    def shape(self) -> str:
        """empty, object, objects (JSON lines or appended objects), array, broken, binary, text or COLUMNAR.

        Broken begins like an object and is not JSON: some tools' logs do, so that is no error yet.
        """
        if self.data[:6] == b"ARROW1" or self.data[:4] == b"PAR1":
            return "arrow" if self.data[:1] == b"A" else "parquet"
        start = self.head.lstrip()
        if not start:
            return "empty"
        if start[0] == "{":
            if (first := self._whole_first_line()) is None:
                return self._object_or_objects()
            self._first = first
            return "objects"
        if start[0] == "[":
            return "array"
        return "binary" if "\0" in start else "text"

    def refuse_early(self) -> None:
        """Raises InputError for what no result is and what would take readers long to find out."""
        tail = bytes(self.data[-_TAIL:])
        if self.shape not in ("empty", "binary", *COLUMNAR) and b"\0" in tail:
            raise self.fail("ends in NUL bytes: it was not written to its end", hint=WHOLE)
        if self.shape != "broken" and len(self.keys) > _MOST_KEYS:
            raise self.fail(f"is an object of {len(self.keys):,} keys, which no result is")

    def fault(self) -> InputError | None:
        """What is wrong with the JSON of a file that begins like JSON, if anything."""
        try:
            if self.shape == "broken":
                return self._fault
            if self.shape == "array":
                self.whole(msgspec.Raw)
        except InputError as error:
            return error
        return None

    def _whole_first_line(self) -> dict[str, msgspec.Raw] | None:
        """The fields of the object on the first line, if more follow; else None."""
        end = self.data.find(b"\n")
        if end <= 1 or not self.data[end : end + 4096].strip():
            return None
        try:
            return _OBJECT.decode(self._strict(self.data[:end]))
        except BROKEN:
            return None

    def _object_or_objects(self) -> str:
        try:
            self._first = self._lenient(_OBJECT.decode)
        except BROKEN as error:
            if "trailing characters" not in str(error):
                self._fault = self._broken(error)
                return "broken"
            try:
                self._first = _OBJECT.decode(next(self._split()))
            except (*BROKEN, InputError) as second:
                self._fault = second if isinstance(second, InputError) else self._broken(second)
                return "broken"
            return "objects"
        return "object"

    def _lenient(self, decode: Callable[[Buffer], T]) -> T:
        """`decode` the content; where it is not strict JSON but Python's, with that replaced."""
        try:
            return decode(self.data)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            strict = self._strict(self.data)
            if strict is self.data:
                raise
            return decode(strict)

    @staticmethod
    def _strict(data: Buffer) -> Buffer:
        """What Python's json writes and JSON has not: bare NaN becomes null, bare Infinity the string "inf",

        and half a surrogate pair (a text cut inside an emoji) U+FFFD.
        """
        if re.search(_HALF, data):
            data = re.sub(_HALF, rb"\\ufffd", data)
        if not re.search(rb"[:,\[\s]-?(?:NaN|nan|Infinity|inf)\b", data):
            return data
        import io

        strict, at = io.BytesIO(), 0  # piece by piece: `sub` would keep them all
        for found in re.finditer(_CONSTANT, data):
            if found[0][:1] != b'"':
                strict.write(data[at : found.start()])
                strict.write(_constant(found[0]))
                at = found.end()
        strict.write(data[at:])
        return strict.getvalue()

    # ---- JSON content ---------------------------------------------------------------------

    @property  # not kept: a Doc and its Source would keep each other in memory
    def doc(self) -> Doc:
        """The object, or the first of several. Raises InputError when there is none."""
        if self.shape == "broken":
            raise self._fault
        if self.shape not in ("object", "objects"):
            raise self.fail("holds no JSON object")
        return Doc(self, self._first, "$" if self.shape == "object" else "$[0]")

    @cached_property
    def _first(self) -> dict[str, msgspec.Raw]:
        """Fields of the (first) object; mostly found with the shape, and again once they were let go."""
        if self.shape == "object":
            return self._lenient(_OBJECT.decode)
        first = self._whole_first_line()
        return _OBJECT.decode(next(self._split())) if first is None else first

    @cached_property
    def keys(self) -> frozenset[str]:
        """Top-level keys of the (first) object, or of the first element of an array; else empty."""
        if self.shape in ("object", "objects"):
            return frozenset(self.doc.fields)
        if self.shape == "array":
            try:
                return frozenset(key for item in self.elements(1) for key in _OBJECT.decode(item))
            except (*BROKEN, InputError):
                return frozenset()
        return frozenset()

    @property
    def yaml_keys(self) -> frozenset[str]:
        """Top-level keys of a text that is YAML, by its first 64 KiB."""
        found = re.findall(r"(?m)^(\w+):", self.head) if self.shape == "text" else ()
        return frozenset(found)

    def docs(self) -> Iterator[Doc]:
        """Every object of the file, one after another; `$` in error paths is the object."""
        if self.shape == "object":
            yield self.doc
        elif self.shape == "objects":
            for number, raw in enumerate(self._split()):
                try:
                    yield Doc(self, _OBJECT.decode(raw), f"$[{number}]")
                except BROKEN as error:
                    raise self._broken(error, f"object {number + 1}") from None

    def _split(self) -> Iterator[bytes]:
        data = bytes(self._strict(self.data))
        lines = data.splitlines()
        if all(line.lstrip()[:1] in (b"{", b"") for line in lines):
            yield from (line for line in lines if line.strip())
            return
        # Indented objects appended to one another: the standard library finds where each ends.
        import json

        space = re.compile(r"\s*")
        text, at = data.decode("utf-8", "replace"), 0
        while at < len(text):
            try:
                value, end = json.JSONDecoder().raw_decode(text, at)
            except ValueError as error:
                raise self.fail(f"is not JSON: {error}", hint=WHOLE) from None
            yield msgspec.json.encode(value)
            at = space.match(text, end).end()  # type: ignore[union-attr] # it matches nothing too

    def yaml(self) -> Any:
        """The content of a YAML text as plain Python objects. Raises InputError when it is none."""
        import yaml  # only some formats need it, and it costs start-up time

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            return yaml.load(bytes(self.data), Loader=loader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            at = f"line {mark.line + 1}" if mark else ""
            raise self.fail(f"is not YAML: {getattr(error, 'problem', error)}", at, WHOLE) from None
        except (ValueError, TypeError, RecursionError, OverflowError) as error:
            raise self.fail(f"holds a value that YAML cannot hold: {error}", hint=WHOLE) from None

    def table(self) -> list[list[str]]:
        """The cells of a CSV line by line, empty lines left out.

        Raises InputError where it is none, or a line is not as long as the first.
        """
        import csv  # only some formats need it
        import io

        text = bytes(self.data).decode("utf-8-sig", "replace")
        reader, lines = csv.reader(io.StringIO(text, newline=""), strict=True), list[list[str]]()
        try:
            for line in filter(None, reader):
                if lines and len(line) != len(lines[0]):
                    why = f"has {len(line)} columns, the header {len(lines[0])}"
                    where = f"line {reader.line_num}"
                    raise self.fail(f"{why}: {len(line)} cells are no whole row", where, WHOLE)
                lines.append(line)
        except csv.Error as error:
            raise self.fail(f"is not CSV: {error}", hint=WHOLE) from None
        return lines

    def whole(self, kind: type[T]) -> T:
        """The object of JSON or of YAML as `kind`. Raises InputError for a field of another type."""
        try:
            if self.shape == "text":
                # YAML reads 1e-05, without a dot, as text: not strict.
                return msgspec.convert(self.yaml(), kind, strict=False)
            return self._lenient(msgspec.json.Decoder(kind).decode)
        except BROKEN as error:
            raise self._broken(error) from None

    def elements(self, most: int) -> list[msgspec.Raw]:
        """The first elements of a top-level array, `most` at most; the others are checked and not kept."""
        fields = [(f"element_{number}", msgspec.Raw, msgspec.Raw()) for number in range(most)]
        first = self.whole(msgspec.defstruct("_First", fields, array_like=True))
        return [item for item in msgspec.structs.astuple(first) if item != msgspec.Raw()]

    def array(self, item: type[T]) -> list[T]:
        """The elements of a top-level array, decoded as `item`."""
        try:
            return self._lenient(msgspec.json.Decoder(list[item]).decode)  # type: ignore[valid-type]
        except BROKEN as error:
            raise self._broken(error) from None

    def lines(self, item: type[T]) -> Iterator[list[T]]:
        """JSON lines decoded as `item`, some megabytes at a time."""
        decoder = msgspec.json.Decoder(item)
        for at, chunk in self.chunks():
            try:
                rows = decoder.decode_lines(chunk)
            except BROKEN:
                rows = self.one_by_one(decoder, at, bytes(chunk))
            yield rows

    def chunks(self) -> Iterator[tuple[int, memoryview]]:
        """Whole lines, some megabytes at a time, each with where it begins in `data`."""
        at = 0
        for chunk in self.pieces():
            yield at, chunk
            at += len(chunk)

    def pieces(self, at: int = 0) -> Iterator[memoryview]:
        """Whole lines, some megabytes at a time, from byte `at` on."""
        size = len(self.data)
        view = memoryview(self.data)  # a slice of it is no copy
        while at < size:
            end = min(size, at + _CHUNK)
            if end < size:
                cut = self.data.rfind(b"\n", at, end)
                cut = cut if cut >= 0 else self.data.find(b"\n", end)
                end = cut + 1 if cut >= 0 else size
            yield view[at:end]
            at = end
            self.progressed(at / size)

    def one_by_one(
        self, decoder: msgspec.json.Decoder[T], at: int, chunk: bytes, what: str = "line"
    ) -> list[T]:
        """The slow path: finds the line that is broken, or reads the NaN that is not JSON.

        Raises InputError, with the number of the line, or of what stands on it.
        """
        rows = []
        number = bytes(memoryview(self.data)[:at]).count(b"\n")
        for offset, line in enumerate(chunk.split(b"\n")):
            if not line.strip():
                continue
            try:
                rows.append(decoder.decode(self._strict(line)))
            except BROKEN as error:
                raise self._broken(error, f"{what} {number + offset + 1}") from None
        return rows

    def rows(self, item: type[T]) -> Iterator[list[T]]:
        """Every object of the file as `item`, on one line each or not, some megabytes at a time."""
        if self.shape != "object":
            yield from self.lines(item)
            return
        try:
            yield [msgspec.json.decode(msgspec.json.encode(self.doc.fields), type=item)]
        except BROKEN as error:
            raise self._broken(error, self.doc.at) from None

    def _broken(self, error: Exception, at: str = "") -> InputError:
        text = str(error)
        if isinstance(error, RecursionError):
            return self.fail("the JSON is nested too deeply to be a result", at)
        if isinstance(error, msgspec.ValidationError):
            return self.fail(text[:1].lower() + text[1:], at, AGAIN)
        if "truncated" in text:
            return self.fail("the JSON ends in the middle", at, WHOLE)
        return self.fail(f"is not JSON: {text.removeprefix('JSON is malformed: ')}", at, WHOLE)


def _constant(word: bytes) -> bytes:
    if b"nan" in word.lower():
        return b"null"
    return b'"-inf"' if word[:1] == b"-" else b'"inf"'
