"""A log of LoadGen as a run: its trace, or its percentiles, and never more than its verdict allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...model import Aggregate, Counts, Floats, Requests, Run, Status, Summary
from .. import tables
from ..source import Source
from . import DEFINITIONS, NAME, TITLE, facts, files, said, trace
from . import kind as kind_of
from .facts import Facts

_EVERY = ("ttft", "tpot", "itl", "e2e", "error_rate")
_ONE_RUN = "keep the logs of one run in one folder, as LoadGen wrote them"
_SAME_S = 2e-9  # LoadGen states whole nanoseconds, a mean without its fraction; real pairs agree to 1 ns
_SETTLED_BY = "mlperf_log_trace.json with enable_trace and accuracy_log_probability = 1"

_NO_ITL = "LoadGen records no gaps between tokens; measure ITL with a client that does"
_OFFLINE = (
    "Offline sends every sample at once and LoadGen measures no first token there: use the Server scenario"
)
_NO_TOKENS = (
    "the trace has no token counts ({}); run with accuracy_log_probability = 1, or give"
    " mlperf_log_detail.txt alone for LoadGen's TPOT percentiles"
)
_NO_LATENCIES = "LoadGen measured no first token; run with use_token_latencies = 1"
_ONE_CHUNK = (
    "most first tokens come with the whole answer: the system under test does not report"
    " FirstTokenComplete while it streams"
)
_ONE_TOKEN = (
    "{} samples had one token or none; LoadGen gives them a TPOT of 0 or less and counts them as good:"
    " keep the trace and run with accuracy_log_probability = 1"
)
_BLIND = (
    "LoadGen has no failed requests and this run does not count tokens: an error of the system under test"
    " completes a sample; run with use_token_latencies = 1, which logs an answer without tokens"
)
_MAYBE_FAILED = (
    "{} samples had one token or none and LoadGen does not say which: an answer without a token is a failure;"
    " keep the trace and run with accuracy_log_probability = 1"
)
_ERRORS = (
    "LoadGen logged {} errors ({}), which the submission checker rejects: look into mlperf_log_detail.txt,"
    " fix them and run again"
)
_NO_VERDICT = (
    "whether LoadGen calls this run VALID is not in the trace: keep mlperf_log_detail.txt or"
    " mlperf_log_summary.txt beside it"
)
_PER_QUERY = "MultiStream's summary states latencies of whole queries; give mlperf_log_detail.txt"


def read(source: Source) -> Sequence[Run]:
    """The one run. Raises InputError when a log is empty, cut short or contradicts itself or another."""
    kind = kind_of(source)
    if kind == "trace":
        return (_read_trace(source),)
    if kind in ("detail", "summary"):
        return (_read_log(source, kind),)
    what = "holds LoadGen's answers, not a result" if kind else "is not a log of LoadGen"
    raise source.fail(what, hint="give mlperf_log_detail.txt or the whole folder of the run")


# ---- the trace ------------------------------------------------------------------------------


def _read_trace(source: Source) -> Run:
    found = trace.read(source)
    known = facts.beside(source)
    if known is not None and not (known.samples or len(found.seq)) == len(found.seq) >= known.at_least:
        said_n = known.samples if known.samples is not None else f"at least {known.at_least}"
        raise source.fail(
            f"contradicts {known.log.source.name}: {len(found.seq)} samples here, {said_n} there",
            hint=_ONE_RUN,
        )
    if known is not None:
        _same_latencies(source, found, known)
    accuracy = files.sibling(source, "accuracy")
    tokens, why = (
        trace.tokens(accuracy, found) if accuracy else (None, "mlperf_log_accuracy.json is not there")
    )
    rows = trace.columns(found, tokens)
    counts = tables.counts(rows)
    messages = ["no first token, or no valid time" for _ in found.seq]
    notes = (*found.notes, *tables.failure_note(rows, messages))
    ends = np.array(found.scheduled_ns) + np.array(found.complete_ns)
    window = float(ends.max() - min(found.scheduled_ns)) / 1e9
    total = tables.output_total(rows)
    if total is None and known and known.tokens_per_s and known.duration_s:
        total = float(round(known.tokens_per_s * known.duration_s))
    return _run(
        source,
        "trace",
        known,
        rows,
        counts,
        _trace_unsuitable(rows, known, why),
        notes=notes,
        duration_s=window if window > 0 else None,
        total=total,
    )


def _same_latencies(source: Source, found: trace.Trace, known: Facts) -> None:
    """A trace of another run than the logs' has other latencies, even where it has as many samples."""
    if known.scenario == "MultiStream" and "query_count" not in known.log.said:
        return  # its latencies are of whole queries
    columns = {"e2e": found.complete_ns, "ttft": found.ttft_ns}
    for metric, column in columns.items():
        stated = known.summaries.get(metric)
        if stated is None or column is None or np.isnan(column).any():
            continue
        ordered = np.sort(np.array(column, np.float64)) / 1e9
        for what, low, high, there in _comparable(ordered, stated):
            if not low - _SAME_S <= there <= high + _SAME_S:
                raise source.fail(
                    f"contradicts {known.log.source.name}: the {what} of {metric.upper()} is {high:.9g} s by"
                    f" the samples here, {there:.9g} s there",
                    hint=_ONE_RUN,
                )


def _comparable(ordered: Floats, stated: Summary) -> Iterator[tuple[str, float, float, float]]:
    """Name, the least and the most by the samples, and what the log states."""
    n = len(ordered)
    for percent, there in stated.percentiles:
        # sorted[int(n * p)]; where n * p is whole, its rounding decides between two neighbours.
        low, high = (min(int(max(n * percent / 100 + d, 0.0)), n - 1) for d in (-1e-6, 1e-6))
        yield f"P{percent:g}", float(ordered[low]), float(ordered[high]), there
    ours = {"minimum": ordered[0], "mean": ordered.mean(), "maximum": ordered[-1]}
    for (what, here), said_s in zip(ours.items(), (stated.min, stated.mean, stated.max), strict=True):
        if said_s is not None:
            yield what, float(here), float(here), said_s


def _trace_unsuitable(rows: Requests, known: Facts | None, why: str) -> dict[str, str]:
    unsuitable: dict[str, str] = {}
    if rows.ttft_s is None:
        reason = _OFFLINE if known and known.scenario == "Offline" else _NO_LATENCIES
        unsuitable |= {"ttft": reason, "tpot": reason}
    elif rows.output_tokens is None:
        unsuitable["tpot"] = _NO_TOKENS.format(why)
    if rows.ttft_s is not None and rows.e2e_s is not None:
        judged = rows.status == Status.COMPLETED
        if rows.output_tokens is not None:
            judged &= rows.output_tokens > 1
        early = rows.ttft_s[judged] < 0.99 * rows.e2e_s[judged]
        if early.size and early.mean() < 0.5:
            unsuitable |= {"ttft": _ONE_CHUNK, "tpot": _ONE_CHUNK}
    if known is None:
        return unsuitable | dict.fromkeys(_EVERY, _NO_VERDICT)
    if known.one_token and rows.output_tokens is None:
        unsuitable["error_rate"] = _MAYBE_FAILED.format(known.one_token)
    return unsuitable


# ---- detail log and summary ----------------------------------------------------------------


def _read_log(source: Source, kind: str) -> Run:
    known = facts.of(source, kind)
    samples = known.samples if known.samples is not None else known.at_least
    summaries = dict(known.summaries)
    unsuitable: dict[str, str] = {}
    if "ttft" not in summaries:
        reason = _OFFLINE if known.scenario == "Offline" else _NO_LATENCIES
        unsuitable |= {"ttft": reason, "tpot": reason}
    elif dict(summaries["ttft"].percentiles).get(50.0, 0.0) >= 0.99 * dict(summaries["e2e"].percentiles).get(
        50.0, np.inf
    ):
        unsuitable |= {"ttft": _ONE_CHUNK, "tpot": _ONE_CHUNK}
    if known.one_token:
        unsuitable |= {
            "tpot": _ONE_TOKEN.format(known.one_token),
            "error_rate": _MAYBE_FAILED.format(known.one_token),
        }
    if known.scenario == "MultiStream" and "query_count" not in known.log.said:
        unsuitable["e2e"] = _PER_QUERY
    total = known.tokens_per_s * known.duration_s if known.tokens_per_s and known.duration_s else None
    notes: tuple[str, ...] = ()
    if known.samples is None:
        notes = (
            f"the summary does not say how many queries ran: at least {samples} by its schedule, which are"
            " counted; mlperf_log_detail.txt says it",
        )
    return _run(
        source,
        kind,
        known,
        # sorted[int(n * p)] is the order statistic just above n * p, as `exclusive` bounds it.
        Aggregate(summaries, "exclusive", settled_by=_SETTLED_BY),
        Counts(samples, samples, 0),
        unsuitable,
        notes=notes,
        duration_s=known.duration_s,
        total=None if total is None else float(round(total)),
    )


# ---- both -----------------------------------------------------------------------------------


def _run(
    source: Source,
    kind: str,
    known: Facts | None,
    evidence: Requests | Aggregate,
    counts: Counts,
    unsuitable: dict[str, str],
    *,
    notes: tuple[str, ...],
    duration_s: float | None,
    total: float | None,
) -> Run:
    unsuitable = {"itl": _NO_ITL, **unsuitable}
    words: said.Said = known.log.said if known else {}
    if known is not None:
        unsuitable = _by_verdict(known, unsuitable)
        notes = (*notes, *_notes(known))
    return Run(
        input=source.name,
        sha256=source.sha256,
        format=f"{NAME} {kind}",
        tool=TITLE,
        evidence=evidence,
        counts=counts,
        tool_version=words.get("loadgen_version", "").partition(" ")[0] or None,
        load=known.load if known else None,
        duration_s=duration_s,
        date=words.get("test_datetime", "")[:10] or None,
        total_output_tokens=None if known is None or known.invalid else total,
        streaming=False if known and known.scenario == "Offline" else None,
        definitions=DEFINITIONS,
        tool_reported=known.reported if known else {},
        unsuitable=unsuitable,
        notes=notes,
    )


def _by_verdict(known: Facts, unsuitable: dict[str, str]) -> dict[str, str]:
    """Nothing of an INVALID run, or of one with unexplained errors, may pass."""
    if known.invalid:
        reason = f"LoadGen calls the run INVALID ({known.invalid}): run again with what it asks for"
        return dict.fromkeys(_EVERY, reason)
    if known.other_errors:
        kinds = ", ".join(
            f"{said_} x{n}" for said_, n in known.log.messages.most_common(4) if said_ != facts.ONE_TOKEN
        )
        return dict.fromkeys(_EVERY, _ERRORS.format(known.log.errors, kinds or "of unknown kind"))
    if not known.logs_tokens:
        return {"error_rate": _BLIND, **unsuitable}
    return unsuitable


def _notes(known: Facts) -> tuple[str, ...]:
    words = known.log.said
    notes = [f"LoadGen calls the run INVALID: {known.invalid}"] if known.invalid else []
    if known.one_token:
        notes.append(
            f'LoadGen logged {known.one_token} x "{facts.ONE_TOKEN}" and still says {words["result is"]}'
        )
    if known.scenario == "Server" and known.logs_tokens:
        limits = [words.get(f"{metric}_latency (ns)", "") for metric in ("ttft", "tpot")]
        if all(limit.isdigit() for limit in limits):
            ttft, tpot = (int(limit) / 1e6 for limit in limits)
            notes.append(
                f"LoadGen's own bounds were P99 TTFT {ttft:g} ms and P99 TPOT {tpot:g} ms; Server and"
                " Interactive runs differ in nothing else"
            )
    early = [
        f"{name}: {text.rstrip('.')}"
        for name in ("TTFT", "TPOT")
        if (text := words.get(f"{name.lower()} early stopping result", "")) and "unsuccessful" not in text
    ]
    if known.scenario == "Server" and "unsuccessful" in words.get("tpot early stopping result", ""):
        early = ["TTFT was not tested, because TPOT's test failed first"]
    if early:
        notes.append(f"LoadGen's early stopping (99 % confidence): {'; '.join(early)}")
    return (*notes, *_rate_note(known), *_warnings(known))


def _rate_note(known: Facts) -> tuple[str, ...]:
    """A note when the system under test fell behind its schedule, or the schedule behind the target."""
    words = known.log.said
    rates = [
        said.number_of(known.log.source, words, label)
        for label in ("completed samples per second", "scheduled samples per second")
    ]
    if known.scenario != "Server" or not rates[0] or not rates[1] or rates[0] >= 0.9 * rates[1]:
        return ()
    return (f"{rates[0]:g} samples/s completed of {rates[1]:g} scheduled: the system under test fell behind",)


def _warnings(known: Facts) -> tuple[str, ...]:
    n = known.log.warnings
    return (f"LoadGen logged {n} warnings; see mlperf_log_detail.txt",) if n else ()
