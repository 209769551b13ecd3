"""Records of made-up sessions: two builds 8 % apart, nodes that differ, one of them noisy."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
from msgspec.structs import replace

from gate import history
from gate.model import (
    HISTORY_VERSION,
    Counts,
    Level,
    Load,
    RecordedMetric,
    RecordedObjective,
    RecordedPolicy,
    RecordedRun,
    SessionRecord,
    Verdict,
)

FIRST = datetime(2027, 1, 1, 6, tzinfo=timezone.utc)
STEP_AT = 40  # the first session of the slower build
BOUND_S = 0.235
OBJECTIVE = {"metric": "ttft", "statistic": "p99", "operator": "<=", "unit": "s"}


def commit(number: int) -> str:
    """No two begin alike."""
    return hashlib.sha1(str(number).encode()).hexdigest()


def time(number: int) -> str:
    return (FIRST + timedelta(days=number)).strftime("%Y-%m-%dT%H:%M:%SZ")


def runs(
    rng: np.random.Generator,
    factor: float,
    number: int = 5,
    *,
    concurrency: int = 16,
    failed: int = 0,
    **facts: Any,
) -> tuple[RecordedRun, ...]:
    """Five runs of 300 requests; percentiles scatter by 0.5 %, 1 % and 3 %."""
    found = []
    for at in range(number):
        metrics = {}
        for name, median in (("ttft_s", 0.12), ("tpot_s", 0.018), ("e2e_s", 1.9)):
            p50, p90, p99 = np.sort(
                median
                * factor
                * np.array([1.0, 1.4, 1.8])
                * np.exp(rng.normal(0, 1, 3) * [0.005, 0.01, 0.03])
            ).tolist()
            metrics[name] = RecordedMetric(300 - failed, p50, p90, p99, p50 * 1.1)
        known = {
            "input": f"run-{concurrency}-{at}.json",
            "sha256": f"{int(rng.integers(1, 2**62)):064x}",
            "tool": "vllm-bench",
            "tool_version": "0.9.1",
            "model": "made-8b",
            "hardware": "1xH100",
            "load": Load(concurrency=concurrency),
            "at_target": concurrency == 16,
            "counts": Counts(300, 300 - failed, failed, 0, 0),
            "goodput": round(float(1 - rng.binomial(300, min(0.02 * factor**4, 1)) / 300), 9),
            "metrics": metrics,
            "output_tokens": 150.0,
            "input_tokens": 800.0,
        }
        found.append(RecordedRun(**{**known, **facts}))
    return tuple(found)


def session(number: int, own: Sequence[RecordedRun], **facts: Any) -> SessionRecord:
    """The record of session `number`, with its id; it fails where its P99 TTFT exceeds BOUND_S."""
    judged = [run.metrics["ttft_s"].p99 or 0.0 for run in own if run.at_target and "ttft_s" in run.metrics]
    worst = float(np.mean(judged)) if judged else None
    fails = worst is not None and worst > BOUND_S
    verdict = Verdict.FAIL if fails else Verdict.PASS
    rule = RecordedObjective(
        id="ttft.p99", level=Level.BLOCK, bound=BOUND_S, observed=worst, verdict=verdict, **OBJECTIVE
    )
    known = {
        "schema_version": HISTORY_VERSION,
        "time": time(number),
        "commit": commit(number),
        "branch": "main",
        "policy": RecordedPolicy("chat", "a" * 64),
        "report_sha256": f"{number + 1:064x}",
        "verdict": verdict,
        "exit_code": int(fails),
        "objectives": (rule,),
        "runs": tuple(own),
    }
    return sealed(SessionRecord(**{**known, **facts}))


def sealed(record: SessionRecord) -> SessionRecord:
    """With the id that its line has."""
    found = history.decode(history.encode(replace(record, id="")))
    assert isinstance(found, SessionRecord)
    return found


def sessions(
    number: int = 60,
    *,
    seed: int = 1,
    step: float = 0.08,
    at: int = STEP_AT,
    sigma: float = 0.01,
    **facts: Any,
) -> list[SessionRecord]:
    """One session a day and commit; every third is on a node with three times the noise."""
    found = []
    for day in range(number):
        rng = np.random.default_rng((seed, day))
        factor = float(np.exp(rng.normal(0, sigma * (3 if day % 3 == 2 else 1))) * (1 + step * (day >= at)))
        found.append(session(day, runs(rng, factor, **facts)))
    return found
