"""inference-perf's aggregates of a stage or of all stages: evidence, and facts about the requests."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

import msgspec

from ...model import Aggregate, Counts, Load, Summary, ToolReported
from ..source import BROKEN, Source

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Number = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]  # nothing measured is larger; sums stay finite

METHOD = "numpy linear over completed requests"
DETAIL = "`report.request_lifecycle.per_request: true`"
NOT_STREAMING = "no response has a time to first token: the run did not stream; set `api.streaming: true`"
POOLED = (
    "a summary pools every stage, so several loads may be in one number; give the "
    "stage_N_lifecycle_metrics.json files, or per_request_lifecycle_metrics.json with them beside it"
)
_OLD_TPOT = (
    "the file's time_per_output_token is {:.2g} times (E2E - TTFT) / (output tokens - 1) by its own means: "
    "inference-perf counted tokens more than once (its issues 564 and 566); measure with 0.7 or newer, or "
    f"write {DETAIL}"
)
_SHARED_CHUNKS = (
    "most of the tool's token gaps are 0, because all tokens of a chunk get its time: they are no chunk "
    f"gaps; write {DETAIL}"
)
_ONE_TOKEN = (
    "one-token answers are in no TTFT of inference-perf, and some had a token or none; "
    f"write {DETAIL}, which has their chunk times"
)
_NO_OUTPUT = (
    "some requests the tool counts as completed have no output token, which is a failure, and the aggregate "
    f"does not say how many; write {DETAIL}"
)
TAGS = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "itl": "inter_token_latency",
    "e2e": "request_latency",
}
_IDENTITY = (0.8, 1.25)  # beyond: not rounding, not the mean of ratios
_RARE = 1.0  # percent of requests
_CHUNKY = 0.1  # median token gap, of the mean TPOT
_SLOW = 0.9  # of the requested rate
_LATE = 0.1  # P99 delay of a start, of the median E2E

Stat = dict[str, Number | None]


class _Latency(msgspec.Struct):
    request_latency: Stat | None = None
    time_to_first_token: Stat | None = None
    time_per_output_token: Stat | None = None
    inter_token_latency: Stat | None = None


class _Throughput(msgspec.Struct):
    requests_per_sec: Number | None = None


class _Goodput(msgspec.Struct):
    goodput_percentage: Number | None = None
    good_requests: Count | None = None
    total_requests: Count | None = None


class _Successes(msgspec.Struct):
    count: Count
    latency: _Latency | None = None
    throughput: _Throughput | None = None
    output_len: Stat | None = None  # by the client's tokenizer
    output_tokens: Stat | None = None  # by the server's usage, where it sends it
    token_count_mismatches: Count | None = None
    goodput_metrics: _Goodput | None = None


class _Label(msgspec.Struct):
    count: Count = 0


class _Failures(msgspec.Struct):
    count: Count
    by_label: dict[str, _Label] | None = None


class _LoadSummary(msgspec.Struct):
    count: Count | None = None
    schedule_delay: Stat | None = None
    requested_rate: Number | None = None  # requests/s; of a concurrent load the number of requests
    achieved_rate: Number | None = None
    concurrency: Count | None = None


class Told(msgspec.Struct):
    """What an aggregate says."""

    load_summary: _LoadSummary
    successes: _Successes
    failures: _Failures
    benchmark_time_seconds: Number | None = None
    retries: Any = None

    @property
    def counts(self) -> Counts:
        """Completed and failed as the tool sees them."""
        completed, failed = self.successes.count, self.failures.count
        return Counts(completed + failed, completed, failed)

    @property
    def duration_s(self) -> float | None:
        """First start to last end, failed requests included: the window of the tool's throughput."""
        rate = self.successes.throughput.requests_per_sec if self.successes.throughput else None
        if self.benchmark_time_seconds is not None:
            return self.benchmark_time_seconds
        return self.successes.count / rate if rate and self.successes.count else None

    def stat(self, metric: str) -> Stat:
        """The statistics of a metric in seconds, empty where the tool has none."""
        latency = self.successes.latency
        return (getattr(latency, TAGS[metric]) if latency else None) or {}

    def mean(self, metric: str) -> float | None:
        """The mean of a metric, in seconds."""
        return self.stat(metric).get("mean")


def told(source: Source) -> Told:
    """The aggregate of a stage or a summary. Raises InputError where it contradicts itself."""
    fields = {key: source.doc.fields[key] for key in source.keys & set(Told.__struct_fields__)}
    try:
        found = msgspec.json.decode(msgspec.json.encode(fields), type=Told)
    except BROKEN as error:
        why = str(error)
        raise source.fail(why[:1].lower() + why[1:]) from None
    counts, asked = found.counts, found.load_summary.count
    if asked is not None and asked != counts.attempted:
        why = (
            f"contradicts itself: {counts.completed} succeeded and {counts.failed} failed of {asked} requests"
        )
        raise source.fail(why, "$.load_summary.count", "keep the file as inference-perf wrote it")
    if found.duration_s is not None and found.duration_s <= 0 and counts.completed:
        raise source.fail(f"contradicts itself: a duration of {found.duration_s:g} s")
    return found


def load(source: Source, one: Told) -> Load | None:
    """By concurrency where there is one: the rate of such a stage means nothing.

    Raises InputError for a rate that sends nothing.
    """
    asked = one.load_summary
    if asked.concurrency:
        return Load(concurrency=asked.concurrency)
    rate = asked.requested_rate
    if rate is None:
        return None
    if rate <= 0:
        raise source.fail(
            f"a requested rate of {rate:g} req/s sends nothing", "$.load_summary.requested_rate"
        )
    return Load(request_rate=rate)


# ---- values -------------------------------------------------------------------------------


def percentiles(stat: Stat) -> tuple[tuple[float, float], ...]:
    """(percent, value) ascending; the 50th is called median."""
    named = {50.0 if key == "median" else _percent(key): value for key, value in stat.items()}
    return tuple(
        (p, v) for p, v in sorted(named.items(), key=lambda item: item[0]) if p >= 0 and v is not None
    )


def _percent(key: str) -> float:
    try:
        return float(key[1:]) if key[:1] == "p" else -1.0
    except ValueError:
        return -1.0


def reported(one: Told) -> dict[str, ToolReported]:
    """The tool's own percentiles by metric."""
    stats = {metric: one.stat(metric) for metric in TAGS}
    return {
        m: ToolReported(percentiles(s), METHOD, s.get("mean")) for m, s in stats.items() if percentiles(s)
    }


def evidence(source: Source, one: Told) -> Aggregate:
    """Percentiles over completed requests. Raises InputError where they are negative or do not ascend."""
    found = {}
    for metric, tag in TAGS.items():
        stat = one.stat(metric)
        values = percentiles(stat)
        if any(value < 0 for _, value in values) or (stat.get("min") or 0) < 0:
            raise source.fail("a negative latency", f"$.successes.latency.{tag}")
        if any(low > high for (_, low), (_, high) in pairwise(values)):
            raise source.fail("the percentiles do not ascend", f"$.successes.latency.{tag}")
        if values:
            n = one.successes.count if metric == "e2e" else None  # the others leave one-token answers out
            found[metric] = Summary(values, stat.get("mean"), stat.get("min"), stat.get("max"), n)
    return Aggregate(found, "linear", settled_by=DETAIL)


def output_tokens(one: Told) -> float | None:
    """Of completed requests, by the server where it counts them."""
    stat = one.successes.output_tokens or one.successes.output_len or {}
    mean = stat.get("mean")
    return None if mean is None else float(round(mean * one.successes.count))


# ---- what must not be judged --------------------------------------------------------------


def unsuitable(one: Told, *, pooled: bool) -> dict[str, str]:
    """By metric, why an aggregate cannot judge it; `pooled` where it may hold several loads."""
    if pooled:
        return dict.fromkeys((*TAGS, "error_rate"), POOLED)
    if not one.successes.count:
        return {}
    reasons = {}
    if not one.stat("ttft"):
        return dict.fromkeys(("ttft", "tpot", "itl"), NOT_STREAMING)
    smallest = _lengths(one).get("min")
    if smallest is not None and smallest < 1:
        reasons["error_rate"] = _NO_OUTPUT
    if smallest is not None and smallest <= 1 and not _longer_than_one(one, _RARE):
        reasons["ttft"] = _ONE_TOKEN
    tpot, gap = one.mean("tpot"), dict(percentiles(one.stat("itl"))).get(50.0)
    ratio = tpot_ratio(one)
    if ratio is not None and not _IDENTITY[0] <= ratio <= _IDENTITY[1]:
        reasons |= dict.fromkeys(("tpot", "itl"), _OLD_TPOT.format(ratio))
    elif tpot and gap is not None and gap < _CHUNKY * tpot:
        reasons["itl"] = _SHARED_CHUNKS
    return reasons


def tpot_ratio(one: Told) -> float | None:
    """The tool's mean TPOT over (E2E - TTFT) / (output tokens - 1) of its means.

    None where that proves nothing: one-token answers are in E2E and not in TTFT.
    """
    e2e, ttft, tpot = (one.mean(metric) for metric in ("e2e", "ttft", "tpot"))
    mean = _lengths(one).get("mean")
    if e2e is None or ttft is None or not tpot or mean is None or mean <= 1 or not _longer_than_one(one, 10):
        return None
    decode_s = (e2e - ttft) / (mean - 1)
    return tpot / decode_s if decode_s > 0 else None


def _lengths(one: Told) -> Stat:
    return one.successes.output_tokens or one.successes.output_len or {}


def _longer_than_one(one: Told, share: float) -> bool:
    """Whether less than `share` percent of the outputs have one token or none."""
    lengths = _lengths(one)
    values = [value for percent, value in percentiles(lengths) if percent <= share]
    return (lengths.get("min") or 0) > 1 or any(value > 1 for value in values)


# ---- notes --------------------------------------------------------------------------------


def notes(one: Told, counts: Counts, constraints: dict[str, float] | None = None) -> tuple[str, ...]:
    """Goodput, a late client and retries: what both kinds of evidence should say."""
    return (*_goodput_note(one, counts, constraints), *_client_notes(one))


def failure_note(one: Told) -> tuple[str, ...]:
    """What the failed requests failed with, the most frequent first."""
    kinds = sorted((one.failures.by_label or {}).items(), key=lambda item: -item[1].count)
    if not one.failures.count or not kinds:
        return ()
    shown = ", ".join(f"{text} x{label.count}" for text, label in kinds[:3])
    return (f"{one.failures.count} failed: {shown}",)


def token_notes(one: Told) -> list[str]:
    """Where the server and the client's tokenizer count differently."""
    client, server = (stat or {} for stat in (one.successes.output_len, one.successes.output_tokens))
    mine, theirs, said = client.get("mean"), server.get("mean"), []
    if mine is not None and theirs and abs(mine - theirs) > 0.05 * theirs:
        said.append(
            f"output tokens a request: the server's usage says {theirs:.4g}, "
            f"inference-perf's tokenizer {mine:.4g}"
        )
    if one.successes.token_count_mismatches:
        said.append(f"inference-perf counts {one.successes.token_count_mismatches} token count mismatches")
    return said


def _goodput_note(one: Told, counts: Counts, constraints: dict[str, float] | None) -> list[str]:
    stated = one.successes.goodput_metrics
    if stated is None or stated.good_requests is None or not stated.total_requests:
        return []
    good, of = stated.good_requests, stated.total_requests
    bounds = ", ".join(
        f"{name} {bound:g} s" for name, bound in (constraints or {}).items() if bound is not None
    )
    said = (
        f"the tool says goodput {good / of:.1%} ({good} of {of} completed requests"
        f"{', by ' + bounds if bounds else ''}; a metric that is missing is a miss)"
    )
    if counts.attempted and counts.attempted != of:
        said += f"; over all {counts.attempted} attempted it is {good / counts.attempted:.1%}"
    return [f"{said}; slo-gate counts by the policy's bounds over attempted"]


def _client_notes(one: Told) -> list[str]:
    """A rate that was not kept; in a closed loop neither rate nor delay means anything."""
    asked, said = one.load_summary, []
    if not asked.concurrency and asked.requested_rate and asked.achieved_rate is not None:
        if asked.achieved_rate < _SLOW * asked.requested_rate:
            said.append(
                f"{asked.achieved_rate:.3g} req/s were sent of the {asked.requested_rate:g} asked for: "
                "the client is saturated"
            )
        late = dict(percentiles(asked.schedule_delay or {})).get(99.0)
        typical = dict(percentiles(one.stat("e2e"))).get(50.0)
        if late is not None and typical is not None and late > _LATE * typical:
            said.append(f"the client was late: P99 from a request's due time to its start is {late:.3g} s")
    if one.retries:
        said.append(
            "the file reports retries: a request that failed first and succeeded later counts as completed"
        )
    return said
