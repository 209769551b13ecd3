"""Statistics of a vLLM file: the tool's own, and evidence where there are no rows."""

from __future__ import annotations

import numpy as np

from ...model import METRICS, Aggregate, Counts, Floats, Summary
from .. import bench_serving as _bench
from ..bursts import AT_ONCE, AT_ONCE_TPOT_S, BLIND_TPOT_S, NOT_STREAMED
from ..source import Doc

_DENSE = 1001  # order statistics of E2E kept from `latencies`
_HAIR = 1e-9  # percent
_SHOWN = (50.0, 90.0, 95.0, 99.0, 99.9)  # percentiles people look at, as the tool would state them


def counts(doc: Doc) -> tuple[Counts, list[str]]:
    """Counts as stated, with notes. Raises InputError when how many failed cannot be known."""
    completed, failed, asked = doc.count("completed"), doc.count("failed"), doc.count("num_prompts")
    if completed is None or (failed is None and asked is None):
        why = "does not say how many requests completed and failed, so no share of them is known"
        raise doc.source.fail(why, doc.at, "keep `completed`, `failed` and `num_prompts` in the file")
    if failed is None and asked is not None:
        if asked < completed:
            why = f"contradicts itself: {completed} requests completed of {asked}"
            raise doc.source.fail(why, f"{doc.at}.completed", _bench.WHOLE)
        lost = asked - completed
        notes = [f"the file has no `failed`: {lost} of {asked} prompts did not complete and count as failed"]
        return Counts(asked, completed, lost), notes if lost else []
    attempted = completed + (failed or 0)
    if asked is not None and attempted > asked:
        why = f"contradicts itself: {completed} completed and {failed or 0} failed of {asked} prompts"
        raise doc.source.fail(why, f"{doc.at}.completed", _bench.WHOLE)
    if completed and doc.number("total_output_tokens") == 0:
        why = (
            f"{completed} requests are said to have completed without one output token: they count as failed"
        )
        return Counts(attempted, 0, attempted), [why]
    notes = [f"{asked} prompts were asked for, {attempted} were sent"] if (asked or 0) > attempted else []
    return Counts(attempted, completed, failed or 0), notes


def statistics(doc: Doc) -> tuple[dict[str, dict[str, float]], list[str]]:
    """The tool's own statistics in seconds (metric -> mean, median, p99, ...), and notes.

    Raises InputError for a negative one.
    """
    found = {metric: dict(named) for metric, named in _bench.statistics(doc, "_ms", 1000).items()}
    e2e = found.get("e2e", {})
    # benchmark_serving.py 0.6.3, which knew no burstiness, wrote each in the other's place.
    if "best_of" in doc and "burstiness" not in doc and {"mean", "median"} <= e2e.keys():
        e2e["mean"], e2e["median"] = e2e["median"], e2e["mean"]
        return found, ["mean and median E2E are swapped in files of vLLM 0.6: swapped back"]
    return found, []


def evidence(doc: Doc, stated: _bench.Stated, counted: Counts) -> Aggregate:
    """Percentiles as stated; E2E from `latencies`, which vLLM >= 0.30 leaves in aggregate files."""
    if not counted.completed:
        return Aggregate({}, settled_by="--save-detailed")
    summaries = dict(_bench.aggregate(doc, stated, counted.completed, "--save-detailed").summaries)
    latencies = doc.floats("latencies")
    if latencies is not None:
        _bench.same_length(doc, {"latencies": len(latencies), "completed + failed": counted.attempted})
        values = latencies[latencies > 0]  # a failed request is a bare 0.0
        if len(values) != counted.completed:
            why = f"contradicts itself: {len(values)} latencies, but {counted.completed} completed"
            raise doc.source.fail(why, f"{doc.at}.latencies", _bench.WHOLE)
        summaries["e2e"] = _dense(values)
    return Aggregate(summaries, settled_by="--save-detailed")


def _dense(values: Floats) -> Summary:
    """Order statistics as linear percentiles, so that a bound on E2E can be counted, not only looked up.

    The value of rank k stands a hair below and above its percent: which side of a bound it is on then
    says exactly how many values are, whatever the rounding of the percent.
    """
    ordered = np.sort(values)
    last = len(values) - 1
    ranks = np.unique(np.linspace(0, last, min(len(values), _DENSE)).round().astype(np.int64))
    percents = 100 * ranks / max(last, 1)
    around = np.clip(np.concatenate([percents - _HAIR, percents + _HAIR]), 0, 100)
    at = np.concatenate([around, _SHOWN])
    points = np.concatenate([ordered[ranks], ordered[ranks], np.percentile(values, _SHOWN)])
    pairs = sorted(zip(at.tolist(), points.tolist(), strict=True))
    return Summary(tuple(pairs), float(values.mean()), float(ordered[0]), float(ordered[-1]), len(values))


def unsuitable(doc: Doc, stated: _bench.Stated, evidence: Aggregate) -> dict[str, str]:
    """Metrics the statistics cannot settle, and why: absent, undefined (zeros) or not streamed."""
    why = {m: _ABSENT.format(m) for m in METRICS if m not in evidence.summaries}
    zero = {m for m, named in stated.items() if not all(v for name, v in named.items() if name != "mean")}
    why |= {m: _ZERO for m in zero if m != "e2e" or "latencies" not in doc}
    if doc.number("total_output_tokens") == doc.number("completed"):
        why |= dict.fromkeys(("tpot", "itl"), _bench.ONE_TOKEN)
    elif _at_once(stated, evidence):
        why |= dict.fromkeys(("ttft", "tpot", "itl"), NOT_STREAMED)
    return why


def _at_once(stated: _bench.Stated, evidence: Aggregate) -> bool:
    tpot, ttft = (stated.get(m, {}).get("median") for m in ("tpot", "ttft"))
    if tpot is None or ttft is None or tpot >= AT_ONCE_TPOT_S:
        return False
    if "e2e" not in evidence.summaries:
        return tpot < BLIND_TPOT_S
    percents, values = zip(*evidence.summaries["e2e"].percentiles, strict=True)
    return ttft >= (1 - AT_ONCE) * float(np.interp(50, percents, values))


_ABSENT = "the file states no percentile of {}: name it in --percentile-metrics, or use --save-detailed"
_ZERO = "a percentile of exactly 0 is no measurement; --save-detailed shows which requests have no value"
