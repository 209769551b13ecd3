"""A baseline: result files like any other, or reports that `slo-gate check --json` saved.

A saved report holds P50, P90 and P99 of each run and no requests, so it is never read as a result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import msgspec

from ..errors import UsageError
from ..model import METRICS, SAVED_REPORT, Aggregate, Baseline, Counts, Load, Run, Summary
from . import _side_files, files, read
from .source import BROKEN, Source

_REPORT = re.compile(r'\s*\{\s*"schema_version"\s*:\s*1\s*,\s*"verdict"\s*:')
_METRICS = METRICS
_MOST_RUNS = 10_000


class _Metric(msgspec.Struct):
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    n: int | None = None


class _Load(msgspec.Struct):
    concurrency: int | None = None
    request_rate: float | None = None
    burst: bool = False
    cap: int | None = None
    production: bool = False


class _Counts(msgspec.Struct):
    attempted: int
    completed: int
    failed: int
    cancelled: int = 0
    warmup: int = 0


class _Run(msgspec.Struct):
    input: str
    tool: str
    counts: _Counts
    metrics: dict[str, _Metric | None]
    tool_version: str | None = None
    model: str | None = None
    hardware: str | None = None
    session: str | None = None
    load: _Load | None = None
    duration_s: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None


class _Input(msgspec.Struct):
    path: str
    sha256: str


class _Saved(msgspec.Struct):
    verdict: str
    runs: list[_Run] = msgspec.field(default_factory=list)
    inputs: list[_Input] = msgspec.field(default_factory=list)


def read_baseline(
    names: Iterable[str],
    *,
    tool: str | None = None,
    stated: Iterable[str] = (),
    columns: Iterable[str] = (),
    gaps: bool = False,
) -> Baseline:
    """Result files, folders and globs as `read` takes them, and saved reports among them.

    Raises InputError and UsageError as `read` does, and for a report that holds no runs.
    """
    names = list(names)
    if "-" in names:
        raise UsageError("a baseline is not read from stdin", "--baseline -", "save it to a file")
    sources, notes = files.find(names)
    runs: list[Run] = []
    results: list[Source] = []
    seen: dict[frozenset[str], str] = {}
    reported: dict[str, str] = {}
    for source in sources:
        if not _is_report(source):
            results.append(source)
            continue
        saved = _decoded(source)
        measured = frozenset(one.sha256 for one in saved.inputs)
        if measured and measured in seen:
            notes.append(f"{source.name}: skipped, a report of the same results as {seen[measured]}")
            continue
        seen[measured] = source.name
        reported |= dict.fromkeys(measured, source.name)
        runs += [_run(one, source) for one in saved.runs]
    if runs and all(files.side_file(source, _side_files()) for source in results):
        results = []  # a sidecar or a policy beside saved reports is no missing result
    if results:
        found = read(
            [source.name for source in results], tool=tool, stated=stated, columns=columns, gaps=gaps
        )
        runs += found.runs
        notes += found.notes
    return Baseline(tuple(runs), notes=tuple(notes), reported=reported)


def _is_report(source: Source) -> bool:
    # The name decides nothing: reports are called anything.
    return source.path is not None and bool(_REPORT.match(source.head))


def _decoded(source: Source) -> _Saved:
    hint = "make it again with `slo-gate check RESULTS --json FILE`, or give the result files"
    try:
        saved = msgspec.json.decode(bytes(source.data), type=_Saved)
    except BROKEN as error:
        raise source.fail(f"is no whole report of slo-gate: {error}", hint=hint) from None
    if saved.verdict == "error" or not saved.runs:
        raise source.fail("is a report without a run, so there is nothing to compare with", hint=hint)
    if len(saved.runs) > _MOST_RUNS:
        raise source.fail(f"holds more than {_MOST_RUNS:,} runs", hint="save reports of fewer runs")
    return saved


def _run(one: _Run, source: Source) -> Run:
    """The run as an aggregate: three percentiles a metric, nearest rank over completed requests."""
    counts = one.counts
    if min(counts.attempted, counts.completed, counts.failed) < 0 or (
        counts.attempted != counts.completed + counts.failed
    ):
        raise source.fail(f"the counts of {one.input} contradict each other", hint="give the result files")
    summaries = {
        metric: found
        for metric in _METRICS
        if (stated := one.metrics.get(f"{metric}_s")) and (found := _summary(stated, one, source))
    }
    for column, mean in (("input_tokens", one.input_tokens), ("output_tokens", one.output_tokens)):
        if mean is not None:
            summaries[column] = Summary(mean=_finite(mean, one, source))
    return Run(
        source.name,
        source.sha256,
        SAVED_REPORT,
        one.tool,
        Aggregate(summaries, "inverted_cdf", settled_by="the result files instead of their report"),
        Counts(counts.attempted, counts.completed, counts.failed, counts.cancelled, counts.warmup),
        one.tool_version,
        one.model,
        one.hardware,
        one.session,
        load=_load(one.load),
        duration_s=one.duration_s,
    )


def _summary(stated: _Metric, one: _Run, source: Source) -> Summary | None:
    at = ((50.0, stated.p50), (90.0, stated.p90), (99.0, stated.p99))
    known = tuple((percent, _finite(value, one, source)) for percent, value in at if value is not None)
    values = [value for _, value in known]
    if values != sorted(values):
        raise source.fail(
            f"the percentiles of {one.input} fall from one to the next", hint="give the result files"
        )
    return Summary(known, n=stated.n) if known else None


def _finite(value: float, one: _Run, source: Source) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise source.fail(f"{one.input} has a value of {value:g}", hint="give the result files")
    return value


def _load(said: _Load | None) -> Load | None:
    if said is None or (said.concurrency is None and said.request_rate is None and not said.burst):
        return None
    return Load(said.concurrency, said.request_rate, said.burst, said.production, said.cap)
