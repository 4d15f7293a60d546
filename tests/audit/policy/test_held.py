"""The audit of streams that repeat outputs: honest ones are not accused, and one whose question is free is."""

from __future__ import annotations

import pytest

from halflife.audit.policy.audit import audit_policy
from halflife.audit.policy.generic import try_policy
from halflife.mechanisms import BudgetDistribution
from halflife.policy import Policy
from publisher.town import policy_dict


def audited(folder, mechanism, epsilon=3.0, **promise):
    data = policy_dict(epsilon=epsilon, stream={"mechanism": mechanism})
    data["promise"] |= promise
    return Policy.from_dict(data, folder)


@pytest.mark.parametrize("mechanism", ["sample", "bd", "ba", "fast", "uniform"])
def test_nothing_honest_is_accused(tmp_path, mechanism):
    verdict = audit_policy(audited(tmp_path, mechanism), seconds=4.0, runs=200)
    assert verdict.good, [f for f in verdict.findings if f.accused]
    tried = {f.how for f in verdict.findings}
    assert {"sensitivity", "exact", "silence", "black box"} <= tried
    assert ("noise size" in tried) is (mechanism == "uniform"), "repeated outputs are no values with noise of one scale"
    assert next(f.claimed for f in verdict.findings if f.how == "black box") == pytest.approx(3.0), "a window apart"
    (spent,) = [f for f in verdict.findings if f.how == "exact"]
    assert 0.4 * spent.claimed < spent.found <= spent.claimed * (1 + 1e-9)


def test_losses_above_the_promise_are_accused(tmp_path, monkeypatch):
    """An account that looks away: a tenth more than the rule gives is found in what was charged."""
    decide = BudgetDistribution.decide
    monkeypatch.setattr(BudgetDistribution, "decide", lambda *given: 2 * decide(*given))
    monkeypatch.setattr("halflife.accountant.Accountant.admit", lambda self, *releases: self.record(*releases))
    findings = try_policy(audited(tmp_path, "bd")).findings
    assert [f.name for f in findings if f.accused] == ["what was spent on values that jump"]


@pytest.mark.soak
@pytest.mark.parametrize("mechanism", ["bd", "ba"])
def test_nothing_honest_is_accused_in_many_runs(tmp_path, mechanism):
    assert audit_policy(audited(tmp_path, mechanism, w=2), seconds=80.0, runs=20_000).good
