"""A line of SGLang's file, with arrays or without, or the summary that Together nests, as a Told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec.structs import replace

from ...model import Counts, Doubt, Floats, Requests, Status, Summary, Why
from .. import bench_serving as _bench, clocks, tables
from ..loads import load
from ..source import Doc, Source
from ..told import Told
from . import NAME

_DETAIL = "save per-request rows with --output-details"
_NAME_IT = "use --output-details of a current version"
_FEW = 0.01  # share of odd responses that cannot decide a P99
_MOST = 0.95

_REBUILT = "E2E is TTFT + sum of the gaps: the file keeps none, and the tool's own runs to the stream's end"
_BLIND = (
    "the file says neither how many requests were sent nor how many failed; attempted is taken as the "
    "{} completed; use --output-details, or --goodput, which states the share of all sent"
)
_NO_COUNT = (
    "output tokens are the requested length, not a count: {:.0f} are claimed, the texts have {:.0f}, so "
    "TPOT is too low; make the server send usage (--extra-request-body with stream_options.include_usage)"
)
_CUT_SHORT = (
    "{:.1%} of the responses came in fewer chunks than the tokens they are credited with, on a server that "
    "sends one a chunk: cut short, and their TPOT is too low; make the server send usage"
)
_SHORT = (
    "the tool's own E2E is {:.1%} longer on average than TTFT + sum of the gaps, so E2E and TPOT rebuilt "
    "from the file are too low; measure with a tool that keeps the E2E of a request"
)


def decode(source: Source) -> Iterator[Told]:
    """A Told a line. Raises InputError for what is no serving result or contradicts itself."""
    for doc in _bench.docs(source, "the JSON lines that --output-file writes, not a log"):
        yield _wrapped(doc) if "metrics" in doc else _line(doc)


def _line(doc: Doc) -> Told:
    stated = _bench.summaries(_bench.statistics(doc, "_ms"), 1000)
    # Rows of embeddings have a TTFT of 0, no gap and the requested length: only the statistics hold E2E.
    embeds = "embedding" in (doc.text("backend") or "")
    arrays = not embeds and doc.fields.keys() & {"ttfts", "itls", "output_lens", "errors"}
    told = _detailed(doc, stated) if arrays else _aggregate(doc, stated, embeds)
    share, bounds = doc.number("slo_attainment"), doc.get("goodput_slos_ms", dict[str, float])
    if share is not None and bounds:
        shown = ", ".join(f"{name} {value:g} ms" for name, value in bounds.items())
        told = replace(told, goodput=f"{share:.1%} of all sent ({shown}), with single-token TPOT as 0")
    server = doc.mapping("server_info")
    model = server.get("model_path")
    return replace(
        told,
        model=model if isinstance(model, str) else None,
        percentiles_with=_NAME_IT,
        stream_with="run without --disable-stream",
        notes=(*told.notes, *_speculation_note(doc)),
    )


def _speculation_note(doc: Doc) -> list[str]:
    if not doc.number("accept_length") or not (doc.text("backend") or "").startswith("sglang-oai"):
        return []
    return ["speculative decoding: the tool's ITL statistics are per re-tokenised token, `itls` per chunk"]


# ---- per-request arrays -------------------------------------------------------------------


def _detailed(doc: Doc, stated: Mapping[str, Summary]) -> Told:
    rows = _bench.rows(doc, "", _DETAIL)
    later, notes = _e2e(stated, rows.table)
    doubts, tokens, more = _tokens(doc, rows.table, rows.facts["pieces"])
    facts = {**rows.facts, "asked_with": "", "output_tokens": tokens, "doubts": (*later, *doubts)}
    return _bench.statement(doc, NAME, rows.table, stated, **facts, notes=(*rows.notes, *notes, *more))


def _e2e(stated: Mapping[str, Summary], rows: Requests) -> tuple[list[Doubt], list[str]]:
    """How far the tool's own E2E, which ends with the stream, lies above the rebuilt one."""
    done, mean_s = rows.status == Status.COMPLETED, stated.get("e2e", Summary()).mean
    if rows.e2e_s is None or not done.any() or not mean_s:
        return [], [_REBUILT]
    rebuilt_s = float(rows.e2e_s[done].mean())
    more = mean_s / rebuilt_s - 1
    doubts = [Doubt(Why.DEFINITION, ("e2e", "tpot"), _SHORT.format(more))] if more > tables.MISMATCH else []
    return doubts, [f"{_REBUILT}, {(mean_s - rebuilt_s) * 1000:.3g} ms later on average"]


def _tokens(doc: Doc, rows: Requests, pieces: Floats) -> tuple[list[Doubt], float | None, list[str]]:
    """Whether `output_lens` are counts, against the texts and the chunks; the total that is right."""
    done, total = rows.status == Status.COMPLETED, tables.output_total(rows)
    claimed, texts = doc.number("total_output_tokens") or total, _retokenized(doc)
    if rows.output_tokens is None or not done.any() or claimed is None:
        return [], claimed, []
    tokens, chunks = rows.output_tokens[done], pieces[done]
    one_each = float((tokens == chunks).mean())
    if texts is not None and claimed - texts > tables.MISMATCH * claimed and one_each < _MOST:
        return *_requested(claimed, texts), [_counted(claimed, texts)]
    notes = _text_note(claimed, texts)
    short = float((chunks < (1 - tables.MISMATCH) * tokens).mean())
    if one_each >= 0.5 and short > _FEW:
        return [Doubt(Why.CUT_ROWS, ("tpot",), _CUT_SHORT.format(short))], claimed, notes
    return [], claimed, notes


def _requested(claimed: float, texts: float) -> tuple[list[Doubt], float]:
    return [Doubt(Why.TOKENS_DISAGREE, ("tpot",), _NO_COUNT.format(claimed, texts))], texts


def _retokenized(doc: Doc) -> float | None:
    """Tokens of the texts by the client's tokenizer; 0 is what a client without one writes."""
    return doc.number("total_output_tokens_retokenized") or None


def _text_note(claimed: float, texts: float | None) -> list[str]:
    if texts is None or abs(claimed - texts) <= tables.MISMATCH * claimed:
        return []
    return [f"output tokens: the file counts {claimed:.0f}, its texts have {texts:.0f}; the first is used"]


def _counted(claimed: float, texts: float) -> str:
    return (
        f"output tokens: {claimed:.0f} were requested, the texts have {texts:.0f}; throughput uses the texts"
    )


# ---- percentiles only ---------------------------------------------------------------------


def _aggregate(doc: Doc, stated: Mapping[str, Summary], embeds: bool) -> Told:
    """A line without arrays: failures cannot be seen unless --goodput says of how many."""
    completed = _completed(doc, "completed")
    errors = doc.get("errors", list[str | None]) or []
    sent = len(errors) if errors else _sent(doc, completed)
    doubts = [] if sent is not None else [_blind(completed)]
    attempted = completed if sent is None else sent
    claimed, texts, notes = doc.number("total_output_tokens"), _retokenized(doc), []
    tokens = 0.0 if embeds else claimed
    if claimed and not embeds:
        notes = _text_note(claimed, texts)
        if texts and claimed != completed and claimed - texts > tables.MISMATCH * claimed:
            (doubt,), tokens = _requested(claimed, texts)
            doubts.append(doubt)
            notes = [_counted(claimed, texts)]
    return _bench.statement(
        doc,
        NAME,
        _bench.aggregate(stated, completed, "--output-details"),
        stated,
        counts=Counts(attempted, completed, attempted - completed),
        output_tokens=tokens,
        doubts=tuple(doubts),
        notes=tuple(notes),
    )


def _completed(doc: Doc, key: str) -> int:
    completed = doc.count(key)
    if completed is None:
        raise doc.source.fail("does not say how many requests completed", doc.at, _bench.WHOLE)
    return completed


def _blind(completed: int) -> Doubt:
    return Doubt(Why.COUNTS_UNKNOWN, ("error_rate", "attempted"), _BLIND.format(completed))


def _sent(doc: Doc, completed: int) -> int | None:
    """Requests sent, where --goodput states good/s and the good share of all sent.

    Raises InputError when that is fewer than completed.
    """
    good_per_s, share, seconds = (doc.number(k) for k in ("request_goodput", "slo_attainment", "duration"))
    if not good_per_s or not share or not seconds:
        return None
    sent = good_per_s * seconds / share
    if not np.isfinite(sent) or abs(sent - round(sent)) > 1e-3:
        return None
    if round(sent) < completed:
        why = f"contradicts itself: {completed} completed of {sent:.0f} sent (by slo_attainment)"
        raise doc.source.fail(why, f"{doc.at}.slo_attainment", _bench.WHOLE)
    return round(sent)


# ---- the wrapper --------------------------------------------------------------------------


def _wrapped(doc: Doc) -> Told:
    """A Together baseline: provenance around a summary of a run. Raises InputError without a count."""
    metrics = doc.part("metrics")
    if metrics is None:
        raise doc.source.fail("has no `metrics`", doc.at, _bench.WHOLE)
    completed = _completed(metrics, "successful_requests")
    stated = _bench.summaries(_bench.statistics(metrics, "_ms"), 1000)
    per_s, tokens_per_s = (metrics.number(k) for k in ("request_throughput", "output_token_throughput"))
    duration_s = completed / per_s if per_s and per_s > 0 and completed else None
    return Told(
        format="sglang summary (Together baseline)",
        evidence=_bench.aggregate(stated, completed, "the per-request file of the run"),
        retries=0,
        counts=Counts(completed, completed, 0),
        model=doc.text("model"),
        hardware=_hardware(doc),
        load=load(slots=doc.count("conc")),
        duration_s=duration_s,
        date=clocks.day_of(doc.text("ts")),
        output_tokens=tokens_per_s * duration_s if tokens_per_s and duration_s else None,
        definitions={"e2e": "request sent to the end of the stream"},
        stated=_bench.without_zeros(stated),
        method=_bench.METHOD,
        hides_stream_errors=True,
        doubts=(_blind(completed),),
        notes=(f"a {doc.text('framework')} summary kept as a baseline: the run's own file has more",),
    )


def _hardware(doc: Doc) -> str | None:
    gpus = doc.mapping("gpu").get("n_gpus")
    name = doc.text("hw")
    return f"{gpus}x{name}" if isinstance(gpus, int) and gpus > 0 and name else name
