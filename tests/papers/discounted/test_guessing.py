"""How often the best guess is right: against closed forms, brute-force integration and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halflife import InvalidInput
from halflife.papers.discounted import guessing
from halflife.papers.discounted.guessing import most_guesses, right_guesses


def success(*losses):
    return float(right_guesses(np.array([losses]))[0])


@pytest.mark.parametrize("a", [1e-6, 1e-3, 0.1, 0.5, 1.0, 3.0, 20.0, 400.0])
def test_one_step_has_a_closed_form(a):
    """Two Laplace densities a apart: total variation 1 − e^{−a/2}."""
    assert success(a) == pytest.approx(1 - math.exp(-a / 2) / 2, abs=2e-7)
    assert success(a, 0.0, 0.0) == pytest.approx(success(a), abs=1e-12)


def by_integration(losses):
    """½(1 + ½∫|p − p′|) on a grid whose lines hold the kinks, by the exact probability of each cell in each direction."""
    edges = np.arange(-12.0, 12.0 + 1e-9, 0.02 if len(losses) == 2 else 0.1)

    def cells(centre):
        inside = np.where(edges < centre, 0.5 * np.exp(edges - centre), 1 - 0.5 * np.exp(centre - edges))
        return np.diff(inside)

    here, there = (np.array(1.0), np.array(1.0))
    for a in losses:
        here, there = np.multiply.outer(here, cells(0.0)), np.multiply.outer(there, cells(a))
    return 0.5 + 0.25 * np.abs(here - there).sum()


LOSSES = [(0.5, 0.5), (1.0, 0.3), (2.0, 0.1), (3.0, 3.0), (0.4, 0.2, 0.9), (1.0, 1.0, 1.0)]


@pytest.mark.parametrize(
    "losses",
    [pytest.param(x, marks=pytest.mark.soak) if x == (0.4, 0.2, 0.9) else x for x in LOSSES],
)
def test_two_and_three_steps_by_integration(losses):
    """The grid loses a little where p = p′ inside a cell."""
    expected = by_integration(losses)
    assert success(*losses) == pytest.approx(expected, abs=5e-4)
    assert abs(success(*(1.1 * a for a in losses)) - expected) > 2e-3


def by_enumeration(losses, parts=40):
    """By the distribution of L itself: the atoms ±a and cells of the density ¼e^{−(a−l)/2} between them, convolved by sorting."""
    law = {0.0: 1.0}
    for a in losses:
        edges = np.linspace(-a, a, parts + 1)
        weights = np.diff(0.5 * np.exp(-(a - edges) / 2))
        one = {a: 0.5, -a: math.exp(-a) / 2, **dict(zip(((edges[1:] + edges[:-1]) / 2).tolist(), weights, strict=True))}
        new = {}
        for (x, p), (y, q) in itertools.product(law.items(), one.items()):
            key = round(x + y, 9)
            new[key] = new.get(key, 0.0) + p * q
        law = new
    return sum(p for x, p in law.items() if x > 0) + 0.5 * law.get(0.0, 0.0)


@pytest.mark.parametrize("losses", [(0.3,) * 5, (0.3, 0.6, 0.9), (0.05,) * 8])
def test_several_steps_by_the_law_of_the_likelihood_ratio(losses):
    assert success(*losses) == pytest.approx(by_enumeration(losses), abs=2e-4)


def test_a_week_by_simulation():
    """A week of unequal losses; the guesses of 20,000 simulated attackers (±1.0 %, three standard errors)."""
    rng = np.random.default_rng(5)
    losses = rng.exponential(0.06, 336)
    noise = rng.laplace(size=(20_000, 336))
    ratio = (np.abs(noise - losses) - np.abs(noise)).sum(axis=1)
    assert success(*losses) == pytest.approx(float((ratio > 0).mean()), abs=0.0105)
    assert abs(success(*(1.1 * losses)) - success(*losses)) > 0.0105


@pytest.mark.parametrize(("n", "size"), [(60, 1.0), (336, 0.3), (1_344, 0.1), (3_000, 0.02)])
def test_power_sums_stand_for_all_but_the_largest_steps(n, size, monkeypatch):
    losses = size * np.random.default_rng(n).random((2, n)) ** 2
    quick = right_guesses(losses)
    monkeypatch.setattr(guessing, "SINGLE", n)
    monkeypatch.setattr(guessing, "NODES", 1_000)
    assert quick == pytest.approx(right_guesses(losses), abs=1e-5)


def test_many_small_steps_are_a_normal_law():
    losses = np.full((1, 20_000), 0.01)
    sigma = math.sqrt(20_000) * 0.01
    assert right_guesses(losses)[0] == pytest.approx(0.5 * math.erfc(-sigma / 2 / math.sqrt(2)), abs=2e-3)


@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=60), st.floats(1.0, 3.0))
def test_larger_losses_and_more_steps_help_and_nothing_passes_the_bound(losses, factor):
    found = success(*losses)
    assert 0.5 <= found <= most_guesses(sum(losses)) + 1e-6
    assert success(*(factor * a for a in losses)) >= found - 1e-4
    assert success(*losses, 0.5) >= found - 1e-4
    assert success(*losses) >= success(max(losses)) - 1e-6


def test_losses_without_end_are_certain_and_wrong_ones_refused():
    assert right_guesses(np.full((1, 300), 30.0))[0] == right_guesses(np.full((1, 17_520), 5.0))[0] == 1.0
    assert right_guesses(np.zeros((2, 3))).tolist() == [0.5, 0.5]
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="finite"):
            right_guesses(np.array([[1.0, wrong]]))
