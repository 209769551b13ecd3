"""A run of LLMPerf, from its rows or from its summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from ... import units
from ...model import (
    Aggregate,
    Bools,
    Counts,
    Evidence,
    Requests,
    Run,
    Status,
)
from .. import bursts, tables
from ..source import Doc, Source
from . import DEFINITIONS, NAME, TITLE, sniff
from . import summary as _said

_ROWS = "_individual_responses.json"
_SAME = 1e-6  # relative; the summary is computed from the very rows

_NO_GAPS = (
    "LLMPerf records no gaps between chunks, and its inter_token_latency_s contains the TTFT;"
    " measure ITL with a tool that writes gaps, such as vllm bench serve --save-detailed"
)
_NO_TTFT = "this LLMPerf client does not stream (ttft_s is -1 in every row); use a streaming --llm-api"
_TOKENS = (
    "output tokens are counted by LLMPerf's own tokenizer, start token included, so TPOT is biased low;"
    " input tokens are the requested length, not a count"
)
_BLIND = (
    "LLMPerf at f1d6bed (December 2024) and later loses a failed request together with its worker, and"
    " --timeout ends a run early without a mark: failures may be missing here; compare {rows} rows"
    " with --max-num-completed-requests"
)

_UNSEEN = (
    "LLMPerf loses a failed request together with its worker, so rows without a failure do not show that"
    " none failed; measure with a tool that records failures, such as vllm bench serve"
)


class _Row(msgspec.Struct):
    error_code: float | str | bool | None
    ttft_s: tables.Cell
    end_to_end_latency_s: tables.Cell
    number_output_tokens: tables.Tokens
    number_input_tokens: tables.Tokens = None
    inter_token_latency_s: tables.Cell = None
    error_msg: str | None = None


def read(source: Source) -> Sequence[Run]:
    """The one run of the file. Raises InputError when it is broken, empty or contradicts itself."""
    if source.shape == "empty":
        raise source.fail("is empty", hint="run the benchmark again")
    if source.shape == "array":
        return (_read_rows(source),)
    if source.shape == "objects":
        raise source.fail("holds several JSON objects", hint=_said.AS_WRITTEN)
    return (_read_summary(source, source.doc),)


def companions(sources: Sequence[Source]) -> Mapping[Source, str]:
    """The summaries whose rows are among the files: same prefix, or the same numbers."""
    rows = [source for source in sources if source.shape == "array"]
    taken: dict[Source, str] = {}
    for source in sources:
        if source.shape != "object":
            continue
        for other in rows:
            stem = _stem(other, _ROWS)
            if stem is not None and _stem(source, _said.SUFFIX) == stem:
                taken[source] = f"its requests are in {other.name}"
            elif _same_run(source.doc, other):
                taken[source] = (
                    f"its requests are in {other.name}; only a pair named *{_ROWS} and *{_said.SUFFIX}"
                    " gives that file its model and concurrency"
                )
    return taken


# ---- rows ---------------------------------------------------------------------------------


def _read_rows(source: Source) -> Run:
    rows = source.array(_Row)
    if not rows:
        raise source.fail("holds no requests", hint="run the benchmark again")
    beside = _beside(source)
    if beside is not None:
        _check_pair(source, beside.doc, rows)
    facts = _said.facts(beside.doc if beside is not None else None)
    table, streams = _table(rows)
    counts = tables.counts(table)
    idle = _idle(table, facts)
    streaming, unsuitable, odd = bursts.judge(table)
    if not streams:
        streaming, unsuitable = False, dict.fromkeys(("ttft", "tpot"), _NO_TTFT)
    if _ok(rows).all():
        unsuitable["error_rate"] = _UNSEEN
    notes = (
        *tables.failure_note(table, _messages(rows)),
        *_disagreement(rows, counts),
        *((_BLIND.format(rows=len(rows)),) if _ok(rows).all() else ()),
        *idle,
        *_convention(table, rows),
        *odd,
        _TOKENS,
    )
    return _run(
        source,
        facts,
        "individual responses",
        table,
        counts,
        total=tables.output_total(table),
        streaming=streaming,
        unsuitable={**unsuitable, "itl": _NO_GAPS} | ({"attempted": idle[0]} if idle else {}),
        notes=notes,
    )


def _convention(table: Requests, rows: Sequence[_Row]) -> tuple[str, ...]:
    """Both conventions at the median: LLMPerf's per-token time, which contains the TTFT, and TPOT."""
    tpot_s, theirs_s = table.tpot_s, tables.column([row.inter_token_latency_s for row in rows])
    if tpot_s is None:
        return ()
    both = (table.status == Status.COMPLETED) & np.isfinite(tpot_s) & np.isfinite(theirs_s)
    if not both.any():
        return ()
    theirs, ours = (units.milliseconds(float(np.median(column[both]))) for column in (theirs_s, tpot_s))
    return (
        f"the tool's inter_token_latency_s is {theirs} at the median, because it contains the TTFT; "
        f"TPOT, the decode time per token after the first, is {ours}",
    )


def _table(rows: Sequence[_Row]) -> tuple[Requests, bool]:
    ttft_s = tables.column([row.ttft_s for row in rows])
    # The clients that do not stream (Vertex AI) write -1: no TTFT, which is not a failure.
    streams = not bool(np.all(ttft_s[_ok(rows)] == -1)) if _ok(rows).any() else True
    table = tables.requests(
        errors=~_ok(rows),
        ttft_s=ttft_s if streams else None,
        e2e_s=tables.column([row.end_to_end_latency_s for row in rows]),
        output_tokens=tables.column([row.number_output_tokens for row in rows]),
        input_tokens=tables.column([row.number_input_tokens for row in rows]),
        order="completion",
    )
    return table, streams


def _ok(rows: Sequence[_Row]) -> Bools:
    """By error_code alone: error rows have an empty error_msg and times that look perfect."""
    return np.array([row.error_code is None for row in rows], dtype=np.bool_)


def _messages(rows: Sequence[_Row]) -> list[str]:
    """One text a row; the same for all rows of one error_code, with the first message as example."""
    texts: dict[str, str] = {}
    for row in rows:
        if row.error_code is not None and _code(row.error_code) not in texts:
            message = " ".join((row.error_msg or "").split())[:50]
            shown = f' ("{message}")' if message else " (no message)"
            texts[_code(row.error_code)] = f"error_code {_code(row.error_code)}{shown}"
    return ["" if row.error_code is None else texts[_code(row.error_code)] for row in rows]


def _code(code: float | str | bool) -> str:
    return f"{code:g}" if isinstance(code, float) else str(code)


def _disagreement(rows: Sequence[_Row], counts: Counts) -> tuple[str, ...]:
    said = int(_ok(rows).sum())
    if said == counts.completed:
        return ()
    return (
        f"LLMPerf counts {said} completed, slo-gate {counts.completed}, because a row without a valid"
        " TTFT, E2E or output token is a failure",
    )


def _idle(table: Requests, facts: _said.Facts) -> tuple[str, ...]:
    """A note when most workers stood still, as they do once failures have killed some (f1d6bed)."""
    if facts.load is None or facts.load.concurrency is None or not facts.duration_s or table.e2e_s is None:
        return ()
    busy = float(np.nansum(np.maximum(table.e2e_s, 0.0))) / facts.duration_s
    if busy >= facts.load.concurrency / 2:
        return ()
    return (
        f"on average {busy:.1f} of {facts.load.concurrency} workers were busy: workers may have died with"
        " failed requests, or the client was the limit",
    )


# ---- summary ------------------------------------------------------------------------------


def _run(
    source: Source,
    facts: _said.Facts,
    kind: str,
    evidence: Evidence,
    counts: Counts,
    *,
    total: float | None,
    streaming: bool | None,
    unsuitable: Mapping[str, str],
    notes: tuple[str, ...],
) -> Run:
    return Run(
        input=source.name,
        sha256=source.sha256,
        format=f"{NAME} {kind}",
        tool=TITLE,
        evidence=evidence,
        counts=counts,
        tool_version=facts.tool_version,
        model=facts.model,
        hardware=facts.hardware,
        session=facts.session,
        load=facts.load,
        duration_s=facts.duration_s,
        total_output_tokens=total,
        streaming=streaming,
        definitions=DEFINITIONS,
        tool_reported=facts.reported,
        unsuitable=unsuitable,
        notes=notes + facts.notes,
    )


def _read_summary(source: Source, doc: Doc) -> Run:
    counts = _said.counts(doc)
    mean = doc.number("results_number_output_tokens_mean")
    rows_file = f"the *{_ROWS} that LLMPerf writes beside it"
    unsuitable = {"itl": _NO_GAPS, "tpot": f"LLMPerf's summary holds no TPOT; keep {rows_file}"}
    for metric in ("ttft", "e2e"):
        lowest = min((value for _, value in _said.percentiles(doc, metric)), default=1.0)
        if lowest <= 0:
            said = (
                f"the summary says {metric} {lowest:g} s, which no measurement gives; look into {rows_file}"
            )
            unsuitable[metric] = _NO_TTFT if (metric, lowest) == ("ttft", -1) else said
    measured = [metric for metric in ("ttft", "e2e") if metric not in unsuitable]
    return _run(
        source,
        _said.facts(doc),
        "summary",
        Aggregate({m: _said.summary(doc, m, counts.completed) for m in measured}, settled_by=rows_file),
        counts,
        total=None if mean is None else float(round(mean * counts.completed)),
        streaming=False if unsuitable.get("ttft") == _NO_TTFT else None,
        unsuitable=unsuitable,
        notes=(
            *_said.frequency_note(doc, counts),
            *(() if counts.failed else (_BLIND.format(rows=counts.attempted),)),
        ),
    )


# ---- which summary belongs to which rows --------------------------------------------------


def _stem(source: Source, suffix: str) -> str | None:
    """The path without `suffix` (and .gz); None where it does not end so."""
    name = str(source.path if source.path is not None else source.name).removesuffix(".gz")
    return name.removesuffix(suffix) if name.endswith(suffix) else None


def _beside(source: Source) -> Source | None:
    stem = _stem(source, _ROWS)
    if stem is None:
        return None
    summary = Path(stem).name + _said.SUFFIX
    found = source.beside(summary) or source.beside(summary + ".gz")
    return found if found is not None and sniff(found) else None


def _check_pair(source: Source, doc: Doc, rows: Sequence[_Row]) -> None:
    counts = _said.counts(doc)
    failed = len(rows) - int(_ok(rows).sum())
    if (counts.attempted, counts.failed) != (len(rows), failed) or not _same_mean(doc, rows):
        raise source.fail(
            f"contradicts {doc.source.name}: {len(rows)} rows with {failed} failed here, a summary of"
            f" {counts.attempted} with {counts.failed} failed, or of other latencies, there",
            hint="keep both files of the same run, or move the summary away",
        )


def _same_mean(doc: Doc, rows: Sequence[_Row]) -> bool:
    said = doc.number(f"results_{_said.FIELDS['e2e']}_mean")
    cells = tables.column([row.end_to_end_latency_s for row in rows])[_ok(rows)]
    if said is None or not len(cells) or np.isnan(cells).all():
        return True
    mean = float(np.nanmean(cells))
    return abs(said - mean) <= _SAME * max(abs(said), abs(mean))


def _same_run(doc: Doc, other: Source) -> bool:
    rows = other.array(_Row)
    counts = _said.counts(doc)
    if doc.number(f"results_{_said.FIELDS['e2e']}_mean") is None or _ok(rows).sum() != counts.completed:
        return False
    return bool(counts.completed) and len(rows) == counts.attempted and _same_mean(doc, rows)
