"""What to measure next: one paragraph, only where the data shows a weakness of the benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ... import units
from ...model import Attribution, LengthBucket, Load, MetricStats, Policy
from ..checks import CLUSTERS
from ..prepare import Prepared

ENOUGH = 20  # requests a quarter: fewer give no median to compare
GROWS = 1.5  # median TTFT of the longest quarter of prompts over that of the shortest
HEAVY = 2.0  # P99 TPOT over its median
UNIFORM = 0.05  # stddev / mean of prompt lengths: less is one length, give or take a template
_SWEEP = (0.25, 0.5, 1.0, 1.5)  # of the load, as presets sweep


def measure_next(
    policy: Policy,
    prepared: Sequence[Prepared],
    judged: Sequence[Prepared],
    metrics: Mapping[str, MetricStats | None],
    attribution: Attribution | None,
) -> str:
    """The paragraph, or "" where no weakness shows. Nothing is asked for that the files already hold."""
    if not judged or not any(one.counts.completed for one in judged):
        return ""
    sentences = (
        _more_runs(policy, judged),
        _other_loads(prepared, judged[0].run.load),
        _other_prompts(judged),
        _prompt_length(attribution.by_input_length if attribution else ()),
        _tail(metrics.get("tpot_s")),
    )
    return " ".join(sentence for sentence in sentences if sentence)


def _more_runs(policy: Policy, judged: Sequence[Prepared]) -> str:
    want = max(CLUSTERS, policy.evidence.runs_min or 0)
    if len(judged) >= want:
        return ""
    more, one = want - len(judged), len(judged) == 1
    why = (
        "one run cannot show how much runs differ" if one else "few runs show little of how much they differ"
    )
    if len(judged) >= CLUSTERS:
        why = f"the policy asks for {want} runs"
    return f"Repeat the benchmark {more} more time{'s' * (more > 1)} with other seeds: {why}."


def _other_loads(prepared: Sequence[Prepared], load: Load | None) -> str:
    """A single load is a point; production moves along the curve."""
    if load is None or load.burst or load.production or len({one.run.load for one in prepared}) > 1:
        return ""
    if load.concurrency is not None:
        steps = sorted({max(1, round(load.concurrency * share)) for share in _SWEEP} - {load.concurrency})
        return f"Measure at concurrency {_listed(steps)} too: one load does not show where goodput falls."
    assert load.request_rate is not None
    rates = [load.request_rate * share for share in _SWEEP if share != 1.0]
    return f"Measure at {_listed(rates)} req/s too: one load does not show where goodput falls."


def _listed(numbers: Sequence[float]) -> str:
    *first, last = [f"{number:g}" for number in numbers]
    return f"{', '.join(first)} and {last}" if first else last


def _other_prompts(judged: Sequence[Prepared]) -> str:
    known = [cell for one in judged if (cell := one.lengths("input_tokens")) is not None]
    lengths = np.concatenate(known) if known else np.array([])
    if len(known) < len(judged) or lengths.size < ENOUGH or lengths.std() > UNIFORM * lengths.mean():
        return ""
    return (
        f"Use prompts of different lengths: all have about {lengths.mean():.0f} tokens (stddev "
        f"{lengths.std():.1f}), so neither the mix nor the cache hits of real traffic are in these figures."
    )


def _prompt_length(quarters: Sequence[LengthBucket]) -> str:
    if len(quarters) < 2:
        return ""
    short, long = quarters[0], quarters[-1]
    if short.ttft_s is None or long.ttft_s is None or min(short.n, long.n) < ENOUGH:
        return ""
    if long.ttft_s.p50 < GROWS * short.ttft_s.p50:
        return ""
    low, high = (units.show(one.ttft_s.p50, units.SECONDS) for one in (short, long) if one.ttft_s)
    return (
        f"Measure fixed prompt lengths one by one, up to the longest you serve: the median TTFT grows from"
        f" {low} (prompts up to {short.high:,} tokens) to {high} (from {long.low:,} on)."
    )


def _tail(tpot: MetricStats | None) -> str:
    if tpot is None or tpot.p50 is None or tpot.p99 is None or not 0 < HEAVY * tpot.p50 <= tpot.p99:
        return ""
    p99, p50 = (units.show(value, units.SECONDS) for value in (tpot.p99, tpot.p50))
    return (
        f"Compare chunked prefill on and off at this load: P99 TPOT {p99} is {tpot.p99 / tpot.p50:.1f} times"
        f" the median {p50}, as when prefills of other requests delay decoding."
    )
