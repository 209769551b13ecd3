"""What a rule looks at, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec import Struct

from ...model import METRICS, Bools, Counts, Doubt, Evidence, Requests
from ..stored import AGAIN as AGAIN, Stored
from ..told import Told

EVERY = (*METRICS, "error_rate", "throughput")


class Case(Struct, frozen=True, eq=False):
    """One run before it is one."""

    source: Stored
    title: str  # of the tool
    told: Told
    evidence: Evidence
    counts: Counts
    tokens: float | None  # output tokens of completed requests

    @property
    def rows(self) -> Requests | None:
        """The per-request columns, where there are any."""
        return self.evidence if isinstance(self.evidence, Requests) else None

    @property
    def measured(self) -> bool:
        """Whether a request completed; also where nothing says how many did."""
        return self.counts.completed > 0 or (self.rows is None and self.told.counts is None)

    @property
    def tokens_each(self) -> float | None:
        """Output tokens of a completed request, on average."""
        return self.tokens / self.counts.completed if self.tokens and self.counts.completed else None


class Marked(Struct, frozen=True, eq=False):
    """A doubt about some rows: which, and under which name the evidence keeps them."""

    doubt: Doubt
    of: str  # a metric, or failed
    rows: Bools


Finding: TypeAlias = "Doubt | Marked | str"  # a text is a note
Rule: TypeAlias = Callable[[Case], Iterator["Finding"]]


def richer(case: Case) -> str:
    """What would show more than the file does."""
    settled_by = getattr(case.evidence, "settled_by", "")
    return f"{settled_by} would show it" if settled_by else "per-request results would show it"
