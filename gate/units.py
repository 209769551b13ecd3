"""Quantities in and out: "800 ms" -> 0.8 and back. The only place where units are scaled.

Base units are seconds, shares (0..1), percentage points as shares, requests/s and tokens/s.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

SECONDS = "s"
SHARE = "share"
POINTS = "points"
RATE = "req/s"
TOKEN_RATE = "tok/s"
TOKENS = "tokens"
COUNT = "count"
RATIO = "ratio"

_SCALES: dict[str, tuple[str, Decimal]] = {
    "us": (SECONDS, Decimal("1e-6")),
    "µs": (SECONDS, Decimal("1e-6")),
    "ms": (SECONDS, Decimal("1e-3")),
    "s": (SECONDS, Decimal(1)),
    "min": (SECONDS, Decimal(60)),
    "%": (SHARE, Decimal("0.01")),
    "pt": (POINTS, Decimal("0.01")),
    "/s": (RATE, Decimal(1)),
    "req/s": (RATE, Decimal(1)),
    "tok/s": (TOKEN_RATE, Decimal(1)),
}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([^\s0-9.].*)?")
_EXAMPLES = {
    SECONDS: ("ms", "s"),
    SHARE: ("%",),
    POINTS: ("pt",),
    RATE: ("req/s",),
    TOKEN_RATE: ("tok/s",),
}


def parse(text: object, unit: str) -> float:
    """NUMBER [space] UNIT as a float in the base unit `unit`.

    Raises ValueError with a whole sentence: a bare number is refused with both readings,
    a foreign unit with the units that would do.
    """
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise ValueError(f"expected a quantity like {_example(unit)}, got {_name(text)}")
    found = _QUANTITY.fullmatch(str(text).strip())
    if not found:
        raise ValueError(f'"{text}" is not a quantity; write a number and a unit, like {_example(unit)}')
    number, suffix = found[1], (found[2] or "").strip()
    if not suffix:
        readings = " or ".join(f'"{number} {u}"' for u in _EXAMPLES[unit])
        raise ValueError(f"the bare number {number} has no unit: write {readings}")
    dimension, scale = _SCALES.get(suffix, ("", Decimal(0)))
    if dimension != unit:
        units = ", ".join(u for u, (d, _) in _SCALES.items() if d == unit and u != "µs")
        raise ValueError(f'"{suffix}" is not a unit of this value; use one of {units}')
    return float(Decimal(number) * scale)


def show(value: float | None, unit: str, against: float | None = None) -> str:
    """`value` for a reader, with enough digits that it cannot contradict its comparison with `against`."""
    if value is None or math.isnan(value):
        return "-"
    scale, suffix = _display(against if against is not None else value, unit)
    if math.isinf(value / scale):
        return "unbounded" if value > 0 else "-unbounded"
    digits = _digits(value, against)
    shown = _number(value / scale, digits)
    while against is not None and digits < 17 and not _agrees(value, against, scale, digits):
        digits += 1
        shown = _number(value / scale, digits)
    return shown + suffix


def milliseconds(value_s: float) -> str:
    """A time with two places, for conventions set side by side: 7.07 ms, 12.00 ms."""
    return f"{value_s * 1e3:.2f} ms"


def about(n: int) -> str:
    """A whole number rounded up to two digits: an estimate must not look exact."""
    step = 10 ** max(0, len(str(n)) - 2)
    return f"{-(-n // step) * step:,}"


def two_digits(value: float) -> str:
    """An estimate that is no whole number, with two digits: 4, 1.5, 120."""
    return f"{float(f'{value:.2g}'):g}"


def _agrees(value: float, against: float, scale: float, digits: int) -> bool:
    mine = float(_number(value / scale, digits).replace(",", ""))
    bound = float(_number(against / scale, 17).replace(",", ""))
    return (mine > bound) == (value > against) and (mine < bound) == (value < against)


def _digits(value: float, against: float | None) -> int:
    return 4 if abs(value) < 1e4 or against is not None else 6


def _number(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{min(places, 17)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _display(value: float, unit: str) -> tuple[float, str]:
    size = abs(value)
    if unit == SECONDS:
        if size >= 1 or size == 0:
            return 1.0, " s"
        return (1e-3, " ms") if size >= 1e-3 else (1e-6, " us")
    if unit == SHARE:
        return 0.01, "%"
    if unit == POINTS:
        return 0.01, " pt"
    return 1.0, {RATE: " req/s", TOKEN_RATE: " tok/s", TOKENS: " tokens"}.get(unit, "")


def _example(unit: str) -> str:
    return {SECONDS: '"800 ms"', SHARE: '"99%"', POINTS: '"5pt"', RATE: '"20/s"'}.get(unit, '"2000 tok/s"')


def _name(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r}"


def printable(text: str) -> str:
    """`text` on one line without control characters, so that a file cannot drive a terminal or a log.

    A CI runner obeys `##[command]` anywhere in a line, so # stands alone.
    """
    kept = "".join(
        c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return re.sub("#(?=#)", "# ", " ".join(kept.split()))
