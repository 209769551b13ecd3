"""A benchmark of GuideLLM as a run, from its requests or from its statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone

from ...model import Aggregate, Load, Requests, Run, Status
from .. import tables
from ..source import Source
from . import NAME, report, rows, summary, table
from .report import Benchmark, Slo, Strategy, Totals


def companions(sources: Sequence[Source]) -> Mapping[Source, str]:
    """The same run once more: YAML beside JSON, CSV beside either."""
    ranked = sorted((_rank(source), number) for number, source in enumerate(sources))
    first: dict[str, Source] = {}
    found = {}
    for rank, number in ranked:
        source = sources[number]
        keys = _keys(source, rank)
        other = next((first[key] for key in keys if key in first), None)
        if other is not None and rank > _rank(other):
            found[source] = f"the same run as {other.name}, which is read"
        for key in keys:
            first.setdefault(key, source)
    return found


def _rank(source: Source) -> int:
    return 0 if source.shape != "text" else 2 if table.is_csv(source) else 1


def _keys(source: Source, rank: int) -> list[str]:
    """What files of one run share: the run's id, and their name up to the suffix."""
    number = table.run_id(source) if rank == 2 else report.run_id(source.head)
    names = [str(source.path.with_name(source.path.name.split(".")[0]))] if source.path else []
    return [*([f"id {number}"] if number else []), *names]


def read(source: Source) -> Sequence[Run]:
    """One Run a benchmark. Raises InputError for a file that is broken or contradicts itself."""
    is_csv = table.is_csv(source)
    held = table.load(source) if is_csv else report.load(source)
    if not held.benchmarks:
        raise source.fail("holds no benchmark", hint="run GuideLLM again and keep the whole report")
    days = table.dates(source) if is_csv else [_day(one.start_time) for one in held.benchmarks]
    version = held.metadata.guidellm_version if held.metadata else None
    found = []
    for number, (benchmark, day) in enumerate(zip(held.benchmarks, days, strict=True)):
        at = f"$.benchmarks[{number}]"
        _refuse(source, benchmark, at)
        found.append(_run(source, benchmark, at, version, day))
    return found


def _refuse(source: Source, benchmark: Benchmark, at: str) -> None:
    if benchmark.type_ != "generative_benchmark":
        raise source.fail(f'a benchmark of the type "{benchmark.type_}" has no TTFT or TPOT', at)
    if benchmark.duration is not None and benchmark.duration < 0:
        raise source.fail(f"contradicts itself: a duration of {benchmark.duration:g} s", at)


def _run(source: Source, benchmark: Benchmark, at: str, version: str | None, day: str | None) -> Run:
    one, is_csv = rows.listed(benchmark), table.is_csv(source)
    evidence: Requests | Aggregate
    said: Iterable[str]
    if _all_listed(source, benchmark, one, at):
        kind, evidence, counts = "guidellm requests", one.requests, tables.counts(one.requests)
        tokens, said = rows.output_tokens(one), _row_notes(benchmark, one)
        reasons = rows.unsuitable(one)
    else:
        kind = "guidellm csv" if is_csv else "guidellm aggregate"
        evidence, counts = summary.evidence(source, benchmark, at), summary.counts(source, benchmark, at)
        tokens = summary.output_tokens(benchmark, counts.warmup)
        said = _aggregate_notes(benchmark, one, is_csv=is_csv)
        reasons = summary.unsuitable(benchmark, evidence.summaries) if counts.completed else {}
    asked = benchmark.asked
    load, load_notes = _load(source, asked.strategy, at)
    model = asked.backend.model if asked.backend else None
    return Run(
        input=source.name,
        sha256=source.sha256,
        format=kind,
        tool=NAME,
        evidence=evidence,
        counts=counts,
        tool_version=version,
        model=model or (benchmark.worker.backend_model if benchmark.worker else None),
        load=load,
        duration_s=benchmark.duration or None,
        date=day,
        total_output_tokens=tokens,
        streaming=reasons.get("ttft") != summary.NOT_STREAMING if counts.completed else None,
        definitions=summary.definitions(benchmark),
        tool_reported=summary.reported(benchmark),
        unsuitable=reasons,
        notes=(*said, *load_notes, *_slo_note(benchmark), *_doubts(benchmark)),
    )


def _all_listed(source: Source, benchmark: Benchmark, one: rows.Listed, at: str) -> bool:
    """Whether the lists hold every request behind the metrics; with sample_size they hold a sample.

    Raises InputError where there is no request at all, or more are listed than were made.
    """
    totals = benchmark.totals
    if not len(one.requests) and (totals is None or totals == Totals()):
        raise source.fail("holds no request", at, "run GuideLLM again and keep the whole report")
    if totals is None:
        return True
    succeeded, errored = one.inside_of(Status.COMPLETED), one.inside_of(Status.FAILED)
    if one.window_s is None and (succeeded > totals.successful or errored > totals.errored):
        why = (
            f"contradicts itself: it counts {totals.successful} successful and {totals.errored} errored "
            f"requests, but lists {succeeded} and {errored}"
        )
        raise source.fail(why, at, "keep the report as GuideLLM wrote it")
    return succeeded >= totals.successful and errored >= totals.errored


def _load(source: Source, strategy: Strategy | None, at: str) -> tuple[Load | None, tuple[str, ...]]:
    if strategy is None:
        return None, ("the strategy is not stated: the load is not known",)
    kind: str | None = strategy.type_
    said: tuple[str, ...] = ()
    if strategy.rampup_duration:
        said = (f"the load ramps up over the first {strategy.rampup_duration:g} s",)
    if kind == "synchronous":
        return Load(concurrency=1), said
    if kind == "concurrent" and strategy.streams:
        return Load(concurrency=strategy.streams), said
    if kind == "throughput":
        cap = strategy.max_concurrency
        return (Load(concurrency=cap) if cap else Load(burst=True)), said
    if kind in ("constant", "poisson") and strategy.rate is not None:
        if strategy.rate <= 0:
            raise source.fail(f"a rate of {strategy.rate:g} req/s sends nothing", f"{at}.config.strategy")
        return Load(request_rate=strategy.rate, cap=strategy.max_concurrency), said
    return None, (*said, f'the strategy "{kind}" is no single load point')


def _day(start_s: float | None) -> str | None:
    try:
        return None if not start_s else datetime.fromtimestamp(start_s, timezone.utc).date().isoformat()
    except (OverflowError, ValueError, OSError):  # no moment of a benchmark
        return None


# ---- notes --------------------------------------------------------------------------------


def _row_notes(benchmark: Benchmark, one: rows.Listed) -> Iterable[str]:
    yield from tables.failure_note(one.requests, one.messages)
    totals, made = benchmark.totals, benchmark.made
    outside = int((one.requests.status == Status.WARMUP).sum())
    if outside:
        yield f"{outside} requests lie outside GuideLLM's measurement window and count as warm-up"
    succeeded, errored = one.inside_of(Status.COMPLETED), one.inside_of(Status.FAILED)
    if totals and (succeeded, errored) != (totals.successful, totals.errored):
        yield (
            f"GuideLLM measures {totals.successful} successful and {totals.errored} errored requests, "
            f"{succeeded} and {errored} overlap its window"
        )
    yield from _cut_off(one, made)
    yield from rows.notes(one, benchmark.asked.strategy)


def _cut_off(one: rows.Listed, made: Totals | None) -> Iterable[str]:
    cancelled = one.kind == Status.CANCELLED
    number, late = int(cancelled.sum()), int((cancelled & ~one.inside).sum())
    if late:
        yield f"{late} of the {number} requests cut off at the end lie outside the measurement window"
    if made and made.incomplete > number:
        yield f"GuideLLM counts {made.incomplete} requests cut off at the end, the file lists {number}"


def _aggregate_notes(benchmark: Benchmark, one: rows.Listed, *, is_csv: bool) -> Iterable[str]:
    totals, made = benchmark.totals, benchmark.made
    measured = totals.successful + totals.errored if totals else 0
    if is_csv:
        yield "a CSV holds no requests: give benchmarks.json of the same run"
    elif len(one.requests):
        yield (
            f"the file lists {len(one.requests)} of {measured} measured requests, a sample of each kind "
            "apart, so that its aggregate is used"
        )
    else:
        yield f"the lists of the {measured} measured requests are empty, so that the aggregate is used"
    if made and made.successful + made.errored < measured:
        yield f"requests_made says {made.successful + made.errored}, the metrics cover {measured} requests"


def _slo_note(benchmark: Benchmark) -> Iterable[str]:
    """What the tool says of its own bounds, which are not the policy's."""
    metrics, slo = benchmark.metrics, benchmark.asked.slo or Slo()
    if metrics is None or metrics.slo_attainment is None:
        return
    named = (("ttft", slo.ttft_ms), ("tpot", slo.tpot_ms), ("e2el", slo.e2el_ms))
    bounds = ", ".join(f"{name} {ms:g} ms" for name, ms in named if ms is not None) or "bounds not stated"
    yield (
        f"the tool says slo_attainment {metrics.slo_attainment:.1%} of {metrics.slo_determined_requests} "
        f"requests ({bounds}), by inter_token_latency_ms as tpot, with errored requests as misses and those "
        "of one token left out; slo-gate counts by the policy's bounds over attempted requests"
    )


def _doubts(benchmark: Benchmark) -> Iterable[str]:
    return (f"GuideLLM warns: {one.message}" for one in benchmark.warnings or () if one.message)
