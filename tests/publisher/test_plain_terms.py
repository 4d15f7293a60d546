"""What releases come to in plain terms: totals under Gaussian noise by a second derivation, and where nothing adds up."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import halflife as hl
from halflife.publisher.plain_terms import Losses, find_plain_losses
from publisher.town import policy_dict

GAUSSIAN = {"notion": "gaussian-discount", "epsilon": 1.0, "delta": 1e-6, "alpha": 0.5}


def losses_of(*releases):
    found = Losses()
    found.feed(releases)
    return found


def test_gaussian_totals_are_those_of_one_gaussian_of_all_distances(tmp_path):
    """μ² = Σ (Δ_k/σ_k)², and ε solves Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) = δ; of a day the 24 steps that move most."""
    policy = hl.Policy.from_dict(policy_dict() | {"promise": GAUSSIAN}, tmp_path)
    scales = [2.0 + (k % 7) for k in range(60)]
    made = [hl.Release(k, 3.0 / s, sensitivity=3.0, scale=s, noise="gaussian") for k, s in enumerate(scales, 1)]
    found = {x.span: x for x in find_plain_losses(policy, losses_of(*made))}
    squares = [(3.0 / s) ** 2 for s in scales]
    for span, total in (
        ("any day", max(sum(squares[k : k + 24]) for k in range(37))),
        ("all of it (classically)", sum(squares)),
    ):
        mu = math.sqrt(total)

        def excess(e, mu=mu):
            return norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - 1e-6

        assert found[span].loss == pytest.approx(brentq(excess, 0, 200), rel=1e-6)
        assert found[span].delta == 1e-6


def test_spans_shorter_than_a_step_are_left_out(tmp_path):
    clock = {"step": "7 days", "start": "2026-01-01", "end": "2026-12-31"}
    policy = hl.Policy.from_dict(policy_dict(clock=clock), tmp_path)
    found = find_plain_losses(policy, losses_of(*(hl.Release(k, 0.5) for k in range(1, 60))))
    assert [x.span for x in found] == ["any week", "any year", "all of it (classically)"]
    assert [x.loss for x in found] == pytest.approx([0.5, 0.5 * 53, 0.5 * 59], rel=1e-6)


@pytest.mark.parametrize(
    "other",
    [
        hl.Release(2, math.inf, scale=0.0),
        hl.Release(2, 0.5, scale=2.0, draw="phase 1"),
        hl.Release(2, 0.5, scale=2.0, noise="gaussian"),
    ],
    ids=["exact", "used again", "of another family"],
)
def test_nothing_is_said_where_losses_do_not_add_up(tmp_path, other):
    policy = hl.Policy.from_dict(policy_dict(), tmp_path)
    assert find_plain_losses(policy, losses_of(hl.Release(1, 0.5)))
    assert find_plain_losses(policy, losses_of(hl.Release(1, 0.5), other)) == ()
