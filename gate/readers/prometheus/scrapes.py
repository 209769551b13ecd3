"""Prometheus text, OpenMetrics text and Prometheus' JSON answers -> scrapes: what was seen, and when.

Own parser: prometheus_client's costs 43 ms of import, reads several scrapes in a row as one without
a word, and names no line in its errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from math import inf, isfinite, isnan

from msgspec import Struct, field

from ..source import Source
from .engines import Labels, Series, canonical
from .native import Native, classic

Sample = tuple[Series, float, float | None]  # value, and the time in s since 1970

_LINE = re.compile(
    r"(?P<name>[^\s{}\"#]*)(?:\s*\{(?P<labels>(?:[^\"{}]|\"(?:[^\"\\]|\\.)*\")*)\}\s*|\s+)"
    r"(?P<value>[^\s{}\"#]+)(?:[ \t]+(?P<time>[^\s{}\"#]+))?[ \t]*(?:#.*)?"
)
_LABEL = re.compile(
    r"\s*(?:\"(?P<quoted>(?:[^\"\\]|\\.)*)\"|(?P<key>[^\s=,\"]+))\s*"
    r"(?:=\s*\"(?P<value>(?:[^\"\\]|\\.)*)\")?\s*(?:,\s*|$)"
)
_ESCAPE = re.compile(r"\\(.)")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)", re.I)
_START = "process_start_time_seconds"
_MILLISECONDS_FROM = 1e11  # the year 5138 in seconds, 1973 in milliseconds: the text format uses ms
_COUNT_MAX = 2.0**53
_MOST_LOOKS = 100_000
_NAME_EPOCH = re.compile(r"(?<!\d)(\d{13}|\d{10})(?!\d)")
_NAME_DATE = re.compile(r"(?<!\d)(\d{4})-?(\d\d)-?(\d\d)[T_-]?(\d\d)[-:]?(\d\d)[-:]?(\d\d)Z(?![\dA-Za-z])")

WHOLE = "scrape again: a scrape that was cut off proves nothing"
RAW = 'ask for the raw series: /api/v1/query_range?query={__name__=~"vllm:.*"}&start=...&end=...&step=3m'


class Scrape(Struct, eq=False):
    """What one look at the metrics saw."""

    source: Source
    at: float | None = None  # s since 1970
    values: dict[Series, float] = field(default_factory=dict)
    starts: dict[Labels, float] = field(default_factory=dict)  # when each process began, s since 1970

    def put(self, series: Series, value: float) -> None:
        """Take one sample in."""
        if series.name == _START:
            self.starts[series.target] = value
        else:
            self.values[series] = value


class Wanted(Struct, frozen=True, eq=False):
    """Which series are read: those of the engines, and the gateway's counter of attempted requests."""

    counter: str | None = None
    matchers: Labels = ()

    def takes(self, series: Series) -> bool:
        """Whether it is read at all."""
        return series.name == _START or series.part is not None or self.counts(series)

    def counts(self, series: Series) -> bool:
        """Whether it is the counter of attempted requests."""
        if self.counter is None or series.name not in (self.counter, f"{self.counter}_total"):
            return False
        return set(self.matchers) <= set(series.labels)


def wanted(source: Source) -> Wanted:
    """From the policy's `evidence.attempted`: NAME or NAME{label="value"}. Raises InputError for neither."""
    text = source.attempted_counter
    if not text:
        return Wanted()
    found = _LINE.fullmatch(f"{text} 0")
    named = _labels(found["labels"]) if found else None
    if found is None or named is None or not found["name"] or found["time"]:
        why = f'evidence.attempted names no counter: "{text}"'
        raise source.fail(why, hint='write a metric name, or NAME{label="value"}')
    return Wanted(canonical(found["name"]), tuple(sorted(pair for pair in named if pair[0])))


# ---- text ---------------------------------------------------------------------------------


def from_text(source: Source, want: Wanted) -> list[Scrape]:
    """Scrapes in the order of the file. Raises InputError, with the line, for what is no exposition."""
    found: list[Scrape] = []
    for exposition in _expositions(source, want):
        for scrape in _looks(source, exposition):
            # A gateway's exposition behind an engine's belongs to the same look; one without a series
            # that is read is a look that saw the engine gone.
            if found and scrape.values and not scrape.values.keys() & found[-1].values.keys():
                found[-1].values |= scrape.values
                found[-1].starts = scrape.starts | found[-1].starts
            else:
                found.append(scrape)
    if len(found) == 1 and found[0].at is None:
        found[0].at = _time_in_name(source)
    return found


def _expositions(source: Source, want: Wanted) -> Iterator[list[Sample]]:
    """Cut at `# EOF`, and where a family or an undated series comes a second time."""
    samples: list[Sample] = []
    seen: set[str | Series] = set()  # families by name, undated series
    begun = False
    known: dict[tuple[str, str | None], Series | None] = {}
    for number, line in enumerate(bytes(source.data).decode("utf-8-sig", "replace").split("\n"), 1):
        line = line.strip()
        if not line or (line[0] == "#" and not line.startswith(("# TYPE ", "# EOF"))):
            continue
        end = line.startswith("# EOF")
        sample = None if line[0] == "#" else _sample(source, line, number, want, known)
        mark: str | Series = "" if line[0] != "#" or end else line.split()[2] if line.count(" ") > 1 else ""
        if sample and sample[2] is None:
            mark = sample[0]
        if begun and (end or mark in seen):
            yield samples
            samples, seen = [], set()
        begun = not end
        if mark:
            seen.add(mark)
        if sample:
            samples.append(sample)
    if begun:
        yield samples


def _looks(source: Source, samples: list[Sample]) -> Iterator[Scrape]:
    """One exposition is one look, unless it lists every series at several times (a backfill dump)."""
    times = [time for _, _, time in samples if time is not None]
    if len({series for series, _, _ in samples}) == len(samples):
        scrape = Scrape(source, max(times, default=None))
        for series, value, _ in samples:
            scrape.put(series, value)
        yield scrape
        return
    looks: dict[float, Scrape] = {}
    for series, value, time in samples:
        if time is None:
            raise source.fail(f"{series.name} stands there twice, once without a time", hint=WHOLE)
        looks.setdefault(time, Scrape(source, time)).put(series, value)
    yield from (looks[time] for time in sorted(looks))


def _sample(
    source: Source, line: str, number: int, want: Wanted, known: dict[tuple[str, str | None], Series | None]
) -> Sample | None:
    """The sample of one line, None when the series is not read."""
    found = _LINE.fullmatch(line)
    value = _number(found["value"]) if found else None
    time = _number(found["time"]) if found and found["time"] else None
    if found is None or value is None or (found["time"] and (time is None or not isfinite(time))):
        raise source.fail(f'is no sample of a Prometheus exposition: "{line[:60]}"', f"line {number}", WHOLE)
    text = (found["name"], found["labels"])
    if text not in known:
        named = _labels(found["labels"])
        if named is None:
            raise source.fail(f'its labels cannot be read: "{line[:60]}"', f"line {number}", WHOLE)
        try:
            known[text] = _series(found["name"], dict(named), want)
        except ValueError as error:
            raise source.fail(str(error), f"line {number}", WHOLE) from None
    series = known[text]
    if series is None:
        return None
    if why := _impossible(series, value):
        raise source.fail(why, f"line {number}", WHOLE)
    return series, value, time / 1000 if time is not None and time > _MILLISECONDS_FROM else time


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def _labels(text: str | None) -> list[tuple[str, str]] | None:
    """Name and value pairs, unescaped; a quoted metric name has an empty label name. None if broken."""
    pairs, at = [], 0
    text = (text or "").strip()
    while at < len(text):
        found = _LABEL.match(text, at)
        if not found:
            return None
        name = found["key"] if found["quoted"] is None else _unescape(found["quoted"])
        if found["value"] is None and found["quoted"] is None:
            return None
        pairs.append(("", name) if found["value"] is None else (name, _unescape(found["value"])))
        at = found.end()
    return pairs


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], text) if "\\" in text else text


def _series(name: str, named: dict[str, str], want: Wanted) -> Series | None:
    """The series, None when it is not read. Raises ValueError for a bucket without a sensible edge."""
    name = canonical(named.pop("", "") or named.pop("__name__", "") or name)
    edge = named.pop("le", None)
    labels = tuple(sorted((canonical(key), value) for key, value in named.items()))
    le = _number(edge or "") if name.endswith("_bucket") else None
    series = Series(name, le, labels)
    if not want.takes(series):
        return None
    if name.endswith("_bucket") and (le is None or isnan(le)):
        raise ValueError(f"{name} has no edge: le={edge!r}")
    return series


def _impossible(series: Series, value: float) -> str:
    """Why the value is none of its series: counts are whole and never negative; sums may be anything."""
    if series.name.endswith(("_sum", "_created", _START)):
        return ""
    whole = isfinite(value) and 0 <= value <= _COUNT_MAX and value == int(value)
    return "" if whole else f"{series.name} is no count: {value:g}"


def _time_in_name(source: Source) -> float | None:
    """From a name like scrape-1795961626.prom or 2026-11-29T14-00-00Z.prom."""
    name = source.path.name if source.path is not None else ""
    if epoch := _NAME_EPOCH.search(name):
        return int(epoch[1]) / (1000 if len(epoch[1]) == 13 else 1)
    if written := _NAME_DATE.search(name):
        try:
            return datetime(*map(int, written.groups()), tzinfo=timezone.utc).timestamp()  # type: ignore[misc, arg-type]
        except ValueError:
            return None
    return None


# ---- JSON ---------------------------------------------------------------------------------


class _Answer(Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []
    value: tuple[float, str] | None = None
    histogram: tuple[float, Native] | None = None
    histograms: list[tuple[float, Native]] = []


class _Data(Struct):
    result: list[_Answer] = []


class _Kind(Struct, rename="camel"):
    result_type: str


def from_json(source: Source, want: Wanted) -> list[Scrape]:
    """The steps of a range query, or the one of an instant query. Raises InputError for any other answer."""
    if source.doc.text("status") != "success":
        said = source.doc.text("error") or "no data"
        raise source.fail(f"Prometheus answered with an error: {said[:200]}", hint=RAW)
    kind = source.doc.get("data", _Kind)
    if kind is None or kind.result_type not in ("matrix", "vector"):
        what = kind.result_type if kind else "nothing"
        raise source.fail(f"holds a {what}, not series over time", "$.data.resultType", RAW)
    data = source.doc.get("data", _Data)
    looks: dict[float, Scrape] = {}
    natives: dict[str, list[tuple[Labels, Sequence[tuple[float, Native]]]]] = {}
    for answer in data.result if data else []:
        _steps(source, answer, want, looks)
        steps = (*answer.histograms, *((answer.histogram,) if answer.histogram else ()))
        if steps and Series(f"{_name(source, answer)}_count").part is not None:
            labels = sorted(
                (canonical(key), text) for key, text in answer.metric.items() if key != "__name__"
            )
            natives.setdefault(_name(source, answer), []).append((tuple(labels), steps))
    for name, found in natives.items():
        try:
            for time, series, value in classic(name, found):
                looks.setdefault(time, Scrape(source, time)).put(series, value)
        except ValueError as error:
            raise source.fail(f"{name}: {error}", "$.data.result", RAW) from None
    for time in _asked(source):
        looks.setdefault(time, Scrape(source, time))  # nobody was there: what vanished is missed in it
    return [looks[time] for time in sorted(looks)]


class _Span(Struct):
    """What `slo-gate pull` asked for; s since 1970 and s."""

    begin_s: float
    end_s: float
    step_s: float
    looks_s: list[float] | None = None  # when it really looked, where that is not every step


def _asked(source: Source) -> list[float]:
    """Every time that was asked for, where the file says so: an answer leaves out those without a sample."""
    span = source.doc.get("slo_gate_pull", _Span)
    if span is None:
        return []
    if span.looks_s is not None:
        return span.looks_s
    looks = (span.end_s - span.begin_s) / span.step_s if span.step_s > 0 else inf
    if not 0 <= looks < _MOST_LOOKS:
        raise source.fail("says that it was pulled at no times", "$.slo_gate_pull", "pull it again")
    return [round(span.begin_s + at * span.step_s, 3) for at in range(int(looks + 1e-6) + 1)]


def _name(source: Source, answer: _Answer) -> str:
    """Canonical. Raises InputError for the value of an expression."""
    name = answer.metric.get("__name__")
    if name is None:
        raise source.fail("holds the value of an expression, which has lost its name and counts", hint=RAW)
    return canonical(name)


def _steps(source: Source, answer: _Answer, want: Wanted, looks: dict[float, Scrape]) -> None:
    name = _name(source, answer)
    try:
        series = _series("", dict(answer.metric), want)
    except ValueError as error:
        raise source.fail(str(error), "$.data.result", RAW) from None
    steps = [*answer.values, *([answer.value] if answer.value else [])]
    for time, _ in steps:
        if not isfinite(time):
            raise source.fail("a sample has no time", "$.data.result", RAW)
        looks.setdefault(time, Scrape(source, time))  # a look is one even where this series is not read
    if series is None:
        return
    for time, text in steps:
        value = _number(text)
        if value is not None and isnan(value):
            continue  # a stale marker: the series was gone at that time
        why = f'{name} is no number: "{text}"' if value is None else _impossible(series, value)
        if value is None or why:
            raise source.fail(why, f"$.data.result, at {time:.0f}", RAW)
        looks[time].put(series, value)
