"""An object of vLLM's: rows (--save-detailed), or statistics with what rows it kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from ...model import Aggregate, Bools, Counts, Doubt, Floats, Load, Requests, Summary, Why
from .. import bench_serving as _bench
from ..source import Doc, Source
from ..told import Told
from . import FAILURE, NAME, OTHERS, PYTORCH, is_sweep_table

_QUEUED_S = 0.01  # a mean wait for the client cap worth telling
_QUEUED = (
    "requests waited {:.3g} s on average for the client's cap of {} before they were sent; TTFT and E2E do"
    " not contain that, and the server did not see the stated rate"
)
_DENSE = 1001  # order statistics of E2E kept from `latencies`
_HAIR = 1e-9  # percent
_SHOWN = (50.0, 90.0, 95.0, 99.0, 99.9)  # percentiles people look at, as the tool would state them
_DETAIL = "save per-request rows with --save-result --save-detailed"
_NAME_IT = "name it in --percentile-metrics, or use --save-detailed"
_SERVE = "measure with `vllm bench serve --save-result --save-detailed`"
_REBUILT = "TTFT + sum of the gaps (the file has no `latencies`); the tool's own also waits for usage"


def decode(source: Source) -> Iterator[Told]:
    """A Told an object. Raises InputError for what is no serving result or contradicts itself."""
    if source.shape == "array" and source.keys == PYTORCH:
        raise source.fail("holds single metrics for a dashboard", hint="pass the result file beside it")
    if source.shape == "text" and is_sweep_table(source):
        raise source.fail("is a table of a sweep's runs", hint="pass the sweep's folder, with its run=N.json")
    for doc in _bench.docs(source, "the JSON that --save-result writes, not a console log"):
        _refuse(doc)
        yield _told(doc)


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


def _told(doc: Doc) -> Told:
    named = _bench.statistics(doc, "_ms")
    e2e, notes = named.get("e2e", {}), []
    # benchmark_serving.py 0.6.3, which knew no burstiness, wrote each in the other's place.
    if "best_of" in doc and "burstiness" not in doc and {"mean", "median"} <= e2e.keys():
        e2e["mean"], e2e["median"] = e2e["median"], e2e["mean"]
        notes.append("mean and median E2E are swapped in files of vLLM 0.6: swapped back")
    stated = _bench.summaries(named, 1000)
    told = (
        _detailed(doc, stated, notes) if "ttfts" in doc or "itls" in doc else _aggregate(doc, stated, notes)
    )
    told = replace(
        told,
        version=_first(doc, "vllm_version", "tool_version", "version"),
        hardware=_first(doc, "hardware", "gpu"),
        tokenizer=doc.text("tokenizer_id"),
        percentiles_with=_NAME_IT,
        stream_with="measure a streaming endpoint, with ttft in --percentile-metrics",
    )
    if doc.text("ramp_up_strategy"):
        ends = f"{doc.text('ramp_up_start_rps')} to {doc.text('ramp_up_end_rps')} req/s"
        note = f"the request rate ramps up from {ends}: no single load point"
        told = replace(told, load=Load(burst=True), notes=(*told.notes, note))
    wait_s = _wait_s(doc, told.load)
    if wait_s < _QUEUED_S or told.load is None:
        return told
    note = _QUEUED.format(wait_s, told.load.cap)
    # Of rows evaluate holds the wait against the policy's bound.
    doubt = (Doubt(Why.WAITED, ("ttft", "e2e"), note),) if isinstance(told.evidence, Aggregate) else ()
    return replace(told, notes=(*told.notes, note), doubts=(*told.doubts, *doubt))


def _first(doc: Doc, *keys: str) -> str | None:
    return next((text for key in keys if (text := doc.text(key))), None)


# ---- rows ---------------------------------------------------------------------------------


def _detailed(doc: Doc, stated: dict[str, Summary], notes: list[str]) -> Told:
    rows = _bench.rows(doc, "latencies", _DETAIL)
    table = replace(
        rows.table,
        queue_s=_if_whole(doc, "queue_times", len(rows.table)),
        server_queue_s=_if_whole(doc, "server_queue_times", len(rows.table)),
        server_ttft_s=_if_whole(doc, "server_ttfts", len(rows.table)),
    )
    notes = [*notes, *rows.notes, *_frames_note(rows.facts["pieces"], table)]
    definitions = {} if "latencies" in doc else {"e2e": _REBUILT}
    return _bench.statement(doc, NAME, table, stated, definitions=definitions, **rows.facts, notes=notes)


def _if_whole(doc: Doc, key: str, n: int) -> Floats | None:
    """A column that explains and judges nothing: one that does not fit is no reason to refuse the file."""
    column = doc.floats(key)
    return column if column is not None and len(column) == n and np.isfinite(column).any() else None


def _frames_note(pieces: Floats | None, table: Requests) -> list[str]:
    if pieces is None or table.output_tokens is None or (pieces == table.output_tokens + 2).mean() <= 0.5:
        return []
    return ["gaps hold the role and finish chunks (vLLM <= 0.27 chat): ITL is a little low, TPOT not"]


# ---- statistics ---------------------------------------------------------------------------


def _aggregate(doc: Doc, stated: dict[str, Summary], notes: list[str]) -> Told:
    counts, more = _counts(doc)
    evidence = _bench.aggregate(stated, counts.completed, "--save-detailed")
    latencies = doc.floats("latencies")  # vLLM >= 0.30 leaves them in
    if latencies is not None and counts.completed:
        _bench.same_length(doc, {"latencies": len(latencies), "completed + failed": counts.attempted})
        values = latencies[latencies > 0]  # a failed request is a bare 0.0
        if len(values) != counts.completed:
            why = f"contradicts itself: {len(values)} latencies, but {counts.completed} completed"
            raise doc.source.fail(why, f"{doc.at}.latencies", _bench.WHOLE)
        evidence = replace(evidence, summaries={**evidence.summaries, "e2e": _dense(values)})
    tokens = doc.floats("output_lens")
    counts, silent = _silent(doc, tokens, counts)
    facts = {
        "counts": counts,
        "asked": _bench.asked(doc, counts.attempted),
        "output_tokens": doc.number("total_output_tokens") if tokens is None else float(np.nansum(tokens)),
        "notes": (*notes, *more, *silent),
    }
    return _bench.statement(doc, NAME, evidence, stated, **facts)


def _counts(doc: Doc) -> tuple[Counts, list[str]]:
    """Counts as stated, with notes. Raises InputError when how many failed cannot be known."""
    completed, failed = doc.count("completed"), doc.count("failed")
    if completed is None or failed is None:
        _, counts, notes = _bench.counts_without_failed(doc)
        return counts, notes
    return Counts(completed + failed, completed, failed), []


def _silent(doc: Doc, tokens: Floats | None, counts: Counts) -> tuple[Counts, list[str]]:
    """Completed requests that arrays left in the file show to have an error or no token are failed.

    Where none has a token, `output_tokens` of 0 says so: the endpoint may make none.
    """
    errors = doc.get("errors", list[str | None])
    kept: dict[str, Bools] = {}
    if tokens is not None and (tokens > 0).any():
        kept["output_lens"] = ~(tokens > 0)
    if errors:
        kept["errors"] = np.array([bool(error) for error in errors], dtype=np.bool_)
    if not kept:
        return counts, []
    _bench.same_length(doc, {**{k: len(c) for k, c in kept.items()}, "completed + failed": counts.attempted})
    completed = min(counts.completed, counts.attempted - int(np.logical_or.reduce([*kept.values()]).sum()))
    if completed == counts.completed:
        return counts, []
    note = f"the tool counts {counts.completed} completed, slo-gate {completed}: others have no token"
    return Counts(counts.attempted, completed, counts.attempted - completed), [note]


def _dense(values: Floats) -> Summary:
    """Order statistics as linear percentiles, so that a bound on E2E can be counted, not only looked up.

    The value of rank k stands a hair below and above its percent: which side of a bound it is on then
    says exactly how many values are, whatever the rounding of the percent.
    """
    ordered = np.sort(values)
    last = len(values) - 1
    ranks = np.unique(np.linspace(0, last, min(len(values), _DENSE)).round().astype(np.int64))
    percents = 100 * ranks / max(last, 1)
    around = np.clip(np.concatenate([percents - _HAIR, percents + _HAIR]), 0, 100)
    at = np.concatenate([around, _SHOWN])
    points = np.concatenate([ordered[ranks], ordered[ranks], np.percentile(values, _SHOWN)])
    pairs = sorted(zip(at.tolist(), points.tolist(), strict=True))
    return Summary(tuple(pairs), float(values.mean()), float(ordered[0]), float(ordered[-1]), len(values))


def _wait_s(doc: Doc, load: Load | None) -> float:
    """Mean wait for the client's cap, which turns an open loop into a closed one, in seconds."""
    waits_s = doc.floats("queue_times")
    if load is None or load.request_rate is None or load.cap is None or waits_s is None:
        return 0.0
    known = waits_s[np.isfinite(waits_s)]
    return float(known.mean()) if len(known) else 0.0


# ---- which files of a sweep hold the same runs --------------------------------------------


def companions(sources: Sequence[Source], /) -> Mapping[Source, str]:
    """In a sweep's folder: warm-ups, and summaries whose runs are there one by one."""
    runs = {(_folder(s), number): s for s in sources if (number := _run_number(s)) is not None}
    covered: dict[Source, str] = {}
    for source in sources:
        here = {number: s for (folder, number), s in runs.items() if folder == _folder(source)}
        if source.shape == "array" and source.keys == PYTORCH:
            covered[source] = "the same metrics once more, for the PyTorch benchmark dashboard"
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
