"""Was the benchmark what it says: what practice has shown to go wrong, found in the rows themselves.

Each finding is a note, or a doubt. A doubt is evidence that the workload was easier than declared or that
rows are missing: a PASS it touches becomes inconclusive (evidence), a FAIL stands. docs/loads.md lists them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ... import stats, units
from ...model import (
    METRICS,
    REQUEST_METRICS,
    Baseline,
    Bools,
    Check,
    Doubt,
    Floats,
    Kind,
    Policy,
    Requests,
    Run,
    Status,
    Why,
)
from ..checks import CLUSTERS, not_believed, uncounted
from ..judge.counting import column_of
from ..judge.rules import repeated
from ..prepare import Prepared
from ..repeats import repeats

DRIFT = 0.05  # between the medians of the halves of a run
DRIFT_SURE = 0.005  # each side: drift is looked for in three metrics of every benchmark
HALF_LEAST, BLOCK_LEAST, BLOCKS = 50, 100, 10
OVERHEAD = 0.1  # of the TTFT bound, spent in the client
WAITING = 0.99  # share of requests that must not wait in the client longer than that
SLOW, SLOW_SIGMAS = 0.1, 3.0  # an open loop that sends this much less than asked; arrivals are random
ABSURD = 0.05  # the same: no client is that idle
IDLE = 0.5  # mean requests in flight over the declared concurrency
FILLED = 3  # requests a slot: with fewer, ramp-up and ramp-down are most of the run
STREAK_LEAST = 10  # failures in a row
BY_CHANCE = 1e-3  # how probable such a streak may be if failures were independent
QUEUE, TOGETHER = (
    0.9,
    20.0,
)  # P90 TTFT; as many wait together in 60 to 97 of 100 runs at 90 % load, few at 50 %
NO_CURE = "20 to 30"  # docs/statistics.md
LOST = 0.01  # share of rows missing or double that cannot decide a P99

SHARES = (*METRICS, "goodput", "error_rate")


class Findings(Struct, frozen=True):
    """What the rows of the judged runs say against them."""

    notes: tuple[str, ...]
    doubts: tuple[Doubt, ...]  # why a PASS is not believed; of two about one thing the first says it


def findings(runs: Sequence[Prepared], policy: Policy, baseline: Baseline | None = None) -> Findings:
    """Look at the runs that are judged together. An easier load is a doubt where a load was declared."""
    notes = [*warmup_effect(runs), *_repeats(runs), *_drift(runs), *_tokenizers(runs, baseline)]
    notes += [*_failures_in_a_row(runs), *_client_overhead(runs, policy), *_near_capacity(runs, policy)]
    doubts: list[Doubt] = []
    declared = policy.workload.target is not None
    flights = {id(run): _in_flight(run) for run, _ in _rows(runs)}
    easier = [(text, declared, Why.EASIER_LOAD) for text in _easier(runs, flights)]
    easier += [(text, True, Why.UNIT) for run, _ in _rows(runs) if (text := _absurd(run, flights))][:1]
    lost = [(text, serious, Why.REPEATED_ROWS) for text, serious in _rows_lost(runs)]
    for text, serious, code in (*easier, *lost):
        if serious:
            doubts.append(Doubt(code, SHARES, text))
        else:
            notes.append(text)
    if doubt := uncounted(runs):
        doubts.append(replace(doubt, of=(*SHARES, "throughput")))
    doubts += [Doubt(Why.WAITED, ("ttft", "e2e"), text) for text in _waiting(runs, policy)]
    return Findings(tuple(notes), tuple(doubts))


def doubted(checks: Sequence[Check], doubts: Sequence[Doubt], policy: Policy) -> list[Check]:
    """The checks without the passes that a doubt touches."""
    return [_believed(check, doubts, policy) for check in checks] if doubts else list(checks)


def _believed(check: Check, doubts: Sequence[Doubt], policy: Policy) -> Check:
    about = [check.metric]
    if check.metric == "goodput":
        about += [bound.metric for bound in policy.goodput_bounds]
    doubt = next((doubt for metric in about for doubt in doubts if metric in doubt.of), None)
    return not_believed(check, doubt) if doubt else check


def _rows(runs: Iterable[Prepared]) -> Iterator[tuple[Run, Requests]]:
    """Runs that have rows, as they are judged."""
    for one in runs:
        if isinstance(one.evidence, Requests):
            yield one.run, one.evidence


def _in_order(rows: Requests) -> bool:
    return rows.order in ("start", "submission")


# ---- warm-up ------------------------------------------------------------------------------------


def warmup_effect(runs: Sequence[Prepared]) -> list[str]:
    """What dropping warm-up did to the P99 of TTFT over completed requests."""
    kept, every = [], []
    for run, rows in _rows(runs):
        was = run.evidence
        if rows.ttft_s is None or not isinstance(was, Requests) or was.ttft_s is None:
            return []
        kept.append(_finite(rows.ttft_s[rows.status == Status.COMPLETED]))
        every.append(_finite(was.ttft_s[was.status == Status.COMPLETED]))
    dropped = sum(map(len, every)) - sum(map(len, kept))
    if dropped <= 0 or not sum(map(len, kept)):
        return []
    after, before = (
        units.show(stats.nearest_rank(np.concatenate(cells), 0.99), units.SECONDS) for cells in (kept, every)
    )
    return [f"warm-up: P99 TTFT of completed requests is {after}, with the {dropped:,} dropped ones {before}"]


def _finite(values: Floats) -> Floats:
    known = np.isfinite(values)
    return values if known.all() else values[known]


# ---- prompts ------------------------------------------------------------------------------------


def _repeats(runs: Sequence[Prepared]) -> list[str]:
    number = repeated(runs)
    if not number:
        return []
    return [
        f"{number} of {len(runs)} runs send the prompts of another run again (equal input lengths): a prefix"
        " cache filled by the first makes the others fast; give each run its own seed"
    ]


# ---- drift --------------------------------------------------------------------------------------


def _drift(runs: Sequence[Prepared]) -> list[str]:
    """Medians that move by more than 5 % from the first half of a run to the second, beyond chance."""
    moved = []
    for metric in REQUEST_METRICS:
        shift = _halves(runs, metric)
        if shift is None or abs(shift.estimate) <= math.log1p(DRIFT):
            continue
        if min(shift.p_above(0.0), 1.0 - shift.p_above(0.0)) < DRIFT_SURE:
            moved.append(f"P50 {metric.upper()} by {math.expm1(shift.estimate):+.1%}")
    if not moved:
        return []
    return [
        f"drift from the first half of a run to the second: {', '.join(moved)}; a queue that grows, a clock"
        " that throttles or a cache that fills: measure longer, or after it has settled"
    ]


def _halves(runs: Sequence[Prepared], metric: str) -> stats.Shift | None:
    """Logarithm of the second half's median over the first's: by run from five on, else by block."""
    columns = []
    for _, rows in _rows(runs):
        column = column_of(rows, metric)
        if column is None or not _in_order(rows):
            return None
        done = rows.status == Status.COMPLETED
        columns.append(_finite(column if done.all() else column[done]))
    by_run = len(columns) >= CLUSTERS
    parts, least = (2, HALF_LEAST) if by_run else (BLOCKS, BLOCK_LEAST)
    if not columns or min(map(len, columns)) < parts * least:
        return None
    medians = np.array(
        [[stats.nearest_rank(part, 0.5) for part in np.array_split(c, parts)] for c in columns]
    )
    if not (medians > 0).all():
        return None
    logs = np.log(medians)
    first, second = logs[:, : parts // 2].ravel(), logs[:, parts // 2 :].ravel()
    return stats.paired_shift(first, second) if by_run else stats.welch_shift(first, second)


# ---- an open loop near capacity -------------------------------------------------------------------


def _near_capacity(runs: Sequence[Prepared], policy: Policy) -> list[str]:
    """An open loop whose neighbours wait together: no rule knows the queues that were not in the run."""
    columns, rate = [], 0.0
    for run, rows in _rows(runs):
        if run.load is None or not run.load.request_rate or run.load.production:
            return []
        if rows.ttft_s is None or not _in_order(rows) or _ttft_bound(policy) is None:
            return []
        columns.append(_finite(rows.ttft_s[rows.status == Status.COMPLETED]))
        rate = run.load.request_rate or 0.0
    n = sum(map(len, columns))
    if n < stats.MIN_REQUESTS:
        return []
    together = stats.design_effect(stats.dependence(columns, QUEUE))
    if together < TOGETHER:
        return []
    return [
        f"an open loop with a queue: about {together:.0f} neighbours wait together for their first token"
        f" ({together / rate:.2g} s of {n / rate:.3g} s at {rate:g} req/s), so that {n:,} requests are worth"
        f" {n / together:.0f}. Near capacity {NO_CURE} of 100 servers with their P90 or P99 TTFT on its bound"
        " pass, whatever the rule: measure much longer, in five runs or more, or at a lower rate"
    ]


# ---- the client ---------------------------------------------------------------------------------


def _tokenizers(runs: Sequence[Prepared], baseline: Baseline | None) -> list[str]:
    names = dict.fromkeys(one.run.tokenizer for one in runs if one.run.tokenizer)
    before = dict.fromkeys(run.tokenizer for run in baseline.runs if run.tokenizer) if baseline else {}
    said = [f"the runs count tokens with different tokenizers: {', '.join(names)}"] if len(names) > 1 else []
    if names and before and names.keys() != before.keys():
        said.append(f"the baseline counts tokens with {', '.join(before)}, the runs with {', '.join(names)}")
    return [f"{text}; lengths and TPOT do not compare" for text in said]


def _ttft_bound(policy: Policy) -> float | None:
    bounds = [o.bound for o in policy.objectives if o.kind is Kind.LATENCY and o.metric == "ttft" and o.bound]
    return min([*bounds, *(b.max_s for b in policy.goodput_bounds if b.metric == "ttft")], default=None)


def _waiting(runs: Sequence[Prepared], policy: Policy) -> list[str]:
    """An open loop whose requests waited in the client: that is in no latency, though users would feel it."""
    bound = _ttft_bound(policy)
    for run, rows in _rows(runs) if bound else ():
        open_loop = run.load is not None and run.load.request_rate is not None and not run.load.production
        waits = _finite(rows.queue_s[rows.attempted]) if rows.queue_s is not None and open_loop else None
        if waits is None or not waits.size:
            continue
        wait_s = stats.nearest_rank(waits, WAITING)
        if bound and wait_s > OVERHEAD * bound:
            return [
                f"requests of {run.input} waited in the client, {units.show(wait_s, units.SECONDS)} at P99"
                f" and more than {OVERHEAD:.0%} of the TTFT bound, before they were sent, which is in no"
                " latency; raise the client's cap"
            ]
    return []


def _client_overhead(runs: Sequence[Prepared], policy: Policy) -> list[str]:
    """TTFT as the client has it against the server's own: a slow client or network is no slow server."""
    bound = _ttft_bound(policy)
    extra = []
    for _, rows in _rows(runs) if bound else ():
        if rows.ttft_s is None or rows.server_ttft_s is None:
            return []
        extra.append(_finite((rows.ttft_s - rows.server_ttft_s)[rows.status == Status.COMPLETED]))
    if not bound or not sum(map(len, extra)):
        return []
    median_s = float(np.median(np.concatenate(extra)))
    if median_s <= OVERHEAD * bound:
        return []
    return [
        f"the client sees the first token {units.show(median_s, units.SECONDS)} later (P50) than the server"
        f" sends it, more than {OVERHEAD:.0%} of the TTFT bound: check the network and the client's CPU"
    ]


_Flight = tuple[float, bool, int] | None  # as `_in_flight` gives it


def _easier(runs: Sequence[Prepared], flights: Mapping[int, _Flight]) -> Iterator[str]:
    """Runs whose load was below the one they name; the first of each kind speaks for all."""
    for find in (_sent_slower, _never_full, _idle):
        found = [text for run, _ in _rows(runs) if (text := find(run, flights))]
        if found:
            more = f" (and {len(found) - 1} more runs)" if len(found) > 1 else ""
            yield found[0] + more


def _sent_slower(run: Run, _: object) -> str:
    rows, load = run.evidence, run.load
    if not isinstance(rows, Requests) or rows.start_s is None or load is None or load.production:
        return ""
    starts = _finite(rows.start_s)
    span_s = float(starts.max() - starts.min()) if starts.size > 1 else 0.0
    if not load.request_rate or span_s <= 0:
        return ""
    sent = (starts.size - 1) / span_s
    if sent >= load.request_rate * (1 - max(SLOW, SLOW_SIGMAS / math.sqrt(starts.size))):
        return ""
    return (
        f"{run.input} sent {sent:.3g} req/s of the {load.request_rate:g} req/s it names: the client was"
        " saturated or held back, and the server saw an easier load"
    )


def _never_full(run: Run, _: object) -> str:
    """Fewer requests than slots."""
    rows, load = run.evidence, run.load
    if not isinstance(rows, Requests) or load is None or load.concurrency is None:
        return ""
    if not 0 < len(rows) < load.concurrency:
        return ""
    return f"the {len(rows)} requests of {run.input} cannot keep {load.concurrency} in flight"


def _absurd(run: Run, flights: Mapping[int, _Flight]) -> str:
    """So few requests in flight that the times are in another unit than declared, or the load is not."""
    found = flights[id(run)]
    if found is None or found[0] >= ABSURD * found[2]:
        return ""
    return (
        f"{run.input} had {found[0]:.2g} requests in flight on average, of the {found[2]} it names: its times"
        " are in another unit than declared (seconds under a name in _ms?), or its load is another"
    )


def _idle(run: Run, flights: Mapping[int, _Flight]) -> str:
    found = flights[id(run)]
    if found is None or not ABSURD * found[2] <= found[0] < IDLE * found[2]:
        return ""
    mean = f"{'' if found[1] else 'at most '}{found[0]:.3g}"
    return f"{run.input} had {mean} requests in flight on average, of the {found[2]} it names"


def _in_flight(run: Run) -> _Flight:
    """Mean requests in flight, whether every E2E is known, and the concurrency; None where it shows nothing.

    By Little's law: seconds spent in flight / seconds passed.
    A row without an E2E (most failures) was in flight at most as long as the longest one that has it, and
    not beyond the last end: so few of them cannot switch the check off, nor are they taken for nothing.
    """
    rows, load = run.evidence, run.load
    if not isinstance(rows, Requests) or load is None or load.concurrency is None:
        return None
    if rows.start_s is None or rows.e2e_s is None or len(rows) < FILLED * load.concurrency:
        return None
    sent = np.isfinite(rows.start_s)
    known = sent & np.isfinite(rows.e2e_s) & (rows.e2e_s > 0)
    if not known.any():
        return None
    starts, took_s = rows.start_s[known], rows.e2e_s[known]
    end_s = max(float((starts + took_s).max()), float(rows.start_s[sent].max()))
    left_s = end_s - np.where(sent, rows.start_s, rows.start_s[sent].min())[~known]
    flown_s = float(took_s.sum()) + float(np.minimum(left_s, took_s.max()).sum())
    span_s = end_s - float(rows.start_s[sent].min())
    return (flown_s / span_s, bool(known.all()), load.concurrency) if span_s > 0 else None


# ---- rows ---------------------------------------------------------------------------------------


def _failures_in_a_row(runs: Sequence[Prepared]) -> list[str]:
    """A streak of failures that independent ones would not make: a restart, a proxy, a lost node."""
    worst, where = 0, ("", 0, 0)
    for run, rows in _rows(runs):
        if not _in_order(rows):
            continue
        failed = (rows.status == Status.FAILED)[rows.attempted]
        length, first = _longest(failed)
        number = int(failed.sum())
        if length < STREAK_LEAST or number == failed.size:
            continue
        by_chance = failed.size * (number / failed.size) ** length
        if by_chance < BY_CHANCE and length > worst:
            worst, where = length, (run.input, first, number)
    if not worst:
        return []
    name, first, number = where
    return [
        f"{worst} of the {number} failures of {name} came in a row, from request {first + 1} on: one event,"
        " such as a restart, and not a rate of failures"
    ]


def _longest(flags: Bools) -> tuple[int, int]:
    """Length and first place of the longest streak of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.view(np.int8), [0]))))
    starts, ends = edges[::2], edges[1::2]
    if not starts.size:
        return 0, 0
    at = int(np.argmax(ends - starts))
    return int(ends[at] - starts[at]), int(starts[at])


def _rows_lost(runs: Sequence[Prepared]) -> Iterator[tuple[str, bool]]:
    """Rows that stand twice, ids that occur twice, and numbers missing from ids that count up."""
    yield from (
        (text, share > LOST) for text, share in repeats([(run.input, rows) for run, rows in _rows(runs)])
    )
    for run, rows in _rows(runs):
        if rows.ids is None or not rows.ids:
            continue
        different = set(rows.ids)
        double = len(rows.ids) - len(different)
        if double:
            yield f"{double} requests occur twice in {run.input}, by their ids", double > LOST * len(rows)
        numbers = [int(text) for text in different if text.isascii() and text.isdecimal() and len(text) < 16]
        if len(numbers) < len(different):
            continue
        lost = max(numbers) - min(numbers) + 1 - len(numbers)
        if 0 < lost <= len(numbers):  # with more, the ids are not a count
            yield f"{lost} requests are missing in {run.input}, by their ids", lost > LOST * len(rows)
