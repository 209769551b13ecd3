"""`slo-gate export`: results of any tool as one table of requests."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import __version__, disk
from ..errors import Exit, UsageError
from ._lines import tell
from ._shared import keep_inputs, named, no_sidecar, read_results, reading_options

if TYPE_CHECKING:
    import pyarrow

    from ..canonical import Column

_HOW = "name a file .parquet, .arrow, .csv or .jsonl"
_INSTALL = "install the extra `columnar`: python -m pip install pyarrow; or write .csv or .jsonl"


@click.command(name="export")
@click.argument("results", nargs=-1, type=named)
@reading_options
@click.option(
    "-o",
    "--output",
    type=named,
    metavar="FILE",
    required=True,
    help="A .parquet, .arrow, .csv or .jsonl file; - is JSON lines on stdout.",
)
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(**options: Any) -> int:
    """Write RESULTS of any tool as one table, a row a request: for DuckDB, pandas, Grafana, and `check`."""
    from ..canonical import tables

    target = options["output"]
    ending = ".jsonl" if target == "-" else Path(target).suffix.lower()
    if ending not in _WRITERS:
        raise UsageError(f'"{ending}" is no format of a table', target, _HOW)
    keep_inputs(options, [target])
    no_sidecar(target)
    reading = read_results(options, "name one: `slo-gate export RESULTS -o requests.parquet`", gaps=True)
    try:
        exported = list(tables(reading.runs, __version__))
        content = _WRITERS[ending](exported)
    except ImportError:
        raise UsageError(
            f"{ending[1:]} is written by a package that is not installed", target, _INSTALL
        ) from None
    if target == "-":
        sys.stdout.buffer.write(content)
        return Exit.PASS
    try:
        with disk.to_write(target) as file:
            disk.fill(file, content)
    except OSError as error:
        raise UsageError(
            f"cannot be written: {error.strerror or error}", target, "name another file"
        ) from None
    rows = sum(len(table["run"]) for table in exported)
    tell(f"wrote {target}: {rows:,} requests of {len(reading.runs)} run{'s' * (len(reading.runs) > 1)}")
    return Exit.PASS


Tables = Sequence[Mapping[str, "Column"]]


def _names(tables: Tables) -> list[str]:
    """The columns of all runs, in the order of the first that has each; the facts stand last."""
    names = dict.fromkeys(name for table in tables for name in table)
    return [*(name for name in names if name != "slo_gate"), "slo_gate"]


def _rows(tables: Tables) -> Iterator[dict[str, Any]]:
    """Rows as texts have them: no cell where there is no value, the facts of a run in its first row only."""
    for table in tables:
        columns = {name: _cells(column) for name, column in table.items()}
        for row in range(len(columns["run"])):
            cells = {name: column[row] for name, column in columns.items() if column[row] not in (None, "")}
            if row:
                cells["slo_gate"] = ""  # each row says what it is, wherever it will stand
            yield cells


def _cells(column: Column) -> list[Any]:
    """Plain values: None for NaN, a whole number without its .0, a list of gaps as a list."""
    import numpy as np

    if column.dtype == object:
        return [cell.tolist() if isinstance(cell, np.ndarray) else cell for cell in column.tolist()]
    if column.dtype != float:
        return list(column.tolist())
    whole = np.isfinite(column) & (column == np.floor(column)) & (np.abs(column) < 2**53)
    return [
        None if cell != cell else int(cell) if integer and not (cell == 0 and np.signbit(cell)) else cell
        for cell, integer in zip(column.tolist(), whole.tolist(), strict=True)
    ]


def _jsonl(tables: Tables) -> bytes:
    import msgspec

    encoder, found = msgspec.json.Encoder(), io.BytesIO()
    for row in _rows(tables):
        found.write(encoder.encode(row))
        found.write(b"\n")
    return found.getvalue()


def _csv(tables: Tables) -> bytes:
    import csv

    found = io.StringIO(newline="")
    names = [name for name in _names(tables) if name != "itl_s"]  # a cell holds no list
    writer = csv.DictWriter(found, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(_rows(tables))
    return found.getvalue().encode()


def _parquet(tables: Tables) -> bytes:
    from pyarrow import parquet

    found = io.BytesIO()
    parquet.write_table(_arrow_table(tables), found, compression="zstd")
    return found.getvalue()


def _arrow(tables: Tables) -> bytes:
    import pyarrow

    found, table = io.BytesIO(), _arrow_table(tables)
    with pyarrow.ipc.new_file(found, table.schema) as writer:
        writer.write_table(table)
    return found.getvalue()


def _arrow_table(tables: Tables) -> pyarrow.Table:
    import numpy as np
    import pyarrow

    text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())

    def column(table: Mapping[str, Column], name: str, kind: Any) -> Any:
        size = len(table["run"])
        if name not in table:
            return pyarrow.nulls(size, kind)
        cells = table[name]
        if kind == text:
            return pyarrow.array(
                [cell or None for cell in cells.tolist()], pyarrow.string()
            ).dictionary_encode()
        if kind == pyarrow.float64():
            return pyarrow.array(cells, mask=np.isnan(cells))
        return pyarrow.array(cells.tolist() if cells.dtype == object else cells, kind)

    kinds = {}
    for name in _names(tables):
        code = next(table[name].dtype.char for table in tables if name in table)
        listed = pyarrow.list_(pyarrow.float64()) if name == "itl_s" else text
        kinds[name] = {"O": listed, "?": pyarrow.bool_()}.get(code, pyarrow.float64())
    schema = pyarrow.schema(kinds.items(), {"slo_gate": f"slo-gate export {__version__}"})
    parts = [
        pyarrow.table([column(table, name, kind) for name, kind in kinds.items()], schema=schema)
        for table in tables
    ]
    return pyarrow.concat_tables(parts).unify_dictionaries()


_WRITERS: Mapping[str, Callable[[Tables], bytes]] = {
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".csv": _csv,
    ".jsonl": _jsonl,
}
