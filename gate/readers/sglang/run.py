"""A line of SGLang's file, with arrays or without, or the summary that Together nests, as a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from ...model import Aggregate, Counts, Floats, Load, Requests, Run, Status
from .. import bench_serving as _bench
from .. import bursts, tables
from ..source import Doc, Source
from . import DEFINITIONS, NAME

_DETAIL = "save per-request rows with --output-details"
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
_ABSENT = "the file states no percentile of {}; use --output-details of a current version"


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """What a line's evidence is, and what must be said of it."""

    evidence: Requests | Aggregate
    counts: Counts
    tokens: float | None
    unsuitable: dict[str, str] = field(default_factory=dict)
    streaming: bool | None = None
    notes: tuple[str, ...] = ()


# ---- runs ---------------------------------------------------------------------------------


def read(source: Source) -> Sequence[Run]:
    """One Run a line. Raises InputError for what is no serving result or contradicts itself."""
    runs = [_wrapped(source, doc) if "metrics" in doc else _run(source, doc) for doc in source.docs()]
    if not runs:
        raise source.fail("holds no run", hint="pass the JSON lines that --output-file writes, not a log")
    return runs


def _run(source: Source, doc: Doc) -> Run:
    stated = _bench.statistics(doc, "_ms", 1000)
    found = _detailed(doc, stated) if "ttfts" in doc else _aggregate(doc, stated)
    load, load_notes = _bench.load(doc)
    duration_s = _bench.duration(doc)
    longest_s = 0.0
    if isinstance(found.evidence, Requests) and found.evidence.e2e_s is not None:
        longest_s = float(np.nanmax(found.evidence.e2e_s))
    server = doc.get("server_info", dict[str, msgspec.Raw]) if _is_object(doc, "server_info") else None
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="sglang detailed" if isinstance(found.evidence, Requests) else "sglang aggregate",
        tool=NAME,
        evidence=found.evidence,
        counts=found.counts,
        model=Doc(source, server, f"{doc.at}.server_info").text("model_path") if server else None,
        load=load,
        duration_s=duration_s,
        total_output_tokens=found.tokens,
        streaming=found.streaming,
        definitions=DEFINITIONS,
        tool_reported=_bench.reported(doc, stated),
        unsuitable=found.unsuitable,
        notes=(
            *load_notes,
            *found.notes,
            *_bench.pace_notes(load, found.counts, duration_s, longest_s),
            *_goodput_note(doc, found.counts),
            *_speculation_note(doc),
        ),
    )


def _is_object(doc: Doc, key: str) -> bool:
    return key in doc and bytes(doc.fields[key])[:1] == b"{"


# ---- per-request arrays -------------------------------------------------------------------


def _detailed(doc: Doc, stated: _bench.Stated) -> _Found:
    """Rows in order of submission; E2E is rebuilt. Raises InputError for arrays that do not fit together."""
    arrays = _bench.columns(doc, ("ttfts", "output_lens", "input_lens"), 2, _DETAIL)
    ttft_s, tokens, inputs = arrays["ttfts"], arrays["output_lens"], arrays["input_lens"]
    assert ttft_s is not None  # columns() refuses a file without them
    assert tokens is not None
    if "itls" not in doc:
        raise doc.source.fail("has no `itls`, so E2E is unknown", doc.at, _DETAIL)
    errors = _bench.messages(doc)
    if errors is None:
        raise doc.source.fail("has no `errors`, so failures are unknown", doc.at, _DETAIL)
    lengths = {name: len(column) for name, column in arrays.items() if column is not None}
    _bench.same_length(doc, {**lengths, "errors": len(errors)})
    decoded = _bench.decode_gaps(doc, ttft_s, tokens)
    rows = tables.requests(
        errors=np.array([bool(text) for text in errors], dtype=np.bool_),
        ttft_s=ttft_s,
        e2e_s=ttft_s + decoded.sums_s,
        output_tokens=tokens,
        input_tokens=inputs,
        gaps=decoded.gaps,
        order="submission",
    )
    counts, total = tables.counts(rows), tables.output_total(rows)
    streaming, unsuitable, odd = bursts.judge(rows)
    notes = [*decoded.notes, *tables.failure_note(rows, errors), *odd]
    notes += _bench.against_totals(doc, counts, total)
    found = _Found(rows, counts, total, {}, streaming, tuple(notes))
    for more in (_e2e(doc, stated, rows), _tokens(doc, found, decoded.chunks)):
        found = replace(
            found,
            tokens=more.tokens if more.tokens is not None else found.tokens,
            unsuitable={**more.unsuitable, **found.unsuitable},
            notes=(*found.notes, *more.notes),
        )
    return replace(found, unsuitable={**found.unsuitable, **unsuitable})


def _e2e(doc: Doc, stated: _bench.Stated, rows: Requests) -> _Found:
    """How far the tool's own E2E, which ends with the stream, lies above the rebuilt one."""
    empty = _Found(rows, tables.counts(rows), None, notes=(_REBUILT,))
    done = rows.status == Status.COMPLETED
    said = stated.get("e2e", {}).get("mean")
    if rows.e2e_s is None or not done.any() or not said:
        return empty
    mean_s = float(rows.e2e_s[done].mean())
    more = said / mean_s - 1
    note = f"{_REBUILT}, {(said - mean_s) * 1000:.3g} ms later on average"
    if more > tables.MISMATCH:
        return replace(empty, unsuitable=dict.fromkeys(("e2e", "tpot"), _SHORT.format(more)), notes=(note,))
    return replace(empty, notes=(note,))


def _tokens(doc: Doc, found: _Found, chunks: Floats) -> _Found:
    """Whether `output_lens` are counts: against the texts, and against the chunks."""
    rows = found.evidence
    assert isinstance(rows, Requests)
    empty = replace(found, tokens=None, unsuitable={}, notes=())
    done = rows.status == Status.COMPLETED
    if rows.output_tokens is None or not done.any() or found.tokens is None:
        return empty
    tokens, pieces = rows.output_tokens[done], chunks[done] + 1
    one_each = float((tokens == pieces).mean())
    claimed, seen = doc.number("total_output_tokens") or found.tokens, _retokenized(doc)
    if seen is not None and claimed - seen > tables.MISMATCH * claimed and one_each < _MOST:
        why = _NO_COUNT.format(claimed, seen)
        return replace(empty, tokens=seen, unsuitable={"tpot": why}, notes=(_counted(claimed, seen),))
    notes = _text_note(claimed, seen)
    short = float((pieces < (1 - tables.MISMATCH) * tokens).mean())
    if one_each >= 0.5 and short > _FEW:
        return replace(empty, unsuitable={"tpot": _CUT_SHORT.format(short)}, notes=notes)
    return replace(empty, notes=notes)


def _retokenized(doc: Doc) -> float | None:
    """Tokens of the texts by the client's tokenizer; 0 is what a client without one writes."""
    return doc.number("total_output_tokens_retokenized") or None


def _text_note(claimed: float, seen: float | None) -> tuple[str, ...]:
    if seen is None or abs(claimed - seen) <= tables.MISMATCH * claimed:
        return ()
    return (f"output tokens: the file counts {claimed:.0f}, its texts have {seen:.0f}; the first is used",)


def _counted(claimed: float, seen: float) -> str:
    return (
        f"output tokens: {claimed:.0f} were requested, the texts have {seen:.0f}; throughput uses the texts"
    )


# ---- percentiles only ---------------------------------------------------------------------


def _aggregate(doc: Doc, stated: _bench.Stated) -> _Found:
    """A line without arrays: failures cannot be seen unless --goodput says of how many."""
    completed = doc.count("completed")
    if completed is None:
        raise doc.source.fail("does not say how many requests completed", doc.at, _bench.WHOLE)
    sent = _sent(doc, completed)
    counts = Counts(sent or completed, completed, (sent or completed) - completed)
    evidence = _bench.aggregate(doc, stated, completed, "--output-details")
    unsuitable = _bench.unsuitable(stated, evidence, _ABSENT) if completed else {}
    if sent is None:
        unsuitable |= dict.fromkeys(("error_rate", "attempted"), _BLIND.format(completed))
    claimed, seen = doc.number("total_output_tokens"), _retokenized(doc)
    tokens, notes = claimed, _text_note(claimed, seen) if claimed else ()
    if claimed == completed:
        unsuitable |= dict.fromkeys(("tpot", "itl"), _bench.ONE_TOKEN)
    elif claimed and seen and claimed - seen > tables.MISMATCH * claimed:
        unsuitable["tpot"] = _NO_COUNT.format(claimed, seen)
        tokens, notes = seen, (_counted(claimed, seen),)
    streaming = False if bursts.NOT_STREAMED in unsuitable.values() else None
    return _Found(evidence, counts, tokens, unsuitable, streaming, notes)


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


# ---- notes --------------------------------------------------------------------------------


def _goodput_note(doc: Doc, counts: Counts) -> list[str]:
    share, bounds = doc.number("slo_attainment"), doc.get("goodput_slos_ms", dict[str, float])
    if share is None or not bounds:
        return []
    named = ", ".join(f"{name} {value:g} ms" for name, value in bounds.items())
    return [
        f"the tool says goodput {share:.1%} of all sent ({named}), with single-token TPOT as 0; slo-gate "
        f"counts over its {counts.attempted} attempted by the policy's bounds"
    ]


def _speculation_note(doc: Doc) -> list[str]:
    if not doc.number("accept_length") or not (doc.text("backend") or "").startswith("sglang-oai"):
        return []
    return ["speculative decoding: the tool's ITL statistics are per re-tokenised token, `itls` per chunk"]


# ---- the wrapper --------------------------------------------------------------------------


def _wrapped(source: Source, doc: Doc) -> Run:
    """A Together baseline: provenance around a summary of a run. Raises InputError without a count."""
    inner = doc.get("metrics", dict[str, msgspec.Raw])
    if inner is None:
        raise source.fail("has no `metrics`", doc.at, _bench.WHOLE)
    metrics = Doc(source, inner, f"{doc.at}.metrics")
    completed = metrics.count("successful_requests")
    if completed is None:
        raise source.fail("does not say how many requests completed", metrics.at, _bench.WHOLE)
    stated = _bench.statistics(metrics, "_ms", 1000)
    evidence = _bench.aggregate(metrics, stated, completed, "the per-request file of the run")
    per_s, tokens_per_s = (metrics.number(k) for k in ("request_throughput", "output_token_throughput"))
    duration_s = completed / per_s if per_s and per_s > 0 and completed else None
    unsuitable = _bench.unsuitable(stated, evidence, _ABSENT) if completed else {}
    concurrency, day = doc.count("conc"), (doc.text("ts") or "")[:10]
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="sglang summary (Together baseline)",
        tool=NAME,
        evidence=evidence,
        counts=Counts(completed, completed, 0),
        model=doc.text("model"),
        hardware=_hardware(doc),
        load=Load(concurrency=concurrency) if concurrency else None,
        duration_s=duration_s,
        date=day if len(day) == 10 and day.count("-") == 2 else None,
        total_output_tokens=tokens_per_s * duration_s if tokens_per_s and duration_s else None,
        streaming=False if bursts.NOT_STREAMED in unsuitable.values() else None,
        definitions={**DEFINITIONS, "e2e": "request sent to the end of the stream"},
        tool_reported=_bench.reported(metrics, stated),
        unsuitable=unsuitable | dict.fromkeys(("error_rate", "attempted"), _BLIND.format(completed)),
        notes=(f"a {doc.text('framework')} summary kept as a baseline: the run's own file has more",),
    )


def _hardware(doc: Doc) -> str | None:
    gpus = doc.get("gpu", dict[str, msgspec.Raw]) if _is_object(doc, "gpu") else None
    number = Doc(doc.source, gpus, f"{doc.at}.gpu").count("n_gpus") if gpus else None
    name = doc.text("hw")
    return f"{number}x{name}" if number and name else name
