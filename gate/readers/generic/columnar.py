"""Rows in Parquet and Arrow files (extra `columnar`): only the columns that are used are decoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...errors import InputError
from .. import telltales
from ..source import Source
from ..stored import WHOLE
from .cells import GAP_COLUMNS, KNOWN, NUMBERS, Batch

_ROWS = 65536  # decoded at a time
_HELD_MAX = 4 << 30  # bytes of columns: a small file must not be able to fill the memory


def names(source: Source) -> tuple[str, ...]:
    """The columns of the table. Raises InputError for a damaged file, or where pyarrow is not installed."""
    with _plainly(source):
        return tuple(_schema(source).names)


def batches(source: Source, *, gaps: bool) -> Iterator[Batch]:
    """Some rows at a time. Raises InputError for a damaged file and for cells that are not what ours are."""
    ours = {theirs: name for name, theirs in source.columns.items()}
    with _plainly(source):
        kinds = {field.name: field.type for field in _schema(source)}
    used = [
        name
        for name in names(source)
        if (own := ours.get(name, name)) in KNOWN or telltales.is_read(own) or _holds_keys(kinds[name])
    ]
    used = [name for name in used if gaps or ours.get(name, name) not in GAP_COLUMNS]
    called = [ours.get(name, name) for name in used]
    if twice := sorted(name for name in called if called.count(name) > 1):
        raise source.fail(f'the column "{twice[0]}" is there twice', hint="keep one of them")
    before = held = 0
    with _plainly(source):
        for batch in _record_batches(source, used):
            held += sum(getattr(column, "indices", column).nbytes for column in batch.columns)
            if held > _HELD_MAX:
                raise _too_large(source)
            yield _batch(source, batch, called, before)
            before += batch.num_rows


def _holds_keys(kind: Any) -> bool:
    """Whether cells of a type are objects, or hold some: any key of theirs may tell of a failure."""
    from pyarrow import types

    if types.is_struct(kind) or types.is_map(kind):
        return True
    return types.is_nested(kind) and any(_holds_keys(kind.field(at).type) for at in range(kind.num_fields))


def _too_large(source: Source) -> InputError:
    why = f"holds more than {_HELD_MAX >> 30} GiB of columns"
    return source.fail(why, hint="pass parts of the run as files")


@contextmanager
def _plainly(source: Source) -> Iterator[None]:
    """Raises InputError for whatever pyarrow raises of a file."""
    try:
        import pyarrow
    except ImportError:
        hint = "install the extra `columnar`: python -m pip install pyarrow"
        raise source.fail("is read by a package that is not installed", hint=hint) from None
    try:
        yield
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError, KeyError, TypeError) as error:
        said = str(error).partition("\n")[0][:200]
        raise source.fail(f"the {source.shape} data is damaged or cut short ({said})", hint=WHOLE) from None


def _opened(source: Source, texts: Sequence[str] = ()) -> Any:
    """The file; columns of `texts` stay the codes that they are in it, however often a long one stands."""
    import pyarrow

    content = pyarrow.BufferReader(pyarrow.py_buffer(source.data))
    if source.shape == "arrow":
        return pyarrow.ipc.open_file(content)
    from pyarrow.parquet import ParquetFile

    return ParquetFile(content, read_dictionary=list(texts))


def _record_batches(source: Source, used: Sequence[str]) -> Iterator[Any]:
    schema = _schema(source)
    for name in used:
        _refuse(source, name, schema.field(name).type)
    if source.shape == "arrow":
        file = _opened(source)
        for number in range(file.num_record_batches):
            batch = file.get_batch(number).select(list(used))
            yield from (batch.slice(at, _ROWS) for at in range(0, batch.num_rows, _ROWS))
        return
    file = _opened(
        source, [name for name in used if str(schema.field(name).type) in ("string", "large_string")]
    )
    if file.metadata.num_rows > _HELD_MAX // 8:  # before any of it is decoded
        raise _too_large(source)
    yield from file.iter_batches(_ROWS, columns=list(used), use_threads=False)


def _schema(source: Source) -> Any:
    file = _opened(source)
    return file.schema_arrow if source.shape == "parquet" else file.schema


def _refuse(source: Source, name: str, kind: Any) -> None:
    """Raises InputError where a column of ours holds what is neither a value nor, of gaps, a list."""
    from pyarrow import types

    ours = {theirs: own for own, theirs in source.columns.items()}.get(name, name)
    if ours not in KNOWN:
        return
    is_list = types.is_list(kind) or types.is_large_list(kind)
    value = kind.value_type if is_list or types.is_dictionary(kind) else kind
    if is_list != (ours in GAP_COLUMNS) or types.is_nested(value):
        raise source.fail(f'the column "{name}" is {kind}, which no {ours} is', hint="write one value a row")
    if types.is_temporal(value) and ours in NUMBERS:
        raise source.fail(f'the column "{name}" is {kind}', hint="write it as a number of seconds")


def _batch(source: Source, batch: Any, called: list[str], before: int) -> Batch:
    cells: dict[str, Any] = {}
    numbers: dict[str, Any] = {}
    nested = []
    for name, column in zip(called, batch.columns, strict=True):
        if name in NUMBERS and (values := _floats(column)) is not None:
            numbers[name] = values
        else:
            cells[name] = _objects(column)
            nested += [name] * (
                name not in KNOWN and any(isinstance(cell, (dict, list)) for cell in cells[name])
            )
    return Batch(cells, batch.num_rows, lambda row: f"row {before + row + 1}", tuple(nested), numbers)


def _floats(column: Any) -> Any:
    """A column of numbers, NaN where there is none; None where its cells are texts."""
    import pyarrow
    from pyarrow import compute, types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if not (
        types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind)
    ):
        return None
    plain = compute.cast(column, pyarrow.float64(), safe=False)
    return np.array(plain.to_numpy(zero_copy_only=False), dtype=np.float64)


def _objects(column: Any) -> list[Any]:
    """Cells as Python has them; equal texts are one object, however often they stand."""
    from pyarrow import types

    if types.is_string(column.type) or types.is_large_string(column.type):
        column = column.dictionary_encode()
    if not types.is_dictionary(column.type):
        return list(column.to_pylist())
    codes, places = np.unique(
        column.indices.fill_null(-1).to_numpy(zero_copy_only=False), return_inverse=True
    )
    values = [None if code < 0 else column.dictionary[int(code)].as_py() for code in codes.tolist()]
    return [values[place] for place in places.tolist()]
