"""The rules that hold for every tool, each once: what a reader was told becomes a Run.

A rule looks at one case and gives doubts and notes, or raises InputError where two statements cannot both be
true. A new reader gets all of them; tests/readers/test_rules.py tries each on every reader.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from msgspec.structs import replace

from ...model import Bools, Counts, Doubt, Requests, Run, ToolReported, Why
from .. import tables
from ..formats import definitions
from ..stored import Stored
from ..told import Told
from . import answers, client, counting, statistics, tokens
from .case import EVERY, Case, Marked, Rule

FAILURES = 10  # kinds of failures kept apart: every one of them may be worded differently
STREAM_ERRORS = "{} records an error inside a 200 stream as a success: such failures are in no count"
RULES: Mapping[str, Rule] = {
    "counts": counting.counts_agree,
    "duration": counting.duration,
    "lost rows": counting.nothing_lost,
    "hidden failures": counting.failures_hidden,
    "retries": counting.retried,
    "tool's verdict": counting.tool_verdict,
    "no tokens": tokens.some_tokens,
    "token totals": tokens.tokens_agree,
    "cut rows": tokens.nothing_cut,
    "one token": tokens.one_token,
    "streaming": answers.streamed,
    "tail": answers.tail,
    "gaps": answers.gaps,
    "percentiles": statistics.percentiles,
    "tokens counted once": statistics.tpot_counts_tokens_once,
    "pace": client.pace,
    "tool's goodput": client.tool_goodput,
}


class Card(Protocol):
    """What settle asks of a reader's card."""

    NAME: str
    TITLE: str
    __name__: str


def settle(source: Stored, card: Card, told: Told) -> Run:
    """The run. Raises InputError where the file contradicts itself."""
    if told.settled is not None:  # by these rules, when it was exported
        return replace(told.settled, input=source.name, sha256=source.sha256)
    rows = told.evidence if isinstance(told.evidence, Requests) else None
    counts = rows.counts if rows is not None else told.counts or Counts(0, 0, 0)
    total = told.output_tokens
    if total is None and (mean := told.lengths.mean) is not None and mean >= 0:
        total = float(np.round(mean * counts.completed))
    if rows is not None and rows.output_tokens is not None and not tokens.total_is_right(told):
        total = tables.output_total(rows)
    case = Case(source, told.tool or card.TITLE, told, told.evidence, counts, total)
    doubts, notes = list(told.doubts), list(told.notes)
    marks = dict(rows.doubted) if rows is not None else dict[str, Bools]()
    for rule in RULES.values():
        for finding in rule(case):
            if isinstance(finding, str):
                notes.append(finding)
            elif isinstance(finding, Marked):
                marks[finding.of] = marks[finding.of] | finding.rows if finding.of in marks else finding.rows
                doubts.append(finding.doubt)
            else:
                doubts.append(finding)
    return _run(case, card, doubts, notes, marks)


def _run(
    case: Case, card: Card, doubts: Sequence[Doubt], notes: Sequence[str], marks: Mapping[str, Bools]
) -> Run:
    told, rows = case.told, case.rows
    stated = {metric: s for metric, s in told.stated.items() if s.percentiles or s.mean is not None}
    failures = told.failures
    if rows is not None and len(told.messages):
        failures = tables.failures(rows, told.messages)
    hidden = STREAM_ERRORS.format(case.title)
    return Run(
        input=case.source.name,
        sha256=case.source.sha256,
        format=told.format,
        tool=told.tool or card.NAME,
        evidence=replace(rows, doubted=marks) if rows is not None and marks else case.evidence,
        counts=case.counts,
        tool_version=told.version,
        model=told.model,
        hardware=told.hardware,
        session=told.session,
        interaction=told.interaction,
        scenario=told.scenario or told.level or None,
        load=told.load,
        duration_s=told.duration_s or None,
        date=told.date,
        total_output_tokens=case.tokens if told.window_tokens is None else told.window_tokens,
        streaming=_streaming(case, doubts),
        definitions={**definitions(card, told.format), **told.definitions},
        tool_reported={m: ToolReported(s.percentiles, _method(told, m), s.mean) for m, s in stated.items()},
        doubts=tuple(dict.fromkeys(doubts)),
        notes=tuple(dict.fromkeys((*tables.failure_kinds(failures), *notes))),
        caveats=dict.fromkeys(("error_rate", "goodput"), hidden) if told.hides_stream_errors else {},
        tokenizer=told.tokenizer,
        columns=told.columns,
        prompts=told.prompts,
        failures=dict(Counter(failures).most_common(FAILURES)),
    )


def _method(told: Told, metric: str) -> str:
    return told.method if isinstance(told.method, str) else told.method.get(metric, "")


def _streaming(case: Case, doubts: Iterable[Doubt]) -> bool | None:
    """Whether answers were streamed, by the file or by its rows; None where neither says."""
    if any(doubt.code is Why.NOT_STREAMED and doubt.requests is None for doubt in doubts):
        return False
    if case.told.streamed is not None or not case.counts.completed:
        return case.told.streamed
    rows = case.rows
    return True if rows is not None and rows.ttft_s is not None and rows.tpot_s is not None else None


# ---- several runs ------------------------------------------------------------------------------


def settle_all(source: Stored, card: Card, tolds: Iterable[Told]) -> list[Run]:
    """The runs of one file. Levels that name no load cannot be told apart and must not pool.

    Raises InputError like `settle`.
    """
    levels = list(tolds)
    if len({told.level for told in levels}) == 1:
        levels = [replace(told, level="") for told in levels]
    runs = [settle(source, card, told) for told in levels]
    loose = {told.level for told in levels if told.level and told.load is None}
    if not loose:
        return runs
    why = (
        f"the file holds several measured phases or levels ({', '.join(sorted(loose))}) and does not say at"
        " which load each was; keep the configuration of the run beside it, or measure each in a run of its"
        " own"
    )
    doubt = Doubt(Why.SEVERAL_LOADS, EVERY, why)
    return [
        replace(run, doubts=(doubt, *run.doubts)) if told.level in loose else run
        for run, told in zip(runs, levels, strict=True)
    ]


# By the words of a key: aggregated_repetitions, runs_merged, averaged_over_seeds.
_REPETITIONS = re.compile(
    r"(?=.*(?:aggregat|averaged|merged|pooled|combined))(?=.*(?:repetition|repeat|runs|trials|seeds))"
    r"|aggregation_(?:method|type)$|individual_result(?:s|_files)$",
    re.IGNORECASE,
)


def refuse_repetitions(source: Stored, keys: Iterable[str], at: str = "") -> None:
    """Raises InputError for medians or means over repetitions: failures of one repetition are gone."""
    found = sorted(key for key in keys if _REPETITIONS.match(key))
    if found:
        raise source.fail(
            f"holds statistics over several repetitions (`{'`, `'.join(found)}`), which are no run",
            at,
            "pass the result file of each repetition instead",
        )
