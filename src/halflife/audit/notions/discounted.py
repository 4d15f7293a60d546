"""Discounted privacy audited: the loss of a history again, and Corollary 16 where its proof fails (erratum D1)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from halflife.audit.registry import Faults, History, NotionAudit, register_audit
from halflife.notions import GaussianDiscount, HyperbolicDiscount
from halflife.notions.discounted import Discounted
from halflife.notions.gaussian_dp import gaussian_epsilon
from halflife.plans.discounted.plan import paper_constant
from halflife.release import Release


def largest_sum(notion: Discounted, releases: Sequence[Release]) -> float:
    """Return the largest Σ_{S_k ≤ t} d(t − S_k) ρ_k over steps t. It can only be largest at a release, as d falls."""
    return _largest(notion, releases, power=1)


def largest_gaussian_sum(notion: GaussianDiscount, releases: Sequence[Release]) -> float:
    """Return ε(δ) of the largest μ² = Σ_{S_k ≤ t} (d(t − S_k) μ_k)² over steps t; it is largest at a release."""
    return gaussian_epsilon(math.sqrt(_largest(notion, releases, power=2)), notion.delta)


def _largest(notion: Discounted, releases: Sequence[Release], power: int) -> float:
    """The largest Σ (d(t − S_k) x_k)^power over t: every term of every sum, nothing carried over from step to step."""
    steps = np.array([r.step for r in releases], dtype=np.float64)
    losses = np.array([r.loss for r in releases])
    worst = 0.0
    for t in np.unique(steps):
        gaps = t - steps[steps <= t]
        discount = notion.alpha**gaps if notion.alpha is not None else 1 / (1 + notion.beta * gaps)
        worst = max(worst, float(((discount * losses[steps <= t]) ** power).sum()))
    return worst


def corollary_16_at_beta_10() -> History:
    """Return releases with the paper's noise where its proof fails (erratum D1): 2.075 times what is promised."""
    stated = paper_constant(10.0)
    return (
        HyperbolicDiscount(1.0, beta=10.0),
        [Release(k, 1 / (stated * math.sqrt(k))) for k in range(1, 2_001)],
        1.0,
    )


def plant_faults() -> Faults:
    """Return the planted faults of discounted accounts."""
    return Faults(histories={"Corollary 16 at beta = 10": corollary_16_at_beta_10()})


register_audit("exponential", audit=NotionAudit(worst_loss=largest_sum))
register_audit("hyperbolic", audit=NotionAudit(worst_loss=largest_sum, faults=plant_faults))
register_audit("gaussian-discount", audit=NotionAudit(worst_loss=largest_gaussian_sum))
