"""Names that tell of failures, whatever they are called: a file must not hide them.

Columns of rows beside or instead of `error`, and the fields in which a file says that its run went wrong.
A column is one by the words of its name (err, fail, success, abort, timeout, valid, status, code, reason),
never by a list of names; the same inside nested objects. They are not read as data, because harnesses mean
different things by them. Where they speak and there is no `error` column, or where `error` is empty and they
say that the row failed, or a word that nobody knows to be a success, the file is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any

from .doc import Doc


class Tells(IntEnum):
    """How a column tells of failures, the plainest first."""

    NOTHING = 0
    GOOD = 1  # the row failed where it says no
    BAD = 2  # where it says anything but no
    FLAG = 3  # where it says yes: numbers are counts or settings (rejected draft tokens, timeout_s)
    CODE = 4  # an HTTP status
    EXIT = 5  # a code whose 0 is well: gRPC, a process
    STATE = 6  # a word, or a code
    ANSWER = 7  # may be the answer itself, or a language: only where it is a word for a failure


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Words run together in small letters (isfailed, errmsg, statuscode): what may stand before and behind a stem.
_BEFORE = r"(?:is|has|was|did|http|https|req|request|res|resp|response|final|last|api|grpc|call|num)*"
_BEHIND = (
    r"(?:s|es|ed|flag|codes?|no|num|msg|messages?|text|types?|details?|reasons?|status|state|str|string|desc"
    r"|description|info|body|name|counts?|rate|kind|class|trace)*"
)


def _stem(*words: str, behind: str = _BEHIND) -> re.Pattern[str]:
    return re.compile(f"{_BEFORE}(?:{'|'.join(words)}){behind}")


_ERROR = _stem("err", "error", "errored", "errno", "exc", "exception", "fault", "traceback", "panic")
_FAIL = _stem(
    *("fail", "failed", "fails", "failing", "failure", "abort", "aborted", "crash", "crashed", "killed"),
    *("refused", "denied", "timedout", "invalid", "unsuccessful", "unhealthy", "broken"),
)
_FLAG = _stem(
    *("rejected", "dropped", "lost", "timeout", "timeouts", "incomplete", "unfinished", "interrupted"),
    *("disconnected", "unreachable", "malformed", "corrupt", "corrupted", "died", "hung", "expired"),
    *("ratelimited", "oom", "cut"),
    behind="",
)
_GOOD = _stem(
    *("success", "succeeded", "successful", "successfully", "succ", "ok", "okay", "valid", "validated"),
    *("pass", "passed", "complete", "completed", "finished", "healthy"),
    behind="(?:flag)?",
)
_STATE = _stem("status", "state", "outcome", "verdict", behind="(?:text|msg|message|str|string|es|s)*")
_CODE = _stem("statuscode", "errorcode", "httpcode", "responsecode", "statuscodes", behind="")
_EXITS = {"exit", "return", "ret", "rc", "grpc", "process"}
_CODES = {"status", "http", "https", "response", "resp", "res", "result", "api", "server", "reply"}
_STATISTICS = {"std", "standard", "margin", "bar", "mean", "relative"}  # std_err is no error
_MEASURES = {"at", "time", "ms", "us", "ns", "s", "sec", "secs", "seconds", "until", "tokens", "token"}
_REASONS = {"finish", "stop", "end", "ending", "termination", "finished", "stopped", "done"}

_NO = {"false", "no", "0", "n", "f"}
_YES = {"true", "yes", "1", "y", "t"}
_BLANK = {"", "null", "none", "nan", "na", "n/a", "-"}
_NOTHING = {*_BLANK, "0", "false", "no", "[]", "{}"}
_SUCCESSES = {
    *("ok", "okay", "success", "successful", "successfully", "succeeded", "succeed", "valid", "good"),
    *("complete", "completed", "done", "finish", "finished", "pass", "passed", "normal", "ended"),
    *("true", "yes", "y", "t", "1", "0"),
    # why a generation ended, in the words of OpenAI, Anthropic, TGI, vLLM, SGLang and TensorRT-LLM
    *("stop", "stopped", "length", "eos", "eos_token", "eos_token_id", "stop_sequence", "stop_token"),
    *("stop_words", "stop_str", "end_turn", "end_id", "max_tokens", "max_length", "max_new_tokens"),
    *("max_output_tokens", "tool_call", "tool_calls", "tool_use", "function_call", "content_filter"),
}
_FAILURES = {
    *("error", "errored", "fail", "failed", "failure", "timeout", "timed_out", "exception", "rejected"),
    *("abort", "aborted", "cancelled", "canceled"),
}
_CANCELLED = {"abort", "aborted", "cancelled", "canceled"}  # no contradiction in a row that is `cancelled`
_HTTP = re.compile(r"(?:https?(?:/\d(?:\.\d)?)?[_:]*)?([1-9])(?:\d\d|xx)(?![a-z0-9.])")
_DEPTH = 8  # of nested objects

FAILED, UNKNOWN, WELL = "failed", "unknown", ""
Cells = Mapping[str, Sequence[Any]]


def is_read(column: str) -> bool:
    """Whether a column is looked at for failures or repeated attempts."""
    return bool(tells(column) or counts_retries(column))


def spoken(cells: Cells) -> frozenset[str]:
    """The telltale columns that say something in some row. What is nested speaks only of failures."""
    return frozenset(
        name
        for name in _used(cells, ())
        if any(cell not in (None, "") and not isinstance(cell, dict) for cell in cells[name])
    )


def denied(
    cells: Cells, nested: Iterable[str], errors: Sequence[str], cancelled: Sequence[bool] | None
) -> tuple[str, int, str] | None:
    """The first row whose `error` is empty though another column says otherwise.

    (column, row, the word that nobody knows, or "" where it says plainly that the row failed). `nested` names
    the columns that hold objects.
    """
    for column in _used(cells, nested):
        judged: dict[tuple[str, str], str] = {}  # most columns repeat a handful of words
        for row, cell in enumerate(cells[column]):
            if cell is None or errors[row]:
                continue
            for path, leaf in leaves(column, cell):
                text = str(leaf)
                if (path, text) not in judged:
                    judged[path, text] = says(tells(path), word(leaf))
                if verdict := judged[path, text]:
                    if cancelled is not None and cancelled[row] and word(leaf) in _CANCELLED:
                        continue
                    return path, row, text.strip()[:40] if verdict == UNKNOWN else ""
    return None


def of_run(doc: Doc) -> str:
    """The field in which a result says that its run went wrong, and how; "" where none does.

    Truth values and words of a state only: numbers are counts, and what nobody knows is somebody's own word.
    """
    for key, raw in doc.fields.items():
        how = Tells.FLAG if "cancel" in key.lower() else tells(key)
        if bytes(memoryview(raw)[:1]) == _STATEMENTS.get(how):
            value = doc.any(key)
            if says(how, word(value)) == FAILED:
                return f"its field {key} is {str(value)[:40].lower()}"
    return ""


_STATEMENTS = {Tells.GOOD: b"f", Tells.BAD: b"t", Tells.FLAG: b"t", Tells.STATE: b'"'}  # how the value begins


def retries(cells: Cells) -> int:
    """How often a request was sent again at most, where a column counts retries or attempts."""
    most = 0
    for name in cells:
        if counted := counts_retries(name):
            numbers = [
                int(text) for cell in cells[name] if (text := word(cell)).isdecimal() and len(text) < 9
            ]
            most = max(most, max(numbers, default=0) - (counted == "attempts"))
    return most


@lru_cache(maxsize=4096)
def counts_retries(column: str) -> str:
    """retries or attempts, where a column counts them; "" for any other."""
    words = {part.lower() for part in _WORD.findall(column)}
    if words & _MEASURES:
        return ""
    if words & {"retry", "retries", "retried", "resends", "nretries"}:
        return "retries"
    return "attempts" if words & {"attempts", "tries"} else ""


def leaves(path: str, cell: object, depth: int = 0) -> Iterator[tuple[str, object]]:
    """Telltales in a cell with their path (`response.status`), itself or inside nested objects."""
    if isinstance(cell, (dict, list)) and depth < _DEPTH:
        parts = cell.items() if isinstance(cell, dict) else ((None, part) for part in cell)
        for key, part in parts:
            yield from leaves(path if key is None else f"{path}.{key}", part, depth + 1)
        if not cell or depth or not tells(path):
            return
    if cell is not None and tells(path):
        yield path, cell


def _used(cells: Cells, nested: Iterable[str]) -> list[str]:
    """Columns that may tell and have a cell, the plainest first."""
    used = [name for name in cells if tells(name) and cells[name].count(None) < len(cells[name])]
    return [*sorted(used, key=tells), *(name for name in nested if not tells(name))]


@lru_cache(maxsize=4096)
def tells(column: str) -> Tells:
    """How a column tells of failures, by the words of its name in any spelling."""
    if column == "error":
        return Tells.NOTHING
    parts = [part.lower() for part in _WORD.findall(column.rpartition(".")[2])]
    words = set(parts)

    def any_is(stem: re.Pattern[str]) -> bool:
        return any(stem.fullmatch(part) for part in parts)

    if (any_is(_ERROR) and not words & _STATISTICS) or any_is(_FAIL) or {"timed", "out"} <= words:
        return Tells.BAD
    if any_is(_FLAG) or {"rate", "limited"} <= words:
        return Tells.NOTHING if words & _MEASURES else Tells.FLAG
    if any_is(_GOOD) and not (words & _MEASURES - {"at"}):
        return Tells.GOOD
    if any_is(_CODE) or parts == ["http"] or ("code" in words and words & _CODES):
        return Tells.CODE
    if parts == ["code"] or ("code" in words and words & _EXITS) or parts in (["rc"], ["returncode"]):
        return Tells.EXIT
    if any_is(_STATE) or ("reason" in words and (words & _REASONS or len(words) == 1)):
        return Tells.STATE
    if parts in (["finishreason"], ["stopreason"]):
        return Tells.STATE
    return Tells.ANSWER if parts == ["result"] else Tells.NOTHING


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


def says(how: Tells, text: str) -> str:
    """FAILED, UNKNOWN or WELL, of a word in a column that tells in this way."""
    if text in _BLANK:
        return WELL
    if how is Tells.GOOD:
        if text in _NO or text in _FAILURES:
            return FAILED
        return WELL if text in _SUCCESSES or text[:1].isdigit() else UNKNOWN  # also a time or a count
    if how is Tells.FLAG:
        return FAILED if text in _YES or text in _FAILURES else WELL
    if how is Tells.BAD:
        return WELL if text in _NO or text in _NOTHING else FAILED
    if how is Tells.ANSWER or (how is Tells.EXIT and not text.lstrip("-").isdecimal()):
        return FAILED if text in _FAILURES or (text.isdecimal() and int(text) >= 400) else WELL
    if text in _FAILURES or text in _NO - {"0"}:
        return FAILED
    # 1 is no code of success; as an HTTP status load tools write 0 where no answer came.
    unclear = {Tells.CODE: ("0", "1"), Tells.EXIT: ("1",)}.get(how, ())
    if text in _SUCCESSES and text not in unclear:
        return WELL
    if code := _HTTP.match(text):
        return WELL if code[1] in "123" else FAILED
    return FAILED if text.isdecimal() and int(text) >= 400 else UNKNOWN
