"""The run of a database, or of the summary with its percentiles; what the files beside say of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ...model import Aggregate, Counts, Load, Summary
from .. import clocks, kinds, tables
from ..ladders import ladder
from ..source import Doc, Source
from ..told import Counted, Told
from . import KINDS, TITLE, database
from .database import WHOLE

_Points = Mapping[str, list[tuple[float, float]]]  # by metric or tokens: percent and seconds or tokens

_COLUMN = re.compile(r"(TTFT|TPOT|ITL|Latency|Output tokens)(?: \((ms|s)\))?")
_METRICS = {"TTFT": "ttft", "TPOT": "tpot", "ITL": "itl", "Latency": "e2e", "Output tokens": "tokens"}
_SCALE = {"ms": 1e-3, "s": 1.0, None: 1.0}
_MEANS: Mapping[str, tuple[str, ...]] = {  # in seconds with "(s)", else in ms
    "ttft": ("Avg TTFT (ms)", "Average time to first token (s)"),
    "tpot": ("Avg TPOT (ms)", "Average time per output token (s)"),
    "itl": ("Avg ITL (ms)", "Average inter-token latency (s)"),
    "e2e": ("Avg Latency (s)", "Average latency (s)"),
}
_DATABASE = "the benchmark_data.db that evalscope writes beside it"
_METHODS = {
    True: "nearest rank over completed requests, rounded to 4 decimals",
    False: "value of index int(n p / 100), one rank above the nearest at exact multiples, 4 decimals",
    None: "nearest rank over completed requests, rounded to 4 decimals, or the next rank (up to 1.11)",
}
_FOLDER = re.compile(r"(parallel|rate)_(\d+(?:\.\d+)?)_number_(\d{1,9})")
_STAMP = re.compile(r"(?:^|[/\\])(20\d{6})_\d{6}(?:[/\\]|$)")


def decode(source: Source) -> Told:
    """What the file and those beside it say. Raises InputError as the card says, or where one is broken."""
    kind = kinds.result(source, KINDS, TITLE, "pass benchmark_data.db")
    files = {other.name: kinds.beside(source, KINDS, other.name) for other in KINDS[1:]} | {kind.name: source}
    summary, args = (
        Doc(source, {}) if (file := files[f"benchmark_{name}.json"]) is None else file.doc
        for name in ("summary", "args")
    )
    percentiles = files["benchmark_percentile.json"]
    points = _points(percentiles) if percentiles is not None and summary.fields else {}
    # Up to 1.11 the next rank was taken; the argument came with 1.12.
    nearest = "enable_pd_metrics" in args if args.fields else None
    stated = _stated(points, summary)
    rows = kind is KINDS[0]
    told = _rows(source, summary) if rows else _summary(source, summary, stated, nearest)
    if args.any("stream") is False:
        told = replace(told, streamed=False)
    path = source.path.absolute() if source.path is not None else Path()
    stamp = _STAMP.search(args.text("outputs_dir") or str(path))
    named = _FOLDER.fullmatch(path.parent.name)
    # A duration may end the run before its number of requests; a conversation is several of them.
    ends_otherwise = bool(args.any("multi_turn") or args.any("duration"))
    asked = None if ends_otherwise else _scalar(args, "number")
    asked = float(named[3]) if named and not args.fields else asked
    return replace(
        told,
        tool=TITLE,
        stream_with="run evalscope with --stream" if rows or stated else "",
        lengths=ladder(points.get("tokens", ())),
        asked=int(asked) if asked else None,
        asked_with="" if ends_otherwise else "keep benchmark_args.json beside it",
        load=_load(args, summary, named),
        model=args.text("model"),
        date=clocks.day_of(stamp[1]) if stamp else None,
        stated=stated,
        method=_METHODS[nearest],
        notes=tuple(_notes(args, summary, percentiles)),
    )


def _rows(source: Source, summary: Doc) -> Told:
    cells, gaps = database.read(source)
    good = cells["success"] == 1
    streamed = "is_stream" not in cells or bool((cells["is_stream"] == 1).any())
    counted, total = Counted(int(good.sum())), None
    if summary.fields:
        counts, total = _counts(summary)
        counted = Counted(counts.completed, counts.failed, counts.attempted, "benchmark_summary.json")
    return Told(
        format="evalscope database",
        evidence=tables.requests(
            errors=~good,
            ttft_s=cells["first_chunk_latency"],
            e2e_s=cells["latency"],
            output_tokens=cells["completion_tokens"],
            input_tokens=cells.get("prompt_tokens"),
            start_s=cells["start_time"],
            gaps=gaps,
            order="completion",
        ),
        retries=0,  # the client sends each request once
        counted=counted,
        output_tokens=total,
        duration_s=clocks.span_s(cells["start_time"], cells["completed_time"]),
        streamed=None if streamed else False,
        has_gaps="pieces" in cells,
        pieces=cells.get("pieces"),
        messages=["" if done else "evalscope stores no reason" for done in good.tolist()],
    )


def _summary(source: Source, summary: Doc, stated: Mapping[str, Summary], nearest: bool | None) -> Told:
    if not summary.fields:
        why = "does not say how many requests were sent and failed"
        raise source.fail(why, hint="keep benchmark_summary.json beside it")
    counts, total = _counts(summary)
    ranked = {metric: _ranked(metric, s, counts.completed, nearest) for metric, s in stated.items()}
    return Told(
        format="evalscope summary",
        evidence=Aggregate(ranked, "inverted_cdf", 0.5e-4, _DATABASE),  # four decimals are printed
        retries=0,
        counts=counts,
        output_tokens=total,
        duration_s=_first(summary.number, "Test Duration (s)", "Time taken for tests (s)"),
        streamed=False if summary.count("Stream Requests") == 0 else None,
    )


def _notes(args: Doc, summary: Doc, percentiles: Source | None) -> Iterator[str]:
    """On numbers of evalscope whose names say something else, and on what it leaves out."""
    yield "E2E ends with the usage chunk, after the last token"
    if (per := summary.number("Avg Decoded Tok/Iter") or 0.0) > 1.05:
        yield (
            f"a chunk holds {per:g} tokens on average: ITL is per chunk, and evalscope's Spec. Accept Rate is"
            " made from that, whether or not the server speculates"
        )
    if percentiles is not None and "Percentile" in percentiles.keys:
        yield "what evalscope 0.10 calls percentiles of TPOT are gaps between chunks: read as ITL"
    wanted = _scalar(args, "warmup_num") or 0.0  # a number of requests, or below 1 a share, at least one
    if wanted > 0:
        warmup = int(wanted) if wanted >= 1 else max(1, int(wanted * (_scalar(args, "number") or 0)))
        yield f"evalscope keeps no record of its {warmup} warm-up requests"


def _first(read: Callable[[str], float | None], *keys: str) -> float | None:
    """The value under the first of these keys that has one."""
    return next((value for key in keys if (value := read(key)) is not None), None)


def _counts(summary: Doc) -> tuple[Counts, float | None]:
    """As stated, with the output tokens of all by their mean. Raises InputError where a count is missing."""
    sent = _first(summary.count, "Total Requests", "Total requests")
    done = _first(summary.count, "Success Requests", "Succeed requests")
    failed = _first(summary.count, "Failed Requests", "Failed requests")
    if sent is None or done is None or failed is None:
        why = "does not say how many requests were sent, completed and failed"
        raise summary.source.fail(why, summary.at, WHOLE)
    mean = _first(summary.number, "Avg Output Tokens", "Average output tokens per request")
    total = None if mean is None or mean < 0 else float(round(mean * done))
    return Counts(int(sent), int(done), int(failed)), total


def _points(source: Source) -> _Points:
    """benchmark_percentile.json by metric; "min" is 0 and "max" 100.

    In files of 0.10, which call the first column Percentile, TPOT holds the gaps between chunks.
    """
    points: dict[str, list[tuple[float, float]]] = {}
    for number, fields in enumerate(source.array(dict[str, msgspec.Raw])):
        row = Doc(source, fields, f"$[{number}]")
        percent = _percent(row)
        for key in fields:
            named = _COLUMN.fullmatch(key)
            value = row.number(key) if named else None
            if named is not None and value is not None:
                metric = "itl" if named[1] == "TPOT" and "Percentile" in row else _METRICS[named[1]]
                points.setdefault(metric, []).append((percent, value * _SCALE[named[2]]))
    return points


def _percent(row: Doc) -> float:
    text = row.text("Percentiles") or row.text("Percentile") or ""
    digits = re.fullmatch(r"(\d+(?:\.\d+)?)%", {"min": "0%", "max": "100%"}.get(text, text))
    if digits is None or float(digits[1]) > 100:
        raise row.source.fail(f'"{text}" is no percentile', row.at, WHOLE)
    return float(digits[1])


def _stated(points: _Points, summary: Doc) -> Mapping[str, Summary]:
    """evalscope's own percentiles and means by metric. A mean below 0 stands for none."""
    stated = {}
    for metric, keys in _MEANS.items():
        mean = _first(summary.number, *keys)
        if mean is None or mean < 0 or (metric == "tpot" and "Average package latency (s)" in summary):
            mean = None  # 0.10: its "time per output token" is test duration / tokens
        elif any(key in summary for key in keys if key.endswith("(ms)")):
            mean /= 1000
        pairs = points.get(metric, [])
        inner, ends = [pair for pair in pairs if 0 < pair[0] < 100], dict(pairs)
        if pairs:
            stated[metric] = ladder(inner, mean=mean, low=ends.get(0.0), high=ends.get(100.0))
    return stated


def _ranked(metric: str, stated: Summary, n: int, nearest: bool | None) -> Summary:
    """Percentiles by nearest rank. Up to 1.11 the tool took the next rank where n p / 100 is whole.

    Such a value is given at its true rank, or left out when the version is not known.
    """
    points = stated.percentiles
    if not nearest:
        kept = [pair for pair in points if not float(n * pair[0] / 100).is_integer()]
        true = 50 / n if nearest is False and n else None
        moved = [(p + true, value) for p, value in points if (p, value) not in kept] if true else []
        points = tuple(sorted((*kept, *moved)))
    # Of TPOT and ITL nothing says how many values there are.
    return replace(stated, percentiles=points, n=n if metric in ("ttft", "e2e") else None)


def _scalar(args: Doc, key: str) -> float | None:
    """A number; a list of them is a sweep's."""
    return args.number(key) if isinstance(args.any(key), (int, float)) else None


def _load(args: Doc, summary: Doc, named: re.Match[str] | None) -> Load | None:
    """By the arguments, the summary or the folder's name. A rate of -1 is none, -1 in flight is no cap."""
    value = float(named[2]) if named else None
    sweep = isinstance(args.any("rate"), list) or isinstance(args.any("parallel"), list)
    for rate, parallel in (
        (None, None) if sweep else (_scalar(args, "rate"), _scalar(args, "parallel")),
        (
            _first(summary.number, "Request Rate (req/s)", "Request rate (req/s)"),
            _first(summary.number, "Concurrency", "Number of concurrency"),
        ),
        (value, None) if named and named[1] == "rate" else (None, value),
    ):
        cap = int(parallel) if parallel and parallel > 0 else None
        if rate and rate > 0:
            # Without --open-loop a rate only spaces the requests of `parallel` workers: they cap it.
            return Load(request_rate=rate, cap=None if args.any("open_loop") is True else cap)
        if cap:
            return Load(concurrency=cap)
    return None
