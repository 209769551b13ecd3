"""Width-safe lines for a terminal: prose that hangs under its lead, tables that never cut a cell."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from itertools import accumulate

from .tables import Table

GAP = "  "
MOST = 40  # lines of a terminal, unless everything is asked for
_HANG = 24  # columns: a mark and the id of a rule without a condition
# No line ends inside a quantity, nor between an operator and its bound.
_UNIT_GAP = re.compile(r"(?<=\d) (?=(?:us|ms|s|pt|min|req/s|tok/s)\b)|(?<=[<>]=) (?=\S)|(?<= [<>]) (?=\S)")


def prose(text: str, width: int, lead: str, hang: int | None = None) -> list[str]:
    """`text` after `lead`, its further lines indented as deep, or by `hang`; no word is ever cut."""
    wrapped = textwrap.wrap(
        _UNIT_GAP.sub("\0", text),
        max(width, len(lead) + 20),
        initial_indent=lead,
        subsequent_indent=" " * (len(lead) if hang is None else hang),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in wrapped] or [lead]


def rows(line: str, width: int) -> int:
    """Lines of a terminal that wraps it."""
    return max(1, -(-len(line) // width))


def capped(lines: Sequence[str], width: int) -> list[str]:
    """The first MOST lines as a terminal of this width counts them, the last saying what is left out."""
    ends = list(accumulate(rows(line, width) for line in lines))
    if not ends or ends[-1] <= MOST:
        return list(lines)
    kept = [line for line, end in zip(lines, ends, strict=True) if end < MOST]
    return [*kept, f"and {len(lines) - len(kept)} more lines: -v shows them"]


def table(cells: Table, width: int) -> list[str]:
    """Aligned columns where they fit, else one block a row. A file name at the end may stick out.

    A first cell longer than _HANG gets a line of its own where that makes the others fit.
    """
    sizes = [max(map(len, column)) for column in zip(cells.headers, *cells.rows, strict=True)]
    if cells.headers[-1] == "input":
        sizes[-1] = 0
    room = width - sum(sizes[1:]) - len(GAP) * len(sizes)
    if sizes[0] > room:
        sizes[0] = max((len(row[0]) for row in cells.rows if len(row[0]) <= _HANG), default=_HANG)
    if sizes[0] > room:
        return _stacked(cells, width)
    right = [name in cells.numbers for name in cells.headers]
    lines = []
    for first, *rest in (cells.headers, *cells.rows):
        if len(first) > sizes[0]:
            lines.append(GAP + first)
            first = ""
        lines.append(GAP + GAP.join(_align((first, *rest), sizes, right)))
    return lines


def _align(row: Iterable[str], sizes: Iterable[int], right: Iterable[bool]) -> Iterable[str]:
    for cell, size, to_right in zip(row, sizes, right, strict=True):
        yield cell.rjust(size) if to_right else cell.ljust(size)


def _stacked(cells: Table, width: int) -> list[str]:
    lines = []
    for first, *rest in cells.rows:
        lines.append(GAP + first)
        shown = (f"{name} {cell}" for name, cell in zip(cells.headers[1:], rest, strict=True) if cell != "-")
        lines += prose("; ".join(shown), width, "        ")
    return lines
