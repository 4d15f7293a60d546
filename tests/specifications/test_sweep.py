"""The sweep over columns against plain loops over secrets and steps."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halflife import InvalidInput, Secret, Specification, Specifications
from halflife.specifications.sweep import (
    StepFunction,
    Timeline,
    covering_max,
    overlapping_pairs,
    to_float_up,
    whole_unit,
)


@st.composite
def secrets(draw, first=-8, last=20, longest=6):
    """A secret whose hiding interval lies in [first, last]."""
    duration = draw(st.integers(1, longest))
    start = draw(st.integers(first, last - duration + 1))
    end = draw(st.integers(start + duration - 1, min(last, start + duration + 7)))
    power = draw(st.sampled_from([0.1, 0.3, 1.0, 2.5, 1 / 3, 7.0]))
    return Secret(power, duration, start, end, draw(st.sampled_from([0.1, 0.5, 1.0, 2.0])))


def families(most=4, households=3):
    """Specifications of up to three households, at least one secret in all."""
    one = st.lists(secrets(), max_size=most, unique=True)
    many = st.lists(one, min_size=1, max_size=households).filter(any)
    return many.map(lambda lists: Specifications([Specification(held, f"h{i}") for i, held in enumerate(lists)]))


def delta_of(specification, step):
    """Definition 14 by its words: the powers of the secrets whose interval holds the step."""
    return sum(s.power for s in specification.secrets if s.start <= step <= s.end)


# Kernels --------------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.floats(0, 9)), max_size=30), st.integers(41, 70))
def test_covering_max_is_the_maximum_over_the_intervals_that_hold_a_place(rows, size):
    first = np.array([min(a, b) for a, b, _ in rows], dtype=np.int64)
    last = np.array([max(a, b) for a, b, _ in rows], dtype=np.int64)
    values = np.array([v for _, _, v in rows])
    wanted = [
        max([v for a, b, v in zip(first, last, values, strict=True) if a <= i <= b], default=0.0) for i in range(size)
    ]
    assert covering_max(first, last, values, size).tolist() == wanted


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64])
def test_an_interval_of_any_length_is_covered_to_its_very_ends(length):
    found = covering_max(np.array([1]), np.array([length]), np.array([2.0]), length + 2)
    assert found.tolist() == [0.0, *[2.0] * length, 0.0]


@given(st.lists(st.floats(1e-12, 1e12), min_size=1, max_size=40))
def test_whole_units_round_up_and_add_up_within_64_bits(values):
    unit = whole_unit(sum(values))
    whole = np.ceil(np.array(values) / unit).astype(np.int64)
    assert sum(whole.tolist()) < 2**63
    assert (to_float_up(whole, unit) >= np.array(values)).all()
    assert (to_float_up(whole, unit) <= np.array(values) * (1 + 1e-15) + unit).all()


def test_a_whole_number_beyond_53_bits_becomes_a_float_that_is_not_below_it():
    whole = np.array([2**53 + 1, 2**60 + 1, 2**60 - 1, 7], dtype=np.int64)
    assert all(int(f) >= w for f, w in zip(to_float_up(whole, 1.0).tolist(), whole.tolist(), strict=True))
    assert to_float_up(np.array([7]), 0.5).tolist() == [3.5]


def test_a_step_function_is_0_before_its_first_change_and_stays_after_its_last():
    f = StepFunction(np.array([3, 5, 9]), np.array([2.0, 7.0, 1.0]))
    assert [f.at(t) for t in (2, 3, 4, 5, 8, 9, 100)] == [0.0, 2.0, 2.0, 7.0, 7.0, 1.0, 1.0]
    assert f.over(-1, 10).tolist() == [f.at(t) for t in range(-1, 11)]
    assert f.largest == 7.0
    empty = StepFunction(np.zeros(0, dtype=np.int64), np.zeros(0))
    assert (empty.at(1), empty.over(1, 2).tolist(), empty.largest) == (0.0, [0.0, 0.0], 0.0)


# What holds at a step -------------------------------------------------------------------------------------------------


@given(families())
def test_temporal_sensitivity_is_the_largest_sum_of_relevant_powers(many):
    found = Timeline(many).temporal_sensitivity.over(-12, 30)
    for step, value in zip(range(-12, 31), found.tolist(), strict=True):
        wanted = max(delta_of(p, step) for p in many)
        assert wanted * (1 - 1e-15) <= value <= wanted * (1 + 1e-12)
        assert (value == 0) == (wanted == 0)


@given(families())
def test_each_households_sensitivity_and_maxima_hold_on_each_of_its_pieces(many):
    line = Timeline(many)
    values = np.arange(1.0, len(many) + 1)
    most = line.most(values)
    for i in range(len(line.begin)):
        name = many.households[line.household[i]]
        step = int(line.begin[i])
        assert line.sensitivity[i] == pytest.approx(delta_of(many.specification(name), step), rel=1e-12)
        mine = [values[j] for j in range(len(many)) if many.name_of(j) == name and many.secret(j).relevant(step)]
        assert most[i] == max(mine, default=0.0)
        if line.sensitivity[i] > 0:  # nothing changes before the piece ends
            assert {delta_of(many.specification(name), t) for t in range(step, int(line.end[i]) + 1)} == {
                delta_of(many.specification(name), step)
            }


@given(families(), st.data())
def test_a_secret_lies_on_exactly_the_pieces_from_its_first_to_its_last(many, data):
    line = Timeline(many)
    for i in range(len(many)):
        s = many.secret(i)
        assert line.begin[line.first[i]] == s.start
        assert line.end[line.last[i]] == s.end
        step = data.draw(st.integers(s.start, s.end))
        place = int(line.place(np.array([i]), np.array([step]))[0])
        assert line.begin[place] <= step <= line.end[place]
        assert many.households[line.household[place]] == many.name_of(i)


@given(families(), st.lists(st.floats(0.1, 9), min_size=40, max_size=40))
def test_over_households_takes_the_largest_value_of_any_household(many, numbers):
    """Theorem 9: the maximum over the specifications, at every step."""
    line = Timeline(many)
    values = line.most(np.array(numbers[: len(many)]))
    f = line.over_households(values)
    for step in range(-10, 25):
        held = [numbers[i] for i in range(len(many)) if many.secret(i).relevant(step)]
        assert f.at(step) == max(held, default=0.0)


def test_sums_do_not_drift_over_a_hundred_thousand_changes():
    n = 100_000
    start = np.arange(n) * 3
    columns = {
        "power": np.full(n, 0.1),
        "duration": np.ones(n, int),
        "start": start,
        "end": start + 1,
        "epsilon": np.ones(n),
    }
    f = Timeline(Specifications.from_columns(["a"], np.zeros(n, int), columns)).temporal_sensitivity
    assert f.over(0, 2).tolist() == f.over(3 * n - 3, 3 * n - 1).tolist()
    assert f.at(3 * n - 1) == 0.0 == f.at(3 * n + 5)
    assert 0.1 <= f.at(0) <= 0.1 * (1 + 1e-9)


def test_no_secrets_have_no_sensitivity():
    assert Timeline(Specifications([Specification([], "a")])).temporal_sensitivity.over(1, 3).tolist() == [
        0.0,
        0.0,
        0.0,
    ]


# Pairs ----------------------------------------------------------------------------------------------------------------


@given(families(most=6), st.integers(1, 9))
def test_overlapping_pairs_are_all_of_them_once_in_parts_of_any_size(many, most):
    found = [
        pair for row, other in overlapping_pairs(many, most) for pair in zip(row.tolist(), other.tolist(), strict=True)
    ]
    held = [many.secret(i) for i in range(len(many))]
    wanted = {
        (i, j)
        for i, a in enumerate(held)
        for j, b in enumerate(held)
        if many.name_of(i) == many.name_of(j) and a.start <= b.end and b.start <= a.end
    }
    assert len(found) == len(set(found))
    assert set(found) == wanted


def test_no_secrets_have_no_pairs():
    assert list(overlapping_pairs(Specifications([]))) == []


# Columns --------------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from("cab"), secrets()), min_size=1, max_size=12, unique=True), st.randoms())
def test_the_same_secrets_are_the_same_specifications_in_whatever_order_they_came(rows, random):
    def columns(rows):
        names = {name: np.array([getattr(s, name) for _, s in rows]) for name in Secret.__slots__}
        return Specifications.from_columns(["c", "a", "b"], ["cab".index(h) for h, _ in rows], names)

    one = columns(rows)
    shuffled = rows[:]
    random.shuffle(shuffled)
    other = columns(shuffled)
    assert one == other
    assert one.sha256 == other.sha256
    assert hash(one) == hash(other)
    assert one.households == ("a", "b", "c")
    assert sorted((one.name_of(i), str(one.secret(i))) for i in range(len(one))) == sorted((h, str(s)) for h, s in rows)
    order = [(int(one.household[i]), int(one.start[i])) for i in range(len(one))]
    assert order == sorted(order)
    assert Specifications.from_dict(one.to_dict()) == one
    read = Specifications.from_arrow(one.to_arrow())  # a table holds no household without secrets
    assert [p for p in one if p.secrets] == list(read)
    assert Specifications(list(one)) == one


def test_a_change_of_any_number_changes_the_digest():
    base = {"power": 2.0, "duration": 2, "start": 3, "end": 9, "epsilon": 0.5}
    other = {"power": 2.2, "duration": 3, "start": 2, "end": 10, "epsilon": 0.55}
    digests = {Specifications(Specification([Secret(**base)], "a")).sha256}
    for name in base:
        digests.add(Specifications(Specification([Secret(**{**base, name: other[name]})], "a")).sha256)
    digests.add(Specifications(Specification([Secret(**base)], "b")).sha256)
    assert len(digests) == 7


def test_the_same_secret_twice_in_a_household_is_refused_and_in_two_is_not():
    s = Secret(2.0, 2, 3, 9, 0.5)
    columns = {name: [getattr(s, name)] * 2 for name in Secret.__slots__}
    with pytest.raises(InvalidInput, match="same secret twice"):
        Specifications.from_columns(["a"], [0, 0], columns)
    assert len(Specifications.from_columns(["a", "b"], [0, 1], columns)) == 2
    with pytest.raises(InvalidInput, match="same secret twice"):
        Specification([s, s])


def test_powers_round_up_and_epsilons_down_when_they_are_scaled():
    many = Specifications(Specification([Secret(p, 1, 1, 9, e) for p, e in [(0.1, 0.3), (0.7, 0.1), (3.0, 1.0)]], "a"))
    for factor in (1 / 3, 0.1, 7.0, 1.0):
        assert (many.times_power(factor).power >= many.power * factor).all()
        assert many.times_power(factor).power == pytest.approx(many.power * factor, rel=1e-15)
        assert many.times_power(factor, 0.25).power == pytest.approx(many.power * factor + 0.25, rel=1e-15)
        assert (many.times_power(factor, 0.25).power > many.power * factor + 0.25).all()
        assert (many.times_epsilon(factor).epsilon < many.epsilon * factor).all()
        assert many.times_epsilon(factor).epsilon == pytest.approx(many.epsilon * factor, rel=1e-15)


def test_dominance_needs_all_three_and_holds_for_itself():
    """Section III-B: at least as long, as high and as well hidden."""
    s = Secret(2.0, 3, 1, 9, 0.5)
    assert s.dominates(s)
    assert s.dominates(Secret(1.9, 3, 20, 29, 0.5))
    assert not s.dominates(Secret(2.1, 3, 1, 9, 0.5))
    assert not s.dominates(Secret(2.0, 4, 1, 9, 0.5))
    assert not s.dominates(Secret(2.0, 3, 1, 9, 0.4))
    small = Secret(1.0, 2, 4, 6, 1.0)
    both = Specification([s, small])
    assert both.dominant(5) == s == both.dominant(2)
    assert both.dominant(10) is None
    assert both.dominates(Specification([small]), 5)
    assert not Specification([small]).dominates(both, 5)
    assert Specification([small]).dominates(both, 10)
    neither = Specification([s, Secret(3.0, 1, 1, 9, 1.0)])
    assert neither.dominant(3) is None


# Scale ----------------------------------------------------------------------------------------------------------------


def test_ten_times_the_secrets_take_about_ten_times_the_memory():
    def peak(n):
        rng = np.random.default_rng(1)
        start, length = rng.integers(0, 157_680, n), rng.integers(1, 66, n)
        columns = {
            "power": rng.uniform(0.05, 4, n),
            "duration": length,
            "start": start,
            "end": start + 5 * length,
            "epsilon": rng.uniform(0.1, 1, n),
        }
        many = Specifications.from_columns([f"h{i}" for i in range(250)], rng.integers(0, 250, n), columns)
        tracemalloc.start()
        Timeline(many).temporal_sensitivity  # noqa: B018
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    small, large = peak(10_000), peak(100_000)
    assert 5 < large / small < 13
    assert large < 100_000 * 2_000
