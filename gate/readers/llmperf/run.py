"""A run of LLMPerf: its rows, with the summary beside them, or the summary alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from ... import units
from ...model import Aggregate, Bools, Counts, Doubt, Requests, Status, Summary, Why
from .. import kinds, tables
from ..ladders import ladder
from ..loads import load
from ..source import Doc, Source
from ..told import Counted, Told
from . import KINDS, NAME, TITLE

_FIELDS = {"ttft": "ttft_s", "e2e": "end_to_end_latency_s", "itl": "inter_token_latency_s"}
_PERCENTS = (25, 50, 75, 90, 95, 99)
_METHOD = "pandas linear over completed requests"
_ROWS, _SUMMARY = (kind.name for kind in KINDS)
_AS_WRITTEN = "use the file as LLMPerf wrote it"
_SAME = 1e-6  # relative; the summary is computed from the very rows
_BUSY = 0.5  # of the workers, on average: healthy runs of short answers keep 0.6 of them busy
_CLIENT = (
    "no file of LLMPerf says which client it used (--llm-api), and litellm repeats requests by itself;"
    " measure with a tool that says it, such as vllm bench serve"
)
_PER_TOKEN = (
    "LLMPerf's inter_token_latency_s contains the TTFT and is one value a request, no gap between chunks;"
    " measure ITL with a tool that writes gaps, such as vllm bench serve --save-detailed"
)
_UNSEEN = (
    "LLMPerf at f1d6bed (December 2024) and later loses a failed request together with its worker, and"
    " --timeout ends a run early without a mark: failures may be missing here; compare {:,} rows with"
    " --max-num-completed-requests, or measure with a tool that records failures, such as vllm bench serve"
)
_TOKENS = (
    "output tokens are counted by LLMPerf's own tokenizer, start token included, so TPOT is biased low;"
    " input tokens are the requested length, not a count"
)
_OURS = frozenset(("version", "name", "model", "timestamp", "hardware", "session", "tool_version"))
_LENGTHS = ("results_", "mean_", "stddev_", "num_concurrent", "additional_sampling_params")


class _Row(msgspec.Struct, gc=False):
    """A request. Error rows look perfect but for their error_code: an empty message, valid times."""

    error_code: float | str | bool | None
    ttft_s: tables.Cell
    end_to_end_latency_s: tables.Cell
    number_output_tokens: tables.Tokens
    number_input_tokens: tables.Tokens = None
    inter_token_latency_s: tables.Cell = None
    error_msg: str | None = None

    @property
    def code(self) -> str:
        code = self.error_code
        return f"{code:g}" if isinstance(code, float) else str(code)


def decode(source: Source) -> Told:
    """The one run. Raises InputError when the file is broken, empty or contradicts itself or the other."""
    if source.shape == "array":
        return _rows(source)
    if source.shape == "object":
        return _summary(source.doc)
    raise kinds.refuse(source, None, TITLE, _AS_WRITTEN)


def same(rows: Source, summary: Source) -> bool:
    """Whether a summary under another name is of these rows: as many requests, and the same mean E2E."""
    if summary.doc.number("results_end_to_end_latency_s_mean") is None:
        return False
    return _of(rows.array(_Row), summary.doc) and bool(_counts(summary.doc).completed)


def _told(doc: Doc, kind: str, evidence: Requests | Aggregate, busy_s: float | None, counts: Counts) -> Told:
    """What rows and summary have in common: the metadata, the load, and the doubts about lost workers.

    `busy_s` is the sum of E2E; `doc` is empty where there is no summary.
    """
    concurrency = doc.count("num_concurrent_requests")
    completed, per_minute = (doc.number(f"results_num_completed_requests{end}") for end in ("", "_per_min"))
    duration_s = 60 * completed / per_minute if completed and per_minute and per_minute > 0 else None
    busy = busy_s / duration_s if duration_s and busy_s is not None else None
    stated = {metric: _statistics(doc, name) for metric, name in _FIELDS.items()}
    others = [key for key in doc.fields if key not in _OURS and not key.startswith(_LENGTHS)]
    return Told(
        format=f"{NAME} {kind}",
        tool=TITLE,
        evidence=evidence,
        retries=None,
        retries_with=_CLIENT,
        # Hardware, session and tool version are what the user gave with --metadata under these names.
        version=doc.text("tool_version"),
        hardware=doc.text("hardware"),
        session=doc.text("session"),
        model=doc.text("model"),
        load=load(slots=concurrency),
        duration_s=duration_s,
        stream_with="use a streaming --llm-api",
        stated={metric: summary for metric, summary in stated.items() if not _is_unset(summary)},
        method={
            **dict.fromkeys(_FIELDS, _METHOD),
            "itl": f"{_METHOD}, of (TTFT + gaps) / tokens, which contains TTFT",
        },
        hides_failures="" if counts.failed else _UNSEEN.format(counts.attempted),
        hidden_at_most=concurrency,  # a worker dies of its first
        doubts=(*_workers(busy, concurrency), Doubt(Why.DEFINITION, ("itl",), _PER_TOKEN)),
        notes=("metadata: " + ", ".join(f"{key}={doc.text(key)}" for key in others),) if others else (),
    )


def _workers(busy: float | None, concurrency: int | None) -> Iterator[Doubt]:
    """A worker dies with a request that fails, and only idle workers show it (Little's law)."""
    if busy is None or not concurrency:
        why = f"how busy the workers were is not stated: keep the *{_SUMMARY} that LLMPerf wrote as it is"
    elif busy < _BUSY * concurrency:
        why = f"on average {busy:.1f} of {concurrency} workers were busy"
    else:
        return
    why += "; workers may have died with failed requests, which are then in no file; look into the tool's log"
    yield Doubt(Why.LOST_ROWS, ("attempted",), why)


# ---- rows ---------------------------------------------------------------------------------------


def _rows(source: Source) -> Told:
    rows = source.array(_Row)
    if not rows:
        raise source.fail("holds no requests", hint="run the benchmark again")
    beside = kinds.beside(source, KINDS, _SUMMARY)
    doc = Doc(source, {})
    if beside is not None and kinds.kind_of(beside, KINDS) is KINDS[1]:
        doc = beside.doc
        _check_pair(source, rows, doc)
    good = _good(rows)
    # The clients that do not stream (Vertex AI) write a TTFT of -1: no TTFT, which is not a failure.
    streams = not good.any() or any(row.ttft_s != -1 for row in rows if row.error_code is None)
    table = tables.table(
        rows,
        errors=~good,
        order="completion",
        ttft_s="ttft_s" if streams else "",
        e2e_s="end_to_end_latency_s",
        output_tokens="number_output_tokens",
        input_tokens="number_input_tokens",
    )
    busy_s = float(np.nansum(np.maximum(table.e2e_s, 0.0))) if table.e2e_s is not None else None
    counts = Counts(len(rows), int(good.sum()), int((~good).sum()))
    told = _told(doc, "individual responses", table, busy_s, counts)
    alone = () if doc.fields else (f"no *{_SUMMARY} beside it: model and concurrency are not stated",)
    return msgspec.structs.replace(
        told,
        counted=Counted(completed=counts.completed, where="error_code"),
        messages=_messages(rows),
        notes=(*_convention(table, rows), _TOKENS, *told.notes, *alone),
    )


def _good(rows: Sequence[_Row]) -> Bools:
    return np.array([row.error_code is None for row in rows], dtype=np.bool_)


def _messages(rows: Sequence[_Row]) -> list[str]:
    """One text a row; the same for all rows of one error_code, with the first message as example."""
    texts: dict[str, str] = {}
    for row in rows:
        if row.error_code is not None and row.code not in texts:
            message = " ".join((row.error_msg or "").split())[:50]
            texts[row.code] = f"error_code {row.code} " + (f'("{message}")' if message else "(no message)")
    return ["" if row.error_code is None else texts[row.code] for row in rows]


def _convention(table: Requests, rows: Sequence[_Row]) -> Iterator[str]:
    """Both conventions at the median: LLMPerf's per-token time, which contains the TTFT, and TPOT."""
    tpot_s, theirs_s = table.tpot_s, tables.column(row.inter_token_latency_s for row in rows)
    if tpot_s is None:
        return
    both = (table.status == Status.COMPLETED) & np.isfinite(tpot_s) & np.isfinite(theirs_s)
    if both.any():
        theirs, ours = (units.milliseconds(float(np.median(column[both]))) for column in (theirs_s, tpot_s))
        yield (
            f"the tool's inter_token_latency_s is {theirs} at the median, because it contains the TTFT; "
            f"TPOT, the decode time per token after the first, is {ours}"
        )


def _check_pair(source: Source, rows: Sequence[_Row], doc: Doc) -> None:
    if not _of(rows, doc):
        counts, failed = _counts(doc), len(rows) - int(_good(rows).sum())
        raise source.fail(
            f"contradicts {doc.source.name}: {len(rows)} rows with {failed} failed here, a summary of"
            f" {counts.attempted} with {counts.failed} failed, or of other latencies, there",
            hint="keep both files of the same run, or move the summary away",
        )


def _of(rows: Sequence[_Row], doc: Doc) -> bool:
    """Whether the summary is of these rows."""
    counts, good = _counts(doc), _good(rows)
    if counts != Counts(len(rows), int(good.sum()), int((~good).sum())):
        return False
    stated = doc.number("results_end_to_end_latency_s_mean")
    cells = tables.column(row.end_to_end_latency_s for row in rows)[good]
    if stated is None or not np.isfinite(cells).any():
        return True
    mean = float(np.nanmean(cells))
    return abs(stated - mean) <= _SAME * max(abs(stated), abs(mean))


# ---- the summary --------------------------------------------------------------------------------


def _summary(doc: Doc) -> Told:
    counts, rows_file = _counts(doc), f"the *{_ROWS} that LLMPerf writes beside it"
    statistics = {m: _statistics(doc, _FIELDS[m], counts.completed) for m in ("ttft", "e2e")}
    mean_s = statistics["e2e"].mean
    measured = {metric: summary for metric, summary in statistics.items() if not _is_unset(summary)}
    busy_s = mean_s * counts.completed if mean_s is not None else None
    told = _told(doc, "summary", Aggregate(measured, settled_by=rows_file), busy_s, counts)
    kinds_of_failure = re.findall(
        r"([^\s{,]+): (?:np\.int64\()?(\d+)", doc.text("results_error_code_frequency") or ""
    )
    shown = ", ".join(f"error_code {code.removesuffix('.0')} x{number}" for code, number in kinds_of_failure)
    failed = (f"{counts.failed} failed" + (f": {shown}" if shown else ""),) if counts.failed else ()
    return msgspec.structs.replace(
        told,
        counts=counts,
        lengths=_statistics(doc, "number_output_tokens"),
        streamed=False if _is_unset(statistics["ttft"]) else None,
        notes=(*failed, *told.notes),
    )


def _counts(doc: Doc) -> Counts:
    """Rows LLMPerf wrote, and how many failed. Raises InputError for an error rate that is another."""
    attempted, failed, completed = (
        _required(doc, f"results_{key}")
        for key in ("num_requests_started", "number_errors", "num_completed_requests")
    )
    rate = doc.number("results_error_rate")
    adds_up = completed + failed == attempted  # where they do not, settle says so
    if rate is not None and attempted and adds_up and abs(rate - failed / attempted) > _SAME:
        raise doc.source.fail(
            f"contradicts itself: an error rate of {rate:g} is not {failed} of {attempted}",
            f"{doc.at}.results_error_rate",
            _AS_WRITTEN,
        )
    return Counts(attempted, completed, failed)


def _required(doc: Doc, key: str) -> int:
    value = doc.count(key)
    if value is None:
        raise doc.source.fail(f"has no {key}", doc.at, _AS_WRITTEN)
    return value


def _statistics(doc: Doc, name: str, n: int | None = None) -> Summary:
    mean, low, high = (doc.number(f"results_{name}_{what}") for what in ("mean", "min", "max"))
    points = ((p, doc.number(f"results_{name}_quantiles_p{p}")) for p in _PERCENTS)
    return ladder(points, mean=mean, low=low, high=high, n=n)


def _is_unset(summary: Summary) -> bool:
    """Whether every value is the -1 of a client that does not stream."""
    return bool(summary.percentiles) and all(value == -1 for _, value in summary.percentiles)
