"""The audit of post-processing: honest chains follow from noisy values alone, and whatever reads exact totals is accused."""

import numpy as np
import pytest

import halflife as hl
from halflife.audit.policy.audit import audit_policy
from halflife.audit.policy.postprocessing import A_FEW, audit_post, count_steps, make_totals
from halflife.audit.post_faults import FitsTheTruth, ReadsTheTruth, plant_post_faults, small_policy
from halflife.policy import channels
from halflife.postprocessing import Kalman
from halflife.publisher.session import Session
from publisher.town import policy_dict

BOUNDS = {"truncate": ["10 kWh", "40 kWh"]}
CHAINS = {
    "truncate": [BOUNDS],
    "moving_average": [{"moving_average": 4}, BOUNDS],
    "kalman": [{"kalman": "0.1 kWh"}],
    "kalman fitted": [{"kalman": "fitted"}, BOUNDS],
    "seasonal fitted": [{"seasonal": "fitted"}],
}


def daily(folder, post, **changes):
    """A policy of days, whose first fit is made after 32 of them."""
    data = policy_dict(stream={"post": post, "source": None}, **changes)
    data["clock"] = {"step": "1 day", "start": "2026-01-01"}
    return hl.Policy.from_dict(data, folder)


@pytest.mark.parametrize("chain", CHAINS)
def test_no_honest_chain_is_accused(tmp_path, chain):
    policy = daily(tmp_path, CHAINS[chain])
    (found,) = audit_post(policy)
    assert not found.accused, found
    assert found.detail.endswith("the same for other exact totals")
    assert count_steps(channels(policy)[0]) == A_FEW + (32 if "fitted" in chain else 0)


@pytest.mark.parametrize(
    "promise",
    [
        {"notion": "almost-periodic", "epsilon": 1.0, "period": "7 days", "strong": True},
        {"notion": "gaussian-discount", "epsilon": 1.0, "delta": 1e-6, "beta": 0.1},
    ],
    ids=lambda p: p["notion"],
)
def test_reused_and_gaussian_noise(tmp_path, promise):
    data = daily(tmp_path, CHAINS["seasonal fitted"]).model_dump(mode="json") | {"promise": promise}
    (found,) = audit_post(hl.Policy.from_dict(data, tmp_path))
    assert not found.accused, found


def test_quantiles_follow_from_noisy_counts(tmp_path):
    policy = daily(tmp_path, [])
    data = policy.model_dump(mode="json", exclude_none=True)
    grid = {"low": 0, "high": 8, "bins": 8}
    data["streams"][0]["statistic"] = {
        "kind": "quantile", "quantiles": [0.5], "grid": grid, "unit": "kWh", "resolution": "1 Wh", "fold": "sum",
    }  # fmt: skip
    (found,) = audit_post(hl.Policy.from_dict(data, tmp_path))
    assert not found.accused, found


def test_streams_without_post_processing_are_left_out(tmp_path):
    assert not list(audit_post(daily(tmp_path, [])))


# Faults ---------------------------------------------------------------------------------------------------------------


def test_planted_faults_are_accused_and_the_honest_publisher_is_not():
    found = {f.name: f.accused for f in plant_post_faults().rules}
    assert found == {
        "a smoother that reads the exact values": True,
        "a drift that is fitted on exact values": True,
        "honest post-processing": False,
    }


def test_a_build_that_hands_exact_values_to_a_smoother_is_accused_by_the_audit_of_a_policy(monkeypatch):
    monkeypatch.setattr(Session, "publish", leaking_publish(Session.publish))
    verdict = audit_policy(small_policy(), seconds=600.0, runs=4)
    assert {f.how for f in verdict.findings if f.accused} == {"post-processing"}


def leaking_publish(publish):
    """A patched `Session.publish`, as a faulty build would have it."""

    def leak(self, parts, charged=None):
        for due, totals in parts:
            if self.saved.smoothers[due.channel.name]:
                self.saved.smoothers[due.channel.name] = [ReadsTheTruth.leak(self, totals.astype(float))]
        return publish(self, parts, charged)

    return leak


def test_a_leak_that_the_replay_shares_shows_in_other_exact_totals(tmp_path, monkeypatch):
    """The filter itself looks at the newest exact totals, wherever it runs: what is worked out again agrees."""
    seen = {}
    publish, smooth = Session.publish, Kalman.smooth

    def note(self, parts, charged=None):
        seen["exact"] = parts[0][1].astype(float)
        return publish(self, parts, charged)

    def peek(self, values, scales, facts):
        values, scales = smooth(self, values, scales, facts)
        return values + 1e-9 * seen["first" if "first" in seen else "exact"], scales

    monkeypatch.setattr(Session, "publish", note)
    monkeypatch.setattr(Kalman, "smooth", peek)
    (found,) = audit_post(small_policy())
    assert found.accused
    seen["first"] = np.ones((1, 1))  # the same for both: no reading decides it
    (found,) = audit_post(small_policy())
    assert not found.accused


def test_a_leak_that_is_the_same_for_both_shows_when_values_are_worked_out_again(monkeypatch):
    """The first step's totals are the same in both populations; a fault that reads no other is still one."""

    class ReadsTheFirst(ReadsTheTruth):
        def leak(self, exact):
            return super().leak(exact[:1] + 7.0)

    (found,) = audit_post(small_policy(), ReadsTheFirst)
    assert found.accused
    assert found.found == A_FEW


def test_a_fitted_parameter_alone_is_enough():
    (found,) = audit_post(small_policy(), FitsTheTruth)
    assert found.accused


def test_exact_totals_lie_within_the_bounds_and_one_person_apart(tmp_path):
    """Five homes of at most 5 kWh: one of them moves a total by 5,000 Wh. The middle of 10 and 40 kWh a home is 125,000 Wh."""
    (channel,) = channels(daily(tmp_path, [BOUNDS]))
    first, second = (make_totals(channel, which) for which in (0, 1))
    assert (first == 125_000).all()
    assert (second - first).ravel().tolist() == [0, 5000] * (A_FEW // 2)
