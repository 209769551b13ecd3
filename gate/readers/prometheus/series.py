"""Series of scrapes: which belong together, in which order, and their windows as runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from ...model import Run
from ..source import Source
from . import runs, scrapes, windows
from .scrapes import Scrape

_HINT = "scrape /metrics of vLLM, SGLang, TensorRT-LLM, Triton or an OpenTelemetry GenAI server"


def read(sources: Sequence[Source]) -> Sequence[Run]:
    """The windows of all files together, one series a folder. Raises InputError where there is none."""
    series = _series(sources)
    found = [run for one in series for run in _read_series(one)]
    if found:
        return found
    raise sources[0].fail("no request finished between the scrapes", hint="scrape while there is traffic")


def _series(sources: Sequence[Source]) -> list[list[Scrape]]:
    """Scrapes that follow one another, in order: of one folder, or of all when folders hold one each."""
    folders: dict[str, list[Scrape]] = {}
    for source in sorted(sources, key=lambda one: _natural(one.name)):
        folder = str(source.path.parent) if source.path is not None else ""
        folders.setdefault(folder, []).extend(_scrapes(source))
    if any(len(scrapes_) == 1 for scrapes_ in folders.values()):
        folders = {"": [scrape for scrapes_ in folders.values() for scrape in scrapes_]}
    return [_in_order(scrapes_) for scrapes_ in folders.values()]


def _natural(name: str) -> list[tuple[int, int, str]]:
    """scrape-2 before scrape-10."""
    return [(1, int(word), "") if word.isdecimal() else (0, 0, word) for word in re.split(r"(\d+)", name)]


def _scrapes(source: Source) -> list[Scrape]:
    want = scrapes.wanted(source)
    found = scrapes.from_json(source, want) if source.shape == "object" else scrapes.from_text(source, want)
    if not found:
        raise source.fail("holds no sample", hint=_HINT)
    return found


def _in_order(found: list[Scrape]) -> list[Scrape]:
    """By time where every scrape has one; answers to several queries at the same time are one scrape."""
    if any(scrape.at is None for scrape in found):
        return found
    merged: dict[float, Scrape] = {}
    for scrape in sorted(found, key=lambda one: one.at or 0.0):
        assert scrape.at is not None
        other = merged.setdefault(scrape.at, scrape)
        if other is scrape:
            continue
        if any(other.values.get(key, value) != value for key, value in scrape.values.items()):
            why = f"contradicts {other.source.name}: another value of the same series at the same time"
            raise scrape.source.fail(why, hint="give the scrapes of one series, each once")
        other.values |= scrape.values
        other.starts |= scrape.starts
    return list(merged.values())


def _read_series(found: Sequence[Scrape]) -> list[Run]:
    want = scrapes.wanted(found[0].source)
    groups = windows.groups(found)
    if not groups:
        raise found[0].source.fail("holds no latency histogram of an engine that is known", hint=_HINT)
    for scrape in found:
        runs.check(scrape)
    pairs = list(pairwise(found)) if len(found) > 1 else [(None, found[0])]
    made: list[Run] = []
    for group in groups:
        alone = len(groups) == 1
        ones = [windows.between(begin, end, group, want, alone=alone) for begin, end in pairs]
        made += runs.make(ones, group, found[0].source.attempted_counter)
    return made
