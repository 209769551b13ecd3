"""inference-perf's aggregate of a stage or of all stages, and what the files beside a result say of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

import msgspec

from ...errors import InputError
from ...model import METRICS, Aggregate, Counts, Doubt, Summary, Why
from .. import kinds, stages, tables
from ..ladders import ladder
from ..source import Source
from ..stages import at
from ..told import Told
from . import KINDS, NAME, REQUESTS, STAGES, TITLE

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Number = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
Statistics = dict[str, Number | None]

STREAM_WITH = "set `api.streaming: true`"
_DETAIL = "`report.request_lifecycle.per_request: true`"
_POOLED = "a summary pools several stages, so several loads; give the stage_N_lifecycle_metrics.json files"
_SHARED_CHUNKS = f"all tokens of a chunk get its time, so their gaps are no chunk gaps; write {_DETAIL}"
_ONE_TOKEN = f"one-token answers are in no TTFT of inference-perf; their chunk times need {_DETAIL}"
_TAGS = ("time_to_first_token", "time_per_output_token", "inter_token_latency", "request_latency")
_RARE = 1.0  # percent of requests
_CHUNKY = 0.1  # median token gap, of the mean TPOT


class _Successes(msgspec.Struct):
    count: Count
    latency: dict[str, Statistics | None] | None = None
    throughput: dict[str, Any] | None = None
    output_len: Statistics | None = None  # by the client's tokenizer
    output_tokens: Statistics | None = None  # by the server's usage, where it sends it
    token_count_mismatches: Count | None = None
    goodput_metrics: dict[str, Any] | None = None


class _Failures(msgspec.Struct):
    count: Count
    by_label: dict[str, dict[str, Any]] | None = None


class Lifecycle(msgspec.Struct):
    """What an aggregate says."""

    load_summary: dict[str, Any]  # of a concurrent load, `requested_rate` is the number of requests
    successes: _Successes
    failures: _Failures
    benchmark_time_seconds: Number | None = None
    retries: dict[str, Any] | None = None  # there only where a request was repeated (since 0.7)

    @property
    def attempted(self) -> int:
        """Completed and failed as the tool sees them."""
        return self.successes.count + self.failures.count

    def total(self, lengths: Statistics | None) -> float | None:
        """Output tokens of the completed requests, by their mean."""
        mean = (lengths or {}).get("mean")
        return None if mean is None else float(round(mean * self.successes.count))

    def summaries(self) -> Mapping[str, Summary]:
        """The statistics of each metric in seconds, empty where the tool has none."""
        blocks = self.successes.latency or {}
        pairs = [(metric, blocks.get(tag) or {}) for metric, tag in zip(METRICS, _TAGS, strict=True)]
        return {
            m: ladder(_points(b), mean=b.get("mean"), low=b.get("min"), high=b.get("max")) for m, b in pairs
        }


def _points(stat: Statistics) -> Iterator[tuple[float, float | None]]:
    """(percent, value); the 50th is called median."""
    for key, value in stat.items():
        if key == "median" or re.fullmatch(r"p\d+(\.\d+)?", key):
            yield (50.0 if key == "median" else float(key[1:])), value


def config_of(source: Source) -> Any:
    """The content of config.yaml beside it; None where it cannot be read: it only adds facts."""
    file = kinds.beside(source, KINDS, "config.yaml") or source.beside("config.yaml")
    try:
        return file.yaml() if file else None
    except InputError:
        return None


def facts_of(source: Source, config: Any, index: int) -> dict[str, Any]:
    """What the files beside a result say of a stage, as `Told` names it."""
    partial = kinds.beside(source, KINDS, f"inference-perf.partial.stage_{index}.yaml")
    day = re.search(r"^\s+start: '?(\d{4}-\d\d-\d\d)T", partial.head, re.MULTILINE) if partial else None
    file = kinds.beside(source, KINDS, "validation.json") or source.beside("validation.json")
    model = stages.text(at(config, "server", "model_name"))
    return {"model": model, "date": day[1] if day else None, **(_verdict(file) if file else {})}


def _verdict(file: Source) -> dict[str, Any]:
    """The tool's own word on its reports; one that is cut or edited is no good word."""
    is_whole = file.shape == "object" and "reports" in file.keys
    groups = [file.doc.any("global"), *file.doc.mapping("reports").values()] if is_whole else [None]
    listed = [at(group, "errors") for group in groups]
    if not all(isinstance(errors, list) for errors in listed):
        return {"invalid": "its validation.json is not as inference-perf writes it"}
    errors = [str(at(error, "message")) for each in listed for error in each]
    return {"invalid": f"validation.json: {'; '.join(errors[:3])}" if errors else ""}


def stated_by(source: Source, report: Lifecycle, config: Any, index: int) -> dict[str, Any]:
    """What a stage's aggregate says, as `Told` names it. Raises InputError for a rate that sends nothing."""
    declared, done = stages.declared(config), report.successes
    rate, users, sent, late = (
        stages.number(at(report.load_summary, *path))
        for path in (("requested_rate",), ("concurrency",), ("achieved_rate",), ("schedule_delay", "p99"))
    )
    if rate is not None and rate <= 0 and not users:
        why = f"a requested rate of {rate:g} req/s sends nothing"
        raise source.fail(why, "$.load_summary.requested_rate", "run the benchmark at a positive rate")
    duration_s = report.benchmark_time_seconds
    if duration_s is None and (per_second := stages.number(at(done.throughput, "requests_per_sec"))):
        duration_s = done.count / per_second
    facts = {
        "asked_with": stages.asked_with(config),
        "load": stages.load({"rate": rate, "concurrency_level": users}),
        "duration_s": duration_s,
        "stated": report.summaries(),
        "method": "numpy linear over completed requests",
        "goodput": _goodput(report, config),
    }
    if users:  # its delays and its rate mean nothing
        return facts | {"asked": stages.asked({"num_requests": rate})}
    asked = stages.asked(declared[index]) if index < len(declared) else None
    return facts | {"asked": asked, "late_p99_s": late, "sent_rate": sent}


def _goodput(report: Lifecycle, config: Any) -> str:
    stated, attempted = report.successes.goodput_metrics, report.attempted
    good, of = (stages.whole_number(at(stated, name)) for name in ("good_requests", "total_requests"))
    if good is None or not of:
        return ""
    bounds = at(config, "report", "goodput", "constraints")
    named = bounds.items() if isinstance(bounds, dict) else ()
    by = ", ".join(f"{name} {bound:g} s" for name, bound in named if isinstance(bound, (int, float)))
    count = f"{good} of {of} completed requests, by {by or 'bounds not stated'}"
    beyond = "" if attempted in (0, of) else f"; over all {attempted} attempted it is {good / attempted:.1%}"
    return f"{good / of:.1%} ({count}; a metric that is missing is a miss){beyond}"


def decode(source: Source) -> Iterable[Told]:
    """One run a stage. Raises InputError for a file that is broken or contradicts itself."""
    kind = kinds.kind_of(source, KINDS)
    if kind is REQUESTS or (kind is None and source.shape == "array"):
        from . import rows

        return rows.decode(source)
    kind = kinds.result(source, KINDS, TITLE, f"give {REQUESTS.name} or stage_N_lifecycle_metrics.json")
    return (_aggregate(source, "stage" if kind in STAGES else "summary"),)


def _aggregate(source: Source, kind: str) -> Told:
    report, config = source.whole(Lifecycle), config_of(source)
    match = re.search(r"stage_(\d+)_", source.path.name if source.path else source.name)
    index = int(match[1]) if match and kind == "stage" else 0
    facts = stated_by(source, report, config, index)
    if kind == "summary":
        facts = _of_summary(source, report, config, facts)
    known = {metric: summary for metric, summary in facts["stated"].items() if summary.percentiles}
    total, done = stages.whole_number(at(report.load_summary, "count")), report.successes
    lengths = done.output_tokens or done.output_len or {}
    labels = report.failures.by_label or {}
    return Told(
        format=f"{NAME} {kind}",
        evidence=Aggregate(known, "linear", settled_by=_DETAIL),
        retries=(stages.whole_number(report.retries.get("attempts")) or 1) if report.retries else 0,
        counts=Counts(report.attempted if total is None else total, done.count, report.failures.count),
        lengths=ladder(_points(lengths), mean=lengths.get("mean"), low=lengths.get("min")),
        stream_with=STREAM_WITH,
        doubts=(*facts.pop("doubts", ()), *_doubts(lengths, known)),
        failures={kind: stages.whole_number(at(labels, kind, "count")) or 0 for kind in labels},
        notes=tuple(_notes(report)),
        **facts,
        **facts_of(source, config, index),
    )


def _of_summary(source: Source, report: Lifecycle, config: Any, facts: dict[str, Any]) -> dict[str, Any]:
    """What it says of the only stage, with a doubt where there may be others."""
    files, declared = kinds.numbered(source, KINDS, *STAGES), stages.declared(config)
    stage = files[0].whole(Lifecycle) if len(files) == 1 else None
    if stage is not None and (stage.attempted, stage.failures.count) == (
        report.attempted,
        report.failures.count,
    ):
        return stated_by(files[0], stage, config, 0) | {"stated": facts["stated"]}
    if not files and len(declared) == 1:
        return facts | {"load": stages.load(declared[0])}
    pooled = Doubt(Why.SEVERAL_LOADS, (*METRICS, "error_rate"), _POOLED)
    return facts | {"load": None, "asked": None, "doubts": (pooled,)}


def _doubts(lengths: Statistics, known: Mapping[str, Summary]) -> Iterator[Doubt]:
    short = min((p for p, length in _points(lengths) if length is not None and length > 1), default=100.0)
    fewest = lengths.get("min")
    if "ttft" in known and fewest is not None and fewest <= 1 and short > _RARE:
        yield Doubt(Why.POPULATION, ("ttft",), _ONE_TOKEN)
    tpot = known["tpot"].mean if "tpot" in known else None
    gap = dict(known["itl"].percentiles).get(50.0) if "itl" in known else None
    if tpot and gap is not None and gap < _CHUNKY * tpot:
        yield Doubt(Why.DEFINITION, ("itl",), _SHARED_CHUNKS)


def _notes(report: Lifecycle) -> Iterator[str]:
    """Where the server and the client's tokenizer count differently."""
    done = report.successes
    mine, theirs = ((stat or {}).get("mean") for stat in (done.output_len, done.output_tokens))
    yield from tables.lengths_note(theirs, mine, f"{NAME}'s tokenizer")
    if done.token_count_mismatches:
        yield f"inference-perf counts {done.token_count_mismatches} token count mismatches"
