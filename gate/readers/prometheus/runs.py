"""Windows -> Runs: who is missing, what may be judged, and what people must know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from ... import units
from ...model import METRICS, Buckets, Counts, Histogram, Load, Run, ToolReported
from . import engines
from .engines import Labels
from .scrapes import WHOLE, Scrape
from .windows import Group, Window

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
_HALF = (
    "a {} worker of a disaggregated deployment sees only its half of a request:"
    " scrape the router in front of it, or measure at the client"
)
_NOT_STREAMED = "no response was streamed, so TTFT is E2E: judge E2E, or ask for streams"
_OLD_VLLM = (
    "vLLM of this version exports gaps between engine steps, and no TPOT of requests, which gaps never"
    " stand in for: upgrade the server, or measure at the client"
)
_SINCE_START = (
    "one scrape: everything since the server started, warm-up included, at an unknown load;"
    " a second scrape gives a window"
)


def check(scrape: Scrape) -> None:
    """Raises InputError when the buckets of a histogram contradict one another or its count."""
    curves: dict[tuple[str, Labels], dict[float, float]] = {}
    for (name, le, labels), value in scrape.values.items():
        if le is not None:
            curves.setdefault((name.removesuffix("_bucket"), labels), {})[le] = value
    for (family, labels), curve in curves.items():
        edges = sorted(curve)
        if edges[-1] != np.inf:
            raise scrape.source.fail(f"{family} has no bucket without an upper edge (le=+Inf)", hint=WHOLE)
        if any(curve[high] < curve[low] for low, high in pairwise(edges)):
            raise scrape.source.fail(f"contradicts itself: the buckets of {family} fall", hint=WHOLE)
        count = scrape.values.get((f"{family}_count", None, labels), curve[np.inf])
        if count != curve[np.inf]:
            why = f"contradicts itself: {family} counts {count:g}, its buckets hold {curve[np.inf]:g}"
            raise scrape.source.fail(why, hint=WHOLE)


def make(windows: Sequence[Window], group: Group, counter: str | None) -> list[Run]:
    """A Run for each window that is refused or saw a request, all at the load of the whole series."""
    busy = [one for one in windows if not one.quiet]
    missing = _missing([one for one in busy if not one.refused])
    blind = _unattempted([one for one in busy if not one.refused], counter)
    load = _load(windows)
    found = []
    for number, one in enumerate(busy):
        lost = 0 if one.refused or blind else missing.pop(0)
        run = _refused(one, group) if one.refused else _run(one, group, lost, blind)
        notes = (*_when(one), *run.notes)
        if number == 0:
            notes += _general(windows, busy)
        found.append(replace(run, load=load, notes=notes))
    return found


def _missing(windows: Sequence[Window]) -> list[int]:
    """Requests the gateway counted and the engine never finished, by window.

    What is sent in one window may finish in a later one: a later surplus explains an earlier gap.
    """
    left, found = 0, []
    for one in reversed(windows):
        left += (one.attempted or 0) - one.completed - one.failed
        found.append(max(left, 0))
        left = min(left, 0)
    return found[::-1]


def _unattempted(windows: Sequence[Window], counter: str | None) -> str:
    """Why it is not known how many requests were attempted; empty when it is."""
    if counter is None:
        return _NO_COUNTER
    if any(one.attempted is None for one in windows):
        return _ABSENT.format(counter)
    asked = sum(one.attempted or 0 for one in windows)
    finished = sum(one.completed + one.failed for one in windows)
    return _TOO_FEW.format(counter, asked, finished) if asked < finished * (1 - _TOLERANCE) else ""


def _load(windows: Sequence[Window]) -> Load | None:
    """Finished requests a second over the whole series: windows of one canary are one load."""
    clean = [one for one in windows if not one.refused]
    lengths = [one.duration_s for one in clean]
    total = sum(length for length in lengths if length is not None)
    if None in lengths or total <= 0:
        return None
    return Load(request_rate=sum(one.completed + one.failed for one in clean) / total, production=True)


# ---- one window ---------------------------------------------------------------------------


def _base(window: Window, group: Group, evidence: Histogram, counts: Counts) -> Run:
    begin = window.begin.at if window.begin else None
    at = begin if begin is not None else window.end.at
    return Run(
        input=window.end.source.name,
        sha256=window.end.source.sha256,
        format=f"prometheus {window.engine.name}",
        tool=window.engine.tool,
        evidence=evidence,
        counts=counts,
        model=group[1],
        duration_s=window.duration_s,
        date=_clock(at)[:10] or None,
        definitions=window.engine.definitions or {},
    )


def _refused(window: Window, group: Group) -> Run:
    """A window in which something was lost: it stays among the runs, so that nothing turns green."""
    why = f"the window is refused: {window.refused}; take scrapes of a steady fleet, or gate at the client"
    run = _base(window, group, Histogram({}), Counts(0, 0, 0))
    return replace(run, unsuitable=dict.fromkeys((*METRICS, "error_rate"), why), notes=(why,))


def _run(window: Window, group: Group, lost: int, blind: str) -> Run:
    failed = window.failed + lost
    counts = Counts(window.completed + failed, window.completed, failed)
    buckets, notes = _without_single_tokens(window)
    run = _base(window, group, Histogram(buckets, _edges(buckets)), counts)
    return replace(
        run,
        total_output_tokens=window.tokens,
        streaming=False if _all_unstreamed(window) else None,
        tool_reported={
            metric: ToolReported((), "mean = sum / count of the histogram", mean)
            for metric, mean in window.means_s.items()
        },
        unsuitable=_unsuitable(window, group, blind),
        notes=(*notes, *_failures(window, lost), *_counting(window)),
    )


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


def _unsuitable(window: Window, group: Group, blind: str) -> dict[str, str]:
    if group[2]:
        return dict.fromkeys((*METRICS, "error_rate"), _HALF.format(group[2]))
    if blind:
        return dict.fromkeys((*METRICS, "error_rate"), blind)
    why = dict(window.engine.no_metric or {})
    if "tpot" not in window.buckets and window.old_tpot:
        why["tpot"] = engines.SGLANG_OLD_TPOT
    elif "tpot" not in window.buckets and window.engine.name == "vllm" and "itl" in window.buckets:
        why["tpot"] = _OLD_VLLM
    if _all_unstreamed(window):
        why |= {"ttft": _NOT_STREAMED, "itl": _NOT_STREAMED}
    return why


def _all_unstreamed(window: Window) -> bool:
    off, n = window.unstreamed
    return 0 < n == off


def _edges(buckets: Mapping[str, Buckets]) -> str:
    """What would decide: the two edges around each metric's P99."""
    named = []
    for metric, one in buckets.items():
        total = one.counts.sum()
        if not total:
            continue
        at = int(np.searchsorted(np.cumsum(one.counts), 0.99 * total))
        around = [float(edge) for edge in one.edges_s[max(at - 1, 0) : at + 1] if np.isfinite(edge)]
        named.append(f"{metric.upper()} {' or '.join(units.show(edge, units.SECONDS) for edge in around)}")
    return f"a bound on a bucket edge (around P99: {', '.join(named)})" if named else ""


# ---- notes --------------------------------------------------------------------------------


def _failures(window: Window, lost: int) -> tuple[str, ...]:
    said = []
    if window.failed:
        said.append(f"{window.failed} aborted or failed in the engine, some of which its histograms may hold")
    if lost:
        said.append(f"{lost} counted by the gateway and never finished by the engine")
    return (f"{window.failed + lost} failed: {'; '.join(said)}",) if said else ()


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
    rate = (window.completed + window.failed) / (window.end.at - window.begin.at)
    seen = "" if window.refused else f", {rate:.4g} requests/s"
    return (f"window from {_clock(window.begin.at)} to {_clock(window.end.at)}{seen}",)


def _clock(at: float | None) -> str:
    """UTC, or nothing for a time no calendar has."""
    try:
        return "" if at is None else datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return ""
