"""Which requests missed and where the time went, in rows and lines. Cells are inert on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model import Attribution, LengthBucket, Misses, Percentiles, Report, TtftParts, WorstRequest
from ..units import RATIO, SECONDS, SHARE, show
from . import format as f
from .tables import Table, table_of

RUNS = 3  # worst runs shown; the JSON report has up to ten
_CAUSES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E", "several": "several", "failed": "failed"}


def length_tables(report: Report) -> tuple[tuple[str, Table], ...]:
    """(title, table): E2E by output length always, TTFT by input length where lengths differ."""
    found = report.attribution
    if found is None:
        return ()
    outputs, inputs = found.by_output_length, found.by_input_length
    known = any(bucket.good not in (None, bucket.n) for bucket in (*inputs, *outputs))
    misses = ", and misses by the only bound they broke" if known else ""
    tables = []
    if outputs:
        tables.append((f"E2E by output length (tokens){misses}", _length_table(outputs, "e2e_s")))
    if len(inputs) > 1:
        tables.append((f"TTFT by input length (tokens){misses}", _length_table(inputs, "ttft_s")))
    return tuple(tables)


def _length_table(buckets: Sequence[LengthBucket], column: str) -> Table:
    """Causes that no bucket has are left out."""
    counted = [_missed(bucket.misses) for bucket in buckets]
    causes = [label for label in _CAUSES.values() if any(number.get(label, "0") != "0" for number in counted)]
    rows = [
        {
            "length": f"{bucket.low:,}"
            if bucket.low == bucket.high
            else f"{bucket.low:,} to {bucket.high:,}",
            "n": f.count(bucket.n),
            **_percentiles(getattr(bucket, column)),
            "good": "" if bucket.good is None else f.count(bucket.good),
            **{label: number.get(label, "") for label in causes},
        }
        for bucket, number in zip(buckets, counted, strict=True)
    ]
    return table_of(rows, set(rows[0]) - {"length"})


def _percentiles(values: Percentiles | None) -> dict[str, str]:
    return {
        name.upper(): "" if values is None else show(getattr(values, name), SECONDS) for name in f.PERCENTILES
    }


def _missed(misses: Misses | None) -> dict[str, str]:
    if misses is None:
        return {}
    return {label: f.count(getattr(misses, cause)) for cause, label in _CAUSES.items()}


def worst_table(report: Report) -> Table | None:
    """The worst completed requests: those that broke a bound, or the slowest where no bound is known."""
    worst = report.attribution.worst_requests if report.attribution else ()
    if any(one.times_bound is not None for one in worst):
        worst = tuple(one for one in worst if one.broke)
    if not worst:
        return None
    several = len({one.input for one in worst}) > 1
    rows = [_worst(one, several) for one in worst]
    return table_of(rows, set(rows[0]) - {"id", "broke", "input"})


def _worst(request: WorstRequest, several: bool) -> dict[str, str]:
    return {
        "row": str(request.row),
        "id": f.plain(request.id or ""),
        "TTFT": show(request.ttft_s, SECONDS),
        "TPOT": show(request.tpot_s, SECONDS),
        "E2E": show(request.e2e_s, SECONDS),
        "in": f.count(request.input_tokens),
        "out": f.count(request.output_tokens),
        "x bound": "" if request.times_bound is None else show(request.times_bound, RATIO, 1.0),
        "broke": ", ".join(_CAUSES[metric] for metric in request.broke),
        "input": f.plain(request.input) if several else "",
    }


def lines(report: Report) -> tuple[str, ...]:
    """Worst runs, and TTFT by where it was spent, one sentence each."""
    found = report.attribution
    if found is None:
        return ()
    return tuple(filter(None, (_worst_runs(found), *map(_parts, found.ttft_parts))))


def _worst_runs(attribution: Attribution) -> str:
    if not attribution.worst_runs:
        return ""
    shown = [
        f"{f.plain(run.input)} ({f.count(run.attempted - run.good)} of {f.count(run.attempted)} missed, "
        f"{show(run.share_of_misses, SHARE)} of all misses)"
        for run in attribution.worst_runs[:RUNS]
    ]
    return f"worst runs: {', '.join(shown)}"


def _parts(parts: TtftParts) -> str:
    rest = "TTFT" if parts.server_queue is None else "the rest of TTFT (network, prefill)"
    named: dict[str, Any] = {
        "client queue, before TTFT begins": parts.client_queue,
        "server queue": parts.server_queue,
        rest: parts.rest,
    }
    shown = [f"{name} {show(mean_p99[0], SECONDS)}" for name, mean_p99 in named.items() if mean_p99]
    whose = "completed requests" if parts.of == "completed" else "requests that missed their TTFT bound"
    return f"mean time to the first token of {f.count(parts.n)} {whose}: {', '.join(shown)}"
