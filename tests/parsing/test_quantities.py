"""Quantities and documents: what a unit's prefix is worth, and that nothing stands twice."""

from __future__ import annotations

from fractions import Fraction

import pytest

from halflife.errors import InvalidInput
from halflife.parsing.documents import PolicyError, parse_document
from halflife.parsing.quantities import PREFIXES, parse_quantity

WORTH = {
    "n": "1e-9", "µ": "1e-6", "μ": "1e-6", "u": "1e-6", "m": "1e-3", "c": "1e-2", "d": "1e-1", "h": "1e2", "k": "1e3",
    "M": "1e6", "G": "1e9", "T": "1e12",
}  # fmt: skip


@pytest.mark.parametrize("prefix", WORTH)
def test_a_prefix_is_worth_what_the_standard_says(prefix):
    """Both ways: from it to the plain unit, and back."""
    assert parse_quantity(f"3 {prefix}Wh", "Wh") == 3 * Fraction(WORTH[prefix])
    assert parse_quantity("3 Wh", f"{prefix}Wh") == 3 / Fraction(WORTH[prefix])


def test_every_prefix_that_is_known_is_compared():
    assert set(PREFIXES) == {"", *WORTH}
    assert parse_quantity("2.5 MW", "kW") == 2500
    assert parse_quantity("-1.5e2 kWh", "kWh") == -150


@pytest.mark.parametrize("text", ["5 kW", "5 Kwh", "5 kkWh", "5 MkWh", "five kWh", "5 kWh kWh", ""])
def test_what_is_no_such_quantity_is_refused(text):
    with pytest.raises(InvalidInput):
        parse_quantity(text, "kWh")


@pytest.mark.parametrize(
    ("text", "unit"),
    [("500 dm3", "m3"), ("9 cm³", "m³"), ("5 km²", "m²"), ("100 kph", "mph"), ("5 in", "min"), ("5 h", "min"), ("5 d", "cd"),
     ("5 sers", "users"), ("5 kkm", "km"), ("5 Wh/m3", "kWh/m2"), ("5 m3/h", "km3/h")],
)  # fmt: skip
def test_squares_cubes_and_letters_that_are_no_prefix_are_not_converted(text, unit):
    """Before: 500 dm³ were 50 m³, and 5 in 5,000 min."""
    with pytest.raises(InvalidInput, match="is not in"):
        parse_quantity(text, unit)


@pytest.mark.parametrize(
    ("text", "unit", "worth"),
    [("5 mm", "m", "1/200"), ("3 kg", "g", "3000"), ("3 g", "kg", "3/1000"), ("2 dB", "B", "1/5"), ("1 mcd", "cd", "1/1000"),
     ("7 kpeople", "people", "7000"), ("4 Wh/m2", "kWh/m2", "1/250"), ("4 m3/h", "m3/h", "4"), ("1 hPa", "Pa", "100")],
)  # fmt: skip
def test_units_as_people_write_them(text, unit, worth):
    assert parse_quantity(text, unit) == Fraction(worth)


def test_a_key_that_stands_twice_is_refused_with_both_places():
    with pytest.raises(PolicyError, match=r"policy.yaml:4:3: a.b: stands twice \(first on line 2\)"):
        parse_document("a:\n  b: 1\n  c: 2\n  b: 3\n")
