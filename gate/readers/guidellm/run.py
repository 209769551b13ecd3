"""A benchmark of GuideLLM as a run, from its requests or from its statistics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec.structs import astuple, replace

from ...model import Aggregate, Counts, Doubt, Load, Status, Summary, Why
from .. import clocks, kinds, loads, tables
from ..ladders import ladder
from ..source import Source
from ..stages import at, number, text, whole_number
from ..told import Counted, Told
from . import CSV, KINDS, NAME, report
from .report import Benchmark, Metrics, Stat, Totals

_DETAIL = "a report with its requests (GuideLLM keeps them all unless sample_size is set)"
_AGAIN = "run GuideLLM again and keep the whole report"
_CHUNKS = "answers came without usage and GuideLLM counted chunks as output tokens; make the server send it"
_BY_TOKENS = f"a request counts once for each of its tokens, and outputs differ in length; give {_DETAIL}"
_SOME_ZERO = f"the smallest is 0, as GuideLLM writes a value it does not have; give {_DETAIL}"
_NAMES = {"ttft": "time_to_first_token_ms", "tpot": "inter_token_latency_ms", "e2e": "request_latency"}
_PERCENTS = {f"p{percent:02}": float(percent) for percent in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
_PERCENTS |= {"p001": 0.1, "p999": 99.9}  # p01 is 1
_METHOD = "inverted_cdf over completed requests"
_LISTS = np.array((Status.COMPLETED, Status.FAILED, Status.CANCELLED), np.uint8)
_OPEN = ("constant", "poisson")
_RUN_ID = re.compile(r"""\brun_id["']?:\s*["']?([\w-]+)|^Run Info,.*?\n.*?\n.*?\n([\w-]+),""", re.DOTALL)
_STATUS = re.compile(r"\A(\w+)\(.*?'(\d{3} [^']*)'.*", re.DOTALL)


def same(source: Source, other: Source) -> bool:
    """Whether both hold the run's own id, which stands near the beginning."""
    ids = [match[1] or match[2] for file in (source, other) if (match := _RUN_ID.search(file.head))]
    return len(ids) == 2 and ids[0] == ids[1]


def decode(source: Source) -> Iterator[Told]:
    """One run a benchmark. Raises InputError for a file that is broken or contradicts itself."""
    is_csv = kinds.kind_of(source, KINDS) is CSV
    held = report.of_table(source) if is_csv else source.whole(report.Report)
    if not held.benchmarks:
        raise source.fail("holds no benchmark", hint=_AGAIN)
    for index, benchmark in enumerate(held.benchmarks):
        where, totals, began = f"$.benchmarks[{index}]", benchmark.request_totals, benchmark.start_time
        if benchmark.type_ != "generative_benchmark":
            why = f'a benchmark of the type "{benchmark.type_}" has no TTFT or TPOT'
            raise source.fail(why, where, "give a report of generative benchmarks")
        facts, inside, outside = _of_rows(benchmark)
        if inside == outside == totals == Totals():
            raise source.fail("holds no request", where, _AGAIN)
        is_whole = inside.successful >= totals.successful and inside.errored >= totals.errored
        if not is_whole:  # with sample_size, the lists hold a sample of each kind
            facts = _of_statistics(source, benchmark, where)
        load = _load(source, at(benchmark.config, "strategy"), where)
        mean = benchmark.metrics.completed("output_token_count").mean
        yield Told(
            format=f"{NAME} {'requests' if is_whole else 'csv' if is_csv else 'aggregate'}",
            retries=0,
            output_tokens=None if mean is None else float(round(mean * totals.successful)),
            version=text(at(held.metadata, "guidellm_version")),
            model=text(at(benchmark.config, "backend", "model") or at(benchmark.worker, "backend_model")),
            load=load,
            level="" if load else f"benchmark {index}",
            duration_s=benchmark.duration,
            date=clocks.day_of(began) if isinstance(began, str) else clocks.day(began),
            stream_with="run GuideLLM with stream=true (its default) against an endpoint that streams",
            stated=_stated(benchmark.metrics),
            method={"ttft": _METHOD, "e2e": _METHOD, "tpot": f"{_METHOD}, weighted by output tokens"},
            goodput=_attainment(benchmark),
            notes=tuple(_notes(benchmark, inside, outside, is_whole=is_whole)),
            **facts,
        )


def _load(source: Source, strategy: Any, where: str) -> Load | None:
    kind, rate = at(strategy, "type_"), number(at(strategy, "rate"))
    streams, cap = whole_number(at(strategy, "streams")), whole_number(at(strategy, "max_concurrency"))
    if kind in _OPEN and rate is not None:
        return loads.stated(source, f"{where}.config.strategy", _AGAIN, rate=rate, slots=cap or None)
    if kind == "throughput":
        return loads.load(rate=np.inf, slots=cap)
    return loads.load(slots=1 if kind == "synchronous" else streams if kind == "concurrent" else None)


def _of_rows(benchmark: Benchmark) -> tuple[dict[str, Any], Totals, Totals]:
    """The requests as evidence, with what else `Told` says; how many lie inside the window, and outside."""
    lists, totals = astuple(benchmark.requests), benchmark.request_totals
    rows = [row for each in lists for row in each]
    kind = np.repeat(_LISTS, [len(each) for each in lists])
    start_s = tables.column(row.request_start_time or row.start_time for row in rows)
    end_s = tables.column(row.request_end_time or row.end_time for row in rows)
    last_s = tables.column(row.info.timings.last_token_iteration or row.last_token_time for row in rows)
    late_s = start_s - tables.column(row.info.timings.targeted_start for row in rows)
    is_open = at(benchmark.config, "strategy", "type_") in _OPEN  # only a rate makes a due time
    tokens = tables.column(row.output_tokens for row in rows)
    usage = tables.column(whole_number(at(row.output_metrics, "total_tokens")) for row in rows)
    chunks = tables.column(row.info.timings.token_iterations for row in rows)
    window = (number(at(benchmark.scheduler_metrics, f"measure_{each}_time")) for each in ("start", "end"))
    begin, end = tables.column(window)  # NaN until 0.3, which has none
    # GuideLLM's rule: what overlaps the window is measured (accumulator.py, get_within_range).
    inside = ~((np.fmax(start_s, end_s) < begin) | (np.fmin(start_s, end_s) > end))
    here, there = (
        Totals(*(int((place & (kind == status)).sum()) for status in _LISTS)) for place in (inside, ~inside)
    )
    table = tables.requests(
        errors=kind == Status.FAILED,
        ttft_s=tables.column(row.time_to_first_token_ms for row in rows) / 1e3,
        e2e_s=tables.column(row.request_latency for row in rows),
        output_tokens=tokens,
        input_tokens=tables.column(row.prompt_tokens for row in rows),
        start_s=start_s,
        cancelled=kind == Status.CANCELLED,
        warmup=~inside & (kind != Status.CANCELLED),
    )
    ended = replace(table, status=np.where((end_s < begin) | (end_s > end), Status.WARMUP, table.status))
    by_chunks = (np.isnan(usage) & (chunks == tokens))[table.status == Status.COMPLETED]
    doubt = Doubt(Why.DEFINITION, ("tpot",), _CHUNKS)
    facts = {
        "evidence": table,
        "asked": benchmark.asked(there.ended),
        "counted": Counted(totals.successful, totals.errored) if np.isnan(begin) else None,
        "messages": [_STATUS.sub(r"\1: \2", row.info.error or row.error or "") for row in rows],
        "pieces": chunks,
        "recount": (usage, "GuideLLM's count", "the server's usage"),
        "tail_s": end_s - last_s,
        "late_p99_s": float(np.nanpercentile(late_s, 99)) if is_open and np.isfinite(late_s).any() else None,
        "window_tokens": tables.output_total(ended),
        "doubts": (doubt,) if 2 * by_chunks.sum() > len(by_chunks) else (),
    }
    return facts, here, there


def _stated(metrics: Metrics) -> dict[str, Summary]:
    """In seconds. Zeros alone are no data: without streaming, TTFT (0.5) and ITL (0.8) are 0 throughout."""
    stated = {}
    for metric, name in _NAMES.items():
        stat = metrics.completed(name)
        if stat.percentiles and stat.max != 0:
            stated[metric] = _summary(stat, 1e3 if name.endswith("_ms") else 1.0)
    return {m: replace(summary, n=None) if m == "tpot" else summary for m, summary in stated.items()}


def _summary(stat: Stat, per_second: float = 1.0) -> Summary:
    known = {_PERCENTS[key]: value for key, value in (stat.percentiles or {}).items() if key in _PERCENTS}
    points = {50.0: stat.median, **known}.items()  # neither 0.2 nor a CSV has p50
    moments = {"mean": stat.mean, "low": stat.min, "high": stat.max}
    return ladder(points, per_second=per_second, n=stat.count, **moments)


def _of_statistics(source: Source, benchmark: Benchmark, where: str) -> dict[str, Any]:
    """The aggregate as evidence, with what else `Told` says of it. Raises InputError like `decode`."""
    metrics, totals, stated = benchmark.metrics, benchmark.request_totals, _stated(benchmark.metrics)
    if "e2e" in stated and stated["e2e"].n not in (None, totals.successful):
        why = f"contradicts itself: {totals.successful} successful requests, but {stated['e2e'].n} latencies"
        raise source.fail(why, where, _AGAIN)
    outside = max(0, benchmark.made.ended - totals.ended)
    lengths = metrics.completed("output_token_count")
    rate = metrics.completed("output_tokens_per_second").mean
    doubts = []
    if "ttft" in stated and stated["ttft"].min == 0:
        doubts.append(Doubt(Why.ZERO, ("ttft",), _SOME_ZERO))
    # Where all are equal, the tool's own deviation is 1e-14.
    equal = lengths.mean and lengths.std_dev is not None and lengths.std_dev < 1e-9 * lengths.mean
    if "tpot" in stated and not equal:
        doubts.append(Doubt(Why.POPULATION, ("tpot",), _BY_TOKENS))
    tokens = rate * benchmark.duration if outside and rate and benchmark.duration else None
    return {
        "evidence": Aggregate(stated, "inverted_cdf", settled_by=_DETAIL),
        "asked": benchmark.asked(outside),
        "counts": Counts(totals.ended, totals.successful, totals.errored, totals.incomplete, outside),
        "lengths": _summary(lengths),
        "window_tokens": tokens,  # requests on the window's edges have tokens outside it
        "doubts": tuple(doubts),
    }


def _notes(benchmark: Benchmark, inside: Totals, outside: Totals, *, is_whole: bool) -> Iterator[str]:
    totals, made, late = benchmark.request_totals, benchmark.made.incomplete, outside.incomplete
    cut, measured = inside.incomplete + late, (inside.successful, inside.errored)
    if is_whole:
        if outside.ended:
            yield f"{outside.ended} requests lie outside GuideLLM's measurement window and count as warm-up"
        if measured != (totals.successful, totals.errored):
            theirs = f"{totals.successful} successful and {totals.errored} errored requests"
            yield f"GuideLLM measures {theirs}, {measured[0]} and {measured[1]} overlap its window"
        if late:
            yield f"{late} of the {cut} requests cut off at the end lie outside the measurement window"
        if made > cut:
            yield f"GuideLLM counts {made} requests cut off at the end, the file lists {cut}"
    elif listed := inside.ended + outside.ended + cut:
        yield f"the file lists {listed} of {totals.ended} measured requests, a sample: its aggregate is used"
    else:
        yield f"lists of the {totals.ended} measured requests are empty, as in a CSV: its aggregate is used"
    if ramp_s := number(at(benchmark.config, "strategy", "rampup_duration")):
        yield f"the load ramps up over the first {ramp_s:g} s"
    yield from (f"GuideLLM warns: {at(each, 'message')}" for each in benchmark.warnings or ())


def _attainment(benchmark: Benchmark) -> str:
    """What the tool says of its own bounds, which are not the policy's."""
    metrics, slo = benchmark.metrics, at(benchmark.config, "slo")
    if metrics.slo_attainment is None:
        return ""
    bounds = ((name, number(at(slo, f"{name}_ms"))) for name in ("ttft", "tpot", "e2el"))
    named = ", ".join(f"{name} {ms:g} ms" for name, ms in bounds if ms is not None)
    how = "by inter_token_latency_ms as tpot, errored requests as misses, those of one token left out"
    share, of = f"{metrics.slo_attainment:.1%}", f"{metrics.slo_determined_requests} requests"
    return f"slo_attainment {share} of {of} ({named}), {how}"
