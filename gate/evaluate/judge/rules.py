"""Evidence and conformance: was the promised benchmark run, and is there enough of it.

A rule passes or is inconclusive (evidence); it never fails: a wrong benchmark proves nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import partial

import numpy as np
from msgspec.structs import replace

from ...model import Check, Floats, Level, Objective, Policy, Requests, TokenRule, Verdict
from ..checks import CLUSTERS, check, missing
from ..prepare import SHORT_MIN, Prepared

LACKING = 0.01  # share of the completed requests of a run that may lack their length
SAME_LEAST, LENGTHS_LEAST = 50, 10  # equal lists of prompt lengths this long and varied are no accident
CHANCE = 3.0  # standard errors: lengths as declared miss their tolerance in 3 of 1,000 benchmarks at most
VARYING = 0.4  # spread by the mean where none is declared: what a recipe draws
VARIED = 10  # different prompts, or lengths: fewer are a loop
_STREAMED = ("streaming-chat", "voice", "code-completion")

Found = tuple[bool, str]  # met or not, and what was seen


def rule(objective: Objective, policy: Policy, runs: Sequence[Prepared], unselected: str) -> Check:
    """Judge one rule on the runs at the target."""
    if unselected:
        return missing(objective, unselected)
    met, seen = _RULES[objective.id](policy, runs)
    if objective.unproven and not any(_shows(one, objective.id) for one in runs):
        objective = replace(objective, level=Level.WARN)  # let through by the caller: no PASS
    if met:
        return check(objective, Verdict.PASS, seen, observed_text=seen)
    return replace(missing(objective, seen), observed_text=seen)


def _shows(one: Prepared, rule: str) -> bool:
    """Whether a run holds what a rule is about; an aggregate might, and is not excused."""
    prompts = rule == "evidence.prompts"
    column = "input_tokens" if prompts else rule.rpartition(".")[2]
    rows = one.evidence
    if not isinstance(rows, Requests) or (prompts and one.run.prompts is not None):
        return True
    values: Floats | None = getattr(rows, column)
    return values is not None and bool(np.isfinite(values).any())


def _load(policy: Policy, runs: Sequence[Prepared]) -> Found:
    return True, f"{runs[0].run.load}, {len(runs)} run{'s' * (len(runs) > 1)}"


def _interaction(policy: Policy, runs: Sequence[Prepared]) -> Found:
    """As stated; and a client that did not stream has not measured an interaction that streams."""
    want = policy.workload.interaction
    whole = next((one.run.input for one in runs if one.run.streaming is False), None)
    if want in _STREAMED and whole is not None:
        return False, f"{whole} was not streamed, and {want} is; run it with streaming on"
    return _same(runs, "interaction", want, lambda said, asked: said == asked)


def _same(runs: Sequence[Prepared], fact: str, want: str | None, equal: Callable[[str, str], bool]) -> Found:
    said: str | None = getattr(
        runs[0].run, fact
    )  # one group: all runs say the same, but interaction may differ
    if any(getattr(one.run, fact) != said for one in runs):
        return False, f"the runs differ in {fact}"
    if said is None:
        return False, f"no file says the {fact}; state it: --set {fact}=..."
    by = " (stated by the caller)" if fact in runs[0].run.stated else ""
    if equal(said, want or ""):
        return True, f"{said}{by}"
    return False, f"the results are of {said}{by}, the policy asks for {want}; run the benchmark with {want}"


def _runs(policy: Policy, runs: Sequence[Prepared]) -> Found:
    want = policy.evidence.runs_min or 0
    n = len(runs)
    if n < want:
        return False, f"{n} run{'s' * (n != 1)}, {want} needed"
    return True, f"{n} run{'s' * (n != 1)}"


def _requests_per_run(policy: Policy, runs: Sequence[Prepared]) -> Found:
    want = policy.evidence.requests_per_run_min or 0
    least = min(runs, key=lambda one: one.counts.attempted)
    n = least.counts.attempted
    if n < want:
        return False, f"{n:,} requests after warm-up in {least.run.input}, {want:,} needed"
    return True, f"{n:,} requests or more"


def _tool(policy: Policy, runs: Sequence[Prepared]) -> Found:
    tool, version = runs[0].run.tool, runs[0].run.tool_version
    want = policy.evidence.tool_name
    if want is not None and not fnmatchcase(tool.lower(), want.lower()):
        said = f"the results are from {tool}, the policy asks for {want}"
        return False, f"{said}; run the benchmark with {want}"
    if policy.evidence.tool_version_required and version is None:
        return False, f"{tool} does not record its version; state it: --set tool_version=..."
    return True, f"{tool} {version or '(version not stated)'}"


def _prompts(policy: Policy, runs: Sequence[Prepared]) -> Found:
    """Different prompts, by their texts where every file holds them, else by the input lengths.

    One prompt in a loop, or few, is served from the prefix cache: no user is. Runs that all send one list
    of prompts are such a loop too.
    """
    again = repeated(runs)
    if again:
        return (
            False,
            f"{again} of {len(runs)} runs send the prompts of another run; give each run its own seed",
        )
    n = sum(one.counts.attempted for one in runs)
    texts = [one.run.prompts for one in runs]
    if all(number is not None for number in texts):
        different, what = max(number or 0 for number in texts), "prompt texts"
    else:
        lengths = _input_lengths(runs)
        if lengths is None:
            return False, "the files hold neither prompt texts nor input lengths, so a loop would not be seen"
        if unsaid := _lacking(runs, "input_tokens"):
            return False, f"{unsaid}, so a loop would not be seen"
        different, what = len(np.unique(lengths)), "input lengths"
    seen = f"{different:,} different {what}"
    if different >= min(VARIED, n):
        return n > 0, f"{seen} among {n:,} requests"
    loop = f"only {seen} among {n:,} requests, as if one set of prompts were repeated"
    return False, f"{loop}; use more prompts and another seed for each run"


def repeated(runs: Sequence[Prepared]) -> int:
    """How many runs send the prompts of another run once more: lists of input lengths that are equal.

    Compared as sorted, over all rows: warm-up and the order of sending may differ.
    """
    by_sums: dict[tuple[int, float, float], list[Floats]] = {}
    for one in runs if len(runs) > 1 else ():
        rows = one.run.evidence
        lengths = rows.input_tokens if isinstance(rows, Requests) else None
        if lengths is None or len(lengths) < SAME_LEAST or not np.isfinite(lengths).all():
            continue
        # Equal lists have equal sums: only those are sorted.
        key = (len(lengths), float(lengths.sum()), float(lengths @ lengths))
        by_sums.setdefault(key, []).append(lengths)
    number = 0
    for group in by_sums.values():
        if len(group) > 1 and len(np.unique(group[0])) >= LENGTHS_LEAST:
            lists = Counter(np.sort(lengths).tobytes() for lengths in group)
            number += sum(times - 1 for times in lists.values())
    return number


def _input_lengths(runs: Sequence[Prepared]) -> Floats | None:
    cells = []
    for one in runs:
        rows = one.evidence
        if not isinstance(rows, Requests) or rows.input_tokens is None:
            return None
        cells.append(rows.input_tokens[rows.attempted & np.isfinite(rows.input_tokens)])
    return np.concatenate(cells)


def _lacking(runs: Sequence[Prepared], column: str) -> str:
    """Which run lacks the length of more than LACKING of its completed requests: the rest say nothing."""
    for one in runs:
        known, n = one.lengths(column), one.counts.completed
        if known is not None and n - known.size > LACKING * n:
            what = column.replace("_", " ")
            return f"{n - known.size:,} of the {n:,} completed requests of {one.run.input} lack their {what}"
    return ""


def _lengths(policy: Policy, runs: Sequence[Prepared], *, column: str) -> Found:
    """Mean (and spread, where declared) of the completed requests within the tolerance.

    Lengths drawn as declared must not miss it by the draw: CHANCE standard errors join it in quadrature, at
    most twice as large: s / sqrt(n) of a mean, s / sqrt(2 n) of a normal law's spread (Cramer 1946, 27.4). n
    and s are the policy's, never those of the rows, of which fewer would be allowed to be further off.
    """
    want: TokenRule = getattr(policy.workload, column)
    cells = []
    for one in runs:
        known = one.lengths(column)
        if known is None:
            return False, f"{one.run.input} does not give {column.replace('_', ' ')}"
        cells.append(known)
    if unsaid := _lacking(runs, column):
        return False, unsaid
    lengths = np.concatenate(cells)
    if lengths.size == 0:
        return False, "no completed request gives its length"
    mean, spread = float(lengths.mean()), float(lengths.std())
    seen = f"mean {mean:.1f}, stddev {spread:.1f} tokens"
    what = "prompts" if column == "input_tokens" else "outputs"
    declared = f"{mean:.1f} tokens on average (stddev {spread:.1f}), declared is"
    benchmark = f"benchmark with {what} as declared"
    drawn = (policy.evidence.runs_min or CLUSTERS) * (policy.evidence.requests_per_run_min or SHORT_MIN)
    error = CHANCE * (want.stddev or VARYING * want.mean) / math.sqrt(drawn)
    if abs(mean - want.mean) > _allowed(want.mean, want.tolerance, error):
        shorter = column == "output_tokens" and mean < want.mean
        but = " (shorter outputs make E2E look better than it is)" if shorter else ""
        return False, f"{what} have {declared} {want.mean:g}{but}; {benchmark}"
    error /= math.sqrt(2)
    if want.stddev is not None and abs(spread - want.stddev) > _allowed(want.stddev, want.tolerance, error):
        return False, f"{what} have {declared} a stddev of {want.stddev:g}; {benchmark}"
    return True, seen


def _allowed(value: float, tolerance: float, error: float) -> float:
    """How far from its declared value a length may be: the tolerance, and what the draw makes of it."""
    return math.hypot(tolerance * value, min(error, 2 * tolerance * value))


_RULES: dict[str, Callable[[Policy, Sequence[Prepared]], Found]] = {
    "workload.load": _load,
    "workload.model": lambda policy, runs: _same(runs, "model", policy.workload.model, fnmatchcase),
    "workload.hardware": lambda policy, runs: _same(
        runs, "hardware", policy.workload.hardware, lambda said, want: said.lower() == want.lower()
    ),
    "workload.interaction": _interaction,
    "workload.input_tokens": partial(_lengths, column="input_tokens"),
    "workload.output_tokens": partial(_lengths, column="output_tokens"),
    "evidence.runs": _runs,
    "evidence.requests_per_run": _requests_per_run,
    "evidence.tool": _tool,
    "evidence.prompts": _prompts,
}
