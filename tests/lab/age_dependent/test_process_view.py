"""The table that `halflife process show` prints: each number under its own head."""

from __future__ import annotations

import math

import pytest

from halflife import MarkovChain
from halflife.lab.age_dependent.process_view import HEADS, age_rows


def test_what_is_left_exactly_stands_before_what_theorem_1_says():
    """Of a symmetric chain of two states, by their formulas: 2 artanh(0.8ᵗ tanh(ε/2)), and ln(1 + 0.8ᵗ(e^ε − 1))."""
    rows = {row[0]: [float(x) for x in row[1:]] for row in age_rows(MarkovChain([[0.9, 0.1], [0.1, 0.9]]), 60.0)}
    assert len(HEADS) == 6
    for name, t in (("1 hour", 1), ("6 hours", 6)):
        delta = 0.8**t
        wanted = [delta]
        for epsilon in (1.0, 4.0):
            wanted += [2 * math.atanh(delta * math.tanh(epsilon / 2)), math.log1p(delta * math.expm1(epsilon))]
        assert rows[name] == pytest.approx(wanted, rel=5e-3)
