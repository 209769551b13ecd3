"""Runs of two builds whose every number is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gate.model import Kind, Level, Objective, Run, Status
from gate.units import RATIO, SECONDS, show
from tests.runs import make_requests, make_run


def growth(metric: str, percent: float, margin: float, **facts: Any) -> Objective:
    """A regression objective, blocking unless said otherwise."""
    floor = facts.get("floor_s")
    return Objective(
        f"regression.{metric}.p{percent:g}",
        Kind.REGRESSION,
        facts.pop("level", Level.BLOCK),
        metric,
        f"p{percent:g}",
        bound=margin,
        unit=RATIO,
        share=percent / 100,
        expected=f"P{percent:g} {metric.upper()} grows by at most {margin:.0%}"
        + (f" or by less than {show(floor, SECONDS)}" if floor else ""),
        line=7,
        **facts,
    )


def build(
    factors: Sequence[float], *, name: str = "run", n: int = 300, works: int | None = 0, **facts: Any
) -> list[Run]:
    """One run a factor: TTFT 80 to 120 ms times the factor, E2E TTFT + 1 s times it, 101 tokens.

    `works` seeds the prompt lengths of run i; None leaves them out.
    """
    ttft = np.linspace(0.08, 0.12, n)
    runs = []
    for i, factor in enumerate(factors):
        prompts = {} if works is None else {"input_tokens": lengths(works + i, n)}
        status = facts.get("status", Status.COMPLETED)
        rows = make_requests(ttft * factor, (ttft + 1.0) * factor, 101.0, status=status, **prompts)
        known = {key: value for key, value in facts.items() if key != "status"}
        runs.append(make_run(rows, input=f"{name}-{i}.json", sha256=f"{name}{i}", **known))
    return runs


def lengths(seed: int, n: int) -> Any:
    """Prompt lengths that tell one workload from another."""
    return np.random.default_rng(seed).integers(100, 900, n).astype(float)
