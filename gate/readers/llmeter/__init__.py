"""LLMeter (awslabs): responses.jsonl with summary.json, stats.json and run_config.json beside.

Rows are in seconds and in order of completion; `request_time` has whole seconds, too coarse for a start.
LoadTest appends the rows of all its client levels to one file: the last level is told apart by stats.json.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...model import Run
from .._format import Format
from .._source import Source

NAME = "llmeter"
TITLE = "LLMeter"
SIDE_FILES: Mapping[str, str] = {
    "run_config.json": "the configuration of an LLMeter or AIPerf run",
    "payload.jsonl": "the payloads LLMeter sent",
}
FORMATS: Sequence[Format] = (
    Format(
        files="`responses.jsonl` with summary and run_config (0.1 to 0.2)",
        evidence="requests",
        reads="TTFT, E2E, tokens, errors; model, clients, duration, day",
        cannot=(
            "ITL; an error rate of 0 with SDK retries; TTFT and TPOT when TTFT follows reasoning; earlier "
            "levels of a LoadTest"
        ),
        traps="partial values of failed requests; all levels in one file",
    ),
    Format(
        files="`stats.json` alone",
        evidence="aggregate",
        reads="percentiles (exclusive: P99 may exceed the maximum)",
        cannot="with failures TTFT and E2E: they are in the percentiles",
        traps="-",
    ),
)
DEFINITIONS: Mapping[str, str] = {
    "ttft": "time_to_first_token: send to first visible content or to any token, by how its client is set",
    "e2e": "time_to_last_token: send to last content chunk; contains the SDK's retries and their pauses",
    "tpot": "time_per_output_token: (time_to_last_token - time_to_first_token) / (num_tokens_output - 1)",
    "itl": "not recorded",
}
_ROWS = frozenset(("response_text", "time_to_first_token", "time_to_last_token", "num_tokens_output"))
_STATS = frozenset(("total_requests", "failed_requests", "time_to_last_token-p50"))
_SUMMARY = frozenset(("total_requests", "clients", "n_requests", "total_test_time", "run_name"))
_CONFIG = frozenset(("endpoint", "clients", "n_requests", "payload", "tokenizer"))
_CUT_ROWS = r'\s*\{\s*"response_text"\s*:.*"time_to_first_token"'
_CUT_STATS = r'\s*\{\s*"total_requests"\s*:.*"failed_requests_rate"'


def sniff(source: Source, /) -> bool:
    """Whether LLMeter wrote it: rows, statistics, summary or configuration."""
    return kind(source) is not None


def read(source: Source, /) -> Sequence[Run]:
    """The runs of the file: one, or one a part where a LoadTest put several levels into it.

    Raises InputError when it is broken, empty, no result or contradicts the files beside it.
    """
    from . import files, rows, stats

    found = kind(source)
    if found == "rows":
        return rows.read(source)
    if found == "stats":
        return (stats.read(source),)
    if found is not None:
        raise source.fail(files.NO_RESULT[found], hint="pass the run's responses.jsonl or stats.json")
    if fault := source.fault():
        raise fault
    raise source.fail("holds no responses of LLMeter", hint="pass the run's responses.jsonl")


def companions(sources: Sequence[Source], /) -> Mapping[Source, str]:
    """Statistics whose rows are there too (same folder and prefix, or the same numbers), and side files."""
    from . import rows

    return rows.companions(sources)


def kind(source: Source) -> str | None:
    """rows, stats, summary, config, or None for a file that is not LLMeter's."""
    if source.shape == "broken":
        if re.match(_CUT_ROWS, source.head, re.DOTALL):
            return "rows"
        return "stats" if re.match(_CUT_STATS, source.head, re.DOTALL) else None
    if source.shape not in ("object", "objects"):
        return None
    keys = source.keys
    if keys >= _ROWS:
        return "rows"
    if keys >= _STATS:
        return "stats"
    if keys >= _SUMMARY and not any("-p" in key for key in keys):
        return "summary"
    return "config" if keys >= _CONFIG else None
