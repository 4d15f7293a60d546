"""Reconciliation against direct solves: least squares on stacked equations, a quadratic program, exact sums, simulated noise."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from halflife.errors import InvalidInput
from halflife.postprocessing.reconcile import (
    Common,
    Rule,
    Sums,
    adds_up,
    hold_above_zero,
    reconcile,
    settle,
    solve_least_squares,
)
from halflife.postprocessing.reconcile.least_squares import project_non_negative
from halflife.postprocessing.reconcile.series import Series, make_sums
from halflife.publisher.drawing import find_spread

ONE = Fraction(1)


def rows(*sums, count):
    """The sums as a matrix, written out row by row."""
    made = []
    for s in sums:
        for total, parts in zip(s.totals, s.parts, strict=True):
            row = np.zeros(count)
            row[total] += 1
            for cell, weight in zip(parts, s.weights, strict=True):
                row[cell] -= weight / s.divisor
            made.append(row)
    return np.array(made)


def ones(count):
    return np.ones(count, dtype=np.int64)


def whole(totals, parts, weights=None, divisor=1, **more):
    parts = np.atleast_2d(parts)
    return Sums(
        np.atleast_1d(totals), parts, ones(parts.shape[1]) if weights is None else np.array(weights), divisor, **more
    )


# Generalised least squares --------------------------------------------------------------------------------------------


CITY = whole(0, [[3, 4, 5, 6]])
LEVELS = [whole(0, [[1, 2]]), whole([1, 2], [[3, 4], [5, 6]])]
WEIGHTED = [whole(0, [[1, 2]], [3, 2], 5), whole(1, [[3, 4, 5]], [1, 1, 4], 6)]
CROSSING = [whole([0, 1], [[2, 3], [4, 5]], over_time=True), whole([6, 7], [[2, 4], [3, 5]])]
"""Two days of two half hours by zone, and the city's half hours: no tree, and still of full rank."""


@pytest.mark.parametrize("sums", [[CITY], LEVELS, WEIGHTED, CROSSING], ids=["city", "levels", "weighted", "crossing"])
@pytest.mark.parametrize("shares", [False, True], ids=["own noise", "common noise"])
def test_estimates_are_those_of_the_dense_solve_and_of_a_direct_fit(sums, shares):
    """Against a dense solve of the same equations, and weighted least squares on the values that no row determines."""
    count, rng = 9, np.random.default_rng(3)
    y, d = rng.normal(10, 3, count), rng.uniform(0.5, 5, count)
    common = [Common(np.array([2, 3, 8]), np.array([1.0, 2.0, 0.5])), Common(np.array([0, 5]), np.ones(2))] * shares
    b = np.zeros((count, len(common)))
    for k, one in enumerate(common):
        b[one.cells, k] = one.scales
    cov, a = np.diag(d) + b @ b.T, rows(*sums, count=count)
    found = reconcile(y, d, sums, common)
    z, left = solve_least_squares(y, cov, a)
    np.testing.assert_allclose(found.values, z, rtol=1e-9)
    np.testing.assert_allclose(found.variances, np.diag(left), rtol=1e-9)
    _, _, null = np.linalg.svd(a)
    basis, root = null[len(a) :].T, np.linalg.inv(np.linalg.cholesky(cov))
    direct = basis @ np.linalg.lstsq(root @ basis, root @ y, rcond=None)[0]
    np.testing.assert_allclose(found.values, direct, rtol=1e-9)
    assert (found.variances <= np.diag(cov) * (1 + 1e-12)).all()
    assert (found.variances < 0.9 * np.diag(cov)).any()
    np.testing.assert_allclose(a @ found.values, 0, atol=1e-9)


def test_many_blocks_of_several_forms_are_each_solved_by_themselves():
    """Days of 46, 48 and 50 half hours, one with a half hour of no noise, and one value that is in no sum."""
    rng, sums, place = np.random.default_rng(4), [], 3
    for day, size in enumerate((46, 48, 50)):
        sums.append(whole(day, np.arange(place, place + size)))
        place += size
    y, d = rng.normal(1, 3, place + 1), rng.uniform(0.5, 5, place + 1)
    d[7] = 0.0
    found = reconcile(y, d, sums)
    for s in sums:
        cells = np.append(s.totals, s.parts)
        z, cov = solve_least_squares(y[cells], np.diag(d[cells]), rows(s, count=len(y))[:, cells])
        np.testing.assert_allclose(found.values[cells], z, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.variances[cells], np.diag(cov), rtol=1e-9, atol=1e-12)
    assert found.values[7] == y[7]
    assert found.values[-1] == y[-1]
    assert (reconcile(y, 0 * d, sums).values == y).all()


def test_errors_that_go_together_are_one_noise_of_the_parts():
    """A share of each part's variance is one error of all of them, of sums over time alone."""
    sums, y, d = CROSSING, np.random.default_rng(5).normal(9, 2, 8), np.linspace(1, 4, 8)
    found = reconcile(y, d, sums, together=0.25)
    b = np.zeros((8, 2))
    for k, parts in enumerate(sums[0].parts):
        b[parts, k] = np.sqrt(0.25 * d[parts])
    own = np.where(b.sum(axis=1) > 0, 0.75 * d, d)
    z, _ = solve_least_squares(y, np.diag(own) + b @ b.T, rows(*sums, count=8))
    np.testing.assert_allclose(found.values, z, rtol=1e-9)


@given(st.floats(0.01, 50), st.floats(0.01, 50), st.integers(1, 40))
def test_one_total_is_the_closed_form_and_its_own_noise_is_left_by_its_variance(total, part, count):
    y = np.random.default_rng(count).normal(5, 2, count + 1)
    found = reconcile(y, np.array([total**2] + [part**2] * count), [whole(0, np.arange(1, count + 1))])
    gap, both = y[0] - y[1:].sum(), total**2 + count * part**2
    np.testing.assert_allclose(found.values[0], y[0] - total**2 / both * gap, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.values[1:], y[1:] + part**2 / both * gap, rtol=1e-9, atol=1e-9)
    assert math.isclose(found.variances[0], total**2 * (1 - total**2 / both), rel_tol=1e-6, abs_tol=1e-9)
    assert math.isclose(found.variances[1], part**2 * (1 - part**2 / both), rel_tol=1e-6, abs_tol=1e-9)


def test_shared_noise_is_counted():
    """Two parts with the very same noise: what they share does not average out, and the total is worth more beside them."""
    y, city = np.array([10.0, 3.0, 3.0]), [whole(0, [1, 2])]
    found = reconcile(y, np.array([1.0, 0, 0]), city, [Common(np.array([1, 2]), np.ones(2))])
    assert found.values.round(9).tolist() == [
        9.2,
        4.6,
        4.6,
    ]  # of d = 4 the parts, of variance 4 in all, take 4/5, the total 1/5
    np.testing.assert_allclose(found.variances, [0.8, 0.2, 0.2], rtol=1e-9)
    assert reconcile(y, np.ones(3), city).values.round(4).tolist() == [8.6667, 4.3333, 4.3333]


def test_in_units_of_their_bands_errors_never_grow_however_they_are_correlated():
    """Over all values of a step, for any errors at all: the truth adds up, and the projection is orthogonal in that norm."""
    rng, truth = np.random.default_rng(6), settle(np.arange(9.0), LEVELS)
    for _ in range(200):
        bands, errors = rng.uniform(0.1, 5, 9), rng.normal(size=9) * rng.uniform(0, 9, 9) + rng.normal(0, 5)
        after = reconcile(truth + errors, bands**2, LEVELS).values - truth
        assert ((after / bands) ** 2).sum() <= ((errors / bands) ** 2).sum() * (1 + 1e-12)


# Which values add up --------------------------------------------------------------------------------------------------


def series(first, starts, ends, cells=1):
    numbers = first + np.arange(len(starts) * cells).reshape(len(starts), cells)
    return Series(np.arange(1, len(starts) + 1), np.array(starts), np.array(ends), numbers, [ONE] * cells)


def test_a_day_is_the_sum_of_its_hours_where_all_of_them_are_there():
    """Days 0, 1, 2, 3 of 4, 3, 5 and 4 hours; of day 0 the first hour is not published, of day 3 one in the middle."""
    edges = [0, 4, 7, 12, 16]
    there = [h for h in range(16) if h not in (0, 13)]
    days, hours = series(0, edges[:-1], edges[1:], 2), series(100, there, [h + 1 for h in there], 2)
    found = make_sums(Rule("days", "hours", over_time=True), days, hours, 1)
    held = {int(t): [int(p) for p in parts] for s in found for t, parts in zip(s.totals, s.parts, strict=True)}
    number = {h: 100 + 2 * i for i, h in enumerate(there)}
    assert held == {
        2 * day + lane: [number[h] + lane for h in range(edges[day], edges[day + 1])]
        for day in (1, 2)
        for lane in (0, 1)
    }
    means = make_sums(Rule("days", "hours", over_time=True, is_mean=True), days, hours, 1)
    assert sorted(s.divisor for s in means) == [3, 5]
    empty = series(0, [], [], 2)
    assert make_sums(Rule("days", "hours", over_time=True), days, empty, 1) == []
    assert make_sums(Rule("days", "hours", over_time=True), empty, hours, 1) == []


def test_groups_lie_in_groups():
    """Two boroughs of two and three zones, bins of a histogram by themselves, steps that both have."""
    given = (([1, 2, 4], np.arange(12).reshape(3, 4)), ([2, 3, 4], 100 + np.arange(30).reshape(3, 10)))
    boroughs, zones = (Series(*[np.array(steps)] * 3, cells, [ONE] * cells.shape[1]) for steps, cells in given)
    found = make_sums(Rule("boroughs", "zones", members=(0, 1, 1, 0, 1)), boroughs, zones, 1)
    held = {int(t): [int(p) for p in parts] for s in found for t, parts in zip(s.totals, s.parts, strict=True)}
    assert held[4] == [100, 106]  # step 2, the first borough, the first bin: zones 0 and 3
    assert held[7] == [103, 105, 109]
    assert sorted(held) == [4, 5, 6, 7, 8, 9, 10, 11]
    with pytest.raises(InvalidInput, match="10 numbers of zones cannot be parts of 4 of boroughs"):
        make_sums(Rule("boroughs", "zones", members=(0, 1, 2, 0, 1)), boroughs, zones, 1)


# Non-negative ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_non_negative_parts_solve_the_quadratic_program(seed):
    """Against SciPy's active-set solver: the sum is one more equation, of next to no variance."""
    rng = np.random.default_rng(seed)
    parts, v, a = rng.normal(0, 5, (1, 6)), rng.uniform(0.1, 9, (1, 6)), rng.uniform(0.2, 3, 6)
    total = np.abs(rng.normal(20, 9, 1)) * (0.2 if seed % 2 else 1.0)
    found = project_non_negative(parts, total, v, a)[0]
    root, sure = 1 / np.sqrt(v[0]), 1e5
    expected, _ = nnls(np.vstack([np.diag(root), sure * a]), np.concatenate([parts[0] * root, sure * total]))
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert (found >= 0).all()
    assert math.isclose(a @ found, total[0], rel_tol=1e-9)


def test_levels_are_held_above_0_from_the_top_down():
    y = np.array([5.0, 6.0, -1.0, 8.0, -2.0, 1.0, -2.0])
    found = hold_above_zero(y, np.ones(7), LEVELS)
    assert found.tolist() == [5.0, 5.0, 0.0, 5.0, 0.0, 0.0, 0.0]
    np.testing.assert_allclose(rows(*LEVELS, count=7) @ found, 0, atol=1e-12)


def test_exact_parts_among_noisy_ones_stay():
    """Half hours of a day of which some were published without noise."""
    day = [whole(0, [1, 2, 3])]
    found = hold_above_zero(np.array([4.0, 3.0, 5.0, -4.0]), np.array([1.0, 0.0, 1.0, 1.0]), day)
    np.testing.assert_allclose(found, [4.0, 3.0, 1.0, 0.0], atol=1e-9)


def test_parts_that_are_not_negative_and_add_up_stay():
    parts, v = np.array([[1.0, 4.0, 0.0]]), np.array([[1.0, 2.0, 3.0]])
    assert project_non_negative(parts, np.array([5.0]), v, np.ones(3)).tolist() == [[1.0, 4.0, 0.0]]
    assert project_non_negative(parts, np.array([0.0]), v, np.ones(3)).tolist() == [[0.0, 0.0, 0.0]]
    negative = np.array([[-1.0, 2.0]])  # exact values are not touched
    assert (project_non_negative(negative, np.array([1.0]), np.zeros((1, 2)), np.ones(2)) == negative).all()


# Exactly --------------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(-1e9, 1e9, allow_subnormal=False), min_size=1, max_size=6),
    st.lists(st.integers(1, 10**6), min_size=6, max_size=6),
    st.integers(1, 10**7),
)
def test_a_settled_total_is_the_sum_in_every_order(parts, weights, divisor):
    w, count = np.array(weights[: len(parts)]), len(parts)
    found = settle(np.array([*parts, 0.0]), [whole(count, np.arange(count), w, divisor)])
    terms = [int(n) * x for n, x in zip(w, found[:-1].tolist(), strict=True)]
    orders = itertools.islice(itertools.permutations(terms), 24)
    assert all(sum(order) / divisor == found[-1] for order in orders)
    reach = float((w * np.abs(parts)).sum())
    assert np.abs(found[:-1] - parts).max() <= reach * 2.0**-51 + 2.0**-1000
    assert (
        abs(found[-1] - math.fsum(n * x for n, x in zip(w, parts, strict=True)) / divisor)
        <= (reach * 2.0**-51 + 2.0**-1000) * (w.sum() + 1) / divisor
    )


@pytest.mark.parametrize("sums", [LEVELS, CROSSING], ids=["levels", "crossing"])
def test_every_level_is_the_exact_sum_of_the_next_and_of_the_lowest(sums):
    rng = np.random.default_rng(7)
    for size in (1.0, 1e-300, 1e15):
        values = rng.normal(1, 3, 9) * 10 ** rng.uniform(-6, 0, 9) * size
        found = settle(values, sums)
        assert adds_up(found, sums)
        for s in sums:
            for total, parts in zip(s.totals, s.parts, strict=True):
                assert all(sum(found[list(p)].tolist()) == found[total] for p in itertools.permutations(parts))
        assert found[8] == values[8]
    found = settle(rng.normal(1, 3, 9), LEVELS)
    assert all(sum(found[list(p)].tolist()) == found[0] for p in itertools.permutations(range(3, 7)))


def test_means_hold_for_readers_who_know_the_people():
    """Shares of 3/5 and 2/5 of 500 people: 300 and 200 times the means, over 500, is the total's, to the last bit."""
    rng = np.random.default_rng(8)
    for _ in range(200):
        x, y, total = settle(rng.normal(1, 1, 3), [whole(2, [0, 1], [3, 2], 5, people=100)]).tolist()
        assert (300 * x + 200 * y) / 500 == (3 * x + 2 * y) / 5 == total


def test_settled_values_are_shown_in_csv_and_read_back_to_the_same_sum():
    rng = np.random.default_rng(7)
    numbers = np.arange(200 * 18).reshape(200, 18)
    found = settle(rng.normal(100, 40, 200 * 18), [whole(numbers[:, 17], numbers[:, :17])]).reshape(200, 18)
    read = np.array([[float(repr(x)) for x in row] for row in found.tolist()])
    for order in (np.arange(17), np.arange(17)[::-1], rng.permutation(17)):
        assert (read[:, order].cumsum(axis=1)[:, -1] == found[:, 17]).all()


# Error bands ----------------------------------------------------------------------------------------------------------


def exceed(x, scales, counts):
    """P(|Σ Laplace noises| > x) by inverting the characteristic function Π (1 + b²u²)^−count."""
    deviation = math.sqrt(sum(2 * n * b * b for b, n in zip(scales, counts, strict=True)))
    u = np.linspace(0, 400 / deviation, 200_001)[1:]
    f = np.prod([(1 + (b * u) ** 2) ** -float(n) for b, n in zip(scales, counts, strict=True)], axis=0)
    integral = np.trapezoid(np.concatenate([[x], np.sin(u * x) / u * f]), np.concatenate([[0], u]))
    return 1 - 2 / math.pi * integral


@pytest.mark.parametrize("count", [2, 16, 100])
@pytest.mark.parametrize("total", [0.1, 1.0, 5.0, 30.0])
def test_bands_of_the_mixtures_hold_95_per_cent_or_a_little_more(total, count):
    """Of the share m = Var ẑ/v of its own noise and the rest of others, taken as one noise."""
    found = reconcile(np.zeros(count + 1), np.array([total**2] + [1.0] * count), [whole(0, np.arange(1, count + 1))])
    m = found.variances[0] / total**2
    own, others = m * total, total * math.sqrt(m - m * m)
    beyond = exceed(math.log(20) * find_spread((own, others), "laplace"), [own, others / count**0.5], [1, count])
    assert 0.035 < beyond <= 0.0501
    m, moved = found.variances[1], 1 / (total**2 + count)
    own, others = m, math.sqrt(m - m * m)
    scales, counts = [own, moved, moved * total], [1, count - 1, 1]
    assert math.isclose(others, math.hypot(moved * (count - 1) ** 0.5, moved * total), rel_tol=1e-9)
    assert 0.047 < exceed(math.log(20) * find_spread((own, others), "laplace"), scales, counts) <= 0.0501


def test_simulated_errors_have_the_variance_that_is_claimed():
    """20,000 steps of a total and 16 zones: root mean squares within 3 % of what is claimed, 10 % off would be seen."""
    rng, steps, b0, b = np.random.default_rng(5), 20_000, 3.0, 1.0
    noise = np.concatenate([rng.laplace(0, b0, (steps, 1)), rng.laplace(0, b, (steps, 16))], axis=1)
    numbers = np.arange(noise.size).reshape(noise.shape)
    variances = np.tile([2 * b0**2, *[2 * b * b] * 16], steps)
    found = reconcile(noise.ravel(), variances, [whole(numbers[:, 0], numbers[:, 1:])])
    after, left = found.values.reshape(noise.shape), found.variances.reshape(noise.shape)[0]
    assert math.isclose(after[:, 0].std(), math.sqrt(left[0]), rel_tol=0.03)
    assert math.isclose(after[:, 1:].std(), math.sqrt(left[1]), rel_tol=0.02)
    assert after[:, 0].std() < 0.82 * noise[:, 0].std()  # 3·√(16/25) = 2.4: four fifths
    assert (np.abs(after[:, 1:].sum(axis=1) - after[:, 0]) < 1e-10).all()


# Refused --------------------------------------------------------------------------------------------------------------


def test_what_cannot_be_reconciled_is_refused():
    y, d = np.ones(7), np.ones(7)
    for wrong in (
        lambda: reconcile(y, d[:3], [CITY]),
        lambda: reconcile(y * np.nan, d, [CITY]),
        lambda: reconcile(y, -d, [CITY]),
        lambda: project_non_negative(np.ones((1, 2)), -np.ones(1), np.ones((1, 2)), np.ones(2)),
        lambda: project_non_negative(np.ones((1, 2)), np.ones(1), np.array([[0.0, 1.0]]), np.ones(2)),
        lambda: whole(0, [1, 2], [0, 1]),
        lambda: whole([0, 1], [2, 3]),
        lambda: solve_least_squares(np.ones(2), np.eye(3), np.ones((1, 2))),
        lambda: solve_least_squares(np.ones(2), np.array([[1.0, 0.5], [0.0, 1.0]]), np.ones((1, 2))),
    ):
        with pytest.raises(InvalidInput):
            wrong()
