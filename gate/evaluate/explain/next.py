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
    one = len(judged) == 1
    said = "One run does" if one else f"{len(judged)} runs do"
    return (
        f"More runs: {said} not show how much runs differ; repeat the benchmark {want - len(judged)} more"
        f" time{'s' * (want - len(judged) > 1)} with other seeds."
    )


def _other_loads(prepared: Sequence[Prepared], load: Load | None) -> str:
    """A single load is a point; production moves along the curve."""
    if load is None or load.burst or load.production or len({one.run.load for one in prepared}) > 1:
        return ""
    if load.concurrency is not None:
        steps = sorted({max(1, round(load.concurrency * share)) for share in _SWEEP} - {load.concurrency})
        return f"A goodput-concurrency curve: every run is at {load}; measure at {_listed(steps)} too."
    assert load.request_rate is not None
    rates = [load.request_rate * share for share in _SWEEP if share != 1.0]
    return f"A goodput-load curve: every run is at {load}; measure at {_listed(rates)} req/s too."


def _listed(numbers: Sequence[float]) -> str:
    *first, last = [f"{number:g}" for number in numbers]
    return f"{', '.join(first)} and {last}" if first else last


def _other_prompts(judged: Sequence[Prepared]) -> str:
    known = [cell for one in judged if (cell := one.lengths("input_tokens")) is not None]
    lengths = np.concatenate(known) if known else np.array([])
    if len(known) < len(judged) or lengths.size < ENOUGH or lengths.std() > UNIFORM * lengths.mean():
        return ""
    return (
        f"An un-uniform prompt set: all prompts have about {lengths.mean():.0f} tokens (stddev "
        f"{lengths.std():.1f}), so neither the mix nor the cache of real traffic is in these figures."
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
        f"Sensitivity to prompt length: the median TTFT grows from {low} (prompts up to {short.high:,}"
        f" tokens) to {high} (from {long.low:,} on); measure fixed lengths one by one, up to the longest"
        " you serve."
    )


def _tail(tpot: MetricStats | None) -> str:
    if tpot is None or tpot.p50 is None or tpot.p99 is None or not 0 < HEAVY * tpot.p50 <= tpot.p99:
        return ""
    p99, p50 = (units.show(value, units.SECONDS) for value in (tpot.p99, tpot.p50))
    return (
        f"The TPOT tail with chunked prefill on and off: P99 TPOT {p99} is {tpot.p99 / tpot.p50:.1f} times"
        f" its median {p50}, as when prefills of others hold up decoding; compare the two at the same load."
    )
