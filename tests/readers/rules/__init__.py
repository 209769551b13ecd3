"""READERS x RULES: how each rule is broken in the files of each tool, and what no file of a tool can show.

A module per reader, named like its package, holds

    KINDS = {"records": Form(write, ...), "aggregate": Form(...)}

`write(folder)` writes the files of one healthy run of the tool (60 to 400 requests, no failure, every bound
of POLICY met) in one of the formats its reader reads and returns the names to pass. Everything else is a
change of these files: a function that is given the folder after `write` and changes the files in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

Write = Callable[[Path], Sequence[str]]
Change = Callable[[Path], None]

# rule -> (what is done to a healthy run, the objectives of which none may pass then; `()`: exit 3 or 4)
RULES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "lost rows": ("half of the requests that were asked for have no row or are in no count", ("error_rate",)),
    "counts": ("the tool's own counts are not those of its rows, or do not add up", ()),
    "failed": ("every third request is marked as failed", ("error_rate", "goodput")),
    "all failed": ("every request is marked as failed", ("error_rate", "goodput", "e2e.p50")),
    "zero tokens": ("every count of output tokens is 0", ("error_rate", "e2e.p50", "ttft.p50")),
    "null tokens": ("every count of output tokens is null, and there is no TTFT", ("error_rate", "e2e.p50")),
    "half the tokens": ("half of the answers have no output token", ("error_rate", "goodput")),
    "token totals": ("the tool's total of output tokens is half of what the rows say", ("tpot.p50",)),
    "cut rows": ("a tenth of the answers stop after 4 chunks of what they are credited with", ("goodput",)),
    "one burst": ("all tokens of each answer come 0.1 ms after the first, at the end of E2E", ("tpot.p50",)),
    "not streamed": ("TTFT is absent everywhere, as without streaming", ("ttft.p50", "tpot.p50")),
    "zero time": ("the median of TTFT, or every TTFT, is 0", ("ttft.p50",)),
    "negative time": ("one E2E, or one percentile of it, is negative", ("error_rate",)),
    "falling percentiles": ("a stated P99 is below the median", ()),
    "tool's verdict": (
        "the tool marks the run as incomplete, cancelled or invalid",
        ("e2e.p50", "error_rate"),
    ),
    "retries": ("what says whether failed requests were repeated is taken away", ("error_rate",)),
    "retried": ("the client repeats failed requests", ("error_rate",)),
    "several loads": ("a second phase or level, whose requests all miss, stands in the file", ("goodput",)),
    "repetitions": ("the file says that it holds medians over repetitions", ()),
    "summary alone": ("the rows are taken away and failures were only in them", ("error_rate",)),
}


class Alone(Struct, frozen=True):
    """What says in one place alone that a request or a run went wrong: without it nothing shows it."""

    name: str  # a key, or a pattern of a file's name
    why: str  # as a clause about it, printed in docs/rules.md
    of: tuple[str, ...] = ()  # the rules, their variants or the fixtures where that is so; () for all


class Form(Struct, frozen=True):
    """One format of a tool: a healthy run of it, and how to break each rule."""

    write: Write
    judges: tuple[str, ...]  # objectives of POLICY that the healthy run passes
    breaks: Mapping[str, Change]  # rule -> the change; a key may be "rule: variant"
    cannot: Mapping[str, str] = field(default_factory=dict)  # rule -> why this format cannot show it
    alone: tuple[Alone, ...] = ()  # what tests/readers/test_less.py leaves alone
    attempted: str | None = None  # evidence.attempted of the policy: the gateway's counter of requests
    proves: bool = True  # False: the healthy run cannot pass either, because a failure has no record
