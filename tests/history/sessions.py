"""Sixty sessions of a made server: two builds 8 % apart, one node of three noisier than the others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np

from gate import evaluate, policy, readers
from gate.emit import json_

POLICY = b"""version: 1
name: made
undecided: lean
workload: {load: {concurrency: 8}}
slo:
  ttft: {p90: 400ms}
limits: {error_rate: {max: 5%}}
regression:
  ttft: {p90: {max: 5%}}
"""
HEAD = "start_s,ttft_s,e2e_s,input_tokens,output_tokens,concurrency,model,error"
FIRST = datetime(2027, 1, 1, 6, tzinfo=timezone.utc)
STEP_AT = 40  # the first session of the slower build


def rows(seed: int, factor: float, *, n: int = 200, failed: int = 0, model: str = "made-8b") -> str:
    """A result of home-made rows: TTFT about 200 ms times `factor`, as lognormal."""
    rng = np.random.default_rng(seed)
    ttft = 0.2 * factor * rng.lognormal(0, 0.25, n)
    e2e = ttft + 0.02 * factor * rng.lognormal(0, 0.05, n) * 50
    errors = ["HTTP 500" if row < failed else "" for row in range(n)]
    lines = (
        f"{row / 8:.3f},{ttft[row]:.9f},{e2e[row]:.9f},{100 + row % 7},51,8,{model},{errors[row]}"
        for row in range(n)
    )
    return "\n".join((HEAD, *lines)) + "\n"


def commit(number: int) -> str:
    return hashlib.sha1(str(number).encode()).hexdigest()


def time(number: int) -> str:
    return (FIRST + timedelta(days=number)).strftime("%Y-%m-%dT%H:%M:%SZ")


def factor(number: int) -> float:
    """How slow session `number` is: its build, and how its node differs that day."""
    noise = 0.06 if number % 3 == 2 else 0.01
    node = np.random.default_rng(1000 + number).normal(0, noise)
    return float((1.08 if number >= STEP_AT else 1.0) * np.exp(node))


def report(path: Path, text: str, asked_for: bytes = POLICY) -> bytes:
    """The report of one result file, as `slo-gate check --json` writes it."""
    path.write_text(text, encoding="utf-8")
    found = readers.read([str(path)], stated=["hardware=H100"])
    asked = policy.parse(asked_for, "slo.yaml")
    return json_.emit(evaluate.evaluate(asked, found.runs, FIRST.date())).encode()


def reports(folder: Path, number: int = 60) -> Iterator[tuple[int, bytes]]:
    for at in range(number):
        yield at, report(folder / f"s{at:03}.csv", rows(at, factor(at)))
