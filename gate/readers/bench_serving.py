"""What vLLM's benchmark_serving.py and its forks have in common: statistics, parallel arrays, load.

SGLang, TensorRT-LLM and InferenceX each began as a copy of that script; what only one of them does
is in its own reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np

from ..model import METRICS, Aggregate, Counts, Floats, Gaps, Load, Summary, ToolReported
from . import tables
from .bursts import AT_ONCE, AT_ONCE_TPOT_S, BLIND_TPOT_S, NOT_STREAMED
from .source import Doc, Source

UNSENT = 0.01  # a larger share of prompts without a row may hide failures
WHOLE = "run the benchmark again, or use the file as the tool wrote it"
METHOD = "numpy linear over completed requests"
_LIMIT = 1e12  # seconds or tokens: beyond it lies no measurement, and sums would overflow
_ROUNDING = 1e-9
_UNLIMITED_RPS = 1e6  # no client sends faster: a "rate" for "all at once"

_SAME_S = 1e-9  # two clock readings this close are one
_LONG_S = 60.0  # from here on the last responses do not decide how long a run took
ONE_TOKEN = "every response had one token, so there is no time between tokens; ask for longer outputs"
_ZERO = "a percentile of exactly 0 is no measurement; {} shows which requests have no value"

Stated = Mapping[str, Mapping[str, float]]  # metric -> mean, median, p99, ... in seconds


# ---- statistics ---------------------------------------------------------------------------


def statistics(doc: Doc, suffix: str, per_second: float, missing_s: float | None = None) -> Stated:
    """The tool's own statistics in seconds, from keys like p99_ttft and `suffix`.

    `per_second` is 1000 for milliseconds; a value of `missing_s` is the tool's word for none.
    Raises InputError for another negative one.
    """
    pattern = re.compile(rf"(mean|median|p\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el|e2e_latency){suffix}")
    found: dict[str, dict[str, float]] = {}
    for key in doc.fields:
        parts = pattern.fullmatch(key)
        value = doc.number(key) if parts else None
        if parts is None or value is None or value / per_second == missing_s:
            continue
        if value < 0:
            raise doc.source.fail(f"a negative latency: {value:g}", f"{doc.at}.{key}", WHOLE)
        metric = "e2e" if parts[2].startswith("e2e") else parts[2]
        found.setdefault(metric, {})[parts[1]] = value / per_second
    return found


def summary(doc: Doc, metric: str, named: Mapping[str, float], n: int | None = None) -> Summary:
    """Percentiles and mean without zeros, which are no values. Raises InputError when percentiles fall."""
    points = {50.0: named["median"]} if "median" in named else {}
    points |= {float(name[1:]): value for name, value in named.items() if name[0] == "p"}
    ordered = tuple(sorted((percent, value) for percent, value in points.items() if value > 0))
    if any(percent > 100 for percent, _ in ordered):
        raise doc.source.fail(f"a percentile of {metric} beyond 100", doc.at, WHOLE)
    if any(later < earlier * (1 - _ROUNDING) for (_, earlier), (_, later) in pairwise(ordered)):
        raise doc.source.fail(f"contradicts itself: percentiles of {metric} that fall", doc.at, WHOLE)
    return Summary(ordered, named.get("mean") or None, n=n)


def aggregate(doc: Doc, stated: Stated, completed: int, settled_by: str) -> Aggregate:
    """Evidence of percentiles alone; how many values are behind TPOT and ITL no file says."""
    of = dict.fromkeys(("ttft", "e2e"), completed)
    found = {metric: summary(doc, metric, named, of.get(metric)) for metric, named in stated.items()}
    return Aggregate({m: s for m, s in found.items() if s.percentiles and completed}, settled_by=settled_by)


def reported(doc: Doc, stated: Stated) -> dict[str, ToolReported]:
    """The same as the tool's own statement."""
    found = {metric: summary(doc, metric, named) for metric, named in stated.items()}
    return {m: ToolReported(s.percentiles, METHOD, s.mean) for m, s in found.items() if s.percentiles}


def unsuitable(stated: Stated, evidence: Aggregate, absent: str) -> dict[str, str]:
    """Metrics that percentiles alone cannot settle, and why: absent, zero or not streamed."""
    why = {m: absent.format(m.upper()) for m in METRICS if m not in evidence.summaries}
    for metric, named in stated.items():
        if any(value == 0 for name, value in named.items() if name != "mean"):
            why[metric] = _ZERO.format(evidence.settled_by)
    if _at_once(stated):
        why |= dict.fromkeys(("ttft", "tpot", "itl"), NOT_STREAMED)
    return why


def _at_once(stated: Stated) -> bool:
    tpot, ttft, e2e = (stated.get(m, {}).get("median") for m in ("tpot", "ttft", "e2e"))
    if not tpot or not ttft or tpot >= AT_ONCE_TPOT_S:  # of the medians, as streaming has it of rows
        return False
    return ttft >= (1 - AT_ONCE) * e2e if e2e else tpot < BLIND_TPOT_S


# ---- rows ---------------------------------------------------------------------------------


def columns(doc: Doc, names: tuple[str, ...], required: int, hint: str) -> dict[str, Floats | None]:
    """Arrays of numbers by name, the first `required` of them present.

    Raises InputError for a missing or absurd one. Seconds or tokens, as the tool writes them.
    """
    found = {name: doc.floats(name) for name in names}
    for name in names[:required]:
        if found[name] is None:
            raise doc.source.fail(f"has no `{name}`", doc.at, hint)
    for name, column in found.items():
        if column is not None and (np.abs(column) > _LIMIT).any():
            raise doc.source.fail("a value that nothing measures", f"{doc.at}.{name}", WHOLE)
        if column is not None and name.endswith("_lens") and (column < 0).any():
            raise doc.source.fail(f"a negative token count: {column.min():g}", f"{doc.at}.{name}", WHOLE)
    return found


def messages(doc: Doc, key: str = "errors") -> list[str] | None:
    """One text a request, "" where there was no error; None where the file has none."""
    if key not in doc:
        return None
    return [text or "" for text in doc.get(key, list[str | None]) or []]


def same_length(doc: Doc, lengths: Mapping[str, int]) -> None:
    """Raises InputError, naming each array, when lengths differ."""
    if len(set(lengths.values())) > 1:
        named = ", ".join(f"{key} {length}" for key, length in lengths.items())
        raise doc.source.fail(f"contradicts itself: arrays of different length ({named})", doc.at, WHOLE)


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
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
    rows = doc.get("itls", list[msgspec.Raw]) or []
    same_length(doc, {"ttfts": len(ttft_s), "itls": len(rows)})
    sums_s, number = np.zeros(len(rows)), np.zeros(len(rows))
    kept: list[Floats] = []
    led_by_ttft = 0
    for i, (raw, first, count) in enumerate(zip(rows, ttft_s.tolist(), tokens.tolist(), strict=True)):
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
        raise doc.source.fail("a gap between chunks that nothing measures", at, WHOLE)
    return gaps


def against_totals(doc: Doc, counts: Counts, tokens: float | None) -> list[str]:
    """Rows against the file's own totals. Raises InputError where both cannot be true."""
    completed, asked, rows = doc.count("completed"), doc.count("num_prompts"), counts.attempted
    notes: list[str] = []
    if completed is not None and (completed > rows or counts.completed > completed):
        why = f"contradicts itself: it says completed {completed}, of its {rows} rows {counts.completed} are"
        raise doc.source.fail(why, f"{doc.at}.completed", WHOLE)
    if completed is not None and counts.completed < completed:
        notes.append(f"the tool counts {completed} completed, slo-gate {counts.completed}")
    if asked is not None and asked < rows:
        raise doc.source.fail(f"contradicts itself: {rows} rows of {asked} prompts", doc.at, WHOLE)
    total = doc.number("total_output_tokens")
    if total and tokens is not None and abs(total - tokens) > tables.MISMATCH * total:
        notes.append(f"output tokens: the rows sum to {tokens:.0f}, the file's total says {total:.0f}")
    return notes


# ---- around them --------------------------------------------------------------------------


def load(doc: Doc) -> tuple[Load | None, list[str]]:
    """From request_rate and max_concurrency (DESIGN section 2), and notes. Raises InputError for a rate <= 0.

    Rates in requests/s; "inf", Infinity and "trace" are words the tools write.
    """
    cap = doc.count("max_concurrency") or None
    stated = doc.any("request_rate")
    if isinstance(stated, str) and stated.lower() == "trace":
        return Load(burst=True), ["requests were sent at the times of a trace: no single load point"]
    if stated is None:
        return (Load(concurrency=cap) if cap else None), []
    rate = None if str(stated).lower() == "nan" else doc.number("request_rate")
    if rate is None and str(stated).lower() not in ("inf", "infinity"):
        return None, ["the request rate is not a number: the load is not known"]
    if rate is not None and rate <= 0:
        raise doc.source.fail(f"a request rate of {rate:g} sends nothing", f"{doc.at}.request_rate")
    if rate is not None and rate < _UNLIMITED_RPS:
        return Load(request_rate=rate, cap=cap), []
    notes = [f"a request rate of {rate:g} req/s sends everything at once: read as no limit"] if rate else []
    return (Load(concurrency=cap) if cap else Load(burst=True)), notes


def pace_notes(of: Load | None, counts: Counts, duration_s: float | None, longest_s: float) -> list[str]:
    """An open loop that did not keep its rate. `longest_s` is the longest E2E, 0 where unknown."""
    rate = of.request_rate if of else None
    if not rate or not duration_s or counts.attempted < 2:
        return []
    wanted_s = counts.attempted / rate
    if duration_s > 1.25 * wanted_s and wanted_s >= _LONG_S:
        done = counts.completed / duration_s
        return [
            f"{done:.3g} req/s were completed of the {rate:g} req/s asked for: the server or the client did "
            "not keep up, so latencies grow with the length of the run"
        ]
    sending_s = duration_s - longest_s  # the last request began no earlier than this
    slack = 1 + max(0.1, 3 / counts.attempted**0.5)  # arrivals are random
    if longest_s and sending_s > slack * wanted_s:
        sent = counts.attempted / sending_s
        return [f"the client sent at most {sent:.3g} req/s of the {rate:g} req/s asked for: it was saturated"]
    return []


def docs(source: Source) -> Iterator[Doc]:
    """The objects of a file, also of a list of them."""
    if source.shape != "array":
        yield from source.docs()
        return
    for number, fields in enumerate(source.array(dict[str, msgspec.Raw])):
        yield Doc(source, fields, f"$[{number}]")


def date(doc: Doc) -> str | None:
    """`date` is written as 20261129-145532, in the client's local time, at the end of the run."""
    found = re.fullmatch(r"(\d{4})(\d{2})(\d{2})-\d{6}", doc.text("date") or "")
    return "-".join(found.groups()) if found else None


def duration(doc: Doc) -> float | None:
    """`duration` in seconds. Raises InputError for a negative one."""
    value = doc.number("duration")
    if value is not None and value < 0:
        raise doc.source.fail(f"contradicts itself: a duration of {value:g} s", f"{doc.at}.duration")
    return value or None


def goodput_note(doc: Doc, completed: int, *keys: str) -> list[str]:
    """What the tool calls goodput (good req/s), as a share of its completed requests."""
    good = next((value for key in keys if (value := doc.number(key)) is not None), None)
    seconds = doc.number("duration")
    if good is None or not seconds or not completed:
        return []
    return [
        f"the tool says goodput {good:.4g} req/s: {good * seconds / completed:.1%} of its completed "
        "requests, by bounds the file does not hold and with single-token TPOT as 0; slo-gate counts over "
        "attempted"
    ]


def unsent(asked: int, rows: int) -> dict[str, str]:
    """Why the attempted requests are not known, where more than 1 % of the prompts have no row."""
    if asked - rows <= UNSENT * asked:
        return {}
    why = f"{asked} prompts were asked for and {rows} are in the file: the rest may have failed"
    return {"attempted": f"{why}; run the benchmark again, or keep the file as the tool wrote it"}
