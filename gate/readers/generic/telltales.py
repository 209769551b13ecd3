"""Columns that tell of failures beside or instead of `error`: a file must not hide them.

They are not read as data, because harnesses mean different things by them. Where they speak and there is
no `error` column, or where `error` is empty and they say that the row failed, or a word that nobody knows
to be a success, the file is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

_GOOD = (
    "success",
    "succeeded",
    "ok",
    "is_ok",
    "is_success",
    "valid",
    "passed",
    "completed",
)  # a row failed where they say no
_BAD = ("failed", "failure", "fail", "is_error", "has_error", "errored", "timed_out", "aborted", "rejected")
_CODES = ("status_code", "http_status", "http_code", "response_code", "error_code", "code")
_TEXTS = (  # where they say anything
    "error_msg",
    "error_message",
    "error_type",
    "error_text",
    "error_detail",
    "error_details",
    "error_reason",
    "failure_reason",
    "response_error",
    "exception",
    "exception_type",
    "exception_message",
    "errors",
)
_STATES = ("status", "outcome", "state", "result", "finish_reason")  # by the words below, or a code
NAMES = (*_GOOD, *_BAD, *_CODES, *_TEXTS, *_STATES)
_PREFIXES = ("response", "http", "request", "result", "final")
_PLAIN = {name.replace("_", ""): name for name in NAMES}

_NO = {"false", "no", "0", "n", "f"}
_YES = {"true", "yes", "1", "y", "t"}
_NOTHING = {"", "null", "none", "nan", "na", "n/a", "-", "0", "false", "no", "[]", "{}"}
_BLANK = {"", "null", "none", "nan", "na", "n/a", "-"}
_SUCCESSES = {
    *("ok", "okay", "success", "successful", "successfully", "succeeded", "succeed", "valid", "good"),
    *("complete", "completed", "done", "finish", "finished", "pass", "passed", "normal", "ended"),
    *("true", "yes", "y", "t", "1", "0"),
    # why a generation ended, in the words of OpenAI, Anthropic, TGI, vLLM, SGLang and TensorRT-LLM
    *("stop", "stopped", "length", "eos", "eos_token", "eos_token_id", "stop_sequence", "stop_token"),
    *(
        "stop_words",
        "stop_str",
        "end_turn",
        "end_id",
        "max_tokens",
        "max_length",
        "max_new_tokens",
        "tool_call",
    ),
    *("tool_calls", "tool_use", "function_call", "content_filter"),
}
_FAILURES = {
    *("error", "errored", "fail", "failed", "failure", "timeout", "timed_out", "exception", "rejected"),
    *("abort", "aborted", "cancelled", "canceled"),
}
_CANCELLED = {"abort", "aborted", "cancelled", "canceled"}  # no contradiction in a row that is `cancelled`
_HTTP = re.compile(r"(?:https?(?:/\d(?:\.\d)?)?[_:]*)?([1-9])(?:\d\d|xx)(?![a-z0-9.])")

FAILED, UNKNOWN, WELL = "failed", "unknown", ""


def told(cells: Mapping[str, Sequence[Any]]) -> frozenset[str]:
    """The telltale columns that say something in some row."""
    return frozenset(n for n in _used(cells) if any(cell not in (None, "") for cell in cells[n]))


def denied(
    cells: Mapping[str, Sequence[Any]], errors: Sequence[str], cancelled: Sequence[bool] | None
) -> tuple[str, int, str] | None:
    """The first row whose `error` is empty though another column says otherwise.

    (column, row, the word that nobody knows, or "" where it says plainly that the row failed).
    """
    for column in _used(cells):
        name = named(column)
        judged: dict[str, str] = {}  # most columns repeat a handful of words
        for row, cell in enumerate(cells[column]):
            if cell is None or errors[row]:
                continue
            text = str(cell)
            if text not in judged:
                judged[text] = _says(name, word(cell))
            if says := judged[text]:
                if cancelled is not None and cancelled[row] and word(cell) in _CANCELLED:
                    continue
                return column, row, text.strip()[:40] if says == UNKNOWN else ""
    return None


@lru_cache(maxsize=4096)
def named(column: str) -> str:
    """The telltale that a column is in any spelling (`statusCode`, `response.status`), "" if none."""
    plain = re.sub(r"[^a-z0-9]", "", column.lower())
    while plain not in _PLAIN:
        prefix = next((p for p in _PREFIXES if plain.startswith(p)), "")
        if not prefix:
            return ""
        plain = plain.removeprefix(prefix)
    return _PLAIN[plain]


def _used(cells: Mapping[str, Sequence[Any]]) -> list[str]:
    """The telltale columns with a cell, in the order of NAMES."""
    used = [n for n in cells if named(n) and cells[n].count(None) < len(cells[n])]
    return sorted(used, key=lambda column: NAMES.index(named(column)))


def is_error(name: str) -> bool:
    """Whether a column is `error` in other letters (`Error`, `err`, `request.error`), which is not read."""
    return name != "error" and snake(name) in ("error", "err", "request_error")


def snake(name: str) -> str:
    """A column name as it would be written here."""
    apart = "".join(
        f"_{c}" if c.isupper() and i and not name[i - 1].isupper() else c for i, c in enumerate(name)
    )
    return re.sub(r"[-\s._]+", "_", apart.strip()).lower()


def word(cell: object) -> str:
    """A cell in small letters, words joined by _, a whole number without its point."""
    text = str(cell).strip().lower()
    if text in _NOTHING:
        return text
    if re.fullmatch(r"[-+]?\d+(\.0*)?", text):
        return str(int(float(text)))
    return re.sub(r"[-\s_]+", "_", re.sub(r"^[a-z]\w*\.(?=[a-z_]+$)", "", text))  # Status.OK is ok


def _says(name: str, said: str) -> str:
    if said in _BLANK:
        return WELL
    if name in _GOOD:
        if said in _NO or said in _FAILURES:
            return FAILED
        return WELL if said in _SUCCESSES or said[:1].isdigit() else UNKNOWN  # also a time or a count
    if name == "rejected":  # also a count of draft tokens
        return FAILED if said in _YES else WELL
    if name in _BAD:
        return WELL if said in _NO or said in _NOTHING else FAILED
    if name in _TEXTS or name == "error_code":
        return WELL if said in _NOTHING else FAILED
    if name in ("result", "code") and not said.isdecimal():  # also the answer itself, or a language
        return FAILED if said in _FAILURES else WELL
    if said in _FAILURES or said in _NO - {"0"}:
        return FAILED
    # 0 is well in gRPC's `code`; as an HTTP status load tools write it where no answer came
    if said in _SUCCESSES and not (name in _CODES and (said == "1" or (said == "0" and name != "code"))):
        return WELL
    if code := _HTTP.match(said):
        return WELL if code[1] in "123" else FAILED
    return FAILED if said.isdecimal() and int(said) >= 400 else UNKNOWN
