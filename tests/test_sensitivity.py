"""Sensitivities: against every pair of neighbours of small domains, and against plain sums of small towns."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import InvalidInput
from halflife.numerics.trees import CountTree
from halflife.policy import Policy, PolicyError, channels, explain
from halflife.sensitivity import bounded_sensitivity, histogram_sensitivity, mean_sensitivity, tree_sensitivity

NEIGHBOURS = ("replace-one", "add-remove")


def distances(contributions, neighbours):
    """The largest L1, L2² and number of changed cells between two contributions; of one and nothing if there or not."""
    nothing = (0,) * len(contributions[0])
    l1 = l2 = touched = 0
    for a in contributions:
        for b in contributions if neighbours == "replace-one" else [nothing]:
            d = [abs(x - y) for x, y in zip(a, b, strict=True)]
            l1, l2, touched = max(l1, sum(d)), max(l2, sum(x * x for x in d)), max(touched, sum(map(bool, d)))
    return l1, l2, touched


def in_groups(per_group, groups, most):
    """Every contribution of a person who counts in at most so many groups; `per_group` lists what they may add in one."""
    nothing = (0,) * len(per_group[0])
    found = set()
    for k in range(most + 1):
        for chosen in itertools.combinations(range(groups), k):
            for values in itertools.product(per_group, repeat=k):
                cells = [nothing] * groups
                for g, v in zip(chosen, values, strict=True):
                    cells[g] = v
                found.add(tuple(itertools.chain.from_iterable(cells)))
    return sorted(found)


BOUNDS = [(0, 2), (1, 3), (-1, 2), (-3, -1), (1, 1)]


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("missing", [-2, 0, 1, 5])
@pytest.mark.parametrize("weight", [1, 3])
def test_one_number_moves_exactly_as_far_as_said(bounds, missing, weight, neighbours):
    """Holds Definition 2 of the age-dependent paper; Definition 4 of the Swellfish paper."""
    low, high = bounds
    worst = (0, 0)
    for w in (-weight, -1, 0, 1, weight):  # a weight is public, so both neighbours have it
        mine = [(0,), *((w * (v - missing),) for v in range(low, high + 1))]
        worst = max(worst, distances(mine, neighbours)[:2])
    s = bounded_sensitivity(low, high, missing, neighbours=neighbours, weight=weight)
    assert (s.l1, s.l2, s.touched) == (worst[0], float(worst[0]), 1)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize(("groups", "most"), [(g, k) for g in range(1, 5) for k in range(1, g + 1)])
def test_groups_move_exactly_as_far_as_said(bounds, groups, most, neighbours):
    low, high = bounds
    values = [(v,) for v in {low, high, min(max(0, low), high)}]  # a norm is largest at the corners
    l1, l2, touched = distances(in_groups(values, groups, most), neighbours)
    s = bounded_sensitivity(low, high, neighbours=neighbours, groups=groups, most_groups=most, fixed=False)
    assert (s.l1, s.touched) == (l1, touched)
    assert l2 <= Fraction(s.l2) ** 2 <= l2 * (1 + Fraction(1, 2**50))


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("bins", [1, 2, 3])
@pytest.mark.parametrize(("groups", "most"), [(1, 1), (2, 1), (2, 2), (3, 2)])
def test_histograms_move_exactly_as_far_as_said(bins, groups, most, neighbours):
    one = [tuple(int(b == c) for c in range(bins)) for b in range(bins)]
    l1, l2, touched = distances(in_groups(one, groups, most), neighbours)
    s = histogram_sensitivity(bins, neighbours=neighbours, groups=groups, most_groups=most, fixed=False)
    assert (s.l1, s.touched) == (l1, touched)
    assert l2 <= Fraction(s.l2) ** 2 <= l2 * (1 + Fraction(1, 2**50))
    assert (
        histogram_sensitivity(bins, neighbours=neighbours, groups=groups, most_groups=1).l1
        == (distances([(0,) * bins, *one], neighbours)[0])
    )


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("total", [False, True])
@pytest.mark.parametrize(("bins", "levels"), [(2, 1), (3, 1), (3, 2), (4, 2), (5, 3)])
@pytest.mark.parametrize(("groups", "most"), [(1, 1), (2, 1), (2, 2), (3, 2)])
def test_trees_move_exactly_as_far_as_said(bins, levels, total, groups, most, neighbours):
    tree = CountTree(bins, levels, total)
    one = [tuple(tree.add_up(row).tolist()) for row in np.eye(bins, dtype=np.int64)]
    if groups == 3:  # enough: the first, the last and their neighbours
        one = [one[0], one[-1]]
    l1, l2, touched = distances(in_groups(one, groups, most), neighbours)
    s = tree_sensitivity(levels, total, neighbours=neighbours, groups=groups, most_groups=most, fixed=False)
    assert (s.l1, s.touched) == (l1, touched)
    assert l2 <= Fraction(s.l2) ** 2 <= l2 * (1 + Fraction(1, 2**50))
    fixed = tree_sensitivity(levels, total, neighbours=neighbours, groups=groups, most_groups=1)
    assert fixed.l1 == distances([(0,) * tree.nodes, *one], neighbours)[0]


@given(st.integers(-(2**40), 2**40), st.integers(0, 2**40), st.integers(1, 1000), st.integers(1, 1000))
def test_the_root_is_never_rounded_down(low, width, groups, most):
    s = bounded_sensitivity(low, low + width, groups=groups, most_groups=most, fixed=False)
    k, j = min(most, groups), min(most, groups, max(0, groups - most))
    m, r = max(abs(low), abs(low + width)), max(low + width, 0) - min(low, 0)
    if groups > 1:
        assert Fraction(s.l2) ** 2 >= max(k * r * r, 2 * j * m * m + (k - j) * r * r)
    assert s.l2 <= s.l1 + 1e-9 * s.l1
    assert s.of("laplace") == s.l1
    assert s.of("gaussian") == s.l2


def test_bounds_the_wrong_way_round_are_refused():
    with pytest.raises(InvalidInput, match="low ≤ high"):
        bounded_sensitivity(2, 1)


@pytest.mark.parametrize(("low", "high"), [(0.0, 5.0), (1.0, 4.0), (-3.0, 0.1), (-0.1, 0.2)])
def test_the_mean_with_people_who_come_and_go(low, high):
    for n, said in zip([1, 3, 7], mean_sensitivity(low, high, [1, 3, 7]), strict=True):
        values = [Fraction(0), Fraction(low), Fraction(high)]
        true = max(abs(a - b) for a in values for b in values) / n
        assert true <= Fraction(said) <= true * (1 + Fraction(1, 2**50))


# From a policy to the sums: a town in plain Python --------------------------------------------------------------------

PEOPLE = ["a", "b", "c", "d"]
TABLE = "who,where,weight\na,north,9\nb,south,-9\nc,north,0.6\nd,south,3\n"


def town(tmp_path, statistic, groups=None, neighbours="replace-one", moving=False):
    (tmp_path / "town.csv").write_text(TABLE)
    source = {"files": "x.csv", "time": "t", "value": "v"} | ({"group": "g"} if moving else {})
    stream = {"name": "s", "source": source, "statistic": statistic, "groups": groups, "output": "s.csv"}
    data = {
        "population": {"id": "town", "size": 4, "person": "who", "neighbours": neighbours},
        "promise": {"notion": "w-event", "epsilon": 1, "w": 1},
        "clock": {"step": "1 h", "start": "2026-01-01"},
        "streams": [stream],
    }
    return channels(Policy.from_dict(data, tmp_path))[0]


FOLDS = {
    "sum": sum,
    "min": min,
    "max": max,
    "first": lambda u: u[0],
    "last": lambda u: u[-1],
    "mean": lambda u: math.floor(Fraction(sum(u), len(u)) + Fraction(1, 2)),
}


def aggregate(q, readings):
    """`engines/base.py` in plain Python, for one step: readings are (person, group, value) in order of time."""
    sums = np.zeros(q.shape[1:], dtype=int)
    folded = {}
    for person, group, x in readings:
        known = (q.table is None or person in q.table) and (q.weights is None or person in q.weights)
        if not known or x is None or (q.group and group not in q.groups):
            continue
        g = q.table[person] if q.table is not None else q.groups.index(group) if q.group else 0
        u = math.floor(Fraction(x) * q.multiply / q.divide + Fraction(1, 2))
        folded.setdefault((person, g), []).append(max(q.least, min(q.most, u)))
    for (person, g), us in folded.items():
        if q.group and g not in sorted(h for p, h in folded if p == person)[: q.most_groups]:
            continue
        v = max(q.low, min(q.high, FOLDS[q.fold](us)))
        w = 1 if q.weights is None else q.weights[person]
        if q.kind == "histogram":
            sums[g, next(b for b in reversed(range(len(q.edges) - 1)) if v >= q.edges[b])] += 1
        else:
            sums[g, 0] += 1 if q.kind == "count" else w * (v - q.baseline)
    return sums.ravel()


VALUE = {"unit": "kWh", "resolution": "100 Wh", "fold": "sum"}
WEIGHTS = {"file": "town.csv", "person": "who", "weight": "weight", "resolution": "0.5", "largest": "4"}
FIXED = {"table": {"file": "town.csv", "person": "who", "group": "where"}, "names": ["north", "empty", "south"]}
MOVING = {"names": ["north", "south", "west"], "most_per_person": 2}
STATISTICS = {
    "count": {"kind": "count"},
    "sum": {"kind": "sum", "clip": [0, 1], **VALUE},
    "sum, missing": {"kind": "sum", "clip": ["-0.5", 1], "missing": 2, **VALUE},
    "mean": {"kind": "mean", "clip": [0.5, 1], **VALUE},
    "sum of clipped readings": {"kind": "sum", "clip": [0, 1], "clip_readings": [-1, 0.6], **VALUE},
    "mean of clipped readings": {"kind": "mean", "clip_readings": [-0.5, 1], **VALUE, "fold": "mean"},
    "histogram": {"kind": "histogram", "edges": [0, 0.5, 1], **VALUE},
    "histogram of clipped readings": {"kind": "histogram", "edges": [0, 0.5, 1], "clip_readings": [-1, 2], **VALUE},
    "quantile": {"kind": "quantile", "quantiles": [0.5], "grid": {"low": -2, "high": 8, "bins": 100}, **VALUE},
    "one bin": {"kind": "histogram", "edges": [0, 1], **VALUE},
    "weighted sum": {"kind": "weighted sum", "clip": [-1, 1], "missing": 0.2, "weights": WEIGHTS, **VALUE},
}
reading = st.tuples(st.sampled_from(["north", "south", "west", "?"]), st.sampled_from([None, -3, -0.2, 0, 0.4, 0.6, 5]))
person_data = st.lists(reading, max_size=4)


@pytest.mark.diagonal
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("groups", [None, FIXED, MOVING], ids=["no groups", "fixed", "moving"])
@pytest.mark.parametrize("kind", STATISTICS)
def test_no_change_of_one_persons_data_moves_a_town_further_than_the_policy_says(tmp_path, kind, groups, neighbours):
    statistic = STATISTICS[kind]
    if groups is MOVING:
        statistic = {k: v for k, v in statistic.items() if k != "missing"}
        groups = groups | ({"sizes": {"north": 2, "south": 3, "west": 1}} if statistic["kind"] == "mean" else {})
    channel = town(
        tmp_path,
        statistic,
        groups,
        neighbours,
        moving=groups is not None and "names" in groups and "table" not in groups,
    )
    reached = 0

    @settings(max_examples=30, deadline=None, derandomize=True)
    @given(
        st.fixed_dictionaries(dict.fromkeys(PEOPLE, person_data)),
        st.sampled_from(PEOPLE),
        person_data,
        st.sampled_from(list(FOLDS)),
    )
    def check(town, person, other, fold):
        nonlocal reached
        q = channel.question(1, 1)
        q = q if q.kind == "count" else type(q)(**{**vars(q), "fold": fold})
        rows = [(p, g, x) for p, data in town.items() for g, x in data]
        rest = [r for r in rows if r[0] != person]
        changed = rest + ([(person, g, x) for g, x in other] if neighbours == "replace-one" else [])
        one, two = (channel.totals(aggregate(q, r).reshape(1, *q.shape[1:]), 1)[0] for r in (rows, changed))
        moved = np.abs(one - two)
        assert moved.sum() <= channel.sensitivity.l1
        assert np.count_nonzero(moved) <= channel.sensitivity.touched
        assert float(moved @ moved) <= channel.sensitivity.l2**2
        reached = max(reached, int(moved.sum()))

    check()
    assert reached >= channel.sensitivity.l1 / 3  # the search is not idle


@given(
    st.lists(st.integers(-30, 30), min_size=1, max_size=5),
    st.integers(-9, 9),
    st.integers(1, 9),
    st.sampled_from([*FOLDS]),
)
def test_a_fold_of_clipped_readings_lies_within_their_bounds_unless_it_adds_them_up(readings, low, width, fold):
    clipped = [max(low, min(low + width, u)) for u in readings]
    assert low <= FOLDS[fold](clipped) <= low + width or fold == "sum"


@pytest.mark.parametrize("fold", [*FOLDS])
def test_bounds_of_readings_alone_bound_what_a_person_counts_as_unless_they_are_added_up(tmp_path, fold):
    """Seven readings of 5 kWh, clipped at 1 kWh each, would come to seven times the sensitivity."""
    statistic = {"kind": "sum", "clip_readings": [0, 1], **VALUE, "fold": fold}
    if fold == "sum":
        with pytest.raises(PolicyError, match="give the least and the largest that one person counts as"):
            town(tmp_path, statistic)
        return
    channel = town(tmp_path, statistic)
    assert channel.sensitivity.l1 == 10
    assert aggregate(channel.question(1, 1), [("a", "", 5)] * 7).tolist() == [10]


@pytest.mark.parametrize("kind", ["count", "sum", "histogram"])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_person_counts_in_no_more_groups_than_declared(tmp_path, kind, most):
    groups = MOVING | {"most_per_person": most}
    channel = town(tmp_path, STATISTICS[kind], groups, "add-remove", moving=True)
    everywhere = [("a", g, 5) for g in groups["names"]]
    assert np.abs(aggregate(channel.question(1, 1), everywhere)).sum() == channel.sensitivity.l1


def test_those_who_are_missing_count_as_the_policy_says(tmp_path):
    assert town(tmp_path, STATISTICS["sum, missing"]).sized_at(1).offsets == (4 * 20,)
    assert town(tmp_path, STATISTICS["sum, missing"], FIXED).sized_at(1).offsets == (2 * 20, 0, 2 * 20)
    weighted = town(tmp_path, STATISTICS["weighted sum"], FIXED)
    assert weighted.weights == {"a": 8, "b": -8, "c": 1, "d": 6}  # in halves, to the nearest, at most 8 of them
    assert weighted.sized_at(1).offsets == (2 * 9, 0, 2 * -2)
    assert weighted.sensitivity.l1 == 8 * (8 + 12)  # from −1 − 0.2 to 1 − 0.2 kWh in units of 0.1, times 4 in halves


def test_what_a_unit_is_worth(tmp_path):
    tenth = Fraction(1, 10)
    assert town(tmp_path, STATISTICS["mean"]).factors == (tenth / 4,)
    assert town(tmp_path, STATISTICS["mean"], FIXED).factors == (tenth / 2, tenth, tenth / 2)  # nobody is in the second
    assert town(tmp_path, STATISTICS["sum"], FIXED).factors == (tenth,) * 3
    assert town(tmp_path, STATISTICS["weighted sum"]).factors == (tenth / 2,)
    histogram = town(tmp_path, STATISTICS["histogram"], FIXED)
    assert (histogram.cells, histogram.bins) == (6, ((0.0, 0.5), (0.5, 1.0)))
    assert histogram.factor_of_cells == (1,) * 6  # people, whatever the resolution of their readings


def test_the_reason_is_printed(tmp_path):
    lines = list(explain(town(tmp_path, STATISTICS["sum, missing"], FIXED)))
    assert lines == [
        "hidden: what was recorded of one person within any w steps may be anything else: losses of one window add up",
        "one person's reading may be replaced by any other: at most 25 units (1 unit = 100 Wh)",
        "published as a sum: at most 2.5 kWh",
        "3 groups, fixed for ever by a public table: a person moves their own group alone",
        "a person without a good reading counts as 2 kWh",
    ]
    assert list(explain(town(tmp_path, STATISTICS["histogram"])))[1:] == [
        "one person may leave one bin for another: 2 counts change by 1 (1 unit = 1 person)",
        "published as a histogram: at most 2 people",
    ]
    moving = list(explain(town(tmp_path, STATISTICS["count"], MOVING, moving=True)))
    assert moving[1].startswith(
        "one person counts in up to 2 of 3 groups, and may be replaced by any other: at most 3 units"
    )
