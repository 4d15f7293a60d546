"""Quantities and documents: what a unit's prefix is worth, and that nothing stands twice."""

from __future__ import annotations

from fractions import Fraction

import pytest

from halflife.errors import InvalidInput
from halflife.parsing.documents import PolicyError, parse_document
from halflife.parsing.quantities import PREFIXES, parse_quantity

WORTH = {
    "n": "1e-9", "µ": "1e-6", "u": "1e-6", "m": "1e-3", "c": "1e-2", "d": "1e-1", "h": "1e2", "k": "1e3", "M": "1e6", "G": "1e9",
    "T": "1e12",
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


def test_a_key_that_stands_twice_is_refused_with_both_places():
    with pytest.raises(PolicyError, match=r"policy.yaml:4:3: a.b: stands twice \(first on line 2\)"):
        parse_document("a:\n  b: 1\n  c: 2\n  b: 3\n")
