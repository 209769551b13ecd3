"""Quantities in and out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from gate import units

READ = [
    ("800 ms", units.SECONDS, 0.8),
    ("800ms", units.SECONDS, 0.8),
    ("3s", units.SECONDS, 3.0),
    ("250us", units.SECONDS, 0.00025),
    ("2 min", units.SECONDS, 120.0),
    ("99%", units.SHARE, 0.99),
    ("99.9 %", units.SHARE, 0.999),
    ("5pt", units.POINTS, 0.05),
    ("20/s", units.RATE, 20.0),
    ("20 req/s", units.RATE, 20.0),
    ("2000 tok/s", units.TOKEN_RATE, 2000.0),
]


@pytest.mark.parametrize(("text", "unit", "value"), READ)
def test_a_quantity_is_read_in_its_base_unit(text: str, unit: str, value: float) -> None:
    assert units.parse(text, unit) == value


REFUSED = [
    "",
    "ms",
    "-5ms",
    "1e3",
    "1e3 ms",
    "1_000 ms",
    "12:30",
    "nan",
    "inf s",
    "0x10 ms",
    "5 tok/s",
    "99%",
    None,
    True,
    [1],
]


@pytest.mark.parametrize("text", REFUSED, ids=repr)
def test_what_is_no_time_is_refused_with_a_sentence(text: object) -> None:
    with pytest.raises(ValueError, match=r"\w+ .*\w+"):
        units.parse(text, units.SECONDS)


def test_a_bare_number_is_refused_with_both_readings() -> None:
    with pytest.raises(ValueError, match='"800 ms" or "800 s"'):
        units.parse(800, units.SECONDS)


SHOWN = [
    (0.8004, units.SECONDS, 0.8, "800.4 ms"),
    (0.80000001, units.SECONDS, 0.8, "800.00001 ms"),
    (0.98996, units.SHARE, 0.99, "98.996%"),
    (0.9899999999, units.SHARE, 0.99, "98.99999999%"),
    (0.99, units.SHARE, 0.99, "99%"),
    (0.0, units.SECONDS, None, "0 s"),
    (2.3e-5, units.SECONDS, None, "23 us"),
    (1360.93, units.TOKEN_RATE, None, "1,361 tok/s"),
    (math.inf, units.SECONDS, 1.0, "unbounded"),
    (1e308, units.SHARE, None, "unbounded"),
    (math.nan, units.SECONDS, None, "-"),
    (None, units.SECONDS, None, "-"),
]


@pytest.mark.parametrize(("value", "unit", "against", "text"), SHOWN)
def test_a_value_is_shown_with_the_digits_it_needs(
    value: float | None, unit: str, against: float | None, text: str
) -> None:
    assert units.show(value, unit, against) == text


@given(
    st.floats(1e-6, 1e4, allow_nan=False),
    st.floats(1e-6, 1e4, allow_nan=False),
    st.sampled_from([units.SECONDS, units.SHARE]),
)
def test_a_shown_value_never_contradicts_its_comparison(value: float, bound: float, unit: str) -> None:
    scale = {" us": 1e-6, " ms": 1e-3, " s": 1.0, "%": 0.01}
    shown, limit = units.show(value, unit, bound), units.show(bound, unit)
    suffix = next(s for s in scale if shown.endswith(s))
    number = float(shown.removesuffix(suffix).replace(",", ""))
    assert limit.endswith(suffix)
    if abs(value - bound) > 1e-12 * bound:
        assert (number > bound / scale[suffix]) == (value > bound) or number == pytest.approx(
            bound / scale[suffix], rel=1e-15
        )


@given(st.text())
def test_printable_text_is_one_line_without_control_characters(text: str) -> None:
    shown = units.printable(text)
    assert "\n" not in shown
    assert all(c.isprintable() for c in shown)


@pytest.mark.parametrize(
    ("n", "text"), [(7, "7"), (99, "99"), (101, "110"), (357, "360"), (14_321, "15,000")]
)
def test_an_estimate_is_rounded_up_to_two_digits(n: int, text: str) -> None:
    assert units.about(n) == text
