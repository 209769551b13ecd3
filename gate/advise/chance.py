"""Could the planned benchmark pass: benchmarks of that size, drawn from one that was measured.

A draw is a benchmark of the declared runs and requests, each run made of blocks of consecutive requests of
the results (circular block bootstrap, Politis and Romano 1992), so that congestion stays as long as it was
up to a block. It is judged by the whole policy: objectives depend on each other, and no product of their
chances is that of all. Regression rules are judged against a second draw: the same build.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..evaluate import evaluate
from ..evaluate.loads import select
from ..evaluate.prepare import COLUMNS, prepare
from ..model import Baseline, Kind, Level, Policy, Requests, Run, Verdict

DRAWS = 40
BLOCKS = 10  # of a run: the length of what is drawn at once
_SPLIT = 1e-7  # relative: rows that are drawn twice are no copies of each other


class Chance(Struct, frozen=True):
    """How often the planned benchmark passes if the server stays what the results show."""

    runs: int
    requests: int  # a run, after warm-up
    draws: int
    passes: float  # of the draws: every blocking objective is decided and none fails
    fails: float
    each: dict[str, float]  # PASS of each blocking objective that is not a rule about the evidence


def chance(policy: Policy, runs: Sequence[Run], today: date, *, draws: int = DRAWS) -> Chance | None:
    """The chance of the size that the policy's evidence declares; None where it declares none.

    None too without rows of requests at the policy's load, and for rules about ITL, whose gaps are not drawn.
    """
    number, each = policy.evidence.runs_min, policy.evidence.requests_per_run_min
    if number is None or each is None:
        return None
    chosen = select([prepare(run, policy) for run in runs], policy).runs
    rows = [(one.run, one.evidence) for one in chosen]
    drawn = [(run, held) for run, held in rows if isinstance(held, Requests) and held.attempted.any()]
    if not drawn or len(drawn) < len(rows) or any(one.metric == "itl" for one in policy.objectives):
        return None
    # What is drawn has no warm-up, and whatever the policy asks of the files holds or does not as it is.
    kept = tuple(
        one for one in policy.objectives if one.kind is not Kind.RULE and one.kind is not Kind.HEADROOM
    )
    workload = replace(policy.workload, sweep=(), input_tokens=None, output_tokens=None)
    bare = replace(policy, objectives=kept, evidence=replace(policy.evidence, warmup=0), workload=workload)
    asked = [one.id for one in kept if one.level is Level.BLOCK and one.kind is not Kind.MEAN]
    compared = any(one.kind is Kind.REGRESSION for one in kept)
    rng = np.random.default_rng(0)
    passed = dict.fromkeys(asked, 0)
    whole = failed = 0
    for _ in range(draws):
        made = [_drawn(rng, drawn, each, name) for name in range(number)]
        base = [_drawn(rng, drawn, each, -1 - name) for name in range(number)] if compared else []
        against = Baseline(tuple(base), same_session=True) if compared else None
        found = {one.id: one.verdict for one in evaluate(bare, made, today, baseline=against).checks}
        for name in asked:
            passed[name] += found[name] is Verdict.PASS
        whole += all(found[name] is Verdict.PASS for name in asked)
        failed += any(found[name] is Verdict.FAIL for name in asked)
    shares = {name: count / draws for name, count in passed.items()}
    return Chance(number, each, draws, whole / draws, failed / draws, shares)


def _drawn(rng: np.random.Generator, runs: Sequence[tuple[Run, Requests]], n: int, name: int) -> Run:
    """A run of n attempted requests from one of the runs, in blocks of its consecutive ones."""
    run, rows = runs[int(rng.integers(len(runs)))]
    at = np.flatnonzero(rows.attempted)
    length = max(1, at.size // BLOCKS)
    starts = rng.integers(at.size, size=-(-n // length))
    picked = at[((starts[:, None] + np.arange(length)) % at.size).ravel()[:n]]
    columns = {
        key: column[picked] * (1 + _SPLIT * rng.random(n)) if key.endswith("_s") else column[picked]
        for key in COLUMNS
        if key != "start_s" and (column := getattr(rows, key)) is not None
    }
    made = Requests(**columns, order="submission")
    seconds = run.duration_s * n / at.size if run.duration_s else None
    tokens = run.total_output_tokens * n / at.size if run.total_output_tokens else None
    return replace(
        run,
        input=f"draw {name}",
        sha256=f"draw {name}",
        content_sha256="",
        measurement="",
        session=None,
        evidence=made,
        counts=made.counts,
        duration_s=seconds,
        total_output_tokens=tokens,
        doubts=tuple(doubt for doubt in run.doubts if doubt.requests is None),
    )
