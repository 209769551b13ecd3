"""An object of vLLM's as a run, and which files of a sweep hold the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...model import Aggregate, Load, Requests, Run
from .. import bench_serving as _bench
from .. import bursts, tables
from ..source import Doc, Source
from . import DEFINITIONS, FAILURE, NAME, OTHERS, PYTORCH, SIDE_FILES, aggregate, detailed, is_sweep_table

_QUEUED_S = 0.01  # a mean wait for the client cap worth telling

_SERVE = "measure with `vllm bench serve --save-result --save-detailed`"

_REBUILT = "TTFT + sum of the gaps (the file has no `latencies`); the tool's own also waits for usage"


# ---- which files --------------------------------------------------------------------------


def companions(sources: Sequence[Source]) -> Mapping[Source, str]:
    """In a sweep's folder: warm-ups, and summaries whose runs are there one by one."""
    runs = {(_folder(s), number): s for s in sources if (number := _run_number(s)) is not None}
    covered: dict[Source, str] = {}
    for source in sources:
        here = {number: s for (folder, number), s in runs.items() if folder == _folder(source)}
        if source.shape == "array" and source.keys == PYTORCH:
            covered[source] = SIDE_FILES["*.pytorch.json"]
        elif source.shape == "array":
            covered |= _summary_or_runs(source, here)
        elif source.keys >= FAILURE:
            if source.doc.count("run_number") in here:
                covered[source] = "the failed run was repeated and its result is beside it"
        elif _run_number(source) is None and source.keys >= {"run_number"}:
            covered[source] = "it is the warm-up of a sweep"
        elif source.shape == "text" and any(_inside(folder, _folder(source)) for folder, _ in runs):
            covered[source] = "a table of the sweep's runs, which are there one by one"
    return covered


def _summary_or_runs(source: Source, here: Mapping[int, Source]) -> dict[Source, str]:
    """Runs of a summary.json are counted once, from whichever side knows more of them."""
    listed = {doc.count("run_number") for doc in _bench.docs(source)}
    if here and listed <= set(here):
        return {source: "a list of the sweep's runs, which are there one by one"}
    return {s: f"its run is also in {source.name}" for number, s in here.items() if number in listed}


def _run_number(source: Source) -> int | None:
    """N of a sweep's run=N.json; None for the warm-up and for every other file."""
    if source.shape != "object" or "run_number" not in source.keys or source.keys >= FAILURE:
        return None
    number = source.doc.number("run_number")
    return int(number) if number is not None and number >= 0 else None


def _folder(source: Source) -> str:
    return str(source.path.parent) if source.path else ""


def _inside(folder: str, parent: str) -> bool:
    return folder == parent or folder.startswith((parent + "/", parent + "\\"))


# ---- runs ---------------------------------------------------------------------------------


def read(source: Source) -> Sequence[Run]:
    """One Run an object. Raises InputError for what is no serving result or contradicts itself."""
    if source.shape == "array" and source.keys == PYTORCH:
        raise source.fail("holds single metrics for a dashboard", hint="pass the result file beside it")
    if source.shape == "text" and is_sweep_table(source):
        raise source.fail("is a table of a sweep's runs", hint="pass the sweep's folder, with its run=N.json")
    runs = [_run(source, doc) for doc in _bench.docs(source)]
    if not runs:
        raise source.fail("holds no run", hint="pass the JSON that --save-result writes, not a console log")
    return runs


def _run(source: Source, doc: Doc) -> Run:
    _refuse(doc)
    stated, notes = aggregate.statistics(doc)
    load, load_notes = _load(doc)
    evidence: Requests | Aggregate
    streaming: bool | None = None
    if "ttfts" in doc:
        evidence, more = detailed.requests(doc)
        counts, tokens = tables.counts(evidence), tables.output_total(evidence)
        streaming, unsuitable, odd = bursts.judge(evidence)
        lines, doubtful = detailed.against_totals(doc, counts, tokens)
        more += [*lines, *odd]
        unsuitable = doubtful | unsuitable
    else:
        counts, more = aggregate.counts(doc)
        evidence, tokens = aggregate.evidence(doc, stated, counts), doc.number("total_output_tokens")
        unsuitable = aggregate.unsuitable(doc, stated, evidence) if counts.completed else {}
        unsuitable |= _bench.unsent(doc.count("num_prompts") or 0, counts.attempted)
        streaming = False if bursts.NOT_STREAMED in unsuitable.values() else None
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="vllm detailed" if isinstance(evidence, Requests) else "vllm aggregate",
        tool=NAME,
        evidence=evidence,
        counts=counts,
        tool_version=_first(doc, "vllm_version", "tool_version", "version"),
        model=doc.text("model_id"),
        hardware=_first(doc, "hardware", "gpu"),
        load=load,
        duration_s=_bench.duration(doc),
        date=_bench.date(doc),
        total_output_tokens=tokens,
        streaming=streaming,
        tokenizer=doc.text("tokenizer_id"),
        definitions=_definitions(doc),
        tool_reported=_bench.reported(doc, stated),
        unsuitable=unsuitable,
        notes=(
            *notes,
            *load_notes,
            *more,
            *_bench.goodput_note(doc, counts.completed, "request_goodput", "request_goodput:"),  # up to 0.8
            *_queue_note(doc, load),
        ),
    )


def _definitions(doc: Doc) -> dict[str, str]:
    rebuilt = "ttfts" in doc and "latencies" not in doc
    return {**DEFINITIONS, "e2e": _REBUILT} if rebuilt else dict(DEFINITIONS)


def _refuse(doc: Doc) -> None:
    """What vLLM writes that is no measured serving run. Raises InputError."""
    keys = doc.fields.keys()
    if keys >= FAILURE:
        number, kind, error = (doc.text(key) for key in ("run_number", "error_type", "error"))
        why = f"run {number} of the sweep failed: {kind}: {error}"
        raise doc.source.fail(why, doc.at, "repeat the run, or remove the file if the run must not count")
    for others, what in OTHERS:
        if keys >= others:
            raise doc.source.fail(what, doc.at, _SERVE)
    if "run_number" in doc and (doc.number("run_number") or 0) < 0:
        raise doc.source.fail("is the warm-up of a sweep", doc.at, "pass its run=N.json files")
    if "completed" in doc and "total_output_tokens" not in doc and "output_lens" not in doc:
        why = "counts no output tokens: a pooling, embedding or trimmed run has no TTFT or TPOT to judge"
        raise doc.source.fail(why, doc.at, "benchmark a generating endpoint and keep the whole file")


def _first(doc: Doc, *keys: str) -> str | None:
    return next((text for key in keys if (text := doc.text(key))), None)


def _load(doc: Doc) -> tuple[Load | None, list[str]]:
    if doc.any("request_rate") is None:
        return None, []
    if doc.text("ramp_up_strategy"):
        ends = f"{doc.text('ramp_up_start_rps')} to {doc.text('ramp_up_end_rps')} req/s"
        return Load(burst=True), [f"the request rate ramps up from {ends}: no single load point"]
    return _bench.load(doc)


# ---- notes --------------------------------------------------------------------------------


def _queue_note(doc: Doc, load: Load | None) -> list[str]:
    """An open loop that a client cap turned into a closed one: the wait is in no latency."""
    waits_s = doc.floats("queue_times")
    if load is None or load.request_rate is None or load.cap is None or waits_s is None or not len(waits_s):
        return []
    if (wait_s := float(np.nanmean(waits_s))) < _QUEUED_S:
        return []
    return [
        f"requests waited {wait_s:.3g} s on average for the client's cap of {load.cap} before they were "
        "sent; TTFT and E2E do not contain that, and the server did not see the stated rate"
    ]
