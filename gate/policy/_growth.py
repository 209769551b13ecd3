"""The policy of a start without one: how much a percentile may grow against a baseline, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ..model import REQUEST_METRICS, Policy
from . import _tables
from ._yaml import Node

PATH = "built-in:growth"
_TEXT = """\
version: 1
name: growth
# A pull request with few runs: what is shown to have grown blocks, and so does an estimate beyond the limit.
undecided: lean
regression:
{rules}limits:
  # Judged on the count; a build that answers less is not faster.
  error_rate: {{max: 1%}}
evidence:
  warmup: auto
"""
# A P99 of a few hundred requests moves by more than a build does: it is shown.
_RULE = "  {metric}: {{p50: {max}, p90: {max}, p99: {{max: {limit}, level: info}}}}\n"


def text(limit: str, metrics: Sequence[str]) -> str:
    """The YAML for a growth such as "10%" of the metrics that the baseline has. Raises ValueError."""
    _tables.PERCENT.parse(Node(limit, 0))
    rules = "".join(_RULE.format(metric=one, max=f"{{max: {limit}}}", limit=limit) for one in metrics)
    return _TEXT.format(rules=rules)


def noted(policy: Policy, limit: str, metrics: Sequence[str]) -> Policy:
    """The policy with what a reader of the report should know of it."""
    notes = [
        f"no policy was given: the built-in one of --max-growth {limit} allows that growth of P50 and P90"
        " (P99 is shown), and 1% failed requests",
        "goodput is not judged: without a bound nothing says what a good request is",
        "--max-growth compares baseline and results as measured in one session, as --same-session states;"
        " sessions differ by 3 to 5% with no change of the build",
    ]
    if absent := ", ".join(one.upper() for one in REQUEST_METRICS if one not in metrics):
        notes.append(f"not in the baseline, so not compared: {absent}")
    return replace(policy, notes=(*policy.notes, *notes))
