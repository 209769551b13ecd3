"""What evalscope perf writes into one folder, and what the files beside a result say of the run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ...model import Load
from .._source import Doc, Source

TITLE = "evalscope perf"
DEFINITIONS: Mapping[str, str] = {
    "ttft": "first_chunk_latency: send to first non-empty content or reasoning; E2E where not streamed",
    "e2e": "latency: send to the last JSON chunk, the usage chunk included, after the last token",
    "tpot": "time_per_output_token: (latency - first_chunk_latency) / (tokens - 1); 0 for one token",
    "itl": "inter_token_latencies: gap between two streamed chunks, of several tokens or one",
}
LATE = "E2E ends with the usage chunk, after the last token"
WHOLE = "copy evalscope's output folder whole, or run the benchmark again"
SUCCEEDED = ("Success Requests", "Succeed requests")  # from 1.8 on, before
_SUMMARY = (
    frozenset(("Success Requests", "Avg Latency (s)")),
    frozenset(("Succeed requests", "Average latency (s)")),
)
_ARGS = frozenset(("tokenizer_path", "outputs_dir", "dataset", "parallel", "number", "api"))
_CUT_SUMMARY = re.compile(r'\s*\{\s*"(Test Duration|Time taken for tests) \(s\)"\s*:')
_CUT_PERCENTILES = re.compile(r'\s*\[\s*\{\s*"Percentiles?"\s*:')
_MAGIC = "SQLite format 3\0"
_FOLDER = re.compile(r"(parallel|rate)_([0-9.]+)_number_\d+")
_STAMP = re.compile(r"(?:^|[/\\])(20\d{2})(\d{2})(\d{2})_\d{6}(?:[/\\]|$)")
_NAMES = (
    "benchmark_data.db",
    "benchmark_summary.json",
    "benchmark_percentile.json",
    "benchmark_args.json",
)


class Facts(Struct, frozen=True):
    """What the arguments and the folder say of a run."""

    model: str | None = None
    load: Load | None = None
    date: str | None = None
    number: int | None = None  # requests asked for
    warmup: int = 0
    streams: bool | None = None
    nearest_rank: bool | None = None  # of percentiles: from 1.12 on


def kind(source: Source) -> str | None:
    """database, summary, percentiles, args, or None for a file that is not evalscope's."""
    if source.shape == "binary":
        head = source.head
        ours = head.startswith(_MAGIC) and "first_chunk_latency" in head
        return "database" if ours and ("inter_token_latencies" in head or "chunk_times" in head) else None
    if source.shape == "broken":
        return "summary" if _CUT_SUMMARY.match(source.head) else None
    if source.shape == "array":
        return "percentiles" if _CUT_PERCENTILES.match(source.head) else None
    if source.shape != "object":
        return None
    if any(source.keys >= keys for keys in _SUMMARY):
        return "summary"
    return "args" if source.keys >= _ARGS else None


def place(source: Source) -> object:
    """Folder and what stands before the file's usual name; the whole name where it is another."""
    if source.path is None:
        return source.name
    name = source.path.name.removesuffix(".gz")
    for usual in _NAMES:
        if name.endswith(usual):
            return source.path.parent, name.removesuffix(usual)
    return source.path


def beside(source: Source, usual: str) -> Source | None:
    """The run's other file, None where there is none."""
    where = place(source)
    if not isinstance(where, tuple):
        return None
    return source.beside(where[1] + usual) or source.beside(where[1] + usual + ".gz")


def facts(source: Source, summary: Doc | None) -> Facts:
    """From benchmark_args.json; the load else from the summary, else from the folder's name.

    Raises InputError when one of them is broken.
    """
    file = beside(source, "benchmark_args.json")
    args = file.doc if file is not None else None
    folder = source.path.parent.name if source.path is not None else ""
    where = (args.text("outputs_dir") if args else None) or _path(source.path)
    number = args.number("number") if args and isinstance(args.any("number"), (int, float)) else None
    stamp = _STAMP.search(where)
    conversations = bool(args and args.any("multi_turn"))
    return Facts(
        model=args.text("model") if args else None,
        load=(_stated(args) if args else None) or _summarised(summary) or _named(folder),
        date="-".join(stamp.groups()) if stamp else None,
        number=int(number) if number and not conversations else None,
        warmup=_warmup(args, number),
        streams=_flag(args.any("stream")) if args else None,
        nearest_rank="enable_pd_metrics" in args if args else None,
    )


def _path(path: Path | None) -> str:
    return str(path.absolute()) if path is not None else ""


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _warmup(args: Doc | None, number: float | None) -> int:
    """--warmup-num: a number of requests, or below 1 a share of them, at least one."""
    said = args.number("warmup_num") if args and isinstance(args.any("warmup_num"), (int, float)) else None
    if not said or said <= 0:
        return 0
    return int(said) if said >= 1 else max(1, int(said * (number or 0)))


def _stated(args: Doc) -> Load | None:
    if not all(isinstance(args.any(key), (int, float)) for key in ("parallel", "rate") if key in args):
        return None
    # Without --open-loop a rate only spaces the requests of `parallel` workers: they cap it.
    capped = args.any("open_loop") is not True
    return _load(args.number("rate"), args.number("parallel"), capped=capped)


def _summarised(summary: Doc | None) -> Load | None:
    if summary is None:
        return None
    rate = summary.number("Request Rate (req/s)") or summary.number("Request rate (req/s)")
    parallel = summary.number("Concurrency") or summary.number("Number of concurrency")
    return _load(rate, parallel, capped=True)


def _named(folder: str) -> Load | None:
    found = _FOLDER.fullmatch(folder)
    try:
        value = float(found[2]) if found else None
    except ValueError:
        return None
    return (
        _load(value, None, capped=False) if found and found[1] == "rate" else _load(None, value, capped=True)
    )


def _load(rate: float | None, parallel: float | None, *, capped: bool) -> Load | None:
    """A rate above 0 is an open loop (-1 is none); -1 in flight is no cap."""
    cap = int(parallel) if parallel and parallel > 0 else None
    if rate and rate > 0:
        return Load(request_rate=rate, cap=cap if capped else None)
    return Load(concurrency=cap) if cap else None
