"""What evalscope perf writes into one folder, and what the files beside a result say of the run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ...model import Load
from ..source import Doc, Source
from . import SIDE_FILES, kind

LATE = "E2E ends with the usage chunk, after the last token"
WHOLE = "copy evalscope's output folder whole, or run the benchmark again"
SUCCEEDED = ("Success Requests", "Succeed requests")  # from 1.8 on, before
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


def place(source: Source) -> object:
    """Folder and what stands before the file's usual name; the whole name where it is another."""
    if source.path is None:
        return source.name
    name = source.path.name.removesuffix(".gz")
    for usual in _NAMES:
        if name.endswith(usual):
            return source.path.parent, name.removesuffix(usual)
    return source.path


def companions(sources: Sequence[Source]) -> Mapping[Source, str]:
    """In one folder the database covers the summary, the summary the percentiles, and any the arguments."""
    kinds = {source: kind(source) for source in sources}
    richest: dict[object, Source] = {}
    for rank in ("args", "percentiles", "summary", "database"):
        richest |= {place(source): source for source, k in kinds.items() if k == rank}
    taken = {}
    for source, k in kinds.items():
        other = richest.get(place(source), source)
        if other is not source and k != kinds[other]:
            taken[source] = f"belongs to {other.name}, which is read"
    if any(k != "args" for k in kinds.values()):
        taken |= {s: SIDE_FILES["benchmark_args.json"] for s, k in kinds.items() if k == "args"}
    return taken


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
