"""Which series of which engine mean what, read in their sources (docs/readers.md names the versions).

Names are compared with `:` and `.` as `_`, because relabelling and OpenTelemetry change both.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from ..formats import yaml_table

Labels = tuple[tuple[str, str], ...]  # sorted, without `le`
Group = tuple[str, str | None, str]  # engine, model, half of a disaggregated deployment
COUNTERS = ("finished", "succeeded", "failed", "tokens")  # of requests, and of output tokens
GOOD_REASONS = frozenset({"stop", "length", "repetition", "tool_calls"})
_MODEL_LABELS = ("model_name", "model", "gen_ai_request_model", "gen_ai_response_model")
_SUFFIXES = ("_bucket", "_sum", "_count", "_created")


class Engine(Struct, frozen=True, eq=False):
    """One kind of server: its histograms and counters by canonical family name."""

    name: str
    tool: str  # for people and for the policy's evidence.tool
    histograms: Mapping[str, str]  # family -> metric; also "length" and the older "itl_old", "tpot_old"
    finished: str = ""  # counter of finished requests, whatever became of them
    succeeded: str = ""  # counter of good ones, or by finished_reason
    failed: str = ""  # counter of requests that failed
    within_finished: bool = False  # failed ones are counted as finished too
    tokens: str = ""
    scale: float = 1.0  # seconds a unit of `le`
    floored: bool = False  # values are floored to whole units: le=100 counts what is under 101
    no_metric: Mapping[str, str] = {}  # metric -> why it is not judged whatever is there
    old_tpot: str = ""  # why "tpot_old" is no TPOT
    own_edges: str = ""  # how the server is given buckets of one's own


ENGINES = yaml_table(Path(__file__).with_suffix(".yaml"), tuple[Engine, ...])


class Part(Struct, frozen=True, eq=False):
    """What one series is: `role` is bucket, sum, count, created, finished, succeeded, failed or tokens."""

    engine: Engine
    role: str
    metric: str = ""  # of a histogram


def _table() -> dict[str, Part]:
    parts: dict[str, Part] = {}
    for engine in ENGINES:
        for family, metric in engine.histograms.items():
            for name in (family, f"{family}_seconds") if engine.name == "otel" else (family,):
                parts |= {f"{name}{end}": Part(engine, end[1:], metric) for end in _SUFFIXES}
        for role in COUNTERS:
            if name := getattr(engine, role):
                parts |= {name: Part(engine, role), f"{name}_total": Part(engine, role)}
                parts[f"{name}_created"] = Part(engine, "created")
    return parts


_PARTS = _table()
_FAMILIES = (family for engine in ENGINES for family in engine.histograms)
NAMES = tuple(
    dict.fromkeys((*_PARTS, *_FAMILIES, "process_start_time_seconds"))
)  # what a server is asked for
_BARE_TRTLLM = {name.removeprefix("trtllm_") for name in _PARTS if name.startswith("trtllm_")}


def canonical(name: str) -> str:
    """The name with every separator as `_`."""
    return name.replace(":", "_").replace(".", "_")


class Series(Struct, frozen=True, dict=True):  # dict: what it is is looked up once
    """One series: canonical name, the upper edge of a bucket, the other labels by name."""

    name: str
    le: float | None = None
    labels: Labels = ()

    @cached_property
    def named(self) -> Mapping[str, str]:
        """The labels."""
        return dict(self.labels)

    @cached_property
    def part(self) -> Part | None:
        """What it is, None when no engine writes it.

        TensorRT-LLM before 1.1 wrote its names without a prefix; its engine_type label tells them.
        """
        bare = self.name in _BARE_TRTLLM and "engine_type" in self.named
        return _PARTS.get(f"trtllm_{self.name}" if bare else self.name)

    @cached_property
    def model(self) -> str | None:
        """The model it is about."""
        return next((self.named[key] for key in _MODEL_LABELS if self.named.get(key)), None)

    @cached_property
    def group(self) -> Group | None:
        """Whose it is; None when no engine writes it."""
        role = self.named.get("engine_type", "")
        half = role if role in ("prefill", "decode") else ""
        return (self.part.engine.name, self.model, half) if self.part else None

    @property
    def target(self) -> Labels:
        """Which process was scraped; empty for a plain exposition, which is one process."""
        return tuple(pair for pair in self.labels if pair[0] in ("instance", "pod"))

    @property
    def of_errors(self) -> bool:
        """OpenTelemetry keeps the latencies of failed requests apart."""
        return bool(self.named.get("error_type"))

    @property
    def not_streamed(self) -> bool:
        """Whether SGLang marks the requests as not streamed."""
        return self.named.get("is_streaming", self.named.get("stream", "")).lower() == "false"

    @property
    def failed(self) -> bool:
        """Whether it counts failed requests: by its name, a bad finished_reason, or an OTel error.type."""
        role, reason = self.part.role if self.part else "", self.named.get("finished_reason")
        bad = role == "succeeded" and reason is not None and reason not in GOOD_REASONS
        return role == "failed" or self.of_errors or bad

    def is_of(self, role: str, metric: str = "") -> bool:
        """Whether it is that part of a metric's histogram, or that counter."""
        return self.part is not None and (self.part.role, self.part.metric) == (role, metric)

    @property
    def family(self) -> str:
        """The name without what tells its parts apart."""
        family = self.name
        for end in (*_SUFFIXES, "_total"):
            family = family.removesuffix(end)
        return family

    def __str__(self) -> str:
        return self.family + of_process(self.target)


def of_process(process: Labels) -> str:
    """As messages name it, behind what it did."""
    return " of " + ", ".join(value for _, value in process) if process else ""
