"""What users rely on: the public names, and that a policy may be given as itself, as a path or as plain data."""

from __future__ import annotations

import typing

import pytest

import halflife as hl
from publisher.town import make, policy_dict, write_readings


def test_dir_shows_every_public_name_and_nothing_else():
    shown = {name for name in dir(hl) if not name.startswith("_")}
    assert shown == set(hl.__all__)
    assert {
        "Policy",
        "PolicyError",
        "Stream",
        "Summary",
        "Verdict",
        "NoSchedule",
        "Seasonal",
        "check",
        "publish",
        "verify",
    } <= shown
    assert not {"Any", "import_module", "TYPE_CHECKING", "Population"} & shown
    assert all(getattr(hl, name) is not None for name in shown)
    with pytest.raises(AttributeError, match="no attribute 'Publish'"):
        hl.Publish  # noqa: B018


def test_a_policy_is_taken_as_itself_as_a_path_and_as_plain_data(tmp_path, monkeypatch):
    write_readings(tmp_path)
    policy = make(tmp_path)
    path = tmp_path / "policy.yaml"
    monkeypatch.chdir(tmp_path)
    assert hl.publish(path).published == {"mean": 24}
    again = policy_dict()
    for given in (policy, path, str(path), again):
        assert hl.publish(given).published == {"mean": 0}
        assert hl.check(given).streams[0].found.rows == 120
        verdict = hl.verify(given)
        assert verdict.good
        assert verdict.steps["mean"] == 24
        with hl.Stream(given) as stream:
            assert stream.publish(0.5, at=1).step == 1
    for call in (hl.check, hl.publish, hl.verify, hl.Stream):
        with pytest.raises(hl.InvalidInput, match="the path of its file or a dict, not as 3"):
            call(3)


def test_verify_compares_the_outputs_that_a_policy_names(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy)
    output = policy.path(policy.streams[0].output)
    output.write_text(output.read_text().replace(",", ", ", 1))
    assert not hl.verify(policy).good
    assert hl.verify(policy.ledger_url).good  # the ledger alone


@pytest.mark.parametrize(
    "notion", [hl.Classical, hl.WEvent, hl.AgeDependent, hl.GaussianDiscount, hl.Swellfish, hl.AlmostPeriodic]
)
def test_a_notion_s_plan_is_typed_as_one(notion):
    returned = typing.get_type_hints(notion.plan)["return"]
    assert issubclass(returned, hl.Plan)
    assert isinstance(notion.examples()[0].plan(), returned)


def test_only_plans_that_reuse_noise_have_a_pattern():
    assert hl.AlmostPeriodic(1.0, 48).plan().pattern_scale(1) == pytest.approx(48)
    with pytest.raises(hl.InvalidInput, match="w-event reuses no noise"):
        hl.WEvent(1.0, 48).plan().pattern_scale(1)


def test_verify_takes_one_policy_however_it_is_given(tmp_path, monkeypatch):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy)
    monkeypatch.chdir(tmp_path)
    for given in (policy, "policy.yaml", policy_dict()):
        assert hl.verify(policy.ledger_url, policy=given).good
        with pytest.raises(hl.InvalidInput, match="verify takes one policy"):
            hl.verify(policy, policy=given)
    other = policy_dict(epsilon=2.0)
    assert "epsilon of the promise was 1.0 and is now 2.0" in str(hl.verify(policy.ledger_url, policy=other).problems)
