"""Almost-periodic promises: what is refused tells a habit, computed through the engine; what is accepted does not."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import AlmostPeriodic
from halflife.audit.policy.path import totals_of
from halflife.policy import Policy, PolicyError, channels

HOUR = 3_600_000_000
WEAK = {
    "notion": "almost-periodic", "epsilon": 1, "period": 1,
    "variations": "public", "readings": "complete", "rounding": "none",
}  # fmt: skip
STRONG = {"notion": "almost-periodic", "epsilon": 1, "period": 1, "strong": True}
SUM = {"kind": "sum", "unit": "kWh", "resolution": "0.1", "clip": ["0", "1"], "fold": "sum"}
HISTOGRAM = {"kind": "histogram", "unit": "kWh", "resolution": "0.1", "edges": ["0", "1", "2"], "fold": "sum"}
COARSE = SUM | {"resolution": "1", "clip": ["0", "9"]}
FREE = SUM | {"clip": ["-200", "200"]}
TWO_GROUPS = {"names": ["n", "s"], "most_per_person": 1}


def policy(promise, statistic, periods, **stream):
    """A period of one hour."""
    source = {"files": "r.csv", "time": "ts", "value": "kwh"} | ({"group": "where"} if "groups" in stream else {})
    return Policy.from_dict({
        "population": {"id": "town", "size": 3, "person": "who"},
        "promise": promise,
        "clock": {"step": "1 h", "start": "1970-01-01", "end": f"1970-01-{1 + periods // 24:02d}T{periods % 24:02d}:00"},
        "streams": [{"name": "s", "source": source, "statistic": statistic, "output": "-", **stream}],
    })  # fmt: skip


def told(statistic, z, other, variations, **stream):
    """How far apart the exact totals of two habits are in each period: each variation is a list of that hour's readings."""
    (channel,) = channels(policy({"notion": "w-event", "epsilon": 1, "w": 1}, statistic, len(variations), **stream))
    rows = [
        [
            ("a", k * HOUR + n, None if w is None else habit + w, "ns"[k % 2])
            for k, readings in enumerate(variations)
            for n, w in enumerate(readings)
        ]
        for habit in (z, other)
    ]
    first, second = (totals_of(channel, r, 1, len(variations)) for r in rows)
    return first - second


WITNESSES = {
    "a clip that binds": (SUM, 0.9, 0.5, [[0], [0.3]], {}),
    "one of two readings that is clipped": (
        FREE | {"clip_readings": ["0.2", "1"]},
        0.2,
        0.1,
        [[0, 0.3], [0.1, 0.3]],
        {},
    ),
    "a sum of two readings that is clipped": (SUM, 0.3, 0.2, [[0, 0.2], [0.1, 0.7]], {}),
    "a reading that is missing": (FREE, 0.9, 0.5, [[0], []], {}),
    "a reading that is rounded": (COARSE, 3.0, 3.4, [[0], [0.2]], {}),
    "a histogram": (HISTOGRAM, 0.9, 0.5, [[0], [0.3]], {}),
    "groups from a column": (FREE, 0.9, 0.5, [[0], [0]], {"groups": TWO_GROUPS}),
}
"""Statistics, two habits and what was added to them in two periods, whose differences are not the same."""


@pytest.mark.parametrize("name", WITNESSES)
def test_what_is_not_linear_tells_two_habits_apart_by_the_difference_of_two_periods(name):
    statistic, z, other, variations, stream = WITNESSES[name]
    moved = told(statistic, z, other, variations, **stream)
    assert (moved[0] != moved[1]).any()


def test_a_count_tells_the_habit_of_who_was_away_once():
    """Somebody who always comes was away in the second period; somebody who never comes was away both times."""
    (channel,) = channels(policy({"notion": "w-event", "epsilon": 1, "w": 1}, {"kind": "count"}, 2))
    assert totals_of(channel, [("a", 0, 1.0, "")], 1, 2).ravel().tolist() == [1, 0]
    assert totals_of(channel, [], 1, 2).ravel().tolist() == [0, 0]


def test_a_mean_within_a_step_is_rounded():
    """A habit of the first of two readings shows by what the second one adds: ⌊(1 + 2)/2⌋ and the like."""
    (channel,) = channels(policy({"notion": "w-event", "epsilon": 1, "w": 1}, FREE | {"fold": "mean"}, 1))

    def mean(*readings):
        return totals_of(channel, [("a", n, x, "") for n, x in enumerate(readings)], 1, 1).item()

    assert mean(0.2, 0.1) - mean(0.1, 0.1) != mean(0.2, 0.2) - mean(0.1, 0.2)


REFUSED = {
    "histogram": (HISTOGRAM, {}, "statistic.kind: a histogram is not linear"),
    "count": ({"kind": "count"}, {}, "statistic.kind: a count is not linear"),
    "column": (FREE, {"groups": TWO_GROUPS}, "groups: people who change their group"),
    **{
        fold: (FREE | {"fold": fold}, {}, "statistic.fold: only a sum of a step's readings is linear")
        for fold in ("mean", "first", "last", "min", "max")
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_weak_refuses_what_is_not_linear(name):
    statistic, stream, words = REFUSED[name]
    with pytest.raises(PolicyError, match=f"streams.0.{words}"):
        policy(WEAK, statistic, 2, **stream)


@pytest.mark.parametrize("missing", ["variations", "readings", "rounding"])
def test_weak_must_declare_what_makes_it_linear(missing):
    policy(WEAK, SUM, 2)
    with pytest.raises(PolicyError, match=f"promise.{missing}: missing: "):
        policy({k: v for k, v in WEAK.items() if k != missing}, SUM, 2)
    with pytest.raises(PolicyError, match=f"promise.{missing}: is said of weak almost-periodic promises"):
        policy({**STRONG, missing: WEAK[missing]}, SUM, 2)


def test_weak_refuses_times_of_which_an_hour_comes_twice():
    """25 October 2026 in London: readings stamped 01:30 without an offset all fall into one of two hours."""
    data = policy(WEAK, SUM, 2).model_dump(mode="json", exclude_none=True)
    data["streams"][0]["source"]["zone"] = "Europe/London"
    with pytest.raises(PolicyError, match=r"streams.0.source.zone: when the clocks of Europe/London go back"):
        Policy.from_dict(data)
    data["streams"][0]["source"]["zone"] = "Asia/Tokyo"
    Policy.from_dict(data)


UNITS = st.integers(-300, 300)


@settings(max_examples=25)
@given(UNITS, UNITS, st.lists(st.lists(UNITS, min_size=2, max_size=2), min_size=2, max_size=6))
def test_what_weak_accepts_is_moved_by_a_habit_as_far_in_every_period(z, other, variations):
    """Whole multiples of the resolution, two readings in every hour, bounds that cannot bind."""
    tenths = [[w / 10 for w in readings] for readings in variations]
    moved = told(FREE, z / 10, other / 10, tenths)
    assert set(moved.ravel().tolist()) == {2 * (z - other)}


# Strong ---------------------------------------------------------------------------------------------------------------


def exact_loss(moved, pattern_scale, fresh_scale):
    """What y_k = f_k + v + u_k lose about a change that moves period k by moved[k], one phase, both noises Laplace (ours).

        min_δ |δ|/b_z + Σ_k |moved_k − δ|/b_w  =  max Σ s_k·moved_k/b_w over |s_k| ≤ 1, |Σ s_k| ≤ b_w/b_z

    The left side bounds the loss: v absorbs δ, and each u_k the rest. The right side is approached by outputs far away on the
    side s_k of each f_k. They are equal, as a linear program and its dual.
    """
    return min(abs(d) / pattern_scale + sum(abs(m - d) / fresh_scale for m in moved) for d in (0.0, *moved))


def log_density(y, f, pattern_scale, fresh_scale):
    grid = np.linspace(-60, 60, 24_001)
    inside = -np.abs(grid) / pattern_scale - np.abs(y[:, None] - f[:, None] - grid).sum(axis=0) / fresh_scale
    top = inside.max()
    return top + math.log(np.exp(inside - top).sum())


def attained(moved, reach=25.0):
    """The largest ratio of exact densities over outputs at the corners, by integration over the shared noise; both scales 1."""
    f = np.array(moved, dtype=float)
    return max(
        log_density(np.array(signs) * reach, f, 1.0, 1.0) - log_density(np.array(signs) * reach, 0 * f, 1.0, 1.0)
        for signs in product((-1.0, -0.5, 0.0, 0.5, 1.0), repeat=len(moved))
    )


@pytest.mark.parametrize("moved", [(1, 1), (1, 0), (1, 0, 1), (0.4, 0.2, 0.2), (1, 0.5, 0)])
def test_the_loss_about_a_habit_under_fresh_noise_is_known_exactly(moved):
    assert 0.97 * exact_loss(moved, 1.0, 1.0) < attained(moved) < exact_loss(moved, 1.0, 1.0) * (1 + 1e-9)


def test_strong_histograms_and_clips_lose_a_habit_in_every_period():
    """T = 1, ε = 1, both scales 1: what is refused, and what a clip that binds every other period comes to."""
    assert exact_loss([1, 1] * 5, 1.0, 1.0) == 1.0  # linear: ε for ever
    histogram = told(HISTOGRAM, 0.9, 0.5, [[0], [0.3]] * 5)[:, 0]
    assert exact_loss(histogram, 1.0, 1.0) == 5.0  # per bin, K = 10
    moved = told(SUM, 0.9, 0.0, [[0], [0.9]] * 5).ravel() / 10  # 0.9, 0.1, 0.9, …: of a range of 1
    assert exact_loss(moved, 1.0, 1.0) == pytest.approx(4.1)
    with pytest.raises(PolicyError, match=r"statistic.kind: a histogram is not linear"):
        policy(STRONG, HISTOGRAM, 2)
    for fold in ("min", "max"):  # z = (0.9, 0) or (0, 0), and the other reading is 0.9 every second period
        with pytest.raises(PolicyError, match=r"statistic.fold: the least or largest of a step's readings"):
            policy(STRONG, SUM | {"fold": fold}, 2)
    with pytest.raises(PolicyError, match=r"groups: in a period in which a person is in another group"):
        policy(STRONG, FREE, 2, groups=TWO_GROUPS)


@settings(max_examples=40)
@given(
    st.floats(-0.5, 1.5),
    st.floats(-0.5, 1.5),
    st.lists(st.lists(st.one_of(st.none(), st.floats(-1, 1)), max_size=2), min_size=1, max_size=8),
    st.sampled_from(["sum", "mean", "first", "last"]),
)
def test_what_strong_says_of_clips_gaps_and_rounding_holds(z, other, variations, fold):
    """At most ε more than for the habit itself for each period in which it counts otherwise than usual."""
    moved = told(SUM | {"fold": fold}, z, other, variations).ravel() / 10
    usual = max(set(moved.tolist()), key=moved.tolist().count)
    unusual = np.count_nonzero(moved != usual)
    assert exact_loss(moved, 1.0, 1.0) <= 1 + unusual + 1e-9


def test_strong_says_what_of_a_habit_is_covered():
    several = "where a step has several readings of which some are missing, are clipped singly"
    said = " ".join(AlmostPeriodic(1.0, 2, strong=True).not_protected)
    assert "a clip, a missing reading, rounding or a fold other than sum" in said
    assert f"up to ε more for each such period, and up to 2·ε {several}" in said
    made = channels(policy(STRONG, SUM, 2))[0]
    assert f"up to ε more for each such period, and up to 2 ε {several}" in made.why


def moved_by_habit(statistic, habits, variations):
    """How far apart two habits are in each period: a habit is a list of an hour's readings, a variation what is added to each."""
    (channel,) = channels(policy({"notion": "w-event", "epsilon": 1, "w": 1}, statistic, len(variations)))

    def totals(habit):
        readings = [
            ("a", k * HOUR + n, None if w is None else habit[n] + w, "")
            for k, row in enumerate(variations)
            for n, w in enumerate(row)
        ]
        return totals_of(channel, readings, 1, len(variations)).ravel()

    return totals(habits[0]) - totals(habits[1])


ONE_DOWN = [[-0.9, 0.0]] * 5 + [
    [0.0, -0.9]
] * 5  # one of two readings is driven below 0 in five periods, the other in five
ONE_GONE = [[None, 0.0]] * 5 + [[0.0, None]] * 5
NARROW = SUM | {"clip": ["0", "0.4"]}


@pytest.mark.parametrize(
    ("statistic", "variations", "loss"),
    [
        (NARROW | {"clip_readings": ["0", "0.4"]}, ONE_DOWN, 10.0),
        (NARROW, ONE_GONE, 10.0),
        (NARROW | {"fold": "first"}, ONE_GONE, 10.0),
        (NARROW, ONE_DOWN, 0.0),  # clipped after they are added up, both habits come to the same
    ],
)
def test_strong_with_several_readings_may_lose_two_epsilon_where_they_are_clipped_singly_or_missing(
    statistic, variations, loss
):
    """The habit is 0.4 in one of two readings; the clip [0, 0.4], of each or of what they come to."""
    moved = moved_by_habit(statistic, ((0.4, 0), (0, 0.4)), variations) / 4
    assert exact_loss(moved, 1.0, 1.0) == loss


HABITS = st.lists(st.floats(-0.5, 1.5), min_size=3, max_size=3)


@settings(max_examples=40)
@given(
    HABITS,
    HABITS,
    st.lists(st.lists(st.floats(-2, 2), min_size=3, max_size=3), min_size=1, max_size=8),
    st.sampled_from(["sum", "mean", "first", "last"]),
)
def test_strong_loses_no_more_than_epsilon_for_an_uneven_period_where_only_what_readings_come_to_is_clipped(
    z, other, variations, fold
):
    """Three readings a step and a clip 10 units wide, more than 3 · 3 − 2: no two periods are further apart than the clip."""
    moved = moved_by_habit(SUM | {"fold": fold}, (z, other), variations)
    assert np.ptp(moved) <= 10
    usual = max(set(moved.tolist()), key=moved.tolist().count)
    assert exact_loss(moved / 10, 1.0, 1.0) <= 1 + np.count_nonzero(moved != usual) + 1e-9


def test_the_rounding_of_several_readings_is_why_the_clip_must_not_be_narrow():
    """Two readings and a clip of one unit, fewer than 3 · 2 − 2: a habit of −0.2 and 0.4 units shows as +1 or as −1."""
    variations = [[0.0, 0.02]] * 5 + [[0.06, 0.0]] * 5
    moved = moved_by_habit(SUM | {"clip": ["0", "0.1"]}, ((-0.02, 0.04), (0.0, 0.0)), variations)
    assert sorted(set(moved.tolist())) == [-1, 1]
    assert exact_loss(moved, 1.0, 1.0) == 10.0
