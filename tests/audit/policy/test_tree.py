"""The audit of running totals: an honest stream is not accused; nodes that move too far, and losses above the promise, are."""

from __future__ import annotations

import pytest

from halflife.audit.policy.audit import audit_policy
from halflife.audit.policy.generic import try_policy
from halflife.mechanisms.binary_tree import BinaryTree
from halflife.policy import Policy
from publisher.town import policy_dict


def audited(folder, **clock):
    data = policy_dict(epsilon=3.0, stream={"mechanism": "binary-tree"})
    data["clock"] |= clock
    return Policy.from_dict(data, folder)


def test_nothing_honest_is_accused(tmp_path):
    verdict = audit_policy(audited(tmp_path), seconds=4.0, runs=200)
    assert verdict.good, [f for f in verdict.findings if f.accused]
    tried = {f.how for f in verdict.findings}
    assert {"sensitivity", "exact", "silence", "post-processing", "black box"} <= tried
    assert "noise size" not in tried, "totals are sums of several noises"
    nodes = [f for f in verdict.findings if "nodes" in f.name]
    assert max(f.found for f in nodes) == 5000 == nodes[0].claimed, (
        "a node moves by Δ for each of its steps, and no more"
    )
    (spent,) = [f for f in verdict.findings if f.how == "exact"]
    assert spent.found == pytest.approx(spent.claimed, rel=1e-9)


def test_noise_that_is_a_tenth_too_small_is_accused(tmp_path, monkeypatch):
    scale = BinaryTree.scale
    monkeypatch.setattr(BinaryTree, "scale", lambda tree, step: scale(tree, step) / 1.1)
    monkeypatch.setattr(
        "halflife.accountant.Accountant.admit", lambda self, *releases: [self.record(r) for r in releases]
    )
    findings = try_policy(audited(tmp_path)).findings
    assert [f.name for f in findings if f.accused] == ["the plan's first steps"]


def test_nodes_that_are_added_up_wrongly_are_accused(tmp_path, monkeypatch):
    monkeypatch.setattr("halflife.publisher.nodes._hold", lambda total: 2 * total)
    findings = try_policy(audited(tmp_path)).findings
    assert any(f.accused and "nodes of" in f.name for f in findings)
