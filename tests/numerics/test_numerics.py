"""Directed rounding against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halflife import InvalidInput
from halflife.numerics import parameters, rounding, search

losses = st.floats(1e-12, 1e3, allow_nan=False)
EXACT = Fraction(1, 2**rounding.UNIT_BITS)


@given(st.lists(losses, max_size=30))
def test_sums_of_units_are_exact_to_2_to_the_minus_120_and_never_below(values):
    exact = sum(map(Fraction, values), Fraction(0))
    units = sum(map(rounding.to_units, values))
    assert exact <= units * EXACT <= exact + len(values) * EXACT
    assert Fraction(rounding.float_up(units)) >= exact
    assert Fraction(rounding.float_down(units)) <= units * EXACT
    assert rounding.float_up(units) <= rounding.up(rounding.float_down(units))


@given(st.floats(1e-300, 1e300), st.floats(1e-300, 1e300))
def test_division_is_directed_and_tight(a, b):
    q = a / b
    if not 1e-300 < q < 1e300:
        return
    high, low = rounding.divide_up(a, b), rounding.divide_down(a, b)
    assert Fraction(low) <= Fraction(a) / Fraction(b) <= Fraction(high)
    assert high <= rounding.up(low)
    if Fraction(q) * Fraction(b) == Fraction(a):
        assert low == q == high


@given(st.integers(-(10**40), 10**40), st.integers(1, 10**40))
def test_ratio_up_is_the_least_double_above(numerator, denominator):
    x = rounding.ratio_up(numerator, denominator)
    assert Fraction(x) >= Fraction(numerator, denominator) > Fraction(rounding.down(x))


def test_ratio_up_of_what_no_double_holds_is_infinite():
    assert rounding.ratio_up(10**400, 1) == math.inf


@given(st.floats(1e-6, 1e6), st.floats(1e-12, 1e-3))
def test_largest_gives_a_point_that_holds_next_to_one_that_does_not(edge, relative):
    found = search.largest(lambda x: x <= edge, 0.0, edge * 3, relative)
    assert found <= edge <= found * (1 + relative) * (1 + 1e-12)


@pytest.mark.parametrize("bad", [float("nan"), math.inf, -math.inf, -1, -1e-300, 5e-324, "1", None, True, 1j, 10**400])
def test_real_refuses(bad):
    with pytest.raises(InvalidInput):
        parameters.real("x", bad)


@pytest.mark.parametrize("bad", [1.0, "1", None, True, float("nan"), 0])
def test_whole_refuses(bad):
    with pytest.raises(InvalidInput):
        parameters.whole("x", bad, least=1)
