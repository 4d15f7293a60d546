"""Sensitivities from public bounds, and the helper that looks at private data and says so."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from halflife import InvalidInput
from halflife.lab.almost_periodic.declared import look_at_private_changes, propose_sensitivities

GRID = 9


def reached(low, high, missing, pull, *, gaps):
    """The largest move of pull·x between neighbours, by z and by w, searched over a grid of patterns and of readings."""
    levels = np.linspace(low, high, GRID).tolist()
    shown = [*levels, missing] if gaps else levels  # what a person adds after clipping, or without a reading
    by_pattern = max(abs(pull * (a - b)) for a, b in itertools.product(levels, levels))
    by_variation = max(abs(pull * (a - b)) for a, b in itertools.product(shown, shown))
    return by_pattern, by_variation


@pytest.mark.parametrize(
    ("low", "high", "missing"), [(0.0, 5.0, 0.0), (-2.0, 3.0, 0.0), (1.0, 5.0, 0.0), (1.0, 5.0, 2.0), (-3, -1, 0)]
)
@pytest.mark.parametrize(("statistic", "options", "pull"), [
    ("sum", {}, 1.0), ("mean", {}, 1 / 4), ("weighted sum", {"weights": [0.5, -3.0, 1.0, 0.0]}, 3.0),
])  # fmt: skip
def test_proposals_are_the_largest_moves_of_a_search(low, high, missing, statistic, options, pull):
    declared = propose_sensitivities(low, high, 4, statistic, missing=missing, **options)
    z, w = reached(low, high, missing, pull, gaps=True)
    assert declared.pattern == pytest.approx(z, rel=1e-12)
    assert declared.variation == pytest.approx(w, rel=1e-12)


def test_a_histogram_moves_by_two_in_l1():
    """Searched: shares of time in three bins that add up to 1, and all moves between bins or to none."""
    points = [np.array(p) / 4 for p in itertools.product(range(5), repeat=3) if sum(p) == 4]
    z = max(np.abs(a - b).sum() for a, b in itertools.product(points, points))
    places = [*np.eye(3), np.zeros(3)]
    w = max(np.abs(a - b).sum() for a, b in itertools.product(places, places))
    declared = propose_sensitivities(0.0, 5.0, 10, "histogram", bins=3)
    assert (declared.pattern, declared.variation) == (z, w) == (2.0, 2.0)
    assert "not in their readings" in str(declared)


def test_a_clip_is_a_variation_that_the_proposal_covers():
    """The witness of P4: clipped at 1, z = 0.9 or 0.5 and w = (0, 0.3); the clipped value moves by 0.1 or by 0.3."""
    moved = [min(1.0, z + 0.3) - z for z in (0.9, 0.5)]
    assert max(moved) - min(moved) == pytest.approx(0.2)
    declared = propose_sensitivities(0.0, 1.0, 2)
    assert declared.variation >= max(moved)
    assert any("clip never binds" in text and "infinite" in text for text in declared.conditions)
    assert any("joins or leaves" in text for text in declared.conditions)


def test_proposals_are_rounded_up():
    declared = propose_sensitivities(0.0, 1.0, 3, "mean")
    assert declared.pattern >= 1 / 3
    assert declared.pattern * 3 >= 1.0
    tenth = propose_sensitivities(0.1, 0.7, 7, "weighted sum", weights=[0.1] * 7)
    from fractions import Fraction

    exact = (Fraction(0.7) - Fraction(0.1)) * Fraction(0.1)
    assert Fraction(tenth.pattern) >= exact
    assert tenth.pattern == pytest.approx(0.06)


def test_a_resolution_widens_bounds_to_its_multiples():
    declared = propose_sensitivities(0.03, 4.97, 10, resolution=0.25)
    assert declared.pattern == 5.0
    assert propose_sensitivities(0.0, 5.0, 10, resolution=0.001).pattern == 5.0
    assert propose_sensitivities(-0.3, 0.3, 10, resolution=0.1).pattern == pytest.approx(0.6, rel=1e-12)


def test_a_missing_reading_outside_the_bounds_costs_variation_only():
    declared = propose_sensitivities(1.0, 5.0, 10)
    assert (declared.pattern, declared.variation) == (4.0, 5.0)
    assert "counts as 0, which lies outside" in declared.reasons[1]


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ((5.0, 0.0, 10), {}, "must lie below"),
        ((0.0, math.nan, 10), {}, "NaN"),
        ((0.0, math.inf, 10), {}, "finite"),
        ((0.0, 5.0, 0), {}, "people must be at least 1"),
        ((0.0, 5.0, 10, "median"), {}, "did you mean 'mean'"),
        ((0.0, 5.0, 10, "weighted sum"), {}, "needs them"),
        ((0.0, 5.0, 10, "sum"), {"weights": [1.0] * 10}, "belong to a weighted sum"),
        ((0.0, 5.0, 10, "sum"), {"bins": 3}, "belong to a histogram"),
        ((0.0, 5.0, 10, "histogram"), {}, "needs them"),
        ((0.0, 5.0, 10, "histogram"), {"bins": 1}, "bins must be at least 2"),
        ((0.0, 5.0, 3, "weighted sum"), {"weights": [1.0, 2.0]}, "2 weights were given for 3 people"),
        ((0.0, 5.0, 2, "weighted sum"), {"weights": [0.0, 0.0]}, "every weight is 0"),
        ((0.0, 5.0, 2, "weighted sum"), {"weights": [math.nan, 0.0]}, "NaN"),
        ((0.0, 5.0, 10), {"resolution": 0.0}, "resolution must be above 0"),
        ((0.0, 5.0, 10), {"resolution": 6.0}, "coarser"),
        ((0.0, 5.0, 10), {"missing": math.nan}, "NaN"),
        (("0", 5.0, 10), {}, "low must be a number"),
        ((0.0, 5.0, 1, "weighted sum"), {"weights": ["a"]}, "a weight must be a number"),
    ],
)
def test_bad_declarations_are_refused(arguments, options, said):
    with pytest.raises(InvalidInput, match=said):
        propose_sensitivities(*arguments, **options)


# The look at data ---------------------------------------------------------------------------------------------------


def test_the_look_is_that_of_plain_loops():
    rng = np.random.default_rng(0)
    readings = rng.gamma(1.0, 2.0, (20, 17))
    readings[rng.random(readings.shape) < 0.2] = np.nan
    changes, far, size, everything = [], [], [], []
    for row in readings:
        cube = row[:15].reshape(5, 3)
        own = [abs(b - a) for k in range(4) for a, b in zip(cube[k], cube[k + 1], strict=True) if not math.isnan(a + b)]
        z = [np.nanmean(cube[:, p]) for p in range(3)]
        everything += own
        changes.append(max(own, default=0.0))
        far.append(max(abs(x - z[p]) for k in range(5) for p, x in enumerate(cube[k]) if not math.isnan(x)))
        size.append(max(np.abs(z)))
    look = look_at_private_changes(readings, 3, quantile=0.75)
    for found, values in ((look.change, changes), (look.deviation, far), (look.pattern, size)):
        assert found in [pytest.approx(x) for x in values]
        assert np.mean(np.array(values) <= found + 1e-12) >= 0.75
        assert np.mean(np.array(values) < found - 1e-12) < 0.8
    assert look.beyond == pytest.approx(np.mean(np.array(everything) > look.change))


def test_the_look_says_that_it_looked_and_what_it_costs():
    look = look_at_private_changes(np.arange(12.0).reshape(2, 6), 2)
    text = str(look)
    assert look.looked_at_private_data
    assert text.startswith("A look at private data of 2 homes")
    assert "without bound" in look.cost
    assert "design sample" in text
    assert "private" in look_at_private_changes.__name__
    assert "LOOKS AT PRIVATE DATA" in look_at_private_changes.__doc__
    assert "must not" in look_at_private_changes.__doc__


@pytest.mark.parametrize(
    ("readings", "period", "quantile", "said"),
    [
        (np.ones((2, 6)), 4, 0.9, "does not fit twice"),
        (np.ones((2, 6)), 2, 1.5, "quantile must be at most 1"),
        (np.ones((2, 6)), 2, -0.1, "quantile must be at least 0"),
        ([[1.0, None, None, 1.0]], 2, 0.9, "no home has readings in two neighbouring periods"),
        ([[None, None]], 1, 0.9, "no reading at all"),
    ],
)
def test_a_look_at_nothing_is_refused(readings, period, quantile, said):
    with pytest.raises(InvalidInput, match=said):
        look_at_private_changes(readings, period, quantile)
