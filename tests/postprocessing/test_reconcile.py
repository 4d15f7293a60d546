"""Reconciliation against direct solves: least squares on stacked equations, a quadratic program, exact sums, simulated noise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from halflife.errors import InvalidInput
from halflife.postprocessing.reconcile.least_squares import (
    mixture_of_part,
    mixture_of_total,
    project_non_negative,
    reconcile,
    settle,
    solve_least_squares,
)
from halflife.publisher.drawing import find_spread


def draw_case(seed, parts=5, lanes=2, steps=3):
    rng = np.random.default_rng(seed)
    total, values = rng.normal(20, 9, (steps, lanes)), rng.normal(4, 5, (steps, parts, lanes))
    variances = rng.uniform(0.1, 9, (steps, lanes)), rng.uniform(0.1, 9, values.shape)
    return total, values, *variances, rng.uniform(0.2, 3, parts)


def fit_parts(total, parts, v0, v, a):
    """The estimates by an independent way: weighted least squares of total and parts on the parts, nothing eliminated."""
    design = np.vstack([a, np.eye(len(a))])
    root = 1 / np.sqrt(np.concatenate([[v0], v]))
    return np.linalg.lstsq(design * root[:, None], np.concatenate([[total], parts]) * root, rcond=None)[0]


# Generalised least squares --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_estimates_are_those_of_a_direct_weighted_fit_and_of_the_dense_solve(seed):
    total, parts, v0, v, a = draw_case(seed)
    found = reconcile(total, parts, v0, v, a)
    for k, lane in itertools.product(range(len(total)), range(total.shape[1])):
        direct = fit_parts(total[k, lane], parts[k, :, lane], v0[k, lane], v[k, :, lane], a)
        np.testing.assert_allclose(found.parts[k, :, lane], direct, rtol=1e-9)
        np.testing.assert_allclose(found.total[k, lane], a @ direct, rtol=1e-9)
        stacked = np.concatenate([[total[k, lane]], parts[k, :, lane]])
        spread = np.concatenate([[v0[k, lane]], v[k, :, lane]])
        z, _ = solve_least_squares(stacked, np.diag(spread), np.concatenate([[1.0], -a])[None])
        np.testing.assert_allclose(z, np.concatenate([[found.total[k, lane]], found.parts[k, :, lane]]), rtol=1e-9)


@given(st.floats(0, 50), st.floats(0, 50), st.integers(1, 40))
def test_mixtures_have_the_variance_of_the_dense_solve_and_no_variance_grows(total, part, count):
    rows = np.concatenate([[1.0], -np.ones(count)])[None]
    variances = np.concatenate([[total**2], np.full(count, part**2)])
    if variances.max() > 0 and variances[variances > 0].min() < 1e-8:
        return  # where the dense solve is itself ill-conditioned
    _, cov = solve_least_squares(np.zeros(count + 1), np.diag(variances), rows)
    whole, one = mixture_of_total(total, part, count), mixture_of_part(total, part, count)
    np.testing.assert_allclose([math.hypot(*whole) ** 2, math.hypot(*one) ** 2], np.diag(cov)[:2], rtol=1e-6, atol=1e-9)
    assert math.hypot(*whole) <= total * (1 + 1e-12)
    assert math.hypot(*one) <= part * (1 + 1e-12)


def test_three_levels_and_widths_are_rows_of_the_dense_solve():
    """City, two districts, four zones; and a day of three hours: estimates add up everywhere, and equal a direct fit."""
    zones = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], *np.eye(4)])
    rng, variances = np.random.default_rng(3), np.array([1.0, 2, 2, 5, 5, 5, 5])
    y = zones @ rng.normal(10, 3, 4) + rng.normal(size=7) * np.sqrt(variances)
    rows = np.array([[1.0, -1, -1, 0, 0, 0, 0], [0, 1, 0, -1, -1, 0, 0], [0, 0, 1, 0, 0, -1, -1]])
    z, cov = solve_least_squares(y, np.diag(variances), rows)
    root = 1 / np.sqrt(variances)
    direct = np.linalg.lstsq(zones * root[:, None], y * root, rcond=None)[0]
    np.testing.assert_allclose(z, zones @ direct, rtol=1e-9)
    np.testing.assert_allclose(cov, zones @ np.linalg.inv((zones.T * root**2) @ zones) @ zones.T, rtol=1e-8, atol=1e-10)
    assert (np.diag(cov) < variances).all()


def test_shared_noise_is_counted():
    """Two parts with the very same noise: what they share does not average out, and the total is worth more beside them."""
    shared = np.array([[1.0, 0, 0], [0, 1, 1], [0, 1, 1]])
    rows = np.array([[1.0, -1, -1]])
    z, cov = solve_least_squares(np.array([10.0, 3.0, 3.0]), shared, rows)
    assert z.round(9).tolist() == [9.2, 4.6, 4.6]  # of d = 4 the parts, of variance 4 in all, take 4/5, the total 1/5
    np.testing.assert_allclose(np.diag(cov), [0.8, 0.2, 0.2], rtol=1e-9)
    independent, _ = solve_least_squares(np.array([10.0, 3.0, 3.0]), np.eye(3), rows)
    assert independent.round(4).tolist() == [8.6667, 4.3333, 4.3333]


def test_what_is_exact_stays():
    total, parts, v0, v, a = draw_case(1)
    found = reconcile(total, parts, np.zeros_like(v0), v, a)
    assert (found.total == total).all()
    exact = (a[:, None] * parts).sum(axis=1)
    same = reconcile(exact, parts, np.zeros_like(v0), np.zeros_like(v), a)
    assert (same.parts == parts).all()
    assert (same.total == exact).all()


# Non-negative ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_non_negative_parts_solve_the_quadratic_program(seed):
    """Against SciPy's active-set solver: the sum is one more equation, of next to no variance."""
    total, parts, _, v, a = draw_case(seed, parts=6, lanes=1, steps=1)
    parts, total = parts - 4, np.abs(total) * (0.2 if seed % 2 else 1.0)
    found = project_non_negative(parts, total, v, a)[0, :, 0]
    root, sure = 1 / np.sqrt(v[0, :, 0]), 1e5
    expected, _ = nnls(
        np.vstack([np.diag(root), sure * a]), np.concatenate([parts[0, :, 0] * root, [sure * total[0, 0]]])
    )
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert (found >= 0).all()
    assert math.isclose(a @ found, total[0, 0], rel_tol=1e-9)


def test_parts_that_are_not_negative_and_add_up_stay():
    parts, v = np.array([[[1.0], [4.0], [0.0]]]), np.array([[[1.0], [2.0], [3.0]]])
    assert project_non_negative(parts, np.array([[5.0]]), v, np.ones(3)).ravel().tolist() == [1.0, 4.0, 0.0]
    assert project_non_negative(parts, np.array([[0.0]]), v, np.ones(3)).ravel().tolist() == [0.0, 0.0, 0.0]
    negative = np.array([[[-1.0], [2.0]]])  # exact values are not touched
    assert (project_non_negative(negative, np.array([[1.0]]), np.zeros((1, 2, 1)), np.ones(2)) == negative).all()


# Exactly --------------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(-1e9, 1e9, allow_subnormal=False), min_size=1, max_size=6),
    st.lists(st.integers(1, 10**6), min_size=6, max_size=6),
    st.integers(1, 10**7),
)
def test_a_settled_total_is_the_sum_in_every_order(parts, weights, divisor):
    values, w = np.array(parts)[None, :, None], np.array(weights[: len(parts)])
    found = settle(values, w, divisor)
    terms = [int(n) * x for n, x in zip(w, found.parts.ravel().tolist(), strict=True)]
    orders = itertools.islice(itertools.permutations(terms), 24)
    assert all(sum(order) / divisor == found.total[0, 0] for order in orders)
    reach = float((w * np.abs(parts)).sum())
    assert np.abs(found.parts - values).max() <= reach * 2.0**-51
    assert (
        abs(found.total[0, 0] - math.fsum(n * x for n, x in zip(w, parts, strict=True)) / divisor)
        <= reach * 2.0**-51 * (w.sum() + 1) / divisor
    )


def test_settled_values_are_shown_in_csv_and_read_back_to_the_same_sum():
    rng = np.random.default_rng(7)
    found = settle(rng.normal(100, 40, (200, 17, 1)), np.ones(17, dtype=np.int64), 1)
    read = np.array([[float(repr(x)) for x in row] for row in found.parts[:, :, 0].tolist()])
    for order in (slice(None), slice(None, None, -1), rng.permutation(17)):
        assert (read[:, order].cumsum(axis=1)[:, -1] == found.total[:, 0]).all()


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
    own, others = mixture_of_total(total, 1.0, count)
    beyond = exceed(math.log(20) * find_spread((own, others), "laplace"), [own, others / count**0.5], [1, count])
    assert 0.035 < beyond <= 0.0501
    own, others = mixture_of_part(total, 1.0, count)
    moved = 1 / (total**2 + count)
    scales, counts = [own, moved, moved * total], [1, count - 1, 1]
    assert math.isclose(others, math.hypot(moved * (count - 1) ** 0.5, moved * total), rel_tol=1e-12)
    assert 0.047 < exceed(math.log(20) * find_spread((own, others), "laplace"), scales, counts) <= 0.0501


def test_simulated_errors_have_the_variance_that_is_claimed():
    """20,000 steps of a total and 16 zones: root mean squares within 2 % of the mixtures, 10 % off would be seen."""
    rng, count, b0, b = np.random.default_rng(5), 16, 3.0, 1.0
    total, parts = rng.laplace(0, b0, (20_000, 1)), rng.laplace(0, b, (20_000, count, 1))
    found = reconcile(total, parts, np.array(b0**2), np.array(b**2), np.ones(count))
    assert math.isclose(found.total.std(), math.sqrt(2) * math.hypot(*mixture_of_total(b0, b, count)), rel_tol=0.03)
    assert math.isclose(found.parts.std(), math.sqrt(2) * math.hypot(*mixture_of_part(b0, b, count)), rel_tol=0.02)
    assert found.total.std() < 0.82 * total.std()  # 3·√(16/25) = 2.4: four fifths
    assert (np.abs(found.parts.sum(axis=1) - found.total) < 1e-10).all()


# Refused --------------------------------------------------------------------------------------------------------------


def test_what_cannot_be_reconciled_is_refused():
    total, parts, v0, v, a = draw_case(1)
    for wrong in (
        lambda: reconcile(total[:1], parts, v0, v, a),
        lambda: reconcile(total, parts, v0, v, a[:2]),
        lambda: reconcile(total * np.nan, parts, v0, v, a),
        lambda: reconcile(total, parts, -v0, v, a),
        lambda: project_non_negative(parts, -np.abs(total), v, a),
        lambda: project_non_negative(parts, np.abs(total), v * np.array([0, 1, 1, 1, 1])[:, None], a),
        lambda: settle(parts, np.zeros(5, dtype=np.int64), 1),
        lambda: solve_least_squares(np.ones(2), np.eye(3), np.ones((1, 2))),
        lambda: solve_least_squares(np.ones(2), np.array([[1.0, 0.5], [0.0, 1.0]]), np.ones((1, 2))),
    ):
        with pytest.raises(InvalidInput):
            wrong()
