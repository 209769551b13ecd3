"""LLMeter's responses.jsonl: one object a request, seconds, in order of completion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from ...model import Bools, Load, Requests, Run, ToolReported
from .. import _rows, _streaming
from .._source import Doc, Source
from . import DEFINITIONS, TITLE, files, kind
from . import stats as statistics

_SAME = 1e-9  # relative; the statistics are computed from the very rows
_WHOLE = "copy the folder whole, or move the files of the other run away"

_NOT_STREAMED = (
    "no answer has a TTFT: {} does not stream; use a streaming endpoint of LLMeter,"
    " such as OpenAICompletionStreamEndpoint"
)
_AFTER_REASONING = (
    "TTFT is the time to the first visible content, which comes after the reasoning; use an LLMeter that"
    " writes time_to_first_content_token, or ttft_visible_tokens_only=False"
)
_OTHER_LEVELS = (
    "{} rows of earlier client levels stand in one file and nothing says how many clients they had;"
    " give each level of a LoadTest its own output_path, or use a Runner for each"
)


class _Row(msgspec.Struct, gc=False):
    time_to_first_token: _rows.Cell
    time_to_last_token: _rows.Cell
    num_tokens_output: _rows.Tokens
    error: str | None
    num_tokens_input: _rows.Tokens = None
    num_tokens_output_reasoning: _rows.Tokens = None
    retries: int | None = None
    id: str | None = None
    input_prompt: str | None = None
    request_time: str | None = None
    time_to_first_content_token: _rows.Cell | msgspec.UnsetType = msgspec.UNSET


def read(source: Source) -> list[Run]:
    """The runs of the file, those of earlier levels of a LoadTest first and judged by nothing.

    Raises InputError when rows are broken or missing, or are not those of the statistics beside them.
    """
    if fault := source.fault():
        raise fault
    rows = _decode(source)
    stats = files.beside(source, "stats.json")
    facts = files.facts(source, stats)
    last = len(rows) if facts.requests is None else facts.requests
    if last > len(rows):
        why = f"contradicts the files beside it: {len(rows)} rows here, {last} requests there"
        raise source.fail(why, hint=_WHOLE)
    if stats is not None and not _same_mean(stats, rows[len(rows) - last :]):
        why = f"contradicts stats.json beside it: the last {last} rows have another mean time_to_last_token"
        raise source.fail(why, hint=_WHOLE)
    reported = statistics.reported(stats) if stats else {}
    runs = [_run(source, rows[len(rows) - last :], facts, facts.load, reported)] if last else []
    if last < len(rows):
        earlier = rows[: len(rows) - last]
        runs.insert(0, _unknown_level(_run(source, earlier, facts, None, {}), len(earlier)))
    return runs


def same_run(source: Source, stats: Source) -> bool:
    """Whether statistics of another name are those of these rows: the same number and the same mean."""
    if source.shape == "broken" or stats.shape == "broken":
        return False
    rows = _decode(source)
    if stats.doc.number("time_to_last_token-average") is None:
        return False
    return stats.doc.count("total_requests") == len(rows) and _same_mean(stats.doc, rows)


def _decode(source: Source) -> list[_Row]:
    if source.shape == "object":
        return [_single(source.doc)]
    return [row for rows in source.lines(_Row) for row in rows]


def _single(doc: Doc) -> _Row:
    """The row of a file that holds one object, on whatever number of lines."""
    try:
        return msgspec.json.decode(msgspec.json.encode(doc.fields), type=_Row)
    except msgspec.MsgspecError as error:
        raise doc.source.fail(str(error)[:1].lower() + str(error)[1:], doc.at) from None


def _same_mean(stats: Doc, rows: Sequence[_Row]) -> bool:
    said = stats.number("time_to_last_token-average")
    cells = _rows.column([row.time_to_last_token for row in rows])
    if said is None or not np.isfinite(cells).any():
        return True
    mean = float(np.nanmean(cells))
    return abs(said - mean) <= _SAME * max(abs(said), abs(mean))


# ---- one run ------------------------------------------------------------------------------


def _run(
    source: Source,
    rows: Sequence[_Row],
    facts: files.Facts,
    load: Load | None,
    reported: dict[str, ToolReported],
) -> Run:
    ok = np.array([row.error is None for row in rows], dtype=np.bool_)
    table, streams = _table(rows, ok)
    any_kind = any(row.time_to_first_content_token is not msgspec.UNSET for row in rows)
    streaming, unsuitable, odd = _streaming.judge(table)
    unsuitable |= {
        "itl": _streaming.NO_GAPS.format(TITLE),
        **_reasoning(rows, any_kind, facts),
        **_hidden(rows, facts),
    }
    if not streams:
        unsuitable |= dict.fromkeys(("ttft", "tpot"), _NOT_STREAMED.format(facts.endpoint or "the endpoint"))
    ttft = files.TTFT_ANY if any_kind or facts.visible_only is False else files.TTFT_CONTENT
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="llmeter responses",
        tool=TITLE,
        evidence=table,
        counts=_rows.counts(table),
        model=facts.model,
        load=load,
        duration_s=facts.duration_s if load is not None else None,
        date=facts.date or files.day(min(row.request_time or "" for row in rows)),
        total_output_tokens=_rows.output_total(table),
        streaming=streaming if streams else False,
        prompts=_different(row.input_prompt for row in rows),
        definitions={**DEFINITIONS, "ttft": ttft},
        tool_reported=reported,
        unsuitable=unsuitable,
        notes=(
            *_rows.failure_note(table, [_short(row.error) for row in rows]),
            *_partial_note(rows, ok, reported),
            *_sending_notes(rows, facts, load),
            *odd,
            f"TTFT is {ttft.partition(': ')[2]}",
        ),
    )


def _unknown_level(run: Run, rows: int) -> Run:
    why = _OTHER_LEVELS.format(rows)
    judged = ("ttft", "tpot", "itl", "e2e", "error_rate")
    return replace(run, unsuitable=dict.fromkeys(judged, why), notes=(why, *run.notes))


def _table(rows: Sequence[_Row], ok: Bools) -> tuple[Requests, bool]:
    ttft_s = _rows.column([row.time_to_first_token for row in rows])
    # Endpoints that do not stream have no TTFT in any answer, which is no failure.
    streams = bool(np.isfinite(ttft_s[ok]).any()) if ok.any() else True
    table = _rows.requests(
        errors=~ok,
        ttft_s=ttft_s if streams else None,
        e2e_s=_rows.column([row.time_to_last_token for row in rows]),
        output_tokens=_rows.column([row.num_tokens_output for row in rows]),
        input_tokens=_rows.column([row.num_tokens_input for row in rows]),
        order="completion",
    )
    ids = tuple(row.id for row in rows if row.id)
    return replace(table, ids=ids if len(ids) == len(rows) else None), streams


def _different(prompts: Iterable[str | None]) -> int | None:
    """How many prompt texts there are; None where a row does not say its own."""
    texts = set(prompts)
    return None if not texts or None in texts else len(texts)


def _short(error: str | None) -> str:
    if error is None:
        return ""
    return " ".join(error.split())[:60] or "an error without a text"


# ---- what it means ------------------------------------------------------------------------


def _reasoning(rows: Sequence[_Row], any_kind: bool, facts: files.Facts) -> dict[str, str]:
    """TTFT of a reasoning model, where it waits for the visible answer (up to 0.2.0 by default)."""
    if any_kind or facts.visible_only is False:
        return {}
    if not any(row.num_tokens_output_reasoning for row in rows):
        return {}
    return dict.fromkeys(("ttft", "tpot"), _AFTER_REASONING)


def _hidden(rows: Sequence[_Row], facts: files.Facts) -> dict[str, str]:
    """Failed attempts the OpenAI SDK repeats inside a request; `retries` is counted by Bedrock only."""
    if not facts.max_retries or any(row.retries is not None for row in rows):
        return {}
    return {"error_rate": statistics.RETRIED.format(facts.max_retries)}


def _sending_notes(rows: Sequence[_Row], facts: files.Facts, load: Load | None) -> tuple[str, ...]:
    return (*_retry_notes(rows, facts), *_planned_note(rows, facts, load))


def _retry_notes(rows: Sequence[_Row], facts: files.Facts) -> tuple[str, ...]:
    counted = [row.retries for row in rows if row.retries]
    if counted:
        return (
            f"the SDK retried {len(counted)} requests, {sum(counted)} times in all: each counts once, and its"
            " latencies contain the failed attempts",
        )
    if facts.max_retries and not any(row.retries is not None for row in rows):
        said = f"failed attempts and the pauses after them (up to {facts.max_retries} retries by the SDK)"
        return (f"{said} are inside TTFT and E2E",)
    return ()


def _partial_note(rows: Sequence[_Row], ok: Bools, reported: dict[str, ToolReported]) -> tuple[str, ...]:
    partial = sum(row.time_to_last_token is not None for row, good in zip(rows, ok, strict=True) if not good)
    if not partial or not reported:
        return ()
    return (f"LLMeter's percentiles contain the partial times of {partial} failed requests, ours do not",)


def _planned_note(rows: Sequence[_Row], facts: files.Facts, load: Load | None) -> tuple[str, ...]:
    if facts.planned is None or load is None or facts.planned <= len(rows):
        return ()
    return (f"{facts.planned} requests were asked for, {len(rows)} are in the file",)


def companions(sources: Sequence[Source]) -> Mapping[Source, str]:
    """Statistics whose rows are there too (same folder and prefix, or the same numbers), and side files."""
    kinds = {source: kind(source) for source in sources}
    results = {k for k in kinds.values() if k in ("rows", "stats")}
    taken: dict[Source, str] = {}
    for source, k in kinds.items():
        if k == "stats":
            for other in (s for s, one in kinds.items() if one == "rows"):
                if files.place(source) == files.place(other) or same_run(other, source):
                    taken[source] = f"its requests are in {other.name}"
        elif k is not None and k != "rows" and results:
            taken[source] = files.NO_RESULT[k]
    return taken
