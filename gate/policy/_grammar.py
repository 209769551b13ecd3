"""The small languages of a policy: quantities, statistics, `when`, days."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal

from .. import units
from ..model import Condition, When

MAX_QUANTITY = 20  # characters; keeps every quantity finite
MAX_WHEN = 200
PERCENTILE = r"^p(0\.[0-9]{0,5}[1-9]|[1-9][0-9]?(\.[0-9]{0,5}[1-9])?)$"
_CONDITION = r"(input_tokens|output_tokens) *(<=|>=|<|>) *(0|[1-9][0-9]{0,8})"
WHEN = rf"^ *{_CONDITION}( +and +{_CONDITION})* *$"
DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
TEXT = r"^(?=[\s\S]*\S)[^\x00-\x08\x0e-\x1f\x7f]*$"  # some text, no control characters
PROFILE = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,49}$"


def quantity(value: object, unit: str, pattern: str, demand: str) -> float:
    """NUMBER [space] UNIT in the base unit `unit`. Raises ValueError with a whole sentence."""
    if unit == units.SHARE and isinstance(value, (int, float)) and not isinstance(value, bool):
        raise ValueError(_bare_share(value))
    if isinstance(value, str) and len(value) > MAX_QUANTITY:
        raise ValueError(f'"{value[:MAX_QUANTITY]}..." is too long for a quantity; write {demand}')
    number = units.parse(value, unit)
    if not re.fullmatch(pattern, str(value)):
        raise ValueError(f'"{value}" does not fit here; write {demand}')
    return number


def _bare_share(value: float) -> str:
    # 0.99 may be meant as 99% or, by somebody used to percentages, as 0.99%.
    readings = f'"{value:g}%"' if value > 1 else f'"{value:g}%" or "{units.show(value, units.SHARE)}"'
    return f"the bare number {value:g} has no unit: write {readings}"


def percentile(text: str) -> float | None:
    """The share behind a statistic: "p99.9" is 0.999 exactly as written; None if it is no percentile."""
    if not re.fullmatch(PERCENTILE, text):
        return None
    return float(Decimal(text[1:]) / 100)


def about_statistic(text: str) -> str:
    """What is wrong with the name of a statistic, or "" when the reason is not known."""
    loose = re.fullmatch(r"[pP]([0-9]+(?:\.[0-9]+)?)", text)
    if not loose:
        return ""
    number = Decimal(loose[1])
    if not 0 < number < 100:
        return "a percentile lies between 0 and 100, both excluded"
    if number.as_tuple().exponent < -6:  # type: ignore[operator]  # digits were matched: an int
        return "a percentile has at most six decimals"
    return f'write it "p{number.normalize():f}"'


def profile(text: str) -> str:
    """The name of a profile. Raises ValueError with a whole sentence."""
    if not re.fullmatch(PROFILE, text):
        raise ValueError(f'"{text[:50]}" is not a name for a profile')
    return text


def when(text: str) -> When:
    """Conditions joined by `and`. Raises ValueError with a whole sentence.

    The canonical text has no spaces, `&` for `and` and its conditions sorted, so that an id such as
    `e2e.p99[input_tokens>=100&output_tokens<300]` is the same however the policy is written.
    """
    if len(text) > MAX_WHEN:
        raise ValueError(f"a `when` has at most {MAX_WHEN} characters")
    if not re.fullmatch(WHEN, text):
        raise ValueError(_about_when(text))
    parts = {(column, op, int(value)) for column, op, value in re.findall(_CONDITION, text)}
    conditions = tuple(Condition(*part) for part in sorted(parts))
    canonical = "&".join(f"{c.column}{c.op}{c.value}" for c in conditions)
    parsed = When(conditions, canonical)
    empty = [column for column, (low, high) in population(parsed).items() if low > high]
    if empty:
        raise ValueError(f'"{text}" holds for no request: {empty[0]} has no such value')
    return parsed


def _about_when(text: str) -> str:
    wanted = "input_tokens or output_tokens, one of < <= > >=, and a whole number"
    for part in re.split(r"\s+and\s+", text.strip()):
        if not re.fullmatch(_CONDITION, part):
            return f'"{part}" is not a condition: write {wanted}, joined by `and`'
    return f'"{text}" is not a `when`: write {wanted}, joined by `and`'


def population(bound: When | None) -> dict[str, tuple[float, float]]:
    """The whole numbers a `when` lets through, by column: two spellings of one population are equal."""
    ranges: dict[str, tuple[float, float]] = {}
    for c in bound.conditions if bound else ():
        low, high = ranges.get(c.column, (0.0, float("inf")))
        if c.op in ("<", "<="):
            high = min(high, c.value if c.op == "<=" else c.value - 1)
        else:
            low = max(low, c.value if c.op == ">=" else c.value + 1)
        ranges[c.column] = (low, high)
    return {column: r for column, r in ranges.items() if r != (0.0, float("inf"))}


def day(text: str) -> date:
    """YYYY-MM-DD. Raises ValueError with a whole sentence."""
    try:
        if re.fullmatch(DAY, text):
            return date.fromisoformat(text)
    except ValueError:
        pass  # a day the calendar does not have
    raise ValueError(f'"{text}" is not a day; write it like 2027-01-31')
