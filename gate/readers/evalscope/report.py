"""evalscope's own statistics: benchmark_summary.json for counts and means, benchmark_percentile.json."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from ...model import METRICS, Aggregate, Counts, Run, Summary, ToolReported
from ..source import Doc, Source
from . import DEFINITIONS, TITLE, files

_COLUMN = re.compile(r"(TTFT|TPOT|ITL|Latency) \((ms|s)\)")
_METRICS = {"TTFT": "ttft", "TPOT": "tpot", "ITL": "itl", "Latency": "e2e"}
_SCALE = {"ms": 1e-3, "s": 1.0}
_MEANS: Mapping[str, tuple[str, float]] = {
    "Avg TTFT (ms)": ("ttft", 1e-3),
    "Avg TPOT (ms)": ("tpot", 1e-3),
    "Avg ITL (ms)": ("itl", 1e-3),
    "Avg Latency (s)": ("e2e", 1.0),
    "Average time to first token (s)": ("ttft", 1.0),
    "Average time per output token (s)": ("tpot", 1.0),
    "Average inter-token latency (s)": ("itl", 1.0),
    "Average latency (s)": ("e2e", 1.0),
}
_HALF_DIGIT = 0.5e-4  # four decimals are printed
_DATABASE = "the benchmark_data.db that evalscope writes beside it"
NEAREST = "nearest rank over completed requests, rounded to 4 decimals"
HIGHER = "value of index int(n p / 100), one rank above the nearest at exact multiples, 4 decimals"

_NO_PERCENTILE = f"the files state no percentile of {{}}; keep {_DATABASE}"
_ZERO = f"a percentile of 0 is no measurement: not streamed, or one token an answer; keep {_DATABASE}"
_NOT_STREAMED = "the run did not stream, so TTFT is E2E and there is no time between tokens; use --stream"


def read(source: Source, found: str) -> Run:
    """The run of a summary, a list of percentiles, or both side by side. Raises InputError without counts."""
    other = files.beside(
        source, "benchmark_" + ("summary" if found == "percentiles" else "percentile") + ".json"
    )
    summary, rows = (other, source) if found == "percentiles" else (source, other)
    if summary is None:
        why = "does not say how many requests were sent and failed"
        raise source.fail(why, hint="keep benchmark_summary.json beside it")
    doc = summary.doc
    counted = counts(doc)
    facts = files.facts(source, doc)
    stated = percentiles(rows) if rows is not None else {}
    summaries = _summaries(doc, stated, counted, facts.nearest_rank)
    unsuitable = _unsuitable(doc, summaries, facts) if counted.completed else {}
    sound = {metric: one for metric, one in summaries.items() if metric not in unsuitable}
    return Run(
        input=source.name,
        sha256=source.sha256,
        format="evalscope summary",
        tool=TITLE,
        evidence=Aggregate(sound, "inverted_cdf", _HALF_DIGIT, _DATABASE),
        counts=counted,
        model=facts.model,
        load=facts.load,
        duration_s=duration(doc),
        date=facts.date,
        total_output_tokens=_output_total(doc, counted),
        streaming=False if _NOT_STREAMED in unsuitable.values() else None,
        definitions=DEFINITIONS,
        tool_reported=reported(doc, stated, facts.nearest_rank),
        unsuitable=unsuitable,
        notes=(files.LATE, *odd_names(doc, rows)),
    )


def counts(doc: Doc) -> Counts:
    """As stated. Raises InputError when they are missing or do not add up."""
    sent = _either(doc, "Total Requests", "Total requests")
    done, failed = _either(doc, *files.SUCCEEDED), _either(doc, "Failed Requests", "Failed requests")
    if sent is None or done is None or failed is None:
        raise doc.source.fail(
            "does not say how many requests were sent, completed and failed", doc.at, files.WHOLE
        )
    if done + failed != sent:
        why = f"contradicts itself: {done} completed and {failed} failed are not {sent}"
        raise doc.source.fail(why, doc.at, files.WHOLE)
    return Counts(sent, done, failed)


def _either(doc: Doc, *keys: str) -> int | None:
    return next((number for key in keys if (number := doc.count(key)) is not None), None)


def duration(doc: Doc) -> float | None:
    """First start to last completion in seconds, failed requests included."""
    said = doc.number("Test Duration (s)") or doc.number("Time taken for tests (s)")
    return said if said and said > 0 else None


def _output_total(doc: Doc, counted: Counts) -> float | None:
    mean = doc.number("Avg Output Tokens") or doc.number("Average output tokens per request")
    return None if mean is None or mean < 0 else float(round(mean * counted.completed))


def percentiles(source: Source) -> dict[str, tuple[tuple[float, float], ...]]:
    """Metric -> (percent, seconds), ascending; "min" is 0 and "max" 100.

    In files of 0.10, which call the first column Percentile, TPOT holds the gaps between chunks.
    Raises InputError for percentiles that fall.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for number, fields in enumerate(source.array(dict[str, msgspec.Raw])):
        row = Doc(source, fields, f"$[{number}]")
        percent = _percent(row)
        for key in fields:
            named = _COLUMN.fullmatch(key)
            value = row.number(key) if named else None
            if named is None or value is None:
                continue
            metric = "itl" if named[1] == "TPOT" and "Percentile" in row else _METRICS[named[1]]
            found.setdefault(metric, []).append((percent, value * _SCALE[named[2]]))
    for metric, points in found.items():
        points.sort()
        if any(later < earlier for (_, earlier), (_, later) in pairwise(points)):
            why = f"contradicts itself: a higher percentile of {metric.upper()} is lower"
            raise source.fail(why, hint=files.WHOLE)
    return {metric: tuple(points) for metric, points in found.items()}


def _percent(row: Doc) -> float:
    text = row.text("Percentiles") or row.text("Percentile") or ""
    named = {"min": 0.0, "max": 100.0}.get(text)
    digits = re.fullmatch(r"(\d+(?:\.\d+)?)%", text)
    percent = named if named is not None else float(digits[1]) if digits else -1.0
    if not 0 <= percent <= 100:
        raise row.source.fail(f'"{text}" is no percentile', row.at, files.WHOLE)
    return percent


def _summaries(
    doc: Doc,
    stated: Mapping[str, Sequence[tuple[float, float]]],
    counted: Counts,
    nearest_rank: bool | None,
) -> dict[str, Summary]:
    means = _means(doc)
    found = {}
    for metric, points in stated.items():
        values = dict(points)
        # Of TPOT and ITL nothing says how many values there are.
        n = counted.completed if metric in ("ttft", "e2e") else None
        inner = [(p, v) for p, v in points if 0 < p < 100]
        found[metric] = Summary(
            tuple(_ranked(inner, counted.completed, nearest_rank)),
            means.get(metric),
            values.get(0.0),
            values.get(100.0),
            n,
        )
    return found


def _ranked(
    points: Sequence[tuple[float, float]], n: int, nearest_rank: bool | None
) -> list[tuple[float, float]]:
    """Percentiles by nearest rank. Up to 1.11 the tool took the next rank where n p / 100 is whole.

    Such a value is given at its true rank, or left out when the version is not known.
    """
    if nearest_rank:
        return list(points)
    ranked = []
    for percent, value in points:
        whole = float(n * percent / 100).is_integer()
        if not whole:
            ranked.append((percent, value))
        elif nearest_rank is False:
            ranked.append((percent + 50 / n, value))
    return ranked


def _means(doc: Doc) -> dict[str, float]:
    """Means in seconds; below 0 stands for none."""
    found = {
        metric: value * scale
        for key, (metric, scale) in _MEANS.items()
        if (value := doc.number(key)) is not None and value >= 0
    }
    if "Average package latency (s)" in doc:  # 0.10: its "time per output token" is test duration / tokens
        found.pop("tpot", None)
    return found


def reported(
    doc: Doc, stated: Mapping[str, tuple[tuple[float, float], ...]], nearest_rank: bool | None
) -> dict[str, ToolReported]:
    """evalscope's own percentiles and means."""
    means = _means(doc)
    method = {True: NEAREST, False: HIGHER, None: f"{NEAREST}, or the next rank (up to 1.11)"}[nearest_rank]
    return {
        metric: ToolReported(tuple((p, v) for p, v in points if 0 < p < 100), method, means.get(metric))
        for metric, points in stated.items()
    }


def _unsuitable(doc: Doc, summaries: Mapping[str, Summary], facts: files.Facts) -> dict[str, str]:
    why = {}
    for metric in METRICS:
        one = summaries.get(metric)
        if one is None or not (one.percentiles or one.max):
            why[metric] = _NO_PERCENTILE.format(metric.upper())
        elif (one.max or max((v for _, v in one.percentiles), default=0.0)) <= 0 or _any_zero(metric, one):
            why[metric] = _ZERO
    if facts.streams is False or doc.count("Stream Requests") == 0:
        why |= dict.fromkeys(("ttft", "tpot", "itl"), _NOT_STREAMED)
    return why


def _any_zero(metric: str, one: Summary) -> bool:
    """Gaps of 0 are values; a latency of 0 is none."""
    return metric != "itl" and any(value <= 0 for _, value in one.percentiles)


def odd_names(doc: Doc, rows: Source | None) -> tuple[str, ...]:
    """Notes on numbers of evalscope whose names say something else."""
    notes = []
    if "Avg Decoded Tok/Iter" in doc and (doc.number("Avg Decoded Tok/Iter") or 0) > 1.05:
        per = doc.number("Avg Decoded Tok/Iter")
        notes.append(
            f"a chunk holds {per:g} tokens on average: ITL is per chunk, and evalscope's Spec. Accept Rate is"
            " made from that, whether or not the server speculates"
        )
    if rows is not None and "Percentile" in rows.keys:
        notes.append(
            "in files of evalscope 0.10 the percentiles called TPOT are gaps between chunks: read as ITL"
        )
    return tuple(notes)
