"""Rows of InferenceX: of process_result.py, of its agentic runs, of an experiment in seconds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ...model import METRICS, Aggregate, Counts, Doubt, Why
from .. import bench_serving as _bench
from ..loads import load
from ..source import Doc, Source
from ..told import Told
from . import NAME, ROW

_AGENTIC = "num_requests_total"
_PREFIX = "agg_"
_BLIND = (
    "process_result.py keeps neither how many requests were sent nor how many completed, so no share of "
    "them is known; pass the raw result, the file of the same name without agg_"
)
_MEAN_GAPS = (
    "it is AIPerf's mean of each request, the same numbers as TPOT; AIPerf's profile_export.jsonl has more"
)
_ZERO = "every value of {} is 0.0, which stands for not measured; pass the raw result"
_OLD_TOTAL = (
    "num_requests_total counts records of the warm-up too and the row does not say how many: of the {} that "
    "are not successful, all count as failed"
)


# ---- which files --------------------------------------------------------------------------


def companions(sources: Sequence[Source]) -> Mapping[Source, str]:
    """Summaries of a raw file beside them; lists whose rows are there one by one, or rows of a list."""
    covered: dict[Source, str] = {}
    for source in sources:
        if raw := _raw(source):
            covered[source] = f"a summary of {raw.name}, which has the requests"
    lists = [source for source in sources if source.shape == "array"]
    single = {
        _text(doc): source for source in sources if source.shape == "object" for doc in _bench.docs(source)
    }
    for source in lists:
        rows = {_text(doc) for doc in _bench.docs(source)}
        if rows <= set(single):
            covered.setdefault(source, "a list of rows that are there one by one")
            continue
        for text in rows & set(single):
            covered.setdefault(single[text], f"its row is also in {source.name}")
    return covered


def _raw(source: Source) -> Source | None:
    """The raw result beside an agg_ file, if it is the one it was made from."""
    if source.path is None or source.shape != "object" or not source.path.name.startswith(_PREFIX):
        return None
    raw = source.beside(source.path.name.removeprefix(_PREFIX))
    if raw is None or not {"model_id", "num_prompts"} <= raw.keys:
        return None
    pairs = [(source.doc.number(f"median_{m}"), raw.doc.number(f"median_{m}_ms")) for m in ("ttft", "tpot")]
    same = all(a is not None and b is not None and math.isclose(a * 1000, b, rel_tol=1e-6) for a, b in pairs)
    return raw if same else None


def _text(doc: Doc) -> bytes:
    return msgspec.json.encode({key: doc.any(key) for key in sorted(doc.fields)})


# ---- rows ---------------------------------------------------------------------------------


def decode(source: Source) -> Iterator[Told]:
    """A Told a row. Raises InputError when there is none or one contradicts itself."""
    for doc in _bench.docs(source, "agg_*.json or agg_bmk.json as InferenceX wrote it"):
        if "num_prompts" in doc:
            yield _experiment(doc)
        elif not doc.fields.keys() >= ROW:
            raise source.fail("is no row of InferenceX", doc.at, _bench.WHOLE)
        else:
            yield _agentic(doc) if _AGENTIC in doc else _fixed(doc)


def _fixed(doc: Doc) -> Told:
    """A row of process_result.py: percentiles of unknown many requests."""
    named = _bench.statistics(doc, "")
    raw = (doc.source.path.name if doc.source.path else doc.source.name).removeprefix(_PREFIX)
    zero = [m for m, values in named.items() if not any(values.values())]
    return Told(
        format="inferencex agg",
        evidence=Aggregate({}, settled_by=f"the raw result {raw}"),
        retries=0,
        model=doc.text("model"),
        hardware=_hardware(doc),
        load=load(slots=doc.count("conc")),
        stated=_bench.without_zeros(_bench.summaries(named, 1)),
        method=_bench.METHOD,
        doubts=(
            *(Doubt(Why.ZERO, (metric,), _ZERO.format(metric.upper())) for metric in zero),
            Doubt(Why.COUNTS_UNKNOWN, (*METRICS, "error_rate"), _BLIND),
        ),
        notes=_provenance(doc),
    )


def _agentic(doc: Doc) -> Told:
    """A row made from AIPerf's records: counts and duration are known, P99 is not."""
    nested = doc.part("request_metrics")
    latency, rates = (nested.part(key) if nested else None for key in ("latency", "throughput"))
    counts, notes = _counts(doc)
    stated = _bench.summaries(_bench.statistics(_flat(latency) if latency else doc, ""), 1)
    output = rates.part("output") if rates else None
    duration_s = (rates or doc).number("duration_seconds")
    rate = doc.number("output_tput_tps") if nested is None else None
    rate = output.number("tokens_per_second") if output else rate
    return Told(
        format="inferencex agentic",
        evidence=_bench.aggregate(stated, counts.completed, "AIPerf's profile_export.jsonl"),
        retries=0,  # AIPerf sends a request once
        counts=counts,
        model=doc.text("model"),
        hardware=_hardware(doc),
        interaction="agent",
        load=load(slots=doc.count("conc")),
        duration_s=duration_s,
        output_tokens=rate * duration_s if rate is not None and duration_s else None,
        stated=_bench.without_zeros(stated),
        method=_bench.METHOD,
        stream_with="run AIPerf with --streaming",
        doubts=(Doubt(Why.DEFINITION, ("itl",), _MEAN_GAPS),),
        notes=(*notes, *_provenance(doc)),
    )


def _experiment(doc: Doc) -> Told:
    """A vLLM-shaped file whose latencies are seconds under keys without _ms."""
    stated = _bench.summaries(_bench.statistics(doc, ""), 1)
    completed, counts, notes = _bench.counts_without_failed(doc)
    evidence = _bench.aggregate(stated, completed, "a run that keeps the requests")
    return _bench.statement(
        doc, NAME, evidence, stated, format="inferencex experiment", counts=counts, notes=notes
    )


def _counts(doc: Doc) -> tuple[Counts, list[str]]:
    """Successful and failed records; those of the warm-up are in the total. Raises InputError."""
    total, completed = doc.count(_AGENTIC), doc.count("num_requests_successful")
    if total is None or completed is None:
        why = "does not say how many requests were sent and completed"
        raise doc.source.fail(why, doc.at, _bench.WHOLE)
    accounting = doc.part("request_accounting")
    warmup = (accounting.count("records_warmup_dropped") or 0) if accounting else 0
    failed = total - completed - warmup
    if failed < 0:
        why = f"contradicts itself: {completed} successful and {warmup} of the warm-up of {total} records"
        raise doc.source.fail(why, f"{doc.at}.{_AGENTIC}", _bench.WHOLE)
    kinds = accounting.get("error_categories", dict[str, int]) if accounting else None
    shown = ", ".join(f"{kind} x{number}" for kind, number in (kinds or {}).items())
    notes = [f"{failed} failed" + (f": {shown}" if shown else "")] if failed else []
    if failed and not accounting:
        notes.append(_OLD_TOTAL.format(failed))
    return Counts(completed + failed, completed, failed, warmup=warmup), notes


def _flat(latency: Doc) -> Doc:
    """latency.ttft.p90 as p90_ttft, as older rows have it."""
    found: dict[str, msgspec.Raw] = {}
    for metric in ("ttft", "tpot", "itl", "e2el"):
        part = latency.part(metric)
        found |= {f"{name}_{metric}": raw for name, raw in part.fields.items()} if part else {}
    return Doc(latency.source, found, latency.at)


# ---- around them --------------------------------------------------------------------------


def _hardware(doc: Doc) -> str | None:
    """The runner's type, with the GPUs of one node (as process_result.py counts them)."""
    name = doc.text("hw")
    if not name or doc.any("is_multinode") is not False or not doc.count("tp"):
        return name or None
    return f"{math.prod(doc.count(key) or 1 for key in ('tp', 'pp', 'pcp_size'))}x{name}"


def _provenance(doc: Doc) -> tuple[str, ...]:
    named = ("framework", "precision", "spec_decoding", "isl", "osl", "image")
    shown = ", ".join(f"{key} {text}" for key in named if (text := doc.text(key)))
    nominal = " (isl and osl are nominal lengths)" if "isl" in doc else ""
    return (f"{shown}{nominal}",) if shown else ()
