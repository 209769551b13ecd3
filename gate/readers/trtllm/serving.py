"""benchmark_serving.py: one JSON object, arrays in seconds (--save-detailed), statistics in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...model import Aggregate, Bools, Counts, Floats, Requests, Run
from .. import bench_serving as _bench
from .. import bursts, tables
from ..source import Doc, Source
from . import DEFINITIONS

_DETAIL = "save per-request rows with --save-result --save-detailed"
_NEVER_S = -1.0  # TTFT of every request under --non-streaming
_NOT_STREAMED = (
    "the run was not streamed (--non-streaming writes a TTFT of -1 s, and a TPOT that contains it); "
    "run it without --non-streaming"
)
_NEVER = dict.fromkeys(("ttft", "tpot", "itl"), _NOT_STREAMED)
_ABSENT = "the file states no percentile of {}: name it in --percentile-metrics, or use --save-detailed"


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """What the object's evidence is, and what must be said of it."""

    evidence: Requests | Aggregate
    counts: Counts
    tokens: float | None
    streaming: bool | None
    unsuitable: dict[str, str]
    notes: list[str]
    longest_s: float = 0.0  # E2E, 0 where unknown


def run(source: Source, doc: Doc) -> Run:
    """The run of one object. Raises InputError where it contradicts itself."""
    stated = _bench.statistics(doc, "_ms", 1000, missing_s=_NEVER_S)
    found = _detailed(doc) if "ttfts" in doc or "e2els" in doc else _aggregate(doc, stated)
    if never := "ttft" not in stated and doc.number("mean_ttft_ms") == _NEVER_S * 1000:
        stated = {"e2e": stated.get("e2e", {})}  # the tool's TPOT contains the -1 s
        found = replace(found, unsuitable={**found.unsuitable, **_NEVER})
    load, load_notes = _bench.load(doc)
    duration_s = _bench.duration(doc)
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="trtllm detailed" if isinstance(found.evidence, Requests) else "trtllm aggregate",
        tool="trtllm",
        evidence=found.evidence,
        counts=found.counts,
        model=doc.text("model_id"),
        hardware=doc.text("hardware") or doc.text("gpu"),
        load=load,
        duration_s=duration_s,
        date=_bench.date(doc),
        total_output_tokens=found.tokens,
        streaming=False if never else found.streaming,
        definitions=DEFINITIONS,
        tool_reported=_bench.reported(doc, stated),
        unsuitable=found.unsuitable,
        notes=(
            *load_notes,
            *found.notes,
            *_bench.pace_notes(load, found.counts, duration_s, found.longest_s),
            *_bench.goodput_note(doc, found.counts.completed, "request_goodput:", "request_goodput"),
        ),
    )


def _aggregate(doc: Doc, stated: _bench.Stated) -> _Found:
    counts, notes = _counts(doc)
    evidence = _bench.aggregate(doc, stated, counts.completed, "--save-detailed")
    unsuitable = _bench.unsuitable(stated, evidence, _ABSENT) if counts.completed else {}
    streaming = False if bursts.NOT_STREAMED in unsuitable.values() else None
    tokens = doc.number("total_output_tokens")
    if tokens and tokens == counts.completed:
        unsuitable |= dict.fromkeys(("tpot", "itl"), _bench.ONE_TOKEN)
    return _Found(evidence, counts, tokens, streaming, unsuitable, notes)


def _detailed(doc: Doc) -> _Found:
    """Rows in order of issue. A failed one may have a real TTFT: only its error and its tokens say so."""
    arrays = _bench.columns(doc, ("ttfts", "output_lens", "e2els", "input_lens"), 3, _DETAIL)
    ttft_s, tokens, e2e_s = arrays["ttfts"], arrays["output_lens"], arrays["e2els"]
    assert ttft_s is not None  # columns() refuses a file without them
    assert tokens is not None
    assert e2e_s is not None
    errors = _bench.messages(doc)
    if errors is None:
        raise doc.source.fail("has no `errors`, so failures are unknown", doc.at, _DETAIL)
    lengths = {name: len(column) for name, column in arrays.items() if column is not None}
    _bench.same_length(doc, {**lengths, "errors": len(errors)})
    wrong = np.array([bool(text) for text in errors], dtype=np.bool_)
    first_s = _first(ttft_s, wrong)
    gaps = None
    notes: list[str] = []
    if doc.source.gaps and "itls" in doc:
        decoded = _bench.decode_gaps(doc, ttft_s, tokens)
        gaps, notes = decoded.gaps, [*decoded.notes]
    rows = tables.requests(
        errors=wrong,
        ttft_s=first_s,
        e2e_s=e2e_s,
        output_tokens=tokens,
        input_tokens=arrays["input_lens"],
        gaps=gaps,
        order="submission",
    )
    streaming, unsuitable, odd = bursts.judge(rows) if first_s is not None else (False, _NEVER, ())
    counts, total = tables.counts(rows), tables.output_total(rows)
    notes += [*tables.failure_note(rows, errors), *odd, *_bench.against_totals(doc, counts, total)]
    longest_s = float(np.nanmax(rows.e2e_s)) if rows.e2e_s is not None else 0.0
    asked = doc.count("num_prompts") or 0
    if asked > counts.attempted:
        notes.append(f"{asked} prompts were asked for, {counts.attempted} were sent")
        unsuitable = {**unsuitable, **_bench.unsent(asked, counts.attempted)}
    return _Found(rows, counts, total, streaming, unsuitable, notes, longest_s)


def _first(ttft_s: Floats, wrong: Bools) -> Floats | None:
    """TTFT, None where it was never taken: -1 s in every row without an error."""
    if (~wrong).any() and (ttft_s[~wrong] == _NEVER_S).all():
        return None
    return ttft_s


def _counts(doc: Doc) -> tuple[Counts, list[str]]:
    completed, asked = doc.count("completed"), doc.count("num_prompts")
    if completed is None or asked is None:
        why = "does not say how many requests were sent and completed, so no share of them is known"
        raise doc.source.fail(why, doc.at, "keep `completed` and `num_prompts` in the file")
    if asked < completed:
        why = f"contradicts itself: {completed} requests completed of {asked}"
        raise doc.source.fail(why, f"{doc.at}.completed", _bench.WHOLE)
    lost = asked - completed
    note = f"the file has no `failed`: {lost} of {asked} prompts did not complete and count as failed"
    return Counts(asked, completed, lost), [note] if lost else []
