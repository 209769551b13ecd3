"""The load point of a run, by what its client was told."""

from __future__ import annotations

from ..model import Load

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
