"""What a LoadGen run was and how it ended: scenario, load, verdict, percentiles, counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from ...model import Load, Summary, ToolReported
from ..source import Source
from . import files, said
from .said import Log, number_of

METHOD = "sorted[int(n * p)] over all samples; the clock starts at the scheduled arrival"
LATENCIES = {  # metric -> its words in labels: of percentiles, of minimum, maximum and mean
    "ttft": ("first token latency", "first token latency"),
    "tpot": ("time to output token", "time per output token"),
    "e2e": ("latency", "latency"),
}
ONE_TOKEN = "Number of tokens need to be greater than 1"
_CHECKS = (
    "performance constraints satisfied",
    "min duration satisfied",
    "min queries satisfied",
    "early stopping satisfied",
)
_PROCESSED = re.compile(r"Processed(?: at least)? (\d+) queries(?: \((\d+)\))?")
_SCENARIOS = ("Server", "Offline", "SingleStream", "MultiStream")
_PRINTED = 6  # significant digits of a rate in the detail log and of Offline's in the summary


@dataclass(frozen=True, slots=True)
class Facts:
    """One run by its detail log, else by its summary. Seconds and tokens."""

    log: Log
    scenario: str
    invalid: str  # why LoadGen calls the run INVALID; empty where it is VALID
    summaries: Mapping[str, Summary]
    samples: int | None  # None where the summary does not say
    at_least: int  # samples there were surely
    tokens_per_s: float | None
    duration_s: float | None
    load: Load | None
    logs_tokens: bool  # use_token_latencies: TTFT and TPOT are measured, a missing token is an error

    @property
    def one_token(self) -> int:
        """Samples with one output token or none, which LoadGen logs as errors."""
        return self.log.messages[ONE_TOKEN]

    @property
    def other_errors(self) -> int:
        """Errors of any other kind; all of them where the log does not say their kind."""
        return self.log.errors - self.one_token

    @property
    def reported(self) -> dict[str, ToolReported]:
        """LoadGen's own percentiles."""
        return {m: ToolReported(s.percentiles, METHOD, s.mean) for m, s in self.summaries.items()}


def beside(source: Source) -> Facts | None:
    """The facts of the run of a trace, by the logs beside it. Raises InputError when one is broken."""
    for what in ("detail", "summary"):
        other = files.sibling(source, what)
        if other is not None:
            return of(other, what)
    return None


def of(source: Source, what: str) -> Facts:
    """The facts in a detail log or summary, checked against the other one beside it.

    Raises InputError when either is empty, broken or contradicts itself or the other.
    """
    facts = _facts(said.detail(source) if what == "detail" else said.summary(source))
    partner = "summary" if what == "detail" else "detail"
    beside_it = files.sibling(source, partner)
    if beside_it is None:
        return facts
    other = _facts(said.summary(beside_it) if partner == "summary" else said.detail(beside_it))
    if facts.summaries["e2e"].percentiles != other.summaries["e2e"].percentiles:
        raise source.fail(
            f"contradicts {beside_it.name}: other latencies there",
            hint="keep the logs of one run in one folder",
        )
    # They may differ: without enforce_max_duration the summary skips the check of the query count.
    invalid = facts.invalid or other.invalid
    if what == "detail":
        return replace(facts, invalid=invalid)
    return replace(other, invalid=invalid)


def _facts(log: Log) -> Facts:
    source, words = log.source, log.said
    scenario = words.get("scenario", "")
    if scenario not in _SCENARIOS:
        raise source.fail(f'the scenario is "{scenario}"; LoadGen has {", ".join(_SCENARIOS)}', "Scenario")
    summaries = _summaries(log, scenario)
    samples, at_least = _samples(log, scenario, summaries)
    duration = _duration(log, scenario, samples or at_least, summaries)
    tokens = {"Server": "completed tokens per second", "Offline": "tokens per second"}
    rate = number_of(source, words, tokens.get(scenario, "tps w/ loadgen overhead"))
    stated = words.get("use_token_latencies")
    return Facts(
        log=log,
        scenario=scenario,
        invalid=_invalid(log),
        summaries=summaries,
        samples=samples,
        at_least=at_least,
        tokens_per_s=rate,
        duration_s=duration,
        load=_load(log, scenario),
        logs_tokens=stated == "Yes" if stated else rate is not None or "ttft" in summaries,
    )


# ---- the verdict ----------------------------------------------------------------------------


def _invalid(log: Log) -> str:
    words = log.said
    verdict = words["result is"]
    missed = [check for check in _CHECKS if words.get(check, "").upper() == "NO"]
    if verdict not in ("VALID", "INVALID"):
        raise log.source.fail(f'the result is "{verdict}"; expected VALID or INVALID', "Result is")
    if verdict == "VALID":
        if missed:
            raise log.source.fail(f'contradicts itself: VALID, but not "{missed[0]}"')
        return ""
    reasons = [check.replace(" satisfied", " not satisfied") for check in missed]
    reasons += [text] if (text := words.get("recommendations", "").rstrip(".")) else []
    reasons += [
        f"{name}: {text}"
        for name in ("TTFT", "TPOT", "")
        if "unsuccessful" in (text := words.get(f"{name} early stopping result".strip().lower(), ""))
        or text.startswith("Only processed")
    ]
    return "; ".join(reasons).rstrip(". ") or "no reason given"


# ---- latencies ------------------------------------------------------------------------------


def _summaries(log: Log, scenario: str) -> dict[str, Summary]:
    found = {}
    for metric, (of_percentiles, of_rollups) in LATENCIES.items():
        pattern = re.compile(rf"(\d+(?:\.\d+)?) percentile {of_percentiles} \(ns\)")
        percents = {float(at[1]): label for label in log.said if (at := pattern.fullmatch(label))}
        if not percents or (scenario == "Offline" and metric != "e2e"):
            continue
        if not all(0 < percent < 100 for percent in percents):
            raise log.source.fail("has a percentile outside 0 to 100", metric)
        values = tuple((percent, _seconds(log, percents[percent])) for percent in sorted(percents))
        low, high, mean = (_seconds(log, f"{at} {of_rollups} (ns)") for at in ("min", "max", "mean"))
        # LoadGen gives samples of one token a TPOT below 0; nothing else may be negative.
        if metric != "tpot" and low < 0:
            raise log.source.fail("expected a time, got a negative number", f"min {of_rollups}")
        if any(after < before for before, after in pairwise([low, *(v for _, v in values), high])):
            raise log.source.fail(
                "contradicts itself: minimum, percentiles and maximum do not ascend", metric
            )
        found[metric] = Summary(values, mean, low, high)
    if "e2e" not in found:
        raise log.source.fail("states no latency percentiles", hint=said.WHOLE)
    return found


def _seconds(log: Log, label: str) -> float:
    value = number_of(log.source, log.said, label)
    if value is None:
        raise log.source.fail("is missing or no number", label, said.WHOLE)
    return value / 1e9


# ---- how many, how long ----------------------------------------------------------------------


def _samples(log: Log, scenario: str, summaries: Mapping[str, Summary]) -> tuple[int | None, int]:
    """Samples of the run, and how many there surely were."""
    queries, each = (_count(log, label) for label in ("query_count", "samples_per_query"))
    if queries is not None:
        return queries * (each or 1), queries * (each or 1)
    if scenario == "Offline":  # samples_per_query is what was asked; the rate says how many there were
        rate = number_of(log.source, log.said, "samples per second")
        if rate is None or not (high := summaries["e2e"].max):
            raise log.source.fail("states no samples per second", hint=said.WHOLE)
        samples = round(rate * high)
        asked_for = each if each is not None and abs(each - samples) <= samples * 10.0**-_PRINTED else None
        return asked_for or samples, asked_for or samples
    for name in ("ttft early stopping result", "tpot early stopping result", "early stopping result"):
        if found := _PROCESSED.search(log.said.get(name, "")):
            return (n := int(found[2] or found[1]) * (each or 1)), n
    return None, _minimum(log)


def _minimum(log: Log) -> int:
    """A summary of a VALID Server run never says n; its schedule lasted at least min_duration."""
    rate = number_of(log.source, log.said, "scheduled samples per second") or 0.0
    shortest_ms = number_of(log.source, log.said, "min_duration (ms)") or 0.0
    asked_for = _count(log, "min_query_count") or 1
    met = {check: log.said.get(check) == "Yes" for check in _CHECKS}
    by_time = int((rate - 0.005) * shortest_ms / 1e3) + 1 if met["min duration satisfied"] else 1
    return max(by_time, asked_for if met["min queries satisfied"] else 1, 1)


def _count(log: Log, label: str) -> int | None:
    value = number_of(log.source, log.said, label)
    if value is not None and (value < 0 or value != int(value)):
        raise log.source.fail(f"expected a count, got {value:g}", label)
    return None if value is None else int(value)


def _duration(log: Log, scenario: str, samples: int, summaries: Mapping[str, Summary]) -> float | None:
    """LoadGen's own time base: first schedule to the end of the last-issued query, in seconds."""
    if scenario == "Offline":
        return summaries["e2e"].max
    label = "completed samples per second" if scenario == "Server" else "qps w/ loadgen overhead"
    rate = number_of(log.source, log.said, label)
    return (samples - 1) / rate if rate and rate > 0 and samples > 1 else None


def _load(log: Log, scenario: str) -> Load | None:
    if scenario == "Offline":
        return Load(burst=True)
    if scenario == "Server":
        rate = number_of(log.source, log.said, "target_qps")
        return Load(request_rate=rate) if rate and rate > 0 else None
    return Load(concurrency=max(_count(log, "samples_per_query") or 1, 1))
