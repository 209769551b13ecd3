"""A run of MLPerf Endpoints: its events with the summary beside them, or the summary alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec.structs import replace

from ...model import Aggregate, Counts, Doubt, Evidence, Load, Summary, Why
from .. import kinds
from ..ladders import ladder
from ..source import Source
from ..told import Counted, Told
from . import EVENTS, KINDS, NAME, SUMMARY, TITLE, events

METHOD = 'numpy "lower": sorted[floor(p * (n - 1))] over all completes, failed ones included'
_MANY_TOKENS = 1e7  # a mean above this is no number of tokens
_WHOLE = "run the benchmark again, or copy the file whole"
_NO_GAPS = "gaps between chunks are in events.jsonl alone, and only with client.stream_all_chunks"
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

    n_samples_issued: _Count
    n_samples_completed: _Count
    n_samples_failed: _Count
    ttft: _Block
    tpot: _Block
    latency: _Block
    output_sequence_lengths: _Block | None = None
    version: str | None = None
    git_sha: str | None = None
    state: str | None = None
    complete: bool | None = None
    duration_ns: _Value | None = None
    legacy_loadgen_window_duration_ns: _Value | None = None
    qps: float | None = None
    run_config: _Config | None = None

    @property
    def counts(self) -> tuple[int, int, int]:
        """Issued, completed, failed. Failed ones complete too: the tool emits the error, then that."""
        return self.n_samples_issued, self.n_samples_completed, self.n_samples_failed

    @property
    def blocks(self) -> dict[str, _Block]:
        """Those of which the tool recorded a value, by metric."""
        named = {"ttft": self.ttft, "tpot": self.tpot, "e2e": self.latency}
        return {metric: block for metric, block in named.items() if block.percentiles}


class _Digest(msgspec.Struct):
    """run_metadata.json, of which a submission is made: what older summaries do not state."""

    measured_total_requests: int | None = None
    concurrency: int | None = None
    run_date: str | None = None
    node_config: str | None = None


def decode(source: Source) -> Told:
    """The one run. Raises InputError when the file is broken, holds none or contradicts itself."""
    kind = kinds.kind_of(source, KINDS)
    if kind is EVENTS:
        return _events(source)
    if kind is not SUMMARY or source.shape != "object":
        raise kinds.refuse(source, kind, TITLE, "give events.jsonl or performance/result_summary.json")
    return _summary(source)


def same(session: Source, summary: Source) -> bool:
    """Whether a summary is of the run of these events: beside them, or in performance/."""
    if session.path is None or summary.path is None:
        return False
    return summary.path.parent in (session.path.parent, session.path.parent / "performance")


def _events(source: Source) -> Told:
    session, other = events.read(source), _summary_of(source)
    summary = _decoded(other) if other is not None else None
    if other is not None and summary is not None and summary.n_samples_issued != session.issued:
        why = f"{session.issued} samples issued here, {summary.n_samples_issued} there"
        raise source.fail(f"contradicts {other.name}: {why}", hint="keep the files of one run together")
    no_gaps = () if session.has_gaps else (Doubt(Why.NO_GAPS, ("itl",), _NO_GAPS),)
    return replace(
        _told(source, summary, "events", session.rows, session.rows.counts),
        counted=None if summary is None else Counted(failed=summary.n_samples_failed),
        duration_s=session.duration_s,
        has_gaps=session.has_gaps,
        characters=session.characters,
        valid=False if session.interrupted else None,
        invalid_because="interrupted: what it finished is no fair sample",
        messages=session.errors,
        doubts=(Doubt(Why.ABSENT, ("tpot",), _NO_TPOT), *no_gaps),
    )


def _summary_of(source: Source) -> Source | None:
    folders = () if source.path is None else (source.path.parent, source.path.parent / "performance")
    paths = (folder / name for folder in folders for name in ("result_summary.json", "results_summary.json"))
    beside = (Source(path, str(path)) for path in paths if path.is_file())
    return next((other for other in beside if kinds.kind_of(other, KINDS) is SUMMARY), None)


def _decoded(source: Source) -> _Summary:
    (summary,) = next(source.rows(_Summary))
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
    told = _told(source, summary, "summary", evidence, counts)
    doubts = [Doubt(Why.NO_GAPS, ("itl",), _NO_GAPS)]
    if 0 < (n := summary.tpot.n) < counts.completed:
        why = f"{n:,} values stand behind TPOT, but {counts.completed:,} samples completed"
        doubts.append(Doubt(Why.POPULATION, ("tpot",), f"{why}: answers of one chunk have none"))
    return replace(
        told,
        counts=counts,
        duration_s=None if summary.duration_ns is None else summary.duration_ns / 1e9,
        valid=summary.state == "complete" and summary.complete is True,
        invalid_because=f"not whole: state {summary.state}, complete {summary.complete}",
        doubts=tuple(doubts),
        notes=(*told.notes, *_notes(summary, counts)),
    )


def _counts(source: Source, summary: _Summary) -> Counts:
    issued, completes, failed = summary.counts
    if issued == 0:
        raise source.fail("holds no sample", hint="run the benchmark again")
    if completes > issued or failed > issued:
        why = f"contradicts itself: {completes} completed and {failed} failed of {issued} issued"
        raise source.fail(why, hint=_WHOLE)
    completed = max(completes - failed, 0)
    unfinished = issued - completes if summary.state == "interrupted" else 0
    return Counts(issued - unfinished, completed, issued - unfinished - completed, unfinished)


def _notes(summary: _Summary, counts: Counts) -> Iterator[str]:
    issued, completes, failed = summary.counts
    if failed or issued != completes:
        yield (
            f"{counts.failed} failed: the tool counts {issued} issued, {completes} completed (failed ones"
            f" included) and {failed} failed; slo-gate counts {counts.completed} completed: no answer is a"
            " failure too"
        )
    shown = []
    for metric, block in summary.blocks.items():
        if block.early_stopping_percentiles:
            value = block.early_stopping_percentiles.get("99.0")
            text = "none (under 662 samples)" if value is None else f"{value / 1e6:.4g} ms"
            shown.append(f"{metric.upper()} {text}")
    if shown:  # not the percentile, but its conservative estimate
        estimates = ", ".join(shown)
        yield f"MLPerf's submission checker takes the early-stopping estimates of P99 instead: {estimates}"
    window_ns, qps = summary.legacy_loadgen_window_duration_ns, summary.qps
    if window_ns is not None and qps is not None:
        why = f"is (completed - 1) / {window_ns / 1e9:.4g} s, the window to the end of the last-issued sample"
        yield f"the tool's {qps:.4g} req/s {why}; slo-gate divides by the whole run"


def _told(source: Source, summary: _Summary | None, kind: str, evidence: Evidence, counts: Counts) -> Told:
    """What is true of both files."""
    digest = _digest(source, counts.attempted)
    load, why = _load(summary, digest)
    tokens = summary.output_sequence_lengths if summary is not None else None
    notes: tuple[str, ...] = () if load is not None else (why,)
    if tokens is not None and tokens.avg is not None and not 0 <= tokens.avg <= _MANY_TOKENS:
        notes += (
            f"output_sequence_lengths says {tokens.avg:.4g} tokens a sample, which cannot be: not used",
        )
        tokens = None
    tokens = tokens if tokens is not None and tokens.n == counts.completed else None
    version = summary.version if summary is not None else None
    return Told(
        format=f"{NAME} {kind}",
        tool=TITLE,
        evidence=evidence,
        retries=0,  # its worker writes each request once
        version=f"{version} ({summary.git_sha})" if version and summary and summary.git_sha else version,
        model=_model(source),
        hardware=digest.node_config,
        load=load,
        date=digest.run_date,
        output_tokens=tokens.total if tokens is not None else None,
        fewest_tokens=tokens.min if tokens is not None else None,
        stream_with="run with model_params.streaming on",
        stated={metric: block.summary for metric, block in summary.blocks.items()} if summary else {},
        method=METHOD,
        notes=notes,
    )


def _digest(source: Source, issued: int) -> _Digest:
    """The digest beside a result, if it is of the same run. Raises InputError when it is broken."""
    other = source.beside("run_metadata.json")
    if other is None or other.shape != "object":
        return _Digest()
    (digest,) = next(other.rows(_Digest))
    return digest if digest.measured_total_requests == issued else _Digest()


def _load(summary: _Summary | None, digest: _Digest) -> tuple[Load | None, str]:
    """The load point by run_config, else by the digest; else a note that says so."""
    config = summary.run_config if summary is not None else None
    pattern = config.load_pattern if config is not None else None
    if pattern is None:
        known = digest.concurrency is not None and digest.concurrency > 0
        why = "the load is not stated (--set concurrency=N or request_rate=X)"
        return (Load(concurrency=digest.concurrency) if known else None), why
    rate, slots = pattern.target_qps, pattern.target_concurrency
    if pattern.type == "poisson" and rate is not None and 0 < rate < 1e12:
        return Load(request_rate=rate), ""
    if slots is not None and slots > 0:
        return Load(concurrency=slots), ""
    why = f'the load pattern "{pattern.type}" states neither a rate nor a concurrency'
    return (Load(burst=True) if pattern.type == "max_throughput" else None), why


def _model(source: Source) -> str | None:
    """By config.yaml, beside the file or one folder up, where it can be read."""
    import yaml  # only here: no other file of this tool is YAML

    for folder in () if source.path is None else list(source.path.parents)[:2]:
        try:
            config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
            name = config["model_params"]["name"]
        except (OSError, ValueError, yaml.YAMLError, RecursionError, KeyError, TypeError, IndexError):
            continue
        if isinstance(name, str):
            return name
    return None
