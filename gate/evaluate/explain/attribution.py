"""Which of the judged requests missed, and where the time went: by length, by run, by request.

Computed once, over the runs at the target. Everything is counted in numpy; Python sees ten rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ... import stats
from ...model import (
    REQUEST_METRICS,
    Attribution,
    Bools,
    Floats,
    LengthBucket,
    Misses,
    Percentiles,
    Policy,
    Requests,
    Status,
    TtftParts,
    WorstRequest,
    WorstRun,
)
from ..judge.counting import CAUSES, Good, Unknown, goodput
from ..prepare import Prepared

WORST = 10  # requests named one by one
UNEVEN = 1.5  # times an equal share of the misses: a run beyond it is worth looking at
QUARTERS = 4  # of the requests, by length: as many misses can be seen in each


class _Judged(Struct, frozen=True, eq=False):
    """The attempted requests of all judged runs, joined. A column is None unless every run has it."""

    ttft_s: Floats | None
    tpot_s: Floats | None
    e2e_s: Floats | None
    input_tokens: Floats | None
    output_tokens: Floats | None
    completed: Bools
    run: NDArray[np.int64]  # which run each request is of
    cause: NDArray[np.uint8] | None  # 0 good, then 1 + the place in CAUSES; None without goodput
    score: Floats | None  # worst value / bound; inf for a failed request
    missed: dict[str, Bools]  # by metric


def attribute(runs: Sequence[Prepared], policy: Policy) -> Attribution | None:
    """Misses by length, run and request; None where a judged run has no rows or nothing was attempted."""
    tables = [one.requests for one in runs if one.requests is not None]
    if not tables or len(tables) < len(runs) or not any(one.counts.attempted for one in runs):
        return None
    judged = _join(runs, tables, policy)
    return Attribution(
        _by_length(judged, judged.input_tokens, np.ones(len(judged.completed), bool)),
        _by_length(judged, judged.output_tokens, judged.completed),
        _ttft_parts(runs, tables, judged),
        _worst_runs(runs, judged),
        _worst_requests(runs, tables, judged),
    )


def _join(runs: Sequence[Prepared], tables: Sequence[Requests], policy: Policy) -> _Judged:
    def column(name: str) -> Floats | None:
        if any(one.run.doubt(name[:-2]) for one in runs):
            return None  # what must not be judged explains nothing
        return _attempted(tables, name)

    found = goodputs(runs, policy)
    bounded = {bound.metric for bound in policy.goodput_bounds}
    missed = {metric: np.concatenate([one.missed[metric] for one in found]) for metric in bounded if found}
    return _Judged(
        column("ttft_s"),
        column("tpot_s"),
        column("e2e_s"),
        column("input_tokens"),
        column("output_tokens"),
        np.concatenate([rows.status[rows.attempted] == Status.COMPLETED for rows in tables]),
        np.repeat(np.arange(len(runs)), [one.counts.attempted for one in runs]),
        np.concatenate([one.cause for one in found]) if found else None,
        np.concatenate([one.score for one in found]) if found else None,
        missed,
    )


def goodputs(runs: Sequence[Prepared], policy: Policy) -> list[Good]:
    """Of each run; empty where one cannot say, or the policy has no goodput section."""
    if not policy.goodput_bounds:
        return []
    try:
        found = [goodput(one, policy.goodput_bounds, policy) for one in runs if one.counts.attempted]
    except Unknown:
        return []
    return [one for one in found if isinstance(one, Good)]


# ---- by length ----------------------------------------------------------------------------


def _by_length(judged: _Judged, tokens: Floats | None, scope: Bools) -> tuple[LengthBucket, ...]:
    """Quarters of the requests in scope, by length; a request of unknown length is in none."""
    if tokens is None:
        return ()
    known = scope & np.isfinite(tokens)
    lengths = tokens[known]
    if lengths.size == 0:
        return ()
    longest = lengths.max()
    quarters = [share / QUARTERS for share in range(1, QUARTERS)]
    ends = stats.nearest_ranks(lengths, quarters, own=True)
    edges = [-np.inf, *(end for end in dict.fromkeys(ends) if end < longest), longest]
    return tuple(
        _bucket(judged, tokens, np.flatnonzero(known & (tokens > low) & (tokens <= high)))
        for low, high in pairwise(edges)
    )


def _bucket(judged: _Judged, tokens: Floats, rows: NDArray[np.int64]) -> LengthBucket:
    """The requests of one quarter, by their places."""
    lengths, done = tokens[rows], rows[judged.completed[rows]]
    number = None
    if judged.cause is not None:
        number = np.bincount(judged.cause[rows], minlength=1 + len(CAUSES)).tolist()
    return LengthBucket(
        int(lengths.min()),
        int(lengths.max()),
        lengths.size,
        None if number is None else number[0],
        None if number is None else Misses(*number[1:]),
        *(_percentiles(None if column is None else column[done]) for column in (judged.ttft_s, judged.e2e_s)),
    )


def _percentiles(values: Floats | None) -> Percentiles | None:
    if values is None:
        return None
    if not np.isfinite(values).all():
        values = values[np.isfinite(values)]
    if values.size == 0:
        return None
    return Percentiles(*stats.nearest_ranks(values, (0.5, 0.9, 0.99), own=True))


# ---- where the first token waits ----------------------------------------------------------


def _ttft_parts(
    runs: Sequence[Prepared], tables: Sequence[Requests], judged: _Judged
) -> tuple[TtftParts, ...]:
    """TTFT split by the queue times the files have; client waits only of an open loop.

    In a closed loop a request waits in the client because the benchmark says so, not for a user.
    """
    open_loop = all(one.run.load is not None and one.run.load.request_rate is not None for one in runs)
    client = _attempted(tables, "queue_s") if open_loop else None
    server = _attempted(tables, "server_queue_s")
    if judged.ttft_s is None or (client is None and server is None):
        return ()
    scopes = {"completed": judged.completed}
    if "ttft" in judged.missed:
        scopes["missed ttft"] = judged.missed["ttft"]
    for waits in (client, server):
        if waits is not None:
            scopes = {name: scope & np.isfinite(waits) for name, scope in scopes.items()}
    scopes = {name: scope & np.isfinite(judged.ttft_s) for name, scope in scopes.items()}
    return tuple(
        TtftParts(
            name,
            int(scope.sum()),
            None if client is None else _mean_and_p99(client[scope]),
            None if server is None else _mean_and_p99(server[scope]),
            _mean_and_p99((judged.ttft_s if server is None else judged.ttft_s - server)[scope]),
        )
        for name, scope in scopes.items()
        if scope.any()
    )


def _attempted(tables: Sequence[Requests], name: str) -> Floats | None:
    """A column of the attempted requests; None unless every run has it."""
    columns = [getattr(rows, name) for rows in tables]
    if any(column is None for column in columns):
        return None
    parts = [
        column if rows.counts.attempted == len(rows) else column[rows.attempted]
        for column, rows in zip(columns, tables, strict=True)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _mean_and_p99(values: Floats) -> tuple[float, float]:
    return float(values.mean()), stats.nearest_rank(values, 0.99)


# ---- the worst ----------------------------------------------------------------------------


def _worst_runs(runs: Sequence[Prepared], judged: _Judged) -> tuple[WorstRun, ...]:
    if judged.cause is None or len(runs) < 2:
        return ()
    attempted = np.bincount(judged.run, minlength=len(runs))
    missed = np.bincount(judged.run[judged.cause > 0], minlength=len(runs))
    total = int(missed.sum())
    # Where all runs miss alike none is worst; ten names would only hide that.
    many = np.flatnonzero(missed > UNEVEN * total / len(runs))
    order = sorted(many.tolist(), key=lambda run: -missed[run])
    return tuple(
        WorstRun(
            runs[run].run.input,
            int(attempted[run] - missed[run]),
            int(attempted[run]),
            float(missed[run] / total),
        )
        for run in order[:WORST]
    )


def _worst_requests(
    runs: Sequence[Prepared], tables: Sequence[Requests], judged: _Judged
) -> tuple[WorstRequest, ...]:
    """The completed requests furthest beyond (or nearest to) a bound; by latency without goodput.

    Failed requests are all alike and counted elsewhere: they would hide every slow one.
    """
    key = judged.score if judged.score is not None else judged.e2e_s
    key = key if key is not None else judged.ttft_s
    if key is None:
        return ()
    key = np.where(judged.completed & ~np.isnan(key), key, -np.inf)
    worst = _largest(key, WORST)
    starts = np.searchsorted(judged.run, np.arange(len(runs)))
    found = []
    for at in worst.tolist():
        run = int(judged.run[at])
        table = tables[run]
        row = int(np.flatnonzero(table.attempted)[at - starts[run]])
        found.append(_request(runs[run].run.input, table, row, judged, at))
    return tuple(found)


def _largest(key: Floats, most: int) -> NDArray[np.int64]:
    """Places of the largest finite-or-infinite keys, largest first, earlier requests first among equals."""
    if key.size > most:
        least = np.partition(key, key.size - most)[key.size - most]
        above, equal = np.flatnonzero(key > least), np.flatnonzero(key == least)
        places = np.concatenate((above, equal[: most - above.size]))
    else:
        places = np.arange(key.size)
    places = places[key[places] > -np.inf]
    ordered: NDArray[np.int64] = places[np.lexsort((places, -key[places]))]
    return ordered


def _request(input: str, table: Requests, row: int, judged: _Judged, at: int) -> WorstRequest:
    def cell(column: Floats | None) -> float | None:
        return None if column is None or not np.isfinite(column[at]) else float(column[at])

    lengths = [cell(column) for column in (judged.input_tokens, judged.output_tokens)]
    inputs, outputs = (None if length is None else int(length) for length in lengths)
    return WorstRequest(
        input,
        row if table.rows is None else int(table.rows[row]),
        None if table.ids is None else table.ids[row],
        cell(judged.ttft_s),
        cell(judged.tpot_s),
        cell(judged.e2e_s),
        inputs,
        outputs,
        tuple(metric for metric in REQUEST_METRICS if metric in judged.missed and judged.missed[metric][at]),
        cell(judged.score),
    )
