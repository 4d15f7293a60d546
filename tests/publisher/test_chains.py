"""Post-processing that is changed, changed again or taken back before a stream's next step: the ledger goes on and verifies."""

from __future__ import annotations

import copy
import datetime

import pytest

import halflife as hl
from publisher.town import policy_dict, write_readings
from thinning import keep

AVERAGE, LONGER, FILTER = [{"moving_average": 2}], [{"moving_average": 3}], [{"kalman": "0.3 kWh"}]


def hour(h):
    return datetime.datetime(2026, 1, 1, h, tzinfo=datetime.UTC).timestamp


def two_streams(**second):
    data = policy_dict()
    data["streams"].append({**copy.deepcopy(data["streams"][0]), "name": "other", "output": "other.csv", **second})
    return data


@pytest.mark.parametrize(
    "changes", keep([[LONGER, AVERAGE], [LONGER, FILTER], [[], LONGER, [], AVERAGE]], lambda changes: len(changes) > 2)
)
def test_a_chain_is_changed_several_times_before_it_is_used(tmp_path, changes):
    write_readings(tmp_path)
    data = two_streams(step="6 h", post=AVERAGE)
    hl.publish(hl.Policy.from_dict(data, tmp_path), clock=hour(7))
    for k, post in enumerate(changes):
        data["streams"][1]["post"] = post
        policy = hl.Policy.from_dict(data, tmp_path)
        hl.publish(policy, clock=hour(8 + k))
        assert hl.verify(policy).problems == ()
    summary = hl.publish(hl.Policy.from_dict(data, tmp_path), clock=hour(19))
    assert summary.published["other"] == 2
    assert hl.verify(hl.Policy.from_dict(data, tmp_path)).problems == ()


def test_so_it_is_where_one_stream_is_pushed_alone(tmp_path):
    data = two_streams()
    for h, post in ((3, []), (4, AVERAGE), (5, FILTER), (6, FILTER), (7, [])):
        data["streams"][1]["post"] = post
        policy = hl.Policy.from_dict(data, tmp_path)
        with hl.Stream(policy, "mean", clock=hour(h)) as stream:
            assert stream.publish(1.0).step == h
    assert hl.verify(policy).problems == ()
