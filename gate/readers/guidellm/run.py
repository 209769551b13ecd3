"""A benchmark of GuideLLM as a run, from its requests or from its statistics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ...model import Aggregate, Bools, Counts, Doubt, Evidence, Floats, Load, Requests, Status, Summary, Why
from .. import clocks, kinds, tables
from ..ladders import ladder
from ..source import Source
from ..stages import at, number, whole
from ..told import Told
from . import CSV, DEFINITIONS, KINDS, NAME, report
from .report import Benchmark, Metrics, Row, Stat, Timings, Totals

_DETAIL = "a report with its requests (GuideLLM keeps them all unless sample_size is set)"
_AGAIN = "run GuideLLM again and keep the whole report"
_CHUNKS = (
    "the server stated no usage for most answers, so GuideLLM counted chunks as output tokens, and a chunk "
    "gap is no stand-in for TPOT; make the server send usage (stream_options.include_usage)"
)
_BY_TOKENS = (
    "GuideLLM's aggregate counts a request once for each of its tokens, and outputs differ in length, so "
    f"no share of requests follows from it; give {_DETAIL}"
)
_SOME_ZERO = (
    f"the smallest is 0, which is how GuideLLM writes a value it does not have; give {_DETAIL}, where "
    "such a request is seen"
)
_PERCENTS = {f"p{percent:02}": float(percent) for percent in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
_PERCENTS |= {"p001": 0.1, "p999": 99.9}  # p01 is 1
_METHOD = "inverted_cdf over completed requests"
_WEIGHTED = "each counted once per output token after the first"
_LISTS = np.array((Status.COMPLETED, Status.FAILED, Status.CANCELLED), np.uint8)
_OPEN = ("constant", "poisson")
_STATUS = re.compile(r"(\w+)\(.*?'(\d{3} [^']*)'", re.DOTALL)


def decode(source: Source) -> Iterator[Told]:
    """One run a benchmark. Raises InputError for a file that is broken or contradicts itself."""
    is_csv = kinds.kind_of(source, KINDS) is CSV
    held = report.of_table(source) if is_csv else source.whole(report.Report)
    if not held.benchmarks:
        raise source.fail("holds no benchmark", hint=_AGAIN)
    for index, benchmark in enumerate(held.benchmarks):
        if benchmark.type_ != "generative_benchmark":
            why = f'a benchmark of the type "{benchmark.type_}" has no TTFT or TPOT'
            raise source.fail(why, f"$.benchmarks[{index}]", "give a report of generative benchmarks")
        yield _told(source, held, benchmark, index, is_csv=is_csv)


def _told(source: Source, held: report.Report, benchmark: Benchmark, index: int, *, is_csv: bool) -> Told:
    listed, where = _listed(benchmark), f"$.benchmarks[{index}]"
    rows_are_whole = _all_listed(source, benchmark, listed, where)
    load, notes = _load(source, benchmark.asked("strategy"), where)
    model = benchmark.asked("backend", "model") or at(benchmark.worker, "backend_model")
    version, asked = at(held.metadata, "guidellm_version"), benchmark.requested()
    evidence: Evidence
    if rows_are_whole:
        evidence, facts, more = listed.table, listed.facts, _row_notes(benchmark, listed)
        outside = listed.table.counts.warmup
    else:
        evidence, facts = _statistics(source, benchmark, where)
        outside, more = facts["counts"].warmup, _aggregate_notes(benchmark, len(listed.kind), is_csv=is_csv)
    warnings = (
        f"GuideLLM warns: {text}" for each in benchmark.warnings or () if (text := at(each, "message"))
    )
    return Told(
        format=f"{NAME} {'requests' if rows_are_whole else 'csv' if is_csv else 'aggregate'}",
        evidence=evidence,
        retries=0,
        asked=None if asked is None else asked - outside,
        version=version if isinstance(version, str) else None,
        model=model if isinstance(model, str) else None,
        load=load,
        level="" if load else f"benchmark {index}",
        duration_s=benchmark.duration,
        date=benchmark.csv_day or clocks.day(benchmark.start_time),
        stream_with="run GuideLLM with stream=true (its default) against an endpoint that streams",
        definitions=_definitions(benchmark),
        stated=_stated(benchmark),
        method={"ttft": _METHOD, "e2e": _METHOD, "tpot": f"{_METHOD}, {_WEIGHTED}"},
        goodput=_attainment(benchmark),
        notes=(*more, *notes, *warnings),
        **facts,
    )


def _load(source: Source, strategy: Any, where: str) -> tuple[Load | None, tuple[str, ...]]:
    if not isinstance(strategy, dict):
        return None, ("the strategy is not stated: the load is not known",)
    kind, rate, ramp = (
        strategy.get("type_"),
        number(strategy.get("rate")),
        number(strategy.get("rampup_duration")),
    )
    streams, cap = whole(strategy.get("streams")), whole(strategy.get("max_concurrency"))
    said = (f"the load ramps up over the first {ramp:g} s",) if ramp else ()
    if kind == "synchronous":
        return Load(concurrency=1), said
    if kind == "concurrent" and streams:
        return Load(concurrency=streams), said
    if kind == "throughput":
        return (Load(concurrency=cap) if cap else Load(burst=True)), said
    if kind in _OPEN and rate is not None:
        if not 0 < rate < float("inf"):
            raise source.fail(f"a rate of {rate:g} req/s sends nothing", f"{where}.config.strategy", _AGAIN)
        return Load(request_rate=rate, cap=cap), said
    return None, (*said, f'the strategy "{kind}" is no single load point')


# ---- the requests ---------------------------------------------------------------------------


class _Listed(Struct, frozen=True, eq=False):
    """The requests of one benchmark."""

    table: Requests
    kind: NDArray[np.uint8]  # the list each is in, as a status
    inside: Bools  # overlaps the measurement window
    facts: dict[str, Any]  # as `Told` names them

    def inside_of(self, kind: int) -> int:
        """How many of one list lie in the window."""
        return int((self.inside & (self.kind == kind)).sum())


def _listed(benchmark: Benchmark) -> _Listed:
    """Every listed request, in the order successful, errored, incomplete."""
    groups = benchmark.requests or report.Rows()
    parts = [part or [] for part in (groups.successful, groups.errored, groups.incomplete)]
    rows = [row for part in parts for row in part]
    times = [row.info.timings if row.info and row.info.timings else Timings() for row in rows]
    pairs = list(zip(rows, times, strict=True))
    kind = np.repeat(_LISTS, [len(part) for part in parts])
    start = _column(
        _first(r.request_start_time, t.request_start, t.resolve_start, r.start_time) for r, t in pairs
    )
    end = _column(_first(r.request_end_time, t.request_end, t.resolve_end, r.end_time) for r, t in pairs)
    last = _column(_first(t.last_token_iteration, r.last_token_time) for r, t in pairs)
    late = start - _column(t.targeted_start for t in times)
    usage, chunks = _column(map(_usage, rows)), _column(t.token_iterations for t in times)
    window, cancelled = benchmark.window_s(), kind == Status.CANCELLED
    inside = _inside(start, end, window)
    table = tables.requests(
        errors=kind == Status.FAILED,
        ttft_s=_column(row.time_to_first_token_ms for row in rows) / 1e3,
        e2e_s=_column(row.request_latency for row in rows),
        output_tokens=_column(row.output_tokens for row in rows),
        input_tokens=_column(row.prompt_tokens for row in rows),
        start_s=start - (np.nanmin(start) if np.isfinite(start).any() else 0.0),
        cancelled=cancelled,
        warmup=~inside & ~cancelled,
    )
    is_open = benchmark.asked("strategy", "type_") in _OPEN  # only a rate makes a due time
    facts = {
        "messages": [_message(row) for row in rows],
        "pieces": chunks,
        "recount": (usage, "GuideLLM's count", "the server's usage"),
        "tail_s": end - last,
        "late_p99_s": float(np.nanpercentile(late, 99)) if is_open and np.isfinite(late).any() else None,
        "output_tokens": _total(benchmark),
        "window_tokens": _ended_inside(table, end, window),
        "doubts": _chunks_as_tokens(table, chunks, usage),
    }
    return _Listed(table, kind, inside, facts)


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _column(values: Iterable[float | None]) -> Floats:
    column = tables.column(values)
    column[~np.isfinite(column)] = np.nan
    return column


def _usage(row: Row) -> float | None:
    return _first(*(whole(at(row.output_metrics, name)) for name in ("total_tokens", "text_tokens")))


def _message(row: Row) -> str:
    """The exception GuideLLM prints with its URL and advice, as class and status."""
    text = (row.info.error if row.info else None) or row.error or ""
    match = _STATUS.match(text)
    return f"{match[1]}: {match[2]}" if match else text


def _inside(start_s: Floats, end_s: Floats, window: tuple[float, float] | None) -> Bools:
    """GuideLLM's rule: what overlaps the window is measured (accumulator.py, get_within_range)."""
    if window is None:
        return np.ones(len(start_s), bool)
    ends = np.where(np.isnan(end_s), start_s, end_s)
    starts = np.where(np.isnan(start_s), ends, start_s)
    return ~((ends < window[0]) | (starts > window[1]))


def _ended_inside(table: Requests, end_s: Floats, window: tuple[float, float] | None) -> float | None:
    """Output tokens of completed requests that ended in the window: what a rate over it is about."""
    if table.output_tokens is None or window is None:
        return None
    counted = (table.status == Status.COMPLETED) & (end_s >= window[0]) & (end_s <= window[1])
    total = float(table.output_tokens[counted].sum())
    return None if np.isnan(total) else total


def _chunks_as_tokens(table: Requests, chunks: Floats, usage: Floats) -> tuple[Doubt, ...]:
    completed = table.status == Status.COMPLETED
    if table.output_tokens is None or table.ttft_s is None or not completed.any():
        return ()
    counted = np.isnan(usage) & (chunks == table.output_tokens)
    return (Doubt(Why.DEFINITION, ("tpot",), _CHUNKS),) if counted[completed].mean() > 0.5 else ()


def _all_listed(source: Source, benchmark: Benchmark, listed: _Listed, where: str) -> bool:
    """Whether the lists hold every request behind the metrics; with sample_size they hold a sample.

    Raises InputError where there is no request at all, or more are listed than were made.
    """
    totals = benchmark.totals
    if not len(listed.kind) and (totals is None or totals == Totals()):
        raise source.fail("holds no request", where, _AGAIN)
    if totals is None:
        return True
    succeeded, errored = listed.inside_of(Status.COMPLETED), listed.inside_of(Status.FAILED)
    if benchmark.window_s() is None and (succeeded > totals.successful or errored > totals.errored):
        why = (
            f"contradicts itself: it counts {totals.successful} successful and {totals.errored} errored "
            f"requests, but lists {succeeded} and {errored}"
        )
        raise source.fail(why, where, "keep the report as GuideLLM wrote it")
    return succeeded >= totals.successful and errored >= totals.errored


def _row_notes(benchmark: Benchmark, listed: _Listed) -> Iterator[str]:
    totals, outside = benchmark.totals, listed.table.counts.warmup
    if outside:
        yield f"{outside} requests lie outside GuideLLM's measurement window and count as warm-up"
    succeeded, errored = listed.inside_of(Status.COMPLETED), listed.inside_of(Status.FAILED)
    if totals and (succeeded, errored) != (totals.successful, totals.errored):
        yield (
            f"GuideLLM measures {totals.successful} successful and {totals.errored} errored requests, "
            f"{succeeded} and {errored} overlap its window"
        )
    cut = int((listed.kind == Status.CANCELLED).sum())
    if late := cut - listed.inside_of(Status.CANCELLED):
        yield f"{late} of the {cut} requests cut off at the end lie outside the measurement window"
    if (made := benchmark.made("incomplete")) > cut:
        yield f"GuideLLM counts {made} requests cut off at the end, the file lists {cut}"


# ---- the statistics -------------------------------------------------------------------------


def _stated(benchmark: Benchmark) -> dict[str, Summary]:
    """The tool's statistics in seconds, of the metrics it has data for."""
    metrics = benchmark.metrics or Metrics()
    blocks = {
        "ttft": (metrics.time_to_first_token_ms, 1e3),
        "tpot": (metrics.inter_token_latency_ms, 1e3),
        "e2e": (metrics.request_latency, 1.0),
    }
    return {
        metric: _summary(stat, per_second, None if metric == "tpot" else stat.count)
        for metric, (group, per_second) in blocks.items()
        if (stat := group.get("successful")) is not None and _has_data(stat)
    }


def _has_data(stat: Stat) -> bool:
    """Non-streaming runs have an ITL of 0 for every token (0.8) and a TTFT of 0 for every request (0.5)."""
    largest = stat.max if stat.max is not None else max((stat.percentiles or {}).values(), default=0.0)
    return stat.count != 0 and largest != 0


def _summary(stat: Stat, per_second: float, n: int | None) -> Summary:
    known = {_PERCENTS[key]: value for key, value in (stat.percentiles or {}).items() if key in _PERCENTS}
    if stat.median is not None:
        known.setdefault(50.0, stat.median)  # neither 0.2 nor a CSV has p50
    return ladder(known.items(), per_second=per_second, mean=stat.mean, low=stat.min, high=stat.max, n=n)


def _statistics(source: Source, benchmark: Benchmark, where: str) -> tuple[Aggregate, dict[str, Any]]:
    """The aggregate as evidence, and what `Told` says of it. Raises InputError like `decode`."""
    totals, stated = benchmark.totals or Totals(), _stated(benchmark)
    n = stated["e2e"].n if "e2e" in stated else None
    if n not in (None, totals.successful):
        why = f"contradicts itself: {totals.successful} successful requests, but {n} latencies"
        raise source.fail(why, where, _AGAIN)
    measured = totals.successful + totals.errored
    outside = max(0, benchmark.made("successful") + benchmark.made("errored") - measured)
    lengths, total, doubts = _lengths(benchmark), _total(benchmark), []
    rate = (benchmark.metrics or Metrics()).output_tokens_per_second.get("successful")
    if outside and rate is not None and rate.mean and benchmark.duration:
        total = rate.mean * benchmark.duration  # requests on the window's edges have tokens outside it
    ttft = stated.get("ttft")
    if ttft is not None and (ttft.min == 0 or dict(ttft.percentiles).get(0.1) == 0):
        doubts.append(Doubt(Why.ZERO, ("ttft",), _SOME_ZERO))
    # Where all are equal, the tool's own deviation is 1e-14.
    equal = lengths.mean and lengths.std_dev is not None and lengths.std_dev < 1e-9 * lengths.mean
    if "tpot" in stated and not equal:
        doubts.append(Doubt(Why.POPULATION, ("tpot",), _BY_TOKENS))
    return Aggregate(stated, "inverted_cdf", settled_by=_DETAIL), {
        "counts": Counts(measured, totals.successful, totals.errored, totals.incomplete, outside),
        "output_tokens": total,
        "fewest_tokens": lengths.min,
        "doubts": tuple(doubts),
    }


def _lengths(benchmark: Benchmark) -> Stat:
    """Output tokens of the completed requests; empty where the tool has none."""
    stat = (benchmark.metrics or Metrics()).output_token_count.get("successful")
    return Stat() if stat is None or stat.count == 0 else stat


def _total(benchmark: Benchmark) -> float | None:
    """Output tokens of completed requests, as their mean says."""
    mean, totals = _lengths(benchmark).mean, benchmark.totals or Totals()
    return None if mean is None else float(round(mean * totals.successful))


def _aggregate_notes(benchmark: Benchmark, number_listed: int, *, is_csv: bool) -> Iterator[str]:
    totals = benchmark.totals or Totals()
    measured, made = (
        totals.successful + totals.errored,
        benchmark.made("successful") + benchmark.made("errored"),
    )
    if is_csv:
        yield "a CSV holds no requests: give benchmarks.json of the same run"
    elif number_listed:
        yield (
            f"the file lists {number_listed} of {measured} measured requests, a sample of each kind apart, "
            "so that its aggregate is used"
        )
    else:
        yield f"the lists of the {measured} measured requests are empty, so that the aggregate is used"
    if 0 < made < measured:
        yield f"requests_made says {made}, the metrics cover {measured} requests"


def _attainment(benchmark: Benchmark) -> str:
    """What the tool says of its own bounds, which are not the policy's."""
    metrics, slo = benchmark.metrics or Metrics(), benchmark.asked("slo")
    if metrics.slo_attainment is None:
        return ""
    named = ((name, number(at(slo, f"{name}_ms"))) for name in ("ttft", "tpot", "e2el"))
    bounds = ", ".join(f"{name} {ms:g} ms" for name, ms in named if ms is not None) or "bounds not stated"
    return (
        f"slo_attainment {metrics.slo_attainment:.1%} of {metrics.slo_determined_requests} requests "
        f"({bounds}), by inter_token_latency_ms as tpot, with errored requests as misses and those of one "
        "token left out"
    )


def _definitions(benchmark: Benchmark) -> dict[str, str]:
    """`time_per_output_token_ms` changed its meaning in 0.4."""
    first, how = "start", "with TTFT in it"
    if benchmark.is_old:
        first, how = "first", "without TTFT but over all tokens"
    usual = DEFINITIONS["tpot"].partition(", not its")[0]
    other = f"time_per_output_token_ms = (last token - {first}) / output tokens, {how}"
    return {**DEFINITIONS, "tpot": f"{usual}, not its {other}"}
