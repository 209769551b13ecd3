"""What a picture shows: thinned, so that a page stays small; only where it is asked for."""

from __future__ import annotations

from msgspec import Struct

from gate.model.judged import Verdict, WhatIf
from gate.model.run import Load


class CurveBound(Struct, frozen=True):
    """A bound on a curve, and the quantile that is compared with it."""

    id: str  # of the objective; "goodput" for its per-request bound
    bound_s: float
    share: float | None  # that must be within it; None for a per-request bound
    value_s: float | None  # the quantile at that share; None where failures push it out of reach
    verdict: Verdict | None  # of the objective


class Curve(Struct, frozen=True):
    """What share of all attempted requests had a latency within how many seconds."""

    metric: str
    of: str  # requests, gaps, buckets (exact at their edges) or percentiles (as the tool states them)
    n: int
    failed: int  # of n without a value, so that the curve ends below 100 %
    values_s: tuple[float, ...]  # ascending
    shares: tuple[float, ...]  # of n within each value
    percentiles: tuple[tuple[float, float | None], ...]  # (percent, s): P5 to P95, P99; None out of reach
    bounds: tuple[CurveBound, ...]
    median_s: float  # where half of n is reached, else the largest value


class Dot(Struct, frozen=True):
    """One request of a scatter."""

    x: float  # s, place in the run, or tokens
    value_s: float
    run: int  # place in Charts.inputs
    row: int  # place in its run as the file has it, from 0
    kind: str  # good, missed, warm-up, or completed where the policy has no goodput section


class Failed(Struct, frozen=True):
    """Failed requests that stand at one place."""

    x: float
    number: int


class Window(Struct, frozen=True):
    """The requests that began between low and high."""

    low: float
    high: float
    n: int  # attempted
    failed: int
    p50_s: float | None  # of the completed
    p99_s: float | None


class Scatter(Struct, frozen=True):
    """One latency against time or length: a sample with every extreme in it, and all failures."""

    metric: str
    x: str  # time (s since the run began), order (place in the run), input_tokens or output_tokens
    n: int  # requests the sample stands for
    dots: tuple[Dot, ...]
    failed: tuple[Failed, ...]
    windows: tuple[Window, ...]  # of time or order; empty for a length
    bound_s: float | None  # the per-request bound, where one holds for every request
    failures: int  # of all places in `failed`
    median: tuple[float, float]  # of x and of value_s, over the n requests


class MissSet(Struct, frozen=True):
    """Requests that broke exactly these bounds."""

    broke: tuple[str, ...]  # metrics, or failed alone
    number: int


class LoadPoint(Struct, frozen=True):
    """Goodput at one load."""

    load: Load
    at_target: bool
    runs: int
    n: int
    fraction: float
    interval: tuple[float, float] | None


class Charts(Struct, frozen=True):
    """The data of every picture. Empty where the evidence has none."""

    inputs: tuple[str, ...]  # of the judged runs; Dot.run counts in it
    curves: tuple[Curve, ...]
    over_time: tuple[Scatter, ...]
    by_length: tuple[Scatter, ...]
    misses: tuple[MissSet, ...]  # most first
    loads: tuple[LoadPoint, ...]  # ascending
    whatif: WhatIf | None
