"""Geometric mixing: the product of a large c and a small power."""

import math

import pytest

from halflife.processes import GeometricMixing, MarkovChain


def test_a_chain_that_mixes_geometrically_is_covered_and_not_by_more():
    """Holds Definition 8: Δ(t) = 0.8^t on this chain; with 0.8^−t, as printed, or a ρ a tenth off it would not be."""
    chain, bound = MarkovChain([[0.9, 0.1], [0.1, 0.9]]), GeometricMixing(1.0, 0.8)
    for t in (1, 2, 5, 20):
        assert chain.total_variation(t) <= bound.total_variation(t) * (1 + 1e-11)
        assert bound.total_variation(t) == pytest.approx(chain.total_variation(t), rel=1e-9)
        assert bound.amplify(2.0, t) == pytest.approx(math.log1p(0.8**t * math.expm1(2.0)), rel=1e-9)


def test_a_power_too_small_for_a_double_still_meets_its_constant():
    """c = 1e300, ρ = 1/2, t = 1076: Δ = 1e300·2⁻¹⁰⁷⁶, which 70 nats make large."""
    truth = math.log1p(math.exp(math.log(1e300) - 1076 * math.log(2)) * math.expm1(70))
    assert GeometricMixing(1e300, 0.5).amplify(70.0, 1076) == pytest.approx(truth, rel=1e-9)
    assert GeometricMixing(1e300, 0.5).amplify(70.0, 1076) >= truth * (1 - 1e-12)
