"""Rules every reader shares: which row failed, what a set of rows counts, what failed with what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from ..model import Bools, Floats, Gaps, Requests, Status

_TOLERANCE_S = 1e-6  # clocks: an E2E this much below its TTFT is rounding, not a contradiction
# Cells of rows. Beyond the limits lies no measurement, and sums would overflow.
Cell = Annotated[float, Meta(ge=-1e12, le=1e12)] | Literal["inf", "-inf"] | None
Tokens = Annotated[float, Meta(ge=0, le=1e12)] | None
MISMATCH = 0.05  # two token counts further apart than this are worth a note


def requests(
    *,
    errors: Bools,
    ttft_s: Floats | None,
    e2e_s: Floats | None,
    output_tokens: Floats | None,
    input_tokens: Floats | None = None,
    start_s: Floats | None = None,
    cancelled: Bools | None = None,
    warmup: Bools | None = None,
    gaps: Gaps | None = None,
    order: str = "unknown",
) -> Requests:
    """Columns of n rows with their status, by DESIGN section 1.

    Failed is what the tool marked in `errors`, a row without an output token, and a row whose
    TTFT or E2E is missing though recorded for others, NaN, infinite, zero, negative, or E2E < TTFT.
    A column without one value is None: the tool never recorded it. Hand `output_tokens` over as None only
    where the rows have no such field: one that is empty in every row says that no token was made.
    """
    silent = _silent(output_tokens, ttft_s, e2e_s)
    ttft_s, e2e_s, output_tokens, input_tokens, start_s = (
        _recorded(column) for column in (ttft_s, e2e_s, output_tokens, input_tokens, start_s)
    )
    failed = errors.copy()
    for column in (ttft_s, e2e_s):
        if column is not None:
            failed |= ~((column > 0) & np.isfinite(column))
    if ttft_s is not None and e2e_s is not None:
        failed |= e2e_s < ttft_s - _TOLERANCE_S
    tokenless = silent & ~failed if silent is not None else None
    if silent is not None:
        failed |= silent
    status = np.where(failed, Status.FAILED, Status.COMPLETED).astype(np.uint8)
    if cancelled is not None:
        status[cancelled] = Status.CANCELLED
    if warmup is not None:
        status[warmup] = Status.WARMUP
    return Requests(
        *(status, ttft_s, e2e_s, output_tokens, input_tokens, start_s, gaps, order),
        tokenless=tokenless if tokenless is not None and tokenless.any() else None,
    )


def _silent(output_tokens: Floats | None, ttft_s: Floats | None, e2e_s: Floats | None) -> Bools | None:
    """Rows without an output token: a count of 0, and no count at all where no row shows a token.

    A first token is one: rows that have a TTFT and no count are not silent, their count is unknown. It is
    none where tools write the E2E for it, as for each embedding.
    """
    if output_tokens is None:
        return None
    silent: Bools = ~(output_tokens > 0) & ~np.isnan(output_tokens)
    if not (output_tokens > 0).any():
        first = np.zeros_like(silent) if ttft_s is None else np.isfinite(ttft_s)
        if ttft_s is not None and e2e_s is not None and (ttft_s == e2e_s)[(ttft_s > 0) & (e2e_s > 0)].all():
            first[:] = False
        silent |= ~first
    return silent


def _recorded(column: Floats | None) -> Floats | None:
    return None if column is None or not np.isfinite(column).any() else column


def column(cells: Iterable[float | str | None]) -> Floats:
    """Cells as numbers; null and infinity, which Source spells as a text, are NaN."""
    known = [np.nan if cell is None or isinstance(cell, str) else cell for cell in cells]
    return np.array(known, dtype=np.float64)


def table(
    rows: Sequence[Struct],
    *,
    errors: Iterable[bool],
    per_second: float = 1.0,
    order: str = "unknown",
    warmup: Bools | None = None,
    **fields: str,
) -> Requests:
    """Decoded rows as columns: `fields` names the field of each column, "" one that is not there.

    Times become seconds; a field named with a dash in front is in seconds already.
    """
    columns: dict[str, Any] = {"ttft_s": None, "e2e_s": None, "output_tokens": None}
    for name, field in fields.items():
        if not field:
            continue
        cells = column(map(attrgetter(field.lstrip("-")), rows))
        columns[name] = cells / per_second if name.endswith("_s") and field[0] != "-" else cells
    failed = np.fromiter(errors, np.bool_, len(rows))
    return requests(errors=failed, order=order, warmup=warmup, **columns)


def gaps(lists: Sequence[Floats]) -> Gaps | None:
    """The gaps of each row, in seconds; None where no row has one."""
    values = np.concatenate(lists) if lists else np.empty(0)
    return Gaps(values, np.cumsum([0, *map(len, lists)])) if values.size else None


def gaps_between(times: Iterable[Sequence[float]], per_second: float = 1.0) -> Gaps | None:
    """The same of the times the chunks came at. Whole ones are subtracted as such: nanoseconds survive."""
    return gaps([np.diff(np.array(each)) / per_second for each in times])


def different(texts: Iterable[str | None]) -> int | None:
    """How many prompt texts there are; None where a row does not hold its own."""
    found = set(texts)
    return None if not found or None in found else len(found)


def output_total(rows: Requests) -> float | None:
    """Output tokens of the completed rows, where every one has a count."""
    if rows.output_tokens is None:
        return None
    total = float(rows.output_tokens[rows.status == Status.COMPLETED].sum())
    return None if np.isnan(total) else total


def failures(rows: Requests, messages: Sequence[str] | NDArray[np.object_]) -> Counter[str]:
    """What the failed rows failed with.

    `messages` has one text a row; an empty one (a row the tool believes succeeded) is named so.
    """
    failed = np.flatnonzero(rows.status == Status.FAILED).tolist()
    return Counter(_short(messages[row]) for row in failed)


def failure_kinds(kinds: Mapping[str, int]) -> tuple[str, ...]:
    """One note that says how many requests failed with each text, the most frequent first."""
    if not sum(kinds.values()):
        return ()
    shown = ", ".join(f"{text} x{number}" for text, number in Counter(kinds).most_common(3))
    more = f" and {len(kinds) - 3} more kinds" if len(kinds) > 3 else ""
    return (f"{sum(kinds.values())} failed: {shown}{more}",)


def _short(message: str) -> str:
    lines = message.strip().splitlines()
    text = lines[-1].strip() if lines else ""
    if not text:
        return "no valid TTFT, E2E or output token though not marked as an error"
    return text if len(text) <= 80 else text[:77] + "..."


def lengths_note(usage: float | None, other: float | None, whose: str) -> tuple[str, ...]:
    """A note when two means of output tokens a request, the server's and another's, are over 5 % apart."""
    if not usage or other is None or abs(other - usage) <= MISMATCH * usage:
        return ()
    return (f"output tokens a request: the server's usage says {usage:.4g}, {whose} {other:.4g}",)


def token_note(rows: Requests, other: Floats | None, mine: str, others: str) -> tuple[str, ...]:
    """A note when another count of the same completed rows' output tokens is over 5 % away."""
    if rows.output_tokens is None or other is None:
        return ()
    both = (rows.status == Status.COMPLETED) & np.isfinite(rows.output_tokens) & np.isfinite(other)
    used, seen = float(rows.output_tokens[both].sum()), float(other[both].sum())
    if not used or abs(seen - used) <= MISMATCH * used:
        return ()
    return (f"output tokens: {mine} says {used:.0f}, {others} says {seen:.0f}; {mine} is used",)
