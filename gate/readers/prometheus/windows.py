"""Two scrapes -> what happened between them, for one engine and model; or why nobody can say.

A counter that fell or a series that vanished is a restart or a lost replica: what it served is gone, so
the window is refused as a whole. Buckets of replicas are added up before anything is divided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from ...model import METRICS, Buckets
from . import engines
from .engines import Engine, Labels, Part
from .scrapes import Key, Scrape, Wanted

Group = tuple[str, str | None, str]  # engine, model, half of a disaggregated deployment
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
    tokens: float | None = None
    single_token: int | None = None  # requests of one token or none
    unstreamed: tuple[int, int] = (0, 0)  # requests marked as not streamed, of those with a mark or without
    counted_by: str = ""  # what `completed` was counted with
    old_tpot: bool = False
    refused: str = ""

    @property
    def duration_s(self) -> float | None:
        """Between the scrapes, where both have a time."""
        if self.begin is None or self.begin.at is None or self.end.at is None:
            return None
        return self.end.at - self.begin.at

    @property
    def quiet(self) -> bool:
        """Nothing was asked and nothing happened."""
        return not (self.refused or self.completed or self.failed or self.attempted)


def groups(scrapes: Iterable[Scrape]) -> list[Group]:
    """Every engine and model seen in any of the scrapes, in order of appearance."""
    found: dict[Group, None] = {}
    for scrape in scrapes:
        for name, _, labels in scrape.values:
            part = engines.part(name, labels)
            if part is not None and part.role == "bucket" and part.metric not in ("length",):
                found[part.engine.name, engines.model(labels), engines.half(labels)] = None
    return list(found)


def between(begin: Scrape | None, end: Scrape, group: Group, want: Wanted, *, alone: bool) -> Window:
    """What `group` did; `alone`: it is the only one, so a counter without a model is about it."""
    engine = next(one for one in engines.ENGINES if one.name == group[0])
    window = Window(engine, begin, end)
    try:
        earlier = _of(begin, group) if begin is not None else {}
        later = _of(end, group)
        _same_start(begin, end, earlier, later)
        series = _named_series(_change(begin, end, earlier, later))
        _outcomes(window, series)
        _histograms(window, series)
        if want.counter is not None:
            window.attempted = _attempted(begin, end, group, want, alone)
    except Refused as why:
        return Window(engine, begin, end, refused=str(why))
    return window


def _of(scrape: Scrape, group: Group) -> dict[Key, float]:
    found = {}
    for key, value in scrape.values.items():
        part = engines.part(key[0], key[2])
        if part is not None and (part.engine.name, engines.model(key[2]), engines.half(key[2])) == group:
            found[key] = value
    return found


# ---- from two totals to a difference ------------------------------------------------------


def _same_start(
    begin: Scrape | None, end: Scrape, earlier: Mapping[Key, float], later: Mapping[Key, float]
) -> None:
    if begin is None:
        return
    for process in {engines.target(labels) for _, _, labels in earlier}:
        before, after = begin.starts.get(process), end.starts.get(process)
        if before is not None and after is not None and before != after:
            raise Refused(f"the server{_named(process)} was restarted between the scrapes")
    for key, value in earlier.items():
        if key[0].endswith("_created") and later.get(key, value) != value:
            raise Refused(f"the server{_named(engines.target(key[2]))} was restarted between the scrapes")


def _change(
    begin: Scrape | None, end: Scrape, earlier: Mapping[Key, float], later: Mapping[Key, float]
) -> dict[Key, float]:
    """Later minus earlier, series by series. Raises Refused."""
    for key in earlier:
        if key not in later:
            raise Refused(
                f"{_shown(key)} vanished between the scrapes: a replica stopped, or was not reached"
            )
    change = {}
    for key, value in later.items():
        if key[0].endswith("_created"):
            continue
        before = earlier.get(key)
        if before is None:
            if begin is not None and not _began_inside(key, begin, end):
                raise Refused(f"{_shown(key)} appeared between the scrapes, and nothing says when it began")
            before = 0.0
        if value < before and not key[0].endswith("_sum"):
            raise Refused(f"{_shown(key)} fell from {before:g} to {value:g}: the server was restarted")
        change[key] = value - before
    return change


def _began_inside(key: Key, begin: Scrape, end: Scrape) -> bool:
    """A new series counts from zero: its process was there before, or began after the first scrape."""
    process = engines.target(key[2])
    if process in begin.starts or any(engines.target(other[2]) == process for other in begin.values):
        return True
    created = end.values.get((f"{_family(key[0])}_created", None, key[2]), end.starts.get(process))
    return created is not None and begin.at is not None and created >= begin.at


def _family(name: str) -> str:
    for end in ("_bucket", "_sum", "_count", "_total"):
        name = name.removesuffix(end)
    return name


def _shown(key: Key) -> str:
    return f"{_family(key[0])}{_named(engines.target(key[2]))}"


def _named(process: Labels) -> str:
    return " of " + ", ".join(value for _, value in process) if process else ""


# ---- what it means ------------------------------------------------------------------------


class _Series(Struct, frozen=True, eq=False):
    """What one series grew by."""

    part: Part
    name: str
    le: float | None
    labels: Labels
    growth: float

    @property
    def of_errors(self) -> bool:
        """OpenTelemetry keeps the latencies of failed requests apart."""
        return bool(dict(self.labels).get("error_type"))

    def is_sum(self, metric: str) -> bool:
        """Whether it is the sum of that metric's values."""
        return (self.part.role, self.part.metric) == ("sum", metric) and not self.of_errors


def _named_series(change: Mapping[Key, float]) -> list[_Series]:
    found = ((engines.part(key[0], key[2]), key, growth) for key, growth in change.items())
    return [_Series(part, *key, growth) for part, key, growth in found if part is not None]


def _counted(series: Sequence[_Series], metric: str, le: float = np.inf) -> list[_Series]:
    """How many values each histogram of the metric holds up to this edge: by default, all."""
    return [one for one in series if one.le == le and one.part.metric == metric]


def _total(series: Iterable[_Series]) -> float:
    return sum(one.growth for one in series)


def _outcomes(window: Window, series: Sequence[_Series]) -> None:
    """Completed and failed, by the engine's own counters; else by the fullest histogram."""
    engine = window.engine
    tokens = [one for one in series if one.part.role == "tokens"]
    window.tokens = _total(tokens) if tokens else None
    outcomes = [one for one in series if one.part.role in ("finished", "succeeded", "failed")]
    failed = [one for one in outcomes if engines.failed_series(one.part, one.labels)]
    if engine.name == "otel":
        failed = [one for one in _counted(series, "e2e") if one.of_errors]
    window.failed = int(_total(failed))
    good = [one for one in outcomes if not engines.failed_series(one.part, one.labels)]
    if finished := [one for one in good if one.part.role == "finished"]:
        inside = window.failed if engine.within_finished else 0
        window.counted_by, window.completed = engine.finished, int(max(_total(finished) - inside, 0.0))
    elif any(one.part.role == "succeeded" for one in outcomes):
        window.counted_by, window.completed = engine.succeeded, int(_total(good))
    else:
        for metric in ("e2e", "ttft", "tpot"):
            if counted := [one for one in _counted(series, metric) if not one.of_errors]:
                window.counted_by, window.completed = f"the {metric.upper()} histogram", int(_total(counted))
                break


def _histograms(window: Window, series: Sequence[_Series]) -> None:
    for metric in METRICS:
        name = metric if _counted(series, metric) else _METRICS.get(metric, metric)
        if (buckets := _buckets(window.engine, series, name)) is not None:
            window.buckets[metric] = buckets
        n, sums = _total(_counted(series, name)), [one for one in series if one.is_sum(name)]
        total = _total(sums)
        if n and total < 0:
            raise Refused(f"the sum of {metric.upper()} fell while its count grew")
        if n and sums and np.isfinite(total):
            window.means_s[metric] = total / n * window.engine.scale
    window.old_tpot = bool(_counted(series, "tpot_old"))
    single = _counted(series, "length", 1.0)
    window.single_token = int(_total(single)) if single else None
    first_tokens = _counted(series, "ttft")
    off = _total(one for one in first_tokens if engines.not_streamed(one.labels))
    window.unstreamed = int(off), int(_total(first_tokens))


def _buckets(engine: Engine, series: Sequence[_Series], metric: str) -> Buckets | None:
    """Counts of all replicas, on the edges that all of them have: there the sum is exact."""
    curves: dict[tuple[str, Labels], dict[float, float]] = {}
    for one in series:
        if (one.part.role, one.part.metric) == ("bucket", metric) and not one.of_errors:
            assert one.le is not None
            curves.setdefault((one.name, one.labels), {})[one.le] = one.growth
    if not curves:
        return None
    edges = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    total = np.array([sum(curve[le] for curve in curves.values()) for le in edges])
    counts = np.diff(total, prepend=0.0)
    if (counts < 0).any():
        raise Refused(f"the buckets of {metric.upper()} contradict one another between the scrapes")
    edges_s = (np.array(edges, dtype=np.float64) + (1.0 if engine.floored else 0.0)) * engine.scale
    return Buckets(edges_s, counts.astype(np.int64))


def _attempted(begin: Scrape | None, end: Scrape, group: Group, want: Wanted, alone: bool) -> int | None:
    """What the gateway counted for the model; None when it does not say. Raises Refused."""
    earlier = {k: v for k, v in begin.values.items() if want.counts(k[0], k[2])} if begin else {}
    later = {k: v for k, v in end.values.items() if want.counts(k[0], k[2])}
    change = _change(begin, end, earlier, later)
    modelled = {key: value for key, value in change.items() if engines.model(key[2]) is not None}
    if modelled:
        change = {key: value for key, value in modelled.items() if engines.model(key[2]) == group[1]}
    elif not alone:
        return None
    return int(sum(change.values())) if change else None
