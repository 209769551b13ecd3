"""What was fetched, as a document like an answer to a range query: the file that the reader reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from itertools import pairwise

import msgspec
from msgspec import Struct, field

Sample = tuple[float, str]  # s since 1970, and the number as the server wrote it


class Span(Struct, frozen=True):
    """From when to when is looked, and how often; s since 1970 and s."""

    begin_s: float
    end_s: float
    step_s: float

    @property
    def looks(self) -> int:
        """How many there are."""
        return int((self.end_s - self.begin_s) / self.step_s + 1e-6) + 1


class Answer(Struct, omit_defaults=True):
    """One series."""

    metric: dict[str, str]
    values: list[Sample] = field(default_factory=list)
    histograms: list[tuple[float, msgspec.Raw]] = field(default_factory=list)  # native ones, as they came


class Pulled(Struct, frozen=True):
    """What the servers said, and what a person should know of it."""

    answers: tuple[Answer, ...]
    about: Mapping[str, str | float | list[float]]  # where from, in what span; no secret
    notes: tuple[str, ...] = ()

    @property
    def looks(self) -> tuple[float, ...]:
        """The times at which anything was seen, in order."""
        return tuple(sorted({at for one in self.answers for at, _ in (*one.values, *one.histograms)}))

    def document(self) -> bytes:
        """The file: a range query's answer, with what was asked beside it. Same series, same bytes."""
        ordered = sorted(self.answers, key=lambda one: sorted(one.metric.items()))
        return msgspec.json.encode(
            {
                "status": "success",
                "data": {"resultType": "matrix", "result": ordered},
                "slo_gate_pull": self.about,
            }
        )


def clock(at_s: float) -> str:
    """A time for people: 2027-01-12 08:00:00 UTC."""
    return datetime.fromtimestamp(at_s, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def _length(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def gaps(span: Span, looks: Sequence[float]) -> Iterable[str]:
    """What is missing of a span, a sentence each."""
    if not looks:
        return
    late, early = looks[0] - span.begin_s, span.end_s - looks[-1]
    slack = 1.5 * span.step_s
    if late > slack:
        yield f"there is nothing before {clock(looks[0])}: {_length(late)} of what was asked are missing"
    if early > slack:
        yield f"there is nothing after {clock(looks[-1])}: {_length(early)} of what was asked are missing"
    inside = [(a, b) for a, b in pairwise(looks) if b - a > slack]
    yield from (f"there is nothing between {clock(a)} and {clock(b)}" for a, b in inside[:3])
    if len(inside) > 3:
        yield f"and {len(inside) - 3} more gaps"
