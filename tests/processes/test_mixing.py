"""Geometric mixing: the product of a large c and a small power."""

import math

import pytest

from halflife.processes import GeometricMixing


def test_a_power_too_small_for_a_double_still_meets_its_constant():
    """c = 1e300, ρ = 1/2, t = 1076: Δ = 1e300·2⁻¹⁰⁷⁶, which 70 nats make large. Holds Definition 8."""
    truth = math.log1p(math.exp(math.log(1e300) - 1076 * math.log(2)) * math.expm1(70))
    assert GeometricMixing(1e300, 0.5).amplify(70.0, 1076) == pytest.approx(truth, rel=1e-9)
    assert GeometricMixing(1e300, 0.5).amplify(70.0, 1076) >= truth * (1 - 1e-12)
