"""A line of history and the name it is stored under.

A line is `{"id":"<SHA-256>",` and the rest of a JSON object. The id is the SHA-256 of the line without its
first key, so that whoever reads it can hold it to its bytes, also where a newer slo-gate has added keys.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import pairwise
from math import isfinite
from typing import Any

import msgspec

from ..errors import InputError, UsageError
from ..model import (
    HISTORY_VERSION,
    Acceptance,
    Check,
    HistoryLine,
    Level,
    RecordedObjective,
    RecordedRun,
    SessionRecord,
    Verdict,
)

MOST_BYTES = 16 << 20  # of a line; a session of 1,000 runs has about 1 MB
NAME = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{64}\.json")
_HEAD = re.compile(rb'\{"id":"([0-9a-f]{64})",')
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LARGEST = 1e18  # as in a report: above it nothing is measured
_MOST_RUNS, _MOST_METRICS = 10_000, 100  # of a session; of a run
_CODES = (0, 1, 4, 5)
_LONGEST = 1_000  # characters of a name
_NEAR = 1e-9


def encode(line: HistoryLine) -> bytes:
    """The line with its id, and a line feed.

    Raises InputError where `faults` names one, and UsageError for text that is no UTF-8.
    """
    if (fault := next(faults(line), "")) != "":
        raise InputError(f"cannot be recorded: {fault}")
    document = msgspec.to_builtins(line)
    document.pop("id", None)
    try:
        rest = msgspec.json.encode(_stated(document))[1:]
    except UnicodeEncodeError:  # a report is JSON: it stands on the command line, or in what CI says
        hint = "write --branch, --tag and --reason in UTF-8"
        raise UsageError("a branch, a tag or a reason is no UTF-8", "", hint) from None
    return b'{"id":"%s",' % hashlib.sha256(b"{" + rest).hexdigest().encode() + rest + b"\n"


def name_of(line: HistoryLine) -> str:
    """The name that a line with an id is stored under: by time, then by id."""
    return f"{line.time.replace('-', '').replace(':', '')}-{line.id}.json"


def _stated(value: Any) -> Any:
    """Without what is null, and without what a load is not."""
    if isinstance(value, dict):
        unsaid = (None, False) if "concurrency" in value else (None,)
        return {key: _stated(item) for key, item in value.items() if not any(item is one for one in unsaid)}
    return [_stated(item) for item in value] if isinstance(value, (list, tuple)) else value


_decoder = msgspec.json.Decoder(HistoryLine)


def decode(data: bytes) -> HistoryLine:
    """The line that `data` holds. Raises ValueError that says what is wrong with it."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    head = _HEAD.match(data)
    if head is None or not data.endswith(b"}\n"):
        raise ValueError("it is no whole line of history")
    if hashlib.sha256(b"{" + data[head.end() : -1]).hexdigest().encode() != head[1]:
        raise ValueError("its id is not the digest of what it says")
    try:
        found: HistoryLine = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, OverflowError) as error:
        raise ValueError(_newer(data) or f"it is no line of history: {error}") from None
    if fault := _newer(data) if found.schema_version != HISTORY_VERSION else next(faults(found), ""):
        raise ValueError(fault)
    return found


class _Version(msgspec.Struct):
    schema_version: int


def _newer(data: bytes) -> str:
    try:
        version = msgspec.json.decode(data, type=_Version).schema_version
    except (msgspec.DecodeError, RecursionError, OverflowError):
        return ""
    return "" if version == HISTORY_VERSION else f"it has version {version}, and this slo-gate knows 1"


# ---- what a line may not say ------------------------------------------------------------------


def faults(line: HistoryLine) -> Iterator[str]:
    """What is wrong with a line, a sentence each; none for a sound one."""
    if line.schema_version != HISTORY_VERSION:
        yield f"its version is {line.schema_version}"
    if not is_time(line.time):
        yield "its time is not like 2027-01-12T08:00:00Z"
    if not _COMMIT.fullmatch(line.commit):
        yield "its commit is no SHA"
    if isinstance(line, Acceptance):
        if not line.sessions or not all(map(_SHA256.fullmatch, line.sessions)):
            yield "it accepts what is no session"
        return
    yield from _session_faults(line)


def is_time(text: str) -> bool:
    """Whether it is a time of UTC to the second."""
    try:
        return bool(_TIME.fullmatch(text)) and datetime.fromisoformat(text[:-1]) is not None
    except ValueError:
        return False


def _session_faults(record: SessionRecord) -> Iterator[str]:
    digests = (record.report_sha256, *(run.sha256 for run in record.runs))
    if not all(map(_SHA256.fullmatch, digests)):
        yield "a digest is no SHA-256"
    if not record.runs:
        yield "it has no run"
    if len(record.runs) > _MOST_RUNS or any(len(run.metrics) > _MOST_METRICS for run in record.runs):
        yield f"it has more than {_MOST_RUNS:,} runs, or {_MOST_METRICS} metrics of one"
    if record.exit_code not in _CODES:
        yield "its exit code is that of no verdict"
    if any(len(text) > _LONGEST for text in _names(record)):
        yield f"a name has more than {_LONGEST:,} characters"
    bounds = (value for one in record.objectives for value in (one.bound, one.observed))
    if not _finite(bounds):
        yield "a bound or what was observed is no number"
    yield from verdict_faults(record.verdict, record.objectives)
    for run in record.runs:
        if fault := next(_run_faults(run), ""):
            yield f"{fault} ({run.input[:80]})"


def verdict_faults(verdict: Verdict, objectives: Iterable[Check | RecordedObjective]) -> Iterator[str]:
    """Where a verdict is not that of its objectives."""
    fails = (one for one in objectives if one.verdict is Verdict.FAIL and one.level is Level.BLOCK)
    stopping = [one.id for one in fails if not one.waived]
    if stopping and verdict is not Verdict.FAIL:
        yield f"{stopping[0]} fails and the verdict is {verdict.value}"
    if verdict is Verdict.FAIL and not stopping:
        yield "the verdict is fail and no blocking objective fails"


def _names(record: SessionRecord) -> Iterator[str]:
    yield from (record.branch, *record.tags, record.policy.name, record.policy.profile or "")
    for run in record.runs:
        facts = (run.tool_version, run.model, run.hardware, run.session, run.interaction)
        yield from (run.tool, *(fact for fact in facts if fact))


def _run_faults(run: RecordedRun) -> Iterator[str]:
    if counts := run.counts:
        numbers = (counts.attempted, counts.completed, counts.failed, counts.cancelled, counts.warmup)
        if not all(0 <= number < _LARGEST for number in numbers):
            yield "a count is no number from 0"
        if counts.attempted != counts.completed + counts.failed:
            yield "completed and failed requests are not those that were attempted"
    if load := run.load:
        rates = (load.request_rate, load.concurrency, load.cap)
        if [load.concurrency is not None, load.request_rate is not None, load.burst].count(True) != 1:
            yield "its load is not one of concurrency, request_rate and burst"
        if any(value is not None and not 0 < value < _LARGEST for value in rates):
            yield "its load is no number above 0"
    amounts = (run.duration_s, run.input_tokens, run.output_tokens)
    if not all(value is None or 0 <= value < _LARGEST for value in amounts):
        yield "a duration or a length is no number from 0"
    if run.goodput is not None and not 0 <= run.goodput <= 1:
        yield "its goodput is no share"
    for name, metric in run.metrics.items():
        steps = [value for value in (metric.p50, metric.p90, metric.p99) if value is not None]
        known = (*steps, metric.mean or 0.0, metric.n or 0)
        if not all(0 <= value < _LARGEST for value in known):
            yield f"{name[:20]} has a value that is no number from 0"
        elif any(later < earlier * (1 - _NEAR) for earlier, later in pairwise(steps)):
            yield f"a higher percentile of {name[:20]} is lower"


def _finite(values: Iterable[float | None]) -> bool:
    return all(value is None or (isfinite(value) and abs(value) < _LARGEST) for value in values)
