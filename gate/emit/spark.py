"""Numbers as one line of characters."""

from __future__ import annotations

import math
from collections.abc import Sequence

_SIGNS = {
    False: "_.-=+*#",
    True: "\N{LOWER ONE EIGHTH BLOCK}\N{LOWER ONE QUARTER BLOCK}\N{LOWER THREE EIGHTHS BLOCK}"
    "\N{LOWER HALF BLOCK}\N{LOWER FIVE EIGHTHS BLOCK}\N{LOWER THREE QUARTERS BLOCK}"
    "\N{LOWER SEVEN EIGHTHS BLOCK}\N{FULL BLOCK}",
}
SHOWN = 30  # sessions in a line
_LEAST = 0.02  # of the largest value: what spreads less is drawn flat


def spark(values: Sequence[float | None], *, unicode: bool = False) -> str:
    """One sign a value, from the lowest to the highest of them; a space where there is none."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return " " * len(values)
    signs, low, high = _SIGNS[unicode], min(known), max(known)
    room = max(high - low, _LEAST * max(abs(low), abs(high))) or 1.0
    start = (low + high - room) / 2
    return "".join(
        " "
        if value is None or not math.isfinite(value)
        else signs[min(int((value - start) / room * len(signs)), len(signs) - 1)]
        for value in values
    )
