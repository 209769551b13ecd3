"""Per-request rows of a vLLM file: parallel arrays in seconds, in order of submission."""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from ...model import Counts, Floats, Gaps, Requests, Status
from .. import _rows
from .._source import Doc
from .common import AT_ONCE, AT_ONCE_TPOT_S, DETAIL, NOT_STREAMED, WHOLE, same_length

_FEW = 0.01  # share of responses in one piece that cannot decide a P99
_SAME_S = 1e-9  # two clock readings this close are one


def requests(doc: Doc) -> tuple[Requests, list[str]]:
    """Columns in order of submission, and notes. Raises InputError for arrays that do not fit together."""
    columns = {key: doc.floats(key) for key in _COLUMNS}
    ttft_s, tokens, e2e_s = columns["ttfts"], columns["output_lens"], columns["latencies"]
    if ttft_s is None or tokens is None:
        raise doc.source.fail("has no `ttfts` or no `output_lens`", doc.at, DETAIL)
    messages = [text or "" for text in doc.get("errors", list[str | None]) or []]
    if "errors" not in doc:
        messages = [""] * len(ttft_s)
    lengths = {key: len(column) for key, column in columns.items() if column is not None}
    same_length(doc, {**lengths, "errors": len(messages)})
    if (tokens < 0).any():
        raise doc.source.fail(f"a negative token count: {tokens.min():g}", f"{doc.at}.output_lens")
    gaps: Gaps | None = None
    notes: list[str] = []
    if "itls" in doc and (e2e_s is None or doc.source.gaps):
        decode_s, gaps, notes = _decode(doc, ttft_s, tokens)
        e2e_s = ttft_s + decode_s if e2e_s is None else e2e_s
    if e2e_s is None:
        raise doc.source.fail("has neither `latencies` nor `itls`, so E2E is unknown", doc.at, DETAIL)
    start_s = columns["start_times"]
    rows = _rows.requests(
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
    return rows, [*notes, *_rows.failure_note(rows, messages)]


def _if_whole(doc: Doc, key: str, n: int) -> Floats | None:
    """A column that explains and judges nothing: one that does not fit is no reason to refuse the file."""
    column = doc.floats(key)
    return column if column is not None and len(column) == n and np.isfinite(column).any() else None


_COLUMNS = ("ttfts", "output_lens", "latencies", "input_lens", "start_times")


def _decode(doc: Doc, ttft_s: Floats, tokens: Floats) -> tuple[Floats, Gaps | None, list[str]]:
    """Decode seconds of each row (sum of its gaps), the gaps if wanted, and notes.

    Row by row: 0.13 s for 79 MB of gaps, nested lists at once 0.18, simdjson's flat buffer 0.12 and one
    more dependency (orjson.loads of the file: 0.24).
    """
    rows = doc.get("itls", list[msgspec.Raw]) or []
    same_length(doc, {"ttfts": len(ttft_s), "itls": len(rows)})
    sums, offsets = np.zeros(len(rows)), np.zeros(len(rows) + 1, dtype=np.int64)
    kept: list[Floats] = []
    led_by_ttft = marked = 0
    for i, (raw, first, count) in enumerate(zip(rows, ttft_s.tolist(), tokens.tolist(), strict=True)):
        gaps = _gaps(doc, raw, i)
        if gaps and len(gaps) == count and abs(gaps[0] - first) < _SAME_S:
            led_by_ttft += 1
            del gaps[0]
        marked += len(gaps) == count + 1
        sums[i] = sum(gaps)
        offsets[i + 1] = offsets[i] + len(gaps)
        if doc.source.gaps:
            kept.append(np.array(gaps, dtype=np.float64))
    notes: list[str] = []
    if led_by_ttft:
        notes.append(f"{led_by_ttft} rows begin their gaps with the TTFT (old vLLM): that gap is dropped")
    if 2 * marked > len(rows):
        notes.append(
            "gaps hold the role and finish chunks (vLLM <= 0.27 chat): ITL is a little low, TPOT not"
        )
    wanted = Gaps(np.concatenate(kept), offsets) if kept else None
    return sums, wanted, notes


_ROW = msgspec.json.Decoder(list[float])


def _gaps(doc: Doc, raw: msgspec.Raw, row: int) -> list[float]:
    try:
        return _ROW.decode(raw)
    except msgspec.MsgspecError:
        cells = Doc(doc.source, {"itls": raw}, f"{doc.at}.itls[{row}]").floats("itls")
        return [] if cells is None else cells.tolist()


def streaming(rows: Requests) -> tuple[bool | None, dict[str, str], list[str]]:
    """Whether responses came in pieces, what must not be judged where they did not, and notes.

    All tokens in the first chunk give E2E = TTFT and a TPOT of 0 that is no measurement (vLLM #28183).
    """
    tpot_s = rows.tpot_s
    if tpot_s is None or rows.e2e_s is None or rows.ttft_s is None:
        return None, {}, []
    several = (rows.status == Status.COMPLETED) & np.isfinite(tpot_s)
    if not several.any():
        return None, {}, []
    after_first_s = rows.e2e_s - rows.ttft_s
    at_once = several & (tpot_s < AT_ONCE_TPOT_S) & (after_first_s <= AT_ONCE * rows.e2e_s)
    number, share = int(at_once.sum()), float(at_once.sum() / several.sum())
    if share >= 0.5:
        return False, dict.fromkeys(("ttft", "tpot", "itl"), NOT_STREAMED), []
    if not number:
        return True, {}, []
    notes = [f"{number} responses of several tokens came in one piece: their TPOT is about 0"]
    unsuitable = dict.fromkeys(("tpot", "itl"), _IN_ONE_PIECE.format(share)) if share > _FEW else {}
    return True, unsuitable, notes


_IN_ONE_PIECE = (
    "{:.1%} of the responses of several tokens came in one piece, so their TPOT is not measurable; "
    "run without a tool or reasoning parser that buffers"
)


def against_totals(doc: Doc, counts: Counts, tokens: float | None) -> list[str]:
    """Rows against the file's own totals. Raises InputError where both cannot be true."""
    completed, failed, asked = doc.count("completed"), doc.count("failed"), doc.count("num_prompts")
    rows, at = counts.attempted, f"{doc.at}.completed"
    notes: list[str] = []
    if completed is not None:
        said = completed + (failed or 0)
        if (failed is not None and said != rows) or said > rows or counts.completed > completed:
            stated = f"completed {completed}" + (f" and failed {failed}" if failed is not None else "")
            why = f"contradicts itself: it says {stated}, but of its {rows} rows {counts.completed} completed"
            raise doc.source.fail(why, at, WHOLE)
        if counts.completed < completed:
            notes.append(f"the tool counts {completed} completed, slo-gate {counts.completed}")
    if asked is not None and asked > rows:
        notes.append(f"{asked} prompts were asked for, {rows} were sent")
    total = doc.number("total_output_tokens")
    if total and tokens is not None and abs(total - tokens) > _rows.MISMATCH * total:
        notes.append(f"output tokens: the rows sum to {tokens:.0f}, the file's total says {total:.0f}")
    return notes
