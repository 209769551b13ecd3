"""A log of LoadGen as a run: its trace, or its percentiles, and never more than its verdict allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from ...model import METRICS, Aggregate, Counts, Doubt, Evidence, Floats, Summary, Why
from .. import kinds
from ..kinds import Kind
from ..source import Source
from ..told import Told
from . import DETAIL, KINDS, NAME, SUMMARY, TITLE, TRACE, log as logs, trace
from .log import ONE_RUN, ONE_TOKEN, Log

_METHOD = "sorted[int(n * p)] over all samples; the clock starts at the scheduled arrival"
_EVERY = (*METRICS, "error_rate", "throughput")
_SAME_S = 2e-9  # LoadGen states whole nanoseconds, a mean without its fraction; real pairs agree to 1 ns
_SETTLED_BY = "mlperf_log_trace.json with enable_trace and accuracy_log_probability = 1"
_KEEP = "keep the trace and run with accuracy_log_probability = 1"
_OFFLINE = (
    "Offline sends every sample at once and LoadGen measures no first token there: use the Server scenario"
)
_NO_TOKENS = (
    "the trace has no token counts ({}); run with accuracy_log_probability = 1, or give"
    " mlperf_log_detail.txt alone for LoadGen's TPOT percentiles"
)
_BLIND = (
    "LoadGen has no failed requests and this run does not count tokens: an error of the system under test"
    " completes a sample; run with use_token_latencies = 1, which logs an answer without tokens"
)
_NO_VERDICT = (
    "whether LoadGen calls this run VALID is not in the trace: keep mlperf_log_detail.txt or"
    " mlperf_log_summary.txt beside it"
)


def decode(source: Source) -> Told:
    """The one run. Raises InputError when a log is empty, cut short or contradicts itself or another."""
    kind = kinds.kind_of(source, KINDS)
    if source.shape == "empty":  # a log that LoadGen opened and never filled has only its name
        kind = next(
            (log for log in (DETAIL, SUMMARY) if not isinstance(kinds.place(source, (log,)), str)), kind
        )
    if kind is TRACE:
        return _trace(source)
    if kind is DETAIL or kind is SUMMARY:
        return _log(_checked(source, kind), kind)
    raise kinds.refuse(source, kind, TITLE, "give mlperf_log_detail.txt or the whole folder of the run")


def _checked(source: Source, kind: Kind) -> Log:
    """The log, or the detail log beside it where there is one; INVALID in either is so in both.

    Without enforce_max_duration the summary skips the check of the query count. Raises InputError where they
    are of two runs.
    """
    log, partner = logs.read(source, kind), SUMMARY if kind is DETAIL else DETAIL
    beside = kinds.beside(source, KINDS, partner.name)
    if beside is None or kinds.kind_of(beside, KINDS) is not partner:
        return log
    other = logs.read(beside, partner)
    if log.summaries["e2e"].percentiles != other.summaries["e2e"].percentiles:
        raise source.fail(f"contradicts {beside.name}: other latencies there", hint=ONE_RUN)
    richest, poorer = (log, other) if kind is DETAIL else (other, log)
    return replace(richest, invalid_beside=poorer.invalid)


# ---- the trace ----------------------------------------------------------------------------------


def _trace(source: Source) -> Told:
    samples, log = trace.read(source), None
    for kind in (SUMMARY, DETAIL):
        if beside := kinds.beside(source, KINDS, kind.name):
            log = _checked(beside, kind)
    if log is not None:
        _same_run(source, samples, log)
    accuracy = kinds.beside(source, KINDS, "accuracy*.json")
    tokens, why = np.full(len(samples.seq), np.nan), "mlperf_log_accuracy.json is not there"
    if accuracy is not None:
        tokens, why = trace.tokens(accuracy, samples)
    rows = trace.columns(samples, tokens, whole=not why)
    ends = samples.scheduled_ns + samples.complete_ns
    window = float(ends.max() - samples.scheduled_ns.min()) / 1e9
    doubts = [] if log is not None else [Doubt(Why.ABSENT, _EVERY, _NO_VERDICT)]
    if rows.ttft_s is not None and rows.output_tokens is None:
        doubts.append(Doubt(Why.ABSENT, ("tpot",), _NO_TOKENS.format(why)))
    return replace(
        _told(log, "trace", rows, doubts, has_tokens=rows.output_tokens is not None),
        duration_s=window if window > 0 else None,
        messages=["no first token, or no valid time"] * len(samples.seq),
        notes=(*samples.notes, *(_notes(log) if log is not None else ())),
    )


def _same_run(source: Source, samples: trace.Trace, log: Log) -> None:
    """Raises InputError for a trace of another run, which has other latencies if not as many samples."""
    there, n = log.source.name, len(samples.seq)
    if not (log.samples or n) == n >= log.at_least:
        stated = log.samples if log.samples is not None else f"at least {log.at_least}"
        raise source.fail(f"contradicts {there}: {n} samples here, {stated} there", hint=ONE_RUN)
    if _per_query(log):
        return
    for metric, column in (("e2e", samples.complete_ns), ("ttft", samples.ttft_ns)):
        stated_by_log = log.summaries.get(metric)
        if stated_by_log is None or column is None or np.isnan(column).any():
            continue
        for what, low, high, value in _comparable(np.sort(np.array(column, np.float64)) / 1e9, stated_by_log):
            if not low - _SAME_S <= value <= high + _SAME_S:
                why = (
                    f"the {what} of {metric.upper()} is {high:.9g} s by the samples here, {value:.9g} s there"
                )
                raise source.fail(f"contradicts {there}: {why}", hint=ONE_RUN)


def _comparable(ordered: Floats, stated: Summary) -> Iterator[tuple[str, float, float, float]]:
    """Name, the least and the most by the samples, and what the log states."""
    n = len(ordered)
    for percent, value in stated.percentiles:
        # sorted[int(n * p)]; where n * p is whole, its rounding decides between two neighbours.
        low, high = (min(int(max(n * percent / 100 + d, 0.0)), n - 1) for d in (-1e-6, 1e-6))
        yield f"P{percent:g}", float(ordered[low]), float(ordered[high]), value
    ours = {"minimum": ordered[0], "mean": ordered.mean(), "maximum": ordered[-1]}
    for (what, here), there in zip(ours.items(), (stated.min, stated.mean, stated.max), strict=True):
        if there is not None:
            yield what, float(here), float(here), there


def _per_query(log: Log) -> bool:
    """MultiStream's summary states latencies of whole queries."""
    return log.scenario == "MultiStream" and "query_count" not in log.words


# ---- detail log and summary, and what is true of all ----------------------------------------------


def _log(log: Log, kind: Kind) -> Told:
    doubts = []
    if _per_query(log):
        why = "MultiStream's summary states latencies of whole queries; give mlperf_log_detail.txt"
        doubts.append(Doubt(Why.DEFINITION, ("e2e",), why))
    unknown = (
        f"the summary does not say how many queries ran: at least {log.at_least} by its schedule, which are"
        " counted; mlperf_log_detail.txt says it"
    )
    # sorted[int(n * p)] is the order statistic just above n * p, as `exclusive` bounds it.
    evidence = Aggregate(log.summaries, "exclusive", settled_by=_SETTLED_BY)
    return replace(
        _told(log, kind.name.partition("*")[0], evidence, doubts, has_tokens=False),
        counts=Counts(log.at_least, log.at_least, 0),
        duration_s=log.duration_s,
        notes=(*((unknown,) if log.samples is None else ()), *_notes(log)),
    )


def _told(
    log: Log | None, what: str, evidence: Evidence, doubts: Sequence[Doubt], *, has_tokens: bool
) -> Told:
    """What the log says of the run; None where a trace has none beside it."""
    told = Told(format=f"{NAME} {what}", tool=TITLE, evidence=evidence, retries=0, doubts=tuple(doubts))
    if log is None:
        return told
    tokens = None
    if log.tokens_per_s is not None and log.base_s is not None and not log.invalid:
        tokens = log.tokens_per_s * log.base_s
    return replace(
        told,
        version=log.words.get("loadgen_version", "").partition(" ")[0] or None,
        date=log.words.get("test_datetime", "")[:10] or None,
        load=log.load,
        output_tokens=None if tokens is None else float(round(tokens)),
        stream_with="run with use_token_latencies = 1",
        stated=log.summaries,
        method=_METHOD,
        invalid=log.invalid,
        hides_failures="" if log.counts_tokens else _BLIND,
        doubts=(*doubts, *_doubts(log, has_tokens)),
    )


def _doubts(log: Log, has_tokens: bool) -> Iterator[Doubt]:
    one_token = log.messages[ONE_TOKEN]
    if log.errors > one_token:
        shown = ", ".join(f"{text} x{n}" for text, n in log.messages.most_common(4) if text != ONE_TOKEN)
        why = (
            f"LoadGen logged {log.errors} errors ({shown or 'of unknown kind'}), which the submission checker"
        )
        why += " rejects: look into mlperf_log_detail.txt, fix them and run again"
        yield Doubt(Why.FAILURES_HIDDEN, _EVERY, why)
    if log.scenario == "Offline":
        yield Doubt(Why.NOT_STREAMED, ("ttft", "tpot", "itl"), _OFFLINE)
    if has_tokens:
        return
    least = log.summaries["tpot"].min if "tpot" in log.summaries else None
    if one_token or (least is not None and least < 0):
        why = f"{one_token or 'some'} samples had one token or none; LoadGen gives them a TPOT of 0 or less"
        yield Doubt(Why.DEFINITION, ("tpot",), f"{why} and counts them as good: {_KEEP}")
    if one_token:
        why = f"{one_token} samples had one token or none and LoadGen does not say which: an answer without a"
        of = ("attempted", "error_rate")
        yield Doubt(Why.NO_TOKENS, of, f"{why} token is a failure; {_KEEP}", requests=one_token)


def _notes(log: Log) -> Iterator[str]:
    words = log.words
    if log.invalid:
        yield f"LoadGen calls the run INVALID: {log.invalid}"
    if one_token := log.messages[ONE_TOKEN]:
        yield f'LoadGen logged {one_token} x "{ONE_TOKEN}" and still says {words["result is"]}'
    limits = [words.get(f"{metric}_latency (ns)", "") for metric in ("ttft", "tpot")]
    if log.scenario == "Server" and log.counts_tokens and all(limit.isdigit() for limit in limits):
        ttft, tpot = (int(limit) / 1e6 for limit in limits)
        yield (
            f"LoadGen's own bounds were P99 TTFT {ttft:g} ms and P99 TPOT {tpot:g} ms; Server and"
            " Interactive runs differ in nothing else"
        )
    early = [
        f"{name}: {text.rstrip('.')}"
        for name in ("TTFT", "TPOT")
        if (text := words.get(f"{name.lower()} early stopping result", "")) and "unsuccessful" not in text
    ]
    if log.scenario == "Server" and "unsuccessful" in words.get("tpot early stopping result", ""):
        early = ["TTFT was not tested, because TPOT's test failed first"]
    if early:
        yield f"LoadGen's early stopping (99% confidence): {'; '.join(early)}"
    done, planned = (log.number(f"{what} samples per second") for what in ("completed", "scheduled"))
    if log.scenario == "Server" and done and planned and done < 0.9 * planned:
        yield f"{done:g} samples/s completed of {planned:g} scheduled: the system under test fell behind"
    if log.warnings:
        yield f"LoadGen logged {log.warnings} warnings; see mlperf_log_detail.txt"
