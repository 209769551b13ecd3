"""How a share of requests is decided: once, for a check and for what-if."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ... import stats
from ...model import Floats


class Decision(Struct, frozen=True):
    """pass, fail or undecided, and by which test."""

    verdict: str
    test: stats.ShareTest | None = None  # None of a naked estimate
    room: stats.RoomTest | None = None  # where the quantile's distance from its bound decided


class ShareRule(Struct, frozen=True):
    """At least `share` of the requests must meet a bound."""

    share: float
    alpha: float
    m: int  # blocking absolute objectives that no other implies
    point: bool  # a naked estimate

    def decide(self, runs: Sequence[Floats], bound: float, *, by_room: bool = True) -> Decision:
        """Count misses; where that is undecided, see how far inside its bound the quantile is.

        `runs` has the values of each run in submission order, inf for a miss whatever the bound. `by_room`
        is False for gaps, of which a request has many. O(n). Raises ValueError for NaN.
        """
        if self.point:
            n, met = sum(run.size for run in runs), sum(int((run <= bound).sum()) for run in runs)
            return Decision("pass" if stats.share_met(n, met, self.share) else "fail")
        counted = stats.units(runs, self.share, bound)
        test = stats.test_share(counted, self.share, alpha=self.alpha, m=self.m)
        if test.verdict == "undecided" and by_room:
            room = stats.room_test(runs, self.share, threshold=bound, alpha=self.alpha)
            if room is not None and room.passed:
                return Decision("pass", test, room)
        return Decision(test.verdict, test)
