"""Post-processing in a policy: how it is written, what is refused, and that publishing does what was written."""

from __future__ import annotations

import datetime
import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest

import halflife as hl
from halflife.ledger import open_ledger
from halflife.policy import Policy, channels
from halflife.postprocessing import Facts, Kalman, MovingAverage
from policy.towns import change, write_tables
from publisher.town import make, policy_dict, read_csv, write_readings


@pytest.fixture
def folder(tmp_path):
    return write_tables(tmp_path)


def second(step, folder):
    """The policy's second step of post-processing, written so, worked out."""
    return channels(Policy.parse(change("moving_average: 4", step), folder))[0].smoothers()[1]


# How it is written ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["0.3", "0.3 kWh", "300 Wh", "0.0003 MWh"])
def test_a_drift_and_a_threshold_are_quantities(folder, text):
    drift = second(f"kalman: {text}", folder)
    assert isinstance(drift, Kalman)
    assert (drift.drift, drift.independent) == (0.3, False)
    average = second(f"{{moving_average: 96, above: {text}}}", folder)
    assert isinstance(average, MovingAverage)
    assert (average.width, average.above, average.independent) == (96, 0.3, False)


def test_the_first_step_meets_independent_noise(folder):
    for step in ("kalman: 0.3", "{moving_average: 3, above: 0}"):
        (c,) = channels(Policy.parse(change("truncate: [0, 20]", step), folder))
        assert c.smoothers()[0].independent is True


def test_the_steps_of_the_page_can_be_written(folder):
    page = (Path(__file__).resolve().parents[2] / "docs" / "smoothing.md").read_text()
    blocks = re.findall(r"```yaml\n(    post:\n.*?)```", page, re.S)
    assert len(blocks) == 4
    old = "    post:\n      - truncate: [0, 20]\n      - moving_average: 4\n"
    made = [channels(Policy.parse(change(old, block), folder))[0].smoothers() for block in blocks]
    names = [["moving_average", "truncate"], ["kalman"], ["seasonal", "truncate"], ["seasonal"]]
    assert [[s.name for s in smoothers] for smoothers in made] == names


ONE = "one step is one of truncate, moving_average, kalman and seasonal: write a list of such steps"
BAD = {
    "kalman: 0": "kalman needs how far the value drifts in one step (a standard deviation above 0), not 0.0",
    "kalman: -2 kWh": "kalman needs how far the value drifts in one step (a standard deviation above 0), not -2.0",
    "kalman: 5 kW": "'5 kW' is not in kWh: give a number of kWh, or of the same unit with another prefix (mWh, MWh)",
    "kalman: much": "a quantity must be a number with a unit, such as '5 kWh', not 'much'",
    "kalman: nan": "a quantity must be a number with a unit, such as '5 kWh', not 'nan'",
    "{moving_average: 4, above: -1}": "above needs a noise scale from 0 on, not -1.0",
    "{moving_average: 4, above: 1 V}": "'1 V' is not in kWh: give a number of kWh, or of the same unit with another "
    "prefix (mWh, MWh)",
    "above: 1": "one step is one of truncate, moving_average, kalman and seasonal: write a list of such steps",
    "{kalman: 1, above: 1}": "`above` says when a moving_average is taken: write it beside one, or leave it out",
    "{truncate: [0, 1], above: 1}": "`above` says when a moving_average is taken: write it beside one, or leave it out",
    "{kalman: 1, moving_average: 4}": ONE,
    "{kalman: 1, truncate: [0, 1]}": ONE,
}


@pytest.mark.parametrize("step", BAD)
def test_what_cannot_be_meant_is_refused_with_its_line(folder, step):
    with pytest.raises(hl.InvalidInput) as error:
        second(step, folder)
    assert str(error.value) == f"policy.yaml:37:9: streams.0.post.1: {BAD[step]}"


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("kalman: [1]", "37:9: streams.0.post.1.kalman: must be text, not \"['1']\""),
        ("kalman: {drift: 1}", "37:9: streams.0.post.1.kalman: must be text, not \"{'drift': '1'}\""),
        ("kalman:", "37:9: streams.0.post.1.kalman: is blank: A running estimate of a value that drifts"),
        ("kalmann: 1", "37:9: streams.0.post.1.kalmann: unknown key 'kalmann': did you mean 'kalman'? Known: above, kalman,"),
        ("{moving_average: 4, over: 1}", "streams.0.post.1.over: unknown key 'over'"),
        ("seasonal: guessed", "37:9: streams.0.post.1.seasonal: unknown value 'guessed': Known: fitted"),
        ("seasonal: [1]", "37:9: streams.0.post.1.seasonal: unknown value ['1']: Known: fitted"),
        ("seasonal: {level: 1}", "37:9: streams.0.post.1.seasonal.amplitude: missing: How far the series swings"),
        ("seasonal: {amplitude: 1 kWh, lvel: 1}", "streams.0.post.1.seasonal.lvel: unknown key 'lvel': did you mean 'level'?"),
        ("seasonal: {amplitude: 1 kWh, day: -1}", "streams.0.post.1.seasonal.day: must be above 0, not -1"),
    ],
)  # fmt: skip
def test_what_is_no_such_key_or_value_is_refused(folder, step, said):
    with pytest.raises(hl.InvalidInput) as error:
        second(step, folder)
    assert said in str(error.value)


def test_a_histogram_counts_people_whatever_its_edges_are_in():
    data = policy_dict()
    data["streams"][0]["statistic"] = {
        "kind": "histogram", "unit": "kWh", "resolution": "1 Wh", "edges": ["0", "1", "2"], "fold": "sum",
    }  # fmt: skip
    data["streams"][0]["post"] = [{"kalman": "3 people"}]
    assert channels(Policy.from_dict(data))[0].smoothers()[0].drift == 3.0
    data["streams"][0]["post"] = [{"kalman": "3 kWh"}]
    with pytest.raises(hl.InvalidInput, match="'3 kWh' is not in people"):
        Policy.from_dict(data)


def test_a_ledger_remembers_what_was_declared():
    def post(*steps):
        policy = Policy.from_dict(policy_dict(stream={"post": list(steps)}))
        return [smoother.to_facts() for smoother in channels(policy)[0].smoothers()]

    assert post({"moving_average": 4}) == [{"name": "moving_average", "width": 4}]
    assert post({"moving_average": 4, "above": "500 Wh"}) == [{"name": "moving_average", "above": 0.5, "width": 4}]
    assert post({"kalman": "300 Wh"}) == [{"name": "kalman", "drift": 0.3}]
    chain = post({"truncate": ["0", "1"]}, {"kalman": "300 Wh"})
    assert chain == [
        {"name": "truncate", "low": 0.0, "high": 1.0},
        {"name": "kalman", "drift": 0.3, "independent": False},
    ]


# What is published ---------------------------------------------------------------------------------------------------


def at(hour, minute=0):
    moment = datetime.datetime(2026, 1, 1, hour, minute, tzinfo=datetime.UTC)
    return moment.timestamp


def published(policy):
    """Values and error bands (steps × cells) as readers see them, and the ledger's entries."""
    rows = read_csv(policy.path("mean.csv"))
    with open_ledger(policy.ledger_url, read_only=True) as book:
        entries = list(book.entries())
    shape = (len(entries), -1)
    return *(np.array([float(row[c]) for row in rows]).reshape(shape) for c in ("value", "error_band")), entries


POSTS = {
    "average above": [{"moving_average": 5, "above": "100 Wh"}],
    "average above all": [{"moving_average": 5, "above": "100 MWh"}],
    "kalman": [{"kalman": "200 Wh"}],
    "all": [{"kalman": "200 Wh"}, {"moving_average": 3, "above": "1 Wh"}, {"truncate": ["0", "5 kWh"]}],
}


@pytest.mark.parametrize("post", POSTS.values(), ids=POSTS)
def test_many_runs_publish_what_one_would(tmp_path, post):
    write_readings(tmp_path)
    policy = make(tmp_path, stream={"post": post})
    for hour in (2, 3, 9, 23):
        hl.publish(policy, clock=at(hour))
    hl.publish(policy)
    values, bands, entries = published(policy)
    (c,) = channels(policy)
    want, scales = np.array([e.noisy for e in entries]) / 5000, np.array([e.releases[0].scale for e in entries])
    for smoother in c.smoothers():
        want, scales = smoother.smooth(want, scales, Facts(np.arange(1, 25), np.array([1 / 5000])))
    assert values.tobytes() == want.tobytes()
    assert bands[:, 0] == pytest.approx(scales / 5000 * math.log(20))
    assert hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}).problems == ()


def by_hand(y, r, drift, steps):
    """A Kalman filter in the unit of the output, as a textbook has it: estimates and standard deviations."""
    x, p2, made, before = y[0], r[0] ** 2, [(y[0], r[0])], steps[0]
    for value, std, step in zip(y[1:], r[1:], steps[1:], strict=True):
        p2 += drift**2 * (step - before)
        gain = p2 / (p2 + std**2)
        x, p2, before = x + gain * (value - x), (1 - gain) * p2, step
        made.append((x, math.sqrt(p2)))
    return np.array(made).T


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_each_group_is_filtered_by_its_own_noise(tmp_path, noise):
    """One home in one group and four in the other: the noise of their means is 1 to 1/4. A drift of 2 kWh."""
    write_readings(tmp_path)
    (tmp_path / "homes.csv").write_text("home,zone\nh0,a\nh1,b\nh2,b\nh3,b\nh4,b\n")
    groups = {"table": {"file": "homes.csv", "person": "home", "group": "zone"}}
    promise = {"noise": noise} | ({"delta": 1e-6} if noise == "gaussian" else {})
    policy = make(tmp_path, stream={"groups": groups, "post": [{"kalman": "2"}]}, promise=promise)
    hl.publish(policy)
    values, bands, entries = published(policy)
    std, unit = (math.sqrt(2), math.log(20)) if noise == "laplace" else (1.0, 1.959964)
    assert {r.noise for e in entries for r in e.releases} == {noise}
    scales = np.array([e.releases[0].scale for e in entries])
    left = []
    for cell, worth in enumerate((1 / 1000, 1 / 4000)):
        y = np.array([e.noisy[cell] for e in entries]) * worth
        x, p = by_hand(y, scales * worth * std, 2.0, range(24))
        assert values[:, cell] == pytest.approx(x, rel=1e-9, abs=1e-9)
        assert (bands[:, cell] >= unit * p / std * (1 - 1e-6)).all()
        left.append(p / worth / std)
    assert left[0][-1] < 0.9 * left[1][-1]  # the small group gains more: its noise is larger, beside the same drift
    assert np.array([e.spread for e in entries]) == pytest.approx(np.maximum(*left))
    assert bands == pytest.approx(np.maximum(*left)[:, None] * unit * np.array([1 / 1000, 1 / 4000]), rel=1e-6)


def test_steps_that_were_passed_over_count_as_drift(tmp_path):
    write_readings(tmp_path)
    data = policy_dict(stream={"post": [{"kalman": "500 Wh"}]})
    data["promise"] = {"notion": "exponential", "epsilon": 1.0, "half_life": "6 h"}
    policy = hl.Policy.from_dict(data, tmp_path)
    for hour in (*range(1, 13), 20, 21):
        hl.publish(policy, clock=at(hour, 5))
    values, bands, entries = published(policy)
    steps = [e.step for e in entries]
    assert max(b - a for a, b in itertools.pairwise(steps)) > 1
    y, scales = np.array([e.noisy[0] for e in entries]) / 5000, np.array([e.releases[0].scale for e in entries]) / 5000
    x, p = by_hand(y, scales * math.sqrt(2), 0.5, steps)
    assert values[:, 0] == pytest.approx(x, rel=1e-9, abs=1e-9)
    assert bands[:, 0] == pytest.approx(p / math.sqrt(2) * math.log(20), rel=1e-9)
