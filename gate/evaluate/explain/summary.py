"""What the report shows beside verdicts: metrics, goodput with its misses, one row a run."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from ... import stats, units
from ...model import (
    METRICS,
    Aggregate,
    Check,
    Counts,
    Floats,
    Goodput,
    Histogram,
    LoadReport,
    MetricStats,
    Misses,
    Policy,
    Requests,
    RunReport,
    Status,
    ToolReported,
    Verdict,
)
from ..judge.counting import CAUSES, Good, Range, Unknown, column_of, goodput
from ..prepare import Prepared

_KINDS = {Requests: "requests", Histogram: "histogram", Aggregate: "aggregate"}
SHOWN = (50.0, 90.0, 99.0)


def metrics(runs: Sequence[Prepared]) -> tuple[dict[str, MetricStats | None], list[str]]:
    """Percentiles over completed requests by column name, and why a column is null."""
    if not runs:
        return dict.fromkeys(f"{metric}_s" for metric in METRICS), []
    key = ("metrics", *map(id, runs))  # of a single run, itself, its load and the whole ask for the same
    if key in runs[0].memo:
        known: tuple[dict[str, MetricStats | None], list[str]] = runs[0].memo[key]
        return known
    found: dict[str, MetricStats | None] = {}
    notes: list[str] = []
    absent: dict[str, list[str]] = {}  # why -> the metrics that are not shown for it
    for metric in METRICS:
        doubt = next((doubt for one in runs if (doubt := one.run.doubt(metric))), None)
        shown = _metric(metric, runs)
        if shown is None:
            absent.setdefault(doubt.why if doubt else _absent(metric, runs), []).append(metric.upper())
        elif doubt is not None:
            notes.append(f"{metric.upper()}: shown, not judged: {doubt.why}")
            shown = replace(shown, doubt=doubt.code)
        found[f"{metric}_s"] = shown
    notes += [f"not shown: {', '.join(names)}: {why}" for why, names in absent.items()]
    runs[0].memo[key] = found, notes
    return found, notes


def _absent(metric: str, runs: Sequence[Prepared]) -> str:
    if all(one.counts.completed == 0 for one in runs):
        return "no request completed"
    if metric == "itl" and any(one.requests is not None for one in runs):
        return "gaps are decoded only when a rule asks for them"
    if len(runs) > 1 and not any(one.requests is not None for one in runs):
        return "percentiles of several aggregates cannot be pooled; `runs` in the JSON has each"
    return "the files do not give it"


def _metric(metric: str, runs: Sequence[Prepared]) -> MetricStats | None:
    if len(runs) == 1 and isinstance(runs[0].evidence, Aggregate):
        return _stated(metric, runs[0])
    columns = [_completed(metric, one.evidence) for one in runs if isinstance(one.evidence, Requests)]
    cells = [column for column in columns if column is not None]
    if len(cells) < len(runs):
        return None
    cells = [column for column in cells if column.size]
    n = sum(column.size for column in cells)
    if n == 0:
        return None
    reported = runs[0].run.tool_reported.get(metric) if len(runs) == 1 else None
    mean = math.fsum(float(column.sum()) for column in cells) / n  # whatever runs are summed where
    least, most = min(map(np.min, cells)), max(map(np.max, cells))
    values = cells.pop() if len(cells) == 1 else np.concatenate(cells)
    p50, p90, p99 = stats.nearest_ranks(values, [percent / 100 for percent in SHOWN], own=True)
    return MetricStats(n, p50, p90, p99, mean, float(least), float(most), _tool(reported))


def _completed(metric: str, rows: Requests) -> Floats | None:
    done = rows.status == Status.COMPLETED
    if metric == "itl":
        if rows.gaps is None:
            return None
        gaps: Floats = rows.gaps.values_s[np.repeat(done, np.diff(rows.gaps.offsets))]
        return gaps
    column = column_of(rows, metric)
    return None if column is None else column[done & np.isfinite(column)]


def _stated(metric: str, one: Prepared) -> MetricStats | None:
    summary = one.stated(metric)
    if summary is None or (one.stated_counts and not one.stated_counts.completed):
        return None
    at = dict(summary.percentiles)
    p50, p90, p99 = (at.get(percent) for percent in SHOWN)
    reported = _tool(one.run.tool_reported.get(metric))
    return MetricStats(summary.n, p50, p90, p99, summary.mean, summary.min, summary.max, reported)


def _tool(reported: ToolReported | None) -> Mapping[str, float | str] | None:
    if reported is None:
        return None
    said: dict[str, float | str] = {f"p{percent:g}": value for percent, value in reported.percentiles}
    if reported.mean is not None:
        said["mean"] = reported.mean
    return {**said, "method": reported.method}


# ---- goodput ------------------------------------------------------------------------------


def goodput_of(runs: Sequence[Prepared], policy: Policy) -> Goodput | None:
    """Goodput of these runs together, nulls where it cannot be known; None without a goodput section."""
    if not policy.goodput_bounds or not runs:
        return Goodput(None, None, None, None, None, None, None) if policy.goodput_bounds else None
    key = ("goodput shown", *map(id, runs), policy.goodput_bounds, policy.single_token_tpot)
    if key not in runs[0].memo:  # as for `metrics`
        runs[0].memo[key] = _goodput_of(runs, policy)
    found: Goodput = runs[0].memo[key]
    return found


def _goodput_of(runs: Sequence[Prepared], policy: Policy) -> Goodput:
    try:
        found = [goodput(one, policy.goodput_bounds, policy) for one in runs]
    except Unknown:
        return Goodput(None, None, None, None, None, None, None)
    exact = [one for one in found if isinstance(one, Good)]
    if not found or len(exact) < len(found):
        return _range([part for part in found if isinstance(part, Range)], exact)
    good = sum(int(one.good.sum()) for one in exact)
    attempted = sum(one.score.size for one in exact)
    windows = [one.window_s for one in runs]
    seconds = sum(w for w in windows if w) if all(windows) else None
    tokens = [_good_tokens(one, part) for one, part in zip(runs, exact, strict=True)]
    total = sum(t for t in tokens if t is not None) if None not in tokens else None
    return Goodput(
        good / attempted if attempted else None,
        None,
        good,
        attempted,
        good / seconds if seconds else None,
        total / seconds if seconds and total is not None else None,
        _misses(exact),
    )


def _range(ranges: Sequence[Range], exact: Sequence[Good]) -> Goodput:
    n = sum(one.n for one in ranges) + sum(one.score.size for one in exact)
    known = sum(int(one.good.sum()) for one in exact)
    if n == 0:
        return Goodput(None, None, None, None, None, None, None)
    lo, hi = sum(one.lo for one in ranges) + known, sum(one.hi for one in ranges) + known
    same = lo == hi
    return Goodput(
        lo / n if same else None, None, lo if same else None, n, None, None, None, (lo / n, hi / n)
    )


def _good_tokens(one: Prepared, part: Good) -> float | None:
    rows = one.requests
    if rows is None or rows.output_tokens is None:
        return None
    attempted = rows.attempted
    tokens = rows.output_tokens if attempted.all() else rows.output_tokens[attempted]
    total = float(tokens[part.good].sum())
    return None if np.isnan(total) else total


def _misses(parts: Sequence[Good]) -> Misses:
    number = np.sum([np.bincount(part.cause, minlength=1 + len(CAUSES)) for part in parts], axis=0)
    return Misses(*number[1:].tolist())


def with_interval(shown: Goodput | None, checks: Sequence[Check]) -> Goodput | None:
    """The goodput check's interval on the goodput that is shown."""
    judged = next((one for one in checks if one.id == "goodput"), None)
    if shown is None or judged is None:
        return shown
    return replace(shown, interval=judged.interval)


def beside(checks: Sequence[Check], metrics: Mapping[str, MetricStats | None]) -> tuple[Check, ...]:
    """Percentiles of every request with their part of the bound, and whether `metrics` has another value."""

    def placed(one: Check) -> Check:
        plain = one.id == f"{one.metric}.{one.statistic}" and re.fullmatch(r"p[\d.]+", one.statistic)
        if not plain or one.unit != units.SECONDS:
            return one
        completed = getattr(metrics.get(f"{one.metric}_s"), one.statistic, None)
        return replace(
            one,
            of_bound=one.observed / one.bound if one.observed is not None and one.bound else None,
            of_attempted=None not in (completed, one.n, one.misses) and one.observed != completed,
        )

    return tuple(map(placed, checks))


# ---- loads and runs ---------------------------------------------------------------------------------


def load_report(
    runs: Sequence[Prepared], policy: Policy, at_target: bool, verdict: Verdict | None = None
) -> LoadReport:
    """Runs that may pool, together."""
    counts = [counts for one in runs if (counts := one.stated_counts)]
    total = None
    if len(counts) == len(runs):
        total = Counts(*(sum(getattr(one, field) for one in counts) for field in Counts.__struct_fields__))
    found = goodput_of(runs, policy)
    return LoadReport(runs[0].run.load, at_target, len(runs), total, found, metrics(runs)[0], verdict)


def run_report(prepared: Prepared, policy: Policy, at_target: bool) -> RunReport:
    """One run as the report shows it, at the target or not."""
    shown, _ = metrics([prepared])
    run = prepared.run
    return RunReport(
        run.input,
        run.format,
        run.tool,
        run.tool_version,
        run.model,
        run.hardware,
        run.session,
        run.load,
        _KINDS[type(prepared.evidence)],
        at_target,
        prepared.stated_counts,
        run.duration_s,
        goodput_of([prepared], policy),
        shown,
        (*run.notes, *prepared.notes),
        run.doubts,
        mean_tokens(prepared, "input_tokens"),
        mean_tokens(prepared, "output_tokens"),
        run.failures,
        run.interaction,
    )


def mean_tokens(prepared: Prepared, column: str) -> float | None:
    """Mean of `input_tokens` or `output_tokens` over completed requests; None where the file has none."""
    known = prepared.lengths(column)
    return float(known.mean()) if known is not None and known.size else None
