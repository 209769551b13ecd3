"""Files of results as JSON has them, and what may be taken from them or made worse, whatever wrote them."""

from __future__ import annotations

import copy
import csv
import gzip
import io
import json
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from msgspec import Struct

LAST = "the last of the objects"  # among what is kept
_DEEP = 5  # how far down keys are looked for
_OBJECTS = 3  # of a list of unequal ones, the keys of these
_LEAST_LINES = 2

Cell: TypeAlias = "tuple[Any, Any]"  # a container and its key: of an object a text, of a list a slice


class Content(Struct, frozen=True):
    """A file that can be written back."""

    path: Path
    suffix: str  # without .gz
    value: Any  # objects, rows, or the lines of a text


def content(path: Path) -> Content | None:
    """What a file holds; None where it is empty, cut short, or bytes that nothing here reads."""
    packed = path.suffix == ".gz"
    suffix = Path(path.stem).suffix if packed else path.suffix
    data = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    try:
        value = _parsed(path, suffix, data)
    except (ValueError, csv.Error, yaml.YAMLError, sqlite3.Error):
        return None
    return Content(path, suffix, value) if value else None


def _parsed(path: Path, suffix: str, data: bytes) -> Any:
    if suffix == ".db":
        with closing(sqlite3.connect(path)) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute("SELECT * FROM result")]
    text = data.decode("utf-8-sig")
    if suffix == ".json" and not text.startswith(":::"):
        return json.loads(text)
    if suffix in (".jsonl", ".ndjson"):
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    if suffix in (".yaml", ".yml"):
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    if suffix == ".csv" and text.count("\n") >= _LEAST_LINES and "\n\n" not in text:
        return list(csv.DictReader(io.StringIO(text)))
    return text.splitlines(keepends=True)


def put(file: Content, value: Any) -> None:
    """The file with another content."""
    file.path.unlink()  # it may be mapped
    if file.suffix == ".db":
        with closing(sqlite3.connect(file.path)) as database:
            names = list(value[0]) if value else ["empty"]
            database.execute(f"CREATE TABLE result({', '.join(names)})")
            marks = ", ".join("?" * len(names))
            rows = [tuple(row.get(name) for name in names) for row in value]
            database.executemany(f"INSERT INTO result VALUES ({marks})", rows)
            database.commit()
        return
    data = _text(file.suffix, value).encode()
    file.path.write_bytes(gzip.compress(data, 1) if file.path.suffix == ".gz" else data)


def _text(suffix: str, value: Any) -> str:
    if suffix in (".yaml", ".yml"):
        return str(yaml.dump(value, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False))
    if suffix == ".csv" and all(isinstance(row, dict) for row in value):
        out = io.StringIO()
        table = csv.DictWriter(out, list(value[0]) if value else ["empty"], extrasaction="ignore")
        table.writeheader()
        table.writerows(value)
        return out.getvalue()
    if suffix in (".jsonl", ".ndjson"):
        return "".join(json.dumps(row) + "\n" for row in value)
    return json.dumps(value) if suffix == ".json" and not _lines(value) else "".join(value)


def _lines(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(line, str) for line in value)


def leaves(value: Any) -> dict[str, set[str]]:
    """Every key with the values it has, as texts; of a text every line."""
    found: dict[str, set[str]] = {}

    def look(inner: Any) -> None:
        if isinstance(inner, dict):
            for key, below in inner.items():
                if not _container(below):
                    found.setdefault(str(key), set()).add(json.dumps(below, default=str))
                look(below)
        elif isinstance(inner, list):
            for below in inner:
                look(below)

    if _lines(value):
        return {line: {line} for line in value}
    look(value)
    return found


def _container(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, dict) for v in value))


# ---- what may be taken away ---------------------------------------------------------------


def cells(value: Any, kept: Collection[str], depth: int = 0) -> Iterator[list[Cell]]:
    """A key of one object, the same key of all objects of a list, the last row, a line of a text.

    Not those of `kept`, nor what holds one of them.
    """
    if _lines(value) and not depth:
        yield from ([(value, slice(n, n + 1))] for n, line in enumerate(value) if line not in kept)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if not _holds(key, inner, kept):
                yield [(value, key)]
            if depth < _DEEP:
                yield from cells(inner, kept, depth + 1)
    elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        if not depth and len(value) > 1 and LAST not in kept:
            yield [(value, slice(-1, None))]
        for key in dict.fromkeys(key for row in value[:_OBJECTS] for key in row):
            rows = [row for row in value if key in row]
            if not _holds(key, [row[key] for row in rows], kept):
                yield [(row, key) for row in rows]
                if len(rows) > 1:
                    yield [(rows[0], key)]
            if depth < _DEEP:
                yield from _below([row[key] for row in rows], kept, depth)


def _below(values: list[Any], kept: Collection[str], depth: int) -> Iterator[list[Cell]]:
    """Of the objects that all rows have under one key: a key of all, a key of the first."""
    if all(isinstance(value, dict) for value in values):
        yield from cells(values, kept, depth + 1)
    else:
        yield from cells(values[0], kept, depth + 1)


def _holds(key: str, value: Any, kept: Collection[str]) -> bool:
    if key in kept:
        return True
    if isinstance(value, dict):
        return any(_holds(inner, below, kept) for inner, below in value.items())
    return isinstance(value, list) and any(
        _holds("", below, kept) for below in value if isinstance(below, (dict, list))
    )


def remove(cell: Cell) -> None:
    del cell[0][cell[1]]


def null(cell: Cell) -> None:
    cell[0][cell[1]] = None


def zero(cell: Cell) -> None:
    cell[0][cell[1]] = type(cell[0][cell[1]])(0)


def shorten(cell: Cell) -> None:
    cell[0][cell[1]] = cell[0][cell[1]][:-1]


Operation: TypeAlias = Callable[[Cell], None]


def operations(cell: Cell) -> tuple[Operation, ...]:
    """What can be done to a cell, and changes it."""
    if isinstance(cell[1], slice):
        return (remove,)
    value, found = cell[0][cell[1]], [remove]
    if value is not None:
        found.append(null)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value:
        found.append(zero)
    if isinstance(value, list) and value:
        found.append(shorten)
    return tuple(found)


def changed(file: Content, chosen: int, operation: Operation, kept: Collection[str]) -> Any:
    """The content of a file with an operation applied to the cells of that number."""
    value = copy.deepcopy(file.value)
    for number, some in enumerate(cells(value, kept)):
        if number == chosen:
            for cell in some:
                if operation in operations(cell):
                    operation(cell)
            break
    return value
