"""A run of MLPerf Endpoints: its events with the summary beside them, or the summary alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec.structs import replace

from ... import disk
from ...errors import InputError
from ...model import Aggregate, Counts, Doubt, Evidence, Load, Summary, Why
from .. import kinds, tables
from ..ladders import ladder
from ..loads import load
from ..source import Doc, Source
from ..told import Counted, Told
from . import EVENTS, KINDS, NAME, SUMMARY, TITLE, events

METHOD = 'numpy "lower": sorted[floor(p * (n - 1))] over all completes, failed ones included'
_MANY_TOKENS = 1e7  # a mean above this is no number of tokens
_INTERRUPTED = "interrupted: what it finished is no fair sample"
_WHOLE = "run the benchmark again, or copy the file whole"
_GAPS = "gaps between chunks are in events.jsonl alone, and only with client.stream_all_chunks"
_NO_GAPS = Doubt(Why.NO_GAPS, ("itl",), _GAPS)
_NO_TPOT = (
    "events.jsonl has the text of an answer and no token counts; give performance/result_summary.json alone"
    " for the tool's TPOT percentiles"
)
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Value = Annotated[float, msgspec.Meta(ge=-1e21, le=1e21)]  # ns or tokens


class _Histogram(msgspec.Struct):
    counts: list[_Count]
    buckets: list[tuple[float, float]]


class _Block(msgspec.Struct):
    """Statistics of one metric, in ns or tokens; {} where the tool recorded no value."""

    percentiles: dict[float, _Value] = {}
    min: _Value | None = None
    max: _Value | None = None
    avg: _Value | None = None
    total: _Value | None = None
    histogram: _Histogram | None = None
    early_stopping_percentiles: dict[str, float | None] = {}

    @property
    def n(self) -> int:
        return sum(self.histogram.counts) if self.histogram is not None else 0

    @property
    def summary(self) -> Summary:
        points = self.percentiles.items()
        return ladder(points, per_second=1e9, mean=self.avg, low=self.min, high=self.max, n=self.n)


class _Pattern(msgspec.Struct):
    type: str = ""
    target_qps: float | None = None
    target_concurrency: int | None = None


class _Config(msgspec.Struct):
    load_pattern: _Pattern | None = None


class _Summary(msgspec.Struct):
    """result_summary.json, by metric under our names too."""

    issued: _Count = msgspec.field(name="n_samples_issued")
    completes: _Count = msgspec.field(name="n_samples_completed")  # the error comes first: failed ones too
    failed: _Count = msgspec.field(name="n_samples_failed")
    ttft: _Block
    tpot: _Block
    latency: _Block
    output_sequence_lengths: _Block = msgspec.field(default_factory=_Block)
    version: str | None = None
    git_sha: str | None = None
    state: str | None = None
    complete: bool | None = None
    duration_ns: _Value | None = None
    legacy_loadgen_window_duration_ns: _Value | None = None
    qps: float | None = None
    run_config: _Config | None = None

    @property
    def blocks(self) -> dict[str, _Block]:
        """Those of which the tool recorded a value, by metric."""
        named = {"ttft": self.ttft, "tpot": self.tpot, "e2e": self.latency}
        return {metric: block for metric, block in named.items() if block.percentiles}


_NONE = _Summary(0, 0, 0, _Block(), _Block(), _Block())


def decode(source: Source) -> Told:
    """The one run. Raises InputError when the file is broken, holds none or contradicts itself."""
    kind = kinds.kind_of(source, KINDS)
    if kind is EVENTS:
        return _events(source)
    if kind is not SUMMARY or source.shape != "object":
        raise kinds.refuse(source, kind, TITLE, "give events.jsonl or performance/result_summary.json")
    return _summary(source)


def _events(source: Source) -> Told:
    session, other = events.read(source), _summary_of(source)
    summary, rows = _decoded(other) if other is not None else _NONE, session.rows(gaps=source.gaps)
    if other is not None and summary.issued != len(session.measured):
        why = f"{len(session.measured)} samples issued here, {summary.issued} there"
        raise source.fail(f"contradicts {other.name}: {why}", hint="keep the files of one run together")
    ends = [session.complete[uuid] for uuid in session.measured & session.complete.keys()]
    window = max(ends) - min(session.issued[uuid] for uuid in session.measured) if ends else 0
    has_gaps = any(len(times) > 1 for times in session.chunks.values())
    return replace(
        _told(source, summary, "events", rows, rows.counts),
        counted=None if other is None else Counted(failed=summary.failed),
        duration_s=window / 1e9 if window > 0 else None,
        has_gaps=has_gaps,
        characters=tables.column(session.characters.get(uuid, 0) for uuid in session.issued),
        invalid=_INTERRUPTED if "session.interrupted" in session.marks else "",
        messages=[session.errors.get(uuid, "") for uuid in session.issued],
        doubts=(Doubt(Why.ABSENT, ("tpot",), _NO_TPOT), *(() if has_gaps else (_NO_GAPS,))),
    )


def _summary_of(source: Source) -> Source | None:
    folders = () if source.path is None else (source.path.parent, source.path.parent / "performance")
    paths = (folder / name for folder in folders for name in ("result_summary.json", "results_summary.json"))
    beside = (Source(path, disk.shown(path)) for path in paths if disk.is_file(path))
    known = (other for other in beside if kinds.kind_of(other, KINDS) is SUMMARY and other.shape == "object")
    return next(known, None)


def _decoded(source: Source) -> _Summary:
    summary = source.whole(_Summary)
    for block in (summary.ttft, summary.tpot, summary.latency):
        if block.histogram is not None and len(block.histogram.counts) != len(block.histogram.buckets):
            raise source.fail("a histogram's buckets and counts have different lengths", hint=_WHOLE)
        if block.percentiles and None in (block.min, block.max, block.avg, block.histogram):
            raise source.fail("has percentiles without a min, max, avg or histogram", hint=_WHOLE)
    return summary


def _summary(source: Source) -> Told:
    summary = _decoded(source)
    counts = _counts(source, summary)
    # Its "lower" percentiles lie within what linear ones allow.
    statistics = {metric: block.summary for metric, block in summary.blocks.items()}
    evidence = Aggregate(statistics, "linear", settled_by="events.jsonl")
    doubts = [_NO_GAPS]
    if 0 < (n := summary.tpot.n) < counts.completed:
        why = f"{n:,} values stand behind TPOT, but {counts.completed:,} samples completed"
        doubts.append(Doubt(Why.POPULATION, ("tpot",), f"{why}: answers of one chunk have none"))
    told = _told(source, summary, "summary", evidence, counts)
    is_whole = summary.state == "complete" and summary.complete is True
    return replace(
        told,
        counts=counts,
        duration_s=None if summary.duration_ns is None else summary.duration_ns / 1e9,
        invalid="" if is_whole else f"not whole: state {summary.state}, complete {summary.complete}",
        doubts=tuple(doubts),
        notes=(*told.notes, *_notes(summary, counts)),
    )


def _counts(source: Source, summary: _Summary) -> Counts:
    issued, completes, failed = summary.issued, summary.completes, summary.failed
    if issued == 0:
        raise source.fail("holds no sample", hint="run the benchmark again")
    if completes > issued or failed > issued:
        why = f"contradicts itself: {completes} completed and {failed} failed of {issued} issued"
        raise source.fail(why, hint=_WHOLE)
    completed = max(completes - failed, 0)
    unfinished = issued - completes if summary.state == "interrupted" else 0
    return Counts(issued - unfinished, completed, issued - unfinished - completed, unfinished)


def _notes(summary: _Summary, counts: Counts) -> Iterator[str]:
    if summary.failed or summary.issued != summary.completes:
        yield (
            f"{counts.failed} failed: the tool counts {summary.issued} issued, {summary.completes} completed"
            f" (failed ones included) and {summary.failed} failed; slo-gate counts {counts.completed}"
            " completed: no answer is a failure too"
        )
    estimates = [
        f"{metric.upper()} {'none (under 662 samples)' if value is None else f'{value / 1e6:.4g} ms'}"
        for metric, block in summary.blocks.items()
        if (value := block.early_stopping_percentiles.get("99.0", 0.0)) != 0.0
    ]
    if estimates:  # not the percentile, but its conservative estimate
        yield f"MLPerf's submission checker takes the early-stopping P99 instead: {', '.join(estimates)}"
    window_ns, qps = summary.legacy_loadgen_window_duration_ns, summary.qps
    if window_ns is not None and qps is not None:
        why = f"is (completed - 1) / {window_ns / 1e9:.4g} s, the window to the end of the last-issued sample"
        yield f"the tool's {qps:.4g} req/s {why}; slo-gate divides by the whole run"


def _told(source: Source, summary: _Summary, kind: str, evidence: Evidence, counts: Counts) -> Told:
    """What is true of both files."""
    beside = source.beside("run_metadata.json")  # a submission's digest: what older summaries do not state
    digest = Doc(source, {})
    if beside is not None and beside.shape == "object":
        digest = beside.doc if beside.doc.count("measured_total_requests") == counts.attempted else digest
    point, why = _load(summary, digest.count("concurrency"))
    notes, tokens = [why] if point is None else [], summary.output_sequence_lengths
    if tokens.avg is not None and not 0 <= tokens.avg <= _MANY_TOKENS:
        why = f"output_sequence_lengths says {tokens.avg:.4g} tokens a sample, which cannot be: not used"
        notes, tokens = [*notes, why], _Block()
    if tokens.n != counts.completed:
        tokens = _Block()
    sha = f" ({summary.git_sha})" if summary.git_sha else ""
    return Told(
        format=f"{NAME} {kind}",
        tool=TITLE,
        evidence=evidence,
        retries=0,  # its worker writes each request once
        version=f"{summary.version}{sha}" if summary.version else None,
        model=_model(source),
        hardware=digest.text("node_config"),
        load=point,
        date=digest.text("run_date"),
        output_tokens=tokens.total,
        lengths=ladder(tokens.percentiles.items(), low=tokens.min),
        stream_with="run with model_params.streaming on",
        stated={metric: block.summary for metric, block in summary.blocks.items()},
        method=METHOD,
        notes=tuple(notes),
    )


def _load(summary: _Summary, slots: int | None) -> tuple[Load | None, str]:
    """The load point by run_config, else by the slots of the digest; else why there is none."""
    pattern = summary.run_config.load_pattern if summary.run_config is not None else None
    if pattern is None:
        return load(slots=slots), "the load is not stated (--set concurrency=N or request_rate=X)"
    rate = {"poisson": pattern.target_qps, "max_throughput": float("inf")}.get(pattern.type)
    why = f'the load pattern "{pattern.type}" states neither a rate nor a concurrency'
    return load(rate=rate, slots=pattern.target_concurrency), why


def _model(source: Source) -> str | None:
    """By config.yaml, beside the file or one folder up, where it can be read."""
    for folder in () if source.path is None else list(source.path.parents)[:2]:
        try:
            name = Source(folder / "config.yaml", "config.yaml").yaml()["model_params"]["name"]
        except (InputError, LookupError, TypeError):
            continue
        if isinstance(name, str):
            return name
    return None
