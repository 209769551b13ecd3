"""Two scrapes -> what happened between them, for one engine and model; or why nobody can say.

A counter that fell or a series that vanished is a restart or a lost replica: what it served is gone, so
the window is refused as a whole. Buckets of replicas are added up before anything is divided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from msgspec import Struct, field

from ...model import METRICS, Buckets
from .engines import COUNTERS, ENGINES, Engine, Group, Labels, Series, of_process
from .scrapes import Scrape, Wanted

Grown = Mapping[Series, float]  # later minus earlier
_METRICS = {"itl": "itl_old"}  # the older name stands in where the newer is missing


class Refused(Exception):  # noqa: N818 - not an error: the answer "this window proves nothing"
    """Why, as a sentence."""


class Window(Struct, eq=False):
    """What one engine did for one model between two scrapes (or since it started)."""

    engine: Engine
    begin: Scrape | None
    end: Scrape
    buckets: dict[str, Buckets] = field(default_factory=dict)
    means_s: dict[str, float] = field(default_factory=dict)
    completed: int = 0
    failed: int = 0  # as the engine counts them
    attempted: int | None = None  # as the gateway counts them
    lost: int = 0  # counted by the gateway and never finished by the engine
    tokens: float | None = None
    single_token: int | None = None  # requests of one token or none
    unstreamed: tuple[int, int] = (0, 0)  # requests marked as not streamed, of those with a mark or without
    counted_by: str = ""  # what `completed` was counted with
    old_tpot: str = ""  # why the TPOT that is there is none
    refused: str = ""

    @property
    def finished(self) -> int:
        """Requests, well or not."""
        return self.completed + self.failed

    @property
    def duration_s(self) -> float | None:
        """Between the scrapes, where both have a time."""
        if self.begin is None or self.begin.at is None or self.end.at is None:
            return None
        return self.end.at - self.begin.at

    @property
    def quiet(self) -> bool:
        """Nothing was asked and nothing happened."""
        return not (self.refused or self.finished or self.attempted)


def groups(scrapes: Iterable[Scrape]) -> list[Group]:
    """Every engine and model seen in any of the scrapes, in order of appearance."""
    known = (series for scrape in scrapes for series in scrape.values)
    of_latencies = (s.group for s in known if s.le is not None and s.part and s.part.metric != "length")
    return list(dict.fromkeys(group for group in of_latencies if group))


def between(begin: Scrape | None, end: Scrape, group: Group, want: Wanted, *, alone: bool) -> Window:
    """What `group` did; `alone`: it is the only one, so a counter without a model is about it."""
    engine = next(one for one in ENGINES if one.name == group[0])
    window = Window(engine, begin, end)
    try:
        grown = _grown(begin, end, lambda series: series.group == group)
        _outcomes(window, grown)
        _histograms(window, grown)
        if want.counter is not None:
            window.attempted = _attempted(_grown(begin, end, want.counts), group, alone)
    except Refused as why:
        return Window(engine, begin, end, refused=str(why))
    return window


# ---- from two totals to a difference ------------------------------------------------------


def _grown(begin: Scrape | None, end: Scrape, wanted: Callable[[Series], bool]) -> Grown:
    """Later minus earlier, series by series. Raises Refused where a process was not there all the time."""
    earlier = {s: value for s, value in begin.values.items() if wanted(s)} if begin is not None else {}
    later = {s: value for s, value in end.values.items() if wanted(s)}
    for series, value in earlier.items():
        began = begin.starts.get(series.target) if begin is not None else None
        created = later.get(series, value) if series.name.endswith("_created") else value
        if created != value or (began is not None and end.starts.get(series.target, began) != began):
            raise Refused(f"the server{of_process(series.target)} was restarted between the scrapes")
    for series in earlier:
        if series not in later:
            raise Refused(f"{series} vanished between the scrapes: a replica stopped, or was not reached")
    grown = {}
    for series, value in later.items():
        if series.name.endswith("_created"):
            continue
        before = earlier.get(series)
        if before is None:
            if begin is not None and not _began_inside(series, begin, end):
                raise Refused(f"{series} appeared between the scrapes, and nothing says when it began")
            before = 0.0
        if value < before and not series.name.endswith("_sum"):
            raise Refused(f"{series} fell from {before:g} to {value:g}: the server was restarted")
        grown[series] = value - before
    return grown


def _began_inside(series: Series, begin: Scrape, end: Scrape) -> bool:
    """A new series counts from zero: its process was there before, or began after the first scrape."""
    process = series.target
    if process in begin.starts or any(other.target == process for other in begin.values):
        return True
    created = end.values.get(Series(f"{series.family}_created", None, series.labels), end.starts.get(process))
    return created is not None and begin.at is not None and created >= begin.at


# ---- what it means ------------------------------------------------------------------------


def _counted(grown: Grown, metric: str, le: float = np.inf) -> dict[Series, float]:
    """How many values each histogram of the metric holds up to this edge: by default, all."""
    return {s: growth for s, growth in grown.items() if s.le == le and s.is_of("bucket", metric)}


def _total(grown: Grown) -> float:
    return sum(grown.values())


def _outcomes(window: Window, grown: Grown) -> None:
    """Completed and failed, by the engine's own counters; else by the fullest histogram."""
    engine = window.engine
    counters = {role: {s: n for s, n in grown.items() if s.is_of(role)} for role in COUNTERS}
    window.tokens = _total(counters["tokens"]) if counters["tokens"] else None
    outcomes = counters["finished"] | counters["succeeded"] | counters["failed"]
    failed = {s: n for s, n in outcomes.items() if s.failed}
    if engine.name == "otel":
        failed = {s: n for s, n in _counted(grown, "e2e").items() if s.of_errors}
    window.failed = int(_total(failed))
    if counters["finished"]:
        inside = window.failed if engine.within_finished else 0
        completed = _total({s: n for s, n in counters["finished"].items() if not s.failed}) - inside
        window.counted_by, window.completed = engine.finished, int(max(completed, 0.0))
    elif counters["succeeded"]:
        window.counted_by = engine.succeeded
        window.completed = int(_total({s: n for s, n in outcomes.items() if not s.failed}))
    else:
        for metric in ("e2e", "ttft", "tpot"):
            if counted := {s: n for s, n in _counted(grown, metric).items() if not s.of_errors}:
                window.counted_by, window.completed = f"the {metric.upper()} histogram", int(_total(counted))
                break


def _histograms(window: Window, grown: Grown) -> None:
    for metric in METRICS:
        name = metric if _counted(grown, metric) else _METRICS.get(metric, metric)
        if (buckets := _buckets(window.engine, grown, name)) is not None:
            window.buckets[metric] = buckets
        n = _total(_counted(grown, name))
        sums = {s: growth for s, growth in grown.items() if s.is_of("sum", name) and not s.of_errors}
        total = _total(sums)
        if n and total < 0:
            raise Refused(f"the sum of {metric.upper()} fell while its count grew")
        if n and sums and np.isfinite(total):
            window.means_s[metric] = total / n * window.engine.scale
    window.old_tpot = window.engine.old_tpot if _counted(grown, "tpot_old") else ""
    single = _counted(grown, "length", 1.0)
    window.single_token = int(_total(single)) if single else None
    first_tokens = _counted(grown, "ttft")
    off = _total({s: growth for s, growth in first_tokens.items() if s.not_streamed})
    window.unstreamed = int(off), int(_total(first_tokens))


def _buckets(engine: Engine, grown: Grown, metric: str) -> Buckets | None:
    """Counts of all replicas, on the edges that all of them have: there the sum is exact."""
    curves: dict[tuple[str, Labels], dict[float, float]] = {}
    for series, growth in grown.items():
        if series.is_of("bucket", metric) and not series.of_errors:
            assert series.le is not None
            curves.setdefault((series.name, series.labels), {})[series.le] = growth
    if not curves:
        return None
    edges = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    total = np.array([sum(curve[le] for curve in curves.values()) for le in edges])
    counts = np.diff(total, prepend=0.0)
    if (counts < 0).any():
        raise Refused(f"the buckets of {metric.upper()} contradict one another between the scrapes")
    edges_s = (np.array(edges, dtype=np.float64) + (1.0 if engine.floored else 0.0)) * engine.scale
    return Buckets(edges_s, counts.astype(np.int64))


def _attempted(grown: Grown, group: Group, alone: bool) -> int | None:
    """What the gateway counted for the model; None when it does not say."""
    if any(series.model is not None for series in grown):
        grown = {series: growth for series, growth in grown.items() if series.model == group[1]}
    elif not alone:
        return None
    return int(_total(grown)) if grown else None
