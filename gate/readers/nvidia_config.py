"""`input_config` of AIPerf, and of GenAI-Perf before it: what was measured, and what was to end the run.

Both write it into their summaries, each generation in words of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import Struct

from ..errors import InputError
from .doc import Doc
from .loads import load

T = TypeVar("T")
ASKED_WITH = "keep its input_config, which says what was to end the run"
_ENDED = (
    "concurrency",
    "constant",
    "gamma",
    "poisson",
)  # by a number of requests or a duration


def settings(doc: Doc, kind: type[T]) -> tuple[T, tuple[str, ...]]:
    """The configuration; where it is of another shape, what that costs, as a note."""
    try:
        return doc.get("input_config", kind) or kind(), ()
    except InputError as error:
        return kind(), (f"{error.message} ({error.where}): model and load are not stated",)


# ---- AIPerf -------------------------------------------------------------------------------


class Phase(Struct):
    """One phase as it was asked for, in either generation's words."""

    name: str | None = None
    kind: str | None = None
    type: str | None = None
    concurrency: int | None = None
    rate: float | None = None  # requests/s
    request_rate: float | None = None
    requests: int | None = None
    request_count: int | None = None
    duration: float | None = None
    benchmark_duration: float | None = None
    sessions: int | None = None

    @property
    def asked(self) -> dict[str, Any]:
        """As `Told` names it. A trace replay or a series of rates has no load, and ends by itself."""
        point = load(rate=self.rate or self.request_rate, slots=self.concurrency)
        if point is not None and not point.request_rate and self.type not in (None, "concurrency"):
            point = None
        number, lasts = self.requests or self.request_count, self.duration or self.benchmark_duration
        ends = number or lasts or self.sessions or self.type not in (None, *_ENDED)
        return {"load": point, "asked": None if lasts else number, "asked_with": "" if ends else ASKED_WITH}


NO_PHASE: dict[str, Any] = {
    "load": None,
    "asked": None,
    "asked_with": "",
}  # several, or none


class AIPerf(Struct):
    """The part that says what was measured."""

    models: dict[str, Any] = {}
    endpoint: dict[str, Any] = {}
    phases: list[Phase] = []
    loadgen: Phase | None = None  # what `phases` replaced
    slos: dict[str, float] | None = None

    @property
    def model(self) -> str | None:
        """The models asked for, usually one."""
        items = self.models.get("items") or self.endpoint.get("model_names")
        known = items if isinstance(items, list) else []
        names = [each.get("name") if isinstance(each, dict) else each for each in known]
        return ", ".join(str(name) for name in names if name) or None

    @property
    def every_phase(self) -> Sequence[Phase]:
        """Warm-up and measured, in order."""
        return self.phases or ([self.loadgen] if self.loadgen else [])

    @property
    def measured(self) -> Sequence[Phase]:
        """Those that are no warm-up."""
        return [phase for phase in self.every_phase if phase.kind != "warmup"]

    def phase(self, name: str | None, index: int | None) -> Phase:
        """The phase of that name, else at that place."""
        every = self.every_phase
        at = every[index] if index is not None and 0 <= index < len(every) else Phase()
        return next((phase for phase in every if name and phase.name == name), at)

    def asked(self, measured: Sequence[Phase]) -> dict[str, Any]:
        """As `Told` names it, where these phases were measured; a loadgen says how it ended by itself."""
        if not self.every_phase:
            return {**NO_PHASE, "asked_with": ASKED_WITH}
        asked = measured[0].asked if len(measured) == 1 else NO_PHASE
        return asked if self.phases else {**asked, "asked_with": ""}


# ---- GenAI-Perf ---------------------------------------------------------------------------


class _Stimulus(Struct):
    concurrency: int | None = None
    request_rate: float | None = None


class _Measurement(Struct):
    mode: str | None = None
    num: int | None = None  # requests, or milliseconds


class _Analyzer(Struct):
    stimulus: _Stimulus | None = None
    measurement: _Measurement | None = None


class _Endpoint(Struct):
    streaming: bool | None = None


class _Input(Struct):
    goodput: dict[str, float] | str | None = None  # "" where none was asked for


class GenAIPerf(_Stimulus):
    """Both generations; the flat fields are those of 24.08."""

    model_names: list[str] | None = None
    model: list[str] | None = None
    perf_analyzer: _Analyzer | None = None
    endpoint: _Endpoint | str | None = None
    streaming: bool | None = None
    input: _Input | None = None
    goodput: dict[str, float] | str | None = None

    @property
    def asked(self) -> dict[str, Any]:
        """As `Told` names it; that of 24.08 does not say what was to end the run."""
        analyzer = self.perf_analyzer or _Analyzer()
        stimulus, ends = analyzer.stimulus or self, analyzer.measurement or _Measurement()
        point = load(rate=stimulus.request_rate, slots=stimulus.concurrency)
        silent = self.streaming is not None or isinstance(self.endpoint, str)
        return {
            "load": point or load(rate=self.request_rate, slots=self.concurrency),
            "asked": ends.num if ends.mode == "request_count" else None,
            "asked_with": "" if silent or ends.mode not in (None, "request_count") else ASKED_WITH,
        }

    @property
    def streamed(self) -> bool | None:
        """Whether answers were asked for as streams; None where nothing says it."""
        return self.endpoint.streaming if isinstance(self.endpoint, _Endpoint) else self.streaming

    @property
    def slos(self) -> dict[str, float] | None:
        """The bounds of --goodput."""
        asked = (self.input.goodput if self.input else None) or self.goodput
        return asked if isinstance(asked, dict) else None
