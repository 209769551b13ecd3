"""How a share of requests is decided: once, for a check and for what-if."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ... import stats
from ...model import Floats, Policy, Requests, When
from ..prepare import Prepared
from .counting import Unknown, metric_values, suitable

QUEUE = 0.9  # a queue shows there before it shows in the last hundredth
MIDDLE = 0.5
# Where the level of a bound is not the one of its queue, half of what shows elsewhere is borne: all of it is
# three times what goodput's misses have, none is too little. Measured from 1000 requests on.
BORNE, BORNE_FROM = 0.5, 1000


class Decision(Struct, frozen=True):
    """pass, fail or undecided, and by which test."""

    verdict: str
    test: stats.ShareTest | None = None  # None of a naked estimate
    room: stats.RoomTest | None = None  # where the quantile's distance from its bound decided
    tail: stats.TailTest | None = None  # where the tail of goodput's score did


class ShareRule(Struct, frozen=True):
    """At least `share` of the requests must meet a bound."""

    metric: str
    share: float
    alpha: float
    m: int  # blocking absolute objectives that no other implies
    point: bool  # a naked estimate
    run_spread: float
    also: tuple[float, ...]  # lower shares at which the metric's own dependence is measured
    beside: tuple[stats.Units, ...]  # what else of these requests shows how much neighbours agree, to a pass
    against: tuple[stats.Units, ...]  # and to a fail

    def decide(self, runs: Sequence[Floats], bound: float) -> Decision:
        """Count misses; where that is undecided, see how far inside its bound a TPOT is, or goodput's tail.

        `runs` has the values of each run in submission order, inf for a miss whatever the bound.
        O(n). Raises ValueError for NaN.
        """
        share, alpha = self.share, self.alpha
        if self.point:
            n, met = sum(run.size for run in runs), sum(int((run <= bound).sum()) for run in runs)
            return Decision("pass" if stats.share_met(n, met, share) else "fail")
        few = len([run for run in runs if run.size]) < stats.MIN_RUNS
        counted = stats.units(
            runs,
            share,
            bound,
            also=self.also,
            run_spread=self.run_spread,
            beside=self.beside,
            against=self.against,
            borne=self._borne(sum(run.size for run in runs), few),
        )
        test = stats.test_share(counted, share, alpha=alpha, m=self.m)
        if test.verdict == "undecided" and self.metric == "tpot":
            room = stats.room_test(runs, share, threshold=bound, alpha=alpha)
            if room is not None and room.passed:
                return Decision("pass", test, room)
        if test.verdict == "undecided" and self.metric == "goodput" and test.n_eff >= stats.TAIL_EFFECTIVE:
            scores = runs if bound == 1.0 else [run / bound for run in runs]
            tail = stats.tail_test(scores, share, alpha=alpha, run_spread=self.run_spread)
            if tail is not None and tail.passed:
                return Decision("pass", test, tail=tail)
        return Decision(test.verdict, test)

    def _borne(self, n: int, few: bool) -> float:
        part = self.metric == "goodput" or (self.metric == "e2e" and not few)
        return BORNE if part and self.beside and n >= BORNE_FROM else 1.0


def share_rule(
    metric: str,
    share: float,
    runs: Sequence[Prepared],
    policy: Policy,
    *,
    alpha: float,
    m: int,
    when: When | None = None,
) -> ShareRule:
    """The rule for a percentile or for goodput of runs that hold requests."""
    point = policy.evidence.decide == "point"
    beside = () if point else tuple(_beside(metric, share, runs, policy, when))
    against: tuple[stats.Units, ...] = ()
    if metric in ("tpot", "e2e") and share <= QUEUE and len(runs) < stats.MIN_RUNS and not point:
        # The slow minutes of one run are many P50s and P90s above their bound, all from one queue.
        against = tuple(_figure("ttft", (share,), runs, policy, when))
    also = (QUEUE,) if metric == "ttft" and share > QUEUE else ()
    if metric == "e2e" and not beside:  # nothing says how its parts agree: its middle must
        also = (MIDDLE,)
    return ShareRule(metric, share, alpha, m, point, policy.evidence.run_spread, also, beside, against)


def _beside(
    metric: str, share: float, runs: Sequence[Prepared], policy: Policy, when: When | None
) -> Iterator[stats.Units]:
    """How much neighbours agree in TTFT (of goodput also in TPOT), at levels of their own.

    The highest scores of a lucky run are long answers, which are independent: the queue it missed is not in
    them, but it is in the highest TTFTs.
    """
    bounded = {bound.metric for bound in policy.goodput_bounds} if metric == "goodput" else {metric}
    for part in ("ttft", "tpot"):
        if (part not in bounded and not (part == "ttft" and "e2e" in bounded)) or metric == part:
            continue
        shares = (share, QUEUE) if part == "ttft" and share > QUEUE else (share,)
        yield from _figure(part, shares, runs, policy, when)


def _figure(
    metric: str, shares: Sequence[float], runs: Sequence[Prepared], policy: Policy, when: When | None
) -> Iterator[stats.Units]:
    """The dependence of one metric, where all runs have it."""
    values = [_values(one, metric, policy, when) for one in runs]
    known = [found for found in values if found is not None and found.size]
    if known and len(known) == len(values):
        yield stats.dependence(known, *shares)


def _values(one: Prepared, metric: str, policy: Policy, when: When | None) -> Floats | None:
    try:
        suitable(one, metric)
        return (
            metric_values(one.evidence, metric, when, policy) if isinstance(one.evidence, Requests) else None
        )
    except Unknown:
        return None
