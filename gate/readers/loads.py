"""The load point of a run, by what its client was told."""

from __future__ import annotations

from math import isfinite

from ..model import Load
from .stored import Stored

_MOST = 1e12  # requests/s


def load(*, rate: float | None = None, slots: float | None = None) -> Load | None:
    """Open loop at a rate, which the slots cap; else closed loop; a burst at an infinite rate without slots.

    None where neither sends anything.
    """
    cap = int(slots) if slots is not None and 1 <= slots <= _MOST else None
    if rate is not None and 0 < rate <= _MOST:
        return Load(request_rate=rate, cap=cap)
    if cap is not None:
        return Load(concurrency=cap)
    return Load(burst=True) if rate == float("inf") else None


def stated(
    source: Stored, at: str, hint: str, *, rate: float | None = None, slots: float | None = None
) -> Load | None:
    """The same of what a file states. Raises InputError for a rate or slots that send nothing."""
    if rate is not None and not (rate > 0 and isfinite(rate)):
        raise source.fail(f"a rate of {rate:g} req/s sends nothing", at, hint)
    if slots is not None and slots <= 0:
        raise source.fail(f"a concurrency of {slots:g} sends nothing", at, hint)
    return load(rate=rate, slots=slots)
