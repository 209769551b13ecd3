"""How the rules are broken in the logs of LoadGen: changes of a real run of the Server scenario."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.readers.mlperf_logs import CASES, DETAIL, SUMMARY, TRACE
from tests.readers.rules import Alone, Change, Form

ACCURACY = "mlperf_log_accuracy.json"
TYPICAL = CASES / "typical"
ONE_TOKEN = (
    ':::MLLOG {"key": "error_runtime", "value": "Number of tokens need to be greater than 1",'
    ' "metadata": {"is_error": true, "is_warning": false}}\n'
)


def writer(*names: str) -> Callable[[Path], Sequence[str]]:
    """Of these logs of the run, unpacked."""

    def write(folder: Path) -> Sequence[str]:
        for name in names:
            path = TYPICAL / name
            data = (
                path.read_bytes()
                if path.is_file()
                else gzip.decompress((TYPICAL / f"{name}.gz").read_bytes())
            )
            (folder / name).write_bytes(data)
        return names

    return write


def text(name: str, change: Callable[[str], str]) -> Change:
    """The log with `change` applied to its text."""

    def apply(folder: Path) -> None:
        path = folder / name
        path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")

    return apply


def every(*changes: Change) -> Change:
    def apply(folder: Path) -> None:
        for change in changes:
            change(folder)

    return apply


def gone(*names: str) -> Change:
    return every(*((lambda folder, name=name: (folder / name).unlink()) for name in names))


def values(pattern: str, value: str) -> Change:
    """The detail log with the values of these keys replaced."""
    return text(DETAIL, lambda log: re.sub(rf'("key": "{pattern}", "value": )[^,]+', rf"\g<1>{value}", log))


def without(pattern: str, name: str = DETAIL) -> Change:
    """The log without the lines that hold the pattern."""
    return text(name, lambda log: "".join(x for x in log.splitlines(True) if not re.search(pattern, x)))


def errors(number: int, line: str = "") -> Change:
    """That many errors in the detail log."""
    return every(values("num_errors", str(number)), text(DETAIL, lambda log: log + line * number))


def tokens(change: Callable[[int, dict[str, Any]], object]) -> Change:
    """The accuracy log with `change` applied to each answer."""

    def changed(log: str) -> str:
        answers = json.loads(log)
        for number, answer in enumerate(answers):
            change(number, answer)
        return json.dumps(answers)

    return text(ACCURACY, changed)


def first_tokens(after_ns: Callable[[int, int], int]) -> Change:
    """The trace with each TTFT made of its issue delay and the E2E of its sample; none of it in the log."""

    def changed(log: str) -> str:
        e2e = dict(re.findall(r'"name":"Sample".*?"ts":([\d.]+),.*?"complete_ns":(\d+)\}', log))
        return re.sub(
            r'"ts":([\d.]+),"args":\{ "issue_delay":(\d+),"issue_to_done":\d+\}',
            lambda m: (
                f'"ts":{m[1]},"args":{{ "issue_delay":{m[2]},"issue_to_done":'
                f"{after_ns(int(e2e[m[1]]), int(m[2]))}}}"
            ),
            log,
        )

    return every(text(TRACE, changed), UNTIMED)


def in_summary(pattern: str, value: str) -> Change:
    """The summary with the values of these labels replaced."""
    return text(SUMMARY, lambda log: re.sub(rf"(?m)^(\s*(?:{pattern})\s*: *).+$", rf"\g<1>{value}", log))


def as_whole(folder: Path) -> None:
    """Every figure of TTFT is that of E2E, of TPOT 1 us."""
    path = folder / SUMMARY
    log = path.read_text(encoding="utf-8")
    e2e = dict(re.findall(r"(?m)^(\S+)(?: percentile)? latency \(ns\)\s*: (\d+)", log))
    log = re.sub(
        r"(?m)^((\S+)(?: percentile)? first token latency \(ns\)\s*: )\d+",
        lambda m: m[1] + e2e[m[2]],
        log,
        flags=re.IGNORECASE,
    )
    path.write_text(re.sub(r"(?m)^(.*output token \(ns\)\s*: )\d+", r"\g<1>1000", log), encoding="utf-8")


def as_whole_in_detail(folder: Path) -> None:
    path = folder / DETAIL
    log = path.read_text(encoding="utf-8")
    e2e = dict(re.findall(r'"result_(\S+?)(?:_percentile)?_latency_ns", "value": (\d+)', log))
    log = re.sub(
        r'("result_first_token_(\S+?)(?:_percentile)?_latency_ns", "value": )\d+',
        lambda m: m[1] + e2e[m[2]],
        log,
    )
    log = re.sub(r'("result_time_\S+?_output_token_\S+", "value": )\d+', r"\g<1>1000", log)
    path.write_text(log, encoding="utf-8")


UNTIMED = without("result_first_token|output_token_")
UNCOUNTED = every(
    without("result_first_token|output_token_|tokens_per_second|token_throughput"),
    values("requested_use_token_latencies", "false"),
)
INVALID = every(values("result_validity", '"INVALID"'), values("early_stopping_met", "false"))
NEVER = {
    "retries": "sends each sample once; what the system under test repeats is in its latency",
    "retried": "sends each sample once; what the system under test repeats is in its latency",
    "several loads": "is of one load",
    "repetitions": "is no JSON",
    "cut rows": "keeps no text and no chunks",
}
ALONE = NEVER | {
    "lost rows": "is of a run that ends when every sample it issued is complete",
    "token totals": "has no rows to compare its total with",
    "summary alone": "is the summary, with LoadGen's errors in it",
}
OF_SAMPLES = ("zero tokens", "half the tokens", "zero time", "negative time")
KINDS = {
    "trace": Form(
        writer(TRACE, DETAIL, ACCURACY),
        ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput"),
        {
            "lost rows": without(r'"sample_seq":\d*[13579],', TRACE),
            "counts": values("result_query_count", "700"),
            "failed": errors(276),
            "all failed": errors(830),
            "zero tokens": tokens(lambda n, answer: answer.update(token_count=0)),
            "null tokens": every(
                tokens(lambda n, answer: answer.update(token_count=None)),
                without("Token_Latency", TRACE),
                UNCOUNTED,
            ),
            "half the tokens": tokens(lambda n, answer: n % 2 or answer.update(token_count=0)),
            "token totals": values("result_completed_tokens_per_second", "2172.7"),
            "one burst": first_tokens(lambda e2e, delay: e2e - delay - 100_000),
            "one burst: no counts": every(
                first_tokens(lambda e2e, delay: e2e - delay - 100_000), gone(ACCURACY)
            ),
            "not streamed": every(without("Token_Latency", TRACE), UNTIMED),
            "zero time": first_tokens(lambda e2e, delay: -delay),
            "negative time": text(TRACE, lambda log: log.replace('"complete_ns":1', '"complete_ns":-1')),
            "falling percentiles": values("result_99.00_percentile_latency_ns", "1"),
            "tool's verdict": INVALID,
            "tool's verdict: none": gone(DETAIL),
            "summary alone": every(errors(415, ONE_TOKEN), gone(TRACE, ACCURACY)),
        },
        NEVER,
        (
            Alone(ACCURACY, "counts the tokens of each answer", ("zero tokens", "half the tokens")),
            Alone(TRACE, "shows what the log's percentiles leave out", ("lost rows", *OF_SAMPLES)),
            Alone(
                "*_trace.json.gz",
                "is what is read, and has no TPOT, which the log states",
                ("single-stream",),
            ),
        ),
    ),
    "detail log": Form(
        writer(DETAIL),
        ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput"),
        {
            "counts": every(writer(SUMMARY), in_summary("50.00 percentile latency .ns.", "198859623")),
            "failed": errors(276),
            "all failed": errors(830),
            "zero tokens": values("result_completed_tokens_per_second", "0"),
            "null tokens": UNCOUNTED,
            "half the tokens": errors(415, ONE_TOKEN),
            "one burst": as_whole_in_detail,
            "not streamed": UNTIMED,
            "zero time": values("result_first_token_(?:min|50.00_percentile)_latency_ns", "0"),
            "negative time": values("result_min_latency_ns", "-5"),
            "falling percentiles": values("result_99.00_percentile_latency_ns", "1"),
            "tool's verdict": INVALID,
        },
        ALONE,
    ),
    "summary": Form(
        writer(SUMMARY),
        ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput"),
        {
            "failed": text(SUMMARY, lambda log: log.replace("No errors", "276 ERRORS")),
            "all failed": text(SUMMARY, lambda log: log.replace("No errors", "830 ERRORS")),
            "zero tokens": in_summary("Completed tokens per second", "0"),
            "null tokens": without("(?i)first token|output token|tokens per second", SUMMARY),
            "half the tokens": text(SUMMARY, lambda log: log.replace("No errors", "415 ERRORS")),
            "one burst": as_whole,
            "not streamed": without("(?i)first token|output token", SUMMARY),
            "zero time": in_summary(
                "Min First Token latency .ns.|50.00 percentile first token latency .ns.", "0"
            ),
            "negative time": in_summary("Min latency .ns.", "-5"),
            "falling percentiles": in_summary("99.00 percentile latency .ns.", "1"),
            "tool's verdict": every(
                in_summary("Result is", "INVALID"), in_summary("Early stopping satisfied", "NO")
            ),
        },
        ALONE | {"counts": "does not say how many samples there were"},
    ),
}
