"""Secrets and specifications: Example 1 and Figure 2 of the paper, dominance, columns, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halflife.errors import InvalidInput
from halflife.specifications import Secret, Specification, Specifications, neighbouring

OVEN = Secret(power=3.0, duration=2, start=1, end=4, epsilon=1.0)
GOOD = {
    "power": [3.0, 1.0, 2.0],
    "duration": [2, 1, 1],
    "start": [1, 1, 2],
    "end": [4, 4, 4],
    "epsilon": [1.0, 0.5, 1.0],
}

secrets = st.builds(
    lambda p, T, start, slack, epsilon: Secret(p, T, start, start + T - 1 + slack, epsilon),
    st.sampled_from([0.5, 1.0, 2.0, 3.0]),
    st.integers(1, 3),
    st.integers(1, 5),
    st.integers(0, 3),
    st.sampled_from([0.5, 1.0]),
)


def test_example_1_is_relevant_in_its_hiding_interval_and_nowhere_else():
    """Holds Definitions 9 to 12."""
    assert [OVEN.relevant(t) for t in range(7)] == [False, True, True, True, True, False, False]
    assert OVEN.placements == 3


def test_the_temporal_sensitivity_is_the_sum_of_relevant_powers():
    """Holds Definition 14."""
    p = Specification([OVEN, Secret(1.5, 3, 3, 9, 0.5), Secret(0.25, 1, 4, 4, 2.0)])
    assert [p.sensitivity(t) for t in range(11)] == [0, 3, 3, 4.5, 4.75, 1.5, 1.5, 1.5, 1.5, 1.5, 0]
    assert p.relevant(4) == p.secrets
    assert p.relevant(10) == ()


def test_dominance_needs_all_three_criteria():
    assert OVEN.dominates(OVEN)
    assert Secret(4.0, 3, 7, 9, 0.5).dominates(OVEN)
    for other in (Secret(2.9, 3, 1, 9, 0.5), Secret(4.0, 1, 1, 9, 0.5), Secret(4.0, 3, 1, 9, 1.1)):
        assert not other.dominates(OVEN)


def test_a_specification_dominates_by_its_dominant_secret_of_the_step():
    strong, weak = Secret(4.0, 3, 1, 5, 0.5), Secret(1.0, 1, 1, 9, 2.0)
    a, b = Specification([strong, weak]), Specification([OVEN])
    assert a.dominant(1) == strong
    assert a.dominant(6) == weak
    assert a.dominates(b, 2)
    assert not b.dominates(a, 2)
    assert b.dominates(a, 10)  # nothing is relevant
    apart = Specification([Secret(4.0, 1, 1, 5, 1.0), Secret(1.0, 3, 1, 5, 1.0)])
    assert apart.dominant(1) is None
    assert not apart.dominates(b, 2)


FIGURE_2 = ([0.2, 0.3, 0.2, 3.1], [0.2, 3.3, 3.2, 3.1])


@pytest.mark.parametrize("interpretation", ["one-event", "one-window", "all-events"])
def test_the_series_of_figure_2_are_neighbours(interpretation):
    p = Specification([OVEN])
    assert neighbouring(p, *FIGURE_2, interpretation)
    assert neighbouring(p, *reversed(FIGURE_2), interpretation)
    assert neighbouring(p, FIGURE_2[0], FIGURE_2[0], interpretation)
    assert not neighbouring(p, FIGURE_2[0], [0.2, 3.31, 3.2, 3.1], interpretation)  # more than 3 kW
    assert not neighbouring(p, FIGURE_2[0], [3.2, 3.3, 3.2, 3.1], interpretation)  # longer than two steps
    assert not neighbouring(p, FIGURE_2[0], [3.2, 0.3, 3.2, 3.1], interpretation)  # two steps, not in a row
    assert not neighbouring(p, [*FIGURE_2[0], 0.1], [*FIGURE_2[0], 3.1], interpretation)  # outside the hiding interval
    assert not neighbouring(p, [0.0] * 5, [0.0, 0.0, 0.0, 3.0, 3.0], interpretation)  # half outside


def test_the_readings_differ_where_s1_says_so():
    p = Specification([OVEN, Secret(1.0, 1, 1, 4, 1.0)])
    apart = [0.0, 0.0, 0.0, 0.0], [3.0, 3.0, 0.0, 1.0]  # both events, at different times
    high = [0.0, 0.0, 0.0, 0.0], [4.0, 4.0, 0.0, 0.0]  # Δ_t in one window: more than one event of each
    answers = {r: [neighbouring(p, *x, r) for x in (apart, high)] for r in ("one-event", "one-window", "all-events")}
    assert answers == {"one-event": [False, False], "one-window": [False, True], "all-events": [True, False]}


@given(
    st.lists(secrets, min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 4.0]), min_size=5, max_size=9),
)
def test_neighbours_equal_a_search_of_all_placements(held, gaps):
    """Holds Definitions 12 and 13."""
    p = Specification(held)
    steps = range(1, len(gaps) + 1)
    windows = [[range(a, a + s.duration) for a in range(s.start, s.end - s.duration + 2)] for s in held]

    def fits(room):
        return all(gap <= room(t) for t, gap in zip(steps, gaps, strict=True))

    chosen = [(s, w) for s, options in zip(held, windows, strict=True) for w in options]
    expected = {
        "one-event": any(fits(lambda t, s=s, w=w: s.power if t in w else 0) for s, w in chosen),
        "one-window": any(fits(lambda t, w=w: p.sensitivity(t) if t in w else 0) for _, w in chosen),
        "all-events": any(
            fits(lambda t, ws=ws: sum(s.power for s, w in zip(held, ws, strict=True) if t in w))
            for ws in itertools.product(*windows)
        ),
    }
    assert {r: neighbouring(p, [0.0] * len(gaps), gaps, r) for r in expected} == expected


def test_neighbours_of_long_series_and_many_secrets():
    ten = Specification([Secret(1.0 + i / 8, 1, 1, 10, 1.0) for i in range(10)])
    need = [1.0 + i / 8 for i in range(10)]
    assert neighbouring(ten, [0.0] * 10, need[::-1], "all-events")
    assert not neighbouring(ten, [0.0] * 10, [*need[:-1], 2.5], "all-events")
    assert neighbouring(Specification([OVEN]), [0.0] * 20_000, [3.0] + [0.0] * 19_999, "all-events")
    with pytest.raises(InvalidInput, match="at most 10 secrets"):
        neighbouring(Specification([*ten.secrets, OVEN]), [0.0], [1.0], "all-events")
    with pytest.raises(InvalidInput, match="did you mean 'one-event'"):
        neighbouring(ten, [0.0], [1.0], "one-events")
    with pytest.raises(InvalidInput, match="finite"):
        neighbouring(ten, [0.0], [float("nan")])
    with pytest.raises(InvalidInput, match="1 and 2 steps"):
        neighbouring(ten, [0.0], [1.0, 2.0])


# What is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("power", 0.0, "above 0"),
        ("power", -3.0, "above 0"),
        ("power", float("nan"), "NaN"),
        ("power", 1e300, "at most"),
        ("power", True, "must be a number"),
        ("epsilon", 0, "above 0"),
        ("epsilon", float("inf"), "finite"),
        ("duration", 0, "at least 1"),
        ("duration", 1.5, "whole number"),
        ("duration", 5, r"has 4 steps, fewer than its event lasts \(duration 5\)"),
        ("start", 10**13, "within"),
        ("start", 6, "ends .* before it starts"),
        ("end", "4", "whole number"),
    ],
)
def test_what_is_no_secret_is_refused(field, value, says):
    with pytest.raises(InvalidInput, match=says):
        Secret(**{"power": 3.0, "duration": 2, "start": 1, "end": 4, "epsilon": 1.0, field: value})


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("power", 0.0, r"row 2 \(household 'b'\): power must be above 0"),
        ("power", 5e-324, "power must be above 0"),
        ("power", float("nan"), "row 2: power must be a finite number, not nan"),
        ("power", None, "row 2: power must be a number, not 'None'"),
        ("power", "3", "power must be a number"),
        ("power", 1j, "power must be a number"),
        ("power", 10**400, "power must be a number"),
        ("power", True, "power must be a number"),
        ("start", True, "start must be a number"),
        ("start", -(2**63), "start must be a whole number within"),
        ("start", 10**30, "start must be a whole number within"),
        ("start", 1.5, "start must be a whole number within"),
        ("end", 0, r"\(household 'b'\): end must not lie before the start, not 0"),
        ("duration", 0, "duration must be at least 1"),
        ("duration", 9, r"row 2 \(household 'b'\): duration is too long: the hiding interval \[1, 4\] has 4 steps"),
        ("epsilon", -1.0, "epsilon must be above 0"),
    ],
)
def test_columns_refuse_the_same_by_row_and_field(field, value, says):
    values = [GOOD[field][0], value, GOOD[field][2]]
    with pytest.raises(InvalidInput, match=says):
        Specifications.from_columns(["a", "b", "c"], [0, 1, 2], {**GOOD, field: values})


@pytest.mark.parametrize("name", ["", "x" * 501, "a\0b", "a\nb", "\ud83d", 7, None])
def test_a_name_that_no_file_could_hold_is_refused(name):
    with pytest.raises(InvalidInput, match="household"):
        Specifications.from_columns(["a", name, "c"], [0, 1, 2], GOOD)


@pytest.mark.parametrize("codes", [[0, 1], [0, 1, 3], [0, -1, 2], [0, 0.5, 2], [0, None, 2]])
def test_indices_of_households_are_checked(codes):
    with pytest.raises(InvalidInput):
        Specifications.from_columns(["a", "b", "c"], codes, GOOD)


def test_the_same_secret_twice_is_refused_with_what_to_do():
    with pytest.raises(InvalidInput, match=r"'b' has the same secret twice: .* with their powers added"):
        Specifications.from_columns(["a", "b"], [1, 0, 1], {name: [v[0]] * 3 for name, v in GOOD.items()})
    with pytest.raises(InvalidInput, match="twice"):
        Specification([OVEN, OVEN])


# Arrow --------------------------------------------------------------------------------------------------------------


def dictionary(indices, values):
    return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(values))


@pytest.mark.parametrize(
    ("column", "names"),
    [
        (dictionary([0, 1, 3], ["a", "a", None, "b", "unused"]), ("a", "b")),
        (dictionary([0, 1, 1], [7, 8]), ("7", "8")),
        (pa.chunked_array([dictionary([0, 1], ["x", "y"]), dictionary([0], ["y"])]), ("x", "y")),
        (pa.chunked_array([pa.array(["x"]), pa.array(["y", "x"])]), ("x", "y")),
        (pa.array([7, 8, 7]), ("7", "8")),
        (pa.array(["é", "b", "b"], pa.large_string()), ("b", "é")),
    ],
)
def test_households_come_in_every_kind_of_column(column, names):
    read = Specifications.from_arrow(pa.table({"household": column, **GOOD}))
    assert read.households == names
    wanted = [str(name) for name in column.to_pylist()]
    assert sorted((read.name_of(i), read.secret(i).power) for i in range(3)) == sorted(
        zip(wanted, GOOD["power"], strict=True)
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"household": pa.array(["a", None, "b"])}, "row 2: household is empty"),
        ({"household": dictionary([0, 1, 2], ["a", None, "b"])}, "row 2: household is empty"),
        ({"household": pa.array([True, False, True])}, "texts or whole numbers, not bool"),
        ({"household": pa.array(["a", "b\0", "c"])}, "row 2: household is no name"),
        ({"power": pa.array([1.0, float("nan"), 1.0])}, r"row 2 \(household 'b'\): power must be a finite"),
        ({"power": pa.array([1.0, None, 1.0])}, r"row 2 \(household 'b'\): power is empty"),
        ({"power": pa.array(["1", "2", "3"])}, "'power' must hold whole numbers or doubles, not string"),
        ({"epsilon": pa.array([True] * 3)}, "not bool"),
        ({"start": pa.array([1, -(2**63), 1])}, "start must be a whole number within"),
        ({"duration": pa.array([1, 2**64 - 1, 1], pa.uint64())}, "duration must be a whole number within"),
        ({"powr": pa.array([1.0] * 3)}, "did you mean 'power'"),
    ],
)
def test_a_table_that_is_none_of_secrets_is_refused(change, says):
    with pytest.raises(InvalidInput, match=says):
        Specifications.from_arrow(pa.table({"household": ["a", "b", "c"], **GOOD, **change}))


def test_a_table_lacks_a_column_or_is_no_table():
    with pytest.raises(InvalidInput, match="need one column 'epsilon'"):
        Specifications.from_arrow(pa.table({"household": ["a", "b", "c"], **GOOD}).drop_columns(["epsilon"]))
    with pytest.raises(InvalidInput, match="Arrow table"):
        Specifications.from_arrow([1])
    assert len(Specifications.from_arrow(pa.table({"household": ["a", "b", "c"], **GOOD}).slice(0, 0))) == 0


@given(st.lists(st.tuples(st.sampled_from("cab"), secrets), unique=True, max_size=12), st.randoms())
def test_order_does_not_matter_and_every_form_gives_the_same(rows, random):
    def made(some):
        names = sorted({name for name, _ in some}, key=lambda _: random.random())
        columns = {f: [getattr(s, f) for _, s in some] for f in GOOD}
        return Specifications.from_columns(names, [names.index(name) for name, _ in some], columns)

    one = made(rows)
    random.shuffle(rows)
    two = made(rows)
    assert one == two
    assert one.sha256 == two.sha256
    assert Specifications.from_arrow(one.to_arrow()) == one
    assert Specifications.from_dict(one.to_dict()) == one
    assert {(p.household, s) for p in one for s in p.secrets} == set(rows)
    keys = [(one.name_of(i), one.secret(i).start, one.secret(i).end) for i in range(len(one))]
    assert keys == sorted(keys)


def test_columns_cannot_be_changed_from_outside():
    power = np.array([3.0])
    made = Specifications.from_columns(
        ["a"], [0], {"power": power, "duration": [1], "start": [1], "end": [1], "epsilon": [1.0]}
    )
    power[0] = 5.0
    assert made.power[0] == 3.0
    with pytest.raises(ValueError, match="read-only"):
        made.power[0] = 5.0
