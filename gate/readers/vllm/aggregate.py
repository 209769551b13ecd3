"""Statistics of a vLLM file: the tool's own, and evidence where there are no rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from ...model import METRICS, Aggregate, Counts, Floats, Summary, ToolReported
from .._source import Doc
from .common import AT_ONCE, AT_ONCE_TPOT_S, NOT_STREAMED, WHOLE, same_length

_STATISTIC = re.compile(r"(mean|median|p\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el)_ms")
_BLIND_TPOT_S = 1e-4  # a response in one piece, when the file does not state E2E
_ROUNDING = 1e-9
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
            raise doc.source.fail(why, f"{doc.at}.completed", WHOLE)
        lost = asked - completed
        notes = [f"the file has no `failed`: {lost} of {asked} prompts did not complete and count as failed"]
        return Counts(asked, completed, lost), notes if lost else []
    attempted = completed + (failed or 0)
    notes = [f"{asked} prompts were asked for, {attempted} were sent"] if (asked or 0) > attempted else []
    return Counts(attempted, completed, failed or 0), notes


def statistics(doc: Doc) -> tuple[dict[str, dict[str, float]], list[str]]:
    """The tool's own statistics in seconds (metric -> mean, median, p99, ...), and notes.

    Raises InputError for a negative one.
    """
    found: dict[str, dict[str, float]] = {}
    for key in doc.fields:
        parts = _STATISTIC.fullmatch(key)
        value = doc.number(key) if parts else None
        if parts is None or value is None:
            continue
        if value < 0:
            raise doc.source.fail(f"a negative latency: {value:g} ms", f"{doc.at}.{key}")
        found.setdefault("e2e" if parts[2] == "e2el" else parts[2], {})[parts[1]] = value / 1000
    e2e = found.get("e2e", {})
    # benchmark_serving.py 0.6.3, which knew no burstiness, wrote each in the other's place.
    if "best_of" in doc and "burstiness" not in doc and {"mean", "median"} <= e2e.keys():
        e2e["mean"], e2e["median"] = e2e["median"], e2e["mean"]
        return found, ["mean and median E2E are swapped in files of vLLM 0.6: swapped back"]
    return found, []


def summary(doc: Doc, metric: str, named: Mapping[str, float]) -> Summary:
    """Percentiles and mean without zeros, which are no values. Raises InputError when percentiles fall."""
    points = {50.0: named["median"]} if "median" in named else {}
    points |= {float(name[1:]): value for name, value in named.items() if name[0] == "p"}
    ordered = tuple(sorted((percent, value) for percent, value in points.items() if value > 0))
    if any(later < earlier * (1 - _ROUNDING) for (_, earlier), (_, later) in pairwise(ordered)):
        raise doc.source.fail(f"contradicts itself: percentiles of {metric} that fall", doc.at)
    return Summary(ordered, named.get("mean") or None)


def reported(summary: Summary) -> ToolReported:
    """The same as the tool's own statement."""
    return ToolReported(summary.percentiles, "numpy linear over completed requests", summary.mean)


def evidence(doc: Doc, reported: Mapping[str, Summary], counted: Counts) -> Aggregate:
    """Percentiles as stated; E2E from `latencies`, which vLLM >= 0.30 leaves in aggregate files."""
    if not counted.completed:
        return Aggregate({}, settled_by="--save-detailed")
    # How many values are behind TPOT (no single tokens) and ITL (gaps) is not in the file.
    of = dict.fromkeys(("ttft", "e2e"), counted.completed)
    summaries = {m: replace(s, n=of.get(m)) for m, s in reported.items() if s.percentiles}
    latencies = doc.floats("latencies")
    if latencies is not None:
        same_length(doc, {"latencies": len(latencies), "completed + failed": counted.attempted})
        values = latencies[latencies > 0]  # a failed request is a bare 0.0
        if len(values) != counted.completed:
            why = f"contradicts itself: {len(values)} latencies, but {counted.completed} completed"
            raise doc.source.fail(why, f"{doc.at}.latencies", WHOLE)
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


def unsuitable(doc: Doc, stated: Mapping[str, Mapping[str, float]], evidence: Aggregate) -> dict[str, str]:
    """Metrics the statistics cannot settle, and why: absent, undefined (zeros) or not streamed."""
    why = {m: _ABSENT.format(m) for m in METRICS if m not in evidence.summaries}
    zero = {m for m, named in stated.items() if not all(v for name, v in named.items() if name != "mean")}
    why |= {m: _ZERO for m in zero if m != "e2e" or "latencies" not in doc}
    if doc.number("total_output_tokens") == doc.number("completed"):
        why |= dict.fromkeys(("tpot", "itl"), _ONE_TOKEN)
    elif _at_once(stated, evidence):
        why |= dict.fromkeys(("ttft", "tpot", "itl"), NOT_STREAMED)
    return why


def _at_once(stated: Mapping[str, Mapping[str, float]], evidence: Aggregate) -> bool:
    tpot, ttft = (stated.get(m, {}).get("median") for m in ("tpot", "ttft"))
    if tpot is None or ttft is None or tpot >= AT_ONCE_TPOT_S:
        return False
    if "e2e" not in evidence.summaries:
        return tpot < _BLIND_TPOT_S
    percents, values = zip(*evidence.summaries["e2e"].percentiles, strict=True)
    return ttft >= (1 - AT_ONCE) * float(np.interp(50, percents, values))


_ABSENT = "the file states no percentile of {}: name it in --percentile-metrics, or use --save-detailed"
_ZERO = "a percentile of exactly 0 is no measurement; --save-detailed shows which requests have no value"
_ONE_TOKEN = "every response had one token, so there is no time between tokens; ask for longer outputs"
