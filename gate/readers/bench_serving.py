"""What vLLM's benchmark_serving.py and its forks have in common: statistics, parallel arrays, load.

SGLang, TensorRT-LLM and InferenceX each began as a copy of that script; what only one of them does
is in its own reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from ..model import Aggregate, Counts, Evidence, Floats, Gaps, Load, Requests, Summary
from . import clocks, tables
from .ladders import ladder
from .settle import refuse_repetitions
from .source import Doc, Source
from .told import Counted, Told

WHOLE = "run the benchmark again, or use the file as the tool wrote it"
_ASKED_WITH = "use the file as the tool wrote it, with its `num_prompts`"
METHOD = "numpy linear over completed requests"
_LIMIT = 1e12  # seconds or tokens: beyond it lies no measurement, and sums would overflow
_UNLIMITED_RPS = 1e6  # no client sends faster: a "rate" for "all at once"
_SAME_S = 1e-9  # two clock readings this close are one

Named = dict[str, dict[str, float]]  # metric -> mean, median, p99, ... in the file's unit


def docs(source: Source, pass_on: str = "") -> Iterator[Doc]:
    """The objects of a file, also of a list of them.

    Raises InputError for medians over repetitions and, where `pass_on` says what to give, for none at all.
    """
    if source.shape == "array":
        fields = source.array(dict[str, msgspec.Raw])
        found: Iterator[Doc] = (Doc(source, some, f"$[{number}]") for number, some in enumerate(fields))
    else:
        found = source.docs()
    doc = None
    for doc in found:
        refuse_repetitions(source, doc.fields, doc.at)
        yield doc
    if doc is None and pass_on:
        raise source.fail("holds no run", hint=f"pass {pass_on}")


def statement(doc: Doc, name: str, evidence: Evidence, stated: Mapping[str, Summary], **facts: Any) -> Told:
    """What the forks state in the same words; `facts` are the rest of a Told, and notes are added to."""
    of, notes = load(doc)
    completed = doc.count("completed") or 0
    usual = {
        "retries": 0,
        "asked_with": _ASKED_WITH if "asked" in facts else "",
        "load": of,
        "model": doc.text("model_id"),
        "duration_s": doc.number("duration"),
        "date": clocks.day_of(doc.text("date")),  # in the client's local time, at the end of the run
        "output_tokens": doc.number("total_output_tokens"),
        "stated": without_zeros(stated) if completed or isinstance(evidence, Requests) else {},
        "method": METHOD,
        "goodput": goodput(doc, completed),
        "stream_with": "measure a streaming endpoint, and keep the percentiles of TTFT in the file",
        "hides_stream_errors": True,  # a chunk without choices is passed over in all of them
    }
    more = {**facts, "notes": (*notes, *facts.get("notes", ()))}
    kind = "detailed" if isinstance(evidence, Requests) else "aggregate"
    return Told(**{"format": f"{name} {kind}", "evidence": evidence, **usual, **more})


# ---- statistics ---------------------------------------------------------------------------


def statistics(doc: Doc, suffix: str) -> Named:
    """The tool's own statistics as the file has them, from keys like p99_ttft and `suffix`."""
    pattern = re.compile(rf"(mean|median|p\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el|e2e_latency){suffix}")
    found: Named = {}
    for key in doc.fields:
        parts = pattern.fullmatch(key)
        value = doc.number(key) if parts else None
        if parts is not None and value is not None:
            found.setdefault("e2e" if parts[2].startswith("e2e") else parts[2], {})[parts[1]] = value
    return found


def summaries(values: Named, per_second: float) -> dict[str, Summary]:
    """The same in seconds. A metric of which all is 0, mean, median and percentiles, was not measured."""
    found = {}
    for metric, some in values.items():
        points = {50.0: some["median"]} if "median" in some else {}
        points |= {float(name[1:]): value for name, value in some.items() if name[0] == "p"}
        is_whole = {"mean", "median"} <= some.keys() and len(points) > 1  # else what is missing may be no 0
        if any(some.values()) or not is_whole:
            found[metric] = ladder(points.items(), per_second=per_second, mean=some.get("mean") or None)
    return found


def without_zeros(stated: Mapping[str, Summary]) -> dict[str, Summary]:
    """Without percentiles of 0, which are no values."""
    return {
        metric: msgspec.structs.replace(s, percentiles=tuple(p for p in s.percentiles if p[1]))
        for metric, s in stated.items()
        if s.percentiles
    }


def aggregate(stated: Mapping[str, Summary], completed: int, settled_by: str) -> Aggregate:
    """Evidence of percentiles alone; how many values are behind TPOT and ITL no file says."""
    of = dict.fromkeys(("ttft", "e2e"), completed)
    found = {m: msgspec.structs.replace(s, n=of.get(m)) for m, s in stated.items() if s.percentiles}
    return Aggregate(found if completed else {}, settled_by=settled_by)


def goodput(doc: Doc, completed: int) -> str:
    """What the tool calls goodput (good req/s), as a share of its completed requests."""
    keys = ("request_goodput", "request_goodput:")  # vLLM up to 0.8, TensorRT-LLM
    good = next((value for key in keys if (value := doc.number(key)) is not None), None)
    seconds = doc.number("duration")
    if good is None or not seconds or not completed:
        return ""
    return (
        f"{good:.4g} req/s: {good * seconds / completed:.1%} of its completed requests, by bounds the file"
        " does not hold and with single-token TPOT as 0"
    )


# ---- rows ---------------------------------------------------------------------------------


class Rows(Struct, frozen=True, eq=False):
    """The arrays of a file as columns, and what a Told has beside them."""

    table: Requests
    facts: Mapping[str, Any]  # messages, has_gaps, pieces, characters, counted
    notes: tuple[str, ...]


def rows(doc: Doc, e2e: str, hint: str, never_s: float | None = None) -> Rows:
    """Rows in order of submission. E2E is the array `e2e`, or TTFT + the gaps where there is none.

    `never_s` is the TTFT of rows that were not streamed. Raises InputError for arrays that are missing, do
    not fit together, or hold what is no measurement.
    """
    names = ("ttfts", "output_lens", e2e, "input_lens", "start_times")
    columns = {name: column for name in names if (column := _column(doc, name)) is not None}
    for name, lost in (("ttfts", "TTFT"), ("output_lens", "the number of output tokens")):
        if name not in columns:
            raise doc.source.fail(f"has no `{name}`, so {lost} is unknown", doc.at, hint)
    errors = [text or "" for text in doc.get("errors", list[str | None]) or []]
    if "errors" not in doc:
        raise doc.source.fail("has no `errors`, so failures are unknown", doc.at, hint)
    same_length(doc, {**{name: len(column) for name, column in columns.items()}, "errors": len(errors)})
    ttft_s, tokens, e2e_s = columns["ttfts"], columns["output_lens"], columns.get(e2e)
    if e2e_s is None and "itls" not in doc:
        either = f"neither `{e2e}` nor" if e2e else "no"
        raise doc.source.fail(f"has {either} `itls`, so E2E is unknown", doc.at, hint)
    decoded = (
        decode_gaps(doc, ttft_s, tokens) if "itls" in doc and (e2e_s is None or doc.source.gaps) else None
    )
    if e2e_s is None and decoded is not None:
        e2e_s = ttft_s + decoded.sums_s
    failed = np.array([bool(text) for text in errors], dtype=np.bool_)
    unseen = never_s is not None and not failed.all() and bool((ttft_s[~failed] == never_s).all())
    start_s = columns.get("start_times")
    table = tables.requests(
        errors=failed,
        ttft_s=None if unseen else ttft_s,
        e2e_s=e2e_s,
        output_tokens=tokens,
        input_tokens=columns.get("input_lens"),
        start_s=None if start_s is None else np.where(start_s == 0, np.nan, start_s),  # 0: never sent
        gaps=decoded.gaps if decoded else None,
        order="submission",
    )
    characters = _characters(doc, len(tokens))
    counted = Counted(doc.count("completed"), doc.count("failed"), where=f"{doc.at}.completed")
    facts = {
        "messages": errors,
        "has_gaps": "itls" in doc,
        "pieces": decoded.chunks + 1 if decoded else _pieces(doc, tokens, characters),
        "characters": characters,
        "counted": counted,
        "asked": asked(doc, len(tokens)),
    }
    return Rows(table, facts, decoded.notes if decoded else ())


def _column(doc: Doc, name: str) -> Floats | None:
    column = doc.floats(name) if name else None
    if column is not None and (np.abs(column) > _LIMIT).any():
        raise doc.source.fail(f"holds a value larger than {_LIMIT:g}", f"{doc.at}.{name}", WHOLE)
    if column is not None and name.endswith("_lens") and (column < 0).any():
        raise doc.source.fail(f"a negative token count: {column.min():g}", f"{doc.at}.{name}", WHOLE)
    return column


def same_length(doc: Doc, lengths: Mapping[str, int]) -> None:
    """Raises InputError, naming each array, when lengths differ."""
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{key} {length}" for key, length in lengths.items())
        raise doc.source.fail(f"contradicts itself: arrays of different length ({shown})", doc.at, WHOLE)


def asked(doc: Doc, attempted: int) -> int | None:
    """Prompts the run was to send. Raises InputError where more requests are in the file."""
    prompts = doc.count("num_prompts")
    if prompts is not None and prompts < attempted:
        why = f"contradicts itself: {attempted} requests of {prompts} prompts"
        raise doc.source.fail(why, f"{doc.at}.num_prompts", WHOLE)
    return prompts


def counts_without_failed(doc: Doc) -> tuple[int, Counts, list[str]]:
    """Completed requests, all counts and notes of a file without `failed`: what did not complete failed.

    Raises InputError when how many failed cannot be known.
    """
    completed, prompts = doc.count("completed"), doc.count("num_prompts")
    if completed is None or prompts is None:
        why = "does not say how many requests completed and failed, so no share of them is known"
        raise doc.source.fail(why, doc.at, "keep `completed` and `num_prompts` in the file")
    if prompts < completed:
        why = f"contradicts itself: {completed} requests completed of {prompts}"
        raise doc.source.fail(why, f"{doc.at}.completed", WHOLE)
    lost = prompts - completed
    note = f"the file has no `failed`: {lost} of {prompts} prompts did not complete and count as failed"
    return completed, Counts(prompts, completed, lost), [note] if lost else []


# ---- gaps and texts -----------------------------------------------------------------------


class Decoded(Struct, frozen=True, eq=False):
    """Gaps of each row: their sum in seconds, their number, and themselves where they are wanted."""

    sums_s: Floats
    chunks: Floats
    gaps: Gaps | None
    notes: tuple[str, ...]


_GAPS = msgspec.json.Decoder(list[float])


def decode_gaps(doc: Doc, ttft_s: Floats, tokens: Floats) -> Decoded:
    """`itls` row by row. Raises InputError for negative gaps and for another number of rows.

    A first gap that is the TTFT once more (SGLang #1005, vLLM #7242) is dropped with a note.
    """
    cells = doc.get("itls", list[msgspec.Raw]) or []
    same_length(doc, {"ttfts": len(ttft_s), "itls": len(cells)})
    sums_s, number = np.zeros(len(cells)), np.zeros(len(cells))
    kept: list[Floats] = []
    led_by_ttft = 0
    for i, (raw, first, count) in enumerate(zip(cells, ttft_s.tolist(), tokens.tolist(), strict=True)):
        gaps = _row(doc, raw, i)
        if gaps and len(gaps) == count and abs(gaps[0] - first) < _SAME_S:
            led_by_ttft += 1
            del gaps[0]
        sums_s[i], number[i] = sum(gaps), len(gaps)
        if doc.source.gaps:
            kept.append(np.array(gaps, dtype=np.float64))
    note = f"{led_by_ttft} rows begin their gaps with the TTFT: that gap is dropped"
    offsets = np.concatenate(([0], np.cumsum(number))).astype(np.int64)
    wanted = Gaps(np.concatenate(kept), offsets) if kept else None
    return Decoded(sums_s, number, wanted, (note,) if led_by_ttft else ())


def _row(doc: Doc, raw: msgspec.Raw, row: int) -> list[float]:
    at = f"{doc.at}.itls[{row}]"
    try:
        gaps = _GAPS.decode(raw)
    except msgspec.MsgspecError:
        cells = Doc(doc.source, {"itls": raw}, at).floats("itls")
        gaps = [] if cells is None else cells.tolist()
    # Most of a file is gaps: each is looked at only where its text has a minus or their sum is absurd.
    if (b"-" in bytes(raw) and any(gap < 0 for gap in gaps)) or sum(gaps) > _LIMIT:
        raise doc.source.fail(f"a gap between chunks is negative or larger than {_LIMIT:g} s", at, WHOLE)
    return gaps


def _characters(doc: Doc, n: int) -> Floats | None:
    """Bytes of each answer's text as the file spells it, which is nearly that of its characters."""
    texts = doc.get("generated_texts", list[msgspec.Raw])
    if not texts:
        return None
    same_length(doc, {"ttfts": n, "generated_texts": len(texts)})
    sizes = np.fromiter((memoryview(text).nbytes for text in texts), np.float64, n)
    return sizes - 2  # without their quotes


def _pieces(doc: Doc, tokens: Floats, characters: Floats | None) -> Floats | None:
    """Chunks of each answer, counted by their commas, unless every text is as long as its tokens say.

    Finding the rows of the gaps costs a third of what it takes to read such a file: texts are a tenth.
    """
    if "itls" not in doc or (characters is not None and not _some_short(characters, tokens)):
        return None
    cells = [bytes(raw) for raw in doc.get("itls", list[msgspec.Raw]) or []]
    same_length(doc, {"ttfts": len(tokens), "itls": len(cells)})
    counts = (1 + cell.count(b",") + bool(cell[1:-1].strip()) for cell in cells)
    return np.fromiter(counts, np.float64, len(cells))


def _some_short(characters: Floats, tokens: Floats) -> bool:
    several = tokens > 1
    if not several.any():
        return False
    share = characters[several] / tokens[several]
    return bool((share < 0.5 * np.percentile(share, 90)).any() or share.max() == 0)


# ---- load ---------------------------------------------------------------------------------


def load(doc: Doc) -> tuple[Load | None, list[str]]:
    """From request_rate and max_concurrency (DESIGN section 2), and notes. Raises InputError for a rate <= 0.

    Rates in requests/s; "inf", Infinity and "trace" are words the tools write.
    """
    cap = doc.count("max_concurrency") or None
    rated = doc.any("request_rate")
    if isinstance(rated, str) and rated.lower() == "trace":
        return Load(burst=True), ["requests were sent at the times of a trace: no single load point"]
    if rated is None:
        return (Load(concurrency=cap) if cap else None), []
    rate = None if str(rated).lower() == "nan" else doc.number("request_rate")
    if rate is None and str(rated).lower() not in ("inf", "infinity"):
        return None, ["the request rate is not a number: the load is not known"]
    if rate is not None and rate <= 0:
        raise doc.source.fail(f"a request rate of {rate:g} sends nothing", f"{doc.at}.request_rate")
    if rate is not None and rate < _UNLIMITED_RPS:
        return Load(request_rate=rate, cap=cap), []
    notes = [f"a request rate of {rate:g} req/s sends everything at once: read as no limit"] if rate else []
    return (Load(concurrency=cap) if cap else Load(burst=True)), notes
