"""How much more must be measured: one calculation for `check` and `plan`, in runs and requests to send."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from ... import stats, units
from ...model import Check, Effort, Level, Policy, Verdict
from ..checks import CLUSTERS, SURE_FROM, Setting
from ..prepare import Prepared, warmup_of

HARDLY = 20  # times what was measured: what takes more sits on its bound
FEW = 10  # runs: with fewer their spread is poorly known, and an estimate from it is a range
RUNS, EACH = "evidence.runs", "evidence.requests_per_run"


def spread(more: Effort) -> bool:
    """Whether it is a range."""
    return more.runs[0] != more.runs[1]


def amount(more: Effort) -> str:
    """`3 more runs of 120 requests`, warm-up among them."""
    what, each = "" if more.again else " more", more.requests + more.warmup
    return f"{_range(more.runs)}{what} run{'s' * (more.runs[1] != 1)} of {each:,} requests"


def sentences(more: Effort | None) -> tuple[str, ...]:
    """`run 5 x 332 requests (300 + 32 warm-up), about 4 min at this rate`, then ever shorter."""
    if more is None:
        return ("",)
    bare = (
        f"run {_range(more.runs)} {'x' if more.again else 'more of'} {more.requests + more.warmup:,} requests"
    )
    split = f" ({more.requests:,} + {more.warmup:,} warm-up)" if more.warmup else ""
    took = f", {_time(more.seconds)}" if more.seconds else ""
    return (
        f"{bare}{split}{took}{' at this rate' if took else ''}",
        f"{bare}{split}{took}",
        bare + took,
        bare,
    )


def _time(seconds: tuple[float, float]) -> str:
    low, high = map(duration, seconds)
    if low == high:
        return f"about {low}"
    number, unit = low.split(" ")
    return f"about {number if high.endswith(f' {unit}') else low} to {high}"


def with_range(one: Check, setting: Setting) -> Check:
    """The check, and between which numbers of requests the spread of so few runs leaves its estimate.

    The spread of df + 1 units is known up to a chi-square of df degrees of freedom: ends at 80 %.
    """
    runs = len(setting.runs)
    counted = None not in (one.more_requests, one.n, one.misses, one.deff, one.n_eff)
    share = next((asked.share for asked in setting.policy.objectives if asked.id == one.id), None)
    if not counted or share is None or one.interval in (None, (0.0, 1.0)) or runs >= FEW:
        return one
    df = runs - 1 if runs >= CLUSTERS else stats.BLOCKS - 1
    n, met, deff = one.n or 0, (one.n or 0) - (one.misses or 0), one.deff or 1.0
    ends = []
    for side in (0.9, 0.1):
        spread = max(1.0, deff * df / _chi_square(side, df))
        more = stats.more_requests(n, met, share, deff=spread, df=df, alpha=setting.alpha, m=setting.m)
        ends.append(more or one.more_requests or 0)
    return replace(one, more_range=(min(ends), max(ends)))


def _chi_square(share: float, df: int) -> float:
    """Quantile of chi-square (Wilson and Hilferty 1931), within 1 % from four degrees of freedom on."""
    spread = 2.0 / (9.0 * df)
    return df * (1.0 - spread + stats.normal_quantile(share) * math.sqrt(spread)) ** 3


def effort(policy: Policy, checks: Sequence[Check], runs: Sequence[Prepared]) -> Effort | None:
    """What would settle these checks; None where no more data of this kind would, or nothing is open."""
    open_ones = [one for one in checks if one.verdict is Verdict.INCONCLUSIVE and one.level is not Level.INFO]
    ids = {one.id for one in open_ones}
    costs = [one for one in open_ones if one.cause == "undecided" and one.more_requests and not hardly(one)]
    # What only warns is not worth more requests than what blocks.
    costs = [one for one in costs if one.level is Level.BLOCK] or costs
    if not runs or not (costs or ids & {RUNS, EACH}):
        return None
    n, attempted = len(runs), sum(one.counts.attempted for one in runs)
    dropped = sum(one.counts.warmup - one.run.counts.warmup for one in runs)
    again = EACH in ids or not attempted
    each = max(policy.evidence.requests_per_run_min or 0, 1) if again else math.ceil(attempted / n)
    warmup = math.ceil(dropped / n)
    if again and dropped and runs[0].run.load is not None:
        warmup = warmup_of(policy.evidence.warmup, runs[0].run.load, each)
    least = max(policy.evidence.runs_min or 1, 1) if RUNS in ids or again else 0
    ends = []
    for end in (0, 1):
        more = max(((one.more_range or (one.more_requests or 0,) * 2)[end] for one in costs), default=0)
        more += attempted if again and more else 0
        wanted = least if again else max(least - n, 0)
        ends.append(max(wanted, math.ceil(more / each)))
    found = (ends[0], max(ends))
    return Effort(found, each, warmup, again, _seconds(runs, found, each + warmup))


def hardly(one: Check) -> bool:
    """Whether the observed share sits so near its target that more data will hardly decide."""
    n = one.n or 0
    missed = one.misses != 0 and n >= SURE_FROM  # without a miss it is only a matter of time
    return one.more_requests is not None and missed and one.more_requests > HARDLY * n


def _seconds(runs: Sequence[Prepared], more: tuple[int, int], each: int) -> tuple[float, float] | None:
    sent = sum(one.counts.attempted + one.counts.warmup for one in runs)
    took = [one.run.duration_s for one in runs]
    if not sent or not all(took):
        return None
    pace = sum(seconds or 0.0 for seconds in took) / sent
    return more[0] * each * pace, more[1] * each * pace


def duration(seconds: float) -> str:
    """Two digits: 55 s, 4 min, 3.5 h."""
    for size, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{units.two_digits(seconds / size)} {unit}"
    return f"{units.two_digits(max(seconds, 1.0))} s"


def _range(ends: tuple[int, int]) -> str:
    low, high = (units.about(end) if end > 99 else f"{end:,}" for end in ends)
    return low if low == high else f"{low} to {high}"
