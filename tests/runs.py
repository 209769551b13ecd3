"""Runs and policies made by hand, for tests that need to know every number in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gate.model import (
    Aggregate,
    Counts,
    Doubt,
    EvidenceRules,
    Floats,
    Kind,
    Level,
    Load,
    Objective,
    Policy,
    RequestBound,
    Requests,
    Run,
    Status,
    Summary,
    When,
    Why,
    Workload,
)
from gate.units import SECONDS, SHARE, TOKEN_RATE


def make_requests(
    ttft_s: Sequence[float] | Floats | float,
    e2e_s: Sequence[float] | Floats | float = 1.0,
    output_tokens: Sequence[float] | Floats | float = 100.0,
    *,
    n: int | None = None,
    status: Sequence[int] | int = Status.COMPLETED,
    **columns: Any,
) -> Requests:
    """Columns of n rows; a single number stands for all of them."""
    size = n if n is not None else max(np.size(column) for column in (ttft_s, e2e_s, output_tokens, status))

    def column(values: Any, kind: Any = np.float64) -> Any:
        return np.array(np.broadcast_to(np.asarray(values, dtype=kind), size))

    return Requests(
        column(status, np.uint8),
        column(ttft_s),
        column(e2e_s),
        column(output_tokens),
        order=columns.pop("order", "submission"),
        **{name: column(values) for name, values in columns.items()},
    )


def make_run(evidence: Requests | Aggregate, **facts: Any) -> Run:
    """A run of one tool at concurrency 8; `doubts` may be a mapping of what is doubted to why."""
    if isinstance(facts.get("doubts"), dict):
        facts["doubts"] = tuple(Doubt(Why.DEFINITION, (of,), why) for of, why in facts["doubts"].items())
    if isinstance(evidence, Requests):
        number = np.bincount(evidence.status, minlength=4).tolist()
        counts = Counts(number[0] + number[1], *number)
    else:
        counts = facts.pop("counts")
    known: dict[str, Any] = {"tool": "vllm", "model": "m", "load": Load(concurrency=8), "duration_s": 10.0}
    if isinstance(evidence, Requests) and evidence.output_tokens is not None:
        done = evidence.status == Status.COMPLETED
        known["total_output_tokens"] = float(np.nansum(evidence.output_tokens[done]))
    known.update({"input": "run.json", "sha256": "0" * 64, "format": "test", **facts})
    return Run(evidence=evidence, counts=counts, **known)


def latency(
    metric: str, percent: float, bound_s: float, *, when: When | None = None, **facts: Any
) -> Objective:
    """A percentile objective, blocking unless said otherwise."""
    name = f"{metric}.p{percent:g}" + (f"[{when.text}]" if when else "")
    return Objective(
        name,
        Kind.LATENCY,
        facts.pop("level", Level.BLOCK),
        metric,
        f"p{percent:g}",
        bound=bound_s,
        unit=SECONDS,
        share=percent / 100,
        when=when,
        line=3,
    )


def goodput(share: float, **facts: Any) -> Objective:
    """A goodput objective."""
    return Objective(
        "goodput",
        Kind.GOODPUT,
        facts.pop("level", Level.BLOCK),
        "goodput",
        "share",
        ">=",
        share,
        SHARE,
        share,
        line=9,
    )


def error_rate(share: float) -> Objective:
    """A limit on the share of failed requests."""
    return Objective(
        "error_rate", Kind.ERROR_RATE, Level.BLOCK, "error_rate", "share", "<=", share, SHARE, line=11
    )


def throughput(tokens_per_s: float) -> Objective:
    """A floor on output tokens a second."""
    return Objective(
        "throughput",
        Kind.THROUGHPUT,
        Level.BLOCK,
        "throughput",
        "mean",
        ">=",
        tokens_per_s,
        TOKEN_RATE,
        line=12,
    )


def rule(name: str, level: Level = Level.BLOCK) -> Objective:
    """An evidence or conformance rule."""
    return Objective(name, Kind.RULE, level, name, expected=name, line=20)


def make_policy(*objectives: Objective, bounds: dict[str, float] | None = None, **facts: Any) -> Policy:
    """A policy of these objectives; `bounds` are goodput's per-request bounds in seconds."""
    evidence = EvidenceRules(**facts.pop("evidence", {}))
    return Policy(
        facts.pop("name", "chat"),
        "slo.yaml",
        "f" * 64,
        objectives,
        tuple(RequestBound(metric, value) for metric, value in (bounds or {}).items()),
        workload=facts.pop("workload", Workload()),
        evidence=evidence,
        **facts,
    )


def make_aggregate(n: int | None = None, **percentiles: dict[float, float]) -> Aggregate:
    """An aggregate that states these percentiles (percent -> seconds) of each metric."""
    return Aggregate(
        {metric: Summary(tuple(sorted(at.items())), n=n) for metric, at in percentiles.items()},
        settled_by="`--save-detailed`",
    )
