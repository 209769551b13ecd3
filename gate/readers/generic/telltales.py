"""Columns that tell of failures beside or instead of `error`: a file must not hide them.

They are not read as data, because harnesses mean different things by them. Where they speak and there is
no `error` column, or where `error` is empty and they say that the row failed, the file is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_GOOD = (
    "success",
    "succeeded",
    "ok",
    "is_ok",
    "valid",
    "passed",
    "completed",
)  # a row failed where they say no
_BAD = ("failed", "failure", "fail", "is_error", "has_error", "errored", "timed_out", "aborted", "rejected")
_CODES = ("status_code", "http_status", "http_code", "response_code", "error_code", "code")  # from 400 on
_TEXTS = ("error_msg", "error_message", "error_type", "exception", "errors")  # where they say anything
_STATES = ("status", "outcome", "state", "result", "finish_reason")  # by the words below, or a code
NAMES = (*_GOOD, *_BAD, *_CODES, *_TEXTS, *_STATES)

_NO = {"false", "no", "0"}
_YES = {"true", "yes", "1"}
_NOTHING = {"", "null", "none", "nan", "na", "n/a", "-", "0", "false", "no", "[]", "{}"}
_FAILURES = {"error", "errored", "fail", "failed", "failure", "timeout", "timed_out", "aborted", "exception"}


def told(cells: Mapping[str, Sequence[Any]]) -> frozenset[str]:
    """The telltale columns that say something in some row."""
    return frozenset(n for n in NAMES if any(cell not in (None, "") for cell in cells.get(n) or ()))


def denied(cells: Mapping[str, Sequence[Any]], errors: Sequence[str]) -> tuple[str, int] | None:
    """The first row whose `error` is empty though another column says that it failed: (column, row)."""
    for name in NAMES:
        for row, cell in enumerate(cells.get(name) or ()):
            if cell is not None and not errors[row] and _failed(name, _word(cell)):
                return name, row
    return None


def is_error(name: str) -> bool:
    """Whether a column is `error` in other letters (`Error`, `err`, `request.error`), which is not read."""
    return name != "error" and snake(name) in ("error", "err", "request_error")


def snake(name: str) -> str:
    """A column name as it would be written here."""
    apart = "".join(
        f"_{c}" if c.isupper() and i and not name[i - 1].isupper() else c for i, c in enumerate(name)
    )
    return apart.strip().lower().replace("-", "_").replace(" ", "_").replace(".", "_").replace("__", "_")


def _word(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip().lower()


def _failed(name: str, word: str) -> bool:
    if name in _GOOD:
        return word in _NO
    if name in _BAD:
        return word in _YES
    if name in _TEXTS:
        return word not in _NOTHING
    if name == "error_code":
        return word not in _NOTHING
    return (word.isdecimal() and int(word) >= 400) or (name in _STATES and word in _FAILURES)
