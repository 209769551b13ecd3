"""What a LoadGen run was and how it ended, by its detail log or its summary: one vocabulary for both."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from ...errors import InputError
from ...model import Load, Summary
from ..formats import yaml_table
from ..kinds import Kind
from ..ladders import ladder
from ..loads import load
from ..source import BROKEN, Source
from . import DETAIL

WHOLE = "run the benchmark again, or copy the file whole"
ONE_RUN = "keep the logs of one run in one folder, as LoadGen wrote them"
ONE_TOKEN = "Number of tokens need to be greater than 1"
_METRICS = {"latency": "e2e", "first token latency": "ttft"}  # by words of a label; the rest is TPOT
_CHECKS = (
    "performance constraints satisfied",
    "min duration satisfied",
    "min queries satisfied",
    "early stopping satisfied",
)
_TEXTS = (
    "recommendations",
    "ttft early stopping result",
    "tpot early stopping result",
    "early stopping result",
)
_SCENARIOS = ("Server", "Offline", "SingleStream", "MultiStream")
_PRINTED = 6  # significant digits of a rate in the detail log and of Offline's in the summary
_PROCESSED = re.compile(r"Processed(?: at least)? (\d+) queries(?: \((\d+)\))?")
_LINE = re.compile(r"\s*([^:]+?)\s*:\s*(\S.*?)\s*")
_ERRORS = re.compile(r"(\d+) ERRORS? encountered|(No errors) encountered")
_WARNINGS = re.compile(r"(\d+) warnings? encountered", re.IGNORECASE)
_BARE = re.compile(rb'("value": ?)-?(?:nan|inf)\b', re.IGNORECASE)  # C++ prints what JSON has no word for
_MARK = b":::MLLOG"
_STATISTIC = r"(min|max|mean|\d+(?:\.\d+)?)"
_IN_SUMMARY = re.compile(
    rf"{_STATISTIC}(?: percentile)? (latency|first token latency|time (?:to|per) output token) \(ns\)"
)
_IN_DETAIL = re.compile(
    rf"result_(first_token_|time_(?:to|per)_output_token_)?{_STATISTIC}(?:_percentile)?(_latency)?(?:_ns)?"
)
_LABELS = yaml_table(Path(__file__).with_name("labels.yaml"), dict[str, str])  # detail log -> summary


class _Meta(msgspec.Struct):
    is_error: bool = False
    is_warning: bool = False


class _Entry(msgspec.Struct):
    key: str
    value: msgspec.Raw = msgspec.Raw(b"null")
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class Log(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One detail log or summary. Raises InputError where a value is none of its kind."""

    source: Source
    words: dict[str, str]  # lower-case label of the summary -> value as text; the first of a label counts
    statistics: dict[tuple[str, str], str]  # (metric, min, max, mean or a percent) -> ns as text
    messages: Counter[str]  # of the errors, where the log has them
    warnings: int
    invalid_beside: str = ""  # what the run's other log says

    @property
    def errors(self) -> int:
        """How many were logged."""
        return max(self.count("num_errors") or 0, self.messages.total())

    def number(self, label: str) -> float | None:
        """A number by its label; None where it is not there."""
        return self._number(self.words.get(label, ""), label)

    def _number(self, text: str, label: str) -> float | None:
        if not text or text.lower().lstrip("-") in ("nan", "inf"):
            return None
        try:
            value = float(text)
        except ValueError:
            raise self.source.fail(f'expected a number, got "{text[:40]}"', label, WHOLE) from None
        if abs(value) > 1e18:  # over thirty years in nanoseconds
            raise self.source.fail(f"expected a measurement, got {value:g}", label, WHOLE)
        return value

    def count(self, label: str) -> int | None:
        """A whole number of things."""
        value = self.number(label)
        if value is not None and (value < 0 or value != int(value)):
            raise self.source.fail(f"expected a count, got {value:g}", label, WHOLE)
        return None if value is None else int(value)

    @cached_property
    def scenario(self) -> str:
        """One of LoadGen's four."""
        scenario = self.words.get("scenario", "")
        if scenario not in _SCENARIOS:
            why = f'the scenario is "{scenario}"; LoadGen has {", ".join(_SCENARIOS)}'
            raise self.source.fail(why, "Scenario", WHOLE)
        return scenario

    @cached_property
    def invalid(self) -> str:
        """Why LoadGen calls the run INVALID; empty where it is VALID."""
        words, verdict = self.words, self.words["result is"]
        missed = [check for check in _CHECKS if words.get(check, "").upper() == "NO"]
        if verdict not in ("VALID", "INVALID"):
            why = f'the result is "{verdict}"; expected VALID or INVALID'
            raise self.source.fail(why, "Result is", WHOLE)
        if verdict == "VALID":
            if missed:
                raise self.source.fail(f'contradicts itself: VALID, but not "{missed[0]}"', hint=WHOLE)
            return self.invalid_beside
        reasons = [check.replace(" satisfied", " not satisfied") for check in missed]
        reasons += [text] if (text := words.get("recommendations", "").rstrip(".")) else []
        reasons += [
            f"{name}: {text}"
            for name in ("TTFT", "TPOT", "")
            if "unsuccessful" in (text := words.get(f"{name} early stopping result".strip().lower(), ""))
            or text.startswith("Only processed")
        ]
        return "; ".join(reasons).rstrip(". ") or "no reason given"

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """LoadGen's own statistics by metric, in seconds; Offline measures no first token."""
        found = {}
        for metric in ("e2e",) if self.scenario == "Offline" else ("ttft", "tpot", "e2e"):
            percents = [what for of, what in self.statistics if of == metric and what[0].isdigit()]
            if percents:
                points = ((float(percent), self._ns(metric, percent)) for percent in percents)
                low, high, mean = (self._ns(metric, what) for what in ("min", "max", "mean"))
                found[metric] = ladder(points, per_second=1e9, mean=mean, low=low, high=high)
        if "e2e" not in found:
            raise self.source.fail("states no latency percentiles", hint=WHOLE)
        return found

    def _ns(self, metric: str, what: str) -> float:
        label = f"{what} of {metric.upper()}"
        value = self._number(self.statistics.get((metric, what), ""), label)
        if value is None:
            raise self.source.fail("is missing or no number", label, WHOLE)
        return value

    @cached_property
    def samples(self) -> int | None:
        """Samples of the run; None where a summary does not say."""
        queries, each = self.count("query_count"), self.count("samples_per_query")
        if queries is not None:
            return queries * (each or 1)
        if (
            self.scenario == "Offline"
        ):  # samples_per_query is what was asked; the rate says how many there were
            rate, high = self.number("samples per second"), self.summaries["e2e"].max
            if rate is None or not high:
                raise self.source.fail("states no samples per second", hint=WHOLE)
            samples = round(rate * high)
            return each if each and abs(each - samples) <= samples * 10.0**-_PRINTED else samples
        for name in _TEXTS[1:]:
            if found := _PROCESSED.search(self.words.get(name, "")):
                return int(found[2] or found[1]) * (each or 1)
        return None

    @cached_property
    def at_least(self) -> int:
        """Samples there were surely: a VALID Server run's schedule lasted at least min_duration."""
        if self.samples is not None:
            return self.samples
        rate = self.number("scheduled samples per second") or 0.0
        shortest_ms = self.number("min_duration (ms)") or 0.0
        met = {check: self.words.get(check) == "Yes" for check in _CHECKS}
        by_time = int((rate - 0.005) * shortest_ms / 1e3) + 1 if met["min duration satisfied"] else 1
        asked_for = self.count("min_query_count") or 1
        return max(by_time, asked_for if met["min queries satisfied"] else 1, 1)

    @cached_property
    def base_s(self) -> float | None:
        """The time of LoadGen's own rates: first schedule to the end of the last-issued query."""
        if self.scenario == "Offline":
            return self.summaries["e2e"].max
        rate = self.number(
            "completed samples per second" if self.scenario == "Server" else "qps w/ loadgen overhead"
        )
        return (self.at_least - 1) / rate if rate and rate > 0 and self.at_least > 1 else None

    @property
    def duration_s(self) -> float | None:
        """First schedule to last completion: as stated to the millisecond, else by LoadGen's rounded rate."""
        if self.scenario == "Offline":
            return self.base_s
        try:
            begin, end = (
                datetime.strptime(self.words.get(f"power_{which}", ""), "%m-%d-%Y %H:%M:%S.%f")
                for which in ("begin", "end")
            )
        except ValueError:
            return self.base_s
        return (end - begin).total_seconds() if end > begin else self.base_s

    @cached_property
    def tokens_per_s(self) -> float | None:
        """Over `base_s`."""
        labels = {"Server": "completed tokens per second", "Offline": "tokens per second"}
        return self.number(labels.get(self.scenario, "tps w/ loadgen overhead"))

    @property
    def counts_tokens(self) -> bool:
        """use_token_latencies: TTFT and TPOT are measured, a missing token is an error."""
        stated = self.words.get("use_token_latencies")
        return stated == "Yes" if stated else self.tokens_per_s is not None or "ttft" in self.summaries

    @property
    def load(self) -> Load | None:
        """The load point."""
        if self.scenario == "Offline":
            return Load(burst=True)
        if self.scenario == "Server":
            return load(rate=self.number("target_qps"))
        return Load(concurrency=self.count("samples_per_query") or 1)


def read(source: Source, kind: Kind) -> Log:
    """A detail log or a summary. Raises InputError when it is broken or has no results."""
    log = _detail(source) if kind is DETAIL else _summary(source)
    _ = log.scenario, log.invalid, log.summaries, log.at_least, log.errors  # what is broken is said here
    return log


# ---- the summary --------------------------------------------------------------------------------


def _summary(source: Source) -> Log:
    text = bytes(source.data).decode("utf-8-sig", "replace")
    if not text.strip():
        raise _aborted(source, "is empty")
    words: dict[str, str] = {}
    statistics: dict[tuple[str, str], str] = {}
    open_label = ""
    for line in text.splitlines():
        label = line.strip().rstrip(":").strip().lower()
        if label in _TEXTS and line.rstrip().endswith(":"):  # its text stands on the lines below
            open_label = label
        elif open_label and line.strip() and not line.startswith("="):
            words[open_label] = f"{words.get(open_label, '')} {line.strip().lstrip('* ')}".strip()
        elif found := _LINE.fullmatch(line):
            label = " ".join(found[1].split()).lower()
            if statistic := _IN_SUMMARY.fullmatch(label):
                statistics.setdefault((_METRICS.get(statistic[2], "tpot"), statistic[1]), found[2])
            words.setdefault(label, found[2])
        elif line.startswith("="):
            open_label = ""
    ending = _ERRORS.search(text)
    if ending is None or "result is" not in words:
        raise source.fail("the summary ends in the middle", hint=WHOLE)
    words["num_errors"], warnings = ending[1] or "0", _WARNINGS.search(text)
    return Log(source, words, statistics, Counter(), int(warnings[1]) if warnings else 0)


# ---- the detail log -----------------------------------------------------------------------------


def _detail(source: Source) -> Log:
    words: dict[str, str] = {}
    statistics: dict[tuple[str, str], str] = {}
    messages: Counter[str] = Counter()
    warnings = 0
    for number, line in enumerate(bytes(source.data).splitlines(), 1):
        if not line.strip():
            continue
        entry = _entry(source, line, number)
        if entry.metadata.is_error:
            messages[_text(source, entry, number)] += 1
        warnings += entry.metadata.is_warning
        if label := _LABELS.get(entry.key):
            words.setdefault(label, _text(source, entry, number))
        elif statistic := _IN_DETAIL.fullmatch(entry.key):
            of = statistic[1] or ""
            metric = "ttft" if of.startswith("first") else "tpot" if of else "e2e" if statistic[3] else ""
            statistics.setdefault((metric, statistic[2]), _text(source, entry, number))
    if not words:
        raise _aborted(source, "is empty")
    if "result is" not in words or "num_errors" not in words:
        raise _aborted(source, "ends before LoadGen wrote all its results")
    return Log(source, words, statistics, messages, warnings)


def _entry(source: Source, line: bytes, number: int) -> _Entry:
    if not line.startswith(_MARK):
        raise source.fail("is not a line of LoadGen's detail log", f"line {number}", WHOLE)
    try:
        return msgspec.json.decode(_BARE.sub(rb"\1null", line[len(_MARK) :]), type=_Entry)
    except BROKEN as error:
        cut = "ends in the middle" if "truncated" in str(error) else f"cannot be read: {error}"
        raise source.fail(f"the line {cut}", f"line {number}", WHOLE) from None


def _text(source: Source, entry: _Entry, number: int) -> str:
    try:
        value: Any = msgspec.json.decode(entry.value)
    except BROKEN:
        raise source.fail(f"the value of {entry.key} is not JSON", f"line {number}", WHOLE) from None
    if isinstance(value, bool):
        return "Yes" if value else "NO"
    return "" if value is None else " ".join(str(value).replace(" * ", " ").split())


def _aborted(source: Source, what: str) -> InputError:
    why = f"{what}: the run was aborted, or the file was cut short"
    return source.fail(why, hint="run the benchmark again; LoadGen writes its results when a run ends")
