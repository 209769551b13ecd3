"""A Prometheus server's own history: one range query of the raw series that the reader knows.

https://prometheus.io/docs/prometheus/latest/querying/api/#range-queries; Thanos, Mimir and VictoriaMetrics
answer it too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ..errors import InputError, UsageError
from ..readers.prometheus import engines
from .answers import Answer, Pulled, Span, gaps
from .client import Client, named

MOST_LOOKS = 11_000  # a range query gives no more
_LABEL = r"\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*\"(?:[^\"\\\n]|\\.)*\"\s*"
_SELECTOR = re.compile(rf"\s*\{{(?:{_LABEL}(?:,{_LABEL})*,?\s*)?\}}\s*")
_COUNTER = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{.*\})?\s*", re.DOTALL)


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: list[Answer]


class _Reply(msgspec.Struct, rename="camel"):
    status: str
    data: _Data | None = None
    error: str = ""
    warnings: list[str] = []
    infos: list[str] = []


def pull_server(client: Client, url: str, span: Span, *, match: str = "", attempted: str = "") -> Pulled:
    """Every series of an engine between two times, and the counter of attempted requests.

    `match` narrows the engines' series, `{pod=~"canary-.*"}`; `attempted` is NAME or NAME{label="value"}.
    Raises UsageError for a selector that is none, InputError for what the server refuses or does not have.
    """
    if span.looks > MOST_LOOKS:
        why = f"{span.looks:,} steps are more than the {MOST_LOOKS:,} that a server answers"
        raise UsageError(why, "--step", "take a longer step or a shorter time")
    queries = [engine_query(match)]
    if attempted:
        queries.append(_counter_query(attempted))
    found: dict[tuple[tuple[str, str], ...], Answer] = {}
    notes: list[str] = []
    for query in queries:
        for one in _asked(client, url, query, span, notes):
            found.setdefault(tuple(sorted(one.metric.items())), one)
    answers = tuple(found.values())
    if not any(_is_latency(one) for one in answers):
        raise InputError(_nothing(answers), named(url), _elsewhere(match))
    if attempted and not any(_counts(one, attempted) for one in answers):
        notes.append(
            f"the server has no {attempted} in this time: how many requests were attempted stays unknown"
        )
    if match and attempted and "{" not in attempted:
        notes.append(
            '--match does not narrow --attempted: give the counter labels of its own, NAME{label="value"}'
        )
    pulled = Pulled(
        answers, {"url": named(url), "match": match, "attempted": attempted, **msgspec.to_builtins(span)}
    )
    return msgspec.structs.replace(pulled, notes=(*notes, *gaps(span, pulled.looks)))


def engine_query(match: str) -> str:
    """The selector of every series that the reader knows; names with `:`, `_` or `.` alike.

    Raises UsageError for a `match` that is no selector.
    """
    if match and not _SELECTOR.fullmatch(match):
        hint = "write labels alone, such as --match '{pod=~\"canary-.*\"}'"
        raise UsageError(f"is no selector: {match[:80]}", "--match", hint)
    # Names with a dot are only in Prometheus 3; a regular expression is right in older ones too.
    names = "|".join(name.replace("_", "[_:.]") for name in engines.NAMES)
    inside = match.strip()[1:-1].strip().rstrip(",") if match else ""
    return f'{{__name__=~"{names}"{"," + inside if inside else ""}}}'


def _counter_query(attempted: str) -> str:
    found = _COUNTER.fullmatch(attempted)
    labels = found[2] if found else None
    if found is None or (labels and not _SELECTOR.fullmatch(labels)):
        raise UsageError(
            f"names no counter: {attempted[:80]}", "--attempted", 'write NAME, or NAME{label="value"}'
        )
    inside = labels.strip()[1:-1].strip().rstrip(",") if labels else ""
    name = found[1].removesuffix("_total")
    return f'{{__name__=~"{name}(?:_total)?"{"," + inside if inside else ""}}}'


def _asked(client: Client, url: str, query: str, span: Span, notes: list[str]) -> Sequence[Answer]:
    fields = {
        "query": query,
        "start": f"{span.begin_s:.3f}",
        "end": f"{span.end_s:.3f}",
        "step": f"{span.step_s:g}",
    }
    body = client.post(f"{url.rstrip('/')}/api/v1/query_range", fields)
    where = named(url)
    try:
        reply = msgspec.json.decode(body, type=_Reply)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        hint = "name the server as in its browser page, such as http://prometheus:9090"
        raise InputError("its answer is none of Prometheus' query API", where, hint) from None
    if reply.status != "success" or reply.data is None or reply.data.result_type != "matrix":
        said = " ".join(reply.error.split())[:300] or "no series over time"
        raise InputError(f"answers with an error: {said}", where, "see the log of the server")
    notes += [f"the server warns: {' '.join(text.split())[:200]}" for text in (*reply.warnings, *reply.infos)]
    return reply.data.result


def _is_latency(one: Answer) -> bool:
    """Whether it is a histogram of an engine, classic or native."""
    name = engines.canonical(one.metric.get("__name__", ""))
    part = engines.Series(name if name.endswith("_bucket") else f"{name}_bucket").part
    return part is not None and part.metric not in ("", "length")


def _counts(one: Answer, attempted: str) -> bool:
    wanted = engines.canonical(attempted.partition("{")[0].strip()).removesuffix("_total")
    return engines.canonical(one.metric.get("__name__", "")).removesuffix("_total") == wanted


def _nothing(answers: Sequence[Answer]) -> str:
    if answers:
        return "has counters of an engine in this time, and no latency histogram of it"
    return "has no series of an engine that is known in this time"


def _elsewhere(match: str) -> str:
    first = "leave out --match to see whether there are any; " if match else ""
    return (
        f"{first}check the time and that the server scrapes the engines: `up` in its browser page shows them"
    )
