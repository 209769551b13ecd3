"""Engines' own /metrics pages, looked at several times: what a server of Prometheus would keep of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from ..errors import GateError, InputError, UsageError
from ..readers.prometheus.scrapes import Scrape, from_text, wanted
from ..readers.source import Source
from .answers import Answer, Pulled, Span, clock
from .client import Client, named

Progress = Callable[[int, int], None]  # looks done, looks in all
LATE, LATE_S = 0.1, 0.25  # of the time between two looks, or s: by so much a window may be another


def pull_pages(
    client: Client, urls: Sequence[str], span: Span, *, attempted: str = "", progress: Progress | None = None
) -> Pulled:
    """Look at every page at each step of `span`, which begins when it is called.

    A look has the time at which it began. A page that does not answer then, or answers late, is told and is
    missing in that look, so that the windows about it are refused. Raises UsageError for a page named twice,
    InputError where none answers in time at the first look: without a beginning nothing could pass.
    """
    if len(set(map(named, urls))) < len(urls):
        raise UsageError("a page is named twice", named(urls[0]), "name each page once")
    found: dict[tuple[tuple[str, str], ...], Answer] = {}
    notes: list[str] = []
    last: GateError | None = None
    looks: list[float] = []
    begun = time.monotonic()
    for look in range(span.looks):
        time.sleep(max(0.0, begun + look * span.step_s - time.monotonic()))
        since = time.monotonic()
        at = round(span.begin_s + since - begun, 3)
        looks.append(at)
        for url in urls:
            try:
                body = client.get(url)
                _in_time(time.monotonic() - since, span.step_s, named(url))
                scrape = _scrape(body, named(url), attempted)
            except GateError as error:
                last = error
                notes.append(f"{error.where} at {clock(at)}: {error.message}")
                continue
            _keep(scrape, named(url).partition("://")[2], at, found)
        if last and not found:
            raise InputError(last.message, last.where, last.hint) from None
        if progress:
            progress(look + 1, span.looks)
    about = {
        "url": " ".join(map(named, urls)),
        "match": "",
        "attempted": attempted,
        "looks_s": looks,
        **msgspec.to_builtins(span),
    }
    return Pulled(tuple(found.values()), about, tuple(notes))


def _in_time(late_s: float, step_s: float, where: str) -> None:
    """Raises InputError for an answer that is so late that the window is another than its times say."""
    if late_s > max(LATE * step_s, LATE_S):
        why = f"answered {late_s:.1f} s late, which is too late for looks {step_s:g} s apart"
        raise InputError(why, where, "look less often: --every")


def _scrape(body: bytes, where: str, attempted: str) -> Scrape:
    """The one exposition of a page. Raises InputError for any other page."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "page"
        path.write_bytes(body)
        source = Source(path, where, attempted_counter=attempted or None)
        if source.shape != "text":
            raise source.fail(
                "is no page of metrics", hint="name the engine's page, such as http://engine:8000/metrics"
            )
        found = from_text(source, wanted(source))
    if len(found) != 1 or not (found[0].values or found[0].starts):
        raise InputError(
            "holds no metric of an engine that is known",
            where,
            "name the engine's page, such as http://engine:8000/metrics",
        )
    return found[0]


def _keep(scrape: Scrape, instance: str, at: float, found: dict[tuple[tuple[str, str], ...], Answer]) -> None:
    """Each sample under its series, with the page it stood on, as Prometheus labels it.

    Two pages are two processes, whatever instance they say that they are.
    """
    starts = {
        (*process, ("__name__", "process_start_time_seconds")): value
        for process, value in scrape.starts.items()
    }
    values = {
        (
            *series.labels,
            ("__name__", series.name),
            *((("le", repr(series.le)),) if series.le is not None else ()),
        ): value
        for series, value in scrape.values.items()
    }
    for labels, value in (starts | values).items():
        told = {f"exported_{key}" if key == "instance" else key: text for key, text in labels}
        key = tuple(sorted({**told, "instance": instance}.items()))
        found.setdefault(key, Answer(dict(key))).values.append((at, repr(value)))
