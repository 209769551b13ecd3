"""Requests one by one, over time and by length: a sample that keeps every extreme, and all failures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ... import stats
from ...model import Bools, Dot, Failed, Floats, Policy, Requests, Scatter, Status, Window
from ..judge.counting import column_of
from ..prepare import Prepared
from .attribution import goodputs

DOTS = 400  # of a scatter
EXTREME = 0.25  # of them the largest values: a sample would lose just those
FAILED_PLACES = 200  # where failures stand: as narrow as they can be told apart
WINDOWS = 40
_KINDS = ("good", "missed", "warm-up", "completed")


class _Rows(Struct, frozen=True, eq=False):
    """Attempted and warm-up requests of all judged runs, joined."""

    x: Floats  # NaN where unknown
    values_s: Floats  # NaN for a failed request
    run: NDArray[np.int64]
    row: NDArray[np.int64]
    kind: NDArray[np.uint8]  # place in _KINDS
    failed: Bools
    attempted: Bools


def over_time(runs: Sequence[Prepared], policy: Policy) -> tuple[Scatter, ...]:
    """TTFT and E2E by when a request began; by its place in the run where no file has times."""
    tables = _tables(runs)
    if not tables:
        return ()
    timed = all(rows.start_s is not None and np.isfinite(rows.start_s).all() for rows in tables)
    if not timed and any(rows.order == "unknown" for rows in tables):
        return ()
    places = [_seconds(rows) if timed else np.arange(len(rows), dtype=np.float64) for rows in tables]
    axis = "time" if timed else "order"
    return tuple(
        scatter
        for metric in ("ttft", "e2e")
        if (scatter := _scatter(metric, axis, places, runs, tables, policy)) is not None
    )


def by_length(runs: Sequence[Prepared], policy: Policy) -> tuple[Scatter, ...]:
    """TTFT by input length, E2E by output length; nothing where every request has one length."""
    tables = _tables(runs)
    found = []
    for metric, axis in (("ttft", "input_tokens"), ("e2e", "output_tokens")):
        lengths = [getattr(rows, axis) for rows in tables]
        if not lengths or any(column is None for column in lengths):
            continue
        scatter = _scatter(metric, axis, lengths, runs, tables, policy)
        if scatter is not None and len({dot.x for dot in scatter.dots}) > 1:
            found.append(scatter)
    return tuple(found)


def _tables(runs: Sequence[Prepared]) -> list[Requests]:
    """Of every run, or none: half a picture is no picture."""
    tables = [one.requests for one in runs if one.requests is not None]
    return tables if len(tables) == len(runs) else []


def _seconds(rows: Requests) -> Floats:
    assert rows.start_s is not None
    began: Floats = rows.start_s - rows.start_s.min() if len(rows) else rows.start_s
    return began


def _scatter(
    metric: str,
    axis: str,
    places: Sequence[Floats],
    runs: Sequence[Prepared],
    tables: Sequence[Requests],
    policy: Policy,
) -> Scatter | None:
    columns = [column_of(rows, metric) for rows in tables]
    if any(column is None for column in columns) or any(one.run.doubt(metric) for one in runs):
        return None
    timed = axis in ("time", "order")
    # Over time a miss is a miss of anything; by length, of the metric that is drawn.
    kinds = _kinds(runs, tables, policy, None if timed else metric)
    joined = _join(places, [column for column in columns if column is not None], tables, kinds)
    known = np.flatnonzero(np.isfinite(joined.x) & np.isfinite(joined.values_s) & ~joined.failed)
    if known.size == 0:
        return None
    chosen = known[_sample(joined.values_s[known])]
    bounds = [b.max_s for b in policy.goodput_bounds if b.metric == metric and b.when is None]
    failed = _failed(joined)
    return Scatter(
        metric,
        axis,
        int(known.size),
        tuple(
            Dot(x, value, run, row, _KINDS[kind])
            for x, value, run, row, kind in zip(
                *(column[chosen].tolist() for column in (joined.x, joined.values_s, joined.run, joined.row)),
                joined.kind[chosen].tolist(),
                strict=True,
            )
        ),
        failed,
        _windows(joined) if timed else (),
        bounds[0] if bounds else None,
        sum(one.number for one in failed),
        (float(np.median(joined.x[known])), float(np.median(joined.values_s[known]))),
    )


def _kinds(
    runs: Sequence[Prepared], tables: Sequence[Requests], policy: Policy, metric: str | None
) -> list[NDArray[np.uint8]]:
    """What each request is: by all bounds of goodput, or by those of one metric."""
    judged = [one for one in runs if one.counts.attempted]
    parts = goodputs(runs, policy)
    by_run = {id(one): part for one, part in zip(judged, parts, strict=False)}
    found = []
    for one, rows in zip(runs, tables, strict=True):
        kind = np.full(len(rows), _KINDS.index("completed"), np.uint8)
        part = by_run.get(id(one))
        if part is not None:
            missed = ~part.good if metric is None else part.missed.get(metric)
            if missed is not None:
                kind[rows.attempted] = missed  # good is 0, missed 1
        kind[rows.status == Status.WARMUP] = _KINDS.index("warm-up")
        found.append(kind)
    return found


def _join(
    places: Sequence[Floats],
    columns: Sequence[Floats],
    tables: Sequence[Requests],
    kinds: Sequence[NDArray[np.uint8]],
) -> _Rows:
    keep = [rows.status != Status.CANCELLED for rows in tables]

    def joined(parts: Sequence[NDArray[np.generic]]) -> NDArray[np.generic]:
        return np.concatenate([part[chosen] for part, chosen in zip(parts, keep, strict=True)])

    numbers = [np.arange(len(rows)) if rows.rows is None else rows.rows for rows in tables]
    return _Rows(
        joined(places).astype(np.float64),
        joined(columns).astype(np.float64),
        np.repeat(np.arange(len(tables)), [int(chosen.sum()) for chosen in keep]),
        joined(numbers).astype(np.int64),
        joined(kinds).astype(np.uint8),
        joined([rows.status == Status.FAILED for rows in tables]).astype(bool),
        joined([rows.attempted for rows in tables]).astype(bool),
    )


def _sample(values: Floats) -> NDArray[np.int64]:
    """Places of all values, or of the largest and of every k-th of the rest, in order."""
    if values.size <= DOTS:
        return np.arange(values.size)
    most = int(DOTS * EXTREME)
    kept = np.zeros(values.size, bool)
    kept[np.argpartition(values, values.size - most)[values.size - most :]] = True
    rest = np.flatnonzero(~kept)
    kept[rest[np.linspace(0, rest.size - 1, DOTS - most).astype(np.int64)]] = True
    return np.flatnonzero(kept)


def _failed(rows: _Rows) -> tuple[Failed, ...]:
    """Every failed request, counted where it stands; one of unknown place is in none."""
    x = rows.x[rows.failed & np.isfinite(rows.x)]
    if x.size == 0:
        return ()
    known = rows.x[np.isfinite(rows.x)]
    low, width = known.min(), (known.max() - known.min()) / FAILED_PLACES
    at = np.floor((x - low) / width).astype(np.int64) if width else np.zeros(x.size, np.int64)
    number = np.bincount(at)
    places = np.flatnonzero(number)
    return tuple(
        Failed(float(low + place * width), count)
        for place, count in zip(places.tolist(), number[places].tolist(), strict=True)
    )


def _windows(rows: _Rows) -> tuple[Window, ...]:
    """P50 and P99 of windows of equal length, over all runs at once; warm-up is in none."""
    judged = rows.attempted & np.isfinite(rows.x)
    if not judged.any():
        return ()
    x, values, failed = rows.x[judged], rows.values_s[judged], rows.failed[judged]
    count = max(1, min(WINDOWS, x.size // 25))  # of few requests a window would show noise
    edges = np.linspace(x.min(), x.max(), count + 1)
    at = np.clip(np.searchsorted(edges, x, "right") - 1, 0, count - 1)
    found = []
    for place in range(count):
        inside = at == place
        n = int(inside.sum())
        done = values[inside & ~failed & np.isfinite(values)]
        quantiles = [stats.nearest_rank(done, share) for share in (0.5, 0.99)] if done.size else [None, None]
        low, high = float(edges[place]), float(edges[place + 1])
        if n:
            found.append(Window(low, high, n, int((failed & inside).sum()), *quantiles))
    return tuple(found)
