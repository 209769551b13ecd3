"""LLMeter's rows, or its statistics alone; what the files beside say of the run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from ...model import Aggregate, Counts, Doubt, Floats, Summary, Why
from .. import clocks, kinds, tables
from ..ladders import ladder
from ..loads import load
from ..settle.case import EVERY
from ..source import Doc, Source
from ..told import Counted, Told
from . import KINDS, TITLE

_METRICS = {"ttft": "time_to_first_token", "e2e": "time_to_last_token", "tpot": "time_per_output_token"}
_METHOD = "statistics.quantiles, exclusive (P50: median), partial values of failed requests included"
_ROWS = "the responses.jsonl that LLMeter writes beside it"
_SAME = 1e-9  # relative; the statistics are computed from the very rows
_WHOLE = "copy the folder whole, or move the files of the other run away"
_CONTENT = "time_to_first_token: send to first visible content, after any reasoning"
_ANY_TOKEN = "time_to_first_token: send to first token of any kind, reasoning included"
_STREAM_WITH = "use a streaming endpoint of LLMeter, such as OpenAICompletionStreamEndpoint ({} was used)"
_RETRIES_WITH = "keep run_config.json beside it, of an endpoint with max_retries (0 turns them off)"
_ASKED_WITH = "keep stats.json, summary.json and run_config.json beside it"
_AFTER_REASONING = (
    "TTFT is the time to the first visible content, which comes after the reasoning; use an LLMeter that"
    " writes time_to_first_content_token, or ttft_visible_tokens_only=False"
)
_REASONING_UNKNOWN = (
    "TTFT ends with the first visible content, and the statistics do not say whether there was reasoning"
    f" before it, which would make TPOT too small; keep {_ROWS}"
)
_LEVELS_UNKNOWN = (
    "nothing says of how many client levels the rows are: a LoadTest appends all of its levels to one file;"
    " keep stats.json, summary.json or run_config.json beside it"
)


class _Row(msgspec.Struct, gc=False):
    time_to_first_token: tables.Cell
    time_to_last_token: tables.Cell
    num_tokens_output: tables.Tokens
    error: str | None
    response_text: str | None = None
    num_tokens_input: tables.Tokens = None
    num_tokens_output_reasoning: tables.Tokens = None
    retries: int | None = None  # counted by Bedrock only
    id: str | None = None
    input_prompt: str | None = None
    request_time: str | None = None
    time_to_first_content_token: tables.Cell | msgspec.UnsetType = msgspec.UNSET


class _Facts(msgspec.Struct, frozen=True):
    """What the files beside the rows say of the run; None where nothing does."""

    requests: int | None  # of the last level
    asked: int | None  # clients x requests of each
    by_time: bool  # a duration was to end the run, not a number of requests
    clients: int | None
    duration_s: float | None
    model: str | None
    date: str | None
    retries: int | None  # at most, by the SDK inside a request
    any_token: bool  # TTFT does not wait for visible content
    endpoint: str  # class of the client

    @property
    def told(self) -> dict[str, Any]:
        """As `Told` names it, of rows and of statistics alone."""
        return {
            "tool": TITLE,
            "retries": self.retries,
            "retries_with": _RETRIES_WITH,
            "asked": self.asked,
            "asked_with": "" if self.by_time else _ASKED_WITH,
            "duration_s": self.duration_s,
            "load": load(slots=self.clients),
            "model": self.model,
            "date": self.date,
            "stream_with": _STREAM_WITH.format(self.endpoint),
            "method": _METHOD,
        }


def decode(source: Source) -> Sequence[Told]:
    """The runs of the file, earlier levels of a LoadTest first. Raises InputError as the card says."""
    kind = kinds.result(source, KINDS, TITLE, "pass the run's responses.jsonl or stats.json")
    return _levels(source) if kind is KINDS[0] else (_statistics(source),)


def same(source: Source, stats: Source) -> bool:
    """Whether statistics of another name are those of these rows: the same number and the same mean."""
    if "broken" in (source.shape, stats.shape) or stats.doc.number("time_to_last_token-average") is None:
        return False
    rows = _decoded(source)
    return stats.doc.count("total_requests") == len(rows) and _same_mean(stats.doc, rows)


# ---- rows ---------------------------------------------------------------------------------


def _levels(source: Source) -> list[Told]:
    """The level that the files beside are about, and before it all earlier ones, of unknown loads."""
    rows, stats = _decoded(source), _beside(source, "stats.json")
    facts = _facts(source, stats)
    last = len(rows) if facts.requests is None else facts.requests
    if last > len(rows):
        why = f"contradicts the files beside it: {len(rows)} rows here, {last} requests there"
        raise source.fail(why, hint=_WHOLE)
    earlier, rows = rows[: len(rows) - last], rows[len(rows) - last :]
    if stats is not None and not _same_mean(stats, rows):
        why = f"contradicts stats.json beside it: the last {last} rows have another mean time_to_last_token"
        raise source.fail(why, hint=_WHOLE)
    levels = [_told(rows, facts, stats)] if rows else []
    if earlier:
        nothing = replace(facts, clients=None, asked=None, duration_s=None)
        before = replace(_told(earlier, nothing, None), level="earlier client levels")
        levels = [*(_of_unknown_levels((before,)) if not rows else (before,)), *levels]
    elif facts.requests is None and (facts.asked is None or facts.asked < len(rows)):
        levels = _of_unknown_levels(levels)
    return levels


def _of_unknown_levels(levels: Iterable[Told]) -> list[Told]:
    doubt = Doubt(Why.SEVERAL_LOADS, EVERY, _LEVELS_UNKNOWN)
    return [replace(level, doubts=(*level.doubts, doubt)) for level in levels]


def _decoded(source: Source) -> list[_Row]:
    return [row for rows in source.rows(_Row) for row in rows]


def _same_mean(stats: Doc, rows: Sequence[_Row]) -> bool:
    mean, cells = (
        stats.number("time_to_last_token-average"),
        tables.column(r.time_to_last_token for r in rows),
    )
    if mean is None or not np.isfinite(cells).any():
        return True
    return abs(mean - float(np.nanmean(cells))) <= _SAME * abs(mean)


def _told(rows: Sequence[_Row], facts: _Facts, stats: Doc | None) -> Told:
    table = tables.table(
        rows,
        errors=(row.error is not None for row in rows),
        order="completion",
        ttft_s="time_to_first_token",
        e2e_s="time_to_last_token",
        output_tokens="num_tokens_output",
        input_tokens="num_tokens_input",
    )
    ids = tuple(row.id for row in rows if row.id)
    any_token = facts.any_token or any(r.time_to_first_content_token is not msgspec.UNSET for r in rows)
    ttft = _ANY_TOKEN if any_token else _CONTENT
    hidden = () if any_token or not any(row.num_tokens_output_reasoning for row in rows) else ("ttft", "tpot")
    retries = _retries(rows)
    repeated = tuple(_repeated(retries))
    marks = {"failed": np.array([bool(row.retries) for row in rows])} if repeated else {}
    partial = sum(row.error is not None and row.time_to_last_token is not None for row in rows)
    stated = _summaries(stats) if stats else {}
    known = {
        **facts.told,
        "retries": 0 if retries else facts.retries,
        "date": facts.date or clocks.day_of(min(row.request_time or "" for row in rows)),
    }
    return Told(
        **known,
        format="llmeter responses",
        evidence=replace(table, ids=ids if len(ids) == len(rows) else None, doubted=marks),
        counted=_counted(stats) if stats else None,
        output_tokens=stats.number("total_output_tokens") if stats else None,
        prompts=tables.different(row.input_prompt for row in rows),
        characters=_characters(rows),
        stated=stated,
        definitions={"ttft": ttft},
        messages=[
            "" if row.error is None else " ".join(row.error.split())[:60] or "an error without a text"
            for row in rows
        ],
        doubts=(*repeated, *(Doubt(Why.DEFINITION, (of,), _AFTER_REASONING) for of in hidden)),
        notes=(
            *(doubt.why for doubt in repeated),
            *_partial(partial if stated else 0),
            f"TTFT is {ttft.partition(': ')[2]}",
        ),
    )


def _characters(rows: Sequence[_Row]) -> Floats:
    """Of the visible text; that of reasoning is in no row, though its tokens are counted."""
    return tables.column(
        None if row.response_text is None or row.num_tokens_output_reasoning else len(row.response_text)
        for row in rows
    )


def _retries(rows: Sequence[_Row]) -> list[int]:
    """How often each request was repeated; empty where the client did not count it for all completed."""
    counted = [row.retries for row in rows if row.error is None or row.retries is not None]
    known = [number for number in counted if number is not None]
    return known if len(known) == len(counted) else []


def _repeated(retries: Sequence[int]) -> Iterator[Doubt]:
    if requests := sum(number > 0 for number in retries):
        why = (
            f"the SDK retried {requests} requests, {sum(retries)} times in all: each counts once, and its"
            " latencies contain the failed attempts; run with retries off"
        )
        yield Doubt(Why.RETRIED, ("error_rate",), why, requests)


def _partial(failed: int) -> Iterator[str]:
    if failed:
        yield f"LLMeter's percentiles contain the partial times of {failed} failed requests, ours do not"


# ---- statistics alone ---------------------------------------------------------------------


def _statistics(source: Source) -> Told:
    doc = source.doc
    counts, facts, stated = _counts(doc), _facts(source, doc), _summaries(doc)
    # How many answers had two tokens or more is not stated, nor how many failed requests had times.
    n = None if counts.failed else counts.completed
    known = {metric: s if metric == "tpot" else replace(s, n=n) for metric, s in stated.items()}
    doubts = []
    if counts.failed:
        why = f"LLMeter's percentiles contain what {counts.failed} failed requests had measured before they"
        doubts.append(Doubt(Why.PARTIAL, ("ttft", "e2e"), f"{why} failed; keep {_ROWS}"))
    reasoning = doc.number("total_reasoning_output_tokens")  # since TTFT is that of any token
    if reasoning is None and not facts.any_token:
        doubts.append(Doubt(Why.DEFINITION, ("tpot",), _REASONING_UNKNOWN))
    return Told(
        **facts.told,
        format="llmeter statistics",
        evidence=Aggregate({m: s for m, s in known.items() if s.percentiles}, "exclusive", settled_by=_ROWS),
        counts=counts,
        output_tokens=doc.number("total_output_tokens"),
        stated=stated,
        definitions={"ttft": "time_to_first_token"},
        doubts=tuple(doubts),
    )


def _counts(doc: Doc) -> Counts:
    """Raises InputError where they are not stated."""
    counted = _counted(doc)
    if counted.attempted is None or counted.completed is None or counted.failed is None:
        why = "does not say how many requests were sent and failed"
        raise doc.source.fail(why, doc.at, "pass the stats.json that LLMeter wrote")
    return Counts(counted.attempted, counted.completed, counted.failed)


def _counted(doc: Doc) -> Counted:
    attempted, failed = doc.count("total_requests"), doc.count("failed_requests")
    completed = None if attempted is None or failed is None else attempted - failed
    return Counted(completed, failed, attempted, f"{doc.source.name}, failed_requests")


def _summaries(doc: Doc) -> Mapping[str, Summary]:
    """LLMeter's own percentiles by metric."""
    found = {}
    for metric, name in _METRICS.items():
        keys = (re.fullmatch(rf"{name}-p(\d+)", key) for key in doc.fields)
        points = ((float(key[1]), doc.number(key[0])) for key in keys if key)
        found[metric] = ladder(points, mean=doc.number(f"{name}-average"))
    return found


# ---- the files beside ---------------------------------------------------------------------


def _beside(source: Source, name: str) -> Doc | None:
    file = kinds.beside(source, KINDS, name)
    return None if file is None else file.doc


def _facts(source: Source, stats: Doc | None) -> _Facts:
    """What stats.json or summary.json, and run_config.json, say. Raises InputError for wrong types."""
    nothing = Doc(source, {})
    summary = stats or _beside(source, "summary.json") or nothing
    config = _beside(source, "run_config.json") or nothing
    endpoint = config.mapping("endpoint")
    state: Any = endpoint.get("__llmeter_state__", endpoint)  # until 0.1.12 it stood where the class stands
    state = state if isinstance(state, dict) else {}
    name = _text(endpoint.get("__llmeter_class__")) or _text(endpoint.get("endpoint_type")) or "another"
    clients = summary.count("clients")
    clients = config.count("clients") if clients is None else clients
    each = config.count("n_requests") or summary.count("n_requests")  # 0 where a duration ended the run
    retries = state.get("max_retries")
    return _Facts(
        requests=summary.count("total_requests"),
        asked=clients * each if clients and each else None,
        by_time=bool(config.any("run_duration")),
        clients=clients,
        duration_s=summary.number("total_test_time"),
        model=summary.text("model_id") or _text(state.get("model_id")),
        date=clocks.day_of(summary.text("start_time")),
        retries=retries if isinstance(retries, int) else None,
        any_token=state.get("ttft_visible_tokens_only") is False,
        endpoint=name.rpartition(".")[2],
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
