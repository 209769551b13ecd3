"""Rows of InferenceX: of process_result.py, of its agentic runs, of an experiment in seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from ...model import Aggregate, Counts, Load, Run
from .. import bench_serving as _bench
from ..source import Doc, Source
from . import DEFINITIONS, NAME, ROW

_AGENTIC = "num_requests_total"
_PREFIX = "agg_"
_BLIND = (
    "process_result.py keeps neither how many requests were sent nor how many completed, so no share of "
    "them is known; pass the raw result, the file of the same name without agg_"
)
_MEAN_GAPS = (
    "it is AIPerf's mean of each request, the same numbers as TPOT; AIPerf's profile_export.jsonl has more"
)
_ABSENT = "the file states no percentile of {} (0.0 stands for not measured); pass the raw result"
_OF_AIPERF = {
    "ttft": "AIPerf's time_to_first_token",
    "tpot": "AIPerf's inter_token_latency: (E2E - TTFT) / (output tokens - 1), one value a request",
    "itl": "the same numbers as tpot",
    "e2e": "AIPerf's request_latency",
}
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


# ---- runs ---------------------------------------------------------------------------------


def read(source: Source) -> Sequence[Run]:
    """One Run a row. Raises InputError when there is none or one contradicts itself."""
    runs = [_run(source, doc) for doc in _bench.docs(source)]
    if not runs:
        raise source.fail("holds no row", hint="pass agg_*.json or agg_bmk.json as InferenceX wrote it")
    return runs


def _run(source: Source, doc: Doc) -> Run:
    if "num_prompts" in doc:
        return _experiment(source, doc)
    if not doc.fields.keys() >= ROW:
        raise source.fail("is no row of InferenceX", doc.at, _bench.WHOLE)
    return _agentic(source, doc) if _AGENTIC in doc else _fixed(source, doc)


def _fixed(source: Source, doc: Doc) -> Run:
    """A row of process_result.py: percentiles of unknown many requests."""
    stated = _bench.statistics(doc, "", 1)
    raw = (source.path.name if source.path else source.name).removeprefix(_PREFIX)
    metrics = ("ttft", "tpot", "itl", "e2e")
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="inferencex agg",
        tool=NAME,
        evidence=Aggregate({}, settled_by=f"the raw result {raw}"),
        counts=Counts(0, 0, 0),
        model=doc.text("model"),
        hardware=_hardware(doc),
        load=_load(doc),
        definitions=DEFINITIONS,
        tool_reported=_bench.reported(doc, stated),
        unsuitable={**dict.fromkeys((*metrics, "error_rate"), _BLIND), **_zeros(stated)},
        notes=_provenance(doc),
    )


def _zeros(stated: _bench.Stated) -> dict[str, str]:
    """Metrics whose every value is 0.0, which the writers put for not measured."""
    return {m: _ABSENT.format(m.upper()) for m, named in stated.items() if not any(named.values())}


def _agentic(source: Source, doc: Doc) -> Run:
    """A row made from AIPerf's records: counts and duration are known, P99 is not."""
    nested = _part(doc, "request_metrics")
    nested_latency = _part(nested, "latency")
    latency = _flat(nested_latency) if nested_latency else doc
    times = _part(nested, "throughput") or doc
    counts, notes = _counts(doc)
    stated = _bench.statistics(latency, "", 1)
    evidence = _bench.aggregate(latency, stated, counts.completed, "AIPerf's profile_export.jsonl")
    duration_s = times.number("duration_seconds")
    if duration_s is not None and duration_s < 0:
        raise source.fail(f"contradicts itself: a duration of {duration_s:g} s", times.at, _bench.WHOLE)
    rate = _tokens_per_s(nested) if nested else doc.number("output_tput_tps")
    unsuitable = _bench.unsuitable(stated, evidence, _ABSENT) if counts.completed else {}
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="inferencex agentic",
        tool=NAME,
        evidence=evidence,
        counts=counts,
        model=doc.text("model"),
        hardware=_hardware(doc),
        interaction="agent",
        load=_load(doc),
        duration_s=duration_s or None,
        total_output_tokens=rate * duration_s if rate and duration_s else None,
        definitions=_OF_AIPERF,
        tool_reported=_bench.reported(latency, stated),
        unsuitable={**unsuitable, "itl": _MEAN_GAPS},
        notes=(*notes, *_provenance(doc)),
    )


def _counts(doc: Doc) -> tuple[Counts, list[str]]:
    """Successful and failed records; those of the warm-up are in the total. Raises InputError."""
    total, completed = doc.count(_AGENTIC), doc.count("num_requests_successful")
    if total is None or completed is None:
        why = "does not say how many requests were sent and completed"
        raise doc.source.fail(why, doc.at, _bench.WHOLE)
    accounting = _part(doc, "request_accounting")
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


def _part(doc: Doc | None, key: str) -> Doc | None:
    fields = doc.get(key, dict[str, msgspec.Raw]) if doc else None
    return Doc(doc.source, fields, f"{doc.at}.{key}") if doc and fields is not None else None


def _flat(latency: Doc) -> Doc:
    """latency.ttft.p90 as p90_ttft, as older rows have it."""
    found: dict[str, msgspec.Raw] = {}
    for metric in ("ttft", "tpot", "itl", "e2el"):
        part = _part(latency, metric)
        found |= {f"{name}_{metric}": raw for name, raw in part.fields.items()} if part else {}
    return Doc(latency.source, found, latency.at)


def _tokens_per_s(nested: Doc) -> float | None:
    output = _part(_part(nested, "throughput"), "output")
    return output.number("tokens_per_second") if output else None


def _experiment(source: Source, doc: Doc) -> Run:
    """A vLLM-shaped file whose latencies are seconds under keys without _ms."""
    stated = _bench.statistics(doc, "", 1)
    completed, asked = doc.count("completed"), doc.count("num_prompts")
    if completed is None or asked is None:
        why = "does not say how many requests were sent and completed"
        raise source.fail(why, doc.at, "keep `completed` and `num_prompts` in the file")
    if asked < completed:
        why = f"contradicts itself: {completed} requests completed of {asked}"
        raise source.fail(why, f"{doc.at}.completed", _bench.WHOLE)
    evidence = _bench.aggregate(doc, stated, completed, "a run that keeps the requests")
    load, notes = _bench.load(doc)
    lost = asked - completed
    if lost:
        notes.append(f"{lost} of {asked} prompts did not complete and count as failed")
    counts, duration_s = Counts(asked, completed, lost), _bench.duration(doc)
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="inferencex experiment",
        tool=NAME,
        evidence=evidence,
        counts=counts,
        model=doc.text("model_id"),
        load=load,
        duration_s=duration_s,
        date=_bench.date(doc),
        total_output_tokens=doc.number("total_output_tokens"),
        definitions=DEFINITIONS,
        tool_reported=_bench.reported(doc, stated),
        unsuitable=_bench.unsuitable(stated, evidence, _ABSENT) if completed else {},
        notes=(
            *notes,
            *_bench.pace_notes(load, counts, duration_s, 0.0),
            *_bench.goodput_note(doc, completed, "request_goodput"),
        ),
    )


# ---- around them --------------------------------------------------------------------------


def _load(doc: Doc) -> Load | None:
    concurrency = doc.count("conc")
    return Load(concurrency=concurrency) if concurrency else None


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
