"""The burden of proof: what an undecided rule does to the exit code (DESIGN section 4)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ..model import Check, Level, Policy, Verdict
from .checks import SURE_FROM

# How often `lean` lets through a deployment whose true share of misses is the allowed one, and twice that:
# benchmarks/calibrate_lean.py prints it into docs/statistics.md, and a test holds both to it.
LEAN_ON_THE_BOUND, LEAN_AT_TWICE = 0.6, 0.25


def with_burden(one: Check, policy: Policy) -> Check:
    """The check, and whether it alone keeps the gate from exiting 0."""
    if one.level is not Level.BLOCK or one.waived:
        return one
    if not _undecided(one):
        return replace(one, blocks=one.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE))
    lets = policy.undecided == "allow" or (
        policy.undecided == "lean" and _enough(one) and not _misses_bound(one)
    )
    return replace(one, blocks=not lets)


def burden_notes(checks: Sequence[Check], policy: Policy) -> list[str]:
    """What `undecided: lean` is worth, where it decided."""
    if policy.undecided != "lean":
        return []
    open_ones = [one for one in checks if _undecided(one) and one.level is Level.BLOCK and not one.waived]
    notes = []
    if lets := [one.id for one in open_ones if not one.blocks]:
        notes.append(
            f"undecided: lean lets {', '.join(lets)} through on the observed value alone, which also passes a"
            f" deployment exactly on its bound in about {LEAN_ON_THE_BOUND:.0%} of benchmarks, and one with"
            f" twice the misses allowed in about {LEAN_AT_TWICE:.0%} (`slo-gate explain undecided`)"
        )
    if few := [f"{one.id} has {one.requests or 0}" for one in open_ones if not _enough(one)]:
        notes.append(f"undecided: lean takes {SURE_FROM} attempted requests or more; {', '.join(few)}")
    return notes


def _undecided(one: Check) -> bool:
    return one.verdict is Verdict.INCONCLUSIVE and one.cause == "undecided"


def _enough(one: Check) -> bool:
    return one.requests is not None and one.requests >= SURE_FROM


def _misses_bound(one: Check) -> bool:
    """Whether the observed value is on the wrong side; unknown counts as wrong."""
    if one.observed is None or one.bound is None:
        return True
    return one.observed > one.bound if one.operator == "<=" else one.observed < one.bound
