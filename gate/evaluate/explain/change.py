"""The sentence about the change against a baseline."""

from __future__ import annotations

from collections.abc import Sequence

from ...model import Change, Check, Comparison, Level, Verdict
from ..compare.baseline import BAND, STORED
from ..compare.growth import signed


def sentence(comparison: Comparison | None, checks: Sequence[Check]) -> str:
    """The third line of every output: the change that matters most, with its interval.

    That of the first objective that fails, else is undecided, else stands first; else P99 TTFT, or
    what there is.
    """
    if comparison is None:
        return ""
    if not comparison.changes:
        return f"nothing could be compared with {comparison.name}"
    change = _most_telling(comparison, checks)
    span = f" ({signed(change.interval[0])} to {signed(change.interval[1])})" if change.interval else ""
    name = f"{change.statistic.upper()} {change.metric.upper()}"
    kept = "; a stored baseline only warns" if comparison.kind.startswith(f"{STORED} (") else ""
    band = f" over {comparison.sessions} sessions" if comparison.kind == BAND else ""
    return f"{name} {signed(change.growth)}{span} against {comparison.name}{band}, {change.method}{kept}"


def _most_telling(found: Comparison, checks: Sequence[Check]) -> Change:
    by_id = {f"regression.{one.metric}.{one.statistic}": one for one in found.changes}
    told = [one for one in checks if one.id in by_id]
    for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
        said = [one for one in told if one.verdict is verdict]
        if said:
            return by_id[max(said, key=lambda one: (one.level is Level.BLOCK, one.observed or 0.0)).id]
    if told:
        return by_id[told[0].id]
    return by_id.get("regression.ttft.p99", found.changes[0])
