"""A baseline: result files like any other, or reports that `slo-gate check --json` saved.

A saved report holds P50, P90 and P99 of each run and no requests, so it is never read as a result.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..errors import UsageError
from ..model import (
    METRICS,
    SAVED_REPORT,
    Aggregate,
    Baseline,
    Counts,
    Load,
    RecordedMetric,
    RecordedRun,
    Run,
    Summary,
)
from . import Elsewhere, files, ladders, ours, read
from .source import BROKEN, Source

_MOST_RUNS = 10_000


class _Run(msgspec.Struct):
    input: str
    tool: str
    counts: Counts
    metrics: dict[str, RecordedMetric | None]
    tool_version: str | None = None
    model: str | None = None
    hardware: str | None = None
    session: str | None = None
    interaction: str | None = None
    load: Load | None = None
    duration_s: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None


class _Input(msgspec.Struct):
    sha256: str


class _Saved(msgspec.Struct):
    verdict: str
    runs: list[_Run] = []
    inputs: list[_Input] = []


def read_baseline(
    names: Iterable[str],
    *,
    tool: str | None = None,
    stated: Iterable[str] = (),
    columns: Iterable[str] = (),
    gaps: bool = False,
    ignore: Iterable[str] = (),
    elsewhere: Elsewhere | None = None,
) -> Baseline:
    """Result files, folders and globs as `read` takes them, and saved reports among them.

    Raises InputError and UsageError as `read` does, and for a report that holds no runs.
    """
    names = list(names)
    if "-" in names:
        raise UsageError("a baseline is not read from stdin", "--baseline -", "save it to a file")
    ignore = tuple(ignore)
    sources, notes = files.find(names, ignore=ignore)
    notes = [note for note in notes if note not in map(files.unused, ignore)]  # it was meant for the results
    # The name decides nothing: reports are called anything.
    reports = [source for source in sources if ours.REPORT.match(source.head)]
    results = [source for source in sources if source not in reports]
    runs, reported = _reported(reports, notes)
    if runs and all(files.side_file(one) or ours.kind(one) for one in results):
        results = []  # a sidecar or a policy beside saved reports is no missing result
    if results:
        results_ = [source.name for source in results]
        found = read(results_, tool=tool, stated=stated, columns=columns, gaps=gaps, elsewhere=elsewhere)
        given = {digest for run in found.runs for digest in (run.sha256, run.content_sha256)}
        double = {where for digest, where in reported.items() if digest in given}
        notes += [f"{where}: not counted, a report of results that are given too" for where in sorted(double)]
        runs = [run for run in runs if run.input not in double] + list(found.runs)
        notes += found.notes
    return Baseline(tuple(runs), notes=tuple(notes), reported=reported)


def _reported(sources: Iterable[Source], notes: list[str]) -> tuple[list[Run], dict[str, str]]:
    """The runs of saved reports, of the same results once, and the report each result's digest is in."""
    runs: list[Run] = []
    seen: dict[frozenset[str], str] = {}
    reported: dict[str, str] = {}
    for source in sources:
        saved = _decoded(source)
        measured = frozenset(one.sha256 for one in saved.inputs)
        if measured and measured in seen:
            notes.append(f"{source.name}: skipped, a report of the same results as {seen[measured]}")
            continue
        seen[measured] = source.name
        reported |= dict.fromkeys(measured, source.name)
        runs += [_run(one, source) for one in saved.runs]
    return runs, reported


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
    counts, hint = one.counts, "give the result files"
    if min(counts.attempted, counts.completed, counts.failed) < 0 or (
        counts.attempted != counts.completed + counts.failed
    ):
        raise source.fail(f"the counts of {one.input} contradict each other", hint=hint)
    run = saved_run(one, counts, source.name, source.sha256)
    assert isinstance(run.evidence, Aggregate)
    for name, summary in run.evidence.summaries.items():
        if name in METRICS:
            ladders.check(source, name, summary)
        elif summary.mean is not None and summary.mean < 0:
            raise source.fail(f"{one.input} has a mean of {summary.mean:g} {name}", hint=hint)
    return run


def saved_run(one: _Run | RecordedRun, counts: Counts, name: str, sha256: str) -> Run:
    """A run as a report or a record has it: three percentiles a metric, nearest rank over completed requests.

    `name` and `sha256` are those of the report.
    """
    summaries: dict[str, Summary] = {}
    for metric in METRICS:
        if stated := one.metrics.get(f"{metric}_s"):
            points = ((50, stated.p50), (90, stated.p90), (99, stated.p99))
            summaries[metric] = ladders.ladder(points, mean=stated.mean, n=stated.n)
    for column, mean in (("input_tokens", one.input_tokens), ("output_tokens", one.output_tokens)):
        summaries[column] = Summary(mean=mean)
    return Run(
        name,
        sha256,
        SAVED_REPORT,
        one.tool,
        Aggregate(
            {name: s for name, s in summaries.items() if s.percentiles or s.mean is not None},
            "inverted_cdf",
            settled_by="the result files instead of their report",
        ),
        counts,
        one.tool_version,
        one.model,
        one.hardware,
        one.session,
        one.interaction,
        load=one.load,
        duration_s=one.duration_s,
    )
