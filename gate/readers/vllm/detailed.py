"""Per-request rows of a vLLM file: parallel arrays in seconds, in order of submission."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from ...model import Counts, Floats, Gaps, Requests
from .. import bench_serving as _bench
from .. import tables
from ..source import Doc

_DETAIL = "save per-request rows with --save-result --save-detailed"


def requests(doc: Doc) -> tuple[Requests, list[str]]:
    """Columns in order of submission, and notes. Raises InputError for arrays that do not fit together."""
    columns = {key: doc.floats(key) for key in _COLUMNS}
    ttft_s, tokens, e2e_s = columns["ttfts"], columns["output_lens"], columns["latencies"]
    if ttft_s is None or tokens is None:
        raise doc.source.fail("has no `ttfts` or no `output_lens`", doc.at, _DETAIL)
    messages = _bench.messages(doc)
    if messages is None:
        messages = [""] * len(ttft_s)
    lengths = {key: len(column) for key, column in columns.items() if column is not None}
    _bench.same_length(doc, {**lengths, "errors": len(messages)})
    if (tokens < 0).any():
        raise doc.source.fail(f"a negative token count: {tokens.min():g}", f"{doc.at}.output_lens")
    gaps: Gaps | None = None
    notes: list[str] = []
    if "itls" in doc and (e2e_s is None or doc.source.gaps):
        decoded = _bench.decode_gaps(doc, ttft_s, tokens)
        gaps, notes = decoded.gaps, [*decoded.notes, *_marked_note(decoded.chunks, tokens)]
        e2e_s = ttft_s + decoded.sums_s if e2e_s is None else e2e_s
    if e2e_s is None:
        raise doc.source.fail("has neither `latencies` nor `itls`, so E2E is unknown", doc.at, _DETAIL)
    start_s = columns["start_times"]
    rows = tables.requests(
        errors=np.array([bool(text) for text in messages], dtype=np.bool_),
        ttft_s=ttft_s,
        e2e_s=e2e_s,
        output_tokens=tokens,
        input_tokens=columns["input_lens"],
        start_s=None if start_s is None else np.where(start_s == 0, np.nan, start_s),  # 0: never sent
        gaps=gaps,
        order="submission",
    )
    rows = replace(
        rows,
        queue_s=_if_whole(doc, "queue_times", len(rows)),
        server_queue_s=_if_whole(doc, "server_queue_times", len(rows)),
        server_ttft_s=_if_whole(doc, "server_ttfts", len(rows)),
    )
    return rows, [*notes, *tables.failure_note(rows, messages)]


def _if_whole(doc: Doc, key: str, n: int) -> Floats | None:
    """A column that explains and judges nothing: one that does not fit is no reason to refuse the file."""
    column = doc.floats(key)
    return column if column is not None and len(column) == n and np.isfinite(column).any() else None


_COLUMNS = ("ttfts", "output_lens", "latencies", "input_lens", "start_times")


def _marked_note(chunks: Floats, tokens: Floats) -> list[str]:
    if not len(chunks) or (chunks == tokens + 1).mean() <= 0.5:
        return []
    return ["gaps hold the role and finish chunks (vLLM <= 0.27 chat): ITL is a little low, TPOT not"]


def against_totals(doc: Doc, counts: Counts, tokens: float | None) -> tuple[list[str], dict[str, str]]:
    """Rows against the file's own totals: notes, and what must not be judged.

    Raises InputError where both cannot be true.
    """
    completed, failed, asked = doc.count("completed"), doc.count("failed"), doc.count("num_prompts")
    rows, at = counts.attempted, f"{doc.at}.completed"
    notes: list[str] = []
    unsuitable: dict[str, str] = {}
    if completed is not None:
        said = completed + (failed or 0)
        if (failed is not None and said != rows) or said > rows or counts.completed > completed:
            stated = f"completed {completed}" + (f" and failed {failed}" if failed is not None else "")
            why = f"contradicts itself: it says {stated}, but of its {rows} rows {counts.completed} completed"
            raise doc.source.fail(why, at, _bench.WHOLE)
        if counts.completed < completed:
            notes.append(f"the tool counts {completed} completed, slo-gate {counts.completed}")
    if asked is not None and asked > rows:
        notes.append(f"{asked} prompts were asked for, {rows} were sent")
        unsuitable |= _bench.unsent(asked, rows)
    total = doc.number("total_output_tokens")
    if total and tokens is not None and abs(total - tokens) > tables.MISMATCH * total:
        why = f"output tokens: the rows sum to {tokens:.0f}, the file's total says {total:.0f}"
        notes.append(why)
        unsuitable["tpot"] = f"{why}; keep the file as the tool wrote it"
    return notes, unsuitable
