"""Every absolute rule as a counting question: of n requests, how many met the bound.

Requests answer exactly; aggregates answer with a range (DESIGN section 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ...model import (
    REQUEST_METRICS,
    Aggregate,
    Bools,
    Buckets,
    Doubt,
    Floats,
    Histogram,
    Objective,
    Policy,
    RequestBound,
    Requests,
    Status,
    Summary,
    When,
)
from ..checks import DECIDES, share_of
from ..prepare import Prepared

CAUSES = (*REQUEST_METRICS, "several", "failed")  # of a miss, as in Misses
_OPS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


class Exact(Struct, frozen=True, eq=False):
    """The value of each request in scope, in submission order; inf where it is a miss whatever the bound."""

    values: Floats
    bound: float

    @property
    def n(self) -> int:
        """Requests in scope."""
        return int(self.values.size)

    @property
    def met(self) -> int:
        """Of them, within the bound."""
        return int((self.values <= self.bound).sum())


class Range(Struct, frozen=True):
    """At least lo and at most hi of n attempted requests met the bound."""

    n: int
    lo: int
    hi: int
    settled_by: str = ""


class Unknown(Exception):  # noqa: N818 - not an error: the answer "this evidence cannot say"
    """Why the evidence cannot answer, as a sentence, and the doubt that it comes from."""

    def __init__(self, why: str | Doubt) -> None:
        super().__init__(why if isinstance(why, str) else why.why)
        self.doubt = None if isinstance(why, str) else why


Part = Exact | Range


def latency(prepared: Prepared, objective: Objective, policy: Policy) -> Part:
    """The part of one run in a percentile objective. Raises Unknown."""
    assert objective.bound is not None
    if prepared.counts.completed == 0 and prepared.counts.attempted:
        return _all_missed(prepared, objective.bound)
    suitable(prepared, objective.metric)
    if isinstance(prepared.evidence, Requests):
        values = metric_values(prepared.evidence, objective.metric, objective.when, policy)
        return Exact(values, objective.bound)
    if objective.when is not None:
        raise Unknown(
            f"{prepared.run.format} has no requests with {objective.when.text}; {_settle(prepared.evidence)}"
        )
    n, without = prepared.counts.completed, _without(prepared, objective.metric)
    lo, hi = _within(prepared.evidence, objective.metric, objective.bound, n - without)
    ignored = without if policy.single_token_tpot == "ignore" else 0
    return Range(n - ignored + prepared.counts.failed, lo, hi, _settle(prepared.evidence))


def _without(one: Prepared, metric: str) -> int:
    """Completed requests that the reader knows to have no such value: TPOT of a single token."""
    buckets = one.evidence.buckets.get(metric) if isinstance(one.evidence, Histogram) else None
    return min(buckets.without, one.counts.completed) if buckets is not None else 0


def _all_missed(one: Prepared, bound: float) -> Part:
    n = one.counts.attempted
    return Exact(np.full(n, np.inf), bound) if one.requests is not None else Range(n, 0, 0)


def suitable(prepared: Prepared, metric: str) -> None:
    """Raises Unknown where the reader says that this metric must not be judged."""
    if doubt := prepared.run.doubt(metric):
        raise Unknown(doubt)
    if prepared.counts.attempted == 0:
        raise Unknown(prepared.run.doubt("attempted") or "no request was attempted")


def metric_values(rows: Requests, metric: str, when: When | None, policy: Policy) -> Floats:
    """One value a request in scope (a gap each for itl), inf for a miss. Raises Unknown."""
    if metric == "itl":
        return _gap_values(rows, when)
    values = scoped_values(rows, metric, when, policy)
    inside = values > -np.inf
    return values if inside.all() else values[inside]


def scoped_values(rows: Requests, metric: str, when: When | None, policy: Policy) -> Floats:
    """A value for each row: inf for a miss, -inf for a request a bound is not about. Raises Unknown."""
    column = column_of(rows, metric)
    if column is None:
        raise Unknown(f"the file has no {metric.upper()}")
    scope = (rows.status == Status.COMPLETED) & _in_scope(rows, when)
    if metric == "tpot" and policy.single_token_tpot == "ignore":
        assert rows.output_tokens is not None  # there is a TPOT column
        scope &= ~(rows.output_tokens <= 1)  # one of unknown length stays
    values = column.copy()
    values[np.isnan(column) | rows.doubted.get(metric, False)] = np.inf
    values[~scope] = -np.inf
    values[rows.status == Status.FAILED] = np.inf
    return values


def column_of(rows: Requests, metric: str) -> Floats | None:
    """The column of a per-request metric."""
    return {"ttft": rows.ttft_s, "tpot": rows.tpot_s, "e2e": rows.e2e_s}[metric]


def _in_scope(rows: Requests, when: When | None) -> Bools:
    scope = np.ones(len(rows), dtype=bool)
    for condition in when.conditions if when else ():
        column = getattr(rows, condition.column)
        if column is None:
            raise Unknown(f"the file has no {condition.column} for {when.text if when else ''}")
        # A request of unknown length may be in scope; left out it could hide a miss.
        scope &= _OPS[condition.op](column, condition.value) | np.isnan(column)
    return scope


def _gap_values(rows: Requests, when: When | None) -> Floats:
    if rows.gaps is None:
        raise Unknown("the file has no gaps between chunks")
    failed = rows.status == Status.FAILED
    scope = (rows.status == Status.COMPLETED) & _in_scope(rows, when)
    lengths = np.where(scope, np.diff(rows.gaps.offsets), 0) + failed
    owner = np.repeat(np.arange(len(rows)), lengths)
    values = np.full(owner.size, np.inf)
    values[~failed[owner]] = rows.gaps.values_s[np.repeat(scope, np.diff(rows.gaps.offsets))]
    return values


# ---- goodput ------------------------------------------------------------------------------


class Good(Struct, frozen=True, eq=False):
    """Per attempted request in submission order: its score (<= 1 is good) and the bounds it broke."""

    score: Floats
    failed: Bools
    missed: dict[str, Bools]  # metric -> broke a bound of it
    applied: bool = True  # whether a completed request was in the scope of any bound

    @property
    def good(self) -> Bools:
        """Which requests were good."""
        return self.score <= 1.0

    @property
    def cause(self) -> NDArray[np.uint8]:
        """0 for a good request, else 1 + the place of what it missed in CAUSES."""
        cause = np.zeros(self.score.size, np.uint8)
        broken = np.zeros(self.score.size, np.uint8)
        for metric, missed in self.missed.items():
            broken += missed
            cause[missed] = 1 + CAUSES.index(metric)
        cause[broken > 1] = 1 + CAUSES.index("several")
        cause[self.failed] = 1 + CAUSES.index("failed")
        return cause


def goodput(prepared: Prepared, bounds: Sequence[RequestBound], policy: Policy) -> Good | Range:
    """Joint goodput of one run. Raises Unknown."""
    if prepared.counts.completed == 0 and prepared.counts.attempted and prepared.requests is None:
        return Range(prepared.counts.attempted, 0, 0)
    if prepared.counts.completed:
        for bound in bounds:
            suitable(prepared, bound.metric)
    if not isinstance(prepared.evidence, Requests):
        return _joint(prepared, prepared.evidence, bounds, policy)
    if prepared.counts.attempted == 0:
        raise Unknown(prepared.run.doubt("attempted") or "no request was attempted")
    key = ("goodput", tuple(bounds), policy.single_token_tpot)
    if key not in prepared.memo:  # the objective, the run, its load and the attribution ask for the same
        prepared.memo[key] = _good_rows(prepared.evidence, bounds, policy)
    found: Good = prepared.memo[key]
    return found


def _good_rows(rows: Requests, bounds: Sequence[RequestBound], policy: Policy) -> Good:
    failed = rows.status == Status.FAILED
    completed = rows.status == Status.COMPLETED
    worst = np.where(failed, np.inf, 0.0)
    missed = {bound.metric: np.zeros(len(rows), dtype=bool) for bound in bounds}
    applied = False
    for bound in bounds if completed.any() else ():
        values = scoped_values(rows, bound.metric, bound.when, policy)
        applied = applied or bool((completed & (values > -np.inf)).any())
        missed[bound.metric] |= ~failed & ~(values <= bound.max_s)
        np.maximum(worst, score(values, bound.max_s), out=worst)
    judged = rows.attempted
    if judged.all():
        return Good(worst, failed, missed, applied)
    broke = {metric: rows_[judged] for metric, rows_ in missed.items()}
    return Good(worst[judged], failed[judged], broke, applied)


def score(values: Floats, max_s: float) -> Floats:
    """Value / bound, 0 where the bound is not about the request; at most 1 where it is met, else above 1."""
    with np.errstate(over="ignore"):  # a bound may be tried that is next to nothing
        ratio = values / max_s
    np.maximum(ratio, 0.0, out=ratio)
    # Division may round a value a hair above its bound to 1: the comparison itself decides.
    met = values <= max_s
    np.minimum(ratio, 1.0, out=ratio, where=met)
    np.maximum(ratio, np.nextafter(1.0, 2.0), out=ratio, where=~met)
    return ratio


def _joint(
    one: Prepared, evidence: Histogram | Aggregate, bounds: Sequence[RequestBound], policy: Policy
) -> Range:
    """Marginals bound the joint: [max(0, sum F_i - (m - 1)), min F_i] of the completed."""
    completed = one.counts.completed
    lows, highs = [], [completed]
    for bound in bounds:
        without = _without(one, bound.metric)
        lo, hi = _within(evidence, bound.metric, bound.max_s, completed - without)
        ignored = without if policy.single_token_tpot == "ignore" else 0  # these meet it, else they miss it
        lows.append(lo + ignored)
        if bound.when is None:  # outside a `when` a request meets the bound: only lo still holds
            highs.append(hi + ignored)
    low = max(0, sum(lows) - (len(lows) - 1) * completed)
    return Range(one.counts.attempted, low, min(highs), _settle(evidence))


# ---- aggregates ---------------------------------------------------------------------------


def _within(evidence: Histogram | Aggregate, metric: str, bound: float, n: int) -> tuple[int, int]:
    """Of n completed requests, at least and at most how many are within `bound`. Raises Unknown.

    A stated percentile is an order statistic or lies between two; either way it says on which
    side of it the bound leaves how many requests.
    """
    if isinstance(evidence, Histogram):
        return _in_buckets(evidence, metric, bound, n)
    summary = evidence.summaries.get(metric)
    if summary is None or not (summary.percentiles or summary.max is not None):
        raise Unknown(f"the aggregate states no {metric.upper()} percentile; {_settle(evidence)}")
    lo, hi = 0, n
    for percent, value in summary.percentiles:
        below, above = _ranks(percent, n, evidence.method)
        if value + evidence.rounding_s <= bound:
            lo = max(lo, below)
        elif value - evidence.rounding_s > bound:
            hi = min(hi, above)
    return _extremes(summary, bound, evidence.rounding_s, n, (lo, hi))


def _in_buckets(evidence: Histogram, metric: str, bound: float, n: int) -> tuple[int, int]:
    """Whole buckets below the bound are within it; the bucket the bound cuts may be, or not."""
    buckets = evidence.buckets.get(metric)
    if buckets is None:
        raise Unknown(f"there is no histogram of {metric.upper()}; {_settle(evidence)}")
    lo = int(buckets.counts[buckets.edges_s <= bound].sum())
    lower_edges = np.concatenate(([-np.inf], buckets.edges_s[:-1]))
    hi = int(buckets.counts[lower_edges < bound].sum())
    values = int(buckets.counts.sum())
    # Values without a completed request may be the misses; completed requests without one may be anything.
    return max(0, lo - max(0, values - n)), min(n, hi + max(0, n - values))


def stated_percentile(prepared: Prepared, objective: Objective) -> float | None:
    """The objective's percentile as an aggregate states it."""
    summary, percent = prepared.stated(objective.metric), share_of(objective) * 100
    at = summary.percentiles if summary is not None else ()
    return next((value for stated, value in at if math.isclose(stated, percent)), None)


def lower_level(runs: Sequence[Prepared], metric: str, most: float) -> list[int] | None:
    """How many requests of each run are within one latency that leaves enough misses to see their spread.

    That latency is the runs' median of the highest percentile, up to the share `most`, that all state;
    counts are read off the line between the percentiles beside it. It measures dependence only, never
    the share itself. None where the runs state no such percentile.
    """
    if all(isinstance(one.evidence, Histogram) for one in runs):
        return _lower_edge(runs, metric, most)
    stated = []
    for one in runs:
        summary = one.stated(metric)
        if summary is None or len(summary.percentiles) < 2:
            return None
        # None is below the least: a median a hair above the level leaves nearly half within it, not none.
        stated.append({0.0: summary.min or 0.0, **dict(summary.percentiles)})
    common = [
        percent for percent in stated[0] if 0 < percent / 100 <= most and all(percent in at for at in stated)
    ]
    if not common:
        return None
    level = float(np.median([at[max(common)] for at in stated]))
    counts = []
    for one, at in zip(runs, stated, strict=True):
        below = np.interp(level, list(at.values()), list(at), right=100.0)
        counts.append(round(one.counts.completed * float(below) / 100))
    return counts


def _lower_edge(runs: Sequence[Prepared], metric: str, most: float) -> list[int] | None:
    """Counts at the highest edge that leaves enough requests above it, exact."""
    buckets = same_buckets(runs, metric)
    if not buckets:
        return None
    below = np.cumsum(np.array([one.counts for one in buckets]), axis=1)
    total = int(below[:, -1].sum())
    fits = np.flatnonzero(below.sum(axis=0) <= most * total)
    return [int(count) for count in below[:, fits[-1]]] if fits.size else None


def same_buckets(runs: Sequence[Prepared], metric: str) -> list[Buckets]:
    """The histogram of each run; empty where one has none or divides it otherwise."""
    found = [one.evidence.buckets.get(metric) for one in runs if isinstance(one.evidence, Histogram)]
    buckets = [one for one in found if one is not None]
    same = len(buckets) == len(runs) and all(np.array_equal(b.edges_s, buckets[0].edges_s) for b in buckets)
    return buckets if same else []


def _ranks(percent: float, n: int, method: str) -> tuple[int, int]:
    """How many values are surely <= a percentile, and how many at most are < it, by its method."""
    share = Fraction(str(percent)) / 100
    if method == "inverted_cdf":
        rank = math.ceil(n * share)
        return rank, max(rank - 1, 0)
    if method == "exclusive":
        position = share * (n + 1)
        return min(max(math.floor(position), 1), n), min(max(math.ceil(position) - 1, 0), n)
    position = share * (n - 1)
    return math.floor(position) + 1, math.ceil(position)


def _extremes(
    summary: Summary, bound: float, rounding: float, n: int, known: tuple[int, int]
) -> tuple[int, int]:
    lo, hi = known
    if summary.max is not None and summary.max + rounding <= bound:
        lo = n
    if summary.max is not None and summary.max - rounding > bound:
        hi = min(hi, n - 1)
    if summary.min is not None and summary.min - rounding > bound:
        hi = 0
    if summary.min is not None and summary.min + rounding <= bound:
        lo = max(lo, min(1, n))
    return (lo, hi) if lo <= hi else (0, n)  # a file that contradicts itself proves nothing


def _settle(evidence: Histogram | Aggregate) -> str:
    return (evidence.settled_by or "per-request results") + DECIDES
