"""Promises that promise next to nothing: a very large ε, with a δ. They publish, or are refused before anything is drawn."""

from __future__ import annotations

import json

import pytest

import halflife as hl
from halflife.policy import PolicyError
from publisher.town import policy_dict, write_readings

PROMISES = [
    {"notion": "w-event", "w": "1 h"},
    {"notion": "w-event", "w": "2 h", "noise": "laplace"},
    {"notion": "classical", "noise": "laplace"},
    {"notion": "classical"},
    {"notion": "age-dependent", "process": {"name": "geometric", "c": 1, "rho": 0.001}, "noise": "laplace", "cap": 1e5},
]


@pytest.mark.diagonal
@pytest.mark.parametrize("promise", PROMISES, ids=lambda p: " ".join(map(str, p.values()))[:30])
@pytest.mark.parametrize(("epsilon", "delta"), [(745.0, 1e-6), (1e6, 1e-6), (1e6, 0.999999)])
def test_a_very_large_epsilon_with_a_delta_is_published_and_verified(tmp_path, promise, epsilon, delta):
    """ε = 10⁶ with δ = 10⁻⁶ and one release a window raised OverflowError once the first step was committed."""
    write_readings(tmp_path)
    data = {**policy_dict(), "promise": {**promise, "epsilon": epsilon, "delta": delta}}
    (tmp_path / "policy.yaml").write_text(json.dumps(data))
    policy = hl.Policy.load(tmp_path / "policy.yaml")
    summary = hl.publish(policy)
    assert summary.published == {"mean": 24}
    assert 0 < summary.risk <= epsilon * (1 + 1e-12)
    assert hl.verify(policy.ledger_url, policy=policy).good


@pytest.mark.parametrize("delta", [1e-300, 1e-11, 1.0, -0.1])
def test_a_delta_that_cannot_be_certified_is_refused_beforehand(tmp_path, delta):
    data = {**policy_dict(), "promise": {"notion": "classical", "epsilon": 1e6, "delta": delta}}
    with pytest.raises(PolicyError, match=r"promise.delta"):
        hl.Policy.from_dict(data)
