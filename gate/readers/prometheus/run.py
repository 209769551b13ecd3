"""Scrapes of one or several files -> windows -> what is told of each: who is missing, what may be judged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import pairwise

import numpy as np

from ... import units
from ...model import METRICS, Buckets, Counts, Doubt, Histogram, Load, Summary, Why
from .. import clocks
from ..source import Source
from ..told import Told
from . import scrapes, windows
from .engines import Group, Labels, Series
from .scrapes import WHOLE, Scrape
from .windows import Window

_HINT = "scrape /metrics of vLLM, SGLang, TensorRT-LLM, Triton or an OpenTelemetry GenAI server"
_EVERY = (*METRICS, "error_rate")
_TOLERANCE = 0.05  # a gateway that counts this much less than the engine finished counts something else

_NO_COUNTER = (
    "requests rejected before the engine are in none of its metrics, so how many were attempted is not known:"
    " name the gateway's counter in the policy, evidence: {attempted: METRIC_NAME}, and scrape it too"
)
_ABSENT = (
    "the scrapes hold no {} for this model (evidence.attempted): scrape the gateway into the same file or"
    " query, and give its counter a model label where several models are served"
)
_TOO_FEW = (
    "{} counts {} requests where the engine finished {}: it is not the counter of all requests;"
    " name the gateway's own in evidence.attempted"
)
_REFUSED = "the window is refused: {}; take scrapes of a steady fleet, or gate at the client"
_HALF = (
    "a {} worker of a disaggregated deployment sees only its half of a request:"
    " scrape the router in front of it, or measure at the client"
)
_OLD_VLLM = (
    "vLLM of this version exports gaps between engine steps, and no TPOT of requests, which gaps never"
    " stand in for: upgrade the server, or measure at the client"
)
_SINCE_START = (
    "one scrape: everything since the server started, warm-up included, at an unknown load;"
    " a second scrape gives a window"
)


def decode_set(sources: Sequence[Source]) -> Iterator[tuple[Source, Told]]:
    """The windows of all files together, one series a folder, each with the file in which it ends.

    Raises InputError where there is none.
    """
    found = [pair for series in _series(sources) for pair in _windows(series)]
    if not found:
        raise sources[0].fail("no request finished between the scrapes", hint="scrape while there is traffic")
    yield from found


def _series(sources: Sequence[Source]) -> list[list[Scrape]]:
    """Scrapes that follow one another, in order: of one folder, or of all when folders hold one each."""
    folders: dict[str, list[Scrape]] = {}
    for source in sorted(sources, key=lambda one: _natural(one.name)):
        folder = str(source.path.parent) if source.path is not None else ""
        folders.setdefault(folder, []).extend(_scrapes(source))
    if any(len(scrapes_) == 1 for scrapes_ in folders.values()):
        folders = {"": [scrape for scrapes_ in folders.values() for scrape in scrapes_]}
    return [_in_order(scrapes_) for scrapes_ in folders.values()]


def _natural(name: str) -> list[tuple[int, int, str]]:
    """scrape-2 before scrape-10."""
    return [(1, int(word), "") if word.isdecimal() else (0, 0, word) for word in re.split(r"(\d+)", name)]


def _scrapes(source: Source) -> list[Scrape]:
    want = scrapes.wanted(source)
    found = scrapes.from_json(source, want) if source.shape == "object" else scrapes.from_text(source, want)
    if not found:
        raise source.fail("holds no sample", hint=_HINT)
    return found


def _in_order(found: list[Scrape]) -> list[Scrape]:
    """By time where every scrape has one; answers to several queries at the same time are one scrape."""
    if any(scrape.at is None for scrape in found):
        return found
    merged: dict[float, Scrape] = {}
    for scrape in sorted(found, key=lambda one: one.at or 0.0):
        assert scrape.at is not None
        other = merged.setdefault(scrape.at, scrape)
        if other is scrape:
            continue
        if any(other.values.get(key, value) != value for key, value in scrape.values.items()):
            why = f"contradicts {other.source.name}: another value of the same series at the same time"
            raise scrape.source.fail(why, hint="give the scrapes of one series, each once")
        other.values |= scrape.values
        other.starts |= scrape.starts
    return list(merged.values())


def _windows(series: Sequence[Scrape]) -> Iterator[tuple[Source, Told]]:
    """Each window that is refused or saw a request, all at the load of the whole series."""
    want = scrapes.wanted(series[0].source)
    groups = windows.groups(series)
    if not groups:
        raise series[0].source.fail("holds no latency histogram of an engine that is known", hint=_HINT)
    for scrape in series:
        _check(scrape)
    pairs = list(pairwise(series)) if len(series) > 1 else [(None, series[0])]
    for group in groups:
        alone = len(groups) == 1
        every = [windows.between(begin, end, group, want, alone=alone) for begin, end in pairs]
        busy = [window for window in every if not window.quiet]
        clean = [window for window in busy if not window.refused]
        uncounted = _unattempted(clean, series[0].source.attempted_counter)
        if not uncounted:
            _count_lost(clean)
        load, general = _load([one for one in every if not one.refused]), _general(every, busy)
        for window in busy:
            yield window.end.source, _told(window, group, load, uncounted, general)
            general = ()


def _check(scrape: Scrape) -> None:
    """Raises InputError when the buckets of a histogram contradict one another or its count."""
    curves: dict[tuple[str, Labels], dict[float, float]] = {}
    for series, value in scrape.values.items():
        if series.le is not None:
            curves.setdefault((series.name.removesuffix("_bucket"), series.labels), {})[series.le] = value
    for (family, labels), curve in curves.items():
        edges = sorted(curve)
        if edges[-1] != np.inf:
            raise scrape.source.fail(f"{family} has no bucket without an upper edge (le=+Inf)", hint=WHOLE)
        if any(curve[high] < curve[low] for low, high in pairwise(edges)):
            raise scrape.source.fail(f"contradicts itself: the buckets of {family} fall", hint=WHOLE)
        count = scrape.values.get(Series(f"{family}_count", None, labels), curve[np.inf])
        if count != curve[np.inf]:
            why = f"contradicts itself: {family} counts {count:g}, its buckets hold {curve[np.inf]:g}"
            raise scrape.source.fail(why, hint=WHOLE)


def _count_lost(windows: Sequence[Window]) -> None:
    """What is sent in one window may finish in a later one: a later surplus explains an earlier gap."""
    left = 0
    for window in reversed(windows):
        left += (window.attempted or 0) - window.finished
        window.lost, left = max(left, 0), min(left, 0)


def _unattempted(windows: Sequence[Window], counter: str | None) -> str:
    """Why it is not known how many requests were attempted; empty when it is."""
    if counter is None:
        return _NO_COUNTER
    if any(one.attempted is None for one in windows):
        return _ABSENT.format(counter)
    asked = sum(one.attempted or 0 for one in windows)
    finished = sum(one.finished for one in windows)
    return _TOO_FEW.format(counter, asked, finished) if asked < finished * (1 - _TOLERANCE) else ""


def _load(windows: Sequence[Window]) -> Load | None:
    """Finished requests a second over the whole series: windows of one canary are one load."""
    lengths = [one.duration_s for one in windows]
    total = sum(length for length in lengths if length is not None)
    if None in lengths or total <= 0:
        return None
    return Load(request_rate=sum(one.finished for one in windows) / total, production=True)


# ---- one window ---------------------------------------------------------------------------


def _told(window: Window, group: Group, load: Load | None, uncounted: str, general: tuple[str, ...]) -> Told:
    begin = window.begin.at if window.begin else None
    failed = window.failed + window.lost
    buckets, notes = _without_single_tokens(window)
    off, n = window.unstreamed
    return Told(
        format=f"prometheus {window.engine.name}",
        tool=window.engine.tool,
        evidence=Histogram(buckets, _edges(buckets, window.engine.own_edges)),
        retries=0,  # a request that is sent again is one more to the gateway
        counts=Counts(window.completed + failed, window.completed, failed),
        output_tokens=window.tokens,
        model=group[1],
        load=load,
        duration_s=window.duration_s,
        date=clocks.day(begin if begin is not None else window.end.at),
        streamed=False if 0 < n == off else None,
        stream_with="judge E2E, or ask for streams",
        stated={metric: Summary(mean=mean) for metric, mean in window.means_s.items()},
        method="mean = sum / count of the histogram",
        doubts=tuple(_doubts(window, group, uncounted)),
        notes=(*_when(window), *notes, *_failures(window), *_counting(window), *general),
    )


def _doubts(window: Window, group: Group, uncounted: str) -> Iterator[Doubt]:
    if window.refused:  # it stays among the runs, so that nothing turns green
        yield Doubt(Why.UNREADABLE, _EVERY, _REFUSED.format(window.refused))
        return
    if group[2]:
        yield Doubt(Why.UNREADABLE, _EVERY, _HALF.format(group[2]))
    if uncounted:
        yield Doubt(Why.COUNTS_UNKNOWN, _EVERY, uncounted)
    for metric, why in window.engine.no_metric.items():
        yield Doubt(Why.DEFINITION, (metric,), why)
    if "tpot" not in window.buckets and window.old_tpot:
        yield Doubt(Why.DEFINITION, ("tpot",), window.old_tpot)
    elif "tpot" not in window.buckets and window.engine.name == "vllm" and "itl" in window.buckets:
        yield Doubt(Why.ABSENT, ("tpot",), _OLD_VLLM)


def _without_single_tokens(window: Window) -> tuple[Mapping[str, Buckets], tuple[str, ...]]:
    """vLLM observes a TPOT of 0 for a request of one token, which has none: out of the first bucket."""
    tpot = window.buckets.get("tpot")
    if tpot is None or window.engine.name != "vllm":
        return window.buckets, ()
    if window.single_token is None:
        why = "requests of one token count with a TPOT of 0: vLLM observes it, and nothing here says how many"
        return window.buckets, (why,)
    out = min(window.single_token, int(tpot.counts[0]))
    if not out:
        return window.buckets, ()
    counts = tpot.counts.copy()
    counts[0] -= out
    why = f"{out} requests of one token left out of TPOT, where vLLM observes 0"
    return {**window.buckets, "tpot": Buckets(tpot.edges_s, counts, out)}, (why,)


def _edges(buckets: Mapping[str, Buckets], own: str) -> str:
    """What would decide: the two edges around each metric's P99, or buckets of one's own."""
    named = []
    for metric, one in buckets.items():
        total = one.counts.sum()
        if not total:
            continue
        at = int(np.searchsorted(np.cumsum(one.counts), 0.99 * total))
        around = [float(edge) for edge in one.edges_s[max(at - 1, 0) : at + 1] if np.isfinite(edge)]
        named.append(f"{metric.upper()} {' or '.join(units.show(edge, units.SECONDS) for edge in around)}")
    more = f", or buckets with an edge at the bound ({own})" if own else ""
    return f"a bound on a bucket edge (around P99: {', '.join(named)}){more}" if named else ""


# ---- notes --------------------------------------------------------------------------------


def _failures(window: Window) -> tuple[str, ...]:
    kinds = []
    if window.failed:
        kinds.append(
            f"{window.failed} aborted or failed in the engine, some of which its histograms may hold"
        )
    if window.lost:
        kinds.append(f"{window.lost} counted by the gateway and never finished by the engine")
    return (f"{window.failed + window.lost} failed: {'; '.join(kinds)}",) if kinds else ()


def _counting(window: Window) -> tuple[str, ...]:
    off, n = window.unstreamed
    mixed = (f"{off} of {n} requests were not streamed: their TTFT is their E2E",) if 0 < off < n else ()
    if " histogram" not in window.counted_by:
        return mixed
    return (*mixed, f"no counter of outcomes: completed is the count of {window.counted_by}")


def _general(windows: Sequence[Window], busy: Sequence[Window]) -> tuple[str, ...]:
    """What is said once for a series."""
    notes = ["server-side times: network, gateway and client queues are not in them"]
    first = windows[0].begin
    if first is None:
        return (*notes, _SINCE_START)
    if first.source is not windows[0].end.source:
        notes.append(f"the first window counts from {first.source.name} (SHA-256 {first.source.sha256})")
    if len(busy) < len(windows):
        notes.append(f"{len(windows) - len(busy)} of {len(windows)} windows saw no request and are left out")
    if any(one.duration_s is None for one in busy):
        notes.append(
            "the scrapes have no times, so the load is unknown: name files by time (1795961626.prom)"
        )
    return tuple(notes)


def _when(window: Window) -> tuple[str, ...]:
    if window.begin is None or window.begin.at is None or window.end.at is None:
        return ()
    rate = window.finished / (window.end.at - window.begin.at)
    seen = "" if window.refused else f", {rate:.4g} requests/s"
    return (f"window from {_clock(window.begin.at)} to {_clock(window.end.at)}{seen}",)


def _clock(at: float | None) -> str:
    """UTC, or nothing for a time no calendar has."""
    try:
        return "" if at is None else datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return ""
