"""What LoadGen says in its detail log or summary, under the names the summary prints."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec

from ...errors import InputError
from ..source import BROKEN, Source

WHOLE = "run the benchmark again, or copy the file whole"
Said = dict[str, str]  # lower-case label of the summary -> value as text; the first of a label counts

_LINE = re.compile(r"\s*([^:]+?)\s*:\s*(\S.*?)\s*")
_ERRORS = re.compile(r"(\d+) ERRORS? encountered|(No errors) encountered")
_WARNINGS = re.compile(r"(\d+) warnings? encountered", re.IGNORECASE)
_BARE = re.compile(rb'("value": ?)-?(?:nan|inf)\b', re.IGNORECASE)  # C++ prints what JSON has no word for
_MARK = b":::MLLOG"

# detail.txt key -> the summary's label
_LABELS = {
    "loadgen_version": "loadgen_version",
    "test_datetime": "test_datetime",
    "effective_scenario": "scenario",
    "effective_test_mode": "mode",
    "effective_target_qps": "target_qps",
    "effective_min_duration_ms": "min_duration (ms)",
    "effective_min_query_count": "min_query_count",
    "effective_accuracy_log_probability": "accuracy_log_probability",
    "requested_use_token_latencies": "use_token_latencies",
    "requested_server_ttft_latency": "ttft_latency (ns)",
    "requested_server_tpot_latency": "tpot_latency (ns)",
    "generated_samples_per_query": "samples_per_query",
    "result_validity": "result is",
    "result_perf_constraints_met": "performance constraints satisfied",
    "result_min_duration_met": "min duration satisfied",
    "result_min_queries_met": "min queries satisfied",
    "early_stopping_met": "early stopping satisfied",
    "result_invalid_reason": "recommendations",
    "early_stopping_ttft_result": "ttft early stopping result",
    "early_stopping_tpot_result": "tpot early stopping result",
    "early_stopping_result": "early stopping result",
    "result_query_count": "query_count",
    "result_scheduled_samples_per_sec": "scheduled samples per second",
    "result_completed_samples_per_sec": "completed samples per second",
    "result_samples_per_second": "samples per second",
    "result_tokens_per_second": "tokens per second",
    "result_completed_tokens_per_second": "completed tokens per second",
    "result_qps_with_loadgen_overhead": "qps w/ loadgen overhead",
    "result_token_throughput_with_loadgen_overhead": "tps w/ loadgen overhead",
    "num_errors": "num_errors",
}
_STATS = (
    (re.compile(r"result_(\d+(?:\.\d+)?)_percentile_latency_ns"), "{} percentile latency (ns)"),
    (re.compile(r"result_(min|max|mean)_latency_ns"), "{} latency (ns)"),
    (
        re.compile(r"result_first_token_(\d+(?:\.\d+)?)_percentile_latency_ns"),
        "{} percentile first token latency (ns)",
    ),
    (re.compile(r"result_first_token_(min|max|mean)_latency_ns"), "{} first token latency (ns)"),
    (
        re.compile(r"result_time_per_output_token_(\d+(?:\.\d+)?)_percentile_ns"),
        "{} percentile time to output token (ns)",
    ),
    (
        re.compile(r"result_time_(?:to|per)_output_token_(min|max|mean)(?:_ns)?"),
        "{} time per output token (ns)",
    ),
)
_TEXTS = ("recommendations", "ttft early stopping result", "tpot early stopping result")


@dataclass(frozen=True, slots=True)
class Log:
    """One detail log or summary, decoded."""

    source: Source
    said: Said
    errors: int
    messages: Counter[str]  # of the errors, where the log has them
    warnings: int


class _Meta(msgspec.Struct):
    is_error: bool = False
    is_warning: bool = False


class _Entry(msgspec.Struct):
    key: str
    value: msgspec.Raw = msgspec.Raw(b"null")
    metadata: _Meta = msgspec.field(default_factory=_Meta)


def summary(source: Source) -> Log:
    """The summary. Raises InputError when it is empty, of an accuracy run, or ends in the middle."""
    text = bytes(source.data).decode("utf-8-sig", "replace")
    if not text.strip():
        raise _aborted(source, "is empty")
    said = _lines(text)
    if "result is" not in said and _ERRORS.search(text):
        raise _no_performance(source)
    ending = _ERRORS.search(text)
    if ending is None or "result is" not in said:
        raise source.fail("the summary ends in the middle", hint=WHOLE)
    warnings = _WARNINGS.search(text)
    return Log(source, said, int(ending[1] or 0), Counter(), int(warnings[1]) if warnings else 0)


def _lines(text: str) -> Said:
    """Label -> value; a text that stands on the lines below its label is joined to one line."""
    said: Said = {}
    open_label = ""
    for line in text.splitlines():
        label = line.strip().rstrip(":").strip().lower()
        if label in (*_TEXTS, "early stopping result") and line.rstrip().endswith(":"):
            open_label = label
        elif open_label and line.strip() and not line.startswith("="):
            said[open_label] = f"{said.get(open_label, '')} {line.strip().lstrip('* ')}".strip()
        elif found := _LINE.fullmatch(line):
            said.setdefault(_label(found[1]), found[2])
        elif line.startswith("="):
            open_label = ""
    return said


def _label(text: str) -> str:
    label = " ".join(text.split()).lower()
    if not label.startswith(("min", "max", "mean")):
        return label
    return label.replace("time to output token", "time per output token")  # its name until 5.x


def detail(source: Source) -> Log:
    """The detail log. Raises InputError when it is broken, of an accuracy run, or has no results."""
    said: Said = {}
    messages: Counter[str] = Counter()
    warnings = 0
    for number, line in enumerate(bytes(source.data).splitlines(), 1):
        if not line.strip():
            continue
        entry = _entry(source, line, number)
        if entry.metadata.is_error:
            messages[_text(source, entry, number)] += 1
        warnings += entry.metadata.is_warning
        label = _LABELS.get(entry.key) or _stat(entry.key)
        if label is not None and label not in said:
            said[label] = _text(source, entry, number)
    if not said:
        raise _aborted(source, "is empty")
    if said.get("mode") == "AccuracyOnly":
        raise _no_performance(source)
    if "result is" not in said or "num_errors" not in said:
        raise _aborted(source, "ends before LoadGen wrote all its results")
    errors = number_of(source, said, "num_errors") or 0.0
    return Log(source, said, max(int(errors), sum(messages.values())), messages, warnings)


def _entry(source: Source, line: bytes, number: int) -> _Entry:
    if not line.startswith(_MARK):
        raise source.fail("is not a line of LoadGen's detail log", f"line {number}", WHOLE)
    try:
        return msgspec.json.decode(_BARE.sub(rb"\1null", line[len(_MARK) :]), type=_Entry)
    except BROKEN as error:
        cut = "ends in the middle" if "truncated" in str(error) else f"cannot be read: {error}"
        raise source.fail(f"the line {cut}", f"line {number}", WHOLE) from None


def _text(source: Source, entry: _Entry, number: int) -> str:
    try:
        value: Any = msgspec.json.decode(entry.value)
    except BROKEN:
        raise source.fail(f"the value of {entry.key} is not JSON", f"line {number}", WHOLE) from None
    if isinstance(value, bool):
        return "Yes" if value else "NO"
    return "" if value is None else " ".join(str(value).replace(" * ", " ").split())


def _stat(key: str) -> str | None:
    for pattern, label in _STATS:
        if found := pattern.fullmatch(key):
            return label.format(found[1])
    return None


def number_of(source: Source, said: Said, label: str) -> float | None:
    """A number by its label, None where it is not said. Raises InputError for what is no number."""
    text = said.get(label, "")
    if not text or text.lower().lstrip("-") in ("nan", "inf"):
        return None
    try:
        value = float(text)
    except ValueError:
        raise source.fail(f'expected a number, got "{text[:40]}"', label) from None
    if abs(value) > 1e18:  # over thirty years in nanoseconds: nothing measures that
        raise source.fail(f"expected a measurement, got {value:g}", label)
    return value


def _aborted(source: Source, what: str) -> InputError:
    return source.fail(
        f"{what}: the run was aborted, or the file was cut short",
        hint="run the benchmark again; LoadGen writes its results when a run ends",
    )


def _no_performance(source: Source) -> InputError:
    return source.fail(
        "is of an accuracy run and holds no latency", hint="give the logs of the performance run"
    )
